package analytics

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Audience is the group of visitors that a page is ranked by.
type Audience string

// The audiences. Everyone counts each visitor once: it is not Human + AI.
const (
	Everyone Audience = "total"
	Human    Audience = "human"
	AI       Audience = "ai"
)

// Of returns the count of one audience.
func (t Totals) Of(a Audience) int64 {
	switch a {
	case Human:
		return t.Human
	case AI:
		return t.AI
	}
	return t.Total
}

// Movers says how the pages of a window differ from the pages of an earlier window.
// Prompts, reports and dashboards all use this definition:
//
//   - The windows have the same granularity, and the earlier is the window of
//     [Granularity.ComparedWith], unless a person asks for another earlier window.
//   - A page with a row in both windows is rising or falling by the difference of its
//     visitors, as a number and not as a share. A page whose number stayed is in neither list.
//   - A page with a row in the later window only has appeared, one with a row in the
//     earlier window only has vanished. Neither is rising or falling.
//   - Pages of equal rank are ordered by path.
type Movers struct {
	// Top are the pages of the later window with the most visitors.
	Top []Change
	// Pages counts the pages of the later window.
	Pages int64
	// Rising and Falling are ordered by the visitors gained or lost, Appeared by
	// those in the later window, Vanished by those in the earlier window.
	Rising, Falling, Appeared, Vanished Ranking
}

// Ranking is the beginning of an ordered list.
type Ranking struct {
	First []Change
	// Count is the length of the whole list.
	Count int64
}

// Change is one page in two windows.
type Change struct {
	Path string
	// Before and After are its visitors; zero in the window that has no row of it.
	Before, After Totals
	// Appeared: the earlier window has no row of it. Vanished: the later has none.
	Appeared, Vanished bool
}

// By returns how many visitors of an audience the page gained, negative if it lost some.
func (c Change) By(a Audience) int64 { return c.After.Of(a) - c.Before.Of(a) }

// List is one of the lists of [Movers]: the score by which it orders a page, the largest first, and
// whether it has the page at all.
type List func(c Change, by Audience) (score int64, listed bool)

// MostRead is the order of Top.
func MostRead(c Change, by Audience) (int64, bool) { return c.After.Of(by), !c.Vanished }

// Rising is the list of that name.
func Rising(c Change, by Audience) (int64, bool) { return c.By(by), c.inBoth() && c.By(by) > 0 }

// Falling is the list of that name.
func Falling(c Change, by Audience) (int64, bool) { return -c.By(by), c.inBoth() && c.By(by) < 0 }

// Moved is the order of [Movers.Changed].
func Moved(c Change, by Audience) (int64, bool) {
	return max(c.By(by), -c.By(by)), c.inBoth() && c.By(by) != 0
}

func appeared(c Change, by Audience) (int64, bool) { return c.After.Of(by), c.Appeared }

func vanished(c Change, by Audience) (int64, bool) { return c.Before.Of(by), c.Vanished }

func (c Change) inBoth() bool { return !c.Appeared && !c.Vanished }

// compare orders two pages of the list.
func (l List) compare(x, y Change, by Audience) int {
	a, _ := l(x, by)
	b, _ := l(y, by)
	return cmp.Or(cmp.Compare(b, a), cmp.Compare(x.Path, y.Path))
}

// FindMovers reads the rows of two windows side by side. Both must be sorted by
// path, as window files are, and hold each path once; anything else is an error. It
// holds at most n pages of each list, however many rows there are.
func FindMovers(earlier, later iter.Seq2[Row, error], by Audience, n int) (Movers, error) {
	lists := []List{MostRead, Rising, Falling, appeared, vanished}
	found := make([]*best[Change], len(lists))
	for i, list := range lists {
		found[i] = &best[Change]{n: n, order: func(x, y Change) int { return list.compare(x, y, by) }}
	}
	err := eachPath(earlier, later, func(c Change) {
		for i, list := range lists {
			if _, listed := list(c, by); listed {
				found[i].add(c)
			}
		}
	})
	if err != nil {
		return Movers{}, err
	}
	ranking := func(i int) Ranking { return Ranking{found[i].sorted(), found[i].count} }
	return Movers{Top: found[0].sorted(), Pages: found[0].count,
		Rising: ranking(1), Falling: ranking(2), Appeared: ranking(3), Vanished: ranking(4)}, nil
}

// Rank returns the place of a page in a list of two windows, from 1 on. It reads their rows as
// [FindMovers] does, and holds none of them.
func Rank(earlier, later iter.Seq2[Row, error], list List, by Audience, page Change) (int, error) {
	rank := 1
	err := eachPath(earlier, later, func(c Change) {
		if _, listed := list(c, by); listed && list.compare(c, page, by) < 0 {
			rank++
		}
	})
	return rank, err
}

// Changed returns the n rising and falling pages whose number of visitors changed most, in
// either direction, ties by path. The movers must have been found by everyone, and with at least
// this n.
func (m Movers) Changed(n int) []Change {
	all := slices.Concat(m.Rising.First, m.Falling.First)
	slices.SortFunc(all, func(x, y Change) int { return List(Moved).compare(x, y, Everyone) })
	return all[:min(n, len(all))]
}

// eachPath calls visit once for each path of two lists that are sorted by path.
func eachPath(earlier, later iter.Seq2[Row, error], visit func(Change)) error {
	a, b := newCursor(earlier), newCursor(later)
	defer a.stop()
	defer b.stop()
	a.advance()
	b.advance()
	for a.err == nil && b.err == nil && (a.more || b.more) {
		order := cmp.Compare(a.row.Path, b.row.Path)
		inEarlier := a.more && (!b.more || order <= 0)
		inLater := b.more && (!a.more || order >= 0)
		c := Change{Appeared: !inEarlier, Vanished: !inLater}
		if inEarlier {
			c.Path, c.Before = a.row.Path, a.row.Totals
			a.advance()
		}
		if inLater {
			c.Path, c.After = b.row.Path, b.row.Totals
			b.advance()
		}
		visit(c)
	}
	return errors.Join(a.err, b.err)
}

// cursor is at one row of a sorted list. It is at no row where more is false.
type cursor struct {
	next    func() (Row, error, bool)
	stop    func()
	row     Row
	started bool
	more    bool
	err     error
}

func newCursor(rows iter.Seq2[Row, error]) *cursor {
	c := &cursor{}
	c.next, c.stop = iter.Pull2(rows)
	return c
}

func (c *cursor) advance() {
	last := c.row.Path
	c.row, c.err, c.more = c.next()
	if c.more && c.err == nil && c.started && c.row.Path <= last {
		c.err = fmt.Errorf("path %q comes after %q: the rows are not sorted by path", c.row.Path, last)
	}
	c.started = true
}

// ByPath sorts rows in place and returns them as [FindMovers] takes them.
func ByPath(rows []Row) iter.Seq2[Row, error] {
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Path, b.Path) })
	return func(yield func(Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}
