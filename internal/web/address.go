package web

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
)

// The pages of a server, relative to its root.
const (
	atReaders = "./"
	atPages   = "page"
	atAgents  = "agent"
	atJobs    = "jobs"
	atStatus  = "status"
	atReport  = "report"
)

// address is what a page of a server is about, as its URL names it: a project, one of its windows, and the window
// that it is compared with.
type address struct {
	page     string
	snapshot *view.Snapshot
	project  view.Project
	// grids are the granularities of the page. grid is the chosen one; cell is its chosen window, -1 if none was read.
	grids []view.Grid
	grid  view.Grid
	cell  int
	// pinned: the URL names the window. Otherwise the page follows the newest one.
	pinned  bool
	against Comparison
	// own are the parameters of this page alone, such as path.
	own url.Values
}

// addressError is why a URL leads to no page, with its status and a link to the nearest page.
type addressError struct {
	code int
	text string
	near Link // without Href: there is none
}

func (e addressError) Error() string { return e.text }

// errStarting is the error before the first snapshot.
var errStarting = addressError{code: http.StatusServiceUnavailable,
	text: "docgauge is starting and reads its ledger: try again in a few seconds."}

// readAddress reads the query of a page that shows windows of a report. own are the parameters of this page alone. An
// error is an addressError; the address then has what was understood.
func readAddress(
	s *view.Snapshot, page, query string, report analytics.Report, own ...string,
) (a *address, q question, err error) {
	a = &address{page: page, snapshot: s, cell: -1, own: url.Values{}}
	if s == nil {
		return a, q, errStarting
	}
	known := []string{"project", "window", "at"}
	if page != atAgents && !slices.Contains(own, "path") { // those have the window before beside each
		known = append(known, "compare")
	}
	q, err = readQuestion(query, append(known, own...), 1, 0)
	if err == nil {
		a.against, err = ParseComparison(q.values.Get("compare"))
	}
	if err != nil {
		return a, q, addressError{code: http.StatusBadRequest, text: err.Error() + "."}
	}
	for _, name := range own {
		if q.values.Has(name) {
			a.own.Set(name, q.values.Get(name))
		}
	}
	if err := a.chooseProject(q.project); err != nil {
		return a, q, err
	}
	a.grids = a.project.Grids
	if report != analytics.VisitorsReport {
		a.grids = slices.DeleteFunc(slices.Clone(a.project.Others), func(g view.Grid) bool { return g.Report != report })
	}
	q.today = analytics.DateOf(s.At)
	return a, q, a.chooseWindow(q)
}

// chooseProject takes the first project for an empty id.
func (a *address) chooseProject(id string) error {
	var ids []string
	for _, p := range a.snapshot.Projects {
		if id == "" || p.ID == id {
			a.project = p
			return nil
		}
		ids = append(ids, p.ID)
	}
	if id == "" {
		return addressError{code: http.StatusNotFound, text: "There is no project: DOCGAUGE_PROJECTS is empty."}
	}
	e := addressError{code: http.StatusNotFound, text: fmt.Sprintf("project %.140q: not one of DOCGAUGE_PROJECTS; %s.", id,
		format.DidYouMean(id, ids))}
	if len(ids) > 0 {
		near := slices.MinFunc(ids, func(x, y string) int { return format.Edits(id, x) - format.Edits(id, y) })
		e.near = Link{"Show " + a.snapshot.ProjectName(near), a.page + "?" + url.Values{"project": {near}}.Encode()}
	}
	return e
}

