package facts

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"
	"sync"
)

// entry is a fact with the id of its reader, or evidence: its agent says a day.
type entry struct {
	id       uint64
	bytes    int64
	page     int32
	agent    int32
	requests uint32
	category category
}

// inStripes fills out with entries in the order of their stripes, and returns the entries of each.
func inStripes(out []entry, entryOf func(i int) entry) (of [stripes][]entry) {
	var ends [stripes + 1]int
	for i := range out {
		ends[stripeOf(entryOf(i).id)+1]++
	}
	at := [stripes]int{}
	for i := range stripes {
		ends[i+1] += ends[i]
		at[i] = ends[i]
	}
	for i := range out {
		e := entryOf(i)
		stripe := stripeOf(e.id)
		out[at[stripe]] = e
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

// buckets say where what has the same small number goes, in the order of the numbers.
type buckets struct {
	at   []int32 // by number; all 0 between uses
	used []int32
}

// count counts one more with a number.
func (b *buckets) count(number int) {
	if number >= len(b.at) {
		b.at = append(b.at, make([]int32, number+1-len(b.at))...)
	}
	if b.at[number]++; b.at[number] == 1 {
		b.used = append(b.used, int32(number))
	}
}

// begin ends the counting: at then has where the first with each number goes.
func (b *buckets) begin() {
	slices.Sort(b.used)
	begin := int32(0)
	for _, number := range b.used {
		n := b.at[number]
		b.at[number] = begin
		begin += n
	}
}

// clear prepares the next use.
func (b *buckets) clear() {
	for _, number := range b.used {
		b.at[number] = 0
	}
	b.used = b.used[:0]
}

// placed is a fact of a page.
type placed struct {
	fact
	page int32
}

// scratch is memory that is used again.
type scratch struct {
	starts            []int32
	entries           []entry
	sorted            []entry
	pages, categories buckets
	placed            []placed // by category, then reader
	facts             []fact   // by page, category, reader
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// stripe writes a stripe with the facts or the evidence of entries, in any order.
func (w *writer) stripe(all []entry, evidence bool) {
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
	if evidence {
		for i := range all {
			if i == 0 || all[i].id != all[i-1].id { // the first day is enough
				w.reader(reader{id: all[i].id, agent: all[i].agent})
			}
		}
		w.next()
		w.next()
		return
	}
	defer x.pages.clear()
	defer x.categories.clear()
	for i := range all {
		x.pages.count(int(all[i].page))
		x.categories.count(int(all[i].category))
	}
	x.pages.begin()
	x.categories.begin()
	x.placed = slices.Grow(x.placed[:0], len(all))[:len(all)]
	readers := uint32(0)
	for i := 0; i < len(all); readers++ {
		r := reader{id: all[i].id, agent: all[i].agent}
		for ; i < len(all) && all[i].id == r.id && all[i].agent == r.agent; i++ {
			e := &all[i]
			if kind := e.category.kind(); kind < Missed {
				r.kinds |= 1 << kind
			}
			at := &x.categories.at[e.category]
			x.placed[*at] = placed{fact{e.bytes, readers, e.requests, e.category}, e.page}
			*at++
		}
		w.reader(r)
	}
	w.next()
	x.facts = slices.Grow(x.facts[:0], len(all))[:len(all)]
	for i := range x.placed {
		at := &x.pages.at[x.placed[i].page]
		x.facts[*at] = x.placed[i].fact
		*at++
	}
	begin := int32(0)
	for _, page := range x.pages.used {
		end := x.pages.at[page]
		w.write(page, merged(x.facts[begin:end]))
		begin = end
	}
	w.next()
}

// build writes a segment of n entries.
func (s *Store) build(seg segment, n int, entryOf func(i int) entry) (int64, error) {
	w, err := s.newWriter(seg.number)
	if err != nil {
		return 0, err
	}
	x := scratches.Get().(*scratch)
	defer scratches.Put(x)
	x.entries = slices.Grow(x.entries[:0], n)[:n]
	for _, all := range inStripes(x.entries, entryOf) {
		w.stripe(all, seg.evidence)
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

// entries adds the facts or the evidence of a stripe.
func (o *opened) entries(stripe int, into []entry) ([]entry, error) {
	in := o.readers(stripe)
	if o.evidence {
		in.until(lastOf(stripe), func(r reader) { into = append(into, entry{id: r.id, agent: r.agent}) })
		return into, in.end()
	}
	all := make([]reader, 0, in.size)
	in.until(lastOf(stripe), func(r reader) { all = append(all, r) })
	if err := in.end(); err != nil {
		return into, err
	}
	p := o.pages(stripe, len(all))
	for ; !p.done; p.next() {
		p.each(func(f fact) {
			r := all[f.reader]
			into = append(into, entry{r.id, f.bytes, p.page, r.agent, f.requests, f.category})
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
	w, err := s.newWriter(out.number)
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
			w.stripe(all, out.evidence)
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
	out.size, err = s.build(out, len(all), func(i int) entry { return all[i] })
	return out, err
}
