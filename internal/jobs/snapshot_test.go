package jobs

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/view"
)

// TestCountPrompts: an invalid file of no configured project is counted too, and a project that is
// not configured makes no series.
func TestCountPrompts(t *testing.T) {
	got := map[view.StateCount]bool{}
	for _, p := range countPrompts([]string{"a", "b"}, []Planned{
		{Project: "a", State: journal.Pending}, {Project: "a", State: journal.Pending},
		{Project: "b", State: journal.Invalid}, {State: journal.Invalid}, {Project: "gone", State: journal.Invalid},
		{Project: "gone", State: journal.Completed}, {State: journal.Pending},
	}) {
		if p.Count > 0 {
			got[p] = true
		}
	}
	if diff := cmp.Diff(map[view.StateCount]bool{
		{Project: "a", State: "pending", Count: 2}: true, {Project: "b", State: "invalid", Count: 1}: true,
		{State: "invalid", Count: 2}: true,
	}, got); diff != "" {
		t.Error(diff)
	}
}

// TestWaiting: prompts that are not jobs yet are listed in their order, invalid files last; one
// that is a job again is among the jobs.
func TestWaiting(t *testing.T) {
	planned := []Planned{
		{ID: "first", Project: "a", Title: "First", State: journal.Pending, Reason: "next"},
		{Path: "wrong.md", State: journal.Invalid, Reason: "unknown key"},
		{ID: "again", Project: "a", State: journal.Pending, Job: &journal.Job{State: journal.Completed}},
		{ID: "retried", Project: "a", State: journal.Pending, Job: &journal.Job{State: journal.Pending}},
		{ID: "done", Project: "a", State: journal.Completed, Job: &journal.Job{State: journal.Completed}},
	}
	want := []view.Job{
		{Project: "a", Prompt: "first", Title: "First", State: "pending", Reason: "next"},
		{Project: "a", Prompt: "again", State: "pending"},
		{Prompt: "wrong.md", State: "invalid", Reason: "unknown key"},
	}
	if diff := cmp.Diff(want, waiting(planned)); diff != "" {
		t.Error(diff)
	}
	for range 100 {
		planned = append(planned, Planned{ID: "last", Project: "b", State: journal.Pending})
	}
	if got := waiting(planned); len(got) != maxWaiting || got[2].Prompt != "last" {
		t.Errorf("%d prompts, %+v", len(got), got[2])
	}
}

// TestNewestJobs: a job at work is shown however many later ones have ended.
func TestNewestJobs(t *testing.T) {
	all := []journal.Job{{Seq: 1, Prompt: "stalled", State: journal.Active}}
	for i := range int64(maxShown + 9) {
		all = append(all, journal.Job{Seq: i + 2, Prompt: fmt.Sprint(i), State: journal.Completed, Ended: start})
	}
	got := newestJobs(all, nil, start)
	if n := len(got); n != maxShown || got[0].Seq != maxShown+10 || got[n-1].Prompt != "stalled" {
		t.Errorf("%d jobs, from %+v to %+v", n, got[0], got[n-1])
	}
}

// TestReviews: the counts of pull requests are derived from what is known of them; a closed one
// counts once it stays closed, and one that was never read is unknown.
func TestReviews(t *testing.T) {
	at := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }
	m := newMemory()
	m.queue.Paused = journal.PausedOperator
	for i, link := range []string{"l1", "l2", "l3", "new", ""} {
		job := journal.Job{Prompt: link + "p", Try: 1, Project: "a", State: journal.Active, PRLink: link}
		job.JobID = fmt.Sprint("j", i)
		if _, err := m.Apply(t.Context(), journal.Change{Job: job, At: start}); err != nil {
			t.Fatal(err)
		}
	}
	m.pulls = []journal.PullRequest{
		{Link: "l1", Project: "a", State: journal.PullMerged, Created: at(-30), Ready: at(-10), Merged: at(-8)},
		{Link: "l2", Project: "a", State: journal.PullOpen, Created: at(-72), Review: journal.ReviewApproved},
		{Link: "l3", Project: "a", State: journal.PullClosed, Created: at(-72), Closed: at(-1)},
		{Link: "old", Project: "a", State: journal.PullClosed, Created: at(-72), Closed: at(-40), Final: true},
		// The times of this one can still change.
		{Link: "l4", Project: "a", State: journal.PullMerged, Created: at(-30), Merged: at(-8)},
		{Link: "elsewhere", Project: "z", State: journal.PullMerged, Created: at(-72), Merged: at(-40)},
	}
	out := view.Snapshot{At: start}
	prompts, o := Prompts{Problem: "no folder"}, Options{MaxOpenPulls: 4, JobCost: 1}
	if err := Show(t.Context(), o, m, []string{"a", "b"}, prompts, &out); err != nil {
		t.Fatal(err)
	}
	q := out.Queue
	counts := map[string]int{}
	for _, p := range q.PullRequests {
		counts[p.Project+" "+p.State] = p.Count
	}
	if diff := cmp.Diff(map[string]int{
		"a draft": 0, "a open": 1, "a unknown": 1, "a merged": 2, "a closed": 2,
		"b draft": 0, "b open": 0, "b unknown": 0, "b merged": 0, "b closed": 0,
	}, counts); diff != "" {
		t.Error(diff)
	}
	reviews := []view.Review{{Project: "a", Merged: 2, Closed: 1, OldestOpen: at(-72)}, {Project: "b"}}
	if diff := cmp.Diff(reviews, q.Reviews); diff != "" {
		t.Error(diff)
	}
	merges := out.Histograms[0]
	if merges.Sum != 7200 || len(merges.Buckets) != 1 || merges.Buckets[view.Bucket(2*time.Hour)] != 1 {
		t.Errorf("%+v", merges)
	}
	if c := q.Caps[2]; c != (view.Cap{Name: "open_pull_requests", Limit: 4, Used: 3}) { // l2, new, and a job at work
		t.Errorf("%+v", c)
	}
	if !q.Costs || q.Problem != "no folder" || q.Paused != "operator" {
		t.Errorf("%+v", q)
	}
	for _, j := range q.Jobs {
		if j.PRLink == "l2" && (j.Pull == nil || j.Pull.State != "open" || j.Pull.Review != "approved" ||
			!j.Pull.Opened.Equal(at(-72))) {
			t.Errorf("%+v", j.Pull)
		}
		if j.PRLink == "" && j.Pull != nil {
			t.Errorf("%+v", j.Pull)
		}
	}
	prompts.Planned = []Planned{{Why: whyNewState}}
	if err := Show(t.Context(), Options{}, m, nil, prompts, &out); err != nil || out.Queue.Paused != "new_state" {
		t.Errorf("%+v, %v", out.Queue, err)
	}
}