// chooseWindow finds the granularity and the window: without a day the newest one.
func (a *address) chooseWindow(q question) error {
	i := usualGrid(a.grids)
	if q.window != "" {
		i = slices.IndexFunc(a.grids, func(g view.Grid) bool { return g.Granularity == q.window })
	}
	switch {
	case i >= 0:
		a.grid = a.grids[i]
	case len(a.grids) > 0:
		near := slices.MinFunc(a.grids, func(x, y view.Grid) int {
			far := func(g view.Grid) int {
				return max(length(g.Granularity)-length(q.window), length(q.window)-length(g.Granularity))
			}
			return far(x) - far(y)
		}).Granularity
		return addressError{http.StatusNotFound, fmt.Sprintf("window %s: not one of the windows that are read of %s; the "+
			"nearest is %s.", q.window, a.name(), near), Link{"Show " + title(near), a.toKind(near)}}
	default:
		a.grid.Granularity = cmp.Or(q.window, analytics.Week)
	}
	if q.at == nil {
		for i, c := range slices.Backward(a.grid.Cells) {
			if c.Revision != nil {
				a.cell = i
				break
			}
		}
		return nil
	}
	a.cell = slices.IndexFunc(a.grid.Cells, func(c view.Cell) bool {
		return c.Revision != nil && a.grid.Granularity.Names(c.Window, *q.at)
	})
	if a.cell < 0 {
		return a.lacks(*q.at, q.today)
	}
	a.pinned = true
	return nil
}

// usualGrid is the granularity that people ask about first: weeks, then days, then any that was read; -1 without one.
func usualGrid(grids []view.Grid) int {
	usual, best := -1, 0
	for i, g := range grids {
		rank := slices.Index([]analytics.Granularity{analytics.Day, analytics.Week}, g.Granularity)
		if g.Newest == nil {
			rank -= 3
		}
		if usual < 0 || rank > best {
			usual, best = i, rank
		}
	}
	return usual
}

// length is about how many days a window of g has.
func length(g analytics.Granularity) int {
	days := map[analytics.Granularity]int{analytics.Day: 1, analytics.Week: 7, analytics.Month: 30}
	return cmp.Or(g.RollingDays(), days[g])
}

// lacks is the error that no window of a day was read. It names the nearest one that was.
func (a *address) lacks(day, today analytics.Date) error {
	g := a.grid.Granularity
	e := addressError{code: http.StatusNotFound, text: fmt.Sprintf("No %s with %s has been read.", spanName(g), day)}
	if w, open := schedule.Open(g, today); open && g.Names(w, day) {
		e.text = view.Days(g, w) + " is not over yet."
	}
	near := -1
	for i, c := range a.grid.Cells {
		far := func(i int) analytics.Date { return max(a.grid.Cells[i].To-1-day, day-a.grid.Cells[i].To+1) }
		if c.Revision != nil && (near < 0 || far(i) <= far(near)) {
			near = i
		}
	}
	if near >= 0 {
		w := a.grid.Cells[near].Window
		e.text += " The nearest is " + view.Days(g, w) + "."
		e.near = Link{"Show " + view.Days(g, w), a.toWindow(w)}
	}
	return e
}

// name is the display name of the project.
func (a *address) name() string {
	return format.Cut(cmp.Or(a.project.Name, a.project.ID), view.MaxName)
}

// window is the reading of the chosen window; nil: none was read.
func (a *address) window() *analytics.Revision {
	if a.cell < 0 {
		return nil
	}
	return a.grid.Cells[a.cell].Revision
}

// newest reports whether the page shows what is ready with each snapshot: the newest window and the usual comparison.
func (a *address) newest() bool {
	return a.against == Comparison{} && (a.window() == nil || a.window() == a.grid.Newest)
}

// values are the parameters that lead to this page again.
func (a *address) values() url.Values {
	v := url.Values{"project": {a.project.ID}}
	for name, all := range a.own {
		v[name] = all
	}
	if a.grid.Granularity != "" {
		v.Set("window", string(a.grid.Granularity))
	}
	if a.pinned {
		v.Set("at", lastDay(a.window().Window).String())
	}
	if text := a.against.String(); text != "" {
		v.Set("compare", text)
	}
	return v
}

