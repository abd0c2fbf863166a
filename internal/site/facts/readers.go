package facts

import (
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Who is reader<<1 | kind of a view, Human or AI. Readers are numbered densely, from 0.
type Who = uint32

// readerSet is a set of readers by kind.
type readerSet struct {
	// marks holds, by reader, round<<2 | the kinds seen in that round, so that clear costs nothing.
	marks  []uint32
	round  uint32
	totals analytics.Totals
}

// Totals returns the size of the set: the readers of each kind, and of either.
func (r *readerSet) Totals() analytics.Totals { return r.totals }

// clear empties the set.
func (r *readerSet) clear() {
	r.round++
	r.totals = analytics.Totals{}
}

// Add reports whether the reader is new in the set as one of its kind.
func (r *readerSet) Add(who Who) bool {
	if int(who>>1) >= len(r.marks) {
		r.marks = append(r.marks, make([]uint32, int(who>>1)+1-len(r.marks))...)
	}
	kind, mark := who&1, r.marks[who>>1]
	if mark>>2 != r.round+1 {
		mark = (r.round + 1) << 2
		r.totals.Total++
	}
	if mark&(1<<kind) != 0 {
		return false
	}
	if kind == AI {
		r.totals.AI++
	} else {
		r.totals.Human++
	}
	r.marks[who>>1] = mark | 1<<kind
	return true
}

// Counter counts the unique readers of a site and of its parts. The zero Counter has no part.
type Counter struct {
	site  readerSet
	parts Parts
}

// Add counts a view of part i.
func (c *Counter) Add(who Who, i int) {
	c.site.Add(who)
	c.parts.Add(who, i)
}

// Site returns the readers of the whole site.
func (c *Counter) Site() analytics.Totals { return c.site.Totals() }

// Part returns the readers of part i.
func (c *Counter) Part(i int) analytics.Totals { return c.parts.Part(i) }

// Rows returns the parts that have readers, by total from the largest, then by path.
func (c *Counter) Rows(paths []string) []analytics.Row { return Rows(paths, c.parts.Part) }

// Parts counts the unique readers of parts of a site, its pages or its days, in memory: people and AI apart and
// together. Memory grows with the readers that each part has, not with the views. The zero Parts has no part.
type Parts struct {
	readers [][]Who  // of each part, some of them more than once
	marks   []uint64 // a bit each Who; all 0 but in distinct
	last    Who
}

// fewest is the number of views from which on those that count nothing are dropped.
const fewest = 256

// Add counts a view of part i. Parts are numbered densely, from 0.
func (p *Parts) Add(who Who, i int) {
	for len(p.readers) <= i {
		p.readers = append(p.readers, nil)
	}
	p.last = max(p.last, who)
	readers := p.readers[i]
	if n := len(readers); n == cap(readers) && n >= fewest {
		if readers, _ = p.distinct(readers); len(readers) > n/2 {
			readers = slices.Grow(readers, n/2)
		}
	}
	p.readers[i] = append(readers, who)
}

// distinct returns each of the readers once, in place, and their number.
func (p *Parts) distinct(readers []Who) (each []Who, n analytics.Totals) {
	if words := int(p.last/64) + 1; len(p.marks) < words {
		p.marks = append(p.marks, make([]uint64, words-len(p.marks))...)
	}
	each = slices.DeleteFunc(readers, func(who Who) bool {
		word, bit := &p.marks[who/64], uint64(1)<<(who%64)
		switch {
		case *word&bit != 0:
			return true
		case *word&(3<<(who%64&^1)) == 0:
			n.Total++
		}
		if *word |= bit; who&1 == AI {
			n.AI++
		} else {
			n.Human++
		}
		return false
	})
	for _, who := range each {
		p.marks[who/64] = 0
	}
	return each, n
}

// Part returns the readers of part i.
func (p *Parts) Part(i int) (n analytics.Totals) {
	if i < len(p.readers) {
		p.readers[i], n = p.distinct(p.readers[i])
	}
	return n
}

// Keep drops the readers that keep refuses.
func (p *Parts) Keep(keep func(Who) bool) {
	for i := range p.readers {
		p.readers[i] = slices.DeleteFunc(p.readers[i], func(who Who) bool { return !keep(who) })
	}
}

// Rows returns the parts that have readers, by total from the largest, then by path.
func Rows(paths []string, part func(i int) analytics.Totals) (rows []analytics.Row) {
	for i, path := range paths {
		if n := part(i); n.Total > 0 {
			rows = append(rows, analytics.Row{Path: path, Totals: n})
		}
	}
	slices.SortFunc(rows, analytics.ByVisitors)
	return rows
}
