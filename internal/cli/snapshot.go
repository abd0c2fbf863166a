package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// shownRuns is how many runs a snapshot has.
const shownRuns = 10

// snapshots makes the values of all metrics and of the status page from the
// state. It sends nothing.
type snapshots struct {
	config
	db     *state.DB
	stores []sinks.Sink
	now    func() time.Time
	// keyLabels are those of a key as it is now.
	keyLabels func(name string) []string
	// prompts says how they stand where this process runs the queue; else nil.
	prompts func() standing
}

// read makes a snapshot. What commits while it reads may be in one part of it
// and not yet in another; the next one has it whole.
func (s *snapshots) read(ctx context.Context) (exporter.Snapshot, error) {
	out := exporter.Snapshot{At: s.now().UTC(), Version: version, Revision: revision()}
	l, err := readLedger(ctx, s.db)
	if err != nil {
		return out, err
	}
	in, err := (&selection{}).input(s.config, l, out.At, 0)
	if err != nil {
		return out, err
	}
	due, waiting := schedule.Plan(in)
	out.Projects, out.Asides = l.projects(in), l.resting(in)
	l.noteRowsFrom(out.Projects, waiting, in)
	if out.Windows, err = s.windows(ctx, l, out.Projects); err != nil {
		return out, err
	}
	s.sinks(l, &out)
	for _, read := range []func(context.Context, *exporter.Snapshot) error{s.open, s.counters, s.histograms, s.keys, s.runs, s.queue} {
		if err := read(ctx, &out); err != nil {
			return out, err
		}
	}
	return out, s.due(ctx, in, due, l, &out)
}

// resting returns the configured windows that are set aside at the plan's time,
// newest first. A running window never rests: it is asked for in each run.
func (l ledger) resting(in schedule.Input) []analytics.Aside {
	return slices.DeleteFunc(l.setAside(in.Projects, in.Now), func(a analytics.Aside) bool {
		return !a.Complete(in.Now) || !slices.ContainsFunc(in.Specs, func(s analytics.Spec) bool { return s.Granularity == a.Granularity })
	})
}

// noteRowsFrom says in the cells of windows that wait for their rows when these are
// read. One that is set aside waits for something else.
func (l ledger) noteRowsFrom(projects []exporter.Project, waiting []schedule.Item, in schedule.Input) {
	wait := map[analytics.Key]bool{}
	for _, item := range waiting {
		wait[item.Key] = !l.asides[item.Key].Until.After(in.Now)
	}
	for _, p := range projects {
		for _, g := range p.Grids {
			for i, c := range g.Cells {
				if c.Revision != nil && wait[c.Revision.Key] {
					g.Cells[i].RowsFrom = c.To.Time().Add(in.Settle)
				}
			}
		}
	}
}

// projects returns what the ledger should have of each project.
func (l ledger) projects(in schedule.Input) []exporter.Project {
	var out []exporter.Project
	for _, id := range in.Projects {
		p := exporter.Project{ID: id}
		for _, spec := range in.Specs {
			g, _ := l.grid(in, id, spec)
			p.Grids = append(p.Grids, g)
		}
		out = append(out, p)
	}
	return out
}

// grid returns the complete windows of one project and granularity, those in the
// ledger and those that are missing, and the missing ones again, newest first.
func (l ledger) grid(in schedule.Input, project string, spec analytics.Spec) (exporter.Grid, []analytics.Window) {
	g := exporter.Grid{Granularity: spec.Granularity, TotalsOnly: spec.TotalsOnly}
	for _, rev := range l.windows[schedule.Series{Project: project, Granularity: spec.Granularity}] {
		if rev.Complete(in.Now) {
			g.Cells = append(g.Cells, exporter.Cell{Window: rev.Window, Revision: &rev})
		}
	}
	gaps := schedule.Gaps(in, project, spec)
	for _, w := range gaps {
		// Of a window that lacks only its rows the ledger has an entry.
		if _, known := l.entries[analytics.Key{Project: project, Granularity: spec.Granularity, Window: w}]; !known {
			g.Cells = append(g.Cells, exporter.Cell{Window: w})
		}
	}
	slices.SortFunc(g.Cells, func(a, b exporter.Cell) int { return cmp.Compare(a.From, b.From) })
	countCells(&g)
	return g, gaps
}

func countCells(g *exporter.Grid) {
	for _, c := range g.Cells {
		if c.Revision == nil {
			g.Missing++
			continue
		}
		g.Known++
		if c.Revision.TotalsOnly() && !g.TotalsOnly {
			g.Rowless++
		}
		if !c.Revision.Settled {
			g.Provisional++
		}
		if !c.Revision.Verified {
			g.Unverified++
		}
	}
}

// newest returns the newest window in a grid that was read.
func newest(g exporter.Grid) *analytics.Revision {
	for _, c := range slices.Backward(g.Cells) {
		if c.Revision != nil {
			return c.Revision
		}
	}
	return nil
}

// before returns the totals of the window in a grid that ends where w begins,
// nil where it was not read.
func before(g exporter.Grid, w analytics.Window) *analytics.Totals {
	for _, c := range g.Cells {
		if c.To == w.From && c.Revision != nil {
			return &c.Revision.Totals
		}
	}
	return nil
}

