package facts

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"path/filepath"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/durable"
)

// few is how many segments of one level and day are merged into one of the next.
const few = 8

// table finds the number of an id.
type table struct {
	slots []slot
	used  int
	mask  uint64
}

type slot struct {
	id     uint64
	number uint32
	taken  bool
}

// newTable returns a table for about n ids.
func newTable(n int) *table {
	size := 1 << bits.Len(uint(2*n+16))
	return &table{slots: make([]slot, size), mask: uint64(size - 1)}
}

func (t *table) clear() {
	clear(t.slots)
	t.used = 0
}

// add returns the number of an id; a new one gets the number given. Ids are hashes already.
func (t *table) add(id uint64, number uint32) (found uint32, isNew bool) {
	for at := id & t.mask; ; at = (at + 1) & t.mask {
		switch s := &t.slots[at]; {
		case !s.taken:
			if t.used++; t.used > len(t.slots)/2 {
				t.grow()
				return t.add(id, number)
			}
			*s = slot{id, number, true}
			return number, true
		case s.id == id:
			return s.number, false
		}
	}
}

func (t *table) grow() {
	old := t.slots
	*t = *newTable(len(old))
	for _, s := range old {
		if s.taken {
			t.add(s.id, s.number)
		}
	}
}

// rewrite writes segments of one day as one, with other ids if rekey is not nil.
func (s *Store) rewrite(segs []segment, rekey func(uint64) uint64) (out segment, err error) {
	var in []*opened
	defer func() {
		for _, o := range in {
			err = errors.Join(err, o.file.Close())
		}
	}()
	type entry struct {
		reader
		of   int32
		here uint32
	}
	var entries []entry
	numbers := make([][]uint32, len(segs)) // by segment and reader
	for i, seg := range segs {
		o, err := s.openSegment(seg)
		if err != nil {
			return out, err
		}
		in = append(in, o)
		numbers[i] = make([]uint32, o.readers)
		entries = slices.Grow(entries, int(o.readers))
		if err := o.allReaders(func(n uint32, r reader) {
			if rekey != nil {
				r.id = rekey(r.id)
			}
			entries = append(entries, entry{r, int32(i), n})
		}); err != nil {
			return out, err
		}
		out.level = max(out.level, seg.level)
	}
	slices.SortFunc(entries, func(x, y entry) int { return cmp.Compare(x.id, y.id) })
	out = segment{number: s.nextNumber(), project: segs[0].project, epoch: segs[0].epoch, day: segs[0].day, level: out.level}
	if len(segs) > 1 {
		out.level++
	}
	w, err := newWriter(s.dir, out.number)
	if err != nil {
		return out, err
	}
	readers := uint32(0)
	for i := 0; i < len(entries); readers++ {
		one := entries[i].reader
		for ; i < len(entries) && entries[i].id == one.id; i++ {
			one.kinds |= entries[i].kinds
			numbers[entries[i].of][entries[i].here] = readers
		}
		w.reader(one)
	}
	w.next()
	for i := range stripes {
		w.err = errors.Join(w.err, eachPage(in, i, func(page int32, of []*pages) {
			var facts []fact
			for _, p := range of {
				own := numbers[slices.Index(in, p.of)]
				p.each(func(f fact) { facts = append(facts, newFact(own[f.reader()], f.kind(), f.requests())) })
			}
			slices.Sort(facts)
			w.write(page, merged(facts))
		}))
		w.next()
	}
	out.size, err = w.close(out.day)
	return out, err
}

// eachPage calls do with each page of a stripe of several segments, and those that have it, whose
// facts it must read.
func eachPage(in []*opened, stripe int, do func(page int32, of []*pages)) error {
	all := make([]*pages, len(in))
	for i, o := range in {
		all[i] = o.stripe(stripe)
	}
	var having []*pages
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
		having = having[:0]
		for _, p := range all {
			if !p.done && p.page == least {
				having = append(having, p)
			}
		}
		do(least, having)
		for _, p := range having {
			p.next()
		}
	}
	var errs []error
	for _, p := range all {
		errs = append(errs, p.err)
	}
	return errors.Join(errs...)
}

