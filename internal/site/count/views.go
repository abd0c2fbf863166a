// Package count makes views of the lines of access logs, and counts the readers of any documentation
// site: people and AI apart, exact for every span of days.
//
// A view is a page that a client got; a reader is one client's address and user agent. Neither
// stays: an address is hashed with a key that nothing keeps before anything is counted.
package count

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"hash/fnv"
	"hash/maphash"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// Reason is why a line is not a view.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	Unparsed Reason = "unparsed" // not of the log's format, or too long
	Outside  Reason = "outside"  // not in the requested days
	Method   Reason = "method"   // not GET
	Status   Reason = "status"   // neither 2xx nor 304
	Prefetch Reason = "prefetch" // fetched in advance, or may be
	Asset    Reason = "asset"    // an image, a style, a script; not a page
	Foreign  Reason = "project"  // another host or path than the projects have
	Client   Reason = "client"   // without an address
	Excluded Reason = "excluded" // DOCGAUGE_SITE_EXCLUDE
	Spoofed  Reason = "spoofed"  // claims to be an agent that its address is not
	Late     Reason = "late"     // the keys of its month have been destroyed
	Again    Reason = "again"    // of a request of which another line was counted
)

// view is one page that one reader got. Where logs are counted once, Readers is the beginning of one hash.
type view = facts.View

// Viewer makes views of lines, for one goroutine. It caches what repeats: targets, user agents and Accept headers.
type Viewer struct {
	*Rules
	words *Vocabulary
	// Identify sets the reader of a view whose day and project are known, from what tells readers apart.
	Identify func(out *view, who []byte) Reason
	From, To int64 // Unix seconds
	// ShownFrom is the time from which on lines before From are evidence that their clients are browsers.
	ShownFrom int64
	// Fixed is the project of all lines; -1: each line says its project. Several says that a site has more projects.
	Fixed   int32
	Several bool
	// All includes views by agents that are not readers, and missed and redirected paths.
	All bool
	// Repeats says which views are compared with the views of other logs; nil: none.
	Repeats *Repeats
	// Pushed reports whether a request, by the id that its host gives it, is new, where lines are pushed; nil for other
	// lines: only ids of which several lines are in one log count.
	Pushed func(id []byte, missed bool) (isNew bool)
	// Sources says that views by people have the source that they come from.
	Sources bool
	// missed has the missed and redirected paths since the last batch, shown the evidence.
	missed []view
	shown  []facts.Shown
	seen   *seen
	// proofs has the kind of each evidence, of which byProof wants all kinds, on any day.
	proofs  []proof
	byProof bool
	shownIn []int32 // the projects of the present line
	// negotiated has, unless All is set, the views since the last batch whose Accept prefers Markdown.
	negotiated []negotiated
	// hasAccept and hasType: a line has the header Accept, and the Content-Type of the response.
	hasAccept, hasType bool

	// Future is the time, in Unix seconds, from which on a line's own time must be wrong.
	Future int64
	// tally has the lines since the last batch.
	tally Tally

	// byUserAgent keeps the client of the present line in last.
	byUserAgent bool
	last        *matchedAgent

	targets   cache[*target]
	clients   cache[*matchedAgent]
	accepts   cache[bool]
	types     cache[string]
	referrers cache[agents.Referrer]
	sources   []int32  // the numbers of sources by their index; -1: not yet known
	linking   Linking  // of the first views by people, where no setting names the site's hosts
	visits    int      // how many these are
	current   view     // of the present line; a local variable would be on the heap
	page      uint64   // the hash of its page
	proxied   bool     // the client of the present line is known by its proxies
	busiest   *busiest // nil where no report is made
	crowd     *crowd
	scratch   []byte
}

type target struct {
	page     string
	markdown bool
	asset    bool
	excluded bool
	number   int32  // of the page in the only project, -1 if not yet known
	hash     uint64 // of the page
}

// proofTarget stands for all targets that browsers fetch by themselves to show a page.
var proofTarget = &target{asset: true}

type matchedAgent struct {
	text     string // the user agent up to maxUserAgent, if these are counted
	agent    *agents.Agent
	number   int32
	excluded bool
	digest   [sha256.Size]byte // of the user agent
}

// maxCached bounds each cache of a viewer: clients invent what they like.
const maxCached = 1 << 15

// cache keeps values by a seeded hash of what they follow from. Two texts with one hash are as rare as two readers with
// one id, and nobody can make them without the seed.
type cache[V any] map[uint64]V

