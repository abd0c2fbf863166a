// Package site counts the readers of any documentation site from its access logs: people and AI
// apart, exact for every span of days.
//
// A view is a page that a client got; a reader is one client's address and user agent. Neither
// stays: an address is hashed with a key that nothing keeps before anything is counted.
package site

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// Reason is why a line is not a view.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	Unparsed Reason = "unparsed" // not of the log's format, or too long
	Outside  Reason = "outside"  // not in the days asked for
	Method   Reason = "method"   // not GET
	Status   Reason = "status"   // facts.Neither 2xx nor 304
	Asset    Reason = "asset"    // an image, a style, a script; not a page
	Foreign  Reason = "project"  // of another host or path than the projects'
	Client   Reason = "client"   // without an address
	Excluded Reason = "excluded" // DOCGAUGE_SITE_EXCLUDE
	Spoofed  Reason = "spoofed"  // claims to be an agent that its address is not
	Late     Reason = "late"     // of a month whose keys have been destroyed
)

// view is one page that one reader got. To count once, Readers is the beginning of one hash.
type view = facts.View

// names numbers names in the order in which they came. It may be used by several goroutines.
type names[K comparable] struct {
	mu     sync.Mutex
	number map[K]int32
	all    []K
}

// of returns the number of a name. Of a new one it asks first whether it may be had: if not, it
// returns -1. It asks one goroutine at a time.
func (n *names[K]) of(name K, mayHave func() bool) int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i, ok := n.number[name]; ok {
		return i
	}
	if mayHave != nil && !mayHave() {
		return -1
	}
	if n.number == nil {
		n.number = map[K]int32{}
	}
	i := int32(len(n.all))
	n.number[name], n.all = i, append(n.all, name)
	return i
}

// restore adds the next name that an earlier process has numbered.
func (n *names[K]) restore(name K) {
	if n.number == nil {
		n.number = map[K]int32{}
	}
	n.number[name], n.all = int32(len(n.all)), append(n.all, name)
}

// pageName is a page of a project, or a path that is not there.
type pageName struct {
	project int32
	path    string
	missed  bool
}

// agentName is an agent as the table had it when a view was read.
type agentName struct {
	token  string
	class  agents.Class
	hosted bool
}

// vocabulary numbers the pages and agents in the views of all logs.
type vocabulary struct {
	pages  names[pageName]
	agents names[agentName]
	// missed has the month in which a path that is not there was first asked for, by number. Clients can
	// invent such paths for ever, so that each month has its own bound.
	missed map[int32]facts.Epoch
	// known counts the pages, at 0, and the paths of each month that are not there.
	known map[facts.Epoch]int
	// invented counts those that nobody had asked for before, by who did.
	invented map[inventor]int
}

// inventor is the address of a client, and as in vocabulary.known.
type inventor struct {
	client netip.Addr
	month  facts.Epoch
}

func newVocabulary() *vocabulary {
	return &vocabulary{missed: map[int32]facts.Epoch{}, known: map[facts.Epoch]int{}, invented: map[inventor]int{}}
}

// named says that the next name is a new one of a month.
func (w *vocabulary) named(missed facts.Epoch) {
	w.known[missed]++
	if missed != 0 {
		w.missed[int32(len(w.pages.all))] = missed
	}
}

// page returns the number of a page, which a client reads. isOther: it is that of [otherPages],
// because the page is new and there are too many, or because the client has read too many new
// pages. So nobody uses up the pages of others by inventing paths, and memory has a bound.
func (w *vocabulary) page(p pageName, client netip.Addr) (number int32, isOther bool) {
	number = w.of(p, inventor{client: client}, maxPages, maxPages/2)
	if number >= 0 {
		return number, false
	}
	return w.pages.of(pageName{project: p.project, path: otherPages}, nil), true
}

// of returns the number of a name; -1 for a new one if there are most, or if there are more than free and
// the client has invented too many.
func (w *vocabulary) of(p pageName, by inventor, most, free int) int32 {
	return w.pages.of(p, func() bool {
		known := w.known[by.month]
		if known >= most || known >= free && w.invented[by] >= maxInvented {
			return false
		}
		w.named(by.month)
		if by.client.IsValid() { // else a log that only the operator writes
			w.invented[by]++
		}
		return true
	})
}

