package facts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/count"
)

// Answer is the readers of a window, and of each page that has some.
type Answer struct {
	Totals analytics.Totals
	Rows   []analytics.Row // by total from the largest, then by path
}

// Count counts the readers of the days from from to to, exclusive, which one epoch must have: that
// of the month of from. An error names what is damaged.
func (s *Store) Count(ctx context.Context, project string, from, to analytics.Date) (a Answer, err error) {
	epoch := EpochOf(from)
	if to > epoch.To() {
		return a, fmt.Errorf("[%s,%s): no epoch has all its days", from, to)
	}
	in, err := s.openAll(ctx, "project = ? AND epoch = ? AND day >= ? AND day < ?", project, int(epoch),
		int(from), int(to))
	if err != nil || len(in) == 0 {
		return a, err
	}
	defer closeAll(in)
	names, err := s.paths(ctx)
	if err != nil {
		return a, err
	}
	var adding sync.Mutex
	pages := make([]analytics.Totals, len(names))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for stripe := range stripes {
		group.Go(func() error {
			own, err := countStripe(in, stripe)
			if err == nil {
				err = context.Cause(ctx)
			}
			adding.Lock()
			defer adding.Unlock()
			add(&a.Totals, own.totals) // no reader is in two stripes
			for _, p := range own.pages {
				if int(p.page) >= len(pages) {
					return errors.Join(err, fmt.Errorf("%s: %w: page %d has no name", s.dir, ErrUnusable, p.page))
				}
				add(&pages[p.page], p.totals)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return Answer{}, err
	}
	for i, n := range pages {
		if n.Total > 0 {
			a.Rows = append(a.Rows, analytics.Row{Path: names[i], Human: n.Human, AI: n.AI, Total: n.Total})
		}
	}
	slices.SortFunc(a.Rows, func(x, y analytics.Row) int {
		return cmp.Or(cmp.Compare(y.Total, x.Total), strings.Compare(x.Path, y.Path))
	})
	return a, nil
}

func add(to *analytics.Totals, n analytics.Totals) {
	to.Human += n.Human
	to.AI += n.AI
	to.Total += n.Total
}

// counted is the readers of a stripe, and of each page in it.
type counted struct {
	totals analytics.Totals
	pages  []pageTotals
}

type pageTotals struct {
	page   int32
	totals analytics.Totals
}

func countStripe(in []*opened, stripe int) (c counted, err error) {
	numbers, totals, err := number(in, stripe)
	if err != nil {
		return c, err
	}
	c.totals = totals
	all := make([]*pages, len(in))
	for i, o := range in {
		all[i] = o.pages(stripe, len(numbers[i]))
	}
	var readers count.Readers
	for {
		least := int32(-1)
		for _, p := range all {
			if !p.done && (least < 0 || p.page < least) {
				least = p.page
			}
		}
		if least < 0 {
			break
		}
		readers.Clear()
		for i, p := range all {
			if p.done || p.page != least {
				continue
			}
			own := numbers[i]
			p.each(func(f fact) {
				if kind := f.kind(); kind < Neither {
					readers.Add(own[f.reader()]<<1 | uint32(kind))
				}
			})
			p.next()
		}
		if n := readers.Totals(); n.Total > 0 {
			c.pages = append(c.pages, pageTotals{least, n})
		}
	}
	for _, p := range all {
		err = errors.Join(err, p.err)
	}
	return c, err
}

// perRange is about how many readers of segments are sorted at once: they fit into the cache.
const perRange = 1 << 12

// number numbers the readers of a stripe of several segments of an epoch, densely, and counts them. It
// takes them by ranges of ids: segments have them in order.
func number(in []*opened, stripe int) (numbers [][]uint32, totals analytics.Totals, err error) {
	x := scratches.Get().(*scratch)
	defer scratches.Put(x)
	numbers = make([][]uint32, len(in))
	from, size := make([]*readers, len(in)), 0
	for i, o := range in {
		from[i] = o.readers(stripe)
		numbers[i] = make([]uint32, 0, from[i].size)
		size += from[i].size
	}
	same := stripeBits + bits.Len(uint(size/perRange)) // bits of all ids of a range
	next, step := uint32(0), uint64(1)<<(64-same)
	for last := firstOf(stripe) + step - 1; ; last += step {
		all := x.entries[:0]
		for i, r := range from { // not of a page: of a segment
			r.until(last, func(r reader) { all = append(all, entry{id: r.id, page: int32(i), kind: r.kinds}) })
		}
		x.entries = all
		all = sortIDs(all, same, x)
		for i := 0; i < len(all); next++ {
			id, kinds := all[i].id, uint8(0)
			for ; i < len(all) && all[i].id == id; i++ {
				kinds |= all[i].kind
				numbers[all[i].page] = append(numbers[all[i].page], next)
			}
			human, ai := int64(kinds>>Human&1), int64(kinds>>AI&1)
			add(&totals, analytics.Totals{Human: human, AI: ai, Total: human | ai})
		}
		if last == lastOf(stripe) {
			break
		}
	}
	for _, r := range from {
		err = errors.Join(err, r.end())
	}
	return numbers, totals, err
}

// Changed returns the number of the newest commit that added facts of these days; 0: none.
func (s *Store) Changed(ctx context.Context, project string, from, to analytics.Date) (changed int64, err error) {
	err = s.sql.QueryRowContext(ctx, "SELECT coalesce(max(changed), 0) FROM days WHERE project = ? AND day >= ? "+
		"AND day < ?",
		project, int(from), int(to)).Scan(&changed)
	return changed, err
}

// Fact is one page that one reader got on a day, so many times.
type Fact struct {
	Path     string
	Reader   uint64 // the same for all days of an epoch
	Agent    string // empty: a person's browser
	Class    string
	Kind     uint8
	Requests uint32
}

// Facts calls each with the facts of a day, as the epoch of its month has them.
func (s *Store) Facts(ctx context.Context, project string, day analytics.Date, each func(Fact) error) error {
	in, err := s.openAll(ctx, "project = ? AND epoch = ? AND day = ?", project, int(EpochOf(day)), int(day))
	if err != nil {
		return err
	}
	defer closeAll(in)
	names, err := s.paths(ctx)
	if err != nil {
		return err
	}
	r, err := s.Resume(ctx)
	if err != nil {
		return err
	}
	agents := map[int32]Agent{}
	for _, a := range r.Agents {
		agents[a.Number] = a
	}
	for stripe := range stripes {
		for _, o := range in {
			all, err := o.entries(stripe, nil)
			if err != nil {
				return err
			}
			for _, e := range all {
				if int(e.page) >= len(names) {
					return fmt.Errorf("%s: %w: page %d has no name", s.dir, ErrUnusable, e.page)
				}
				a := agents[e.agent]
				if err := each(Fact{names[e.page], e.id, a.Token, a.Class, e.kind, e.requests}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Verify reads every segment, and returns what is wrong with each that is not as it was written.
func (s *Store) Verify(ctx context.Context) (problems []error, err error) {
	segs, err := s.segments(ctx, "true")
	if err != nil {
		return nil, err
	}
	for _, seg := range segs {
		in, err := s.openAll(ctx, "number = ?", seg.number)
		for _, o := range in {
			var all []entry
			for stripe := range stripes {
				var bad error
				all, bad = o.entries(stripe, all[:0])
				err = errors.Join(err, bad)
			}
		}
		closeAll(in)
		if err != nil {
			problems = append(problems, err)
		}
	}
	return problems, context.Cause(ctx)
}