// lastDay is the day that names a window of any granularity.
func lastDay(w analytics.Window) analytics.Date { return w.To - 1 }

// with is the address of the same page with one parameter changed; empty: without it.
func (a *address) with(name, value string) string {
	v := a.values()
	v.Set(name, value)
	if value == "" {
		v.Del(name)
	}
	return a.page + "?" + v.Encode()
}

func (a *address) toWindow(w analytics.Window) string { return a.with("at", lastDay(w).String()) }

// toKind leads to another granularity: to the window with the last day of the chosen one, if that was read.
func (a *address) toKind(g analytics.Granularity) string {
	b := *a
	b.grid, b.cell, b.pinned = view.Grid{Granularity: g}, -1, false
	for _, grid := range a.grids {
		if grid.Granularity == g {
			b.grid = grid
		}
	}
	if a.pinned {
		b.cell = slices.IndexFunc(b.grid.Cells, func(c view.Cell) bool {
			return c.Revision != nil && g.Names(c.Window, lastDay(a.window().Window))
		})
		b.pinned = b.cell >= 0
	}
	return b.page + "?" + b.values().Encode()
}

// to leads to another page about the same project, window and comparison, as far as that page has them.
func (a *address) to(page string) string {
	switch {
	case a == nil || a.project.ID == "" || page == atStatus:
		return page
	case page == atJobs:
		return page + "?" + url.Values{"project": {a.project.ID}}.Encode()
	}
	v := a.values()
	for name := range a.own {
		v.Del(name)
	}
	if page == atAgents {
		v.Del("compare")
	}
	has := func(g view.Grid) bool {
		return g.Granularity == a.grid.Granularity && (page != atPages || !g.TotalsOnly)
	}
	if page == atAgents && !slices.ContainsFunc(a.project.Others, has) ||
		page != atAgents && !slices.ContainsFunc(a.project.Grids, has) {
		v = url.Values{"project": {a.project.ID}}
	}
	return page + "?" + v.Encode()
}

// tab is a link of a row of links; Current marks the page that is shown.
type tab struct {
	Text, Href string
	Current    bool
}

// navigation leads from a page to the others of its server that have something to show. The address can be nil.
func navigation(s *view.Snapshot, page string, a *address) (out []tab) {
	agents := s != nil && slices.ContainsFunc(s.Projects, func(p view.Project) bool {
		read := func(g view.Grid) bool { return g.Report == analytics.AgentsReport && g.Newest != nil }
		return (a == nil || a.project.ID == "" || a.project.ID == p.ID) && slices.ContainsFunc(p.Others, read)
	})
	jobs := s != nil && (s.Queue != nil || len(s.Outcomes.Merges) > 0)
	for _, t := range []struct {
		tab
		there bool
	}{
		{tab{"Readers", atReaders, false}, true}, {tab{"Pages", atPages, false}, true},
		{tab{"Assistants", atAgents, false}, agents}, {tab{"Jobs", atJobs, false}, jobs},
		{tab{"Status", atStatus, false}, true},
	} {
		if t.there || page == t.Href {
			out = append(out, tab{t.Text, a.to(t.Href), page == t.Href})
		}
	}
	return out
}

// picker leads to the other windows of a page, and compares with others. The template "picker" shows it.
type picker struct {
	Page            string
	Fields          []field // of the page, beside the window
	Projects, Kinds []tab
	Windows         []choice // newest first
	Earlier, Later  Link     // without Href: there is none
	Newest          string   // leads to the newest window; empty: this is it
	Compared        []tab
}

// field is a parameter of a form.
type field struct{ Name, Value string }

// choice is an entry of a list to choose from.
type choice struct {
	field
	Chosen bool
}

