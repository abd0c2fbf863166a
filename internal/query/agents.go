package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/similar"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// AgentList is what a question about agents lists.
type AgentList string

// The lists. AgentPages are the pages of one agent, Misses the paths that agents asked for and that are not there.
const (
	SiteAgents AgentList = "agents"
	AgentPages AgentList = "pages"
	Misses     AgentList = "misses"
)

// Rule says how the numbers of a list may be used.
func (l AgentList) Rule() string {
	if l == Misses {
		return "Asked for by agents from two networks or more, and not there. The requests are the sum over all agents; " +
			"the nearest page is only the most similar path."
	}
	return "Readers are never added up. Where an operator fetches pages for an agent (AI assistants, search and " +
		"training crawlers), its readers are the few addresses it fetches from: compare requests."
}

// AgentOrder is the number by which a list of agents is ranked.
type AgentOrder string

// The orders. Hosted agents read from a few addresses of their operator: requests say more of them.
const (
	ByReaders  AgentOrder = "readers"
	ByRequests AgentOrder = "requests"
)

// AgentOrders are all of them: the counts of the report, whose visitors are the readers.
var AgentOrders = func() (all []AgentOrder) {
	for _, name := range analytics.AgentsReport.Shape().Names(analytics.Count) {
		all = append(all, AgentOrder(name))
	}
	all[0] = ByReaders
	return all
}()

// OrderList lists the orders.
func OrderList() string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(AgentOrders), "[]"), " ", ", ")
}

// Count is the name of the count.
func (o AgentOrder) Count() string {
	if o == ByReaders {
		return "visitors"
	}
	return string(o)
}

// AgentRanking selects and orders a list. It is repeated in the answer.
type AgentRanking struct {
	List AgentList `json:"list"`
	// By is the order; empty: the order of [AgentRanking.Complete].
	By AgentOrder `json:"by"`
	// Agent is the agent of AgentPages; of Misses, the one whose requests alone count, empty: all.
	Agent string `json:"agent"`
	// Page makes SiteAgents those that read one page.
	Page string `json:"-"`
	// Prefix keeps the paths that begin with it.
	Prefix string `json:"prefix"`
	// N is the length of the list, without its first Offset rows.
	N      int `json:"-"`
	Offset int `json:"-"`
}

// rows returns the ranking of the rows that the list is made of.
func (r AgentRanking) rows() RowRanking {
	return RowRanking{Report: analytics.AgentsReport, By: r.By.Count(), Name: r.Agent, Path: r.Page, Prefix: r.Prefix, N: r.N,
		Offset: r.Offset, misses: r.List == Misses}
}

// Complete returns the ranking with its defaults, or why the question has no answer. Misses are ranked by requests:
// each request has one agent, so the requests of all agents can be added up.
func (r AgentRanking) Complete() (AgentRanking, error) {
	list := SiteAgents
	if r.Agent != "" {
		list = AgentPages
	}
	r.List = cmp.Or(r.List, list)
	by := ByReaders
	if r.List == Misses {
		by = ByRequests
	}
	r.By = cmp.Or(r.By, by)
	switch {
	case !slices.Contains([]AgentList{SiteAgents, AgentPages, Misses}, r.List):
		return r, fmt.Errorf("list %.20q: want agents, pages or misses", r.List)
	case r.List == AgentPages && r.Agent == "":
		return r, errors.New("agent: missing; list pages shows the pages of one agent")
	case r.List == SiteAgents && r.Agent != "":
		return r, fmt.Errorf("agent: want it without list %s", r.List)
	case !slices.Contains(AgentOrders, r.By):
		return r, fmt.Errorf("by %.20q: want %s", r.By, OrderList())
	case r.List == SiteAgents && r.Prefix != "":
		return r, errors.New("prefix: want it with pages of an agent, or with misses: the agents are the site's")
	}
	return r, nil
}

// AgentsReport has the agents of one project in one window, the pages of one agent, or the paths that are not there,
// and how they differ from an earlier window. Its JSON keys are stable.
type AgentsReport struct {
	RowsReading
	ProjectName string `json:"project_name,omitempty"`
	// Previous is as in [RowsReport].
	Previous *RowsReading `json:"previous"`
	AgentRanking
	// People are the people of the site or of the page; absent of other lists than their agents, and where the service
	// does not tell the confirmed from the others.
	People *view.People `json:"people,omitempty"`
	// AIRequests are the requests of all AI agents of the site, and AIRequestsBefore their requests in Previous; nil in
	// lists other than the agents of the site, and where one is not known. Each request has one agent.
	AIRequests       *int64 `json:"-"`
	AIRequestsBefore *int64 `json:"-"`
	// Count is the length of the whole list.
	Count int64 `json:"count"`
	// Agents are agents of the site, or pages of one agent; null of misses.
	Agents []view.RankedAgent `json:"agents"`
	// Misses is null of other lists.
	Misses []view.Miss `json:"misses"`
	// Gone are the agents of the site that Previous has and this window has not.
	Gone []string `json:"gone"`
}

