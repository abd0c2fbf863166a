package state_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/journal"
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
		case **float64:
			*v = new(float64(n*100+i) + 0.75)
		case **int64:
			*v = new(int64(n*100 + i))
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
	jobs := must(db.Apply(t.Context(), changes...))(t)
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
	all := must(db.Jobs(t.Context()))(t)
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
		same(t, want, got)
		changed := full(t, n+5)
		changed.Seq, changed.Version = got.Seq, got.Version
		apply(t, db, journal.Change{Job: changed, From: journal.Active})
		changed.Version++
		check(t, db.Close())
		db = open(t, dir)
		same(t, changed, must(db.Job(t.Context(), got.Seq))(t))
		changed.Text, changed.FollowUps = "", nil
		same(t, changed, jobs(t, db)[n])
	}
}

// event is a notification that is entered with a change.
func event() *journal.Event { return &journal.Event{Kind: "failed", At: now, Body: []byte("{}")} }

// TestTextsStay: a change of a job that was read without its texts keeps them.
func TestTextsStay(t *testing.T) {
	db := open(t, t.TempDir())
	j := job("a", journal.Submitting)
	j.Text, j.FollowUps = "do it", []string{"and this"}
	add(t, db, j)
	listed := jobs(t, db)[0]
	listed.State = journal.Active
	apply(t, db, journal.Change{Job: listed, From: journal.Submitting})
	got := must(db.Job(t.Context(), listed.Seq))(t)
	if got.Text != j.Text || !cmp.Equal(got.FollowUps, j.FollowUps) || got.State != journal.Active {
		t.Errorf("%+v", got)
	}
	got.Text, got.FollowUps = "another", nil // the file had changed before it was sent
	apply(t, db, journal.Change{Job: got, From: journal.Active})
	got.Version++
	same(t, got, must(db.Job(t.Context(), listed.Seq))(t))
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
	again := job("a", journal.Submitting)
	again.Text = "another text"
	_, err := db.Apply(t.Context(), journal.Change{Job: again, At: now, Cause: "again", Event: event()})
	if !errors.Is(err, journal.ErrDuplicate) {
		t.Fatal(err)
	}
	wantMessage(t, err, "prompt a", "try 1")
	same(t, []journal.Job{first}, jobs(t, db))
	noEvents(t, db)
	for _, other := range []journal.Job{
		{Prompt: "b", Try: 1}, {Prompt: "a", Try: 2}, {Prompt: "a", Try: 1, Firing: now}, {Prompt: "A", Try: 1},
	} {
		add(t, db, other)
	}
}

func noEvents(t *testing.T, db *state.DB) {
	t.Helper()
	if events := must(db.Events(t.Context(), 10))(t); len(events) > 0 {
		t.Errorf("events %+v", events)
	}
}

// TestLostRaceChangesNothing: if a job was changed since it was read, or is in another state, nothing
// of the whole change is made.
func TestLostRaceChangesNothing(t *testing.T) {
	db := open(t, t.TempDir())
	stale := add(t, db, job("a", journal.Active))
	other := add(t, db, job("b", journal.Active))
	newest := stale
	newest.Reason = "another process's"
	newest = apply(t, db, journal.Change{Job: newest, From: journal.Active})[0]
	gone := newest
	gone.Seq = 99
	for name, c := range map[string]journal.Change{
		"stale":       {Job: stale, From: journal.Active},
		"wrong state": {Job: newest, From: journal.Unknown},
		"no such job": {Job: gone, From: journal.Active},
	} {
		c.At, c.Cause, c.Event, c.Job.State = now, "it failed", event(), journal.Failed
		second := journal.Change{Job: other, From: journal.Active, At: now, Cause: "it failed"}
		second.Job.State = journal.Failed
		if _, err := db.Apply(t.Context(), second, c); !errors.Is(err, journal.ErrRaced) {
			t.Errorf("%s: %v", name, err)
		}
	}
	same(t, []journal.Job{newest, other}, jobs(t, db))
	noEvents(t, db)
	if n := counter(t, db, "agent_jobs_finished_total", "project", "prj_a", "result", "failed"); n != 0 {
		t.Errorf("%d ends counted", n)
	}
	if history := must(db.History(t.Context(), other.Seq))(t); len(history) != 1 {
		t.Errorf("history %+v", history)
	}
}

