package state_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/state"
)

// full returns a job with something in every field.
func full(t *testing.T, n int) (job journal.Job) {
	t.Helper()
	fields := reflect.ValueOf(&job).Elem()
	for i := range fields.NumField() {
		field := fields.Field(i)
		switch v := field.Addr().Interface().(type) {
		case *string:
			*v = "text \x00'" + strconv.Itoa(n*100+i)
		case *journal.State:
			*v = journal.Active
		case *int:
			*v = n*100 + i
		case *int64:
		case *bool:
			*v = n%2 == 0
		case *time.Time:
			*v = now.Add(time.Duration(n*100+i) * time.Minute)
		case *float64:
			*v = float64(n*100+i) + 0.25
		case *[]string:
			*v = []string{"one", strconv.Itoa(n*100 + i)}
		default:
			t.Fatalf("no value for a field of type %T", v)
		}
	}
	return job
}

func apply(t *testing.T, db *state.DB, changes ...journal.Change) []journal.Job {
	t.Helper()
	jobs, err := db.Apply(t.Context(), changes...)
	check(t, err)
	return jobs
}

// job returns a job of a prompt in a state.
func job(prompt string, st journal.State) journal.Job {
	return journal.Job{Prompt: prompt, Try: 1, Project: "prj_a", Path: prompt + ".md", State: st}
}

func add(t *testing.T, db *state.DB, j journal.Job) journal.Job {
	t.Helper()
	return apply(t, db, journal.Change{Job: j, At: now, Cause: "it is wanted"})[0]
}

func jobs(t *testing.T, db *state.DB) []journal.Job {
	t.Helper()
	all, err := db.Jobs(t.Context())
	check(t, err)
	return all
}

// TestJobsKeepEverything: each field comes back, as entered and as changed; the
// texts only for a single job.
func TestJobsKeepEverything(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	for n := range 2 {
		want := full(t, n)
		want.Seq, want.Version = 0, 0
		got := add(t, db, want)
		want.Seq, want.Version = got.Seq, 1
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Apply (-want +got):\n%s", diff)
		}
		changed := full(t, n+5)
		changed.Seq, changed.Version = got.Seq, got.Version
		apply(t, db, journal.Change{Job: changed, From: journal.Active})
		changed.Version++
		check(t, db.Close())
		db = open(t, dir)
		stored, err := db.Job(t.Context(), got.Seq)
		check(t, err)
		if diff := cmp.Diff(changed, stored); diff != "" {
			t.Errorf("Job (-want +got):\n%s", diff)
		}
		changed.Text, changed.FollowUps = "", nil
		if diff := cmp.Diff(changed, jobs(t, db)[n]); diff != "" {
			t.Errorf("Jobs (-want +got):\n%s", diff)
		}
	}
}

