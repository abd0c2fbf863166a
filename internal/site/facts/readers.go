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

// Totals returns the size of the set: the readers of each kind, and those of either.
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

// Counter counts the unique readers of a site and of parts of it, its pages or its days, in memory: people and AI
// apart and together. Memory grows with the readers and with the parts that each has read, not with the views.
// The zero Counter has no part.
type Counter struct {
	site, scratch readerSet
	parts         [][]Who // the readers of each part, some of them more than once
}

// fewest is the number of views from which on those that count nothing are dropped.
const fewest = 256

// Add counts a view of part i. Parts are numbered densely, from 0.
func (c *Counter) Add(who Who, i int) {
	c.site.Add(who)
	for len(c.parts) <= i {
		c.parts = append(c.parts, nil)
	}
	readers := c.parts[i]
	if n := len(readers); n == cap(readers) && n >= fewest {
		if readers = c.distinct(readers); len(readers) > n/2 {
			readers = slices.Grow(readers, n/2)
		}
	}
	c.parts[i] = append(readers, who)
}

// distinct returns each of the readers once, in place.
func (c *Counter) distinct(readers []Who) []Who {
	c.scratch.clear()
	return slices.DeleteFunc(readers, func(who Who) bool { return !c.scratch.Add(who) })
}

// Site returns the readers of the whole site.
func (c *Counter) Site() analytics.Totals { return c.site.Totals() }

// Part returns the readers of part i.
func (c *Counter) Part(i int) analytics.Totals {
	if i >= len(c.parts) {
		return analytics.Totals{}
	}
	c.parts[i] = c.distinct(c.parts[i])
	return c.scratch.Totals()
}

// Keep drops the readers that keep refuses.
func (c *Counter) Keep(keep func(Who) bool) {
	drop := func(who Who) bool { return !keep(who) }
	var site readerSet
	for reader, mark := range c.site.marks {
		for kind := range Who(2) {
			if who := Who(reader)<<1 | kind; mark&(1<<kind) != 0 && keep(who) {
				site.Add(who)
			}
		}
	}
	c.site = site
	for i := range c.parts {
		c.parts[i] = slices.DeleteFunc(c.parts[i], drop)
	}
}

// Rows returns the parts that have readers, by total from the largest, then by path.
func (c *Counter) Rows(paths []string) (rows []analytics.Row) {
	for i := range min(len(paths), len(c.parts)) {
		if n := c.Part(i); n.Total > 0 {
			rows = append(rows, analytics.Row{Path: paths[i], Totals: analytics.Totals{Human: n.Human, AI: n.AI,
				Total: n.Total}})
		}
	}
	slices.SortFunc(rows, analytics.ByVisitors)
	return rows
}
