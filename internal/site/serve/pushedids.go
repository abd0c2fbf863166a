package serve

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/site/facts"
)

const (
	// rememberPushed is the time for which a body, or a request, that is sent again counts once.
	rememberPushed = 24 * time.Hour
	// maxPushed bounds the ids that are known: some 64 MiB.
	maxPushed = 1 << 21
	// A generation has the ids of generationTime, and generationSize at most, and the ids of one commit more.
	generationTime = time.Hour
	generationSize = maxPushed / 16
)

// pushedIDs are the ids of what was pushed in the last day: bodies and, where the host names them, requests. They become
// durable with the facts of their lines, so that what is sent again counts once, whatever happens between. They are
// MACs, and are forgotten after rememberPushed, or at the bound the oldest first.
type pushedIDs struct {
	hash facts.Hash
	// total is how many are known, dropped how many were forgotten before their time.
	total, dropped *atomic.Int64

	mu          sync.Mutex
	known       map[uint64]int64 // the generation of each
	generations []generation     // the oldest first; the last one gets the next ids
	fresh       []uint64         // that are not durable
	forgotten   int64            // the last generation that is to be removed; 0: none
}

// generation are ids that are forgotten together.
type generation struct {
	number      int64
	first, last time.Time
	n           int
}

// newPushedIDs returns the ids that are durable.
func (s *session) newPushedIDs(ctx context.Context) (*pushedIDs, error) {
	p := &pushedIDs{known: map[uint64]int64{}, total: &s.idsKnown, dropped: &s.idsDropped}
	var err error
	if p.hash, err = s.store.PushKey(ctx); err != nil {
		return nil, err
	}
	err = s.store.EachPushed(ctx, func(some facts.Pushed) {
		if n := len(p.generations); n == 0 || p.generations[n-1].number != some.Generation {
			p.generations = append(p.generations, generation{number: some.Generation, first: some.At})
		}
		g := &p.generations[len(p.generations)-1]
		g.last, g.n = some.At, g.n+len(some.IDs)
		for _, id := range some.IDs {
			p.known[id] = some.Generation
		}
	})
	p.total.Store(int64(len(p.known)))
	return p, err
}

// What has an id.
const (
	viewID byte = iota
	missID
	bodyID
)

// id returns the id of something that was pushed to a source.
func (p *pushedIDs) id(source string, kind byte, what []byte) uint64 {
	text := append(append(make([]byte, 0, 128), source...), 0, kind)
	return p.hash.ID(append(text, what...))
}

// has reports whether an id is known.
func (p *pushedIDs) has(id uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.known[id]
	return ok
}

// add adds an id to the batch, and reports whether it is new.
func (p *pushedIDs) add(id uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.known[id]; ok {
		return false
	}
	g := &p.generations[len(p.generations)-1]
	g.n++
	p.known[id], p.fresh = g.number, append(p.fresh, id)
	return true
}

// rotate begins a generation when it is due, and forgets the ids whose time is over, unless the clock may be wrong, and
// the oldest of too many. It reports whether some were forgotten.
func (p *pushedIDs) rotate(now time.Time, clockHeld bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.generations) - 1
	switch {
	case last < 0:
		p.generations = []generation{{number: 1, first: now, last: now}}
	case p.generations[last].n == 0:
		p.generations[last].first, p.generations[last].last = now, now
	case p.generations[last].n >= generationSize || now.Sub(p.generations[last].first) >= generationTime:
		p.generations = append(p.generations, generation{p.generations[last].number + 1, now, now, 0})
	}
	total, gone := len(p.known), int64(0)
	for len(p.generations) > 1 {
		g := p.generations[0]
		isOver := !clockHeld && now.Sub(g.last) >= rememberPushed
		if !isOver && total <= maxPushed {
			break
		}
		if !isOver {
			p.dropped.Add(int64(g.n))
		}
		total, gone, p.generations = total-g.n, g.number, p.generations[1:]
	}
	if gone > 0 {
		p.forgotten = gone
		maps.DeleteFunc(p.known, func(_ uint64, of int64) bool { return of <= gone })
	}
	return gone > 0
}

// addTo adds what has changed to a batch.
func (p *pushedIDs) addTo(b *facts.Batch, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.Forgotten = p.forgotten
	if len(p.fresh) > 0 {
		g := &p.generations[len(p.generations)-1]
		g.last = now
		b.Pushed = facts.Pushed{Generation: g.number, At: now, IDs: p.fresh}
	}
}

// kept says that the batch is durable.
func (p *pushedIDs) kept() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh, p.forgotten = p.fresh[:0], 0
	p.total.Store(int64(len(p.known)))
}
