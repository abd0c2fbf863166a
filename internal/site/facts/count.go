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
// the epoch of the month of from. Of the people only those count whom the mode wants. An error names what is damaged.
func (s *Store) CountVisitors(
	ctx context.Context, project string, from, to analytics.Date, mode analytics.Humans,
) (a Visitors, err error) {
	w, err := s.openWindow(ctx, project, from, to, mode == analytics.Confirmed)
	if err != nil {
		return a, err
	}
	defer w.close()
	pages := make([]analytics.Totals, len(w.names))
	err = countStripes(ctx, w, visitorsOf, func(own stripeVisitors) error {
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
			a.Rows = append(a.Rows, analytics.Row{Path: w.names[i], Totals: n})
		}
	}
	slices.SortFunc(a.Rows, analytics.ByVisitors)
	return a, nil
}

// window has the open segments of some days of a project in one epoch.
type window struct {
	days []*opened
	// evidence is of the epoch. It counts if it is of a day before this one, counted from the first of the epoch.
	evidence []*opened
	before   int32
	// confirms: the window has the evidence.
	confirms bool
	names    []string // of pages
}

// openWindow opens the segments of some days, and then reads the names of pages: a commit that adds pages between the
// two adds names that no open segment has, never the reverse.
func (s *Store) openWindow(
	ctx context.Context, project string, from, to analytics.Date, evidence bool,
) (_ *window, err error) {
	return s.openEpoch(ctx, project, EpochOf(from), from, to, evidence)
}

func (s *Store) openEpoch(
	ctx context.Context, project string, epoch Epoch, from, to analytics.Date, evidence bool,
) (_ *window, err error) {
	if from < epoch.From() || to > epoch.To() {
		return nil, fmt.Errorf("[%s,%s): no epoch has all its days", from, to)
	}
	all, err := s.openAll(ctx, "project = ? AND epoch = ? AND (NOT evidence AND day >= ? AND day < ? OR evidence AND ?)",
		project, int(epoch), int(from), int(to), evidence)
	if err != nil {
		return nil, err
	}
	w := &window{before: int32(to - epoch.From()), confirms: evidence}
	for _, o := range all {
		if o.evidence {
			w.evidence = append(w.evidence, o)
		} else {
			w.days = append(w.days, o)
		}
	}
	err = s.step("names", func() error {
		w.names, err = s.paths(ctx)
		return err
	})
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *window) close() {
	closeAll(w.days)
	closeAll(w.evidence)
}

