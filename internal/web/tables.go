package web

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
)

// pageList is the pages of a window, or how they changed. The template "pagelist" shows it.
type pageList struct {
	ID          string // of its element
	Title, Note string
	Project     string // whose pages they are, for links; empty: there is no server
	Query       string // of the links, besides project and path
	Columns     []pageColumn
	Sorted      int // the column by which it is ordered
	Rising      bool
	Rows        []analytics.Change
	First       int  // rows that are shown unfolded
	Bars        bool // each page has a bar: its value in the sorted column, relative to the first page's
}

// pageColumn is a number of each page; nil: the change of its visitors.
type pageColumn struct {
	Name string
	Of   func(analytics.Change) int64
}

// The columns of lists of pages.
var (
	humanColumn  = pageColumn{"Human", func(c analytics.Change) int64 { return c.After.Human }}
	aiColumn     = pageColumn{"AI", func(c analytics.Change) int64 { return c.After.AI }}
	totalColumn  = pageColumn{"Total", func(c analytics.Change) int64 { return c.After.Total }}
	beforeColumn = pageColumn{"Before", func(c analytics.Change) int64 { return c.Before.Total }}
	nowColumn    = pageColumn{"Now", totalColumn.Of}
	changeColumn = pageColumn{"Change", nil}
)

// readColumns are the columns of the most read pages.
func readColumns(compared bool) []pageColumn {
	columns := []pageColumn{humanColumn, aiColumn, totalColumn}
	for i, c := range (analytics.Totals{}).More() {
		columns = append(columns, pageColumn{c.Name, func(c analytics.Change) int64 { return c.After.More()[i].Value }})
	}
	if compared {
		columns = append(columns, changeColumn)
	}
	return columns
}

// sort is the aria-sort of a column; empty: the list is not ordered by it.
func (l pageList) sort(column int) string {
	switch {
	case column != l.Sorted:
		return ""
	case l.Rising:
		return "ascending"
	}
	return "descending"
}

// bar is the share of a page in the first one, of 100.
func (l pageList) bar(c analytics.Change) int64 {
	of := l.Columns[l.Sorted].Of
	return of(c) * 100 / max(of(l.Rows[0]), 1)
}

// listed says of which days the pages are, and of how many they are the most read.
func (l pageList) listed(days string, pages int64) string {
	if n := len(l.Rows); int64(n) < pages {
		return fmt.Sprintf("%s, the %d most read of %s", days, n, format.Plural(pages, "page"))
	}
	return days + ", " + format.Plural(pages, "page")
}

// gain is how a number changed: by how much, in words, up or down, and by which share.
type gain struct {
	By                 int64
	Text, Tone, Growth string
}

// gainOf compares a number with an earlier one, nil where there was none.
func gainOf(before *int64, now int64) gain {
	if before == nil {
		return gain{now, "new", toneOf(0, now), ""}
	}
	return gain{now - *before, view.Signed(now - *before), toneOf(*before, now), view.Growth(*before, now)}
}

// noise is how many standard deviations a change must exceed: an interval of 90%, as effects of merges have.
const noise = 1.645

// toneOf is up or down, or slight if chance alone makes such a change. Readers who come independently of each other
// vary as a Poisson distribution does, so that the variance of the difference of two counts is their sum. Real readers
// vary more: what is slight is noise, what is not can be noise.
func toneOf(before, now int64) string {
	switch change := float64(now) - float64(before); {
	case change == 0:
		return ""
	case math.Abs(change) <= noise*math.Sqrt(float64(before)+float64(now)):
		return "slight"
	case change < 0:
		return "down"
	}
	return "up"
}

// pageGain is the change of the visitors of a page.
func pageGain(c analytics.Change) gain {
	if c.Appeared {
		return gainOf(nil, c.After.Total)
	}
	return gainOf(&c.Before.Total, c.After.Total)
}

// agentGain is the change of the number by which agents or misses are ordered.
func agentGain(c view.AgentChange, now int64) gain {
	if c.Change == nil {
		return gainOf(nil, now)
	}
	before := now - *c.Change
	return gainOf(&before, now)
}

// sentText says how many requests of an agent were answered as Markdown, and how much was sent.
func sentText(n view.AgentNumbers) string {
	var texts []string
	if n.Markdown > 0 {
		texts = append(texts, format.Commas(n.Markdown)+" as Markdown")
	}
	if n.Bytes > 0 {
		texts = append(texts, format.Size(n.Bytes))
	}
	return strings.Join(texts, ", ")
}

// maxReadAgents is how many agents are read, of which assistants are shown first.
const maxReadAgents = 200

// maxMissAgents is how many agents are named beside a path.
const maxMissAgents = 5

// agentList is the agents of a window, assistants first, and the paths that agents asked for most of those that are not
// there. The template "agentlist" shows it.
type agentList struct {
	ID          string // of its element
	Title, Note string
	Project     string // whose pages they are, for links; empty: there is no server
	Query       string // of the links, besides project and agent or path
	Granularity analytics.Granularity
	Humans      analytics.Humans // how people are counted
	Before      string           // the window that it is compared with; empty: none
	Rows        []view.RankedAgent
	People      []view.RankedAgent
	Gone        []string // agents that did not read the site since then
	Misses      []view.Miss
	MissNote    string
	OneAgent    bool // misses do not name their agents
}