// windows returns the newest windows, with their pages where those kept are of
// the same reading.
func (s *snapshots) windows(ctx context.Context, l ledger, projects []exporter.Project) (out []exporter.Window, err error) {
	lists, err := s.db.Pages(ctx, int(s.TopPages))
	if err != nil {
		return nil, err
	}
	for _, p := range projects {
		for _, g := range p.Grids {
			rev := newest(g)
			if rev == nil {
				continue
			}
			w := exporter.Window{Revision: *rev, Previous: before(g, rev.Window)}
			if !rev.Verified {
				e := l.entries[rev.Key]
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
func (s *snapshots) open(ctx context.Context, out *exporter.Snapshot) error {
	all, err := s.db.OpenWindows(ctx)
	for _, w := range all {
		wanted := slices.Contains(s.Projects, w.Project) && slices.Contains(s.OpenWindows, w.Granularity)
		if wanted && !w.Complete(out.At) {
			out.Open = append(out.Open, exporter.Open{Key: w.Key, Totals: w.Totals, ReadAt: w.ReadAt})
		}
	}
	return err
}

// due counts what is due, and asks the budget when that can be done. The running
// windows, which are read in every run, are not in it, nor those that wait.
func (s *snapshots) due(ctx context.Context, in schedule.Input, items []schedule.Item, l ledger, out *exporter.Snapshot) error {
	counts := map[exporter.Due]int{}
	items = slices.DeleteFunc(items, func(i schedule.Item) bool { return i.Reason == schedule.ReasonOpen })
	for _, i := range items {
		counts[exporter.Due{Project: i.Project, Granularity: i.Granularity, Reason: string(i.Reason)}]++
	}
	for _, project := range in.Projects {
		for _, spec := range in.Specs {
			for _, reason := range []schedule.Reason{schedule.ReasonMissing, schedule.ReasonSettle, schedule.ReasonUnverified} {
				d := exporter.Due{Project: project, Granularity: spec.Granularity, Reason: string(reason)}
				d.Count = counts[d]
				out.Due = append(out.Due, d)
			}
		}
	}
	left, err := readCapacity(ctx, s.db, s.config, out.At)
	if err != nil {
		return err
	}
	if len(items) > 0 {
		out.Finish = left.finish(costOf(items, l))
	}
	out.Budgets = []exporter.Budget{left.shown(analyticsBudget)}
	return s.agentBudgets(ctx, out)
}

// agentBudgets says what is left for prompts, where there is a queue.
func (s *snapshots) agentBudgets(ctx context.Context, out *exporter.Snapshot) error {
	if s.PromptsDir == "" {
		return nil
	}
	for _, project := range s.Projects {
		left, err := capacityOf(ctx, s.db, agentBudget(project), int(s.AgentBudget), time.Duration(s.Timeout), out.At)
		if err != nil {
			return err
		}
		out.Budgets = append(out.Budgets, left.shown(agentBudget(project)))
	}
	return nil
}

func (c capacity) shown(name string) exporter.Budget {
	return exporter.Budget{Name: name, Limit: c.Limit, Remaining: c.Available, Next: c.Next}
}

func (s *snapshots) counters(ctx context.Context, out *exporter.Snapshot) error {
	counts, err := s.db.Counters(ctx)
	for _, c := range counts {
		out.Counters = append(out.Counters, exporter.Counter{Name: c.Name, Labels: state.Pairs(c.Labels), Value: c.Value})
	}
	return err
}

// histograms gathers the buckets, which come sorted by name and labels.
func (s *snapshots) histograms(ctx context.Context, out *exporter.Snapshot) error {
	observed, err := s.db.Histograms(ctx)
	var name, labels string
	for _, o := range observed {
		if n := len(out.Histograms); n == 0 || o.Name != name || o.Labels != labels {
			name, labels = o.Name, o.Labels
			out.Histograms = append(out.Histograms, exporter.Histogram{Name: name, Labels: state.Pairs(labels), Buckets: map[int]uint64{}})
		}
		h := &out.Histograms[len(out.Histograms)-1]
		h.Buckets[o.Bucket] = uint64(o.Count)
		h.Sum += o.Sum.Seconds()
	}
	return err
}

func (s *snapshots) keys(ctx context.Context, out *exporter.Snapshot) error {
	admin := exporter.Key{Name: docsapi.KeyAdmin}
	if s.APIKeyExpires.set {
		admin.Expires = s.APIKeyExpires.date.Time()
	}
	out.Keys = []exporter.Key{admin}
	if s.WriteAPIKey != "" {
		out.Keys = append(out.Keys, exporter.Key{Name: docsapi.KeyWrite})
	}
	for i := range out.Keys {
		k := &out.Keys[i]
		var err error
		if k.Rejected, err = s.db.FlagOn(ctx, keyRejected, s.keyLabels(k.Name)...); err != nil {
			return err
		}
	}
	return nil
}

// sinks says what each sink has and lacks of what was read for it.
func (s *snapshots) sinks(l ledger, out *exporter.Snapshot) {
	for _, st := range s.stores {
		sink := exporter.Sink{Name: st.Name(), Location: st.Location()}
		for _, e := range l.entries {
			at, owed := e.Sinks[st.Name()]
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

func (s *snapshots) runs(ctx context.Context, out *exporter.Snapshot) error {
	runs, err := s.db.LastRuns(ctx, shownRuns)
	if err != nil {
		return err
	}
	for _, r := range runs {
		out.Runs = append(out.Runs, exporter.Run{
			Started: r.Started, Finished: r.Finished, Outcome: r.Outcome, Message: r.Message, Windows: r.Windows, Requests: r.Requests,
		})
		if r.Finished.After(out.LastCompletion) {
			out.LastCompletion = r.Finished
		}
		if r.Started.After(out.LastStart) {
			out.LastStart = r.Started
		}
	}
	out.LastSuccess, err = s.db.LastSuccess(ctx)
	return err
}
