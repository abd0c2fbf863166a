package site

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// CountOptions say what is counted.
type CountOptions struct {
	// From and To are the days to count, To exclusive; nil for all.
	From, To *analytics.Date
	// ByDay counts each day too.
	ByDay bool
	// ByUserAgent counts each user agent too.
	ByUserAgent bool
	// Project counts one of several projects.
	Project string
	// Now bounds the days: nobody has read tomorrow.
	Now analytics.Date
	// Stdin is the log named -.
	Stdin io.Reader
}

// Report is the readers of a site in some days.
type Report struct {
	From   analytics.Date   `json:"from"`
	To     analytics.Date   `json:"to"` // exclusive
	Totals analytics.Totals `json:"totals"`
	Pages  []analytics.Row  `json:"pages"`
	Agents []agentReaders   `json:"agents"`
	// Classes add up the agents, and the views by browsers under that name.
	Classes []ClassReaders `json:"classes"`
	Negotiation
	Days []dayTotals `json:"days,omitempty"`
	// UserAgents has the most frequent first.
	UserAgents []*UserAgentReaders `json:"user_agents,omitempty"`
	// Lines counts those read, Views those that are views, also by agents that do not count as readers.
	Lines   int            `json:"lines"`
	Views   int            `json:"views"`
	LeftOut map[Reason]int `json:"left_out"`
	// Unparsed is the first line of the first log that has one.
	Unparsed *badLine `json:"first_unparsed,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Negotiation is of readers whose Accept preferred Markdown. nil: the log lacks the header that says it.
type Negotiation struct {
	Markdown *int `json:"markdown_readers,omitempty"`
	// HTML are those of them who got HTML, at least once.
	HTML *int `json:"html_readers,omitempty"`
}

// dayTotals is the readers of a day.
type dayTotals struct {
	Day analytics.Date `json:"day"`
	analytics.Totals
}

// agentReaders is the clients of an agent: each an address and a user agent.
type agentReaders struct {
	Agent    string             `json:"agent"`
	Class    agents.Class       `json:"class"`
	Audience analytics.Audience `json:"audience"`
	Hosted   bool               `json:"hosted"`
	Visitors int                `json:"visitors"`
	Requests int                `json:"requests"`
	Negotiation
}

// badLine is a line that does not follow the format. Its text is masked: letters are a, digits 0.
type badLine struct {
	Source string `json:"source"`
	Line   int    `json:"line"`
	Rule   string `json:"rule"`
	Text   string `json:"masked"`
}

// Count counts the readers in logs: files, plain or compressed, or - for CountOptions.Stdin. It keeps
// nothing. Memory grows with readers and pages, not with lines.
func (r *Rules) Count(ctx context.Context, paths []string, o CountOptions) (*Report, error) {
	c := &counting{Rules: r, CountOptions: o, words: newVocabulary(), readers: map[[2]uint64]uint32{},
		dateOf: map[analytics.Date]int{}, leftOut: map[Reason]int{}, asked: map[[2]uint64]askedReader{},
		browsers:   ClassReaders{Class: agents.Class(agents.Browser.Token)},
		userAgents: userAgentCounts{counts: map[string]*UserAgentReaders{}}, from: math.MaxInt32, to: math.MinInt32}
	all := r.Projects(nil)
	c.project = int32(max(slices.Index(all, o.Project), 0))
	switch {
	case o.Project == "" && len(all) > 1:
		return nil, errors.New("DOCGAUGE_SITE_PROJECTS names several projects: name one with --project")
	case o.Project != "" && !slices.Contains(all, o.Project):
		return nil, fmt.Errorf("--project: DOCGAUGE_SITE_PROJECTS has no %.80q", o.Project)
	}
	secret := make([]byte, 32)
	rand.Read(secret)
	from, to := c.bounds()
	for range runtime.GOMAXPROCS(0) {
		v := newViewer(r, c.words, from, to)
		v.identify = once(secret)
		v.byUserAgent = o.ByUserAgent
		c.viewers = append(c.viewers, v)
	}
	for i, path := range paths {
		if slices.Contains(paths[:i], path) {
			return nil, fmt.Errorf("%s: is named twice; its lines would count twice", path)
		}
		if err := c.read(ctx, i, path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return c.report(paths), nil
}

// counting is the state of one Count.
type counting struct {
	*Rules
	CountOptions
	words   *vocabulary
	viewers []*viewer
	project int32

	readers    map[[2]uint64]uint32
	pages      facts.Counter
	days       facts.Counter
	dates      []analytics.Date // by part of days
	dateOf     map[analytics.Date]int
	visitors   []int // by agent
	requests   []int
	browsers   ClassReaders
	userAgents userAgentCounts
	leftOut    map[Reason]int
	lines      int
	views      int
	from, to   analytics.Date
	bad        *badLine
	badOf      int

	// asked are the readers whose Accept preferred Markdown, and whether they got HTML.
	asked map[[2]uint64]askedReader
}

type askedReader struct {
	agent int32
	html  bool
}

// batch has the views of one chunk, and why its other lines are not views.
type batch struct {
	lines   int
	newest  int64 // Unix seconds; 0: no line has a time
	views   []view
	clients []knownAgent // of each view, if user agents are counted
	missed  []view       // of lines that are left out
	asked   []negotiated
	leftOut map[Reason]int
	bad     *badLine
}

// freeViews are views of batches that have been counted: their memory is used again.
var freeViews sync.Pool

// headSize is how much of a log its format is found out from.
const headSize = 64 << 10

// read counts one log. Chunks are parsed in parallel, and counted one after the other.
func (c *counting) read(ctx context.Context, i int, path string) error {
	in, err := open(path, c.Stdin)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was only read
	text, err := logs.Decompress(in)
	if err != nil {
		return err
	}
	head := make([]byte, headSize)
	n, err := io.ReadFull(text, head)
	for err == nil && head[0] == 0 { // what a crash left
		var more int
		n = copy(head, bytes.TrimLeft(head, "\x00"))
		if more, err = io.ReadFull(text, head[n:]); errors.Is(err, io.EOF) && n > 0 {
			err = io.ErrUnexpectedEOF
		}
		n += more
	}
	whole := head[:n]
	switch {
	case errors.Is(err, io.EOF): // nothing at all
		return nil
	case err == nil: // the last line may go on
		whole = head[:max(bytes.LastIndexByte(head, '\n'), 0)]
	case !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	parser, err := c.format.Parser(whole)
	if err != nil {
		return err
	}
	chunks := make(chan logs.Lines)
	batches := make(chan batch, runtime.GOMAXPROCS(0))
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(chunks)
		all := io.MultiReader(bytes.NewReader(head[:n]), text)
		return logs.ReadLines(all, logs.Part{First: 1}, func(chunk logs.Lines) error {
			select {
			case chunks <- chunk:
				return nil
			case <-gctx.Done():
				return context.Cause(gctx)
			}
		})
	})
	workers, _ := errgroup.WithContext(gctx)
	for _, v := range c.viewers {
		own := parser.Clone()
		workers.Go(func() error {
			for chunk := range chunks {
				b := v.batch(own, chunk)
				chunk.Free()
				select {
				case batches <- b:
				case <-gctx.Done():
					return nil
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(batches)
		return workers.Wait()
	})
	for b := range batches {
		c.add(i, b)
		b.views = b.views[:0]
		freeViews.Put(&b.views)
	}
	return group.Wait()
}

// bounds returns the Unix seconds that are counted.
func (c *counting) bounds() (from, to int64) {
	from, to = math.MinInt64, (c.Now + 2).Time().Unix() // clocks differ by less than a day
	if c.From != nil {
		from = c.From.Time().Unix()
	}
	if c.To != nil {
		to = min(to, c.To.Time().Unix())
	}
	return from, to
}

// open opens a log.
func open(path string, stdin io.Reader) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(stdin), nil
	}
	if real, err := filepath.EvalSymlinks(path); err == nil { // not of a pipe that a shell made for <(…)
		if info, err := os.Lstat(real); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			return nil, errors.New("is a named pipe, which may never end; pipe the lines to -")
		}
	}
	f, err := os.Open(path)
	if err != nil {
		if e, ok := errors.AsType[*os.PathError](err); ok {
			err = e.Err // the caller names the path
		}
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return nil, errors.Join(cmp.Or(err, errors.New("is a directory; name the logs in it")), f.Close())
	}
	return f, nil
}

// batch reads the lines of a chunk.
func (v *viewer) batch(p *logs.Parser, c logs.Lines) batch {
	b := batch{lines: c.TooLong, leftOut: map[Reason]int{}}
	if free, ok := freeViews.Get().(*[]view); ok {
		b.views = *free
	}
	if c.TooLong > 0 {
		b.leftOut[Unparsed] = c.TooLong
		b.bad = &badLine{Line: c.First - 1, Rule: "is longer than 1 MiB"}
	}
	var l logs.Line
	for number := c.First; len(c.Text) > 0; number++ {
		var line []byte
		line, c.Text, _ = bytes.Cut(c.Text, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			continue
		}
		ok, err := p.Parse(line, &l)
		if !ok && err == nil {
			continue
		}
		b.lines++
		if err != nil {
			b.leftOut[Unparsed]++
			if b.bad == nil {
				b.bad = &badLine{Line: number, Rule: err.Error(), Text: mask(line)}
			}
			continue
		}
		if l.Time < v.to {
			b.newest = max(b.newest, l.Time)
		}
		one, why := v.view(&l)
		if why != "" {
			b.leftOut[why]++
			continue
		}
		b.views = append(b.views, one)
		if v.byUserAgent {
			b.clients = append(b.clients, v.last)
		}
	}
	b.missed, v.missed = v.missed, nil
	b.asked, v.negotiated = v.negotiated, nil
	return b
}

// mask returns the form of a line without what it says: letters are a, digits 0.
func mask(line []byte) string {
	const most = 160
	form := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsDigit(r):
			return '0'
		case unicode.IsLetter(r):
			return 'a'
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return '.'
		}
		return r
	}, string(line[:min(len(line), 4*most)]))
	if runes := []rune(form); len(runes) > most {
		form = string(runes[:most]) + "…"
	}
	return form
}

// add counts the views of a batch of a log.
func (c *counting) add(log int, b batch) {
	c.lines += b.lines
	for why, n := range b.leftOut {
		c.leftOut[why] += n
	}
	if b.bad != nil && (c.bad == nil || c.badOf == log && b.bad.Line < c.bad.Line) {
		c.bad, c.badOf = b.bad, log
	}
	for _, n := range b.asked {
		if n.view.Project == c.project {
			c.asked[n.view.Readers] = askedReader{n.view.Agent, n.html || c.asked[n.view.Readers].html}
		}
	}
	for i, v := range b.views {
		if v.Project != c.project {
			c.leftOut[Foreign]++
			continue
		}
		c.views++
		c.from, c.to = min(c.from, v.Day), max(c.to, v.Day+1)
		reader, known := c.readers[v.Readers]
		if !known {
			reader = uint32(len(c.readers))
			c.readers[v.Readers] = reader
		}
		if b.clients != nil {
			c.userAgents.add(b.clients[i].text, b.clients[i].agent, !known)
		}
		if v.Agent == facts.Browser {
			c.browsers.Requests++
			if !known {
				c.browsers.Visitors++
			}
		}
		if v.Agent >= 0 {
			for int(v.Agent) >= len(c.requests) {
				c.requests, c.visitors = append(c.requests, 0), append(c.visitors, 0)
			}
			c.requests[v.Agent]++
			if !known { // a reader has one user agent
				c.visitors[v.Agent]++
			}
		}
		if v.Kind == facts.Neither {
			continue
		}
		who := reader<<1 | uint32(v.Kind)
		c.pages.Add(who, int(v.Page))
		if c.ByDay {
			c.addDay(who, v.Day)
		}
	}
}

func (c *counting) addDay(who facts.Who, day analytics.Date) {
	i, known := c.dateOf[day]
	if !known {
		i = len(c.dates)
		c.dateOf[day], c.dates = i, append(c.dates, day)
	}
	c.days.Add(who, i)
}

func (c *counting) report(paths []string) *Report {
	r := &Report{From: c.from, To: c.to, Totals: c.pages.Site(), Agents: []agentReaders{},
		Lines: c.lines, Views: c.views, LeftOut: c.leftOut, Unparsed: c.bad}
	if c.views == 0 {
		r.From, r.To = c.Now, c.Now
	}
	if c.From != nil {
		r.From, r.To = *c.From, max(r.To, *c.From)
	}
	if c.To != nil {
		r.To, r.From = *c.To, min(r.From, *c.To)
	}
	if c.bad != nil {
		c.bad.Source = paths[c.badOf]
	}
	names := make([]string, len(c.words.pages.all))
	for i, page := range c.words.pages.all {
		names[i] = page.path
	}
	r.Pages = append([]analytics.Row{}, c.pages.Rows(names)...)
	negotiation := c.negotiation()
	r.Negotiation = negotiation(wholeSite)
	for i, n := range c.requests {
		a := c.words.agents.all[i]
		r.Agents = append(r.Agents, agentReaders{a.token, a.class,
			agents.Audience(&agents.Agent{Class: a.class}, false), a.hosted,
			c.visitors[i], n, negotiation(int32(i))})
	}
	slices.SortFunc(r.Agents, func(x, y agentReaders) int {
		return cmp.Or(cmp.Compare(y.Visitors, x.Visitors), cmp.Compare(y.Requests, x.Requests),
			strings.Compare(x.Agent, y.Agent))
	})
	r.Classes = classes(r.Agents, c.browsers)
	r.UserAgents = c.userAgents.list()
	if c.userAgents.dropped {
		r.Warnings = append(r.Warnings, fmt.Sprintf("there are more than %d user agents: those with few requests are "+
			"not listed, or with too few", maxUserAgents))
	}
	if text := c.warnBusiest(); text != "" {
		r.Warnings = append(r.Warnings, text)
	}
	for _, l := range c.ranges.Stale() {
		r.Warnings = append(r.Warnings, fmt.Sprintf("DOCGAUGE_SITE_RANGES_DIR: %s of %s is too old to verify "+
			"anything: "+
			"fetch it again", l.Name, l.Created.UTC().Format(time.DateOnly)))
	}
	for i, day := range c.dates {
		r.Days = append(r.Days, dayTotals{day, c.days.Part(i)})
	}
	slices.SortFunc(r.Days, func(x, y dayTotals) int { return cmp.Compare(x.Day, y.Day) })
	return r
}

// wholeSite stands for all agents together.
const wholeSite = -1

// negotiation returns that of an agent by its number, or of wholeSite.
func (c *counting) negotiation() func(agent int32) Negotiation {
	hasAccept := slices.ContainsFunc(c.viewers, func(v *viewer) bool { return v.hasAccept })
	hasType := slices.ContainsFunc(c.viewers, func(v *viewer) bool { return v.hasType })
	markdown, html := map[int32]int{}, map[int32]int{}
	for _, a := range c.asked {
		of := []int32{wholeSite, a.agent}
		if a.agent < 0 { // it names no agent
			of = of[:1]
		}
		for _, agent := range of {
			markdown[agent]++
			if a.html {
				html[agent]++
			}
		}
	}
	return func(agent int32) (n Negotiation) {
		if hasAccept {
			n.Markdown = new(markdown[agent])
		}
		if hasAccept && hasType {
			n.HTML = new(html[agent])
		}
		return n
	}
}

// Few addresses with most of the views are not readers.
const (
	fewAddresses = 3
	leastViews   = 1000
)

// warnBusiest returns a warning if a few addresses have most of the views.
func (c *counting) warnBusiest() string {
	sum := map[netip.Addr]int{}
	for _, v := range c.viewers {
		for addr, n := range v.busiest {
			sum[addr] += n * sampled
		}
	}
	counts := slices.Sorted(maps.Values(sum))
	most := 0
	for _, n := range counts[max(0, len(counts)-fewAddresses):] {
		most += n
	}
	if c.views < leastViews || most <= c.views/2 {
		return ""
	}
	return fmt.Sprintf("%d addresses have about %d%% of the views: if they belong to a CDN or proxy, name its "+
		"networks "+
		"in DOCGAUGE_SITE_LOG_PROXIES; if they are monitors, in DOCGAUGE_SITE_EXCLUDE", min(fewAddresses, len(counts)),
		min(100, 100*most/c.views))
}
