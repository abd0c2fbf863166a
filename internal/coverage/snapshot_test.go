package coverage

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
)

// TestSnapshotOfWhatWaits: a window that is set aside, and one whose rows are read when it has settled,
// are not due and cost nothing yet; what is due costs what it is estimated at.
func TestSnapshotOfWhatWaits(t *testing.T) {
	today := analytics.NewDate(2026, time.March, 10)
	now := today.Time().Add(12 * time.Hour)
	c := config.Config{
		ProjectNames: config.ProjectNames{"b": "Product docs"}, AgentBudget: 5,
		Projects: config.Projects{"a", "b", "c"}, Windows: config.Windows{{Granularity: analytics.Day}},
		Since:  config.OptionalDate{Date: today - 5, Set: true},
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
	record(analytics.Revision{Key: dayOf("b", today-8), Totals: analytics.Totals{Human: 70, Total: 70}, Settled: true,
		Verified: true}, analytics.Provenance{})
	record(analytics.Revision{Key: dayOf("b", today-1), Rows: 900},
		analytics.Provenance{MovedRows: 250, RepeatedRows: 7})
	record(analytics.Revision{Key: dayOf("c", today-1), Rows: 900, Verified: true},
		analytics.Provenance{RepeatedRows: 7})
	for d := today - 2; d < today; d++ { // its rows were given up
		record(analytics.Revision{Key: dayOf("a", d), Rows: analytics.TotalsOnlyRows, Verified: true},
			analytics.Provenance{Requests: 5})
	}
	record(analytics.Revision{Key: dayOf("a", today-4), Rows: 1000, Verified: true}, analytics.Provenance{})
	record(analytics.Revision{Key: dayOf("a", today-5), Rows: 1000, Settled: true, Verified: true},
		analytics.Provenance{})
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
		if err := db.SetAside(t.Context(), analytics.Aside{Key: k, Reason: analytics.AsideRepeats, Failures: 2,
			Until: until}); err != nil {
			t.Fatal(err)
		}
	}
	s := SnapshotReader{
		Config: c, State: db, Now: func() time.Time { return now },
		KeyRejected: func(context.Context, string) (bool, error) { return false, nil },
		Queue:       func(context.Context, *view.Snapshot) error { return nil },
	}
	cost := state.Count{Name: state.JobCost, Labels: state.Labels("project", "a"), Value: 500_000}
	if err := db.Tally(t.Context(), []state.Count{cost}, nil, nil); err != nil {
		t.Fatal(err)
	}
	out, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	costs := []view.Counter{{Name: "agent_job_cost_total", Labels: []string{"project", "a"}, Value: 0.5}}
	if diff := cmp.Diff(costs, out.Counters); diff != "" {
		t.Error(diff)
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
	if w := out.Windows[1]; w.Previous == nil || w.Previous.Total != 70 {
		t.Errorf("%s is compared with %+v, want the day a week before", w.Key, w.Previous)
	}
	for i, want := range []view.Window{{}, {MovedRows: 250, RepeatedRows: 7}, {}} {
		if w := out.Windows[i]; w.MovedRows != want.MovedRows || w.RepeatedRows != want.RepeatedRows {
			t.Errorf("%s: %d rows moved, %d repeated", w.Key, w.MovedRows, w.RepeatedRows)
		}
	}
}

// TestSnapshotOfAgents: the newest windows of agents are shown in configured order, if the state has the
// agents of that reading and the report is exported.
func TestSnapshotOfAgents(t *testing.T) {
	today := analytics.NewDate(2026, time.March, 10)
	now := today.Time().Add(12 * time.Hour)
	c := config.Config{
		Projects: config.Projects{"a", "b"}, StateDir: t.TempDir(), Reports: analytics.Reports,
		Windows: config.Windows{{Granularity: analytics.Week}, {Granularity: analytics.Day}},
	}
	db, err := state.Open(c.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	put := func(k analytics.Key, of int32) {
		k.Report = analytics.AgentsReport
		rev := analytics.Revision{Key: k, Number: 2, Settled: true, Verified: true}
		err := db.Record(t.Context(), rev, analytics.Provenance{}, []string{"parquet"},
			state.TopRows{Key: k, Revision: of, More: int(today - k.From),
				Rows: []analytics.Record{analytics.RecordOf(analytics.AgentRow{Agent: k.Project})}})
		if err != nil {
			t.Fatal(err)
		}
	}
	week := dayOf("a", today-8)
	week.Granularity, week.To = analytics.Week, today-1
	put(dayOf("a", today-1), 2)
	put(week, 2)
	put(dayOf("b", today-1), 1) // of another reading
	for i, reports := range []config.Reports{analytics.Reports, nil} {
		c.Reports = reports
		want := []int{2, 0}[i]
		s := SnapshotReader{Config: c, State: db, Now: func() time.Time { return now },
			KeyRejected: func(context.Context, string) (bool, error) { return false, nil }}
		out, err := s.Read(t.Context())
		if err != nil || len(out.Others) != want || len(out.Windows) > 0 {
			t.Fatalf("%v; agents %+v, windows %+v", err, out.Others, out.Windows)
		}
		if want > 0 && (out.Others[0].Key.Window != week.Window || out.Others[1].More != 1) {
			t.Errorf("%+v", out.Others)
		}
	}
}

// TestSnapshotDuringCommits: no snapshot has the newest window without its pages, while readings of it are committed.
func TestSnapshotDuringCommits(t *testing.T) {
	today := analytics.NewDate(2026, time.March, 10)
	c := config.Config{Projects: config.Projects{"a"}, StateDir: t.TempDir(), TopPages: 5,
		Windows: config.Windows{{Granularity: analytics.Day}}}
	db, err := state.Open(c.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	committed := make(chan error, 1)
	go func() {
		var err error
		for n := int32(1); n <= 300 && err == nil; n++ {
			rev := analytics.Revision{Key: dayOf("a", today-1), Number: n, Settled: true, Verified: true}
			err = db.Record(t.Context(), rev, analytics.Provenance{}, nil, state.TopRows{Key: rev.Key, Revision: n,
				Rows: []analytics.Record{analytics.RecordOf(analytics.Row{Path: "/"})}})
		}
		committed <- err
	}()
	s := SnapshotReader{Config: c, State: db, Now: func() time.Time { return today.Time().Add(12 * time.Hour) },
		KeyRejected: func(context.Context, string) (bool, error) { return false, nil }}
	for seen := int32(0); seen < 300; {
		out, err := s.Read(t.Context())
		if err != nil || len(out.Windows) > 0 && len(out.Windows[0].Pages) != 1 {
			t.Fatalf("%v; %+v", err, out.Windows)
		}
		if len(out.Windows) > 0 {
			seen = out.Windows[0].Number
		}
		select {
		case err := <-committed:
			if err != nil {
				t.Fatal(err)
			}
		default:
		}
	}
}