// Agents returns the list of each project; the pages of an agent for each project that has it. What could be
// read comes with the error of what could not. An UnknownProjectError concerns the question.
func Agents(ctx context.Context, from sinks.Sink, o Choice, by AgentRanking) ([]AgentsReport, error) {
	by, err := by.Complete()
	if err != nil {
		return nil, err
	}
	return compareEach(ctx, from, o, by.rows(), func(c comparison) AgentsReport { return c.agents(by) })
}

// CompareAgents reads the rows of two windows of agents; earlier may be nil. Pages and misses of a window of
// which only totals were read are not compared with. The ranking must be complete. Of windows that were
// replaced it does what [Compare] does.
func CompareAgents(
	ctx context.Context, from sinks.Sink, earlier, later *analytics.Revision, r AgentRanking,
) (AgentsReport, error) {
	c, err := compare(ctx, from, earlier, later, r.rows())
	if err != nil {
		return AgentsReport{AgentRanking: r}, err
	}
	return c.agents(r), nil
}

// agents returns the list of a comparison of [AgentRanking.rows].
func (c comparison) agents(r AgentRanking) AgentsReport {
	out := AgentsReport{RowsReading: c.RowsReading, ProjectName: c.ProjectName, Previous: c.Previous, AgentRanking: r}
	if r.List == Misses {
		out.Misses, out.Count = c.missed()
		return out
	}
	list := c.report()
	out.Agents, out.Count = []view.RankedAgent{}, list.Count
	for _, ranked := range list.Rows {
		row := agentRow(ranked.Row)
		out.Agents = append(out.Agents, view.RankedAgent{Rank: ranked.Rank, Path: row.Path, Agent: row.Agent,
			Class: row.Class, Audience: row.Audience, AgentNumbers: view.AgentNumbersOf(ranked.Row.Counts),
			AgentChange: agentChange(ranked.RowChange)})
	}
	if r.List == SiteAgents {
		out.People = view.PeopleOf(c.Humans, r.Page, slices.Collect(maps.Values(c.now)))
		out.AIRequests, out.AIRequestsBefore = aiRequests(c.now, r.Page), aiRequests(c.before, r.Page)
	}
	if r.List == SiteAgents && c.before != nil {
		gone := map[string]bool{}
		for key := range c.before {
			gone[agentRow(key).Agent] = true
		}
		for key := range c.now {
			delete(gone, agentRow(key).Agent)
		}
		out.Gone = slices.AppendSeq([]string{}, maps.Keys(gone))
		slices.Sort(out.Gone)
	}
	return out
}

// aiRequests adds the requests of AI agents; nil without rows, or where one is not known.
func aiRequests(rows recordSet, path string) *int64 {
	var sum int64
	for _, row := range rows {
		n := view.AgentNumbersOf(row.Counts).Requests
		switch agent := agentRow(row); {
		case agent.Path != path || agent.Audience != analytics.AI:
		case n < 0:
			return nil
		default:
			sum += min(n, math.MaxInt64-sum)
		}
	}
	if rows == nil {
		return nil
	}
	return &sum
}

// missed returns the paths that are not there, and how many there are.
func (c comparison) missed() ([]view.Miss, int64) {
	out, asked := []view.Miss{}, map[string][]analytics.Record{}
	for _, row := range c.now {
		asked[row.Path()] = append(asked[row.Path()], row)
	}
	c.now, c.before = byPath(c.now), byPath(c.before)
	list := c.report()
	if len(list.Rows) == 0 {
		return out, list.Count
	}
	pages := similar.New(c.found)
	for _, ranked := range list.Rows {
		path := ranked.Row.Path()
		m := view.Miss{Rank: ranked.Rank, Path: path, AgentNumbers: view.AgentNumbersOf(ranked.Row.Counts),
			AgentChange: agentChange(ranked.RowChange), Near: []string{}}
		for _, page := range pages.Near(path) {
			m.Near = append(m.Near, page.Path)
		}
		for _, record := range asked[path] {
			row := agentRow(record)
			m.Agents = append(m.Agents, view.MissAgent{Agent: row.Agent, Class: row.Class, Audience: row.Audience,
				AgentNumbers: view.AgentNumbersOf(record.Counts)})
		}
		slices.SortFunc(m.Agents, func(a, b view.MissAgent) int {
			return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Agent, b.Agent),
				strings.Compare(string(a.Audience), string(b.Audience)))
		})
		out = append(out, m)
	}
	return out, list.Count
}

