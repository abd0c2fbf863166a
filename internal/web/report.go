package web

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/redirects"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	maxReportCells  = 4000 // windows of one grid: ten years of days
	firstReadPages  = 20   // of the most read ones are shown unfolded
	firstMoves      = 10   // are shown of each kind of change
	maxReportJobs   = 100  // in the table of jobs
	maxReportAgents = 20   // of one window, and as many misses
	maxReads        = 8    // AI agents whose pages are listed
	maxReadPages    = 10   // of each agent
	maxMerges       = 20   // that are shown
	maxMergeEffects = 20   // of one merge in its table
	maxMergeCharts  = 4    // of one merge
)

// Report is the content of one HTML file: how many readers, how many of them AI, which pages rise
// and fall, and the results of the agent's jobs. The file has every number and drawing even without
// its script, which only adds interaction with a pointer.
type Report struct {
	// Made is when the report was made; ages count from it. Version is the version of the program.
	Made    time.Time
	Version string
	// Title is the heading; empty: one is made of the names of the projects.
	Title string
	// Findings say what makes the numbers doubtful. Origin says what they were counted from, once; empty: they are from an
	// archive.
	Findings []string
	Origin   string
	// recent: of the jobs of State there is the newest of each prompt, until 30 days after its end.
	recent bool
	// live: it is a page of a server, which has the numbers of each page of the documentation, and of this one anew.
	live bool
	// around is the grid of the only granularity, with the windows after the newest one of Projects; nil: there are none.
	around *view.Grid
	// rest is the end of the addresses of pages and agents in the window of that granularity.
	rest string
	// From and To are the requested dates, [From, To); nil means unlimited.
	From, To *analytics.Date
	// Against selects the windows to compare the newest ones with.
	Against Comparison
	// Projects have one grid for each granularity that the archive holds.
	Projects []view.Project
	// Pages are the pages of the newest windows, by their keys, and the agents of the windows of the report of
	// agents, which are in Others of their project. Windows of visitors of which only totals were read have none.
	Pages map[analytics.Key]*Pages
	// missed are the paths that agents missed, by project; nil: the windows of agents have what they missed.
	missed map[string]*missedList
	// State has the runs, the open windows, the queue with the jobs of these projects and dates, newest first, and the
	// outcomes of their merges; nil where no state directory is known.
	State *view.Snapshot
}

// Link leads to another page; Href is relative.
type Link struct{ Text, Href string }

// Pages compares the pages of the newest reading of a window with the pages of an earlier window, or its agents.
type Pages struct {
	// Before is the earlier one; nil: the archive lacks it or has only its totals, and of Movers
	// only Top and Pages are meaningful.
	Newest, Before *analytics.Revision
	Movers         analytics.Movers
	// Agents are a window's agents, Misses what they asked for that is not there; nil: only totals
	// were read.
	Agents, Misses *query.AgentsReport
	// Reads are the pages of the first AI agents, each of one; none where a server has a page of each agent.
	Reads []query.AgentsReport
	// Rows are a window's rows, of another report.
	Rows *query.RowsReport
}

// Write writes the file. Nothing is written if it cannot be made.
func (r Report) Write(out io.Writer) error {
	page, err := reportKind().render("report", r.page())
	if err == nil {
		_, err = out.Write(page)
	}
	return err
}

// reportPage is the data of the templates: a report, and values derived from it.
type reportPage struct {
	Report
	Style    template.CSS
	Script   template.JS
	Policy   string
	Live     bool // a server has newer numbers
	Now      *moment
	Asked    string // the requested dates; empty if unlimited
	Sections []reportProject
	Queue    *reportQueue // nil without a prompt queue
	Merges   []reportMerge
	More     int // merges that are not shown
	// Summaries and Caution speak about all merges together.
	Summaries []string
	Caution   string
	// A page of a server has these: links to its other pages, to this one as a file, and to the numbers.
	Navigation                []tab
	Picker                    *picker
	Pipeline                  pipeline
	AllPages, AllAgents, File string
	Links                     []Link
}

// reportProject is one project.
type reportProject struct {
	Name, Anchor string
	Series       []reportSeries
	Missed       *missedList // nil: Series have it
}

// missedList is what agents asked for and did not find.
type missedList struct {
	Note string
	Rows []redirects.Proposal
}

// reportSeries is one granularity: a tab that opens its pane.
type reportSeries struct {
	ID, Group string
	Open      bool // at first
	Grid      view.Grid
	Older     int   // windows that are not shown
	Card      *card // nil: nothing was read
	Totals    []figure
	SoFar     *analytics.OpenWindow // nil: the running window is not read
	Trend     *trend                // nil: no two windows in a row were read
	Read      *moment
	Pages     *Pages // nil: Pageless says why
	Pageless  string
	Lists     []pageList
	Before    string     // the window that pages are compared with
	OtherMode string     // by which that window counts people, so that nothing is compared
	Agents    *agentList // nil: no window of agents was read
	Reads     []query.AgentsReport
	People    *view.People // nil: not known
	Once      bool         // the windows were counted once, so that none is read again
	Rows      []*rowList   // of other reports
}

