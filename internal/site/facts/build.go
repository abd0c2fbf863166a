package facts

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"
	"sync"
)

// entry is a fact with the id of its reader.
type entry struct {
	id       uint64
	page     int32
	agent    int32
	requests uint32
	kind     uint8
}

// inStripes puts entries in the order of their stripes, and returns those of each.
func inStripes(all []entry) (of [stripes][]entry) {
	var ends [stripes + 1]int
	for i := range all {
		ends[stripeOf(all[i].id)+1]++
	}
	out, at := make([]entry, len(all)), [stripes]int{}
	for i := range stripes {
		ends[i+1] += ends[i]
		at[i] = ends[i]
	}
	for i := range all {
		stripe := stripeOf(all[i].id)
		out[at[stripe]] = all[i]
		at[stripe]++
	}
	for i := range of {
		of[i] = out[ends[i]:ends[i+1]]
	}
	return of
}

// sortIDs sorts entries by ids that have the same first bits. Ids are hashes: the next bits put each
// almost where it belongs.
func sortIDs(in []entry, same int, scratch *scratch) []entry {
	const perBucket = 4
	few := bits.Len(uint(len(in) / perBucket))
	bucketOf := func(id uint64) uint64 { return id << same >> (64 - few) }
	scratch.starts = append(scratch.starts[:0], make([]int32, 1<<few+1)...)
	starts := scratch.starts
	for i := range in {
		starts[bucketOf(in[i].id)+1]++
	}
	for i := range 1 << few {
		starts[i+1] += starts[i]
	}
	scratch.sorted = slices.Grow(scratch.sorted[:0], len(in))[:len(in)]
	out := scratch.sorted
	for i := range in {
		b := bucketOf(in[i].id)
		out[starts[b]] = in[i]
		starts[b]++
	}
	for i := 1; i < len(out); i++ {
		one := out[i]
		k := i
		for ; k > 0 && out[k-1].id > one.id; k-- {
			out[k] = out[k-1]
		}
		out[k] = one
	}
	return out
}

// inRuns sorts the entries of each id, if they are not all the same. The entries are in the order of their ids.
func inRuns(all []entry, same func(a, b *entry) bool, compare func(a, b entry) int) {
	for i := 0; i < len(all); {
		end, several := i+1, false
		for ; end < len(all) && all[end].id == all[i].id; end++ {
			several = several || !same(&all[i], &all[end])
		}
		if several {
			slices.SortFunc(all[i:end], compare)
		}
		i = end
	}
}

// scratch is memory that is used again.
type scratch struct {
	starts  []int32
	entries []entry
	sorted  []entry
	facts   []fact
	at      []int32 // by page; all 0 between uses
	pages   []int32
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// stripe writes a stripe with the facts of entries, in any order.
func (w *writer) stripe(all []entry) {
	if len(all) == 0 {
		w.next()
		w.next()
		return
	}
	x := scratches.Get().(*scratch)
	defer scratches.Put(x)
	all = sortIDs(all, stripeBits, x)
	inRuns(all, func(a, b *entry) bool { return a.agent == b.agent },
		func(a, b entry) int { return cmp.Compare(a.agent, b.agent) })
	// How many facts each page has, then where they begin.
	x.pages = x.pages[:0]
	for i := range all {
		page := int(all[i].page)
		if page >= len(x.at) {
			x.at = append(x.at, make([]int32, page+1-len(x.at))...)
		}
		if x.at[page]++; x.at[page] == 1 {
			x.pages = append(x.pages, all[i].page)
		}
	}
	slices.Sort(x.pages)
	begin := int32(0)
	for _, page := range x.pages {
		n := x.at[page]
		x.at[page] = begin
		begin += n
	}
	x.facts = slices.Grow(x.facts[:0], len(all))[:len(all)]
	readers := uint32(0)
	for i := 0; i < len(all); readers++ {
		r := reader{id: all[i].id, agent: all[i].agent}
		for ; i < len(all) && all[i].id == r.id && all[i].agent == r.agent; i++ {
			e := &all[i]
			if e.kind != Missed {
				r.kinds |= 1 << e.kind
			}
			x.facts[x.at[e.page]] = newFact(readers, e.kind, e.requests)
			x.at[e.page]++
		}
		w.reader(r)
	}
	w.next()
	begin = 0
	for _, page := range x.pages {
		own := x.facts[begin:x.at[page]]
		begin, x.at[page] = x.at[page], 0
		slices.Sort(own) // by reader they are; a reader's kinds may not be
		w.write(page, merged(own))
	}
	w.next()
}

// build writes a segment.
func (s *Store) build(seg segment, of [stripes][]entry) (int64, error) {
	w, err := newWriter(s.dir, seg.number)
	if err != nil {
		return 0, err
	}
	for _, all := range of {
		w.stripe(all)
	}
	return s.closeSegment(w, seg)
}

// closeSegment makes a segment whole and durable.
func (s *Store) closeSegment(w *writer, seg segment) (size int64, err error) {
	err = s.step("segment", func() (err error) {
		size, err = w.close(seg.day)
		return err
	})
	if err != nil {
		s.unsettled.Store(true)
	}
	return size, err
}

// entries adds the facts of a stripe.
func (o *opened) entries(stripe int, into []entry) ([]entry, error) {
	in := o.readers(stripe)
	all := make([]reader, 0, in.size)
	in.until(lastOf(stripe), func(r reader) { all = append(all, r) })
	if err := in.end(); err != nil {
		return into, err
	}
	p := o.pages(stripe, len(all))
	for ; !p.done; p.next() {
		p.each(func(f fact) {
			r := all[f.reader()]
			into = append(into, entry{r.id, p.page, r.agent, f.requests(), f.kind()})
		})
	}
	return into, p.err
}

// next returns the segment that takes the place of others of one day.
func (s *Store) next(segs []segment) segment {
	out := segs[0]
	out.number = s.nextNumber()
	for _, seg := range segs {
		out.level = max(out.level, seg.level)
	}
	return out
}

// merge writes segments of one day as one.
func (s *Store) merge(segs []segment) (out segment, err error) {
	in, err := s.openThose(segs)
	if err != nil {
		return out, err
	}
	defer closeAll(in)
	out = s.next(segs)
	out.level++
	w, err := newWriter(s.dir, out.number)
	if err != nil {
		return out, err
	}
	var all []entry
	for stripe := range stripes {
		all = all[:0]
		for _, o := range in {
			var err error
			all, err = o.entries(stripe, all)
			w.err = errors.Join(w.err, err)
		}
		if w.err == nil {
			w.stripe(all)
		}
	}
	out.size, err = s.closeSegment(w, out)
	return out, err
}

// rekey writes segments of one day as one, with other ids.
func (s *Store) rekey(segs []segment, other func(uint64) uint64) (out segment, err error) {
	in, err := s.openThose(segs)
	if err != nil {
		return out, err
	}
	defer closeAll(in)
	var all []entry
	for stripe := range stripes {
		for _, o := range in {
			if all, err = o.entries(stripe, all); err != nil {
				return out, err
			}
		}
	}
	for i := range all {
		all[i].id = other(all[i].id)
	}
	out = s.next(segs)
	out.size, err = s.build(out, inStripes(all))
	return out, err
}