// picker returns the links of the page. Comparisons are offered if both windows were read.
func (a *address) picker() *picker {
	p := &picker{Page: a.page}
	for _, other := range a.snapshot.Projects {
		href := a.page + "?" + url.Values{"project": {other.ID}}.Encode()
		p.Projects = append(p.Projects, tab{a.snapshot.ProjectName(other.ID), href, other.ID == a.project.ID})
	}
	for _, g := range a.grids {
		if a.page == atPages && g.TotalsOnly && g.Granularity != a.grid.Granularity {
			continue // it has no pages
		}
		p.Kinds = append(p.Kinds, tab{title(g.Granularity), a.toKind(g.Granularity), g.Granularity == a.grid.Granularity})
	}
	now := a.window()
	if now == nil {
		return p
	}
	for name, all := range a.values() {
		if name != "at" {
			p.Fields = append(p.Fields, field{name, all[0]})
		}
	}
	slices.SortFunc(p.Fields, func(x, y field) int { return cmp.Compare(x.Name, y.Name) })
	g := a.grid.Granularity
	for i, c := range slices.Backward(a.grid.Cells) {
		if c.Revision == nil {
			continue
		}
		days := view.Days(g, c.Window)
		p.Windows = append(p.Windows, choice{field{days, lastDay(c.Window).String()}, i == a.cell})
		switch {
		case i > a.cell:
			p.Later = Link{days, a.toWindow(c.Window)}
		case i < a.cell && p.Earlier.Href == "":
			p.Earlier = Link{days, a.toWindow(c.Window)}
		}
	}
	if a.pinned {
		p.Newest = a.with("at", "")
	}
	if year := g.YearBefore(now.Window); a.against != (Comparison{}) || a.grid.EndingAt(year.To) != nil {
		usual := "Previous " + spanName(g)
		if g == analytics.Day {
			usual = "A week before"
		}
		p.Compared = []tab{{usual, a.with("compare", ""), a.against == Comparison{}}}
		if a.against.Year || a.grid.EndingAt(year.To) != nil {
			p.Compared = append(p.Compared, tab{"A year before", a.with("compare", "year"), a.against.Year})
		}
		if a.against.Windows > 0 {
			before := view.Days(g, a.against.window(g, now.Window))
			p.Compared = append(p.Compared, tab{before, a.with("compare", a.against.String()), true})
		}
	}
	return p
}

// maxCompared is the greatest distance of a comparison, in windows.
const maxCompared = 1000

// ParseComparison reads what String returns, or "previous".
func ParseComparison(text string) (c Comparison, err error) {
	switch text {
	case "", "previous":
		return c, nil
	case "year":
		return Comparison{Year: true}, nil
	}
	if c.Windows, err = strconv.Atoi(text); err != nil || c.Windows < 1 || c.Windows > maxCompared {
		return Comparison{}, fmt.Errorf("compare %.40q: want previous, year, or a number of windows from 1 to %d", text,
			maxCompared)
	}
	return c, nil
}

// String is the comparison as a parameter; empty for the usual one.
func (c Comparison) String() string {
	switch {
	case c.Year:
		return "year"
	case c.Windows > 0:
		return strconv.Itoa(c.Windows)
	}
	return ""
}

// problemPage is about a URL that leads to no other page. The template "problempage" shows it.
type problemPage struct {
	Style                template.CSS
	Version, Title, Text string
	Near                 Link // to the nearest page; without Href: there is none
	Navigation           []tab
}

// refusal is the page about an error of readAddress, or of the archive.
func refusal(a *address, err error, version string) (rendered, error) {
	e, ok := errors.AsType[addressError](err)
	if !ok {
		e.code, e.text = archiveProblem(err)
		e.text += "."
	}
	p := problemPage{Style: pathKind().style, Version: version, Title: "No numbers to show", Text: e.text, Near: e.near,
		Navigation: navigation(a.snapshot, a.page, a)}
	if a.project.ID != "" {
		p.Title = a.name()
	}
	plain, err := pathKind().render("problempage", p)
	return rendered{plain: plain, gzip: compressed(plain), status: e.code}, err
}