// reportQueue summarizes the agent's jobs.
type reportQueue struct {
	*jobTable
	Results []jobResult
	Median  string // time to a pull request
}

// jobResult is the number of jobs that ended in one way, of all that ended.
type jobResult struct {
	view.Job
	Count, All int
}

// reportMerge is a merge and what became of the readers.
type reportMerge struct {
	view.Outcome
	Project string // empty: there is only one
	Table   effectTable
	Charts  []*effectChart
}

func (r Report) page() *reportPage {
	p := &reportPage{
		Report: r, Style: reportKind().style, Script: reportKind().script, Policy: reportKind().policy,
		Live: r.live, Now: momentOf(r.Made, r.Made),
	}
	if r.live {
		p.Policy = reportKind().livePolicy
	}
	switch {
	case r.From != nil && r.To != nil:
		p.Asked = "windows from " + r.From.String() + " up to, not including, " + r.To.String()
	case r.From != nil:
		p.Asked = "windows that begin on or after " + r.From.String()
	case r.To != nil:
		p.Asked = "windows that end before " + r.To.String()
	}
	switch {
	case r.Title != "":
		p.Title = format.Cut(r.Title, view.MaxName)
	case len(r.Projects) == 1:
		p.Title = "Documentation readers of " + r.nameOf(r.Projects[0].ID)
	default:
		p.Title = "Documentation readers"
	}
	var jobs []view.Job
	if r.State != nil {
		if r.State.Queue != nil {
			jobs = r.State.Queue.Jobs
		}
		p.addQueue()
		p.addMerges()
	}
	for i, project := range r.Projects {
		ofProject := slices.DeleteFunc(slices.Clone(jobs), func(j view.Job) bool { return j.Project != project.ID })
		p.Sections = append(p.Sections, r.section(project, fmt.Sprintf("p%d", i), ofProject))
	}
	return p
}

// names returns nameOf, or nil for a report of one project.
func (r Report) names() func(id string) string {
	if len(r.Projects) < 2 {
		return nil
	}
	return r.nameOf
}

// nameOf returns the display name of a project; empty: the report does not have it.
func (r Report) nameOf(id string) string {
	for _, p := range r.Projects {
		if p.ID == id {
			return format.Cut(cmp.Or(p.Name, p.ID), view.MaxName)
		}
	}
	return ""
}

func (r Report) section(project view.Project, anchor string, jobs []view.Job) reportProject {
	v := reportProject{Name: r.nameOf(project.ID), Anchor: anchor, Missed: r.missed[project.ID]}
	for i, g := range project.Grids {
		group := anchor + "g"
		s := reportSeries{ID: fmt.Sprint(group, i), Group: group, Once: r.Origin != "",
			Older: max(0, len(g.Cells)-maxReportCells)}
		drawn := g
		if r.around != nil {
			drawn.Cells = r.around.Cells
		}
		g.Cells, drawn.Cells = g.Cells[s.Older:], drawn.Cells[s.Older:]
		g.Count()
		s.Grid, s.Card, s.Trend = g, cardOf(g, r.Against), trendOf(drawn, jobs)
		if s.Trend != nil && len(g.Cells) < len(drawn.Cells) {
			s.Trend.Readers.Chosen = stretch(len(g.Cells)-1, len(g.Cells))
		}
		s.Pageless = "Only the totals of the site are read for this granularity, so there are no pages here."
		if newest := g.Newest; newest != nil {
			if !newest.TotalsOnly() {
				s.Pageless = "The pages of this window have not been read from a sink yet."
			}
			s.Read = momentOf(newest.ExportedAt.Truncate(time.Second), r.Made)
			if s.Pages = r.Pages[newest.Key]; s.Pages != nil {
				s.compare(r.Against, r.linked(project.ID), r.rest)
			}
		}
		var agents *query.AgentsReport
		for _, o := range project.Others {
			p := r.Pages[newestKey(o)]
			if p == nil || o.Granularity != g.Granularity {
				continue
			}
			if o.Report == analytics.AgentsReport {
				s.Reads = p.Reads
				s.Agents = agentListOf(p, fmt.Sprint(s.ID, "a"), r.linked(project.ID), maxReportAgents)
				if s.Agents != nil && r.rest != "" {
					s.Agents.Query = r.rest
				}
				if s.Agents != nil && (r.live || v.Missed != nil) { // the page of all agents has what they missed
					s.Agents.Misses = nil
				}
				if p.Agents != nil && g.Newest != nil && o.Newest.Window == g.Newest.Window {
					agents = p.Agents
				}
			} else if l := rowListOf(p.Rows, fmt.Sprint(s.ID, o.Report), maxReportAgents); l != nil {
				s.Rows = append(s.Rows, l)
			}
		}
		if s.Card != nil {
			s.Totals = figuresOf(s.Card, agents)
		}
		if agents != nil {
			s.People = agents.People
		}
		if r.State != nil {
			for i, o := range r.State.Open {
				if o.Project == project.ID && o.Granularity == g.Granularity {
					s.SoFar = &r.State.Open[i]
				}
			}
		}
		v.Series = append(v.Series, s)
	}
	if i := usualGrid(project.Grids); i >= 0 {
		v.Series[i].Open = true
	}
	return v
}

