package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/redirects"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// ReportOptions select the contents of a report of an archive.
type ReportOptions struct {
	Now time.Time
	// From and To limit the report to windows inside [From, To); nil means unlimited.
	From, To *analytics.Date
	// Projects are the ids of the projects to show; empty means all in the archive. Names are
	// their display names, by id.
	Projects []string
	Names    map[string]string
	// Against selects the windows to compare the newest ones with.
	Against Comparison
	// Order is the order of projects; others come after these, by name.
	Order []string
	// Pages is the length of each list of pages. Reads lists the pages of the first AI agents too.
	Pages int
	Reads bool
	// Missed adds what agents missed in the days of query.MissedWindows, in place of what they missed in each window.
	Missed bool
}

// ReadReport makes the report of an archive, which it does not change; Version, Title and State are
// left to the caller. Damage to the archive is an error: a report with silent gaps would mislead.
func ReadReport(ctx context.Context, from sinks.Sink, o ReportOptions) (Report, error) {
	r := Report{Made: o.Now.UTC(), From: o.From, To: o.To, Against: o.Against, Pages: map[analytics.Key]*Pages{},
		missed: map[string]*missedList{}}
	all, err := listWindows(ctx, from, o)
	if err != nil {
		return r, err
	}
	ordered := slices.SortedFunc(maps.Keys(all), compareSeries)
	var ids []string
	for _, s := range ordered {
		ids = append(ids, s.Project)
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	if len(o.Projects) > 0 {
		for _, id := range o.Projects {
			if !slices.Contains(ids, id) {
				text := "project %.140q has no window in the archive %s in these dates; %s"
				return r, query.UnknownProjectError(fmt.Sprintf(text, id, from.Location(), format.DidYouMean(id, ids)))
			}
		}
		ids = slices.Compact(slices.Sorted(slices.Values(o.Projects)))
	}
	query.Sort(ids, o.Order)
	for _, id := range ids {
		p := view.Project{ID: id, Name: o.Names[id]}
		for _, s := range ordered {
			if s.Project != id {
				continue
			}
			grid := view.Grid{Project: id, Report: s.Report, Granularity: s.Granularity, Cells: cellsOf(s, all[s], o)}
			grid.Count()
			if newest, before := compared(grid, o.Against); newest != nil {
				p, err := readPages(ctx, from, newest, before, o.Pages)
				if err == nil && s.Report == analytics.AgentsReport && o.Reads {
					err = p.addReads(ctx, from)
				}
				if err != nil {
					return r, err
				}
				r.Pages[newest.Key] = p
			}
			if s.Report == analytics.VisitorsReport {
				p.Grids = append(p.Grids, grid)
			} else {
				p.Others = append(p.Others, grid)
			}
		}
		r.Projects = append(r.Projects, p)
		if !o.Missed {
			continue
		}
		if r.missed[id], err = missedBy(ctx, from, p, o.Pages); err != nil {
			return r, err
		}
	}
	return r, nil
}

// missedBy returns the first n paths that agents missed in the days of query.MissedWindows, from the shortest windows
// of agents; nil without any.
func missedBy(ctx context.Context, from sinks.Sink, p view.Project, n int) (*missedList, error) {
	i := slices.IndexFunc(p.Others, func(g view.Grid) bool {
		return g.Report == analytics.AgentsReport && g.Newest != nil && !g.Newest.TotalsOnly()
	})
	if i < 0 {
		return nil, nil
	}
	g := p.Others[i]
	var windows []analytics.Revision
	for _, c := range slices.Backward(g.Cells) {
		if c.Revision != nil && !c.Revision.TotalsOnly() && c.To > g.Newest.To-query.MissedWindows &&
			!query.Overlaps(windows, c.Window) {
			windows = append(windows, *c.Revision)
		}
	}
	missed, err := query.MissedIn(ctx, from, windows)
	if err != nil || len(missed.Misses) == 0 || n == 0 {
		return nil, err
	}
	l := &missedList{Note: view.Days(g.Granularity, missed.Window) + ", " + format.Plural(len(missed.Misses), "path")}
	if all := len(missed.Misses); all > n {
		l.Note = fmt.Sprintf("%s, the %d most asked of %d", view.Days(g.Granularity, missed.Window), n, all)
	}
	l.Rows = redirects.Propose(missed.Misses[:min(len(missed.Misses), n)], redirects.Site{Pages: missed.Pages})
	return l, nil
}

// windows are the readings of one series.
type windows map[analytics.Window]analytics.Revision

// listWindows finds the windows that were asked for.
func listWindows(ctx context.Context, from sinks.Sink, o ReportOptions) (map[schedule.Series]windows, error) {
	all := map[schedule.Series]windows{}
	var errs []error
	var first, last analytics.Date // of all windows, asked for or not
	found := 0
	for rev, err := range sinks.List(ctx, from) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if found++; found == 1 {
			first, last = rev.From, rev.To
		}
		first, last = min(first, rev.From), max(last, rev.To)
		if o.From != nil && rev.From < *o.From || o.To != nil && rev.To > *o.To {
			continue
		}
		s := schedule.SeriesOf(rev.Key)
		if all[s] == nil {
			all[s] = windows{}
		}
		all[s][rev.Window] = rev
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%w\nno report was written: `docgauge verify` says how to mend the archive", err)
	}
	switch {
	case found == 0:
		return nil, query.NoWindows(from)
	case len(all) == 0:
		return nil, fmt.Errorf("no window of the archive %s lies inside the dates asked for; "+
			"it has windows from %s to %s", from.Location(), first, last)
	}
	return all, nil
}