// NewViewer returns a viewer of the lines from a time on and before another, in Unix seconds.
func NewViewer(r *Rules, words *Vocabulary, from, to int64) *Viewer {
	return &Viewer{Rules: r, words: words, From: from, To: to, ShownFrom: from, Fixed: -1, Several: len(r.projects) > 0,
		Future:  math.MaxInt64,
		targets: cache[*target]{}, clients: cache[*matchedAgent]{}, accepts: cache[bool]{},
		types: cache[string]{}, referrers: cache[agents.Referrer]{},
		crowd: &crowd{}, seen: newSeen(), sources: slices.Repeat([]int32{-1}, len(agents.Sources())), linking: Linking{}}
}

// get returns the value of a text, which it computes if it lacks it.
func (c cache[V]) get(text []byte, compute func(string) V) V {
	hash := maphash.Bytes(seed, text)
	v, ok := c[hash]
	if !ok {
		if len(c) >= maxCached {
			clear(c)
		}
		v = compute(string(text))
		c[hash] = v
	}
	return v
}

// view sets current to the view of a line, or returns why it is not one.
func (v *Viewer) view(l *logs.Line) Reason {
	v.current = newView(l)
	out := &v.current
	isEvent := len(l.Reader) > 0
	switch {
	case l.Time < v.From || l.Time >= v.To:
		if l.Time >= v.ShownFrom && l.Time < v.From {
			v.showBefore(l, out)
		}
		return Outside
	case !isEvent && string(l.Method) != "GET":
		return Method
	case !isEvent && !answered(l):
		if v.All {
			switch l.Status {
			case http.StatusNotFound, http.StatusGone:
				if !v.isAgain(l, true) {
					v.miss(l, facts.Missed)
				}
			case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
				if !v.isAgain(l, true) {
					v.miss(l, facts.Redirected)
				}
			}
		}
		return Status
	}
	t, why := v.locate(l, out)
	if why != "" {
		if t == proofTarget {
			v.showAsset(l)
		}
		return why
	}
	if v.isAgain(l, false) {
		return Again
	}
	v.page = t.hash
	var client netip.Addr
	if isEvent {
		why = v.event(l, out)
	} else {
		client, why = v.byClient(l, out, t.markdown)
	}
	if why == "" && !v.All {
		v.hasAccept, v.hasType = v.hasAccept || len(l.Accept) > 0, v.hasType || len(l.Type) > 0
		if v.prefersMarkdown(l) {
			v.negotiated = append(v.negotiated, negotiated{*out, bytes.HasPrefix(l.Type, []byte("text/html"))})
		}
	}
	if why != "" || out.Kind == facts.Neither && !v.All {
		return why
	}
	if out.Page = t.number; out.Page < 0 || v.Several {
		var isOther bool
		if out.Page, isOther = v.words.page(pageName{project: out.Project, path: t.page}, client); !isOther {
			t.number = out.Page
		}
	}
	return ""
}

// hashOf is the same in each run.
func hashOf(page string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(page)) // never fails
	return h.Sum64()
}

// newView returns a view with what a line says by itself.
func newView(l *logs.Line) view {
	out := view{Referral: facts.NoReferral, Bytes: facts.Unsaid}
	if l.HasBytes {
		out.Bytes = l.Bytes
	}
	return out
}

// answered reports whether the client got what it asked for, or has it.
func answered(l *logs.Line) bool {
	return l.Status >= 200 && l.Status <= 299 || l.Status == http.StatusNotModified
}

// isAgain reports whether a line is of a request of which another line was counted, as a view or as missed.
func (v *Viewer) isAgain(l *logs.Line, missed bool) bool {
	switch {
	case v.Pushed != nil:
		return len(l.ID) > 0 && !v.Pushed(l.ID, missed)
	case len(l.RequestID) == 0:
		return false
	}
	return !v.words.requests.add(requestID{maphash.Bytes(seed, l.RequestID), missed})
}

