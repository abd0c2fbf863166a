package snapshot

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
)

func dayOf(project string, d analytics.Date) analytics.Key {
	return analytics.Key{Project: project, Granularity: analytics.Day, Window: analytics.Window{From: d, To: d + 1}}
}

// TestSnapshotOfWhatWaits: a window that is set aside, and one whose rows are read
// when it has settled, are not due and cost nothing yet; what is due costs what it
// is estimated at.
func TestSnapshotOfWhatWaits(t *testing.T) {
	today := analytics.NewDate(2026, time.March, 10)
	now := today.Time().Add(12 * time.Hour)
	c := config.Config{
		ProjectNames: config.ProjectNames{"b": "Product docs"}, PromptsDir: "prompts", AgentBudget: 5,
		Projects: config.Projects{"a", "b", "c"}, Windows: config.Windows{{Granularity: analytics.Day}}, Since: config.OptionalDate{Date: today - 5, Set: true},
		Settle: config.Duration(72 * time.Hour), Budget: 3, StateDir: t.TempDir(), TopPages: 50,
	}
	db, err := state.Open(c.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	record := func(r analytics.Revision, p analytics.Provenance) {
		t.Helper()
		r.Number = 1
		if err := db.Record(t.Context(), r, p, []string{"parquet"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, project := range c.Projects[1:] {
		for d := c.Since.Date; d < today-1; d++ {
			record(analytics.Revision{Key: dayOf(project, d), Settled: true, Verified: true}, analytics.Provenance{})
		}
	}
	record(analytics.Revision{Key: dayOf("b", today-1), Rows: 900}, analytics.Provenance{MovedRows: 250, RepeatedRows: 7})
	record(analytics.Revision{Key: dayOf("c", today-1), Rows: 900, Verified: true}, analytics.Provenance{RepeatedRows: 7})
	for d := today - 2; d < today; d++ { // its rows were given up
		record(analytics.Revision{Key: dayOf("a", d), Rows: analytics.TotalsOnlyRows, Verified: true}, analytics.Provenance{Requests: 5})
	}
	record(analytics.Revision{Key: dayOf("a", today-4), Rows: 1000, Verified: true}, analytics.Provenance{})
	record(analytics.Revision{Key: dayOf("a", today-5), Rows: 1000, Settled: true, Verified: true}, analytics.Provenance{})
	week := dayOf("a", today-8)
	week.Granularity, week.To = analytics.Week, today-1
	for k, until := range map[analytics.Key]time.Time{
		dayOf("a", today-1):    now.Add(time.Second), // and it waits for its rows no longer
		dayOf("a", today-3):    now,                  // its time is over
		dayOf("c", today-5):    now.Add(time.Hour),   // asked for by name
		dayOf("a", today):      now.Add(time.Hour),   // still runs, and never rests
		dayOf("gone", today-1): now.Add(time.Hour),   // not configured
		week:                   now.Add(time.Hour),   // nor this
	} {
		if err := db.SetAside(t.Context(), analytics.Aside{Key: k, Reason: analytics.AsideRepeats, Failures: 2, Until: until}); err != nil {
			t.Fatal(err)
		}
	}
	s := Reader{Config: c, State: db, Now: func() time.Time { return now }, KeyRejected: func(context.Context, string) (bool, error) { return false, nil }}
	out, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := [2]string{out.ProjectName("b"), out.ProjectName("c")}; got != [2]string{"Product docs", "c"} {
		t.Errorf("the projects are named %q", got)
	}
	if b := out.Budgets; len(b) != 4 || b[0].Project != "" || b[2].Project != "b" {
		t.Errorf("budgets are of %+v", b)
	}
	var aside []analytics.Key
	for _, a := range out.Asides {
		aside = append(aside, a.Key)
	}
	if diff := cmp.Diff([]analytics.Key{dayOf("a", today-1), dayOf("c", today-5)}, aside); diff != "" {
		t.Errorf("set aside: %s", diff)
	}
	due := map[view.Due]bool{}
	for _, d := range out.Due {
		if d.Count > 0 {
			due[d] = true
		}
	}
	if diff := cmp.Diff(map[view.Due]bool{
		{Project: "a", Granularity: analytics.Day, Reason: "missing", Count: 1}: true, // today-3
		{Project: "a", Granularity: analytics.Day, Reason: "settle", Count: 1}:  true, // today-4
	}, due); diff != "" {
		t.Errorf("due: %s", diff)
	}
	// Four requests each, one by the window's neighbour and one by its own reading.
	if want := now.Add(2 * time.Hour); !out.Finish.Equal(want) {
		t.Errorf("8 requests, 3 an hour, are done by %s, want %s", out.Finish, want)
	}
	later := map[analytics.Date]time.Time{}
	for _, cell := range out.Projects[0].Grids[0].Cells {
		if !cell.RowsFrom.IsZero() {
			later[cell.From] = cell.RowsFrom
		}
	}
	if diff := cmp.Diff(map[analytics.Date]time.Time{today - 2: (today + 2).Time()}, later); diff != "" {
		t.Errorf("rows later: %s", diff)
	}
	for i, want := range []view.Window{{}, {MovedRows: 250, RepeatedRows: 7}, {}} {
		if w := out.Windows[i]; w.MovedRows != want.MovedRows || w.RepeatedRows != want.RepeatedRows {
			t.Errorf("%s: %d rows moved, %d repeated", w.Key, w.MovedRows, w.RepeatedRows)
		}
	}
}

// TestCountPrompts: a wrong file that is of no configured project is counted too,
// and a project that is not configured makes no series.
func TestCountPrompts(t *testing.T) {
	got := map[view.Prompts]bool{}
	for _, p := range countPrompts([]string{"a", "b"}, []jobs.Planned{
		{Project: "a", State: journal.Pending}, {Project: "a", State: journal.Pending}, {Project: "b", State: journal.Invalid},
		{State: journal.Invalid}, {Project: "gone", State: journal.Invalid}, {Project: "gone", State: journal.Completed}, {State: journal.Pending},
	}) {
		if p.Count > 0 {
			got[p] = true
		}
	}
	want := map[view.Prompts]bool{
		{Project: "a", State: "pending", Count: 2}: true, {Project: "b", State: "invalid", Count: 1}: true, {State: "invalid", Count: 2}: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestWaiting: prompts that are not jobs yet are listed in their order, wrong files
// last; one that is a job again is among the jobs.
func TestWaiting(t *testing.T) {
	planned := []jobs.Planned{
		{ID: "first", Project: "a", Title: "First", State: journal.Pending, Reason: "next"},
		{Path: "wrong.md", State: journal.Invalid, Reason: "unknown key"},
		{ID: "again", Project: "a", State: journal.Pending, Job: &journal.Job{State: journal.Completed}},
		{ID: "retried", Project: "a", State: journal.Pending, Job: &journal.Job{State: journal.Pending}},
		{ID: "done", Project: "a", State: journal.Completed, Job: &journal.Job{State: journal.Completed}},
	}
	for range 100 {
		planned = append(planned, jobs.Planned{ID: "last", Project: "b", State: journal.Pending})
	}
	got := waiting(planned)
	if len(got) != shownWaiting {
		t.Errorf("%d prompts", len(got))
	}
	want := []view.Job{
		{Project: "a", Prompt: "first", Title: "First", State: "pending", Reason: "next"}, {Project: "a", Prompt: "again", State: "pending"},
		{Project: "b", Prompt: "last", State: "pending"},
	}
	if diff := cmp.Diff(want, got[:3]); diff != "" {
		t.Error(diff)
	}
	if got := waiting(planned[:5]); len(got) != 3 || got[2].Prompt != "wrong.md" || got[2].State != "invalid" {
		t.Errorf("%+v", got)
	}
}

// TestReviews: what is counted of pull requests follows from what is kept of them; a closed
// one counts once it stays closed, and one that was never read is unknown.
func TestReviews(t *testing.T) {
	db, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	now := time.Date(2026, time.March, 10, 12, 0, 0, 0, time.UTC)
	at := func(hours int) time.Time { return now.Add(time.Duration(hours) * time.Hour) }
	for i, link := range []string{"l1", "l2", "l3", "new", ""} {
		job := journal.Job{Prompt: link + "p", Try: 1, Project: "a", State: journal.Active, JobID: fmt.Sprint("j", i), PRLink: link, Cost: 0.1}
		if _, err := db.Apply(t.Context(), journal.Change{Job: job, At: now}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.SetPullRequests(t.Context(),
		journal.PullRequest{Link: "l1", Project: "a", State: journal.PullMerged, Created: at(-30), Ready: at(-10), Merged: at(-8), Changed: []string{"x"}},
		journal.PullRequest{Link: "l2", Project: "a", State: journal.PullOpen, Created: at(-72), Review: journal.ReviewApproved},
		journal.PullRequest{Link: "l3", Project: "a", State: journal.PullClosed, Created: at(-72), Closed: at(-1)},
		journal.PullRequest{Link: "old", Project: "a", State: journal.PullClosed, Created: at(-72), Closed: at(-40), Final: true},
		journal.PullRequest{Link: "l4", Project: "a", State: journal.PullMerged, Created: at(-30), Merged: at(-8)}, // its times can still move
		journal.PullRequest{Link: "elsewhere", Project: "z", State: journal.PullMerged, Created: at(-72), Merged: at(-40)},
	); err != nil {
		t.Fatal(err)
	}
	r := &Reader{
		Config: config.Config{Projects: config.Projects{"a", "b"}, MaxOpenPulls: 4, JobCost: 1}, State: db,
		Prompts: func(context.Context) Prompts { return Prompts{} },
	}
	out := view.Snapshot{At: now}
	if err := errors.Join(r.counters(t.Context(), &out), r.queue(t.Context(), &out)); err != nil {
		t.Fatal(err)
	}
	q := out.Queue
	counts := map[string]int{}
	for _, p := range q.PullRequests {
		counts[p.Project+" "+p.State] = p.Count
	}
	want := map[string]int{"a draft": 0, "a open": 1, "a unknown": 1, "a merged": 2, "a closed": 2,
		"b draft": 0, "b open": 0, "b unknown": 0, "b merged": 0, "b closed": 0}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]view.Review{{Project: "a", Merged: 2, Closed: 1, OldestOpen: at(-72)}, {Project: "b"}}, q.Reviews); diff != "" {
		t.Error(diff)
	}
	merges := out.Histograms[0]
	if merges.Sum != 7200 || len(merges.Buckets) != 1 || merges.Buckets[view.Bucket(2*time.Hour)] != 1 {
		t.Errorf("%+v", merges)
	}
	if c := q.Caps[2]; c != (view.Cap{Name: "open_pull_requests", Limit: 4, Used: 3}) { // l2, new, and a job at work
		t.Errorf("%+v", c)
	}
	if diff := cmp.Diff([]view.Counter{{Name: "agent_job_cost_total", Labels: []string{"project", "a"}, Value: 0.5}}, out.Counters); diff != "" || !q.Costs {
		t.Error(diff)
	}
	for _, j := range q.Jobs {
		if j.PRLink == "l2" && (j.Pull == nil || j.Pull.State != "open" || j.Pull.Review != "approved" || !j.Pull.Opened.Equal(at(-72))) {
			t.Errorf("%+v", j.Pull)
		}
		if j.PRLink == "" && j.Pull != nil {
			t.Errorf("%+v", j.Pull)
		}
	}
}
