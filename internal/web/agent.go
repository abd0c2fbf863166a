package web

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// maxAgentPages is how many pages of an agent are listed, and how many agents of a site.
const maxAgentPages = 100

// agentNumbers are what one agent read.
type agentNumbers struct {
	Agent     string
	All       string          // leads to all agents
	Days      string          // of the window that is shown
	Audiences []agentAudience // of its views, the one with most requests first
	Pages     *agentList      // that it asked for most; nil: it read none
	Misses    *agentList      // what it asked for that is not there; nil: nothing
	Sent      *sentPeople     // nil: no source of people is known for its operator, or none is exported
}

// agentAudience is the history of an agent in one audience.
type agentAudience struct {
	Name, Kind        string
	Shown             *agentWindow // nil: it did not read in the window that is shown
	Readers, Requests *chart
	Windows           []agentWindow // newest first
}

// agentWindow is a row of the table.
type agentWindow struct {
	query.AgentHistoryWindow
	Granularity analytics.Granularity
	Href        string // of its numbers; empty: it has none
}

// sentPeople is the people whom the source of an agent's operator brought.
type sentPeople struct {
	Source string
	People int64  // confirmed ones where the service tells them from others
	Reads  string // requests of the agent for each person it sent; empty: not known
	List   *rowList
	Pages  *rowList // that they came to; nil: not known
}

func (n *agentNumbers) title() string { return view.AgentName(n.Agent, analytics.Claimed) }

func (n *agentNumbers) machines(g analytics.Granularity) (string, url.Values) {
	return "agent_history", url.Values{"agent": {n.Agent}, "limit": {fmt.Sprint(shownWindows(g))}}
}

// read asks the archive for the history of the agent, its pages, what it missed, and the people it sent.
func (n *agentNumbers) read(ctx context.Context, from sinks.Sink, p *archivePage, choice query.Choice) error {
	site, err := query.Agents(ctx, from, choice, query.AgentRanking{})
	if err != nil {
		return err
	}
	p.window = site[0].Window
	n.Days, n.All = view.Days(choice.Selection.Granularity, p.window), p.address.to(atAgents)
	all, err := history(p, choice, func(o query.HistoryOptions) ([]query.AgentHistory, error) {
		return query.AgentHistories(ctx, from, n.Agent, o)
	}, func(h query.AgentHistory) analytics.Window { return h.Windows[0].Window })
	if err != nil {
		return err
	}
	for _, h := range all {
		n.Audiences = append(n.Audiences, audienceOf(p, h, site[0].Humans))
	}
	slices.SortStableFunc(n.Audiences, func(a, b agentAudience) int { return cmp.Compare(b.requests(), a.requests()) })
	choice.At = new(lastDay(p.window))
	return cmp.Or(n.readPages(ctx, from, p, choice), n.readMisses(ctx, from, p, choice),
		n.readSent(ctx, from, p, choice))
}

// requests are the requests of the window that is shown.
func (a agentAudience) requests() int64 {
	if a.Shown == nil {
		return 0
	}
	return *a.Shown.Requests
}

func audienceOf(p *archivePage, h query.AgentHistory, by analytics.Humans) agentAudience {
	a := agentAudience{Name: view.AgentName(h.Agent, by), Kind: view.AgentKind(h.Class, h.Audience)}
	var windows []analytics.Window
	var readers, requests series
	for _, w := range h.Windows {
		row := agentWindow{AgentHistoryWindow: w, Granularity: h.Granularity}
		switch {
		case w.Visitors != nil:
			row.Href = p.address.toWindow(w.Window)
			if w.Window == p.window {
				a.Shown = &row
			}
		case w.Absent:
			w.Visitors, w.Requests = new(int64), new(int64) // it did not read
		}
		windows = append(windows, w.Window)
		readers, requests = append(readers, w.Visitors), append(requests, w.Requests)
		a.Windows = append(a.Windows, row)
	}
	a.Readers = countChart("Readers", h.Granularity, windows, readers)
	a.Requests = countChart("Requests", h.Granularity, windows, requests)
	slices.Reverse(a.Windows)
	return a
}

// countChart draws one count of some windows; nil unless two consecutive ones have it.
func countChart(noun string, g analytics.Granularity, windows []analytics.Window, counts series) *chart {
	grid := view.Grid{Granularity: g}
	for i, w := range windows {
		cell := view.Cell{Window: w}
		if counts[i] != nil {
			cell.Revision = &analytics.Revision{Totals: analytics.Totals{Total: *counts[i]}}
		}
		grid.Cells = append(grid.Cells, cell)
	}
	c := chartOf(grid, grid.Cells, mostTicks)
	if c == nil {
		return nil
	}
	c.Human, c.AI, c.Both, c.Noun = "", "", "", noun
	c.Label = noun + strings.TrimPrefix(c.Label, "Readers")
	for i, cell := range grid.Cells[:len(c.Columns)] {
		c.Columns[i].Title = view.Days(g, cell.Window) + ": missing"
		if counts[i] != nil {
			c.Columns[i].Title = fmt.Sprintf("%s: %s %s", view.Days(g, cell.Window), format.Commas(*counts[i]), strings.ToLower(noun))
		}
	}
	return c
}