// locate sets the day and project of a line, and returns its target.
func (v *Viewer) locate(l *logs.Line, out *view) (t *target, why Reason) {
	path := pathOf(l.Target)
	path, isPayload := pageOfPayload(l.Target, path)
	switch {
	case isPayload && (len(path) == 0 || l.Prefetch || !l.Script):
		return nil, Prefetch
	case len(path) == 0:
		return nil, Asset
	}
	switch v.assets.kindOf(path) {
	case isAsset:
		return nil, Asset
	case isProof:
		return proofTarget, Asset
	}
	if l.Prefetch {
		return nil, Prefetch
	}
	t = v.targets.get(path, func(text string) *target {
		page, markdown := pageOf([]byte(text))
		if folder, isReadme := strings.CutSuffix(page, "/README"); v.fetches && markdown && isReadme {
			page = cmp.Or(folder, "/")
		}
		return &target{page: page, markdown: markdown, hash: hashOf(page),
			asset: v.assets.haveFolder(text), excluded: v.exclude.havePath([]byte(text), page), number: -1}
	})
	if t.asset {
		return t, Asset
	}
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

// miss records a line with a path that is missed or redirected, if the path could name a page and an agent asked for
// it: once for the reader and once for the reader's network, because a path that a single network asks for is not shown.
func (v *Viewer) miss(l *logs.Line, kind uint8) {
	out := newView(l)
	t, why := v.locate(l, &out)
	if why != "" || !plainPage(t.page) {
		return
	}
	addr, a, why := v.clientOf(l)
	if why != "" || !guesses(a.agent, v.asksForMarkdown(l, a.agent, t.markdown)) {
		return
	}
	client, network := networkOf(addr)
	most := maxMisses
	if kind == facts.Redirected {
		if v.words.has(pageName{project: out.Project, path: t.page}) {
			return // a slash at its end or another scheme
		}
		most /= 2 // a server that redirects everything must not hide what is missed
	}
	out.Page = v.words.admit(pageName{project: out.Project, path: t.page, missed: true},
		inventor{client, facts.EpochOf(out.Day)}, most, 0)
	if out.Page < 0 {
		return
	}
	out.Agent, out.Kind = a.number, kind
	byNetwork := out
	byNetwork.Agent = facts.Network
	largest := network[:len(network)*3/4] // of 4 bytes 3, of 8 bytes 6: a /24, a /48
	if v.reader(&out, network, a.digest[:]) == "" && v.reader(&byNetwork, largest, nil) == "" {
		v.missed = append(v.missed, out, byNetwork)
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

// event completes the view of an event of the sandbox, which names its reader.
func (v *Viewer) event(l *logs.Line, out *view) Reason {
	switch string(l.Kind) {
	case "human":
		out.Kind = facts.Human
	case "ai":
		out.Kind = facts.AI
	default:
		return Unparsed
	}
	v.last = v.agentOf(l.UserAgent)
	out.Agent, out.Markdown = facts.Browser, l.Markdown
	if len(l.UserAgent) > 0 {
		out.Agent = v.last.number
	}
	if v.Sources && out.Kind == facts.Human {
		out.Referral = v.source(l)
	}
	why := v.reader(out, []byte("event"), l.Reader)
	if l.Shown {
		v.tally.assets++
	}
	if why == "" && l.Shown && v.isNew(l, byAsset) {
		v.shown = append(v.shown, facts.Shown{Readers: out.Readers, Day: out.Day, Project: out.Project})
		v.proofs = append(v.proofs, byAsset)
	}
	return why
}

// byClient completes a view with its reader, and returns the client's address, or network of IPv6.
func (v *Viewer) byClient(l *logs.Line, out *view, markdown bool) (netip.Addr, Reason) {
	addr, a, why := v.clientOf(l)
	if why != "" {
		return addr, why
	}
	asks := v.asksForMarkdown(l, a.agent, markdown)
	out.Markdown = v.isMarkdown(l, a.agent, asks, markdown)
	switch agents.Audience(a.agent, asks) {
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
	if v.busiest != nil {
		v.busiest.add(addr)
	}
	if a.agent == nil {
		v.crowd.add(addr, a.digest[0])
	}
	if v.Sources && out.Kind == facts.Human {
		out.Referral = v.source(l)
	}
	client, network := networkOf(addr)
	out.Agent = a.number
	if l.Status == http.StatusNotModified && !v.proxied {
		v.tally.notModified++
	}
	if why = v.reader(out, network, a.digest[:]); why == "" && a.agent == nil {
		v.showPage(l, out, addr, a)
	}
	return client, why
}

// maxVisits is the number of views by people whose referrers a viewer searches for the host of the site.
const maxVisits = 10_000

// source returns the number of the source of a visit.
func (v *Viewer) source(l *logs.Line) int32 {
	s := v.referrers.get(l.Referrer, func(text string) agents.Referrer {
		return agents.ReferrerOf([]byte(text), v.own)
	}).SourceOf(l.Target, l.Host)
	if len(l.Host) == 0 && len(v.own) == 0 && v.visits < maxVisits {
		if v.visits++; s == agents.OtherSource {
			v.linking.add(l.Referrer)
		}
	}
	number := &v.sources[s.Index]
	if *number < 0 {
		*number = v.words.sources.number(sourceName{s.Name, s.Class}, nil)
	}
	return *number
}

// isMarkdown reports whether an answer is Markdown: by its Content-Type if that says so, else if the client asks for
// it. A server may name another type for a file of Markdown.
func (v *Viewer) isMarkdown(l *logs.Line, a *agents.Agent, asks, byPath bool) bool {
	if len(l.Type) == 0 {
		return asks
	}
	switch v.types.get(l.Type, mediaType) {
	case "":
		return asks
	case "text/html", "application/xhtml+xml":
		return false
	case "text/markdown", "text/x-markdown":
		return asks || a != nil || !v.fetches
	}
	return asks && byPath
}

// mediaType returns the media type of a Content-Type.
func mediaType(text string) string {
	media, _, _ := strings.Cut(text, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// clientOf returns the address and the agent of a line, unless it counts nowhere.
func (v *Viewer) clientOf(l *logs.Line) (addr netip.Addr, a *matchedAgent, why Reason) {
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
func (v *Viewer) agentOf(userAgent []byte) *matchedAgent {
	return v.clients.get(userAgent, func(text string) *matchedAgent {
		a := &matchedAgent{agent: v.agents.Match(text), number: facts.Browser, digest: sha256.Sum256([]byte(text))}
		if v.byUserAgent {
			a.text = strings.Clone(format.Cut(text, maxUserAgent))
		}
		if a.agent != nil {
			a.number = v.words.agents.number(agentName{a.agent.Token, a.agent.Class, a.agent.Hosted}, nil)
		}
		for _, part := range v.exclude.userAgents {
			a.excluded = a.excluded || strings.Contains(strings.ToLower(text), part)
		}
		return a
	})
}

// asksForMarkdown reports whether a line asks for Markdown, by its path or otherwise. The path does not count if the
// site's own script fetches Markdown and the client is a browser.
func (v *Viewer) asksForMarkdown(l *logs.Line, a *agents.Agent, byPath bool) bool {
	return byPath && (!v.fetches || a != nil) || string(l.Event) == "docs.content.md.view" || v.prefersMarkdown(l)
}

func (v *Viewer) prefersMarkdown(l *logs.Line) bool {
	return len(l.Accept) > 0 && v.accepts.get(l.Accept, prefersMarkdown)
}

// projectOf returns the number of the project of a line.
func (v *Viewer) projectOf(l *logs.Line, page string) (int32, bool) {
	if v.Fixed >= 0 {
		return v.Fixed, true
	}
	if len(v.projects) == 0 {
		return 0, true
	}
	if len(l.Project) > 0 {
		number, ok := v.numbers[string(l.Project)]
		return number, ok
	}
	for _, h := range v.hostsOf(l.Host) {
		under, ok := strings.CutPrefix(page, h.prefix)
		if ok && (under == "" || under[0] == '/' || h.prefix == "") {
			return h.number, true
		}
	}
	return 0, false
}

// hostsOf returns the projects with a name, which is a Host header and may have a port.
func (v *Viewer) hostsOf(name []byte) []host {
	if at := bytes.LastIndexByte(name, ':'); at >= 0 && bytes.IndexByte(name[at:], ']') < 0 {
		name = name[:at]
	}
	name = bytes.TrimSuffix(name, []byte("."))
	hosts, ok := v.hosts[string(name)]
	if !ok {
		hosts = v.hosts[strings.ToLower(string(name))]
	}
	return hosts
}

// client returns the address of the reader: behind a proxy of the site's own, the right-most of
// X-Forwarded-For that is not one of them; else the one that the server has established.
func (v *Viewer) client(l *logs.Line) (netip.Addr, bool) {
	v.proxied = false
	peer, established := l.Peer, l.Client
	if len(peer) == 0 {
		peer = established
	}
	if len(established) == 0 {
		established = peer
	}
	if len(l.Forwarded) > 0 {
		if addr, ok := v.rightmost(peer); len(peer) == 0 || ok && contains(v.proxies, addr) {
			v.proxied = true
			return v.rightmost(l.Forwarded)
		}
	}
	v.proxied = bytes.IndexByte(established, ',') >= 0
	return v.rightmost(established)
}

// rightmost returns the last address in a list that is not of a proxy; the first if all are.
func (v *Viewer) rightmost(list []byte) (addr netip.Addr, ok bool) {
	for len(list) > 0 {
		at := bytes.LastIndexByte(list, ',')
		if addr, ok = parseAddr(bytes.TrimSpace(list[at+1:])); !ok || !contains(v.proxies, addr) {
			break
		}
		list = list[:max(at, 0)]
	}
	return addr, ok
}

// reader sets the reader of a view: a client's network and the digest of its user agent, which is known
// and shorter; or a network alone.
func (v *Viewer) reader(out *view, network, who []byte) Reason {
	v.scratch = append(append(append(v.scratch[:0], byte(len(network))), network...), who...)
	return v.Identify(out, v.scratch)
}

// negotiated is a view whose Accept prefers Markdown, and whether the answer was HTML.
type negotiated struct {
	view view
	html bool
}
