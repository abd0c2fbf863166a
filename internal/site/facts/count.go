package facts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sqlite"
)

// Answer is what a report says of a window: of the site, and of each page.
type Answer[T, R any] struct {
	Totals T
	Rows   []R
}

// Visitors are the readers of the site, and of each page that has some: by total from the largest,
// then by path.
type Visitors = Answer[analytics.Totals, analytics.Row]

// CountVisitors counts the readers of the days from from to to, exclusive, which one epoch must have:
// that of the month of from. An error names what is damaged.
func (s *Store) CountVisitors(ctx context.Context, project string, from, to analytics.Date) (a Visitors, err error) {
	in, names, err := s.openWindow(ctx, project, from, to)
	if err != nil {
		return a, err
	}
	defer closeAll(in)
	pages := make([]analytics.Totals, len(names))
	err = countStripes(ctx, in, visitorsOf, func(own stripeVisitors) error {
		add(&a.Totals, own.totals) // no reader is in two stripes
		for _, p := range own.pages {
			if int(p.page) >= len(pages) {
				return s.nameless(p.page)
			}
			add(&pages[p.page], p.totals)
		}
		return nil
	})
	if err != nil {
		return Visitors{}, err
	}
	for i, n := range pages {
		if n.Total > 0 {
			a.Rows = append(a.Rows, analytics.Row{Path: names[i], Totals: analytics.Totals{Human: n.Human, AI: n.AI,
				Total: n.Total}})
		}
	}
	slices.SortFunc(a.Rows, analytics.ByVisitors)
	return a, nil
}

// openWindow opens the segments of some days, and then reads the names of pages: a commit that adds pages between the
// two adds names that no open segment has, never the reverse.
func (s *Store) openWindow(ctx context.Context, project string, from, to analytics.Date) (in []*opened,
	names []string, err error) {
	epoch := EpochOf(from)
	if to > epoch.To() {
		return nil, nil, fmt.Errorf("[%s,%s): no epoch has all its days", from, to)
	}
	if in, err = s.openAll(ctx, "project = ? AND epoch = ? AND day >= ? AND day < ?", project, int(epoch),
		int(from), int(to)); err != nil {
		return nil, nil, err
	}
	err = s.step("names", func() error {
		names, err = s.paths(ctx)
		return err
	})
	if err != nil {
		closeAll(in)
		return nil, nil, err
	}
	return in, names, nil
}

// countStripes counts the stripes of open segments, several at a time, and adds up what they have, one at a time.
func countStripes[T any](ctx context.Context, in []*opened, count func(in []*opened, stripe int) (T, error),
	add func(T) error) error {
	if len(in) == 0 {
		return nil
	}
	var adding sync.Mutex
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for stripe := range stripes {
		group.Go(func() error {
			own, err := count(in, stripe)
			if err == nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				return err
			}
			adding.Lock()
			defer adding.Unlock()
			return add(own)
		})
	}
	return group.Wait()
}

// nameless is that a segment has the number of a page that the database does not have.
func (s *Store) nameless(number int32) error {
	return fmt.Errorf("%s: %w: page %d has no name", s.dir, ErrUnusable, number)
}

func add(to *analytics.Totals, n analytics.Totals) {
	to.Human += n.Human
	to.AI += n.AI
	to.Total += n.Total
}

// stripeVisitors is the readers of a stripe, and of each page in it.
type stripeVisitors struct {
	totals analytics.Totals
	pages  []pageTotals
}

type pageTotals struct {
	page   int32
	totals analytics.Totals
}

func visitorsOf(in []*opened, stripe int) (c stripeVisitors, err error) {
	numbers, err := number(in, stripe, nil, func(_ uint32, _ int32, kinds uint8) {
		human, ai := int64(kinds>>Human&1), int64(kinds>>AI&1)
		add(&c.totals, analytics.Totals{Human: human, AI: ai, Total: human | ai})
	})
	if err != nil {
		return c, err
	}
	var readers readerSet
	err = eachPage(in, stripe, numbers, func(own []uint32, p *pages) {
		p.each(func(f fact) {
			if kind := f.kind(); kind < Neither {
				readers.Add(own[f.reader()]<<1 | uint32(kind))
			}
		})
	}, func(page int32) {
		if n := readers.Totals(); n.Total > 0 {
			c.pages = append(c.pages, pageTotals{page, n})
		}
		readers.clear()
	})
	return c, err
}

// eachPage goes through the pages of a stripe, in order: facts gets those of a page in each segment that
// has some, with the numbers of their readers; then done is called.
func eachPage(in []*opened, stripe int, numbers [][]uint32, facts func(own []uint32, p *pages),
	done func(page int32)) (err error) {
	all := make([]*pages, len(in))
	for i, o := range in {
		all[i] = o.pages(stripe, len(numbers[i]))
	}
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
		for i, p := range all {
			if !p.done && p.page == least {
				facts(numbers[i], p)
				p.next()
			}
		}
		done(least)
	}
	for _, p := range all {
		err = errors.Join(err, p.err)
	}
	return err
}