// byPath makes one row of the rows of each path: the most visitors of an agent, and the other counts of all, unknown
// where an agent's is.
func byPath(rows recordSet) recordSet {
	out := recordSet{}
	for _, row := range rows {
		key := analytics.Record{Texts: [len(row.Texts)]string{row.Path()}}
		total := out[key]
		total.Texts = key.Texts
		for i, n := range row.Counts {
			switch sum := &total.Counts[i]; {
			case i == 0:
				*sum = max(*sum, n)
			case n < 0 || *sum < 0:
				*sum = -1
			default:
				*sum += min(n, math.MaxInt64-*sum)
			}
		}
		out[key] = total
	}
	return out
}

func agentRow(r analytics.Record) analytics.AgentRow {
	return analytics.RowsOf[analytics.AgentRow]([]analytics.Record{r})[0]
}

func agentChange(c RowChange) view.AgentChange {
	out := view.AgentChange{Change: c.Change, Percent: c.Percent}
	if c.Previous != nil {
		out.Previous = new(view.AgentNumbersOf(*c.Previous))
	}
	return out
}

// AgentHistory has the readers and requests of one agent in one project and audience, window by window,
// oldest first, including the windows that the archive lacks. Its JSON keys are stable.
type AgentHistory struct {
	Project     string                `json:"project"`
	ProjectName string                `json:"project_name,omitempty"`
	Granularity analytics.Granularity `json:"granularity"`
	Agent       string                `json:"agent"`
	Class       string                `json:"class"`
	Audience    analytics.Audience    `json:"audience"`
	// Path is empty for the whole site.
	Path    string               `json:"path"`
	Windows []AgentHistoryWindow `json:"windows"`
	// NewerMissing counts the complete windows after those, which the archive lacks.
	NewerMissing int `json:"newer_windows_missing"`
	// Rows is the same history with the columns of the report.
	Rows RowHistory `json:"-"`
}

// AgentHistoryWindow is one window. Unknown numbers are null.
type AgentHistoryWindow struct {
	analytics.Window
	AgentHistoryNumbers
}

// AgentHistoryNumbers are the numbers of one window of a history.
type AgentHistoryNumbers struct {
	State    string `json:"state"` // settled, provisional or Missing
	Verified *bool  `json:"verified"`
	Revision *int32 `json:"revision"`
	// Absent: the rows of the window are known, and the agent is not among them.
	Absent   bool   `json:"absent"`
	Visitors *int64 `json:"visitors"`
	Requests *int64 `json:"requests"`
	Markdown *int64 `json:"markdown"`
	Bytes    *int64 `json:"bytes"`
	// The change of the readers, since the window of [analytics.Granularity.ComparedWith].
	view.AgentChange
}

// AgentHistories returns the history of an agent in each project that has it in one of the windows, of each
// audience apart; with a page that has a path, its history on that page. What could be read comes with the error
// of what could not. An UnknownProjectError concerns the question.
func AgentHistories(
	ctx context.Context, from sinks.Sink, agent string, o HistoryOptions,
) (out []AgentHistory, _ error) {
	all, err := RowHistories(ctx, from, analytics.AgentsReport, agent, o)
	for _, h := range all {
		a := AgentHistory{Project: h.Project, ProjectName: h.ProjectName, Granularity: h.Granularity, Agent: agent,
			Class: h.Row["class"], Audience: analytics.Audience(h.Row["audience"]), Path: h.Row["path"],
			NewerMissing: h.NewerMissing, Rows: h}
		for _, w := range h.Windows {
			n := AgentHistoryNumbers{State: w.State, Verified: w.Verified, Revision: w.Revision, Absent: w.Absent,
				AgentChange: agentChange(w.RowChange)}
			if w.Counts != nil {
				now := view.AgentNumbersOf(*w.Counts)
				n.Visitors, n.Requests, n.Markdown, n.Bytes = &now.Visitors, &now.Requests, &now.Markdown, &now.Bytes
			}
			a.Windows = append(a.Windows, AgentHistoryWindow{w.Window, n})
		}
		out = append(out, a)
	}
	return out, err
}