func (n *agentNumbers) readPages(ctx context.Context, from sinks.Sink, p *archivePage, o query.Choice) error {
	all, err := query.Agents(ctx, from, o, query.AgentRanking{Agent: n.Agent, By: query.ByRequests, N: maxAgentPages})
	for _, r := range all {
		if len(r.Agents) == 0 {
			continue
		}
		n.Pages = &agentList{Note: n.Days + ", " + format.Plural(r.Count, "page"), Rows: r.Agents,
			Project: p.address.project.ID, Query: p.address.rest()}
		if int(r.Count) > len(r.Agents) {
			n.Pages.Note = fmt.Sprintf("%s, the %d most asked of %s", n.Days, len(r.Agents), format.Plural(r.Count, "page"))
		}
		if r.Previous != nil {
			n.Pages.Before = view.Days(r.Granularity, r.Previous.Window)
		}
	}
	return answered(err)
}

func (n *agentNumbers) readMisses(ctx context.Context, from sinks.Sink, p *archivePage, o query.Choice) error {
	all, err := query.Agents(ctx, from, o, query.AgentRanking{List: query.Misses, Agent: n.Agent, N: maxReportAgents})
	for i := range all {
		view.AddRedirects(all[i].Misses, all[i].Project, all[i].Window, p.outcomes.Rules())
		n.Misses = missesOf(&all[i], p.address.project.ID, p.address.rest())
	}
	return answered(err)
}

// readSent asks the report sources for the people whom the operator of the agent sent.
func (n *agentNumbers) readSent(ctx context.Context, from sinks.Sink, p *archivePage, o query.Choice) error {
	source := analytics.SourceOfAgent(n.Agent)
	exported := func(g view.Grid) bool { return g.Report == analytics.SourcesReport && g.Newest != nil }
	if source == "" || !slices.ContainsFunc(p.address.project.Others, exported) {
		return nil
	}
	all, err := query.Rows(ctx, from, o, query.RowRanking{Report: analytics.SourcesReport, N: maxLimit})
	if err != nil || len(all) == 0 {
		return answered(err)
	}
	r := all[0]
	r.Rows = slices.DeleteFunc(r.Rows, func(row query.RankedRow) bool { return row.Row.Texts[1] != source })
	r.Count = int64(len(r.Rows))
	n.Sent = &sentPeople{Source: source, List: rowListOf(&r, "sources", maxReportAgents)}
	for _, row := range analytics.RowsOf[analytics.SourceRow](r.Records()) {
		if row.Agent == analytics.BrowserAgent {
			n.Sent.People += row.Visitors
		}
	}
	if n.Sent.List != nil {
		n.Sent.List.Title = "People from " + source
	}
	if len(n.Audiences) > 0 && n.Sent.People > 0 {
		n.Sent.Reads = strconv.FormatFloat(float64(n.Audiences[0].requests())/float64(n.Sent.People), 'f', 1, 64)
	}
	pages, err := query.Rows(ctx, from, o, query.RowRanking{Report: analytics.SourcesReport, Name: source, N: maxReportAgents})
	for i := range pages {
		if n.Sent.Pages = rowListOf(&pages[i], "arrivals", maxReportAgents); n.Sent.Pages != nil {
			n.Sent.Pages.Title = "Pages that they came to"
		}
	}
	return answered(err)
}

// Noted is the state of the window; empty: its numbers are final.
func (w agentWindow) Noted() string {
	return windowRemark(w.State, w.Verified, w.Absent, w.Visitors != nil, "did not read")
}

// HTML is the number of requests that were not answered as Markdown.
func (w agentWindow) HTML() int64 { return *w.Requests - *w.Markdown }

// Since is the change of a count since the window that w is compared with; nil if it is not known.
func (w agentWindow) Since(count string) *change {
	if w.Previous == nil || w.Visitors == nil {
		return nil
	}
	now := view.AgentNumbers{Visitors: *w.Visitors, Requests: *w.Requests, Markdown: *w.Markdown, Bytes: *w.Bytes}
	return changeSince(new(w.Previous.Of(count)), now.Of(count), beforeWindow(w.Granularity, w.Window))
}

// agentsNumbers are all agents of a window.
type agentsNumbers struct {
	List    *agentList // nil: none
	Sources *rowList   // nil: not known
	People  *view.People
}

func (n *agentsNumbers) title() string { return "Assistants" }

func (n *agentsNumbers) machines(analytics.Granularity) (string, url.Values) {
	return "agents", url.Values{"limit": {fmt.Sprint(maxLimit)}}
}

// read asks the archive for all agents, what they missed, and where people came from.
func (n *agentsNumbers) read(ctx context.Context, from sinks.Sink, p *archivePage, choice query.Choice) error {
	site, err := query.Agents(ctx, from, choice, query.AgentRanking{N: maxReadAgents})
	if err != nil {
		return err
	}
	p.window, n.People = site[0].Window, site[0].People
	choice.At = new(lastDay(p.window))
	pages := Pages{Agents: &site[0]}
	misses, err := query.Agents(ctx, from, choice, query.AgentRanking{List: query.Misses, N: maxReportAgents})
	if err := answered(err); err != nil {
		return err
	}
	for i := range misses {
		view.AddRedirects(misses[i].Misses, misses[i].Project, misses[i].Window, p.outcomes.Rules())
		pages.Misses = &misses[i]
	}
	if n.List = agentListOf(&pages, "agents", p.address.project.ID, maxAgentPages); n.List != nil {
		n.List.Query = p.address.rest()
	}
	exported := func(g view.Grid) bool { return g.Report == analytics.SourcesReport && g.Newest != nil }
	if !slices.ContainsFunc(p.address.project.Others, exported) {
		return nil
	}
	sources, err := query.Rows(ctx, from, choice, query.RowRanking{Report: analytics.SourcesReport, N: maxReportAgents})
	for i := range sources {
		n.Sources = rowListOf(&sources[i], "sources", maxReportAgents)
	}
	return answered(err)
}
