package report

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Pages compares the pages of a window with those of the one before it.
type Pages struct {
	// Top are the pages with the most visitors: by Total, largest first, ties by path.
	Top []Move
	// Count is how many pages the window has.
	Count int64
	// Before is the window it is compared with; nil: the archive does not have it, or
	// has only its totals, and there is nothing below.
	Before *analytics.Revision
	// Risen and Fallen are the pages of both windows whose Total changed most, Appeared
	// those of the newer one alone, Vanished those of the older one alone.
	Risen, Fallen, Appeared, Vanished Moves
}

// Moves are the largest of some changes, and how many there were.
type Moves struct {
	Largest []Move
	Count   int64
}

// Move is one page in two windows; a page that one of them does not have is zero there.
type Move struct {
	Path          string
	Before, After analytics.Row
}

// change is how many more visitors the page had, in the one window and the other.
func (m Move) change() int64 { return m.After.Total - m.Before.Total }

// Compare reads the rows of two windows side by side, each sorted by path, and
// keeps the n pages of each kind that matter most. It holds no more than that.
func Compare(before, after iter.Seq2[analytics.Row, error], n int) (Pages, error) {
	p := picker{
		top:      best{n: n, order: func(a, b Move) int { return cmp.Compare(b.After.Total, a.After.Total) }},
		risen:    best{n: n, order: func(a, b Move) int { return cmp.Compare(b.change(), a.change()) }},
		fallen:   best{n: n, order: func(a, b Move) int { return cmp.Compare(a.change(), b.change()) }},
		appeared: best{n: n, order: func(a, b Move) int { return cmp.Compare(b.After.Total, a.After.Total) }},
		vanished: best{n: n, order: func(a, b Move) int { return cmp.Compare(b.Before.Total, a.Before.Total) }},
	}
	if err := join(before, after, p.add); err != nil {
		return Pages{}, err
	}
	return Pages{
		Top: p.top.moves, Count: p.top.count,
		Risen: p.risen.all(), Fallen: p.fallen.all(), Appeared: p.appeared.all(), Vanished: p.vanished.all(),
	}, nil
}

// picker sorts pages by what became of them.
type picker struct{ top, risen, fallen, appeared, vanished best }

// add takes a page of either window, or of both.
func (p *picker) add(m Move, was, is bool) {
	if is {
		p.top.add(m)
	}
	switch {
	case !was:
		p.appeared.add(m)
	case !is:
		p.vanished.add(m)
	case m.change() > 0:
		p.risen.add(m)
	case m.change() < 0:
		p.fallen.add(m)
	}
}

// best keeps the n first moves in an order, ties by path.
type best struct {
	n     int
	order func(a, b Move) int
	moves []Move
	count int64
}

func (b *best) add(m Move) {
	b.count++
	if b.n == 0 || len(b.moves) == b.n && b.compare(m, b.moves[b.n-1]) > 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(b.moves, m, b.compare)
	b.moves = slices.Insert(b.moves[:min(len(b.moves), b.n-1)], i, m)
}

func (b *best) compare(m, other Move) int {
	return cmp.Or(b.order(m, other), cmp.Compare(m.Path, other.Path))
}

func (b *best) all() Moves { return Moves{b.moves, b.count} }

// join calls found for each path of two sorted lists, once.
func join(before, after iter.Seq2[analytics.Row, error], found func(m Move, was, is bool)) error {
	a, b := newReader(before), newReader(after)
	defer a.stop()
	defer b.stop()
	for a.next() && b.next() && (a.more || b.more) {
		order := cmp.Compare(a.row.Path, b.row.Path)
		was := a.more && (!b.more || order <= 0)
		is := b.more && (!a.more || order >= 0)
		m := Move{}
		if was {
			m.Path, m.Before = a.row.Path, a.take()
		}
		if is {
			m.Path, m.After = b.row.Path, b.take()
		}
		found(m, was, is)
	}
	return errors.Join(a.err, b.err)
}

// reader is one list, a row at a time.
type reader struct {
	pull func() (analytics.Row, error, bool)
	stop func()
	// row is the next one where more; taken asks for another.
	row         analytics.Row
	more, taken bool
	seen        bool // a row came
	err         error
}

func newReader(rows iter.Seq2[analytics.Row, error]) *reader {
	r := &reader{taken: true, more: true}
	r.pull, r.stop = iter.Pull2(rows)
	return r
}

// next has the next row ready, if there is one, and reports whether nothing is wrong.
func (r *reader) next() bool {
	if !r.taken || !r.more || r.err != nil {
		return r.err == nil
	}
	last := r.row.Path
	r.row, r.err, r.more = r.pull()
	r.taken = false
	if r.more && r.err == nil && r.seen && r.row.Path <= last {
		r.err = fmt.Errorf("path %q comes after %q: the rows are not sorted", r.row.Path, last)
	}
	r.seen = true
	return r.err == nil
}

func (r *reader) take() analytics.Row {
	r.taken = true
	return r.row
}