// compareSeries orders granularities: day, week and month first, then rolling windows by length.
func compareSeries(a, b schedule.Series) int {
	calendar := []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month}
	rank := func(g analytics.Granularity) int {
		if i := slices.Index(calendar, g); i >= 0 {
			return i
		}
		return len(calendar) + g.RollingDays()
	}
	return cmp.Or(cmp.Compare(a.Report, b.Report), cmp.Compare(rank(a.Granularity), rank(b.Granularity)))
}

// cellsOf returns the known windows and those that should be there, from the oldest
// known one to the newest complete one, oldest first.
func cellsOf(s schedule.Series, known windows, o ReportOptions) []view.Cell {
	var cells []view.Cell
	first := analytics.DateOf(o.Now)
	for w, rev := range known {
		cells = append(cells, view.Cell{Window: w, Revision: &rev})
		first = min(first, w.From)
	}
	end := analytics.DateOf(o.Now)
	if o.To != nil {
		end = min(end, *o.To)
	}
	n := 0
	for w := range schedule.Within(s.Granularity, first, end) {
		if _, ok := known[w]; !ok {
			cells = append(cells, view.Cell{Window: w})
		}
		if n++; n > 2*maxReportCells {
			break
		}
	}
	slices.SortFunc(cells, func(a, b view.Cell) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return cells
}

// compared returns the newest window of a grid, nil where its pages are not known, and
// the one that it is compared with, nil where those are not known. Totals of agents are enough.
func compared(g view.Grid, against Comparison) (newest, before *analytics.Revision) {
	unknown := func(r *analytics.Revision) bool {
		return r == nil || !r.HasRows()
	}
	if newest = g.Newest; unknown(newest) {
		return nil, nil
	}
	before = g.EndingAt(against.window(g.Granularity, newest.Window).To)
	if unknown(before) || !before.Comparable(*newest) {
		return newest, nil
	}
	return newest, before
}

// readPages compares the pages of a window, or its agents, with an earlier one's, which may be
// nil.
func readPages(
	ctx context.Context, from sinks.Sink, newest, before *analytics.Revision, n int,
) (p *Pages, err error) {
	p = &Pages{Newest: newest, Before: before}
	if newest.Report == analytics.VisitorsReport {
		p.Movers, err = query.Compare(ctx, from, before, newest, query.Ranking{By: analytics.Everyone, N: n})
		return p, err
	}
	if newest.Report != analytics.AgentsReport {
		ranking, err := query.RowRanking{Report: newest.Report, N: maxReportAgents}.Complete()
		if err != nil {
			return nil, err
		}
		rows, err := query.CompareRows(ctx, from, before, newest, ranking)
		p.Rows = &rows
		return p, err
	}
	for list, to := range map[query.AgentList]**query.AgentsReport{query.SiteAgents: &p.Agents, query.Misses: &p.Misses} {
		if list == query.Misses && newest.TotalsOnly() {
			continue
		}
		ranking, err := query.AgentRanking{List: list, N: maxReadAgents}.Complete()
		if err != nil {
			return nil, err
		}
		r, err := query.CompareAgents(ctx, from, before, newest, ranking)
		if err != nil {
			return nil, err
		}
		*to = &r
	}
	return p, nil
}

// addReads adds the pages of the first AI agents, which are not compared.
func (p *Pages) addReads(ctx context.Context, from sinks.Sink) error {
	for _, a := range p.Agents.Agents {
		if a.Audience != analytics.AI || len(p.Reads) == maxReads || p.Newest.TotalsOnly() {
			continue
		}
		ranking, err := query.AgentRanking{Agent: a.Agent, N: maxReadPages}.Complete()
		if err != nil {
			return err
		}
		r, err := query.CompareAgents(ctx, from, nil, p.Newest, ranking)
		if err != nil {
			return err
		}
		p.Reads = append(p.Reads, r)
	}
	return nil
}
