package web

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// pageURL is the address of the page about a path of the documentation, relative to the root.
func pageURL(project string, path any) string {
	return "page?" + url.Values{"project": {project}, "path": {fmt.Sprint(path)}}.Encode()
}

// pathNumbers are the readers of one path.
type pathNumbers struct {
	Path        string
	Granularity analytics.Granularity
	Trail       []Link      // the sections that it is in
	Shown       *pathWindow // with numbers; nil: the page has none in the window that is shown
	Days        string      // of that window
	Rank        *query.RankedPage
	Pages       int64        // of the window of the rank
	Agents      *agentList   // that read the page; nil: no window of agents is known
	Rows        []*rowList   // of other reports
	People      *view.People // of the window; nil: not known
	Chart       *chart
	Windows     []pathWindow // newest first
	// Merges has the effects of the merges that touched the page; nil: there are none. Unjudged are
	// the merges among them that have no verdict yet.
	Merges   *effectTable
	Charts   []*effectChart // of the newest effects
	Unjudged []view.Outcome
	Caution  string // below the effects
	// Redirects lead to the page, the newest first; so many more are not shown. Redirected has their effects on its
	// readers; nil: there are none.
	Redirects     []view.Redirect
	MoreRedirects int
	Redirected    *effectTable
}

// maxPathCharts is how many effects are drawn, and maxPathRedirects how many redirects are listed.
const (
	maxPathCharts    = 6
	maxPathRedirects = 20
)

// pathWindow is a row of the table.
type pathWindow struct {
	query.HistoryWindow
	Granularity analytics.Granularity
	Href        string // of its numbers; empty: it has none
	Merged      []view.Merge
}

// before names the window that it is compared with.
func (w pathWindow) before() string { return beforeWindow(w.Granularity, w.Window) }

func (n *pathNumbers) title() string { return format.Path(n.Path) }

func (n *pathNumbers) machines(g analytics.Granularity) (string, url.Values) {
	return "history", url.Values{"path": {n.Path}, "limit": {fmt.Sprint(shownWindows(g))}}
}

// read asks the archive for the history of the page, and for its rank.
func (n *pathNumbers) read(ctx context.Context, from sinks.Sink, p *archivePage, choice query.Choice) error {
	top, err := query.Top(ctx, from, choice, query.Ranking{Path: &n.Path, By: analytics.Everyone, N: 1})
	if err != nil {
		return err
	}
	g := choice.Selection.Granularity
	p.window, n.Granularity, n.Caution = top[0].Window, g, view.OutcomeCaution
	n.Pages, n.Days = top[0].Rows, view.Days(g, p.window)
	if len(top[0].Pages) > 0 {
		n.Rank = &top[0].Pages[0]
	}
	all, err := history(p, choice, func(o query.HistoryOptions) ([]query.HistoryReport, error) {
		o.Page = &n.Path
		return query.Histories(ctx, from, o)
	}, func(h query.HistoryReport) analytics.Window { return h.Windows[0].Window })
	if err != nil {
		return err
	}
	n.Trail = trailOf(p.address, n.Path)
	choice.At = new(lastDay(p.window))
	if err := cmp.Or(n.readAgents(ctx, from, p, choice), n.readRows(ctx, from, p, choice)); err != nil {
		return err
	}
	grid := view.Grid{Granularity: g}
	for _, w := range all[0].Windows {
		row := pathWindow{HistoryWindow: w, Granularity: g}
		// The chart reads nothing but the totals of a cell.
		cell := view.Cell{Window: w.Window}
		if w.Visitors != nil {
			row.Href = p.address.toWindow(w.Window)
			cell.Revision = &analytics.Revision{Totals: *w.Visitors, Humans: w.Humans}
			if w.Window == p.window {
				n.Shown = &row
			}
		}
		n.Windows = append(n.Windows, row)
		grid.Cells = append(grid.Cells, cell)
	}
	if n.Chart = chartOf(grid, grid.Cells, mostTicks); n.Chart != nil {
		for i, w := range all[0].Windows[:len(n.Chart.Columns)] {
			if w.Absent {
				n.Chart.Columns[i].Title = view.Days(g, w.Window) + ": no reader of this page"
			}
		}
	}
	n.addMerges(p.outcomes)
	n.addRedirects(p.outcomes)
	slices.Reverse(n.Windows)
	return nil
}

// readAgents asks the archive which agents read the page, if windows of agents are exported.
func (n *pathNumbers) readAgents(ctx context.Context, from sinks.Sink, p *archivePage, o query.Choice) error {
	read := func(g view.Grid) bool { return g.Granularity == n.Granularity && g.Newest != nil }
	if n.Path == "" || !slices.ContainsFunc(p.address.project.Others, read) { // a row of agents without a path counts the site
		return nil
	}
	all, err := query.Agents(ctx, from, o, query.AgentRanking{Page: n.Path, N: maxReadAgents})
	if err := answered(err); err != nil {
		return err
	}
	for i := range all {
		if n.Agents = agentListOf(&Pages{Agents: &all[i]}, "agents", p.address.project.ID, maxReportAgents); n.Agents != nil {
			n.Agents.Query = p.address.rest()
		}
		n.People = all[i].People
	}
	return nil
}

