package facts

import (
	"cmp"
	"context"
	"slices"
)

// Kinds of cells: the kinds of facts, but people without evidence are apart.
const (
	unconfirmed = Redirected + 1
	kinds       = unconfirmed + 1
)

// cell is the readers of one group and kind, of one page, and what they got.
type cell struct {
	page     int32
	group    int32
	kind     uint8
	visitors int64
	requests int64
	markdown int64 // requests that were answered as Markdown
	bytes    int64 // or Unsaid
}

// add adds the counts of another cell.
func (c *cell) add(other *cell) {
	c.visitors += other.visitors
	c.requests += other.requests
	c.markdown += other.markdown
	c.bytes = addBytes(c.bytes, other.bytes)
}

// tally counts the cells of a stripe.
type tally struct {
	site  []cell // by group and kind: group*kinds + kind
	cells []cell // by page, group, kind
	page  []cell // as site, of the present page
	used  []int  // of page
}

// add adds the requests of a fact to a cell of the present page, and returns the cell.
func (t *tally) add(place int, f *fact) *cell {
	c := &t.page[place]
	if c.requests == 0 {
		t.used = append(t.used, place)
	}
	c.requests += int64(f.requests)
	if f.category.markdown() {
		c.markdown += int64(f.requests)
	}
	c.bytes = addBytes(c.bytes, f.bytes)
	return c
}

// endPage ends the present page. What it has is of the site too, but for its visitors, and if it is there.
func (t *tally) endPage(page int32) {
	slices.Sort(t.used)
	for _, place := range t.used {
		c := t.page[place]
		t.page[place] = cell{}
		c.page, c.group, c.kind = page, int32(place/kinds), uint8(place%kinds)
		t.cells = append(t.cells, c)
		if c.kind != Missed {
			c.visitors = 0
			t.site[place].add(&c)
		}
	}
	t.used = t.used[:0]
}

// tally returns the cells of the site and of pages that have requests, of so many groups.
func (s *Store) tally(
	ctx context.Context, w *window, groups int, count func(stripe int, t *tally) error,
) (site, cells []cell, err error) {
	site = make([]cell, groups*kinds)
	err = countStripes(ctx, w, func(w *window, stripe int) (*tally, error) {
		t := &tally{site: make([]cell, len(site)), page: make([]cell, len(site))}
		return t, count(stripe, t)
	}, func(t *tally) error {
		for i := range site {
			site[i].add(&t.site[i]) // no reader is in two stripes
		}
		if n := len(t.cells); n > 0 && int(t.cells[n-1].page) >= len(w.names) {
			return s.nameless(t.cells[n-1].page)
		}
		cells = mergeCells(cells, t.cells)
		return nil
	})
	for i := range site {
		site[i].group, site[i].kind = int32(i/kinds), uint8(i%kinds)
	}
	return slices.DeleteFunc(site, func(c cell) bool { return c.requests == 0 }), cells, err
}

// mergeCells adds up two lists, each in order.
func mergeCells(x, y []cell) []cell {
	if len(x) == 0 {
		return y
	}
	out := make([]cell, 0, len(x)+len(y))
	for len(x) > 0 && len(y) > 0 {
		a, b := x[0], y[0]
		switch c := cmp.Or(cmp.Compare(a.page, b.page), cmp.Compare(a.group, b.group), cmp.Compare(a.kind, b.kind)); {
		case c < 0:
			out, x = append(out, a), x[1:]
		case c > 0:
			out, y = append(out, b), y[1:]
		default:
			a.add(&b)
			out, x, y = append(out, a), x[1:], y[1:]
		}
	}
	return append(append(out, x...), y...)
}
