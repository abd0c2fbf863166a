package count

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// Options say what is counted.
type Options struct {
	// From and To are the days to count, To exclusive; nil for all.
	From, To *analytics.Date
	// ByDay counts each day too.
	ByDay bool
	// ByAgent counts the requests, Markdown and bytes of people too, and BySource where they come from.
	ByAgent, BySource bool
	// ByUserAgent counts each user agent too.
	ByUserAgent bool
	// Project counts one of several projects.
	Project string
	// Now bounds the days: lines of the day after tomorrow are not counted.
	Now analytics.Date
	// Stdin is the log named -.
	Stdin io.Reader
}

// Report has the readers of a site in some days.
type Report struct {
	From   analytics.Date   `json:"from"`
	To     analytics.Date   `json:"to"` // exclusive
	Totals analytics.Totals `json:"totals"`
	// Humans says which of the people count as human.
	Humans analytics.Humans `json:"humans"`
	People People           `json:"people"`
	Pages  []analytics.Row  `json:"pages"`
	// Agents have people, as browser and unconfirmed, with Options.ByAgent alone.
	Agents []agentReaders `json:"agents"`
	// Classes add up the agents, but people under the names that they have there.
	Classes []ClassReaders `json:"classes"`
	// Sources has where people come from, with Options.BySource alone.
	Sources []SourceReaders `json:"sources,omitempty"`
	Negotiation
	Days []dayTotals `json:"days,omitempty"`
	// UserAgents has the most frequent first.
	UserAgents []*UserAgentReaders `json:"user_agents,omitempty"`
	// Lines counts the lines that were read. Views counts the views, also by agents that do not count as readers;
	// AIRequests those that count as AI.
	Lines      int            `json:"lines"`
	Views      int            `json:"views"`
	AIRequests int            `json:"ai_requests"`
	LeftOut    map[Reason]int `json:"left_out"`
	// Unparsed is the first line of the first log that has one.
	Unparsed *BadLine `json:"first_unparsed,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// dayTotals has the readers of a day.
type dayTotals struct {
	Day analytics.Date `json:"day"`
	analytics.Totals
}

// agentReaders has the clients of an agent. A client is an address and a user agent.
type agentReaders struct {
	Agent    string             `json:"agent"`
	Class    agents.Class       `json:"class"`
	Audience analytics.Audience `json:"audience"`
	Hosted   bool               `json:"hosted"`
	Visitors int                `json:"visitors"`
	sums
	Negotiation
}

// sums are of requests: Markdown counts those answered as Markdown. Bytes were sent; -1 where a request does not say.
type sums struct {
	Requests int   `json:"requests"`
	Markdown int   `json:"markdown"`
	Bytes    int64 `json:"bytes"`
}

func (s *sums) add(other sums) {
	s.Requests, s.Markdown = s.Requests+other.Requests, s.Markdown+other.Markdown
	s.Bytes = addBytes(s.Bytes, other.Bytes)
}

// addBytes adds the bytes of two requests, which may be unsaid.
func addBytes(x, y int64) int64 {
	if x < 0 || y < 0 {
		return facts.Unsaid
	}
	return x + y
}

func sumsOf(v *view) sums {
	s := sums{Requests: 1, Bytes: v.Bytes}
	if v.Markdown {
		s.Markdown = 1
	}
	return s
}

// SourceReaders has the people whom a source brought. Agent is browser, or unconfirmed.
type SourceReaders struct {
	Source   string `json:"source"`
	Class    string `json:"class"`
	Agent    string `json:"agent"`
	Visitors int    `json:"visitors"`
	Requests int    `json:"requests"`
}

// ProjectError is a mistake in Options.Project.
type ProjectError string

func (e ProjectError) Error() string { return string(e) }

// Count counts the readers in logs: files, plain or compressed, the files of a directory, or - for Options.Stdin. A file
// without a line of a known format is left out with a warning, unless all are. It keeps nothing. Memory grows with readers
// and pages, not with lines.
func (r *Rules) Count(ctx context.Context, paths []string, o Options) (*Report, error) {
	all := r.Projects(nil)
	switch {
	case o.Project == "" && len(all) > 1:
		return nil, ProjectError("DOCGAUGE_SITE_PROJECTS names several projects: name one with --project")
	case o.Project != "" && !slices.Contains(all, o.Project):
		return nil, ProjectError(fmt.Sprintf("--project: DOCGAUGE_SITE_PROJECTS has no %.80q", o.Project))
	}
	c := r.newCounting(o)
	c.project = int32(max(slices.Index(all, o.Project), 0))
	identify := once(facts.ForgottenHash())
	for _, v := range c.viewers {
		v.Identify = identify
	}
	paths, err := c.readAll(ctx, paths)
	if err != nil {
		return nil, err
	}
	return c.report(paths), nil
}

// newCounting returns a counting whose viewers do not know readers yet.
func (r *Rules) newCounting(o Options) *counting {
	c := &counting{Rules: r, Options: o, words: NewVocabulary(), repeats: NewRepeats(), leftOut: map[Reason]int{},
		asked: map[[2]uint64]askedReader{}, userAgents: userAgentCounts{counts: map[string]*UserAgentReaders{}},
		from: math.MaxInt32, to: math.MinInt32}
	from, to := c.bounds()
	c.shards = newShards(runtime.GOMAXPROCS(0))
	for range runtime.GOMAXPROCS(0) {
		v := NewViewer(r, c.words, from, to)
		v.byUserAgent, v.busiest, v.byProof, v.Sources = o.ByUserAgent, new(busiest), true, o.BySource
		if o.From != nil {
			v.ShownFrom = o.From.Time().AddDate(0, 0, 1-o.From.Time().Day()).Unix()
		}
		v.Future = (o.Now + 2).Time().Unix() // clocks differ by less than a day
		c.viewers = append(c.viewers, v)
	}
	return c
}

// counting is the state of one Count.
type counting struct {
	*Rules
	Options
	words   *Vocabulary
	viewers []*Viewer
	project int32

	shards []shard
	turn   atomic.Uint32 // of the shard that the next batch begins with

	mu sync.Mutex // of what follows, while logs are read

	userAgents userAgentCounts
	leftOut    map[Reason]int
	lines      int
	views      int
	from, to   analytics.Date
	bad        *BadLine
	logs       []readLog
	unknown    []string // logs without a line of a known format
	tally      Tally
	repeats    *Repeats
	newest     int64 // Unix seconds of the newest line
	kept       *kept // where views are put; nil: they are counted here

	// asked are the readers whose Accept preferred Markdown, and whether they got HTML.
	asked map[[2]uint64]askedReader
}

// bounds returns the Unix seconds that are counted.
func (c *counting) bounds() (from, to int64) {
	from, to = math.MinInt64, (c.Now + 2).Time().Unix()
	if c.From != nil {
		from = c.From.Time().Unix()
	}
	if c.To != nil {
		to = min(to, c.To.Time().Unix())
	}
	return from, to
}

func (c *counting) report(paths []string) *Report {
	clients, days, ai := make([]agentSums, len(c.words.agents.all)), map[analytics.Date]analytics.Totals{}, 0
	for i := range c.shards {
		s := &c.shards[i]
		c.views, c.from, c.to, ai = c.views+s.views, min(c.from, s.from), max(c.to, s.to), ai+s.ai
		if s.foreign > 0 {
			c.leftOut[Foreign] += s.foreign
		}
		for agent, n := range s.agents {
			clients[agent].visitors += n.visitors
			clients[agent].add(n.sums)
		}
		if c.humans == analytics.Confirmed {
			s.dropUnconfirmed()
		}
		for part, day := range s.dates {
			days[day] = sum(days[day], s.days.Part(part))
		}
	}
	r := c.reading(paths)
	r.AIRequests, r.Agents = ai, []agentReaders{}
	r.Totals, r.People = c.people()
	names := make([]string, len(c.words.pages.all))
	for i, page := range c.words.pages.all {
		names[i] = page.path
	}
	r.Pages = append([]analytics.Row{}, facts.Rows(names, func(page int) (n analytics.Totals) {
		for i := range c.shards {
			n = sum(n, c.shards[i].pages.Part(page))
		}
		return n
	})...)
	negotiation := c.negotiation()
	r.Negotiation = negotiation(wholeSite)
	for i, n := range clients {
		if n.Requests == 0 { // its lines are of other days
			continue
		}
		a := c.words.agents.all[i]
		r.Agents = append(r.Agents, agentReaders{a.token, a.class,
			agents.Audience(&agents.Agent{Class: a.class}, false), a.hosted,
			n.visitors, n.sums, negotiation(int32(i))})
	}
	people := c.browsers(negotiation)
	r.Classes = classes(slices.Concat(r.Agents, people))
	if c.ByAgent {
		r.Agents = append(r.Agents, people...)
	}
	slices.SortFunc(r.Agents, func(x, y agentReaders) int {
		return cmp.Or(cmp.Compare(y.Visitors, x.Visitors), cmp.Compare(y.Requests, x.Requests),
			strings.Compare(x.Agent, y.Agent))
	})
	r.Sources = c.sources()
	r.UserAgents = c.userAgents.list()
	if c.userAgents.dropped {
		r.Warnings = append(r.Warnings, fmt.Sprintf("there are more than %d user agents: those with few requests are "+
			"not listed, or with too few", maxUserAgents))
	}
	for day, n := range days {
		r.Days = append(r.Days, dayTotals{day, n})
	}
	slices.SortFunc(r.Days, func(x, y dayTotals) int { return cmp.Compare(x.Day, y.Day) })
	return r
}

// reading returns a report of what was read, without readers.
func (c *counting) reading(paths []string) *Report {
	r := &Report{From: c.from, To: c.to, Humans: c.humans, Lines: c.lines, Views: c.views, LeftOut: c.leftOut,
		Unparsed: c.bad}
	if c.views == 0 {
		r.From, r.To = c.Now, c.Now
	}
	if c.From != nil {
		r.From, r.To = *c.From, max(r.To, *c.From)
	}
	if c.To != nil {
		r.To, r.From = *c.To, min(r.From, *c.To)
	}
	for _, path := range c.unknown {
		r.Warnings = append(r.Warnings, path+": "+logs.ErrUnknown.Error()+"; it is left out")
	}
	isProxy := false
	for _, f := range c.Findings(c.tally, 1) {
		r.Warnings = append(r.Warnings, f.Text)
		isProxy = isProxy || f.Name == NoClients
	}
	repeated := c.repeats.Findings()
	for i := range paths {
		for _, f := range repeated[i] {
			r.Warnings = append(r.Warnings, f.Text)
		}
	}
	if text := warnBusiest(c.viewers, c.views); text != "" && !isProxy {
		r.Warnings = append(r.Warnings, text)
	}
	linking, visits := Linking{}, 0
	for _, v := range c.viewers {
		visits += v.visits
		for host, n := range v.linking {
			linking[host] += n
		}
	}
	if host, links := linking.host(); links >= leastViews && 3*links > visits { // other sites send fewer
		r.Warnings = append(r.Warnings, fmt.Sprintf("the lines have no host, and most links are on %s: if that is this "+
			"site, set DOCGAUGE_SITE_HOSTS=%[1]s, or visits from its own pages are of source other", host))
	}
	for _, l := range c.ranges.Stale() {
		r.Warnings = append(r.Warnings, fmt.Sprintf("DOCGAUGE_SITE_RANGES_DIR: %s of %s is too old to verify "+
			"anything: fetch it again", l.Name, l.Created.UTC().Format(time.DateOnly)))
	}
	return r
}

// once identifies readers under one key.
func once(hash facts.Hash) func(*view, []byte) Reason {
	return func(out *view, who []byte) Reason {
		out.Readers[0], out.Readers[1] = hash.Sum(who)
		return ""
	}
}

// Negotiation has the readers whose Accept preferred Markdown; nil where the log lacks the header.
type Negotiation struct {
	Asked *int `json:"markdown_readers,omitempty"`
	// GotHTML counts those readers that got HTML at least once.
	GotHTML *int `json:"html_readers,omitempty"`
}

type askedReader struct {
	agent int32
	html  bool
}

// wholeSite stands for all agents together.
const wholeSite = math.MinInt32

// negotiation returns a function from the number of an agent, or wholeSite, to its Negotiation.
func (c *counting) negotiation() func(agent int32) Negotiation {
	hasAccept := slices.ContainsFunc(c.viewers, func(v *Viewer) bool { return v.hasAccept })
	hasType := slices.ContainsFunc(c.viewers, func(v *Viewer) bool { return v.hasType })
	markdown, html := map[int32]int{}, map[int32]int{}
	for _, a := range c.asked {
		for _, agent := range [...]int32{wholeSite, a.agent} {
			markdown[agent]++
			if a.html {
				html[agent]++
			}
		}
	}
	return func(agent int32) (n Negotiation) {
		if hasAccept {
			n.Asked = new(markdown[agent])
		}
		if hasAccept && hasType {
			n.GotHTML = new(html[agent])
		}
		return n
	}
}