// viewer makes views of lines, for one goroutine. What it has seen often it need not look at again.
type viewer struct {
	*Rules
	words *vocabulary
	// identify sets the reader of a view whose day and project are known, from what tells readers apart.
	identify func(out *view, who []byte) Reason
	from, to int64 // Unix seconds
	// project is that of all lines; -1: the lines say it. several: there are others beside it.
	fixed   int32
	several bool
	// all: views that count as no reader's are numbered too, and so are paths that are not there.
	all bool
	// missed has what was asked for and is not there since the last batch.
	missed []view
	// negotiated has, unless all is set, the views whose Accept prefers Markdown, since the last batch.
	negotiated []negotiated
	// hasAccept and hasType: a line has the header Accept, and the Content-Type of the response.
	hasAccept, hasType bool

	// byUserAgent keeps the client of the present line in last.
	byUserAgent bool
	last        knownAgent

	targets map[string]target
	clients map[string]knownAgent
	accepts map[string]bool
	made    view               // of the present line; a local one would be on the heap
	busiest map[netip.Addr]int // of the views, at most: see seen
	sample  *rand.PCG
	scratch []byte
}

// negotiated is a view whose Accept prefers Markdown, and whether the answer was HTML.
type negotiated struct {
	view view
	html bool
}

type target struct {
	page     string
	markdown bool
	excluded bool
	number   int32 // of the page in the only project, -1 if not yet known
}

type knownAgent struct {
	text     string // the user agent
	agent    *agents.Agent
	number   int32
	excluded bool
	digest   [sha256.Size]byte // of the user agent
}

// remembered bounds what a viewer remembers of each kind: clients invent what they like.
const remembered = 1 << 15

func newViewer(r *Rules, words *vocabulary, from, to int64) *viewer {
	return &viewer{Rules: r, words: words, from: from, to: to, fixed: -1, several: len(r.projects) > 0,
		targets: map[string]target{}, clients: map[string]knownAgent{}, accepts: map[string]bool{},
		busiest: map[netip.Addr]int{}, sample: rand.NewPCG(1, 1)}
}

const (
	// addresses is how many of the busiest addresses are counted.
	addresses = 64
	// sampled is of how many views one is looked at for that.
	sampled = 8
)

// seen counts one in eight views of an address, as Misra and Gries do: an address with more than
// one in 64 of them is in the end in the table, with a count that is too small by at most that share.
func (v *viewer) seen(addr netip.Addr) {
	if v.sample.Uint64()%sampled != 0 {
		return
	}
	if _, known := v.busiest[addr]; known || len(v.busiest) < addresses {
		v.busiest[addr]++
		return
	}
	for a, n := range v.busiest {
		if v.busiest[a] = n - 1; n == 1 {
			delete(v.busiest, a)
		}
	}
}

// remember returns the value of a key, computed if it is not known.
func remember[V any](known map[string]V, key []byte, compute func(string) V) V {
	v, ok := known[string(key)]
	if !ok {
		if len(known) >= remembered {
			clear(known)
		}
		own := string(key)
		v = compute(own)
		known[own] = v
	}
	return v
}

// view returns the view of a line, or why it is not one.
func (v *viewer) view(l *logs.Line) (view, Reason) {
	v.made = view{}
	out := &v.made
	isEvent := len(l.Reader) > 0
	switch {
	case l.Time < v.from || l.Time >= v.to:
		return *out, Outside
	case !isEvent && string(l.Method) != "GET":
		return *out, Method
	case !isEvent && (l.Status < 200 || l.Status > 299) && l.Status != 304:
		if v.all && (l.Status == http.StatusNotFound || l.Status == http.StatusGone) {
			v.miss(l)
		}
		return *out, Status
	}
	t, why := v.place(l, out)
	if why != "" {
		return *out, why
	}
	var client netip.Addr
	if isEvent {
		why = v.event(l, out)
	} else {
		client, why = v.byClient(l, out, t.markdown)
	}
	if why == "" && !v.all {
		v.hasAccept, v.hasType = v.hasAccept || len(l.Accept) > 0, v.hasType || len(l.Type) > 0
		if v.prefersMarkdown(l) {
			v.negotiated = append(v.negotiated, negotiated{*out, bytes.HasPrefix(l.Type, []byte("text/html"))})
		}
	}
	if why != "" || out.Kind == facts.Neither && !v.all {
		return *out, why
	}
	if out.Page = t.number; out.Page < 0 || v.several {
		var isOther bool
		if out.Page, isOther = v.words.page(pageName{project: out.Project, path: t.page}, client); !isOther {
			t.number = out.Page
			v.targets[string(pathOf(l.Target))] = t
		}
	}
	return *out, ""
}

