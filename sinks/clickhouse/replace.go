package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// pause is the time between the rows and their marker on servers that may
	// read the marker after the rows. A query takes the states of both tables
	// within milliseconds of each other, while it is planned; this is a hundred
	// times as long.
	pause = 100 * time.Millisecond
	// tries is how often a window is written before its error is returned.
	tries = 3
	// between is the wait before the second try; it doubles.
	between = 500 * time.Millisecond
	// turns is how often a window waits for its turn where a table takes one
	// insert at a time, each time longestTurn at most: ten seconds or so.
	turns       = 30
	longestTurn = 500 * time.Millisecond
)

// at tells that a commit has come to a step.
func (s *Sink) at(step string) {
	if s.step != nil {
		s.step(step)
	}
}

// Replace commits w; see the package documentation for the protocol. Errors
// that may pass by themselves are tried again, each time as a new attempt.
func (s *Sink) Replace(ctx context.Context, w sinks.Sealed) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return s.explain(ctx.Err())
	}
	err := checkRange(w.Revision())
	for try := 0; err == nil; try++ {
		if err = s.commit(ctx, w); err == nil {
			return nil
		}
		if pause, again := patience(err, try); again && clock.Sleep(ctx, pause) == nil {
			err = nil
		}
	}
	return s.explain(err)
}

// patience says whether the window is tried again after the error of a try, and
// after which pause. A turn among other writers comes sooner or later.
func patience(err error, try int) (pause time.Duration, again bool) {
	if occupied(err) {
		return rand.N(longestTurn), try+1 < turns
	}
	return between << min(try, tries), try+1 < tries && transient(err)
}

// checkRange refuses what the column types cannot hold.
func checkRange(rev analytics.Revision) error {
	const last = analytics.Date(1<<16 - 1)
	if rev.From < 0 || rev.To > last {
		return fmt.Errorf("window %s: ClickHouse's Date holds %s to %s", rev.Window, analytics.Date(0), last)
	}
	return nil
}

// errOvertaken is the error of an attempt that a greater one has overtaken.
var errOvertaken = errors.New("another process has committed this window meanwhile: let one process write it")

// commit writes w as one attempt.
func (s *Sink) commit(ctx context.Context, w sinks.Sealed) error {
	ses, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer s.alone(ses)()
	rev, attempt := w.Revision(), s.attempts.next()
	n, err := ses.insertRows(ctx, w, attempt)
	if err != nil {
		return err
	}
	s.at("rows inserted")
	if want := max(rev.Rows, 0); n != want {
		return fmt.Errorf("the window file has %d rows, its revision says %d", n, want)
	}
	if err := ses.verify(ctx, rev.Key, attempt, n); err != nil {
		return err
	}
	if !ses.server.ordered() {
		if err := clock.Sleep(ctx, pause); err != nil {
			return err
		}
	}
	s.at("rows verified")
	if err := ses.insertMarker(ctx, rev, attempt); err != nil {
		return err
	}
	s.at("marker inserted")
	return s.confirm(ctx, ses, rev.Key, attempt)
}

// verify counts the attempt's rows on the server. The driver has been seen to
// report success for an insert that failed.
func (ses *session) verify(ctx context.Context, key analytics.Key, attempt uint64, want int64) error {
	if want == 0 {
		return nil
	}
	got, err := ses.number(ctx, fmt.Sprintf("SELECT toUInt64(count()) FROM %s WHERE %s AND attempt = %d", ses.in(rowsTable), is(key), attempt))
	if err == nil && got != uint64(want) {
		err = errShort{got, want}
	}
	return err
}

type errShort struct {
	got  uint64
	want int64
}

func (e errShort) Error() string {
	return fmt.Sprintf("the server has %d of %d rows after an insert without error", e.got, e.want)
}

// confirm finds out whether views show the attempt: the clock of another
// process may have been ahead of ours.
func (s *Sink) confirm(ctx context.Context, ses *session, key analytics.Key, attempt uint64) error {
	newest, err := ses.number(ctx, fmt.Sprintf("SELECT max(attempt) FROM %s WHERE %s", ses.in(windowsTable), is(key)))
	if err != nil || newest == attempt {
		return err
	}
	s.attempts.past(newest)
	return errOvertaken
}

// is is the condition that selects key.
func is(key analytics.Key) string {
	return fmt.Sprintf("project = %s AND granularity = %s AND window_start = toDate('%s') AND window_end = toDate('%s')",
		quote(key.Project), quote(string(key.Granularity)), key.From, key.To)
}

// quote writes s as a literal of SQL.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}