// TestAnIDIsOneJobs: a second job of the project does not get the id, and nothing of the change is made.
// A journal that has it twice already stays usable.
func TestAnIDIsOneJobs(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	a, b := add(t, db, job("a", journal.Active)), add(t, db, job("b", journal.Submitting))
	a.JobID = "j"
	a = apply(t, db, journal.Change{Job: a, From: journal.Active})[0]
	stolen := b
	stolen.State, stolen.JobID = journal.Active, "j"
	stealing := journal.Change{Job: stolen, From: journal.Submitting, At: now, Cause: "x", Event: event()}
	_, err := db.Apply(t.Context(), stealing)
	taken, ok := errors.AsType[*journal.TakenError](err)
	if !ok || *taken != (journal.TakenError{JobID: "j", By: a.Seq, Prompt: "a"}) {
		t.Fatal(err)
	}
	noEvents(t, db)
	same(t, []journal.Job{a, b}, jobs(t, db))
	elsewhere := job("c", journal.Active)
	elsewhere.Project, elsewhere.JobID = "prj_b", "j"
	add(t, db, elsewhere)

	must(raw(t, dir).Exec(`UPDATE jobs SET job_id = 'j' WHERE prompt = 'b'`))(t)
	a.Polls++
	apply(t, db, journal.Change{Job: a, From: journal.Active})
	apply(t, db, journal.Change{Job: stolen, From: journal.Submitting})
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
		if got := counter(t, db, "agent_jobs_finished_total", "project", "prj_a", "result", tc.result); got != want {
			t.Errorf("%s with id %q and link %q: %d counted as %q", tc.state, tc.id, tc.pr, got, tc.result)
		}
	}
	counts := must(db.Counters(t.Context()))(t)
	if len(counts) != 5+1 || counts[0].Name != "agent_jobs_cost_unknown_total" || counts[0].Value != 5 {
		t.Errorf("counters %+v", counts)
	}
}

func TestHistory(t *testing.T) {
	db := open(t, t.TempDir())
	j := add(t, db, job("a", journal.Submitting))
	j.State = journal.Active
	j = apply(t, db, journal.Change{Job: j, From: journal.Submitting, At: now.Add(time.Second), Cause: "accepted"})[0]
	j.Polls++
	apply(t, db, journal.Change{Job: j, From: journal.Active, At: now.Add(time.Minute)}) // nothing to tell
	q := must(db.Queue(t.Context()))(t)
	q.Paused = journal.PausedOperator
	apply(t, db, journal.Change{Queue: &q, At: now, Cause: "tea"})

	same(t, []journal.Transition{
		{At: now, Job: j.Seq, To: journal.Submitting, Cause: "it is wanted"},
		{At: now.Add(time.Second), Job: j.Seq, From: journal.Submitting, To: journal.Active, Cause: "accepted"},
	}, must(db.History(t.Context(), j.Seq))(t))
	same(t, []journal.Transition{{At: now, To: "operator", Cause: "tea"}}, must(db.History(t.Context(), 0))(t))
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
		t.Errorf("%d jobs are kept, want 20, the one that has not ended, and the other prompt's", len(all))
	}
	for _, j := range all[1:21] {
		if j.Firing.Before(now.Add(11 * time.Hour)) {
			t.Errorf("firing %v is kept", j.Firing)
		}
	}
	for table, want := range map[string]int{"job_texts": 20, "job_events": 22} {
		var n int
		check(t, raw(t, db.Dir()).QueryRow("SELECT count(*) FROM "+table).Scan(&n))
		if n != want {
			t.Errorf("%s has %d rows, want %d", table, n, want)
		}
	}
	for i := range 250 {
		live.Refusals = i
		live = apply(t, db, journal.Change{Job: live, From: journal.Unknown, At: now, Cause: strconv.Itoa(i)})[0]
	}
	events := must(db.History(t.Context(), live.Seq))(t)
	if len(events) != 200 || events[199].Cause != "249" {
		t.Errorf("%d events are kept", len(events))
	}
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
	must(raw(t, db.Dir()).Exec("DELETE FROM jobs"))(t)
	if next := add(t, db, job("b", journal.Failed)); next.Seq <= j.Seq {
		t.Errorf("number %d after %d", next.Seq, j.Seq)
	}
}