// newestKey is the window of the newest reading of a grid.
func newestKey(g view.Grid) (key analytics.Key) {
	if g.Newest != nil {
		key = g.Newest.Key
	}
	return key
}

// linked is the project whose pages lead to their numbers; empty: there is no server that has them.
func (r Report) linked(project string) string {
	if !r.live {
		return ""
	}
	return project
}

// compare fills the lists of pages.
func (s *reportSeries) compare(against Comparison, project, rest string) {
	m, g, newest := s.Pages.Movers, s.Grid.Granularity, s.Grid.Newest.Window
	s.Before = view.Days(g, against.window(g, newest))
	before := s.Grid.EndingAt(against.window(g, newest).To)
	if before != nil && !before.Comparable(*s.Grid.Newest) {
		s.OtherMode = before.Humans.Said()
	}
	top := pageList{Title: "Most read pages", Rows: m.Top, First: firstReadPages, Bars: true, Sorted: 2,
		Columns: readColumns(s.Pages.Before != nil)}
	top.Note = top.listed(view.Days(g, newest), m.Pages)
	s.Lists = []pageList{top}
	if s.Pages.Before != nil {
		moved, appeared := []pageColumn{beforeColumn, nowColumn, changeColumn}, readColumns(false)
		for _, l := range []struct {
			pageList
			ranking analytics.Ranking
			note    string
		}{
			{pageList{Title: "Rising", Columns: moved, Sorted: 2}, m.Rising, ", compared with " + s.Before},
			{pageList{Title: "Falling", Columns: moved, Sorted: 2, Rising: true}, m.Falling,
				", compared with " + s.Before},
			{pageList{Title: "Appeared", Columns: appeared, Sorted: 2}, m.Appeared, " without readers in " + s.Before},
			{pageList{Title: "Vanished", Columns: moved[:1]}, m.Vanished,
				" with readers in " + s.Before + " and none now"},
		} {
			l.Note = format.Plural(l.ranking.Count, "page") + l.note
			if l.Rows, l.First = l.ranking.First, firstMoves; len(l.Rows) > 0 {
				s.Lists = append(s.Lists, l.pageList)
			}
		}
	}
	for i := range s.Lists {
		s.Lists[i].ID, s.Lists[i].Project, s.Lists[i].Query = fmt.Sprint(s.ID, "l", i), project, rest
	}
}

func (p *reportPage) addQueue() {
	q := p.State.Queue
	if q == nil {
		return
	}
	begun, ended := 0, 0
	counts := map[string]int{}
	var toPR []time.Duration
	for _, j := range q.Jobs {
		if !j.Begun.IsZero() {
			begun++
		}
		if j.Result != "" {
			ended++
			counts[j.Result]++
		}
		if j.Result == "pr" && !j.Created.IsZero() && !j.Ended.IsZero() {
			toPR = append(toPR, j.Ended.Sub(j.Created))
		}
	}
	text := format.Plural(begun, "job") + " begun, " + format.Commas(ended) + " ended"
	if p.recent {
		text += ", of the newest job of each prompt, until 30 days after its end"
	}
	p.Queue = &reportQueue{jobTable: jobTableOf(*q, text, p.names(), p.Made, maxReportJobs)}
	for _, result := range view.Results {
		if n := counts[result]; n > 0 {
			p.Queue.Results = append(p.Queue.Results, jobResult{view.Job{Result: result}, n, ended})
		}
	}
	if len(toPR) > 0 {
		slices.Sort(toPR)
		p.Queue.Median = took(toPR[(len(toPR)-1)/2])
	}
}

func (p *reportPage) addMerges() {
	all := p.State.Outcomes.Merges
	shown := all[:min(len(all), maxMerges)]
	p.More = len(all) - len(shown)
	p.Summaries, p.Caution = p.State.Outcomes.Sentences(p.names()), p.State.Outcomes.Caution()
	for _, o := range shown {
		m := reportMerge{Outcome: o, Table: effectTable{Title: "Effects of the merge", Linked: p.live}}
		if len(p.Projects) > 1 {
			m.Project = p.nameOf(o.Project)
		}
		for _, e := range o.Effects[:min(len(o.Effects), maxMergeEffects)] {
			m.Table.Rows = append(m.Table.Rows, effectRow{Effect: e, Merge: o.Merge})
		}
		if more := len(o.Effects) - maxMergeEffects; more > 0 {
			m.Table.More = format.Plural(more, "more effect") + " not shown"
		}
		// Those with a clear verdict are drawn first.
		for _, clear := range []bool{true, false} {
			for _, e := range o.Effects {
				if e.Clear() != clear || e.Verdict == view.NotEnoughData || len(m.Charts) == maxMergeCharts {
					continue
				}
				if c := effectChartOf(o.Date(), e); c != nil {
					c.Linked = p.linked(o.Project)
					m.Charts = append(m.Charts, c)
				}
			}
		}
		p.Merges = append(p.Merges, m)
	}
}
