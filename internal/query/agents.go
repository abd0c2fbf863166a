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
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// AgentList is what a question about agents lists.
type AgentList string

// The lists. AgentPages are those of one agent, Misses the paths that agents asked for and that are not
// there.
const (
	SiteAgents AgentList = "agents"
	AgentPages AgentList = "pages"
	Misses     AgentList = "misses"
)

// Rule says how the numbers of a list may be used.
func (l AgentList) Rule() string {
	if l == Misses {
		return "Asked for by agents from two networks or more, and not there. The requests are those of all agents; " +
			"the nearest page is only the most similar path."
	}
	return "Readers are never added up. Where an operator fetches pages for an agent (classes answers, search and " +
		"training), its readers are the few addresses it fetches from: compare requests."
}

// AgentOrder is the number by which a list of agents is ranked.
type AgentOrder string

// The orders. Hosted agents read from a few addresses of their operator: requests say more of them.
const (
	ByReaders  AgentOrder = "readers"
	ByRequests AgentOrder = "requests"
)

// AgentRanking selects and orders a list. It is repeated in the answer.
type AgentRanking struct {
	List AgentList `json:"list"`
	// By is the order; empty: that of [AgentRanking.Complete].
	By AgentOrder `json:"by"`
	// Agent is the agent of AgentPages.
	Agent string `json:"agent"`
	// Page makes SiteAgents those that read one page.
	Page string `json:"-"`
	// Prefix keeps the paths that begin with it.
	Prefix string `json:"prefix"`
	// N is the length of the list, without its first Offset rows.
	N      int `json:"-"`
	Offset int `json:"-"`
}

// ofSite reports whether windows of which only totals were read have the answer.
func (r AgentRanking) ofSite() bool { return r.List == SiteAgents && r.Page == "" }

// Complete returns the ranking with its defaults, or why the question has no answer. Misses are ranked by
// requests: each request is that of one agent, so that those of all agents are a number.
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
		return r, errors.New("agent: missing; list pages shows those of one agent")
	case r.List != AgentPages && r.Agent != "":
		return r, fmt.Errorf("agent: want it without list %s", r.List)
	case r.By != ByReaders && r.By != ByRequests:
		return r, fmt.Errorf("by %.20q: want readers or requests", r.By)
	case r.List == SiteAgents && r.Prefix != "":
		return r, errors.New("prefix: want it with pages of an agent, or with misses: the agents are those of the site")
	}
	return r, nil
}

// AgentReading is the reading of a window of agents. It has no totals: readers of agents are not added up.
type AgentReading struct {
	analytics.Key
	Number     int32     `json:"revision"`
	Settled    bool      `json:"settled"`
	Verified   bool      `json:"verified"`
	ExportedAt time.Time `json:"exported_at"`
}

func agentReading(rev analytics.Revision) AgentReading {
	return AgentReading{rev.Key, rev.Number, rev.Settled, rev.Verified, rev.ExportedAt}
}

// AgentsReport has the agents of one project in one window, the pages of one of them, or the paths that are
// not there, and how they differ from those of an earlier window. Its JSON keys are stable.
type AgentsReport struct {
	AgentReading
	ProjectName string `json:"project_name,omitempty"`
	// Previous is the window to compare with; null where the archive lacks it.
	Previous *AgentReading `json:"previous"`
	AgentRanking
	// Count is the length of the whole list.
	Count int64 `json:"count"`
	// Agents are agents of the site, or pages of one agent; null of misses.
	Agents []view.RankedAgent `json:"agents"`
	// Misses is null of other lists.
	Misses []view.Miss `json:"misses"`
	// Gone are the agents of the site that Previous has and this window has not.
	Gone []string `json:"gone"`
}

// number returns the number by which lists are ranked.
func (o AgentOrder) number(n view.AgentNumbers) int64 {
	if o == ByRequests {
		return n.Requests
	}
	return n.Visitors
}

func numbersOf(row analytics.AgentRow) view.AgentNumbers {
	return view.AgentNumbers{Visitors: row.Visitors, Requests: row.Requests}
}

func agentChange(before *view.AgentNumbers, now view.AgentNumbers, by AgentOrder) (c view.AgentChange) {
	if c.Previous = before; before != nil {
		change := by.number(now) - by.number(*before)
		c.Change, c.Percent = &change, Percent(by.number(*before), by.number(now))
	}
	return c
}

func unknownAgent(name string, g analytics.Granularity, known map[string]bool) error {
	return noAnswer("agent %.100q has no row in the %s windows asked for; %s",
		name, g, format.DidYouMean(name, slices.Sorted(maps.Keys(known))))
}