// replace puts segments in the place of others, with further changes in the same transaction.
func (s *Store) replace(ctx context.Context, old, made []segment, also func(*sql.Tx) error) error {
	err := durable.SyncDir(filepath.Join(s.dir, segmentDir))
	if err != nil {
		return errors.Join(err, s.discard(made))
	}
	s.files.Lock()
	defer s.files.Unlock()
	err = s.write(ctx, func(tx *sql.Tx) error {
		for _, seg := range old {
			res, err := tx.Exec("DELETE FROM segments WHERE number = ?", seg.number)
			if err != nil {
				return err
			}
			if n, err := res.RowsAffected(); err != nil || n != 1 {
				return errors.Join(err, fmt.Errorf("segment %d: was removed by another process", seg.number))
			}
		}
		for _, seg := range made {
			if err := insert(tx, seg); err != nil {
				return err
			}
		}
		if also != nil {
			return also(tx)
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, s.discard(made))
	}
	return s.discard(old)
}

// Merge merges segments until no day has many of one level.
func (s *Store) Merge(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	for {
		full, err := query(ctx, s.sql, scanSegment, "SELECT 0, project, epoch, day, level, 0 FROM segments "+
			"GROUP BY project, epoch, day, level HAVING count(*) >= ?", few)
		if err != nil || len(full) == 0 {
			return err
		}
		for _, f := range full {
			if err := s.mergeThose(ctx, "project = ? AND epoch = ? AND day = ? AND level = ?", f.project, int(f.epoch),
				int(f.day), f.level); err != nil {
				return err
			}
		}
	}
}

// MergeDay merges all segments of a day, so that nothing shows in which order its views came.
func (s *Store) MergeDay(ctx context.Context, day analytics.Date) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	several, err := query(ctx, s.sql, scanSegment, "SELECT 0, project, epoch, day, 0, 0 FROM segments WHERE day = ? "+
		"GROUP BY project, epoch HAVING count(*) > 1", int(day))
	for _, of := range several {
		if err := s.mergeThose(ctx, "project = ? AND epoch = ? AND day = ?", of.project, int(of.epoch), int(day)); err != nil {
			return err
		}
	}
	return err
}

// Days returns the days of which there are several segments.
func (s *Store) Days(ctx context.Context) ([]analytics.Date, error) {
	return query(ctx, s.sql, func(row scanner) (d analytics.Date, err error) {
		err = row.Scan(&d)
		return d, err
	}, "SELECT DISTINCT day FROM segments GROUP BY project, epoch, day HAVING count(*) > 1 ORDER BY day")
}

func (s *Store) mergeThose(ctx context.Context, where string, args ...any) error {
	segs, err := s.segments(ctx, where, args...)
	if err != nil {
		return err
	}
	one, err := s.rewrite(segs, nil)
	if err != nil {
		return err
	}
	return s.replace(ctx, segs, []segment{one}, nil)
}

// DropBefore removes the facts of days before one, and the answers about them.
func (s *Store) DropBefore(ctx context.Context, day analytics.Date) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	old, err := s.segments(ctx, "day < ?", int(day))
	if err != nil || len(old) == 0 {
		return err
	}
	return s.replace(ctx, old, nil, func(tx *sql.Tx) error {
		_, err := tx.Exec("DELETE FROM days WHERE day < ?", int(day))
		if err == nil {
			_, err = tx.Exec("DELETE FROM answers WHERE from_day < ?", int(day))
		}
		return err
	})
}

func scanSegment(row scanner) (seg segment, err error) {
	err = row.Scan(&seg.number, &seg.project, &seg.epoch, &seg.day, &seg.level, &seg.size)
	return seg, err
}

func (s *Store) segments(ctx context.Context, where string, args ...any) ([]segment, error) {
	return query(ctx, s.sql, scanSegment, "SELECT number, project, epoch, day, level, size FROM segments WHERE "+where+
		" ORDER BY day, number", args...)
}

// openAll opens the segments of a condition. Their files stay readable when others replace them.
func (s *Store) openAll(ctx context.Context, where string, args ...any) (all []*opened, err error) {
	s.files.RLock()
	defer s.files.RUnlock()
	const tries = 10 // another process may replace them between the list and the files
	for try := 0; ; try++ {
		segs, err := s.segments(ctx, where, args...)
		if err != nil {
			return nil, err
		}
		for _, seg := range segs {
			var o *opened
			if o, err = s.openSegment(seg); err != nil {
				break
			}
			all = append(all, o)
		}
		if err == nil {
			return all, nil
		}
		closeAll(all)
		all = nil
		if s.lock != nil || !errors.Is(err, fs.ErrNotExist) || try == tries {
			return nil, err
		}
	}
}

func closeAll(all []*opened) {
	for _, o := range all {
		_ = o.file.Close() // it was only read
	}
}
