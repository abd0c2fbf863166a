package count

import (
	"math"
	"math/bits"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// maxShards bounds the shards: each has a list of readers for every page.
const maxShards = 16

// shard counts the readers whose ids begin with the same bits. The sums of all shards do not depend on their number.
type shard struct {
	mu      sync.Mutex // of what follows
	numbers readerNumbers
	readers []reader // by number
	pages   facts.Parts
	days    facts.Parts
	dates   []analytics.Date // by part of days
	dateOf  map[analytics.Date]int
	agents  []agentSums // by number of the agent
	unnamed sums
	visits  visits
	// markdown counts the views by people that were answered as Markdown, by reader: there are few.
	markdown           map[uint32]int
	views, ai, foreign int
	from, to           analytics.Date
}

// reader is a reader of a shard.
type reader struct {
	bytes    int64  // of the views by a person
	requests uint32 // views by a person
	is       proof  // its proofs, and what follows
}

// What a reader is, beside its proofs.
const (
	isHuman   = 0x08 // it has a view that counts as human
	isAI      = 0x10 // it has a view that counts as AI
	isViewer  = 0x20 // it has a view
	isPerson  = 0x40 // it has a view by a browser that counts as human
	isUnnamed = 0x80 // it has a view of Markdown by what calls itself a browser
)

// agentSums has the clients of an agent.
type agentSums struct {
	visitors int
	sums
}

// newShards returns as many shards as workers do not wait for long: a power of two.
func newShards(workers int) []shard {
	all := make([]shard, min(maxShards, 2<<bits.Len(uint(workers-1))))
	for i := range all {
		s := &all[i]
		s.dateOf, s.markdown, s.from, s.to = map[analytics.Date]int{}, map[uint32]int{}, math.MaxInt32, math.MinInt32
	}
	return all
}

// count counts the views of a batch, shard by shard.
func (c *counting) count(b *Batch) {
	views, viewEnds := c.byShard(b.views, len(b.Views), func(i int) uint64 { return b.Views[i].Readers[0] })
	shown, shownEnds := c.byShard(b.shownBy, len(b.Shown), func(i int) uint64 { return b.Shown[i].Readers[0] })
	b.views, b.shownBy = views, shown
	first := int(c.turn.Add(1))
	for i := range c.shards {
		at := (first + i) % len(c.shards)
		c.countIn(&c.shards[at], b, views[viewEnds[at]:viewEnds[at+1]], shown[shownEnds[at]:shownEnds[at+1]])
	}
}

// byShard returns the places of n values in the order of the shards of their readers, in the memory of places, and where
// the places of each shard begin.
func (c *counting) byShard(places []int32, n int, id func(i int) uint64) (sorted []int32, begin [maxShards + 1]int) {
	shift := 64 - bits.TrailingZeros(uint(len(c.shards)))
	for i := range n {
		begin[id(i)>>shift+1]++
	}
	for i := range maxShards {
		begin[i+1] += begin[i]
	}
	if cap(places) < n {
		places = make([]int32, n)
	}
	sorted = places[:n]
	next := begin
	for i := range n {
		at := &next[id(i)>>shift]
		sorted[*at] = int32(i)
		*at++
	}
	return sorted, begin
}

// countIn counts views and evidence of a batch, by their places, in their shard.
func (c *counting) countIn(s *shard, b *Batch, views, shown []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range views {
		v := &b.Views[i]
		if v.Project != c.project {
			s.foreign++
			continue
		}
		s.views++
		s.from, s.to = min(s.from, v.Day), max(s.to, v.Day+1)
		number := s.number(v.Readers[0])
		r := &s.readers[number]
		known := r.is&isViewer != 0
		r.is |= isViewer
		if b.clients != nil {
			c.userAgents.add(b.clients[i].text, b.clients[i].agent, !known)
		}
		switch {
		case v.Agent >= 0:
			for int(v.Agent) >= len(s.agents) {
				s.agents = append(s.agents, agentSums{})
			}
			s.agents[v.Agent].add(sumsOf(v))
			if !known { // a reader has one user agent
				s.agents[v.Agent].visitors++
			}
		case v.Kind == facts.Human:
			r.is |= isPerson
			r.requests++
			r.bytes = addBytes(r.bytes, v.Bytes)
			if v.Markdown {
				s.markdown[number]++
			}
			if c.BySource {
				s.visits.add(number, v.Referral)
			}
		default:
			r.is |= isUnnamed
			s.unnamed.add(sumsOf(v))
		}
		switch v.Kind {
		case facts.Neither:
			continue
		case facts.AI:
			r.is |= isAI
			s.ai++
		default:
			r.is |= isHuman
		}
		who := number<<1 | uint32(v.Kind)
		s.pages.Add(who, int(v.Page))
		if c.ByDay {
			s.addDay(who, v.Day)
		}
	}
	for _, i := range shown {
		if b.Shown[i].Project == c.project {
			s.readers[s.number(b.Shown[i].Readers[0])].is |= b.proofs[i]
		}
	}
}

// number returns the number of a reader.
func (s *shard) number(id uint64) uint32 {
	number, isNew := s.numbers.of(id)
	if isNew {
		s.readers = append(s.readers, reader{})
	}
	return number
}

func (s *shard) addDay(who facts.Who, day analytics.Date) {
	i, known := s.dateOf[day]
	if !known {
		i = len(s.dates)
		s.dateOf[day], s.dates = i, append(s.dates, day)
	}
	s.days.Add(who, i)
}

// isConfirmed reports whether a reader has shown that it is a browser.
func (r *reader) isConfirmed() bool { return r.is&byAny != 0 }

// readerNumbers numbers readers by id, from 0. It is a hash table, a third as large as a map: ids are hashes.
type readerNumbers struct {
	slots []readerSlot // a power of two
	used  uint32
}

// readerSlot is a reader; of an empty slot number is 0.
type readerSlot struct{ low, high, number uint32 }

// of returns the number of a reader.
func (t *readerNumbers) of(id uint64) (number uint32, isNew bool) {
	if int(t.used) >= len(t.slots)/4*3 {
		t.grow()
	}
	s := t.find(uint32(id), uint32(id>>32))
	if s.number == 0 {
		t.used++
		*s, isNew = readerSlot{uint32(id), uint32(id >> 32), t.used}, true
	}
	return s.number - 1, isNew
}

// find returns the slot of a reader, or an empty one.
func (t *readerNumbers) find(low, high uint32) *readerSlot {
	for at := int(low); ; at++ {
		s := &t.slots[at&(len(t.slots)-1)]
		if s.number == 0 || s.low == low && s.high == high {
			return s
		}
	}
}

func (t *readerNumbers) grow() {
	old := t.slots
	t.slots = make([]readerSlot, max(64, 2*len(old)))
	for _, s := range old {
		if s.number != 0 {
			*t.find(s.low, s.high) = s
		}
	}
}

// visits counts the views of people by source, in 8 bytes each: reader, source and count.
type visits struct {
	slots []uint64 // a power of two; 0 is empty
	used  int
	many  map[uint64]int // what was counted beyond mostVisits
}

// The bits of a slot of visits.
const (
	sourceBits, visitBits = 10, 22
	mostVisits            = 1<<visitBits - 1
)

// add counts a view.
func (t *visits) add(reader uint32, source int32) {
	if t.used >= len(t.slots)/4*3 {
		old := t.slots
		t.slots = make([]uint64, max(64, 2*len(old)))
		for _, slot := range old {
			if slot != 0 {
				*t.find(slot >> visitBits) = slot
			}
		}
	}
	key := uint64(reader)<<sourceBits | uint64(source)
	switch slot := t.find(key); {
	case *slot == 0:
		*slot = key<<visitBits | 1
		t.used++
	case *slot&mostVisits < mostVisits:
		*slot++
	default:
		if t.many == nil {
			t.many = map[uint64]int{}
		}
		t.many[key] += mostVisits
		*slot -= mostVisits - 1
	}
}

// find returns the slot of a key, or an empty one.
func (t *visits) find(key uint64) *uint64 {
	const odd = 0x9E3779B97F4A7C15
	for at := int(key * odd >> 32); ; at++ {
		slot := &t.slots[at&(len(t.slots)-1)]
		if *slot == 0 || *slot>>visitBits == key {
			return slot
		}
	}
}

// each calls do with the views of each reader by source.
func (t *visits) each(do func(reader uint32, source int32, views int)) {
	for _, slot := range t.slots {
		if key := slot >> visitBits; slot != 0 {
			do(uint32(key>>sourceBits), int32(key&(1<<sourceBits-1)), int(slot&mostVisits)+t.many[key])
		}
	}
}
