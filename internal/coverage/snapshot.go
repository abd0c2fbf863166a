package coverage

import (
	"context"
	"github.com/docgauge/docgauge/internal/analytics"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// shownRuns is how many runs a snapshot has.
const shownRuns = 10

// SnapshotReader makes the values of metrics and pages from the state. It sends nothing.
type SnapshotReader struct {
	Config config.Config
	State  *state.DB
	Sinks  []sinks.Sink
	Now    func() time.Time
	// KeyRejected reports whether the service refused the present value of a key.
	KeyRejected func(ctx context.Context, name string) (bool, error)
	// Queue adds the prompt queue; nil if none is configured.
	Queue func(ctx context.Context, out *view.Snapshot) error
}

// Read makes a snapshot. Windows and their rows are of one moment; a commit during it may be in them and not yet in
// counters and runs.
func (r *SnapshotReader) Read(ctx context.Context) (view.Snapshot, error) {
	out := view.Snapshot{At: r.Now().UTC(), Version: r.Config.Build.Version, Revision: r.Config.Build.Revision}
	var p Plan
	var tops []state.TopRows
	err := r.State.Reading(ctx, func(db *state.DB) (err error) {
		if p, err = (Selection{}).Plan(ctx, db, r.Config, out.At); err == nil {
			tops, err = db.Top(ctx, max(int(r.Config.TopPages), view.MaxRows))
		}
		return err
	})
	if err != nil {
		return out, err
	}
	out.Projects, out.Asides, out.Refused = projects(p), p.Ledger.setAside(p.Input), p.Refused
	for i := range out.Projects {
		out.Projects[i].Name = r.Config.ProjectNames.Of(out.Projects[i].ID)
	}
	for _, s := range r.Sinks {
		out.Sinks = append(out.Sinks, sinkOf(s, p.Ledger))
	}
	r.windows(p, tops, &out)
	others(tops, &out)
	parts := []func(context.Context, Plan, *view.Snapshot) error{
		r.open, r.counters, r.histograms, r.keys, r.runs, r.due,
	}
	for _, add := range parts {
		if err := add(ctx, p, &out); err != nil {
			return out, err
		}
	}
	if r.Queue != nil {
		err = r.Queue(ctx, &out)
	}
	return out, err
}

// sinkOf returns when a sink last received a window, and how many it lacks: not those that are not believed, which are
// read again, not delivered.
func sinkOf(s sinks.Sink, l Ledger) view.Sink {
	out := view.Sink{Name: s.Name(), Location: s.Location()}
	for e := range l.All() {
		at, owed := e.Sinks[s.Name()]
		switch {
		case owed && at.IsZero() && !e.ExportedAt.Equal(analytics.Unbelieved):
			out.Waiting++
		case at.After(out.LastCommit):
			out.LastCommit = at
		}
	}
	return out
}

// windows adds the newest windows, with their pages if those in the state are of the same reading.
func (r *SnapshotReader) windows(plan Plan, lists []state.TopRows, out *view.Snapshot) {
	for _, p := range out.Projects {
		for _, g := range p.Grids {
			rev := g.Newest
			if rev == nil {
				continue
			}
			w := g.NewestWindow()
			if !rev.Verified {
				e := plan.Ledger.Entry(rev.Key)
				w.MovedRows, w.RepeatedRows = e.MovedRows, e.RepeatedRows
			}
			for _, list := range lists {
				if list.Key == rev.Key && list.Revision == rev.Number {
					w.Pages = analytics.RowsOf[analytics.Row](list.Rows[:min(len(list.Rows), int(r.Config.TopPages))])
				}
			}
			out.Windows = append(out.Windows, w)
		}
	}
}

// others adds the newest windows of other reports, in configured order, with their rows if those in the state are of the
// same reading. Without rows they are known by the totals beside them alone.
func others(lists []state.TopRows, out *view.Snapshot) {
	for _, p := range out.Projects {
		for _, g := range p.Others {
			rev := g.Newest
			if rev == nil {
				continue
			}
			i := slices.IndexFunc(lists, func(l state.TopRows) bool {
				return rev.Key == l.Key && rev.Number == l.Revision
			})
			if i >= 0 {
				rows := lists[i].Rows[:min(len(lists[i].Rows), view.MaxRows)]
				out.Others = append(out.Others, view.RowsWindow{Revision: *rev, Rows: rows, More: lists[i].More})
			} else if !rev.Report.Shape().Site {
				out.Others = append(out.Others, view.RowsWindow{Revision: *rev})
			}
		}
	}
}

// open adds the running windows.
func (r *SnapshotReader) open(ctx context.Context, p Plan, out *view.Snapshot) error {
	all, err := running(ctx, r.State, p)
	for _, w := range all {
		if slices.Contains(r.Config.OpenWindows, w.Granularity) {
			out.Open = append(out.Open, w)
		}
	}
	return err
}

// running returns the windows of the plan's projects that run at its time, as they were last read.
func running(ctx context.Context, db *state.DB, p Plan) ([]analytics.OpenWindow, error) {
	all, err := db.OpenWindows(ctx)
	return slices.DeleteFunc(all, func(w analytics.OpenWindow) bool {
		return w.Complete(p.Input.Now) || !slices.Contains(p.Input.Projects, w.Project)
	}), err
}

// due adds the number of due windows, the time at which the budget allows them, and the budgets.
// Running windows, which every run reads, and those that wait are not counted.
func (r *SnapshotReader) due(ctx context.Context, p Plan, out *view.Snapshot) error {
	due := slices.DeleteFunc(p.Due, func(i schedule.Item) bool { return i.Reason == schedule.ReasonOpen })
	counts := map[view.Due]int{}
	for _, i := range due {
		counts[view.Due{Project: i.Project, Report: i.Report, Granularity: i.Granularity, Reason: string(i.Reason)}]++
	}
	for _, project := range p.Input.Projects {
		for _, report := range p.Input.Reports {
			for _, spec := range p.Input.Specs {
				if !report.HasWindows(spec.Granularity) {
					continue
				}
				for _, reason := range []schedule.Reason{schedule.ReasonMissing, schedule.ReasonSettle,
					schedule.ReasonUnverified} {
					d := view.Due{Project: project, Report: report, Granularity: spec.Granularity, Reason: string(reason)}
					d.Count = counts[d]
					out.Due = append(out.Due, d)
				}
			}
		}
	}
	if len(due) > 0 {
		out.Finish = p.Budget.Finish(p.Ledger.Cost(due))
	}
	out.Budgets = []view.Budget{p.Budget.Budget}
	if r.Queue == nil {
		return nil
	}
	for _, project := range r.Config.Projects {
		left, err := Remaining(ctx, r.State, AgentBudget(project), int(r.Config.AgentBudget), out.At)
		if err != nil {
			return err
		}
		left.Project = project
		out.Budgets = append(out.Budgets, left.Budget)
	}
	return nil
}

func (r *SnapshotReader) counters(ctx context.Context, _ Plan, out *view.Snapshot) error {
	counts, err := r.State.Counters(ctx)
	for _, c := range counts {
		counter := view.Counter{Name: c.Name, Labels: state.Pairs(c.Labels), Value: float64(c.Value)}
		if name, isCost := strings.CutSuffix(c.Name, state.Millionths); isCost {
			counter.Name, counter.Value = name+"_total", float64(c.Value)/1e6
		}
		out.Counters = append(out.Counters, counter)
	}
	return err
}

// histograms gathers the buckets, which come sorted by name and labels.
func (r *SnapshotReader) histograms(ctx context.Context, _ Plan, out *view.Snapshot) error {
	observed, err := r.State.Histograms(ctx)
	for i, o := range observed {
		if i == 0 || o.Name != observed[i-1].Name || o.Labels != observed[i-1].Labels {
			out.Histograms = append(out.Histograms,
				view.Histogram{Name: o.Name, Labels: state.Pairs(o.Labels), Buckets: map[int]uint64{}})
		}
		h := &out.Histograms[len(out.Histograms)-1]
		h.Buckets[o.Bucket] = uint64(o.Count)
		h.Sum += o.Sum.Seconds()
	}
	return err
}

func (r *SnapshotReader) keys(ctx context.Context, _ Plan, out *view.Snapshot) (err error) {
	out.Keys = []view.Key{{Name: docsapi.KeyAdmin}}
	if r.Config.APIKeyExpires.Set {
		out.Keys[0].Expires = r.Config.APIKeyExpires.Date.Time()
	}
	if r.Config.WriteAPIKey != "" {
		out.Keys = append(out.Keys, view.Key{Name: docsapi.KeyWrite})
	}
	for i := 0; i < len(out.Keys) && err == nil; i++ {
		out.Keys[i].Rejected, err = r.KeyRejected(ctx, out.Keys[i].Name)
	}
	return err
}

// runs adds the newest runs. Times in the future come from a wrong clock.
func (r *SnapshotReader) runs(ctx context.Context, _ Plan, out *view.Snapshot) error {
	runs, err := r.State.LastRuns(ctx, shownRuns)
	if err != nil {
		return err
	}
	out.Runs = runs
	for _, run := range runs {
		if !clock.IsFuture(run.Started, out.At) {
			out.LastStart = clock.Later(out.LastStart, run.Started)
			out.LastCompletion = clock.Later(out.LastCompletion, run.Finished)
		}
	}
	out.LastSuccess, err = r.State.LastSuccess(ctx, out.At)
	return err
}