// perRange is the approximate number of readers that are sorted at once: 4096, because these fit into the
// processor's cache. Tests set a smaller number, so that a few readers fill several ranges.
var perRange = 1 << 12

// number numbers the readers of a stripe of several segments of an epoch, densely. It takes them by
// ranges of ids: segments have them in order. groups has the group of each agent, by its number and 2; a
// reader whose segments have agents of several groups is a reader in each. nil: there is one group. each
// is called with the number, group and kinds of every reader.
func number(in []*opened, stripe int, groups []int32, each func(number uint32, group int32, kinds uint8),
) (numbers [][]uint32, err error) {
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
		for i, of := range from {
			of.until(last, func(r reader) {
				// The page is the segment, the agent is the reader's place in it, and the requests are its group.
				e := entry{id: r.id, page: int32(i), agent: int32(len(numbers[i])), kind: r.kinds}
				numbers[i] = append(numbers[i], 0)
				if groups != nil {
					if r.agent < Network || int(r.agent-Network) >= len(groups) {
						of.fail(fmt.Sprintf("agent %d has no name", r.agent))
						return
					}
					e.requests = uint32(groups[r.agent-Network])
				}
				all = append(all, e)
			})
		}
		x.entries = all
		all = sortIDs(all, same, x)
		inRuns(all, func(a, b *entry) bool { return a.requests == b.requests },
			func(a, b entry) int { return cmp.Compare(a.requests, b.requests) })
		for i := 0; i < len(all); next++ {
			id, group, kinds := all[i].id, all[i].requests, uint8(0)
			for ; i < len(all) && all[i].id == id && all[i].requests == group; i++ {
				kinds |= all[i].kind
				numbers[all[i].page][all[i].agent] = next
			}
			each(next, int32(group), kinds)
		}
		if last == lastOf(stripe) {
			break
		}
	}
	for _, of := range from {
		err = errors.Join(err, of.end())
	}
	return numbers, err
}

// Changed returns the number of the newest commit that added facts of these days; 0: none.
func (s *Store) Changed(ctx context.Context, project string, from, to analytics.Date) (changed int64, err error) {
	err = s.sql.QueryRowContext(ctx, "SELECT coalesce(max(changed), 0) FROM days WHERE project = ? AND day >= ? "+
		"AND day < ?",
		project, int(from), int(to)).Scan(&changed)
	return changed, err
}

// FirstDay returns the first day with facts of a project from a day on; nil without any. One before trusted counts only
// if facts of another day follow within a month: a line with a wrong date must not move it by years.
func (s *Store) FirstDay(ctx context.Context, project string, from, trusted analytics.Date) (*analytics.Date, error) {
	const month = 31
	days, err := query(ctx, s.sql, func(row scanner) (day analytics.Date, err error) {
		err = row.Scan(&day)
		return day, err
	}, "SELECT day FROM days AS this WHERE project = ? AND day >= ? AND (day >= ? OR EXISTS (SELECT 1 FROM days "+
		"WHERE project = this.project AND day > this.day AND day <= this.day + ?)) ORDER BY day LIMIT 1",
		project, int(from), int(trusted), month)
	if err != nil || len(days) == 0 {
		return nil, err
	}
	return &days[0], nil
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

// Facts calls each with the facts of a day, as the epoch of its month has them, but for paths that are not
// there.
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
	all, err := s.agents(ctx)
	if err != nil {
		return err
	}
	agents := map[int32]Agent{}
	for _, a := range all {
		agents[a.Number] = a
	}
	for stripe := range stripes {
		for _, o := range in {
			all, err := o.entries(stripe, nil)
			if err != nil {
				return err
			}
			for _, e := range all {
				if e.kind == Missed {
					continue
				}
				if int(e.page) >= len(names) {
					return s.nameless(e.page)
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

// verify reads a segment.
func (o *opened) verify() (err error) {
	var all []entry
	for stripe := range stripes {
		var bad error
		all, bad = o.entries(stripe, all[:0])
		err = errors.Join(err, bad)
	}
	return err
}

// Verify reads the database and every segment, and returns what is wrong with each that is not as it was written.
func (s *Store) Verify(ctx context.Context) (problems []error, err error) {
	if err := unusable(sqlite.Check(ctx, s.sql)); errors.Is(err, ErrUnusable) {
		problems = append(problems, err)
	} else if err != nil {
		return nil, err
	}
	segs, err := s.segments(ctx, "true")
	if err != nil {
		return problems, err
	}
	for _, seg := range segs {
		in, err := s.openAll(ctx, "number = ?", seg.number)
		for _, o := range in {
			err = errors.Join(err, o.verify())
		}
		closeAll(in)
		if err != nil {
			problems = append(problems, err)
		}
	}
	return problems, context.Cause(ctx)
}
