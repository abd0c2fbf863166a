package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// tries is the number of attempts to write a window before its error is returned. If the pool before the server
	// has one connection, one window gets it at each attempt.
	tries = connections
	// between is the wait before the second try; it doubles.
	between = 500 * time.Millisecond
	// committing bounds a COMMIT, which may wait for the standby of a synchronous
	// replication.
	committing = 2 * time.Minute
	// lockClass sets our advisory locks apart from the locks of other programs.
	lockClass int32 = 0x646f6367 // "docg"
)

// Replace commits w; see the package comment for the protocol. Errors that may pass by
// themselves are tried again, and so is a COMMIT whose answer is lost: the transaction may
// be repeated.
func (s *Sink) Replace(ctx context.Context, w sinks.Sealed) error {
	for try := 1; ; try++ {
		err := s.commit(ctx, w)
		if try == tries || !s.isTransient(err) || clock.Sleep(ctx, between<<(try-1)) != nil {
			return s.explain(err)
		}
	}
}

// commit replaces a window in one transaction. A connection that is released before its
// end is closed, which gives the transaction up.
func (s *Sink) commit(ctx context.Context, w sinks.Sealed) (err error) {
	rev := w.Revision()
	ses, err := s.open(ctx, rev.Report)
	if err != nil {
		return err
	}
	conn, err := ses.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := ses.limit(ctx)
	defer func() {
		defer cancel()
		conn.Release()
		if err != nil && ctx.Err() != nil { // what broke off because of that says it in many ways
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		e, ok := errors.AsType[*pgconn.PgError](err)
		if ok && (hints[e.Code] == hintTable || e.Code == undefinedTable) {
			s.sessions[rev.Report].CompareAndSwap(ses, nil) // the next use looks at the tables
		}
	}()

	// 1. Lock the window, delete its rows, and write its row of windows. [CRASH: the server rolls
	// the transaction back, and readers see the former revision.]
	if err := ses.begin(ctx, conn, rev); err != nil {
		return err
	}
	s.reached("begun")

	// 2. The rows. [CRASH: as before.]
	if err := ses.copyRows(ctx, conn, w); err != nil {
		return err
	}
	s.reached("rows sent")

	// 3. COMMIT: readers see the new revision in both tables. Its answer is awaited even
	// if the caller has gone. [CRASH, or the answer is lost: it took effect or not. The next try locks the window, so
	// that it comes after a COMMIT that is under way.]
	if err := context.Cause(ctx); err != nil {
		return err
	}
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), ses.committing)
	defer stop()
	tag, err := conn.Exec(ending, "COMMIT")
	if err == nil && tag.String() != "COMMIT" {
		err = fmt.Errorf("the server answers COMMIT with %s", tag)
	}
	s.reached("committed")
	return err
}

// begin does what one round trip can do. The isolation is named, since each statement
// must see commits made while the lock was awaited; and so is the safety of the
// COMMIT, as the ledger will rely on it.
func (ses *session) begin(ctx context.Context, conn *pgxpool.Conn, rev analytics.Revision) error {
	var b pgx.Batch
	key := keyValues(rev.Key)
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	ses.set(&b)
	b.Queue("SELECT pg_advisory_xact_lock($1, $2), CASE WHEN current_setting('synchronous_commit') = 'off' THEN "+
		"set_config('synchronous_commit', 'on', true) END",
		lockClass, ses.lockOf(rev.Key))
	ofWindow := fmt.Sprintf(" FROM %s WHERE (%s) = ($1, $2, $3::date, $4::date)", ses.in(ses.data.rows.name), keyColumns)
	b.Queue("DELETE"+ofWindow, key...)
	// A rule or trigger may keep the server from doing what it reports.
	b.Queue("SELECT count(*)"+ofWindow, key...).QueryRow(func(row pgx.Row) error {
		var left int64
		if err := row.Scan(&left); err != nil || left == 0 {
			return err
		}
		return fmt.Errorf("%d rows of the former revision are still there after DELETE: %s", left,
			hintTriggers(ses.data.rows.name))
	})
	of := map[string]any{ses.data.count.name: rev.Rows, humansColumn.name: string(rev.Humans),
		"revision": rev.Number, "settled": rev.Settled, "verified": rev.Verified, "exported_at": rev.ExportedAt}
	if !ses.data.shape.Site {
		for name, n := range rev.Totals.ByName() {
			of[name] = n
		}
	}
	values := slices.Clone(key)
	for _, c := range ses.data.windows.columns[len(windowColumns):] {
		values = append(values, of[c.name])
	}
	b.Queue(ses.upsert(), values...).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 1 {
			return nil
		}
		return fmt.Errorf("the server took %d rows of %s, and the window has 1: %s", tag.RowsAffected(),
			ses.data.windows.name, hintTriggers(ses.data.windows.name))
	})
	return conn.SendBatch(ctx, &b).Close()
}

// hintTriggers is the remedy where rows are missing although the server reported success.
func hintTriggers(table string) string { return "drop the rule or trigger on " + table }

// upsert writes the row of a window.
func (ses *session) upsert() string {
	var values, set []string
	for i, c := range ses.data.windows.columns {
		values = append(values, fmt.Sprintf("$%d::%s", i+1, c.kind))
		if i >= len(windowColumns) {
			set = append(set, fmt.Sprintf("%s = EXCLUDED.%[1]s", c.name))
		}
	}
	return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) ON CONFLICT (%s) DO UPDATE SET %s",
		ses.in(ses.data.windows.name), names(ses.data.windows.columns), strings.Join(values, ", "), keyColumns,
		strings.Join(set, ", "))
}

// keyValues are a window as arguments: dates as text, which does not depend on a zone.
func keyValues(k analytics.Key) []any {
	return []any{k.Project, string(k.Granularity), k.From.String(), k.To.String()}
}

// lockOf is the advisory lock of a window. A hash collision only makes two windows wait for
// each other unnecessarily.
func (l layout) lockOf(k analytics.Key) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(l.in(l.data.windows.name) + k.String()))
	return int32(h.Sum32() | 1) // 0 is the lock of migrations
}

// reached says that a commit has come to a step.
func (s *Sink) reached(step string) {
	if s.step != nil {
		s.step(step)
	}
}