// place sets the day and project of a line, and returns what it asks for.
func (v *viewer) place(l *logs.Line, out *view) (t target, why Reason) {
	path := pathOf(l.Target)
	if len(path) == 0 || v.assets.have(path) {
		return t, Asset
	}
	t = remember(v.targets, path, func(text string) target {
		page, markdown := pageOf([]byte(text))
		return target{page: page, markdown: markdown, excluded: v.exclude.havePath([]byte(text), page), number: -1}
	})
	project, ok := v.projectOf(l, t.page)
	if !ok {
		return t, Foreign
	}
	if t.excluded {
		return t, Excluded
	}
	out.Day, out.Project = analytics.DateOf(time.Unix(l.Time, 0)), project
	return t, ""
}

// miss keeps a line whose path is not there, if it could be a page's and an agent asked for it: once of
// its reader and once of the reader's network, because what a single network asks for is not shown.
func (v *viewer) miss(l *logs.Line) {
	var out view
	t, why := v.place(l, &out)
	if why != "" || !plainPage(t.page) {
		return
	}
	addr, a, why := v.clientOf(l)
	if why != "" || !guesses(a.agent, v.asksForMarkdown(l, t.markdown)) {
		return
	}
	client, network := networkOf(addr)
	out.Page = v.words.of(pageName{project: out.Project, path: t.page, missed: true},
		inventor{client, facts.EpochOf(out.Day)}, maxMisses, 0)
	if out.Page < 0 {
		return
	}
	out.Agent, out.Kind = a.number, facts.Missed
	its := out
	its.Agent = facts.Network
	largest := network[:len(network)*3/4] // of 4 bytes 3, of 8 bytes 6: a /24, a /48
	if v.reader(&out, network, a.digest[:]) == "" && v.reader(&its, largest, nil) == "" {
		v.missed = append(v.missed, out, its)
	}
}

// guesses reports whether the paths that an agent misses are kept. Scanners call themselves a browser, an
// HTTP library, nothing that is known, or are on the public list of crawlers: of those only the ones that
// ask for Markdown count, and none that calls itself automatic.
func guesses(a *agents.Agent, markdown bool) bool {
	switch {
	case a == nil, a.IsTool():
		return markdown
	case a.Class == agents.Unknown, a.Listed:
		return false
	}
	return true
}

// event completes the view of an event of the sandbox, which says itself whose it is.
func (v *viewer) event(l *logs.Line, out *view) Reason {
	switch string(l.Kind) {
	case "human":
		out.Kind = facts.Human
	case "ai":
		out.Kind = facts.AI
	default:
		return Unparsed
	}
	v.last = v.agentOf(l.UserAgent)
	out.Agent = facts.Browser
	if len(l.UserAgent) > 0 {
		out.Agent = v.last.number
	}
	return v.reader(out, []byte("event"), l.Reader)
}

// byClient completes a view with its reader, and returns the client's address, of IPv6 the network.
func (v *viewer) byClient(l *logs.Line, out *view, markdown bool) (netip.Addr, Reason) {
	addr, a, why := v.clientOf(l)
	if why != "" {
		return addr, why
	}
	switch agents.Audience(a.agent, v.asksForMarkdown(l, markdown)) {
	case analytics.Human:
		out.Kind = facts.Human
	case analytics.AI:
		out.Kind = facts.AI
	default:
		out.Kind = facts.Neither
	}
	if v.byUserAgent {
		v.last = a
	}
	v.seen(addr)
	addr, network := networkOf(addr)
	out.Agent = a.number
	return addr, v.reader(out, network, a.digest[:])
}

// clientOf returns the address and the agent of a line, unless it counts nowhere.
func (v *viewer) clientOf(l *logs.Line) (addr netip.Addr, a knownAgent, why Reason) {
	addr, ok := v.client(l)
	if !ok {
		return addr, a, Client
	}
	a = v.agentOf(l.UserAgent)
	switch {
	case a.excluded || contains(v.exclude.networks, addr):
		return addr, a, Excluded
	case v.ranges.IsSpoofed(a.agent, addr):
		return addr, a, Spoofed
	}
	return addr, a, ""
}

// agentOf returns the agent that a user agent names.
func (v *viewer) agentOf(userAgent []byte) knownAgent {
	return remember(v.clients, userAgent, func(text string) knownAgent {
		known := knownAgent{text: text, agent: v.agents.Match(text), number: facts.Browser,
			digest: sha256.Sum256([]byte(text))}
		if known.agent != nil {
			known.number = v.words.agents.of(agentName{known.agent.Token, known.agent.Class, known.agent.Hosted}, nil)
		}
		for _, part := range v.exclude.userAgents {
			known.excluded = known.excluded || strings.Contains(strings.ToLower(text), part)
		}
		return known
	})
}

