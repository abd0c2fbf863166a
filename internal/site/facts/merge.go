package facts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"github.com/docgauge/docgauge/internal/analytics"
)

// few is how many segments of one level and day are merged into one of the next.
const few = 8

// replace puts segments in the place of others, with further changes in the same transaction.
func (s *Store) replace(ctx context.Context, old, made []segment, also func(*sql.Tx) error) error {
	if err := s.syncSegments(); err != nil {
		return errors.Join(err, s.discard(made))
	}
	s.files.Lock()
	defer s.files.Unlock()
	err := s.write(ctx, func(tx *sql.Tx) error {
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
		s.unsettled.Store(true)
		return err
	}
	return s.discard(old)
}

// Merge merges segments until no day has many of one level. Damaged ones stay, and are the error once.
func (s *Store) Merge(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.settle(ctx); err != nil {
		return err
	}
	var damaged error
	for {
		full, err := query(ctx, s.sql, scanSegment, "SELECT 0, project, epoch, evidence, day, level, 0 FROM segments "+
			"WHERE "+s.sound()+" GROUP BY project, epoch, evidence, day, level HAVING count(*) >= ?", few)
		if err != nil {
			return err
		}
		merged := 0
		for _, f := range full {
			err := s.mergeThose(ctx, "project = ? AND epoch = ? AND evidence = ? AND day = ? AND level = ?", f.project,
				int(f.epoch), f.evidence, int(f.day), f.level)
			switch {
			case err == nil:
				merged++
			case errors.Is(err, ErrDamaged):
				damaged = errors.Join(damaged, err)
				merged++ // the others are still to be merged
			default:
				return err
			}
		}
		if merged == 0 {
			return damaged
		}
	}
}

// MergeDay merges all segments of a day, and all evidence of its epochs, so that nothing shows in which order its views
// came.
func (s *Store) MergeDay(ctx context.Context, day analytics.Date) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.settle(ctx); err != nil {
		return err
	}
	several, err := query(ctx, s.sql, scanSegment, "SELECT 0, project, epoch, evidence, day, 0, 0 FROM segments "+
		"WHERE (NOT evidence AND day = ? OR evidence AND epoch IN (?, ?)) AND "+s.sound()+
		" GROUP BY project, epoch, evidence HAVING count(*) > 1", int(day), int(EpochOf(day))-1, int(EpochOf(day)))
	if err != nil {
		return err
	}
	var damaged error
	for _, of := range several {
		err := s.mergeThose(ctx, "project = ? AND epoch = ? AND evidence = ? AND day = ?", of.project, int(of.epoch),
			of.evidence, int(of.day))
		if damaged = errors.Join(damaged, err); err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
	}
	return damaged
}

// sound is the condition of the segments to merge: all but those found damaged since the start. They are not read again
// each time, and the other segments of their day are merged.
func (s *Store) sound() string {
	numbers := []byte("0")
	for number := range s.damaged {
		numbers = strconv.AppendInt(append(numbers, ','), number, 10)
	}
	return "number NOT IN (" + string(numbers) + ")"
}

// Days returns the days of which there are several segments to merge.
func (s *Store) Days(ctx context.Context) ([]analytics.Date, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	return query(ctx, s.sql, func(row scanner) (d analytics.Date, err error) {
		err = row.Scan(&d)
		return d, err
	}, "SELECT DISTINCT day FROM segments WHERE NOT evidence AND "+s.sound()+" "+
		"GROUP BY project, epoch, day HAVING count(*) > 1 ORDER BY day")
}

// mergeThose merges the sound segments of a condition. If some are damaged it merges nothing, and keeps in mind which.
func (s *Store) mergeThose(ctx context.Context, where string, args ...any) error {
	segs, err := s.segments(ctx, where+" AND "+s.sound(), args...)
	if err != nil {
		return err
	}
	one, err := s.merge(segs)
	if errors.Is(err, ErrDamaged) {
		known := len(s.damaged)
		for _, seg := range segs {
			in, own := s.openThose([]segment{seg})
			for _, o := range in {
				own = o.verify()
			}
			closeAll(in)
			if errors.Is(own, ErrDamaged) {
				s.damaged[seg.number] = true
			}
		}
		if len(s.damaged) == known { // it can be read now: the next start tries again
			for _, seg := range segs {
				s.damaged[seg.number] = true
			}
		}
	}
	if err != nil {
		return err
	}
	return s.replace(ctx, segs, []segment{one}, nil)
}

// DropBefore removes the facts of days before one, the evidence of the epochs that end before it, and the answers about
// these days.
func (s *Store) DropBefore(ctx context.Context, day analytics.Date) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.settle(ctx); err != nil {
		return err
	}
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
	err = row.Scan(&seg.number, &seg.project, &seg.epoch, &seg.evidence, &seg.day, &seg.level, &seg.size)
	return seg, err
}

func (s *Store) segments(ctx context.Context, where string, args ...any) ([]segment, error) {
	return query(ctx, s.sql, scanSegment, "SELECT number, project, epoch, evidence, day, level, size FROM segments WHERE "+
		where+" ORDER BY day, number", args...)
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
		all, err := s.openThose(segs)
		if err == nil || s.lock != nil || !errors.Is(err, fs.ErrNotExist) || try == tries {
			return all, err
		}
	}
}

func (s *Store) openThose(segs []segment) (all []*opened, err error) {
	for _, seg := range segs {
		o, err := s.openSegment(seg)
		if err != nil {
			closeAll(all)
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

func closeAll(all []*opened) {
	for _, o := range all {
		_ = o.file.Close() // it was only read
	}
}