// countStripes counts the stripes of a window, several at a time, and adds up what they have, one at a time.
func countStripes[T any](ctx context.Context, w *window, count func(w *window, stripe int) (T, error),
	add func(T) error) error {
	if len(w.days) == 0 {
		return nil
	}
	var adding sync.Mutex
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for stripe := range stripes {
		group.Go(func() error {
			own, err := count(w, stripe)
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

func visitorsOf(w *window, stripe int) (c stripeVisitors, err error) {
	var people []bool // whether a reader counts as human, by number; nil: all do
	numbers, err := number(w, stripe, nil, func(r numbered) {
		human, ai := int64(r.kinds>>Human&1), int64(r.kinds>>AI&1)
		if w.confirms {
			if people = append(people, r.shown); !r.shown {
				human = 0
			}
		}
		add(&c.totals, analytics.Totals{Human: human, AI: ai, Total: human | ai})
	})
	if err != nil {
		return c, err
	}
	var readers readerSet
	err = eachPage(w.days, stripe, numbers, func(own []uint32, p *pages) {
		p.each(func(f fact) {
			kind, reader := f.category.kind(), own[f.reader]
			if kind == AI || kind == Human && (people == nil || people[reader]) {
				readers.Add(reader<<1 | uint32(kind))
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

// eachPage goes through the pages of a stripe, in order: facts gets the facts of a page in each segment that
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

// numbered is a reader of a window.
type numbered struct {
	number uint32
	group  int32
	kinds  uint8
	shown  bool // there is evidence
}

// number numbers the readers of a stripe of a window densely. It takes them by ranges of ids: segments have them in
// order. groups has the group of each agent, by its number and 2; a reader whose segments have agents of several groups
// is a reader in each. nil: there is one group. each is called with every reader.
func number(w *window, stripe int, groups []int32, each func(numbered)) (numbers [][]uint32, err error) {
	x := scratches.Get().(*scratch)
	defer scratches.Put(x)
	numbers = make([][]uint32, len(w.days))
	from, size := make([]*readers, len(w.days)), 0
	for i, o := range w.days {
		from[i] = o.readers(stripe)
		numbers[i] = make([]uint32, 0, from[i].size)
		size += from[i].size
	}
	evidence := make([]*readers, len(w.evidence))
	for i, o := range w.evidence {
		evidence[i] = o.readers(stripe)
	}
	same := stripeBits + bits.Len(uint(size/perRange)) // bits of all ids of a range
	next, step := uint32(0), uint64(1)<<(64-same)
	for last := firstOf(stripe) + step - 1; ; last += step {
		all := x.entries[:0]
		for i, of := range from {
			of.until(last, func(r reader) {
				// The page is the segment, the agent is the reader's place in it, the requests are its group, and the category
				// is its kinds.
				e := entry{id: r.id, page: int32(i), agent: int32(len(numbers[i])), category: category(r.kinds)}
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
			id, r := all[i].id, numbered{number: next, group: int32(all[i].requests)}
			for ; i < len(all) && all[i].id == id && int32(all[i].requests) == r.group; i++ {
				r.kinds |= uint8(all[i].category)
				numbers[all[i].page][all[i].agent] = next
			}
			if r.kinds>>Human&1 != 0 {
				for _, of := range evidence {
					r.shown = of.has(id, w.before) || r.shown
				}
			}
			each(r)
		}
		if last == lastOf(stripe) {
			break
		}
	}
	for _, of := range from {
		err = errors.Join(err, of.end())
	}
	for _, of := range evidence {
		err = errors.Join(err, of.err)
	}
	return numbers, err
}

// Changed returns the number of the newest commit that added facts of these days, or evidence that counts in them;
// 0: none.
func (s *Store) Changed(ctx context.Context, project string, from, to analytics.Date) (changed int64, err error) {
	err = s.sql.QueryRowContext(ctx, "SELECT coalesce(max(changed), 0) FROM days WHERE project = ? AND "+
		"(NOT evidence AND day >= ? OR evidence AND day >= ?) AND day < ?",
		project, int(from), int(EpochOf(from).From()), int(to)).Scan(&changed)
	return changed, err
}

// FirstDay returns the first day with facts of a project from a day on; nil without any. One that is years before today
// counts only if facts of another day follow within a month: a server's clock that was wrong must not move it by years.
func (s *Store) FirstDay(ctx context.Context, project string, from, today analytics.Date) (*analytics.Date, error) {
	const days, months = 31, 25
	trusted := (EpochOf(today) - months).From()
	found, err := query(ctx, s.sql, func(row scanner) (day analytics.Date, err error) {
		err = row.Scan(&day)
		return day, err
	}, "SELECT day FROM days AS this WHERE project = ? AND NOT evidence AND day >= ? AND (day >= ? OR EXISTS "+
		"(SELECT 1 FROM days WHERE project = this.project AND NOT evidence AND day > this.day AND day <= this.day + ?)) "+
		"ORDER BY day LIMIT 1",
		project, int(from), int(trusted), days)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Fact is one page that one reader got on a day, so many times.
type Fact struct {
	Path     string
	Reader   uint64 // the same for all days of a numbering
	Agent    string // empty: a person's browser
	Class    string
	Kind     uint8
	Source   string // of a person's visit; else empty
	Markdown bool
	Requests uint32
	Bytes    int64           // or Unsaid
	Shown    *analytics.Date // the first day of the epoch with evidence that the reader is a browser; nil: none
}

// Facts calls each with the facts of a day, but for paths that are not there; Shown is set if wanted.
func (s *Store) Facts(
	ctx context.Context, n Numbering, day analytics.Date, shown bool, each func(Fact) error,
) error {
	w, err := s.openDay(ctx, n, day, true, shown)
	if err != nil {
		return err
	}
	defer w.close()
	allAgents, err := s.agents(ctx)
	if err != nil {
		return err
	}
	agents := map[int32]Agent{}
	for _, a := range allAgents {
		agents[a.Number] = a
	}
	referrals, err := s.referrals(ctx)
	if err != nil {
		return err
	}
	sources := map[int32]string{}
	for _, r := range referrals {
		sources[r.Number] = r.Name
	}
	for stripe := range stripes {
		shown := map[uint64]*analytics.Date{}
		for _, o := range w.evidence {
			all, err := o.entries(stripe, nil)
			if err != nil {
				return err
			}
			for _, e := range all {
				first := o.epoch.From() + analytics.Date(e.agent-agentOfDay(0))
				if known := shown[e.id]; known == nil || first < *known {
					shown[e.id] = &first
				}
			}
		}
		for _, o := range w.days {
			all, err := o.entries(stripe, nil)
			if err != nil {
				return err
			}
			for _, e := range all {
				kind, a := e.category.kind(), agents[e.agent]
				if kind >= Missed {
					continue
				}
				if int(e.page) >= len(w.names) {
					return s.nameless(e.page)
				}
				if err := each(Fact{w.names[e.page], n.reader(e.id), a.Token, a.Class, kind, sources[e.category.referral()],
					e.category.markdown(), e.requests, e.bytes, shown[e.id]}); err != nil {
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