func TestQueue(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	same(t, journal.Queue{Version: 1}, must(db.Queue(t.Context()))(t))
	want := journal.Queue{
		Paused: journal.PausedUnknown, Since: now, Detail: "two in doubt", Answered: now.Add(time.Minute),
		Released: now.Add(time.Hour), Unknowns: 2, Adopted: true, KeyMark: "mark", Version: 1,
	}
	apply(t, db, journal.Change{Queue: &want, At: now, Cause: "why", Event: event()})
	check(t, db.Close())
	db = open(t, dir)
	stale := want
	want.Version = 2
	same(t, want, must(db.Queue(t.Context()))(t))
	_, err := db.Apply(t.Context(), journal.Change{Job: job("a", journal.Held), Queue: &stale})
	wantMessage(t, err, "the queue", journal.ErrRaced.Error())
	if got := jobs(t, db); len(got) > 0 {
		t.Errorf("jobs %+v", got)
	}
}

func TestRecurring(t *testing.T) {
	db := open(t, t.TempDir())
	for _, seen := range []struct {
		schedule string
		at, want time.Duration
	}{
		{"@weekly", 0, 0}, {"@weekly", time.Hour, 0},
		{"@weekly", -time.Hour, -time.Hour}, // the clock was set back
		{"@daily", time.Minute, time.Minute},
	} {
		check(t, db.See(t.Context(), "weekly", seen.schedule, now.Add(seen.at)))
		want := map[string]journal.Recurring{"weekly": {Schedule: seen.schedule, Since: now.Add(seen.want)}}
		same(t, want, must(db.Recurring(t.Context()))(t))
	}
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
		events := must(db.History(t.Context(), j.Seq))(t)
		if last := events[len(events)-1]; last.To != j.State || int64(len(events)) != j.Version {
			t.Errorf("job %+v, and the last of %d events is %+v", j, len(events), last)
		}
		whole := must(db.Job(t.Context(), j.Seq))(t)
		if whole.Text != "text of "+j.Prompt {
			t.Errorf("job %+v", whole)
		}
		if j.State.Ended() {
			ends++
		}
	}
	if n := counter(t, db, "agent_jobs_finished_total", "project", "prj_a", "result", "failed"); n != ends {
		t.Errorf("%d ends counted, the journal has %d", n, ends)
	}
	if notes := must(db.Events(t.Context(), 10_000))(t); int64(len(notes)) != ends {
		t.Errorf("%d events, the journal has %d ends", len(notes), ends)
	}
	prompt, moved, _ := strings.Cut(said, " ")
	order := []journal.State{journal.Submitting, journal.Active, journal.Failed}
	at := slices.Index(order, reached[prompt]) - slices.Index(order, journal.State(moved))
	if at != 0 && at != 1 {
		t.Errorf("%s was said to be %s and is %s", prompt, moved, reached[prompt])
	}
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
				c.Job.JobID, c.Event = "j"+j.Prompt, event()
			}
		}
	}
}

// TestJobCost: the estimated cost of a job is counted once, when it is known that the service has it,
// whatever happens to it before and after.
func TestJobCost(t *testing.T) {
	db := open(t, t.TempDir())
	want := func(cost int64) {
		t.Helper()
		same(t, cost, counter(t, db, state.JobCost, "project", "prj_a"))
	}
	j := job("a", journal.Submitting)
	j.Estimate = 1.25
	j = add(t, db, j)
	want(0)
	for _, to := range []struct {
		id    string
		state journal.State
		cost  int64
	}{
		{"", journal.Unknown, 0}, {"job_1", journal.Active, 1_250_000}, {"job_1", journal.Active, 1_250_000},
		{"job_1", journal.Completed, 1_250_000},
	} {
		from := j.State
		j.JobID, j.State = to.id, to.state
		j = apply(t, db, journal.Change{Job: j, From: from, At: now})[0]
		want(to.cost)
	}
	for i, cost := range []float64{2, 0} { // adopted
		another := job(strconv.Itoa(i), journal.Active)
		another.Estimate, another.JobID = cost, "adopted_"+another.Prompt
		add(t, db, another)
		want(3_250_000)
	}
}