// readRows asks the archive for the rows of other reports.
func (n *pathNumbers) readRows(ctx context.Context, from sinks.Sink, p *archivePage, o query.Choice) error {
	for _, g := range p.address.project.Others {
		if n.Path == "" || g.Report == analytics.AgentsReport || g.Granularity != n.Granularity || g.Newest == nil {
			continue
		}
		all, err := query.Rows(ctx, from, o, query.RowRanking{Report: g.Report, Path: n.Path, N: maxReportAgents})
		if err := answered(err); err != nil {
			return err
		}
		for i := range all {
			if l := rowListOf(&all[i], g.Report.String(), maxReportAgents); l != nil {
				n.Rows = append(n.Rows, l)
			}
		}
	}
	return nil
}

// addMerges lists the merges that touched the page and what became of its readers, and marks their
// windows.
func (n *pathNumbers) addMerges(all view.Outcomes) {
	var mark strings.Builder
	for _, o := range all.Merges {
		var rows []effectRow
		for _, e := range o.Effects {
			if e.Path != n.Path {
				continue
			}
			rows = append(rows, effectRow{Effect: e, Merge: o.Merge})
			if c := effectChartOf(o.Date(), e); c != nil && e.Verdict != view.NotEnoughData && len(n.Charts) < maxPathCharts {
				n.Charts = append(n.Charts, c)
			}
		}
		if rows == nil && !slices.Contains(o.Pages, n.Path) {
			continue
		}
		if n.Merges == nil {
			n.Merges = &effectTable{Title: "Readers of this page after merges, the newest merge first", Merged: "Merged"}
		}
		n.Merges.Rows = append(n.Merges.Rows, rows...)
		if rows == nil || o.Wait() != "" {
			n.Unjudged = append(n.Unjudged, o)
		}
		for i, w := range n.Windows {
			if !o.At.IsZero() && n.Granularity.Names(w.Window, o.Date()) {
				n.Windows[i].Merged = append(n.Windows[i].Merged, o.Merge)
				fmt.Fprintf(&mark, "M%d 0V%d", i*columnWidth+columnWidth/2, chartHeight)
			}
		}
	}
	if n.Chart != nil {
		n.Chart.Merged = mark.String()
	}
}

// addRedirects lists the redirects that lead to the page. Those of one day have the same effects.
func (n *pathNumbers) addRedirects(all view.Outcomes) {
	n.Redirects = slices.DeleteFunc(slices.Clone(all.Redirects), func(r view.Redirect) bool { return r.Target != n.Path })
	days := map[analytics.Date]bool{}
	for _, r := range n.Redirects {
		if day := r.Merge().Date(); len(r.Effects) > 0 && !days[day] {
			if days[day] = true; n.Redirected == nil {
				n.Redirected = &effectTable{Title: "Readers of this page after redirects, the newest first", Merged: "Redirected"}
			}
			for _, e := range r.Effects {
				n.Redirected.Rows = append(n.Redirected.Rows, effectRow{Effect: e, Merge: r.Merge()})
			}
		}
	}
	shown := min(len(n.Redirects), maxPathRedirects)
	n.Redirects, n.MoreRedirects = n.Redirects[:shown], len(n.Redirects)-shown
}

// state is why it has no numbers, or that these may change; empty: they are final.
func (w pathWindow) state() string {
	return windowRemark(w.HistoryWindow.State, w.Verified, w.Absent, w.Visitors != nil, "no reader")
}

// moved is the change of each audience; nil where one of the two windows has no numbers.
func (w pathWindow) moved() *analytics.Change {
	if w.Visitors == nil || w.Previous == nil {
		return nil
	}
	return &analytics.Change{Before: *w.Previous, After: *w.Visitors}
}

// sinceOf is the change of one audience since the window that w is compared with; nil if it is not known.
func sinceOf(w *pathWindow, by analytics.Audience) *change {
	moved := w.moved()
	if moved == nil {
		return nil
	}
	return changeSince(new(moved.Before.Of(by)), moved.After.Of(by), w.before())
}

// maxTrail is how many folders of a path are linked.
const maxTrail = 10

// trailOf links to all pages, and to the sections that a path is in.
func trailOf(a *address, path string) []Link {
	trail := []Link{{"All pages", a.to(atPages)}}
	if len(path) > maxLinked {
		return trail
	}
	for from, i := 0, 0; i < len(path)-1 && len(trail) <= maxTrail; i++ {
		if i > 0 && path[i] == '/' {
			trail = append(trail, Link{path[from : i+1], a.about(atPages, "prefix", path[:i+1])})
			from = i + 1
		}
	}
	return trail
}
