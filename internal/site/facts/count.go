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

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/count"
)

// Answer is the readers of a window, and of each page that has some.
type Answer struct {
	Totals analytics.Totals
	Rows   []analytics.Row // by total from the largest, then by path
}

// perPart is about how many readers are numbered at once: their ids fit into a processor's cache.
const perPart = 1 << 15

// Count counts the readers of the days from from to to, exclusive, which one epoch must have: that
// of the month of from. An error names what is damaged.
func (s *Store) Count(ctx context.Context, project string, from, to analytics.Date) (a Answer, err error) {
	epoch := EpochOf(from)
	if to > epoch.To() {
		return a, fmt.Errorf("[%s,%s): no epoch has all its days", from, to)
	}
	in, err := s.openAll(ctx, "project = ? AND epoch = ? AND day >= ? AND day < ?", project, int(epoch), int(from), int(to))
	if err != nil || len(in) == 0 {
		return a, err
	}
	defer closeAll(in)
	numbers, totals, err := number(in)
	if err != nil {
		return a, err
	}
	names, err := s.paths(ctx)
	if err != nil {
		return a, err
	}
	a.Totals = totals
	rows := make([][]analytics.Row, stripes)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for stripe := range stripes {
		group.Go(func() error {
			var readers count.Readers
			err := eachPage(in, stripe, func(page int32, of []*pages) {
				readers.Clear()
				for _, p := range of {
					own := numbers[slices.Index(in, p.of)]
					p.each(func(f fact) {
						if kind := f.kind(); kind < Neither {
							readers.Add(own[f.reader()]<<1 | uint32(kind))
						}
					})
				}
				if n := readers.Totals(); n.Total > 0 {
					path := ""
					if int(page) < len(names) {
						path = names[page]
					}
					rows[stripe] = append(rows[stripe], analytics.Row{Path: path, Human: n.Human, AI: n.AI, Total: n.Total})
				}
			})
			return errors.Join(err, context.Cause(ctx))
		})
	}
	if err := group.Wait(); err != nil {
		return Answer{}, err
	}
	a.Rows = slices.Concat(rows...)
	if slices.ContainsFunc(a.Rows, func(r analytics.Row) bool { return r.Path == "" }) {
		return Answer{}, fmt.Errorf("%s: %w: a page has no name", s.dir, ErrUnusable)
	}
	slices.SortFunc(a.Rows, func(x, y analytics.Row) int {
		return cmp.Or(cmp.Compare(y.Total, x.Total), strings.Compare(x.Path, y.Path))
	})
	return a, nil
}

// number numbers the readers of several segments of an epoch, densely, and counts them. All ids are
// sorted: they are numbered a range at a time.
func number(in []*opened) (numbers [][]uint32, totals analytics.Totals, err error) {
	all := 0
	streams := make([]*stream, len(in))
	numbers = make([][]uint32, len(in))
	for i, o := range in {
		all += int(o.readers)
		streams[i] = o.section(0)
		numbers[i] = make([]uint32, 0, o.readers)
	}
	partBits := bits.Len(uint(all / perPart))
	ids := newTable(2 * perPart)
	ahead := make([]reader, len(in)) // the next reader of each, if there is one
	has := make([]bool, len(in))
	step := func(i int) {
		last := ahead[i].id
		if has[i] = streams[i].more(); has[i] {
			ahead[i] = streams[i].reader()
			if len(numbers[i]) > 0 && ahead[i].id <= last || len(numbers[i]) == int(in[i].readers) {
				streams[i].fail("order of readers")
				has[i] = false
			}
		}
	}
	for i := range in {
		step(i)
	}
	next := uint32(0)
	var kinds []uint8 // of the readers of this part
	for part := range uint64(1) << partBits {
		ids.clear()
		kinds = kinds[:0]
		first := next
		for i := range in {
			for has[i] && ahead[i].id>>(64-partBits) == part {
				n, isNew := ids.add(ahead[i].id, next)
				if isNew {
					next++
					kinds = append(kinds, 0)
				}
				kinds[n-first] |= ahead[i].kinds
				numbers[i] = append(numbers[i], n)
				step(i)
			}
		}
		for _, k := range kinds {
			human, ai := int64(k>>Human&1), int64(k>>AI&1)
			totals.Human += human
			totals.AI += ai
			totals.Total += human | ai
		}
	}
	for i, o := range in {
		if streams[i].err == nil && len(numbers[i]) != int(o.readers) {
			streams[i].fail("number of readers")
		}
		err = errors.Join(err, streams[i].err)
	}
	return numbers, totals, err
}

// Changed returns the number of the newest commit that added facts of these days; 0: none.
func (s *Store) Changed(ctx context.Context, project string, from, to analytics.Date) (changed int64, err error) {
	err = s.sql.QueryRowContext(ctx, "SELECT coalesce(max(changed), 0) FROM days WHERE project = ? AND day >= ? AND day < ?",
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
	readers := make([][]reader, len(in))
	for i, o := range in {
		if err := o.allReaders(func(_ uint32, one reader) { readers[i] = append(readers[i], one) }); err != nil {
			return err
		}
	}
	for stripe := range stripes {
		var failed error
		err := eachPage(in, stripe, func(page int32, of []*pages) {
			for _, p := range of {
				own := readers[slices.Index(in, p.of)]
				p.each(func(f fact) {
					one := own[f.reader()]
					a := agents[one.agent]
					if failed == nil && int(page) < len(names) {
						failed = each(Fact{names[page], one.id, a.Token, a.Class, f.kind(), f.requests()})
					}
				})
			}
		})
		if err := errors.Join(err, failed); err != nil {
			return err
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
			err = errors.Join(err, o.allReaders(func(uint32, reader) {}))
			for stripe := range stripes {
				err = errors.Join(err, eachPage([]*opened{o}, stripe, func(_ int32, of []*pages) { of[0].each(func(fact) {}) }))
			}
		}
		closeAll(in)
		if err != nil {
			problems = append(problems, err)
		}
	}
	return problems, context.Cause(ctx)
}
