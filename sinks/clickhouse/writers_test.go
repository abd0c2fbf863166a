package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// withClock opens a sink whose clock is off.
func withClock(t *testing.T, dsn string, off time.Duration) *Sink {
	t.Helper()
	s := open(t, dsn)
	s.attempts.now = func() time.Time { return time.Now().Add(off) }
	return s
}

// TestTwoWriters lets two sinks write one window, with clocks an hour apart.
func TestTwoWriters(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		for _, off := range []time.Duration{time.Hour, -time.Hour, 0} {
			t.Run(off.String(), func(t *testing.T) { t.Parallel(); twoWriters(t, e, off) })
		}
	})
}

func twoWriters(t *testing.T, e engine, off time.Duration) {
	dsn := e.DSN(database(t, e))
	writers := []*Sink{open(t, dsn), withClock(t, dsn, off)}
	r := newReader(t, dsn)
	key := windowOf(0, 1, 0).Rev.Key
	for i := range int32(6) { // by turns: the later Replace is shown
		if err := writers[i%2].Replace(t.Context(), windowOf(0, i+1, int64(100+i))); err != nil {
			t.Errorf("Replace = %v", err)
		} else if got := r.shown(key); got != i+1 {
			t.Errorf("readers see revision %d after Replace of %d", got, i+1)
		}
	}
	for round := range int32(5) { // at once: one of those that returned nil is shown
		var wait sync.WaitGroup
		var errs [2]error
		for i, s := range writers {
			wait.Go(func() {
				errs[i] = s.Replace(t.Context(), windowOf(0, 100+2*round+int32(i), sizeOfRound(100+2*round+int32(i))))
			})
		}
		for range 4 {
			if err := r.wholeVisitors(sizeOfRound); round > 0 && err != nil {
				t.Error(err)
			}
		}
		wait.Wait()
		got := r.shown(key) - 100 - 2*round
		if got != 0 && got != 1 || errs[got] != nil && errs[1-got] == nil {
			t.Errorf("round %d: readers see that of writer %d, errors %v", round, got, errs)
		}
	}
	attemptsAreApart(t, writers[0])
}

// sizeOfRound is the rows of a revision that two writers write at once.
func sizeOfRound(number int32) int64 { return 50 + int64(number)%7 }

// TestReadersDuringReexports polls both views while a large window is written
// again and again at another size.
func TestReadersDuringReexports(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		watched(t, e, 12, map[int32]int64{1: 2*blockRows + 9000, 2: blockRows + 5000}, 2)
	})
}

// watched alternates between two revisions under the eyes of readers.
func watched(t *testing.T, e engine, reexports int, sizes map[int32]int64, readers int) {
	dsn := e.DSN(database(t, e))
	s := open(t, dsn)
	replace(t, s, windowOf(0, 2, sizes[2]))
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	var reads atomic.Int64
	for range readers {
		r := newReader(t, dsn)
		wait.Go(func() {
			for ; ctx.Err() == nil; reads.Add(1) {
				size := func(number int32) int64 { return sizes[number] }
				if err := errors.Join(r.wholeVisitors(size), r.wholeTotals(size)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range int32(reexports) {
		if err := s.Replace(t.Context(), windowOf(0, 1+i%2, sizes[1+i%2])); err != nil {
			t.Errorf("Replace = %v", err)
			break
		}
	}
	stop()
	wait.Wait()
	t.Logf("%d reads during %d re-exports", reads.Load(), reexports)
}

// wholeVisitors reads the view of rows once and expects one whole revision.
func (r reader) wholeVisitors(size func(int32) int64) error {
	var rows, low, high uint64
	query := fmt.Sprintf("SELECT toUInt64(count()), toUInt64(min(revision)), toUInt64(max(revision)) FROM %s WHERE "+
		"%s AND human = revision",
		visitors.view, is(windowOf(0, 1, 0).Rev.Key))
	if err := r.conn.QueryRow(context.Background(), query).Scan(&rows, &low, &high); err != nil {
		return err
	}
	if low != high || int64(rows) != size(int32(low)) || rows == 0 {
		return fmt.Errorf("a reader sees %d rows of revisions %d to %d", rows, low, high)
	}
	return nil
}

// wholeTotals reads the view of totals once and expects one revision.
func (r reader) wholeTotals(size func(int32) int64) error {
	totals, err := r.Totals(windowOf(0, 1, 0).Rev.Key)
	if err != nil || len(totals) != 1 || totals[0].Rows != size(totals[0].Number) {
		return fmt.Errorf("a reader sees totals %v, %w", totals, err)
	}
	return nil
}
