package clickhouse

import (
	"context"
	"fmt"
	"sync"
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

// TestTwoWriters lets two sinks write one window, also where the clock of the second is an hour behind: it
// learns from the table, and then from the first one's markers, which are greater than its own.
func TestTwoWriters(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		for _, off := range []time.Duration{-time.Hour, 0} {
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
	for round := range int32(5) { // at once: a window whose commit returned nil is shown
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
			t.Errorf("round %d: readers see the rows of writer %d, errors %v", round, got, errs)
		}
	}
	attemptsAreApart(t, writers[0])
}

// sizeOfRound is the rows of a revision that two writers write at once.
func sizeOfRound(number int32) int64 { return 50 + int64(number)%7 }

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
