package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
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

// shownWindows is how many windows of a granularity the page of a path shows.
func shownWindows(g analytics.Granularity) int {
	switch g {
	case analytics.Week:
		return 26
	case analytics.Month:
		return 24
	}
	return 56
}

// pathHandler serves /page.
type pathHandler struct {
	current func() *view.Snapshot
	archive Archive
	version string
}

// NewPathPage returns the handler of /page, which shows the readers of one path of the documentation:
// its history and rank in the archive, and the merges that touched it in the snapshot. It is safe for
// concurrent use.
func NewPathPage(current func() *view.Snapshot, archive Archive, version string) http.Handler {
	return &pathHandler{current, archive, version}
}

func (h *pathHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header(), pathKind().policy)
	if !readOnly(w, r) {
		return
	}
	p, code := h.answer(r)
	a := &address{page: atPages, project: view.Project{ID: p.Project}}
	p.Style, p.Version, p.Navigation = pathKind().style, h.version, navigation(h.current(), atPages, a)
	plain, err := pathKind().render("pathpage", p)
	if err != nil {
		http.Error(w, "page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	rendered{plain: plain, gzip: compressed(plain), status: code}.write(w, r)
}

// pathPage is the data of the template. Problem is why there are no numbers; empty: there are.
type pathPage struct {
	Style                template.CSS
	Version              string
	Navigation           []tab
	Project, ProjectName string
	Path                 string
	Title                string
	Granularity          analytics.Granularity
	Problem              string
	Similar              string // a path that may be meant
	Kinds                []pathKindLink
	CSV, JSON            string

	Newest  *pathWindow // with numbers
	Rank    *query.RankedPage
	Agents  *agentList // that read the page; nil: no window of agents is known
	Rows    []*rowList // of other reports
	Pages   int64      // of the window of the rank
	Ranked  string
	People  *view.People // of the newest window; nil: not known
	Chart   *chart
	Windows []pathWindow // newest first
	// Merges has the effects of the merges that touched the page; nil: there are none. Unjudged are
	// those of them that have no verdict yet.
	Merges   *effectTable
	Charts   []*effectChart // of the newest effects
	Unjudged []view.Outcome
	Caution  string // below the effects
	Made     *moment
}

// maxPathCharts is how many effects are drawn.
const maxPathCharts = 6

// pathKindLink leads to another granularity of the same page.
type pathKindLink struct {
	Granularity analytics.Granularity
	Link        string
	Current     bool
}

// pathWindow is a row of the table.
type pathWindow struct {
	query.HistoryWindow
	Granularity analytics.Granularity
	Merged      []view.Merge
}

// before names the window that it is compared with.
func (w pathWindow) before() string {
	if w.Granularity == analytics.Day {
		return "the previous " + w.From.Weekday().String()
	}
	return previous(w.Granularity)
}

// answer reads the question and finds the answer.
func (h *pathHandler) answer(r *http.Request) (*pathPage, int) {
	p := &pathPage{Caution: view.OutcomeCaution}
	fail := func(code int, text string) (*pathPage, int) {
		p.Title, p.Problem = cmp.Or(p.Title, "No numbers to show"), text
		return p, code
	}
	s := h.current()
	if s == nil {
		return fail(http.StatusServiceUnavailable, "docgauge is starting and reads its ledger: try again in a few seconds.")
	}
	p.Made = momentOf(s.At, s.At)
	q, err := readQuestion(r.URL.RawQuery, []string{"project", "path", "window"}, 1, 0)
	switch {
	case err != nil:
		return fail(http.StatusBadRequest, err.Error()+".")
	case q.path == nil:
		return fail(http.StatusBadRequest, "path: missing; /page?path=/quickstart shows the page /quickstart.")
	case q.project == "" && len(s.Projects) == 1:
		q.project = s.Projects[0].ID
	}
	var ids []string
	i := slices.IndexFunc(s.Projects, func(v view.Project) bool {
		ids = append(ids, v.ID)
		return v.ID == q.project
	})
	switch {
	case q.project == "":
		return fail(http.StatusBadRequest, "project: missing; "+format.DidYouMean("", ids)+".")
	case i < 0:
		return fail(http.StatusNotFound, fmt.Sprintf("project %.140q: not one of DOCGAUGE_PROJECTS; %s.", q.project,
			format.DidYouMean(q.project, ids)))
	}
	p.Project, p.ProjectName, p.Path, p.Title = q.project, s.ProjectName(q.project), *q.path, format.Path(*q.path)
	p.addKinds(s.Projects[i], q.window)
	if err := h.archive.ask(r.Context(), func(ctx context.Context, from sinks.Sink) error {
		return p.read(ctx, from, analytics.DateOf(s.At), s.Projects[i])
	}); err != nil {
		code, text := archiveProblem(err)
		if unknown, ok := errors.AsType[query.UnknownError](err); ok {
			p.Similar = unknown.Similar
			text = fmt.Sprintf("This page has no reader in the last %d %s windows of the archive. Paths are exact: "+
				"/quickstart is not /quickstart/", shownWindows(p.Granularity), p.Granularity)
		}
		return fail(code, text+".")
	}
	p.addMerges(s.Outcomes)
	slices.Reverse(p.Windows)
	return p, http.StatusOK
}

// addKinds chooses the granularity, a week if there is one, and links to the others.
func (p *pathPage) addKinds(of view.Project, asked analytics.Granularity) {
	p.Granularity = asked
	for _, g := range of.Grids {
		if !g.TotalsOnly || g.Granularity == asked {
			p.Kinds = append(p.Kinds, pathKindLink{Granularity: g.Granularity})
		}
	}
	week := slices.ContainsFunc(p.Kinds, func(k pathKindLink) bool { return k.Granularity == analytics.Week })
	switch {
	case p.Granularity != "":
	case week || len(p.Kinds) == 0:
		p.Granularity = analytics.Week
	default:
		p.Granularity = p.Kinds[0].Granularity
	}
	for i, k := range p.Kinds {
		p.Kinds[i].Link = pageURL(p.Project, p.Path) + "&window=" + string(k.Granularity)
		p.Kinds[i].Current = k.Granularity == p.Granularity
	}
	values := url.Values{"project": {p.Project}, "window": {string(p.Granularity)}, "path": {p.Path},
		"limit": {fmt.Sprint(shownWindows(p.Granularity))}}
	p.JSON = "api/v1/history?" + values.Encode()
	p.CSV = p.JSON + "&format=csv"
}

// read asks the archive for the history of the page, and for its rank.
func (p *pathPage) read(ctx context.Context, from sinks.Sink, today analytics.Date, of view.Project) error {
	selection := query.Selection{Granularity: p.Granularity, Projects: []string{p.Project}}
	all, err := query.Histories(ctx, from, query.HistoryOptions{Selection: selection, Page: &p.Path,
		Last: shownWindows(p.Granularity), Today: today})
	if unknown, ok := errors.AsType[query.UnknownProjectError](err); ok {
		return query.NoAnswerError(unknown)
	}
	if err != nil {
		return err
	}
	choice := query.Choice{Selection: selection, Today: today}
	top, err := query.Top(ctx, from, choice, query.Ranking{Path: &p.Path, By: analytics.Everyone, N: 1})
	if err != nil {
		return err
	}
	p.Pages, p.Ranked = top[0].Rows, view.Days(p.Granularity, top[0].Window)
	if len(top[0].Pages) > 0 {
		p.Rank = &top[0].Pages[0]
	}
	if err := cmp.Or(p.readAgents(ctx, from, choice, of), p.readRows(ctx, from, choice, of)); err != nil {
		return err
	}
	grid := view.Grid{Project: p.Project, Granularity: p.Granularity}
	for _, w := range all[0].Windows {
		row := pathWindow{HistoryWindow: w, Granularity: p.Granularity}
		p.Windows = append(p.Windows, row)
		// The chart reads nothing but the totals of a cell.
		cell := view.Cell{Window: w.Window}
		if w.Visitors != nil {
			p.Newest = &row
			cell.Revision = &analytics.Revision{Totals: *w.Visitors, Humans: w.Humans}
		}
		grid.Cells = append(grid.Cells, cell)
	}
	if p.Chart = chartOf(grid, grid.Cells, mostTicks); p.Chart != nil {
		for i, w := range all[0].Windows[:len(p.Chart.Columns)] {
			if w.Absent {
				p.Chart.Columns[i].Title = view.Days(p.Granularity, w.Window) + ": no reader of this page"
			}
		}
	}
	return nil
}

// readAgents asks the archive which agents read the page, if windows of agents are exported.
func (p *pathPage) readAgents(ctx context.Context, from sinks.Sink, o query.Choice, of view.Project) error {
	read := func(g view.Grid) bool { return g.Granularity == p.Granularity && g.Newest != nil }
	if p.Path == "" || !slices.ContainsFunc(of.Others, read) { // a row of agents without a path counts the site
		return nil
	}
	all, err := query.Agents(ctx, from, o, query.AgentRanking{Page: p.Path, N: maxReadAgents})
	_, none := errors.AsType[query.NoAnswerError](err)
	_, unknown := errors.AsType[query.UnknownProjectError](err)
	if err != nil && !none && !unknown {
		return err
	}
	for i := range all {
		p.Agents = agentListOf(&Pages{Agents: &all[i]}, "agents", p.Project, maxReportAgents)
		if p.Ranked == view.Days(p.Granularity, all[i].Window) {
			p.People = all[i].People
		}
	}
	return nil
}

// readRows asks the archive for the rows of other reports.
func (p *pathPage) readRows(ctx context.Context, from sinks.Sink, o query.Choice, of view.Project) error {
	for _, g := range of.Others {
		if p.Path == "" || g.Report == analytics.AgentsReport || g.Granularity != p.Granularity || g.Newest == nil {
			continue
		}
		all, err := query.Rows(ctx, from, o, query.RowRanking{Report: g.Report, Path: p.Path, N: maxReportAgents})
		_, none := errors.AsType[query.NoAnswerError](err)
		_, unknown := errors.AsType[query.UnknownProjectError](err)
		if err != nil && !none && !unknown {
			return err
		}
		for i := range all {
			if l := rowListOf(&all[i], g.Report.String(), maxReportAgents); l != nil {
				p.Rows = append(p.Rows, l)
			}
		}
	}
	return nil
}

// addMerges lists the merges that touched the page and what became of its readers, and marks their
// windows.
func (p *pathPage) addMerges(all view.Outcomes) {
	var mark strings.Builder
	for _, o := range all.Of(p.Project).Merges {
		var rows []effectRow
		for _, e := range o.Effects {
			if e.Path != p.Path {
				continue
			}
			rows = append(rows, effectRow{Effect: e, Merge: o.Merge})
			if c := effectChartOf(o.Date(), e); c != nil && e.Verdict != view.NotEnoughData && len(p.Charts) < maxPathCharts {
				p.Charts = append(p.Charts, c)
			}
		}
		if rows == nil && !slices.Contains(o.Pages, p.Path) {
			continue
		}
		if p.Merges == nil {
			p.Merges = &effectTable{Title: "Readers of this page after merges, the newest merge first", Merged: true}
		}
		p.Merges.Rows = append(p.Merges.Rows, rows...)
		if rows == nil || o.Wait() != "" {
			p.Unjudged = append(p.Unjudged, o)
		}
		for i, w := range p.Windows {
			d := o.Date()
			marks := w.From <= d && d < w.To
			if p.Granularity.RollingDays() > 0 { // they overlap: the one that the day ends
				marks = d == w.To-1
			}
			if !o.At.IsZero() && marks {
				p.Windows[i].Merged = append(p.Windows[i].Merged, o.Merge)
				fmt.Fprintf(&mark, "M%d 0V%d", i*columnWidth+columnWidth/2, chartHeight)
			}
		}
	}
	if p.Chart != nil {
		p.Chart.Merged = mark.String()
	}
}

// state is why a window has no numbers, or that these may change; empty: they are final.
func (w pathWindow) state() string {
	switch {
	case w.HistoryWindow.State == query.Missing:
		return query.Missing
	case w.Absent:
		return "no reader"
	case w.Visitors == nil:
		return "totals only"
	case !*w.Verified:
		return w.HistoryWindow.State + ", unverified"
	case w.HistoryWindow.State == "settled":
		return ""
	}
	return w.HistoryWindow.State
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
	before := moved.Before.Of(by)
	g := gainOf(&before, moved.After.Of(by))
	c := change{Before: "on " + w.before(), Text: g.Text, Tone: g.Tone}
	switch {
	case g.By == 0:
		c.Text = "unchanged"
	case g.Growth != "":
		c.Text += " (" + g.Growth + ")"
	}
	return &c
}
