package state_test

import (
	"errors"
	"reflect"
	"strconv"
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

// job is one of a prompt in a state.
func job(prompt string, st journal.State) journal.Job {
	return journal.Job{Prompt: prompt, Attempt: 1, Project: "prj_a", Path: prompt + ".md", State: st}
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

// TestJobsKeepEverything: each field comes back, as it was made and as it was
// changed, with what is sent only where one job is asked for.
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

func TestZeroTimesComeBack(t *testing.T) {
	db := open(t, t.TempDir())
	want := add(t, db, job("a", journal.Held))
	if diff := cmp.Diff([]journal.Job{want}, jobs(t, db)); diff != "" {
		t.Error(diff)
	}
	if !want.Firing.IsZero() || !want.Next.IsZero() {
		t.Errorf("%+v", want)
	}
}

// TestTextsStay: a change made from a list of jobs does not take away what is sent.
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
	_, err := db.Apply(t.Context(), journal.Change{Job: same, At: now, Cause: "again", Note: &journal.Note{Kind: "failed", At: now, Body: []byte("{}")}})
	if !errors.Is(err, journal.ErrDuplicate) {
		t.Fatal(err)
	}
	wantMessage(t, err, "prompt a", "attempt 1")
	if got := jobs(t, db); len(got) != 1 || !cmp.Equal(got[0], first) {
		t.Errorf("jobs %+v", got)
	}
	noNotes(t, db)
	for _, other := range []journal.Job{
		{Prompt: "b", Attempt: 1}, {Prompt: "a", Attempt: 2}, {Prompt: "a", Attempt: 1, Firing: now}, {Prompt: "A", Attempt: 1},
	} {
		add(t, db, other)
	}
}

func noNotes(t *testing.T, db *state.DB) {
	t.Helper()
	if notes, err := db.Notes(t.Context(), 10); err != nil || len(notes) > 0 {
		t.Errorf("notes %+v, %v", notes, err)
	}
}

// TestLostRaceChangesNothing: a job that somebody else changed since it was read,
// or that is in another state, stays, and so does everything else of the change.
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
		c.At, c.Cause, c.Note = now, "it failed", &journal.Note{Kind: "failed", At: now, Body: []byte("{}")}
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
	if n := counter(t, db, "agent_jobs_finished_total", `{project="prj_a",result="failed"}`); n != 0 {
		t.Errorf("%d ends counted", n)
	}
	if events, err := db.Events(t.Context(), other.Seq); err != nil || len(events) != 1 {
		t.Errorf("events %+v, %v", events, err)
	}
}

// TestAnIDIsOneJobs: a second job of the project does not get it, and nothing of the
// change is made. A journal that has it twice already goes on as it is.
func TestAnIDIsOneJobs(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	a, b := add(t, db, job("a", journal.Active)), add(t, db, job("b", journal.Submitting))
	a.JobID = "j"
	a = apply(t, db, journal.Change{Job: a, From: journal.Active})[0]
	b.State, b.JobID = journal.Active, "j"
	_, err := db.Apply(t.Context(), journal.Change{Job: b, From: journal.Submitting, At: now, Cause: "accepted", Note: &journal.Note{Kind: "x", At: now}})
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

// TestEndsAreCounted: once each, and only jobs of the service.
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
