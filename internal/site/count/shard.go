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
	readers []*[readersBlock]reader // by number
	pages   facts.Parts
	days    facts.Parts
	dates   []analytics.Date // by part of days
	dateOf  map[analytics.Date]int
	agents  []agentSums // by number of the agent
	unnamed sums
	visits  visits
	// markdown counts the views by people that were answered as Markdown, by reader: there are few.
	markdown map[uint32]int
	// bytes are the bytes of the views by people beyond 4 GB, by reader.
	bytes              map[uint32]int64
	views, ai, foreign int
	from, to           analytics.Date
}

// readersBlock is the number of readers for which memory is taken at once.
const readersBlock = 1 << 12

// reader is a reader of a shard.
type reader struct {
	bytes    uint32 // of the views by a person, beside those in shard.bytes; unsaidBytes if one does not say them
	requests uint32 // views by a person
	is       proof  // its proofs, and what follows
}

const unsaidBytes = math.MaxUint32

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
		s.dateOf, s.from, s.to = map[analytics.Date]int{}, math.MaxInt32, math.MinInt32
		s.markdown, s.bytes = map[uint32]int{}, map[uint32]int64{}
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
		number := s.numberOf(v.Readers[0])
		r := s.reader(number)
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
			s.addBytes(r, number, v.Bytes)
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
			s.reader(s.numberOf(b.Shown[i].Readers[0])).is |= b.proofs[i]
		}
	}
}

// numberOf returns the number of a reader.
func (s *shard) numberOf(id uint64) uint32 {
	number, isNew := s.numbers.of(id)
	if isNew && number%readersBlock == 0 {
		s.readers = append(s.readers, new([readersBlock]reader))
	}
	return number
}

func (s *shard) reader(number uint32) *reader {
	return &s.readers[number/readersBlock][number%readersBlock]
}

// addBytes adds the bytes of a view by a person.
func (s *shard) addBytes(r *reader, number uint32, n int64) {
	switch {
	case n < 0:
		r.bytes = unsaidBytes
	case r.bytes == unsaidBytes:
	case int64(r.bytes)+n < unsaidBytes:
		r.bytes += uint32(n)
	default:
		s.bytes[number] += int64(r.bytes) + n
		r.bytes = 0
	}
}

// bytesOf returns the bytes of the views by a person.
func (s *shard) bytesOf(r *reader, number uint32) int64 {
	if r.bytes == unsaidBytes {
		return facts.Unsaid
	}
	return int64(r.bytes) + s.bytes[number]
}

// each goes through all readers.
func (s *shard) each(do func(number uint32, r *reader)) {
	for number := range s.numbers.used {
		do(number, s.reader(number))
	}
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

// placeOf returns the place of a hash in a table of some slots. A full table grows by half: memory counts more than time.
func placeOf(hash uint32, slots int) int { return int(uint64(hash) * uint64(slots) >> 32) }

// grown returns the next size of a table.
func grown(slots int) int { return max(64, slots+slots/2) }

// isFull reports whether a table has too few empty slots to find one soon.
func isFull(used, slots int) bool { return used >= slots-slots/4 }

// readerNumbers numbers readers by id, from 0. It is a hash table, a third as large as a map: ids are hashes.
type readerNumbers struct {
	slots []readerSlot
	used  uint32
}

// readerSlot is a reader; of an empty slot number is 0.
type readerSlot struct{ low, high, number uint32 }

// of returns the number of a reader.
func (t *readerNumbers) of(id uint64) (number uint32, isNew bool) {
	if isFull(int(t.used), len(t.slots)) {
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
	for at := placeOf(low, len(t.slots)); ; at++ {
		if at == len(t.slots) {
			at = 0
		}
		if s := &t.slots[at]; s.number == 0 || s.low == low && s.high == high {
			return s
		}
	}
}

func (t *readerNumbers) grow() {
	old := t.slots
	t.slots = make([]readerSlot, grown(len(old)))
	for _, s := range old {
		if s.number != 0 {
			*t.find(s.low, s.high) = s
		}
	}
}

// visits counts the views of people by source, in 8 bytes each: reader, source and count.
type visits struct {
	slots []uint64 // 0 is empty
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
	if isFull(t.used, len(t.slots)) {
		old := t.slots
		t.slots = make([]uint64, grown(len(old)))
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
	for at := placeOf(uint32(key*odd>>32), len(t.slots)); ; at++ {
		if at == len(t.slots) {
			at = 0
		}
		if slot := &t.slots[at]; *slot == 0 || *slot>>visitBits == key {
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