// Agents returns the list of each project; the pages of an agent for each project that has it. What could be
// read comes with the error of what could not. An UnknownProjectError concerns the question.
func Agents(ctx context.Context, from sinks.Sink, o Choice, by AgentRanking) ([]AgentsReport, error) {
	by, err := by.Complete()
	if err != nil {
		return nil, err
	}
	o.Selection.report = analytics.AgentsReport
	all, err := o.Selection.find(ctx, from)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	out, err := ofEach(all, func(s series) ([]AgentsReport, error) {
		now, previous, _, err := o.choose(ctx, from, s, by.ofSite())
		if err != nil {
			return nil, err
		}
		r, err := CompareAgents(ctx, from, previous, &now, by)
		if unknown, is := errors.AsType[unknownAgentOf](err); is {
			maps.Copy(known, unknown.known)
			return nil, nil
		}
		r.ProjectName = o.Selection.Names[s.project]
		return []AgentsReport{r}, err
	})
	if len(out) == 0 && err == nil {
		return nil, unknownAgent(by.Agent, o.Selection.Granularity, known)
	}
	return out, err
}

// unknownAgentOf is an agent that two windows lack, with those that they have.
type unknownAgentOf struct {
	error
	known map[string]bool
}

func (e unknownAgentOf) Unwrap() error { return e.error }

// CompareAgents reads the rows of two windows of agents; earlier may be nil. Pages and misses of a window of
// which only totals were read are not compared with. The ranking must be complete. Of windows that were
// replaced it does what [Compare] does.
func CompareAgents(
	ctx context.Context, from sinks.Sink, earlier, later *analytics.Revision, r AgentRanking,
) (out AgentsReport, err error) {
	out.AgentRanking = r
	now, err := r.read(ctx, from, later)
	if err != nil {
		return out, err
	}
	out.AgentReading = agentReading(*later)
	var before agentTally
	compared := earlier != nil && (r.ofSite() || !earlier.TotalsOnly())
	if compared {
		if before, err = r.read(ctx, from, earlier); err != nil {
			return out, err
		}
		maps.Copy(now.known, before.known)
	}
	if earlier != nil {
		previous := agentReading(*earlier)
		out.Previous = &previous
	}
	if r.List == AgentPages && !now.known[r.Agent] {
		return out, unknownAgentOf{unknownAgent(r.Agent, later.Granularity, now.known), now.known}
	}
	if r.List == Misses {
		out.Misses, out.Count = r.misses(now, before)
		return out, nil
	}
	out.Agents, out.Count = r.agents(now, before)
	if r.List == SiteAgents && compared {
		has := map[string]bool{}
		for of := range now.rows {
			has[of.agent] = true
		}
		out.Gone = []string{}
		for of := range before.rows {
			if !has[of.agent] && !slices.Contains(out.Gone, of.agent) {
				out.Gone = append(out.Gone, of.agent)
			}
		}
		slices.Sort(out.Gone)
	}
	return out, nil
}

// agentOf is what a row is of.
type agentOf struct {
	path, agent string
	audience    analytics.Audience
}

// agentTally are the rows of a window that a list is made of.
type agentTally struct {
	rows map[agentOf]analytics.AgentRow
	// known are the names of the agents that were met.
	known map[string]bool
	// found are the paths that are there, of Misses, in order.
	found []string
}

// numbers returns those of a row; nil without one.
func (t agentTally) numbers(of agentOf) *view.AgentNumbers {
	row, ok := t.rows[of]
	if !ok {
		return nil
	}
	return new(numbersOf(row))
}

// read reads the rows of a window that the list is made of. An export may have replaced it: rev becomes the
// one that is read.
func (r AgentRanking) read(ctx context.Context, from sinks.Sink, rev *analytics.Revision) (agentTally, error) {
	t := agentTally{rows: map[agentOf]analytics.AgentRow{}, known: map[string]bool{}}
	err := each(ctx, from, rev, sinks.Sealed.Agents, func(row analytics.AgentRow) bool {
		t.known[row.Agent] = true
		site, keep := row.Path == "", strings.HasPrefix(row.Path, r.Prefix)
		switch r.List {
		case SiteAgents:
			keep = row.Path == r.Page && row.Found
		case AgentPages:
			keep = keep && !site && row.Found && row.Agent == r.Agent
		case Misses:
			keep = keep && !row.Found
			if row.Found && !site && (len(t.found) == 0 || t.found[len(t.found)-1] != row.Path) {
				t.found = append(t.found, row.Path)
			}
		}
		if keep {
			t.rows[agentOf{row.Path, row.Agent, row.Audience}] = row
		}
		return row.Path <= r.Page || r.List != SiteAgents
	})
	return t, err
}