// TestTextsStay: a change of a job that was read without its texts keeps them.
func TestTextsStay(t *testing.T) {
	db := open(t, t.TempDir())
	j := job("a", journal.Submitting)
	j.Text, j.FollowUps = "do it", []string{"and this"}
	add(t, db, j)
	listed := jobs(t, db)[0]
	listed.State = journal.Active
	apply(t, db, journal.Change{Job: listed, From: journal.Submitting})
	got, err := db.Job(t.Context(), listed.Seq)
	if check(t, err); got.Text != j.Text || !cmp.Equal(got.FollowUps, j.FollowUps) || got.State != journal.Active {
		t.Errorf("%+v", got)
	}
	got.Text, got.FollowUps = "another", nil // the file had changed before it was sent
	apply(t, db, journal.Change{Job: got, From: journal.Active})
	if got, err = db.Job(t.Context(), listed.Seq); err != nil || got.Text != "another" || got.FollowUps != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestNoSuchJob(t *testing.T) {
	_, err := open(t, t.TempDir()).Job(t.Context(), 7)
	if !errors.Is(err, journal.ErrNoJob) {
		t.Error(err)
	}
	wantMessage(t, err, "job 7")
}

// TestDuplicateIsRefused: prompt, firing and attempt together name one job.
func TestDuplicateIsRefused(t *testing.T) {
	db := open(t, t.TempDir())
	first := add(t, db, job("a", journal.Submitting))
	same := job("a", journal.Submitting)
	same.Text = "another text"
	_, err := db.Apply(t.Context(), journal.Change{Job: same, At: now, Cause: "again", Event: &journal.Event{Kind: "failed", At: now, Body: []byte("{}")}})
	if !errors.Is(err, journal.ErrDuplicate) {
		t.Fatal(err)
	}
	wantMessage(t, err, "prompt a", "try 1")
	if got := jobs(t, db); len(got) != 1 || !cmp.Equal(got[0], first) {
		t.Errorf("jobs %+v", got)
	}
	noNotes(t, db)
	for _, other := range []journal.Job{
		{Prompt: "b", Try: 1}, {Prompt: "a", Try: 2}, {Prompt: "a", Try: 1, Firing: now}, {Prompt: "A", Try: 1},
	} {
		add(t, db, other)
	}
}

func noNotes(t *testing.T, db *state.DB) {
	t.Helper()
	if notes, err := db.Events(t.Context(), 10); err != nil || len(notes) > 0 {
		t.Errorf("notes %+v, %v", notes, err)
	}
}

// TestLostRaceChangesNothing: if a job was changed since it was read, or is in
// another state, nothing of the whole change is made.
func TestLostRaceChangesNothing(t *testing.T) {
	db := open(t, t.TempDir())
	old := add(t, db, job("a", journal.Active))
	other := add(t, db, job("b", journal.Active))
	held := old
	held.Reason = "somebody else's"
	now1 := apply(t, db, journal.Change{Job: held, From: journal.Active})[0]

	stale, wrong := old, now1
	stale.State, wrong.State = journal.Failed, journal.Failed
	gone := now1
	gone.Seq = 99
	for name, c := range map[string]journal.Change{
		"stale":       {Job: stale, From: journal.Active},
		"wrong state": {Job: wrong, From: journal.Unknown},
		"no such job": {Job: gone, From: journal.Active},
	} {
		c.At, c.Cause, c.Event = now, "it failed", &journal.Event{Kind: "failed", At: now, Body: []byte("{}")}
		second := other
		second.State = journal.Failed
		_, err := db.Apply(t.Context(), journal.Change{Job: second, From: journal.Active, At: now, Cause: "it failed"}, c)
		if !errors.Is(err, journal.ErrRaced) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff([]journal.Job{now1, other}, jobs(t, db)); diff != "" {
		t.Error(diff)
	}
	noNotes(t, db)
	if n := counter(t, db, "agent_jobs_finished_total", state.Labels("project", "prj_a", "result", "failed")); n != 0 {
		t.Errorf("%d ends counted", n)
	}
	if events, err := db.History(t.Context(), other.Seq); err != nil || len(events) != 1 {
		t.Errorf("events %+v, %v", events, err)
	}
}

// TestAnIDIsOneJobs: a second job of the project does not get the id, and nothing of
// the change is made. A journal that has it twice already stays usable.
func TestAnIDIsOneJobs(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	a, b := add(t, db, job("a", journal.Active)), add(t, db, job("b", journal.Submitting))
	a.JobID = "j"
	a = apply(t, db, journal.Change{Job: a, From: journal.Active})[0]
	b.State, b.JobID = journal.Active, "j"
	_, err := db.Apply(t.Context(), journal.Change{Job: b, From: journal.Submitting, At: now, Cause: "accepted", Event: &journal.Event{Kind: "x", At: now}})
	taken, ok := errors.AsType[*journal.TakenError](err)
	if !ok || *taken != (journal.TakenError{JobID: "j", By: a.Seq, Prompt: "a"}) {
		t.Fatal(err)
	}
	noNotes(t, db)
	if stored, err := db.Job(t.Context(), b.Seq); err != nil || stored.State != journal.Submitting || stored.JobID != "" {
		t.Errorf("%+v, %v", stored, err)
	}
	elsewhere := job("c", journal.Active)
	elsewhere.Project, elsewhere.JobID = "prj_b", "j"
	add(t, db, elsewhere)

	if _, err := raw(t, dir).Exec(`UPDATE jobs SET job_id = 'j' WHERE prompt = 'b'`); err != nil {
		t.Fatal(err)
	}
	a.Polls++
	apply(t, db, journal.Change{Job: a, From: journal.Active})
	apply(t, db, journal.Change{Job: b, From: journal.Submitting})
}

// TestEndsAreCounted: each end once, and only of jobs that the service has.
func TestEndsAreCounted(t *testing.T) {
	db := open(t, t.TempDir())
	for i, tc := range []struct {
		state      journal.State
		id, pr     string
		result     string
		afterwards bool // one more change
	}{
		{journal.Completed, "j", "https://example.com/1", "pr", true},
		{journal.Completed, "j", "", "no_pr", true},
		{journal.Completed, "", "", "", false}, // adopted
		{journal.Failed, "j", "", "failed", false},
		{journal.Archived, "j", "", "archived", false},
		{journal.Lost, "j", "", "lost", true},
		{journal.Cancelled, "", "", "", false},
		{journal.Rejected, "", "", "", false},
		{journal.Unknown, "", "", "", false},
	} {
		j := add(t, db, job(strconv.Itoa(i), journal.Active))
		if j.State, j.PRLink = tc.state, tc.pr; tc.id != "" {
			j.JobID = tc.id + strconv.Itoa(i)
		}
		j = apply(t, db, journal.Change{Job: j, From: journal.Active, At: now, Cause: "it ended"})[0]
		if tc.afterwards {
			apply(t, db, journal.Change{Job: j, From: tc.state})
		}
		want := int64(1)
		if tc.result == "" {
			want = 0
		}
		if got := counter(t, db, "agent_jobs_finished_total", state.Labels("project", "prj_a", "result", tc.result)); got != want {
			t.Errorf("%s with id %q and link %q: %d counted as %q", tc.state, tc.id, tc.pr, got, tc.result)
		}
	}
	counts, err := db.Counters(t.Context())
	if check(t, err); len(counts) != 5 {
		t.Errorf("counters %+v", counts)
	}
}

func TestEvents(t *testing.T) {
	db := open(t, t.TempDir())
	j := add(t, db, job("a", journal.Submitting))
	j.State = journal.Active
	j = apply(t, db, journal.Change{Job: j, From: journal.Submitting, At: now.Add(time.Second), Cause: "accepted"})[0]
	j.Polls++
	apply(t, db, journal.Change{Job: j, From: journal.Active, At: now.Add(time.Minute)}) // nothing to tell
	q, err := db.Queue(t.Context())
	check(t, err)
	q.Paused = journal.PausedOperator
	apply(t, db, journal.Change{Queue: &q, At: now, Cause: "tea"})

	got, err := db.History(t.Context(), j.Seq)
	check(t, err)
	want := []journal.Transition{
		{At: now, Job: j.Seq, To: journal.Submitting, Cause: "it is wanted"},
		{At: now.Add(time.Second), Job: j.Seq, From: journal.Submitting, To: journal.Active, Cause: "accepted"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got, err = db.History(t.Context(), 0)
	check(t, err)
	if diff := cmp.Diff([]journal.Transition{{At: now, To: "operator", Cause: "tea"}}, got); diff != "" {
		t.Error(diff)
	}
}

// TestHistoryIsBounded: a prompt that recurs for years keeps its newest jobs, and a
// job that is tried for weeks its newest events.
func TestHistoryIsBounded(t *testing.T) {
	db := open(t, t.TempDir())
	live := add(t, db, job("a", journal.Unknown))
	for i := range 30 {
		j := job("a", journal.Failed)
		j.Firing = now.Add(time.Duration(i+1) * time.Hour)
		j.Text = "text " + strconv.Itoa(i)
		add(t, db, j)
	}
	other := add(t, db, job("b", journal.Completed))
	all := jobs(t, db)
	if len(all) != 22 || all[0].Seq != live.Seq || all[len(all)-1].Seq != other.Seq {
		t.Errorf("%d jobs are kept, want 20, the one that has not ended, and that of the other prompt", len(all))
	}
	for _, j := range all[1:21] {
		if j.Firing.Before(now.Add(11 * time.Hour)) {
			t.Errorf("firing %v is kept", j.Firing)
		}
	}
	if n := count(t, db, "job_texts"); n != 20 {
		t.Errorf("%d texts are kept", n)
	}
	if n := count(t, db, "job_events"); n != 22 {
		t.Errorf("%d events are kept", n)
	}
	for i := range 250 {
		live.Refusals = i
		live = apply(t, db, journal.Change{Job: live, From: journal.Unknown, At: now, Cause: strconv.Itoa(i)})[0]
	}
	events, err := db.History(t.Context(), live.Seq)
	if check(t, err); len(events) != 200 || events[199].Cause != "249" {
		t.Errorf("%d events are kept", len(events))
	}
}

func count(t *testing.T, db *state.DB, table string) (n int) {
	t.Helper()
	check(t, raw(t, db.Dir()).QueryRow("SELECT count(*) FROM "+table).Scan(&n))
	return n
}

// TestChargedJobsAreKept: the cap per day counts them.
func TestChargedJobsAreKept(t *testing.T) {
	db := open(t, t.TempDir())
	for i := range 60 {
		j := job("a", journal.Failed)
		j.Try = i + 1
		j.Charged = now
		add(t, db, j)
	}
	if got := len(jobs(t, db)); got != 60 {
		t.Errorf("%d of 60 jobs of today are kept", got)
	}
	j := job("a", journal.Failed)
	j.Try = 61
	apply(t, db, journal.Change{Job: j, At: now.Add(49 * time.Hour), Cause: "days later"})
	if got := len(jobs(t, db)); got != 20 {
		t.Errorf("%d jobs are kept two days later", got)
	}
}

// TestNumbersAreNotUsedAgain: an operator's command must not meet another job.
func TestNumbersAreNotUsedAgain(t *testing.T) {
	db := open(t, t.TempDir())
	j := add(t, db, job("a", journal.Failed))
	_, err := raw(t, db.Dir()).Exec("DELETE FROM jobs")
	check(t, err)
	if next := add(t, db, job("b", journal.Failed)); next.Seq <= j.Seq {
		t.Errorf("number %d after %d", next.Seq, j.Seq)
	}
}

func TestQueue(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	q, err := db.Queue(t.Context())
	check(t, err)
	if diff := cmp.Diff(journal.Queue{Version: 1}, q); diff != "" {
		t.Errorf("a new queue: %s", diff)
	}
	want := journal.Queue{
		Paused: journal.PausedUnknown, Since: now, Detail: "two in doubt", Answered: now.Add(time.Minute), Released: now.Add(time.Hour),
		Unknowns: 2, Adopted: true, KeyMark: "mark", Version: 1,
	}
	apply(t, db, journal.Change{Queue: &want, At: now, Cause: "why", Event: &journal.Event{Kind: "paused", At: now, Body: []byte(`{"a":1}`)}})
	check(t, db.Close())
	db = open(t, dir)
	q, err = db.Queue(t.Context())
	check(t, err)
	stale := want
	want.Version = 2
	if diff := cmp.Diff(want, q); diff != "" {
		t.Error(diff)
	}
	_, err = db.Apply(t.Context(), journal.Change{Job: job("a", journal.Held), Queue: &stale})
	wantMessage(t, err, "the queue", journal.ErrRaced.Error())
	if got := jobs(t, db); len(got) > 0 {
		t.Errorf("jobs %+v", got)
	}
}

func TestRecurring(t *testing.T) {
	db := open(t, t.TempDir())
	see := func(schedule string, at time.Time) {
		t.Helper()
		check(t, db.See(t.Context(), "weekly", schedule, at))
	}
	since := func(schedule string, at time.Time) {
		t.Helper()
		got, err := db.Recurring(t.Context())
		check(t, err)
		if diff := cmp.Diff(map[string]journal.Recurring{"weekly": {Schedule: schedule, Since: at}}, got); diff != "" {
			t.Error(diff)
		}
	}
	see("@weekly", now)
	see("@weekly", now.Add(time.Hour))
	since("@weekly", now)
	see("@weekly", now.Add(-time.Hour)) // the clock was set back
	since("@weekly", now.Add(-time.Hour))
	see("@daily", now.Add(time.Minute))
	since("@daily", now.Add(time.Minute))
}

// TestKillKeepsTheJournalWhole kills a process that moves jobs: every move that it
// reported is there, with its event, its text and its count.
func TestKillKeepsTheJournalWhole(t *testing.T) {
	dir := t.TempDir()
	for round := range 5 {
		c := start(t, "jobs", dir)
		said := ""
		for range 3 + 7*round {
			said = c.line()
		}
		check(t, c.Process.Kill())
		for c.lines.Scan() {
			said = c.lines.Text()
		}
		c.Wait()
		checkJournal(t, open(t, dir), said)
	}
}

func checkJournal(t *testing.T, db *state.DB, said string) {
	t.Helper()
	ends := int64(0)
	reached := map[string]journal.State{}
	for _, j := range jobs(t, db) {
		reached[j.Prompt] = j.State
		events, err := db.History(t.Context(), j.Seq)
		check(t, err)
		if last := events[len(events)-1]; last.To != j.State || int64(len(events)) != j.Version {
			t.Errorf("job %+v, and the last of %d events is %+v", j, len(events), last)
		}
		whole, err := db.Job(t.Context(), j.Seq)
		if check(t, err); whole.Text != "text of "+j.Prompt {
			t.Errorf("job %+v", whole)
		}
		if j.State.Ended() {
			ends++
		}
	}
	if n := counter(t, db, "agent_jobs_finished_total", state.Labels("project", "prj_a", "result", "failed")); n != ends {
		t.Errorf("%d ends counted, the journal has %d", n, ends)
	}
	notes, err := db.Events(t.Context(), 10_000)
	if check(t, err); int64(len(notes)) != ends {
		t.Errorf("%d notes, the journal has %d ends", len(notes), ends)
	}
	prompt, moved, _ := strings.Cut(said, " ")
	if at := reached[prompt]; at != journal.State(moved) && !follows(journal.State(moved), at) {
		t.Errorf("%s was said to be %s and is %s", prompt, moved, at)
	}
}

func follows(a, b journal.State) bool {
	order := []journal.State{journal.Submitting, journal.Active, journal.Failed}
	for i := range order[:2] {
		if order[i] == a && order[i+1] == b {
			return true
		}
	}
	return false
}

// moveJobs takes job after job from its beginning to its end, and prints a line each.
func moveJobs(dir string) error {
	db, err := state.Open(dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	known, err := db.Jobs(ctx)
	if err != nil {
		return err
	}
	for i := len(known); ; i++ {
		j := job(strconv.Itoa(i), journal.Submitting)
		j.Text = "text of " + j.Prompt
		c := journal.Change{Job: j, At: now, Cause: "it is wanted"}
		for _, next := range []journal.State{journal.Active, journal.Failed, ""} {
			done, err := db.Apply(ctx, c)
			if err != nil {
				return err
			}
			fmt.Println(j.Prompt, done[0].State)
			c = journal.Change{Job: done[0], From: done[0].State, At: now, Cause: "on it goes"}
			c.Job.State = next
			if next == journal.Failed {
				c.Job.JobID, c.Event = "j"+j.Prompt, &journal.Event{Kind: "failed", At: now, Body: []byte("{}")}
			}
		}
	}
}

// TestJobCost: what a job costs is counted once, when it is known that the service has it,
// whatever happens to it before and after.
func TestJobCost(t *testing.T) {
	db := open(t, t.TempDir())
	j := job("a", journal.Submitting)
	j.Cost = 1.25
	j = add(t, db, j)
	is := func(want int64) {
		t.Helper()
		counts, err := db.Counters(t.Context())
		check(t, err)
		var got int64
		for _, c := range counts {
			if c.Name == state.JobCost {
				got += c.Value
			}
		}
		if got != want {
			t.Errorf("%d are counted, want %d", got, want)
		}
	}
	is(0)
	for _, to := range []struct {
		id    string
		state journal.State
		cost  int64
	}{{"", journal.Unknown, 0}, {"job_1", journal.Active, 1_250_000}, {"job_1", journal.Active, 1_250_000}, {"job_1", journal.Completed, 1_250_000}} {
		from := j.State
		j.JobID, j.State = to.id, to.state
		j = apply(t, db, journal.Change{Job: j, From: from, At: now})[0]
		is(to.cost)
	}
	adopted := job("b", journal.Active)
	adopted.Cost, adopted.JobID = 2, "job_2"
	add(t, db, adopted)
	is(3_250_000)
	free := job("c", journal.Active)
	free.JobID = "job_3"
	add(t, db, free)
	is(3_250_000)
}