// asksForMarkdown reports whether a line does, by its path or otherwise.
func (v *viewer) asksForMarkdown(l *logs.Line, byPath bool) bool {
	return byPath || string(l.Event) == "docs.content.md.view" || v.prefersMarkdown(l)
}

func (v *viewer) prefersMarkdown(l *logs.Line) bool {
	return len(l.Accept) > 0 && remember(v.accepts, l.Accept, prefersMarkdown)
}

// networkOf returns what of an address is a client's, as an address and as bytes: of IPv6 a whole /64.
func networkOf(addr netip.Addr) (client netip.Addr, bytes []byte) {
	bits := addr.As16()
	if addr.Is4() {
		return addr, bits[12:]
	}
	return netip.AddrFrom16([16]byte(append(bits[:8:8], make([]byte, 8)...))), bits[:8]
}

// projectOf returns the number of the project of a line.
func (v *viewer) projectOf(l *logs.Line, page string) (int32, bool) {
	if v.fixed >= 0 {
		return v.fixed, true
	}
	if len(v.projects) == 0 {
		return 0, true
	}
	if len(l.Project) > 0 {
		number, ok := v.numbers[string(l.Project)]
		return number, ok
	}
	name := l.Host // a Host header, which may have a port
	if at := bytes.LastIndexByte(name, ':'); at >= 0 && bytes.IndexByte(name[at:], ']') < 0 {
		name = name[:at]
	}
	name = bytes.TrimSuffix(name, []byte("."))
	hosts, ok := v.hosts[string(name)]
	if !ok {
		hosts = v.hosts[strings.ToLower(string(name))]
	}
	for _, h := range hosts {
		under, ok := strings.CutPrefix(page, h.prefix)
		if ok && (under == "" || under[0] == '/' || h.prefix == "") {
			return h.number, true
		}
	}
	return 0, false
}

// client returns the address of the reader: behind a proxy of the site's own, the right-most of
// X-Forwarded-For that is not one of them.
func (v *viewer) client(l *logs.Line) (netip.Addr, bool) {
	addr, ok := parseAddr(l.Client)
	if len(l.Client) > 0 && (!ok || !contains(v.proxies, addr)) {
		return addr, ok
	}
	for rest := l.Forwarded; len(rest) > 0; {
		at := bytes.LastIndexByte(rest, ',')
		hop, ok := parseAddr(bytes.TrimSpace(rest[at+1:]))
		if !ok {
			return hop, false
		}
		if addr = hop; !contains(v.proxies, addr) {
			return addr, true
		}
		rest = rest[:max(at, 0)]
	}
	return addr, addr.IsValid()
}

// parseAddr reads an address, which may have a port, as some proxies write it.
func parseAddr(text []byte) (netip.Addr, bool) {
	if addr, ok := parseIPv4(text); ok {
		return addr, true
	}
	if len(text) > 64 {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(string(text))
	if err != nil {
		var with netip.AddrPort
		with, err = netip.ParseAddrPort(string(text))
		addr = with.Addr()
	}
	return addr.Unmap().WithZone(""), err == nil
}

// parseIPv4 reads four numbers: most addresses are that, and it needs no memory.
func parseIPv4(text []byte) (netip.Addr, bool) {
	var four [4]byte
	i, digits, n := 0, 0, 0
	for _, c := range text {
		switch {
		case c >= '0' && c <= '9' && digits < 3 && (digits != 1 || n != 0):
			n, digits = n*10+int(c-'0'), digits+1
		case c == '.' && digits > 0 && i < 3 && n < 256:
			four[i] = byte(n)
			i, digits, n = i+1, 0, 0
		default:
			return netip.Addr{}, false
		}
	}
	if i != 3 || digits == 0 || n > 255 {
		return netip.Addr{}, false
	}
	four[3] = byte(n)
	return netip.AddrFrom4(four), true
}

// reader sets the reader of a view: a client's network and the digest of its user agent, which is known
// and shorter; or a network alone.
func (v *viewer) reader(out *view, network, who []byte) Reason {
	v.scratch = append(append(append(v.scratch[:0], byte(len(network))), network...), who...)
	return v.identify(out, v.scratch)
}

// once identifies readers under one key.
func once(secret []byte) func(*view, []byte) Reason {
	mac := hmac.New(sha256.New, secret)
	var sum []byte
	return func(out *view, who []byte) Reason {
		mac.Reset()
		mac.Write(who)
		sum = mac.Sum(sum[:0])
		out.Readers = [2]uint64{binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(sum[8:])}
		return ""
	}
}
