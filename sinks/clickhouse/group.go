package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// groupRows and groupWindows bound a group; a window of more rows
	// is committed alone.
	groupRows    = 500_000
	groupWindows = keysAtOnce
	// groupMonths bounds the partitions of one INSERT. Servers refuse more than 100.
	groupMonths = 50
	// tries is the number of attempts to write a window before its error is returned.
	tries = 3
	// between is the wait before the second try; it doubles.
	between = 500 * time.Millisecond
	// turns is the number of times that a window waits for its turn where a table takes one insert
	// at a time, each time longestTurn at most: ten seconds or so.
	turns       = 30
	longestTurn = 500 * time.Millisecond
)

// delivery is one try to commit a window.
type delivery struct {
	sinks.Sealed
	ctx context.Context // its caller's
	// alone: it shares an INSERT with no other window.
	alone bool
	done  chan struct{} // closed when err is final

	// The rest belongs to the caller that leads the group, until done is closed.
	together bool // others were in the group
	attempt  uint64
	rows     int64 // as read
	err      error
}

// queue has the windows that wait while others are inserted. Those that wait at the
// same time are committed as one group, by one of their callers: committing each alone
// takes 8.5 times as long with 1,000 rows a window, and 3.8 times with 20,000.
type queue struct {
	// turn is held by the group whose rows are read and sent, marking by the one before
	// it, whose answers are awaited.
	turn, marking chan struct{}

	mu      sync.Mutex
	waiting []*delivery
}

func newQueue() queue {
	return queue{turn: make(chan struct{}, 1), marking: make(chan struct{}, 1)}
}

// Replace commits w; see the package comment for the protocol. Calls at the same time
// share its statements, and fail each for itself. Errors that may pass by themselves are
// tried again, each time as a new attempt.
//
// Replace returns when nothing reads w any more: if ctx ends while w is read for a group
// that others wait for, that is when the group is done.
func (s *Sink) Replace(ctx context.Context, w sinks.Sealed) error {
	if _, err := s.dataset(w.Revision().Report); err != nil {
		return err
	}
	const last = analytics.Date(1<<16 - 1)
	if rev := w.Revision(); rev.From < 0 || rev.To > last {
		return s.explain(fmt.Errorf("window %s: ClickHouse's Date holds %s to %s", rev.Window, analytics.Date(0), last))
	}
	alone := false
	for try := 1; ; try++ {
		d := &delivery{Sealed: w, ctx: ctx, alone: alone, done: make(chan struct{})}
		err := s.deliver(d)
		if d.together && isRefused(err) { // perhaps because of another window
			alone = true
			continue
		}
		wait, again := between<<min(try-1, tries), try < tries && isTransient(err)
		if e, ok := errors.AsType[*clickhouse.Exception](err); ok && e.Code == unsatisfiedQuorum {
			// Servers that take one insert with a quorum at a time: the turn of this window comes.
			wait, again = rand.N(longestTurn), try < turns
		}
		if !again || clock.Sleep(ctx, wait) != nil {
			return s.explain(err)
		}
	}
}

// deliver returns when d was committed, or could not be. No window waits for others to
// come: the first whose turn it is takes along those that wait.
func (s *Sink) deliver(d *delivery) error {
	s.queue.mu.Lock()
	s.queue.waiting = append(s.queue.waiting, d)
	s.queue.mu.Unlock()
	select {
	case s.queue.turn <- struct{}{}:
		if group := s.gather(d); group != nil {
			s.lead(group)
		} else {
			<-s.queue.turn // another caller leads the group of d
		}
	case <-d.done:
	case <-d.ctx.Done():
		if s.queue.take(d) {
			return context.Cause(d.ctx)
		}
	}
	<-d.done
	return d.err
}

// take removes d from those that wait. It reports whether d was among them.
func (q *queue) take(d *delivery) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, d)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// gather takes d and what fits with it from the waiting deliveries of its report, in the order in which they came.
// It returns nil if d has been taken before.
func (s *Sink) gather(d *delivery) []*delivery {
	if !s.queue.take(d) {
		return nil
	}
	group := []*delivery{d}
	if d.alone {
		return group
	}
	most := groupMonths
	if s.cluster != "" {
		most = 1 // an INSERT is then one part, and so waits for one quorum
	}
	rows, months := max(d.Revision().Rows, 0), map[int]bool{month(d): true}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.waiting = slices.DeleteFunc(s.queue.waiting, func(other *delivery) bool {
		more, m := max(other.Revision().Rows, 0), month(other)
		if other.alone || other.Revision().Report != d.Revision().Report || len(group) == groupWindows ||
			rows+more > groupRows || !months[m] && len(months) == most {
			return false
		}
		group, rows, months[m] = append(group, other), rows+more, true
		return true
	})
	for _, d := range group {
		d.together = len(group) > 1
	}
	return group
}

// month identifies the partition of a window.
func month(d *delivery) int {
	from := d.Revision().From.Time()
	return from.Year()*12 + int(from.Month())
}

// lead commits a group while it is its turn, and tells its callers.
func (s *Sink) lead(group []*delivery) {
	var callers []context.Context
	for _, d := range group {
		callers = append(callers, d.ctx)
	}
	ctx, stop := clock.UntilAllEnd(callers...)
	defer stop()
	next := sync.OnceFunc(func() { <-s.queue.turn })
	err := s.commit(ctx, group, next)
	next()
	for _, d := range group {
		if d.err == nil {
			d.err = err
		}
		close(d.done)
	}
}