// part returns the rows that are asked for of a sorted list, and the rank of the first.
func (r AgentRanking) part(length int) (begin, end int) {
	begin = min(r.Offset, length)
	return begin, begin + min(r.N, length-begin)
}

func (r AgentRanking) agents(now, before agentTally) ([]view.RankedAgent, int64) {
	all := slices.SortedFunc(maps.Values(now.rows), func(a, b analytics.AgentRow) int {
		x, y := numbersOf(a), numbersOf(b)
		return cmp.Or(cmp.Compare(r.By.number(y), r.By.number(x)), a.Compare(b))
	})
	out := []view.RankedAgent{}
	begin, end := r.part(len(all))
	for i, row := range all[begin:end] {
		numbers := numbersOf(row)
		previous := before.numbers(agentOf{row.Path, row.Agent, row.Audience})
		out = append(out, view.RankedAgent{Rank: begin + i + 1, Path: row.Path, Agent: row.Agent, Class: row.Class,
			Audience: row.Audience, AgentNumbers: numbers, AgentChange: agentChange(previous, numbers, r.By)})
	}
	return out, int64(len(all))
}

func (r AgentRanking) misses(now, before agentTally) ([]view.Miss, int64) {
	former := missed(before)
	all := slices.SortedFunc(maps.Values(missed(now)), func(a, b *view.Miss) int {
		return cmp.Or(cmp.Compare(r.By.number(b.AgentNumbers), r.By.number(a.AgentNumbers)), strings.Compare(a.Path, b.Path))
	})
	out := []view.Miss{}
	begin, end := r.part(len(all))
	if begin == end {
		return out, int64(len(all))
	}
	pages := newPageIndex(now.found)
	for i, m := range all[begin:end] {
		m.Rank = begin + i + 1
		var previous *view.AgentNumbers
		if was := former[m.Path]; was != nil {
			previous = &was.AgentNumbers
		}
		m.AgentChange = agentChange(previous, m.AgentNumbers, r.By)
		slices.SortFunc(m.Agents, func(a, b view.MissAgent) int {
			return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Agent, b.Agent),
				strings.Compare(string(a.Audience), string(b.Audience)))
		})
		m.Near = pages.near(m.Path)
		out = append(out, *m)
	}
	return out, int64(len(all))
}

