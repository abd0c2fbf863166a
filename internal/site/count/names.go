package count

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"sync"

	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/facts"
)

const (
	// maxPages bounds the pages of a site: a server that answers every path lets anybody invent them.
	maxPages = 100_000
	// maxInvented is the number of new pages that a client may read once half of maxPages are taken.
	maxInvented = 1000
	// maxMisses is the number of missed paths that can be new in a month, of which a client can invent maxInvented.
	maxMisses = 10_000
)

// names numbers names in the order in which they came. It may be used by several goroutines.
type names[K comparable] struct {
	mu      sync.Mutex
	numbers map[K]int32
	all     []K
}

// number returns the number of a name, or -1 if the name is new and admit refuses it. admit is called by one goroutine
// at a time; nil admits every name.
func (n *names[K]) number(name K, admit func() bool) int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i, ok := n.numbers[name]; ok {
		return i
	}
	if admit != nil && !admit() {
		return -1
	}
	n.add(name)
	return int32(len(n.all)) - 1
}

// add gives a name the next number.
func (n *names[K]) add(name K) {
	if n.numbers == nil {
		n.numbers = map[K]int32{}
	}
	n.numbers[name], n.all = int32(len(n.all)), append(n.all, name)
}

// pageName names a page of a project, or a missed path.
type pageName struct {
	project int32
	path    string
	missed  bool
}

// agentName names an agent as the table had it when a view was read.
type agentName struct {
	token  string
	class  agents.Class
	hosted bool
}

// sourceName names a source of visits as the table had it when a view was read.
type sourceName struct{ name, class string }

// Vocabulary numbers the pages, agents and sources of visits in the views of all logs.
type Vocabulary struct {
	pages   names[pageName]
	agents  names[agentName]
	sources names[sourceName]
	// missed is the month of the first request for a missed path, by number. Clients can invent such paths
	// for ever, so each month has a bound.
	missed map[int32]facts.Epoch
	// admitted counts the pages, at 0, and the missed paths of each month.
	admitted map[facts.Epoch]int
	// requests are the requests of which a line was counted, where several can be of one.
	requests requests
	// invented counts new paths per client and month; the month of pages is 0.
	invented map[inventor]int
}

// requestID is the hash of a request's id; a request is a view, or missed a path.
type requestID struct {
	hash   uint64
	missed bool
}

// seed is the seed of hashes that only this process knows.
var seed = maphash.MakeSeed()

// maxRequests is the number of requests that are known at least: the lines of one come within some seconds.
const maxRequests = 1 << 16

// requests are the last requests. They may be used by several goroutines.
type requests struct {
	mu             sync.Mutex
	recent, before map[requestID]bool
}

// add adds a request, and reports whether it is new.
func (r *requests) add(id requestID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recent[id] || r.before[id] {
		return false
	}
	if len(r.recent) == maxRequests {
		r.before, r.recent = r.recent, nil
	}
	if r.recent == nil {
		r.recent = map[requestID]bool{}
	}
	r.recent[id] = true
	return true
}

type inventor struct {
	client netip.Addr
	month  facts.Epoch
}

// NewVocabulary returns an empty vocabulary.
func NewVocabulary() *Vocabulary {
	return &Vocabulary{missed: map[int32]facts.Epoch{}, admitted: map[facts.Epoch]int{}, invented: map[inventor]int{}}
}

// Restore adds the names that an earlier process has numbered, in this order.
func (w *Vocabulary) Restore(pages []facts.Page, known []facts.Agent, sources []facts.Referral, projects []string) {
	for _, p := range pages {
		w.count(p.Missed)
		// The project is -1 if the settings no longer name it.
		w.pages.add(pageName{int32(slices.Index(projects, p.Project)), p.Path, p.Missed != 0})
	}
	for _, a := range known {
		w.agents.add(agentName{a.Token, agents.Class(a.Class), a.Hosted})
	}
	for _, r := range sources {
		w.sources.add(sourceName{r.Name, r.Class})
	}
}

// After returns the names that follow the first so many pages, agents and sources.
func (w *Vocabulary) After(
	pages, agents, sources int, projects []string,
) (p []facts.Page, a []facts.Agent, r []facts.Referral) {
	w.pages.mu.Lock() // and with it missed
	defer w.pages.mu.Unlock()
	for i, name := range w.pages.all[pages:] {
		number := int32(pages + i)
		p = append(p, facts.Page{Number: number, Project: projects[name.project], Path: name.path,
			Missed: w.missed[number]})
	}
	w.agents.mu.Lock()
	defer w.agents.mu.Unlock()
	for i, name := range w.agents.all[agents:] {
		a = append(a, facts.Agent{Number: int32(agents + i), Token: name.token, Class: string(name.class),
			Hosted: name.hosted})
	}
	w.sources.mu.Lock()
	defer w.sources.mu.Unlock()
	for i, name := range w.sources.all[sources:] {
		r = append(r, facts.Referral{Number: int32(sources + i), Name: name.name, Class: name.class})
	}
	return p, a, r
}

// count counts the name that is added next: a path missed in a month, or a page at 0.
func (w *Vocabulary) count(missed facts.Epoch) {
	w.admitted[missed]++
	if missed != 0 {
		w.missed[int32(len(w.pages.all))] = missed
	}
}

// has reports whether a name has a number.
func (w *Vocabulary) has(p pageName) bool {
	w.pages.mu.Lock()
	defer w.pages.mu.Unlock()
	_, ok := w.pages.numbers[p]
	return ok
}

// page returns the number of a page that a client reads. isOther: the number is for [otherPages],
// because the page is new and there are too many pages, or the client has read too many new
// pages. So a client that invents paths does not use up the pages of others, and memory has a bound.
func (w *Vocabulary) page(p pageName, client netip.Addr) (number int32, isOther bool) {
	number = w.admit(p, inventor{client: client}, maxPages, maxPages/2)
	if number >= 0 {
		return number, false
	}
	return w.pages.number(pageName{project: p.project, path: otherPages}, nil), true
}

// admit returns the number of a name; -1 for a new one if there are most of them, or if there are more than free and
// the client has invented too many.
func (w *Vocabulary) admit(p pageName, by inventor, most, free int) int32 {
	return w.pages.number(p, func() bool {
		n := w.admitted[by.month]
		if n >= most || n >= free && w.invented[by] >= maxInvented {
			return false
		}
		w.count(by.month)
		if by.client.IsValid() { // else the lines are events, which only the operator writes
			w.invented[by]++
		}
		return true
	})
}
