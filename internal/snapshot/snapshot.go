// Package snapshot makes the values of all metrics and of the status page from the
// state. It sends nothing.
package snapshot

import (
	"context"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// shownRuns is how many runs a snapshot has.
const shownRuns = 10

// Reader makes snapshots.
type Reader struct {
	Config config.Config
	State  *state.DB
	Sinks  []sinks.Sink
	Now    func() time.Time
	// KeyRejected reports whether the service refused the present value of a key.
	KeyRejected func(ctx context.Context, name string) (bool, error)
	// Prompts says where the prompts stand; nil where no queue is configured.
	Prompts func(ctx context.Context) Prompts
}

// New returns a reader over what a has opened. It reads the prompt folder itself.
func New(a *app.App) *Reader {
	r := &Reader{Config: a.Config, State: a.State, Sinks: a.Sinks, Now: a.Now, KeyRejected: a.API.KeyRejected}
	if a.Config.PromptsDir != "" {
		r.Prompts = func(ctx context.Context) (out Prompts) {
			folder, err := app.OpenPrompts(a.Config)
			if err == nil {
				out.Planned, err = a.PlanPrompts(ctx, folder)
			}
			if err != nil {
				out.Problem = err.Error()
			}
			return out
		}
	}
	return r
}

// Read makes a snapshot. What is committed while it reads may be in one part of it and
// not yet in another; the next snapshot has all of it.
func (r *Reader) Read(ctx context.Context) (view.Snapshot, error) {
	out := view.Snapshot{At: r.Now().UTC(), Version: r.Config.Build.Version, Revision: r.Config.Build.Revision}
	p, err := coverage.Selection{}.Plan(ctx, r.State, r.Config, out.At, 0)
	if err != nil {
		return out, err
	}
	out.Projects, out.Asides = coverage.Projects(p), p.Ledger.SetAside(p.Input)
	for i := range out.Projects {
		out.Projects[i].Name = r.Config.ProjectNames.Of(out.Projects[i].ID)
	}
	if out.Windows, err = r.windows(ctx, p.Ledger, out.Projects); err != nil {
		return out, err
	}
	r.sinks(p.Ledger, &out)
	for _, read := range []func(context.Context, *view.Snapshot) error{r.open, r.counters, r.histograms, r.keys, r.runs, r.queue} {
		if err := read(ctx, &out); err != nil {
			return out, err
		}
	}
	return out, r.due(ctx, p, &out)
}

// windows returns the newest windows, with their pages where those kept are of
// the same reading.
func (r *Reader) windows(ctx context.Context, l coverage.Ledger, projects []view.Project) (out []view.Window, err error) {
	lists, err := r.State.Pages(ctx, int(r.Config.TopPages))
	if err != nil {
		return nil, err
	}
	for _, p := range projects {
		for _, g := range p.Grids {
			rev := g.Newest
			if rev == nil {
				continue
			}
			w := view.Window{Revision: *rev}
			if before := g.EndingAt(rev.From); before != nil {
				w.Previous = &before.Totals
			}
			if !rev.Verified {
				e := l.Entry(rev.Key)
				w.MovedRows, w.RepeatedRows = e.MovedRows, e.RepeatedRows
			}
			for _, l := range lists {
				if l.Key == rev.Key && l.Revision == rev.Number {
					w.Pages = l.Pages
				}
			}
			out = append(out, w)
		}
	}
	return out, nil
}

// open returns the running windows that still run.
func (r *Reader) open(ctx context.Context, out *view.Snapshot) error {
	all, err := r.State.OpenWindows(ctx)
	for _, w := range all {
		wanted := slices.Contains(r.Config.Projects, w.Project) && slices.Contains(r.Config.OpenWindows, w.Granularity)
		if wanted && !w.Complete(out.At) {
			out.Open = append(out.Open, view.Open(w))
		}
	}
	return err
}

// due counts what is due, and when the budget lets it be done. Neither the running
// windows, which every run reads, nor those that wait are counted.
func (r *Reader) due(ctx context.Context, p coverage.Plan, out *view.Snapshot) error {
	due := slices.DeleteFunc(p.Due, func(i schedule.Item) bool { return i.Reason == schedule.ReasonOpen })
	counts := map[view.Due]int{}
	for _, i := range due {
		counts[view.Due{Project: i.Project, Granularity: i.Granularity, Reason: string(i.Reason)}]++
	}
	for _, project := range p.Input.Projects {
		for _, spec := range p.Input.Specs {
			for _, reason := range []schedule.Reason{schedule.ReasonMissing, schedule.ReasonSettle, schedule.ReasonUnverified} {
				d := view.Due{Project: project, Granularity: spec.Granularity, Reason: string(reason)}
				d.Count = counts[d]
				out.Due = append(out.Due, d)
			}
		}
	}
	if len(due) > 0 {
		out.Finish = p.Budget.Finish(p.Ledger.Cost(due))
	}
	out.Budgets = []view.Budget{p.Budget.Budget}
	if r.Config.PromptsDir == "" {
		return nil
	}
	for _, project := range r.Config.Projects {
		name := coverage.AgentBudget(project)
		left, err := coverage.Remaining(ctx, r.State, name, int(r.Config.AgentBudget), out.At)
		if err != nil {
			return err
		}
		left.Project = project
		out.Budgets = append(out.Budgets, left.Budget)
	}
	return nil
}

func (r *Reader) counters(ctx context.Context, out *view.Snapshot) error {
	counts, err := r.State.Counters(ctx)
	for _, c := range counts {
		counter := view.Counter{Name: c.Name, Labels: state.Pairs(c.Labels), Value: float64(c.Value)}
		if c.Name == state.JobCost {
			counter.Name, counter.Value = "agent_job_cost_total", float64(c.Value)/1e6
		}
		out.Counters = append(out.Counters, counter)
	}
	return err
}

// histograms gathers the buckets, which come sorted by name and labels.
func (r *Reader) histograms(ctx context.Context, out *view.Snapshot) error {
	observed, err := r.State.Histograms(ctx)
	var name, labels string
	for _, o := range observed {
		if n := len(out.Histograms); n == 0 || o.Name != name || o.Labels != labels {
			name, labels = o.Name, o.Labels
			out.Histograms = append(out.Histograms, view.Histogram{Name: name, Labels: state.Pairs(labels), Buckets: map[int]uint64{}})
		}
		h := &out.Histograms[len(out.Histograms)-1]
		h.Buckets[o.Bucket] = uint64(o.Count)
		h.Sum += o.Sum.Seconds()
	}
	return err
}

func (r *Reader) keys(ctx context.Context, out *view.Snapshot) error {
	admin := view.Key{Name: docsapi.KeyAdmin}
	if r.Config.APIKeyExpires.Set {
		admin.Expires = r.Config.APIKeyExpires.Date.Time()
	}
	out.Keys = []view.Key{admin}
	if r.Config.WriteAPIKey != "" {
		out.Keys = append(out.Keys, view.Key{Name: docsapi.KeyWrite})
	}
	for i := range out.Keys {
		k := &out.Keys[i]
		var err error
		if k.Rejected, err = r.KeyRejected(ctx, k.Name); err != nil {
			return err
		}
	}
	return nil
}

// sinks says when each sink last took a window, and how many it lacks.
func (r *Reader) sinks(l coverage.Ledger, out *view.Snapshot) {
	for _, s := range r.Sinks {
		sink := view.Sink{Name: s.Name(), Location: s.Location()}
		for e := range l.All() {
			at, owed := e.Sinks[s.Name()]
			switch {
			case owed && at.IsZero():
				sink.Waiting++
			case at.After(sink.LastCommit):
				sink.LastCommit = at
			}
		}
		out.Sinks = append(out.Sinks, sink)
	}
}

func (r *Reader) runs(ctx context.Context, out *view.Snapshot) error {
	runs, err := r.State.LastRuns(ctx, shownRuns)
	if err != nil {
		return err
	}
	for _, run := range runs {
		out.Runs = append(out.Runs, view.Run(run))
		if clock.IsFuture(run.Started, r.Now()) {
			continue
		}
		if run.Finished.After(out.LastCompletion) {
			out.LastCompletion = run.Finished
		}
		if run.Started.After(out.LastStart) {
			out.LastStart = run.Started
		}
	}
	out.LastSuccess, err = r.State.LastSuccess(ctx, r.Now())
	return err
}