// TestReportedCost: what the service reports is kept, and counted once, at the end of the job: by unit,
// or as unknown. The end of a job which is lost, or was given up, is not final.
func TestReportedCost(t *testing.T) {
	db := open(t, t.TempDir())
	end := func(id string, to journal.State, cost *float64, unit string) {
		t.Helper()
		j := job(id, journal.Active)
		j.JobID = "job_" + id
		j = add(t, db, j)
		j.State, j.Cost, j.CostUnit, j.Tokens = to, cost, unit, new(int64(7))
		j = apply(t, db, journal.Change{Job: j, From: journal.Active, At: now})[0]
		kept := must(db.Job(t.Context(), j.Seq))(t)
		same(t, cost, kept.Cost)
		same(t, unit, kept.CostUnit)
		same(t, new(int64(7)), kept.Tokens)
		apply(t, db, journal.Change{Job: j, From: to, At: now}) // once
	}
	end("a", journal.Completed, new(1.25), "USD")
	end("b", journal.Failed, new(0.1), "USD")
	end("c", journal.Archived, new(30.0), "credits")
	end("d", journal.Completed, new(0.0), "")
	end("e", journal.Completed, nil, "")
	end("f", journal.Lost, new(4.0), "USD")
	end("g", journal.Cancelled, new(8.0), "USD")
	for unit, want := range map[string]int64{"USD": 1_350_000, "credits": 30_000_000, "": 0} {
		same(t, want, counter(t, db, "agent_job_reported_cost"+state.Millionths, "project", "prj_a", "unit", unit))
	}
	same(t, int64(2), counter(t, db, "agent_jobs_cost_unknown_total", "project", "prj_a"))
}

// TestPullRequests: what was stored last is there after a restart, whole; a link of jobs without a row
// is reported once, with the project of the first job, until it has one.
func TestPullRequests(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	const one, two = "https://github.com/acme/docs/pull/1", "https://github.com/acme/docs/pull/2"
	for i, link := range []string{two, one, one, ""} {
		name := string(rune('a' + i))
		apply(t, db, journal.Change{At: now, Job: journal.Job{
			Prompt: "p" + name, Try: 1, Project: "prj_" + name, State: journal.Completed, PRLink: link,
		}})
	}
	same(t, []journal.PullRequest{{Link: two, Project: "prj_a"}, {Link: one, Project: "prj_b"}},
		must(db.UnfollowedPullRequests(t.Context()))(t))
	whole := journal.PullRequest{
		Link: one, Project: "prj_b", Host: "github", Repository: "acme/docs", Number: 1, State: journal.PullMerged,
		Author: "agent", Problem: "old", Created: now, Ready: now.Add(1), FirstReview: now.Add(2), Merged: now.Add(3),
		Closed: now.Add(4), Reopened: now.Add(5), Review: journal.ReviewApproved, Checks: journal.ChecksSuccess,
		Files: 1, Additions: 2, Deletions: 3, Commit: "abc", Changed: []string{"a.mdx"}, Pages: []string{"/a"},
		Mapped: true, Answered: now.Add(6), Next: now.Add(time.Hour), Missing: now.Add(7), Final: true,
		ETags: map[string]string{"pull": `W/"1"`},
	}
	second := journal.PullRequest{Link: two, State: journal.PullOpen}
	check(t, db.SetPullRequests(t.Context(), journal.PullRequest{Link: one, Project: "prj_b"}, second))
	check(t, db.SetPullRequests(t.Context(), whole))
	check(t, db.Close())
	db = open(t, dir)
	same(t, []journal.PullRequest{whole, second}, must(db.PullRequests(t.Context()))(t))
	short := whole
	short.Changed, short.Pages, short.Mapped, short.ETags = nil, nil, false, nil
	same(t, []journal.PullRequest{short, second}, must(db.PullStates(t.Context()))(t))
	same(t, []journal.PullRequest{second}, must(db.FollowedPullRequests(t.Context()))(t))
	same(t, 0, len(must(db.UnfollowedPullRequests(t.Context()))(t)))
	var state string
	var next int64
	check(t, raw(t, dir).QueryRow("SELECT state, next_at FROM pull_requests WHERE link = ?", one).Scan(&state, &next))
	if state != "merged" || next != now.Add(time.Hour).UnixMicro() {
		t.Error(state, next)
	}
}
