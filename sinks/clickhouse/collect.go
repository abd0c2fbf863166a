package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// atOnce bounds the attempts that one statement deletes.
	atOnce = 500
	// mutationPoll is the time between two questions whether the server has deleted.
	mutationPoll = 200 * time.Millisecond
)

// Collect deletes the rows of superseded attempts and waits until the server has done so. Markers stay: they are the
// history of the windows. Rows that a view shows are never touched: an attempt below a committed one cannot be shown
// again, and one never committed is abandoned long before [sinks.KeepSuperseded].
func (s *Sink) Collect(ctx context.Context, dryRun bool) ([]sinks.Superseded, error) {
	found, err := s.collect(ctx, dryRun)
	if err != nil {
		return nil, s.explain(err)
	}
	return found, nil
}

func (s *Sink) collect(ctx context.Context, dryRun bool) ([]sinks.Superseded, error) {
	var all []sinks.Superseded
	for _, d := range s.datasets {
		if d != visitors { // tables that are not there have nothing, and are not made for that
			err := s.reading(ctx, d, func(*session) error { return nil })
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		found, err := s.collectOf(ctx, d.report, dryRun)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (s *Sink) collectOf(ctx context.Context, report analytics.Report, dryRun bool) ([]sinks.Superseded, error) {
	ses, err := s.open(ctx, report)
	if err == nil && !dryRun {
		err = ses.inStep(ctx)
	}
	if err != nil {
		return nil, err
	}
	found, err := ses.superseded(ctx)
	if err != nil || dryRun || len(found) == 0 {
		return found, err
	}
	if err := ses.awaitMutations(ctx); err != nil { // of a run that was broken off
		return nil, err
	}
	for some := range slices.Chunk(found, atOnce) {
		if err := ses.remove(ctx, some); err != nil {
			return nil, err
		}
		// One at a time: 18.16 now and then skips a deletion that comes while another
		// one is under way, and reports it as done.
		if err := ses.awaitMutations(ctx); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// superseded returns the attempts that have rows and are not the newest of their
// window, and that no view has shown for long. Times are compared by the server's
// clock.
func (ses *session) superseded(ctx context.Context) ([]sinks.Superseded, error) {
	var found []sinks.Superseded
	var now time.Time
	query := fmt.Sprintf(`
SELECT %[1]s, attempt, toUInt64(count()), max(written_at), now()
FROM %[2]s WHERE (%[3]s) NOT IN (%[4]s)
GROUP BY %[3]s ORDER BY %[3]s`, keyColumns, ses.in(ses.data.rows), attemptColumns, ses.newest())
	err := ses.query(ctx, query, func(rows driver.Rows) error {
		var a sinks.Superseded
		key := sinks.ScannedKey{Report: ses.data.report}
		err := rows.Scan(key.Into(&a.Attempt, &a.Rows, &a.Since, &now)...)
		a.Key = key.Key()
		found = append(found, a)
		return err
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	commits := map[analytics.Key][]commit{} // in the order of their attempts
	query = fmt.Sprintf("SELECT %s, committed_at FROM %s ORDER BY %s", attemptColumns,
		ses.in(ses.data.markers), attemptColumns)
	err = ses.query(ctx, query, func(rows driver.Rows) error {
		var c commit
		key := sinks.ScannedKey{Report: ses.data.report}
		err := rows.Scan(key.Into(&c.attempt, &c.committed)...)
		commits[key.Key()] = append(commits[key.Key()], c)
		return err
	})
	return due(found, commits, now.Add(-sinks.KeepSuperseded)), err
}

// commit is a marker: an attempt, and when it was committed.
type commit struct {
	attempt   uint64
	committed time.Time
}

// due returns the attempts that no view has shown since before.
func due(attempts []sinks.Superseded, commits map[analytics.Key][]commit, before time.Time) (out []sinks.Superseded) {
	for _, a := range attempts {
		committed := false
		for _, c := range commits[a.Key] {
			committed = committed || c.attempt == a.Attempt
			if committed && c.attempt > a.Attempt {
				if c.committed.After(a.Since) {
					a.Since = c.committed
				}
				break
			}
		}
		if a.Since.Before(before) {
			out = append(out, a)
		}
	}
	return out
}

// remove deletes the rows of the attempts. Servers do it in the background.
func (ses *session) remove(ctx context.Context, attempts []sinks.Superseded) error {
	tuples := make([]string, len(attempts))
	for i, a := range attempts {
		tuples[i] = attemptTuple(a.Key, a.Attempt)
	}
	return ses.define(ctx, fmt.Sprintf("ALTER TABLE %s%s DELETE WHERE (%s) IN (%s)",
		ses.in(ses.local(ses.data.rows)), ses.onCluster(), attemptColumns, strings.Join(tuples, ", ")))
}

// awaitMutations waits until no server has a deletion under way. In a cluster, one
// that has just begun may not show on each server yet; it completes by itself.
func (ses *session) awaitMutations(ctx context.Context) error {
	undone := "NOT is_done"
	if ses.cluster != "" && ses.topology.replicas > 1 && !ses.server.modern() {
		// Where a table takes one insert at a time, servers do not mutate the part of the last one
		// before the next insert, so a mutation never seems to end.
		undone = "parts_to_do > 1"
	}
	for {
		n, err := ses.onEveryServer(ctx, "mutations", ses.data.rows, undone)
		if err != nil || n == 0 {
			return err
		}
		if err := clock.Sleep(ctx, mutationPoll); err != nil {
			return err
		}
	}
}