// agentListOf shows at most n agents besides people, and n misses; nil if there is nothing to show.
func agentListOf(p *Pages, id, project string, n int) *agentList {
	if p == nil || len(p.Agents.Agents) == 0 {
		return nil
	}
	r := p.Agents
	days := view.Days(r.Granularity, r.Window)
	l := &agentList{ID: id, Title: "Assistants", Note: days, Project: project, Granularity: r.Granularity, Humans: r.Humans,
		Query: "&window=" + string(r.Granularity)}
	for _, a := range r.Agents {
		if a.Class == "human" {
			l.People = append(l.People, a)
		} else {
			l.Rows = append(l.Rows, a)
		}
	}
	slices.SortStableFunc(l.Rows, func(a, b view.RankedAgent) int {
		return cmp.Compare(view.AgentRank(a.Class), view.AgentRank(b.Class))
	})
	l.Rows = l.Rows[:min(len(l.Rows), n)]
	if all := int(r.Count) - len(l.People); all > len(l.Rows) {
		l.Note += fmt.Sprintf(", %d of %d agents", len(l.Rows), all)
	}
	if r.Previous != nil {
		l.Before, l.Gone = view.Days(r.Granularity, r.Previous.Window), r.Gone[:min(len(r.Gone), n)]
	}
	l.addMisses(p.Misses, n)
	return l
}

// missesOf shows the misses of one agent; nil without one.
func missesOf(m *query.AgentsReport, project, rest string) *agentList {
	l := &agentList{ID: "misses", Project: project, Query: rest, OneAgent: true}
	if m.Previous != nil {
		l.Before = view.Days(m.Granularity, m.Previous.Window)
	}
	if l.addMisses(m, maxReportAgents); l.Misses == nil {
		return nil
	}
	return l
}

// addMisses shows at most n misses.
func (l *agentList) addMisses(m *query.AgentsReport, n int) {
	if m == nil || len(m.Misses) == 0 {
		return
	}
	days := view.Days(m.Granularity, m.Window)
	l.Misses, l.MissNote = m.Misses[:min(len(m.Misses), n)], days+", "+format.Plural(m.Count, "path")
	if int(m.Count) > len(l.Misses) {
		l.MissNote = fmt.Sprintf("%s, the %d most asked of %d", days, len(l.Misses), m.Count)
	}
}

// agentURL is the address of the page about an agent, relative to the root.
func agentURL(project, agent string) string {
	return "agent?" + url.Values{"project": {project}, "agent": {agent}}.Encode()
}

// agentRow is a row of the list: an agent with the words for it and the page it leads to.
type agentRow struct {
	view.RankedAgent
	Name, Kind, Href string
	Compared         bool
}

func (l agentList) row(a view.RankedAgent) agentRow {
	row := l.link(a.Agent)
	row.RankedAgent, row.Compared = a, l.Before != ""
	if a.Class != "human" { // its name says it
		row.Kind = view.AgentKind(a.Class, a.Audience)
	}
	return row
}

// link names an agent. People lead nowhere: they have no page.
func (l agentList) link(agent string) agentRow {
	row := agentRow{Name: view.AgentName(agent, l.Humans)}
	if l.Project != "" && row.Name == agent && len(agent) <= maxLinked {
		row.Href = agentURL(l.Project, agent) + l.Query
	}
	return row
}

// shownAgents are the agents that asked for a path most.
func shownAgents(m view.Miss) []view.MissAgent { return m.Agents[:min(len(m.Agents), maxMissAgents)] }

// moreAgents is how many others there are.
func moreAgents(m view.Miss) int { return len(m.Agents) - len(shownAgents(m)) }

// openTab is the list that is shown first: of a week if there is one.
func openTab(lists []*agentList) int {
	return max(0, slices.IndexFunc(lists, func(l *agentList) bool { return l.Granularity == analytics.Week }))
}

// agentsOf returns the agents of a snapshot, which are not compared.
func agentsOf(w view.RowsWindow) *Pages {
	r := &query.AgentsReport{Count: int64(len(w.Rows) + w.More)}
	r.Key, r.Humans = w.Key, w.Humans
	for i, a := range analytics.RowsOf[analytics.AgentRow](w.Rows) {
		r.Agents = append(r.Agents, view.RankedAgent{Agent: a.Agent, Class: a.Class, Audience: a.Audience,
			AgentNumbers: view.AgentNumbersOf(w.Rows[i].Counts)})
	}
	return &Pages{Newest: &w.Revision, Agents: r}
}

// rowList is the first rows of a window of a report that has no list of another kind. The template "rowlist" shows it.
type rowList struct {
	ID          string // of its element
	Title, Note string
	Names       []string // the texts of its rows, then the counts
	Texts       int
	first       int              // text that is shown: the path of a row of the site, or of a page that was asked about, is not
	Humans      analytics.Humans // how people are counted
	Rows        []query.RankedRow
}