// missed returns the paths of a window that are not there.
func missed(t agentTally) map[string]*view.Miss {
	out := map[string]*view.Miss{}
	for of, row := range t.rows {
		m := out[of.path]
		if m == nil {
			m = &view.Miss{Path: of.path}
			out[of.path] = m
		}
		m.Visitors = max(m.Visitors, row.Visitors)
		m.Requests += min(row.Requests, math.MaxInt64-m.Requests)
		m.Agents = append(m.Agents, view.MissAgent{Agent: row.Agent, Class: row.Class,
			Audience: row.Audience, AgentNumbers: numbersOf(row)})
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
}

// AgentHistoryWindow is one window. Unknown numbers are null.
type AgentHistoryWindow struct {
	analytics.Window
	AgentHistoryNumbers
}

// AgentHistoryNumbers are those of one window of a history.
type AgentHistoryNumbers struct {
	State    string `json:"state"` // settled, provisional or Missing
	Verified *bool  `json:"verified"`
	Revision *int32 `json:"revision"`
	// Absent: the rows of the window are known, and the agent is not among them.
	Absent   bool   `json:"absent"`
	Visitors *int64 `json:"visitors"`
	Requests *int64 `json:"requests"`
	// The change is that of the readers, since the window of [analytics.Granularity.ComparedWith].
	view.AgentChange
}

// AgentHistories returns the history of an agent in each project that has it in one of the windows, of each
// audience apart; with a page that has a path, its history on that page. What could be read comes with the error of what could
// not. An UnknownProjectError concerns the question.
func AgentHistories(ctx context.Context, from sinks.Sink, agent string, o HistoryOptions) ([]AgentHistory, error) {
	o.Selection.report = analytics.AgentsReport
	all, err := o.Selection.find(ctx, from)
	if err != nil {
		return nil, err
	}
	var page string
	if o.Page != nil {
		page = *o.Page
	}
	known, pages, met := map[string]bool{}, false, false
	out, err := ofEach(all, func(s series) ([]AgentHistory, error) {
		windows, newer, err := o.windows(s)
		if err != nil {
			return nil, err
		}
		read := agentReader{from: from, agent: agent, page: page, series: s, known: known,
			rows: map[analytics.Window]map[analytics.Audience]analytics.AgentRow{}}
		histories, err := read.histories(ctx, o.Selection.Granularity, windows)
		pages, met = pages || read.pages, met || read.met
		for i := range histories {
			h := &histories[i]
			h.Project, h.ProjectName, h.NewerMissing = s.project, o.Selection.Names[s.project], newer
			h.Granularity, h.Agent, h.Path = o.Selection.Granularity, agent, page
		}
		return histories, err
	})
	switch {
	case err != nil || len(out) > 0:
		return out, err
	case page != "" && !pages:
		last, _ := all[0].newest(func(analytics.Window, reading) bool { return true })
		return nil, o.Selection.totalsOnly(ctx, from, all[0].windows[last].rev)
	case page != "" && met:
		return nil, noAnswer("agent %s did not read page %.200q in the %s windows asked for: paths are exact, "+
			"and `docgauge top --agent NAME --prefix PATH` lists them", agent, page, o.Selection.Granularity)
	}
	return nil, unknownAgent(agent, o.Selection.Granularity, known)
}

// agentReader reads the rows of an agent, of each window once.
type agentReader struct {
	from        sinks.Sink
	agent, page string
	series      series
	rows        map[analytics.Window]map[analytics.Audience]analytics.AgentRow
	// known are the names of the agents that were met; met: the agent is one of them.
	known map[string]bool
	met   bool
	// pages: the pages of a window are known.
	pages bool
}

// histories returns those of the audiences that the agent has.
func (a *agentReader) histories(
	ctx context.Context, g analytics.Granularity, windows []analytics.Window,
) ([]AgentHistory, error) {
	former := map[analytics.Window]analytics.Window{}
	for _, w := range windows {
		if before, known := a.series.endingAt(g.ComparedWith(w).To); known {
			former[w] = before
		}
		for _, w := range []analytics.Window{w, former[w]} {
			if err := a.read(ctx, w); err != nil {
				return nil, err
			}
		}
	}
	classes := map[analytics.Audience]string{}
	for _, w := range windows {
		for audience, row := range a.rows[w] {
			classes[audience] = row.Class // the newest
		}
	}
	var out []AgentHistory
	for _, audience := range slices.Sorted(maps.Keys(classes)) {
		h := AgentHistory{Class: classes[audience], Audience: audience}
		for _, w := range windows {
			h.Windows = append(h.Windows, a.window(w, former[w], audience))
		}
		out = append(out, h)
	}
	return out, nil
}

// window returns the numbers of a window; before is the one that it is compared with, or zero.
func (a *agentReader) window(w, before analytics.Window, audience analytics.Audience) AgentHistoryWindow {
	step := AgentHistoryWindow{w, AgentHistoryNumbers{State: Missing}}
	if r, known := a.series.windows[w]; known {
		step.State, step.Verified, step.Revision = r.rev.State(), &r.rev.Verified, &r.rev.Number
	}
	row, ok := a.rows[w][audience]
	if !ok {
		step.Absent = a.rows[w] != nil
		return step
	}
	now := numbersOf(row)
	step.Visitors, step.Requests = &now.Visitors, &now.Requests
	if was, ok := a.rows[before][audience]; ok {
		step.AgentChange = agentChange(new(numbersOf(was)), now, ByReaders)
	}
	return step
}

// read reads the rows of a window, unless it is not known, and enters the reading that it found.
func (a *agentReader) read(ctx context.Context, w analytics.Window) error {
	r, known := a.series.windows[w]
	if !known || a.rows[w] != nil || r.err == nil && a.page != "" && r.rev.TotalsOnly() {
		return nil
	}
	if r.err != nil {
		return r.err
	}
	found := map[analytics.Audience]analytics.AgentRow{}
	err := each(ctx, a.from, &r.rev, sinks.Sealed.Agents, func(row analytics.AgentRow) bool {
		a.known[row.Agent] = true
		if row.Agent == a.agent {
			a.met = true
			if row.Path == a.page && row.Found {
				found[row.Audience] = row
			}
		}
		return row.Path <= a.page
	})
	a.series.windows[w], a.rows[w], a.pages = r, found, a.pages || !r.rev.TotalsOnly()
	return err
}