// Text is a text of a row, or the words for it.
func (l rowList) Text(row query.RankedRow, i int) string {
	if l.Names[i] == "agent" {
		return view.AgentName(row.Row.Texts[i+l.first], l.Humans)
	}
	return row.Row.Texts[i+l.first]
}

// About has the other texts of a row.
func (l rowList) About(row query.RankedRow) string {
	var texts []string
	for i := 1; i < l.Texts; i++ {
		texts = append(texts, l.Text(row, i))
	}
	return strings.Join(texts, ", ")
}

// Count is a count of a row, or what it is shown with.
func (l rowList) Count(row query.RankedRow, i int) string {
	counts := len(row.Report.Shape().Names(analytics.Count))
	switch i -= l.Texts; {
	case i < counts:
		return format.Known(row.Row.Counts[i])
	case i == counts && row.Beside != nil:
		return format.Commas(*row.Beside)
	case i > counts && row.Ratio != nil:
		return strconv.FormatFloat(*row.Ratio, 'f', -1, 64)
	}
	return "–"
}

// rowListOf shows at most n rows; nil if there are none.
func rowListOf(r *query.RowsReport, id string, n int) *rowList {
	if r == nil || len(r.Rows) == 0 {
		return nil
	}
	shape := r.RowRanking.Report.Shape()
	l := &rowList{ID: id, Title: strings.ToUpper(shape.Name[:1]) + shape.Name[1:],
		Note: view.Days(r.Granularity, r.Window), Rows: r.Rows[:min(len(r.Rows), n)], Humans: r.Humans}
	texts := shape.Names(analytics.Text)
	if len(texts) > 0 && (l.Rows[0].Row.Path() == "" || r.RowRanking.Path != "") {
		l.first = 1
	} else {
		l.Names = append(l.Names, "path")
	}
	l.Names = append(l.Names, texts...)
	l.Texts = len(l.Names)
	l.Names = append(l.Names, shape.Names(analytics.Count)...)
	if slices.ContainsFunc(l.Rows, func(r query.RankedRow) bool { return r.Beside != nil }) {
		l.Names = append(l.Names, shape.Beside.Name, strings.ReplaceAll(shape.Beside.Ratio, "_", " "))
	}
	for _, name := range shape.Names(analytics.Count) {
		if n, has := r.Totals[name]; has {
			l.Note += fmt.Sprintf(", %s of the site %s", name, format.Commas(n))
		}
	}
	if int(r.Count) > len(l.Rows) {
		l.Note += fmt.Sprintf(", the first %d of %d", len(l.Rows), r.Count)
	}
	return l
}

// rowsOf returns the rows of a snapshot, which are not compared.
func rowsOf(w view.RowsWindow) *query.RowsReport {
	r := &query.RowsReport{Count: int64(len(w.Rows) + w.More)}
	r.Key, r.RowRanking.Report, r.Humans = w.Key, w.Report, w.Humans
	if !w.Report.Shape().Site {
		r.Totals = w.Totals.ByName()
	}
	for _, row := range w.Rows {
		r.Rows = append(r.Rows, query.RankedRow{Key: w.Key, Row: row})
	}
	return r
}

// jobTable is the agent jobs of a queue: those that wait to become one, then the newest first. The
// template "jobtable" shows them.
type jobTable struct {
	Text   string // how many there are
	Paused string // why no prompt is submitted; empty: prompts are submitted
	Jobs   []view.Job
	Now    time.Time
	// Project returns the name of a project; nil: there is only one.
	Project func(id string) string
	More    int // how many are not shown
}

// jobTableOf shows at most n jobs.
func jobTableOf(q view.Queue, text string, project func(id string) string, now time.Time, n int) *jobTable {
	jobs := slices.Concat(q.Waiting, q.Jobs)
	more := max(0, len(jobs)-n)
	return &jobTable{text, pausedText(q), jobs[:len(jobs)-more], now, project, more}
}

// jobTook is how long a job took, or that it is stalled; a dash if that is not known.
func jobTook(j view.Job) string {
	switch {
	case !j.Ended.IsZero() && !j.Created.IsZero():
		return took(j.Ended.Sub(j.Created))
	case j.Stalled:
		return "stalled"
	}
	return "–"
}

// pauses are the reasons why the queue is paused, with the remedy.
var pauses = map[string]string{
	"unknown": "It is not known whether two prompts in a row reached the service: check docgauge jobs list, " +
		"resolve them, then run docgauge jobs release.",
	"unauthorized": "The service rejected the key: the queue resumes when the key changes.",
	"operator":     "Held by the operator: docgauge jobs release resumes it.",
	"new_state":    "Prompt files exist but no job history was found: set DOCGAUGE_PROMPTS_ON_NEW_STATE.",
}

// pausedText returns the reason why the queue submits no prompt; empty if it submits prompts.
func pausedText(q view.Queue) string {
	switch {
	case q.Problem != "":
		return q.Problem
	case q.Paused == "":
		return ""
	case q.PausedSince.IsZero():
		return "The queue is paused. " + pauses[q.Paused]
	}
	return "The queue has been paused since " + format.Time(q.PausedSince) + ". " + pauses[q.Paused]
}
