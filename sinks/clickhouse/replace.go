package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/sinks"
)

// pause is the time between the rows and their marker on servers that may read
// the marker after the rows. A query takes the states of both tables within
// milliseconds of each other, while it is planned; this is a hundred times as
// long.
const pause = 100 * time.Millisecond

// errOvertaken is the error of an attempt that a greater one has overtaken.
var errOvertaken = errors.New("another process has just committed this window: let one process write it")

// errShort means that rows are missing although their insert succeeded.
type errShort struct {
	got  uint64
	want int64
}

func (e errShort) Error() string {
	return fmt.Sprintf("the server has %d of %d rows after an insert without error", e.got, e.want)
}

// commit writes the windows of a group, each as one attempt. If it dies before the markers, no view shows the rows,
// and Collect deletes them later. An error of one window is stored in its err; the returned error concerns all other
// windows. next lets another group begin.
func (s *Sink) commit(ctx context.Context, group []*delivery, next func()) error {
	ses, err := s.open(ctx, group[0].Revision().Report)
	if err != nil {
		return err
	}
	for _, d := range group {
		d.attempt = s.attempts.next()
	}

	// 1. INSERT the rows, each window under a new attempt id. While the
	// server works on them, another group may follow.
	marking := false
	defer func() {
		if marking {
			<-s.queue.marking
		}
	}()
	err = ses.insert(ctx, group, func() error {
		if !ses.overlaps {
			return nil
		}
		select {
		case s.queue.marking <- struct{}{}:
			marking = true
			next()
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		return err
	}
	s.reached("rows inserted")

	// 2. Count them on the server: the driver has been seen to report success for an
	// insert that failed.
	if err := ses.countRows(ctx, unfailed(group)); err != nil {
		return err
	}
	if group = unfailed(group); len(group) == 0 {
		return nil
	}
	if !ses.server.modern() && ses.server.major != oldest.major { // between those that were tested
		if err := clock.Sleep(ctx, pause); err != nil {
			return err
		}
	}
	s.reached("rows verified")

	// 3. The markers: each is one row, so it is there or not. If their answer is lost, the
	// attempts may be committed; the next try takes greater ids and supersedes them.
	if err := ses.insertMarkers(ctx, group); err != nil {
		return err
	}
	s.reached("marker inserted")

	// Look whether the views show the attempts: the clock of another process may have
	// been ahead of ours, so that its marker is the greater one.
	newest, err := ses.newestOf(ctx, group)
	if err != nil {
		return err
	}
	for _, d := range group {
		if shown := newest[d.Revision().Key]; shown != d.attempt {
			s.attempts.past(shown)
			d.err = errOvertaken
		}
	}
	return nil
}

// unfailed returns the windows of a group that have not failed.
func unfailed(group []*delivery) []*delivery {
	return slices.DeleteFunc(slices.Clone(group), func(d *delivery) bool { return d.err != nil })
}

// countRows counts the rows of each attempt. A window that lacks some gets errShort.
func (ses *session) countRows(ctx context.Context, group []*delivery) error {
	var written []string
	for _, d := range group {
		if d.rows > 0 {
			written = append(written, attemptTuple(d.Revision().Key, d.attempt))
		}
	}
	if len(written) == 0 {
		return nil
	}
	there := map[uint64]uint64{}
	err := ses.query(ctx, fmt.Sprintf("SELECT attempt, toUInt64(count()) FROM %s WHERE (%s) IN (%s) GROUP BY attempt",
		ses.in(ses.data.rows), attemptColumns, strings.Join(written, ", ")), func(rows driver.Rows) error {
		var attempt, n uint64
		err := rows.Scan(&attempt, &n)
		there[attempt] = n
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range group {
		if got := there[d.attempt]; got != uint64(d.rows) {
			d.err = errShort{got, d.rows}
		}
	}
	return nil
}

// insertMarkers names the attempts of the group.
func (ses *session) insertMarkers(ctx context.Context, group []*delivery) error {
	batch, err := ses.batch(ctx, ses.data.markers, ses.data.markerColumns())
	if err != nil {
		return err
	}
	for _, d := range group {
		rev := d.Revision()
		marker := []any{rev.Project, string(rev.Granularity), rev.From.Time(), rev.To.Time(), d.attempt}
		if ses.data.totals != nil {
			marker = append(marker, rev.Totals.Values()...)
		}
		marker = append(marker, string(rev.Humans), rev.Rows, rev.Number, asUInt8(rev.Settled), asUInt8(rev.Verified),
			rev.ExportedAt.UnixMicro())
		if err := batch.Append(marker...); err != nil {
			return errors.Join(err, batch.Abort())
		}
	}
	return batch.Send()
}

// newestOf returns the attempts that the views show of the group's windows.
func (ses *session) newestOf(ctx context.Context, group []*delivery) (map[analytics.Key]uint64, error) {
	keys := make([]string, len(group))
	for i, d := range group {
		keys[i] = "(" + tuple(d.Revision().Key) + ")"
	}
	newest := map[analytics.Key]uint64{}
	err := ses.query(ctx, fmt.Sprintf("SELECT %[1]s, max(attempt) FROM %[2]s WHERE (%[1]s) IN (%[3]s) GROUP BY %[1]s",
		keyColumns, ses.in(ses.data.markers), strings.Join(keys, ", ")), func(rows driver.Rows) error {
		key := sinks.ScannedKey{Report: ses.data.report}
		var attempt uint64
		err := rows.Scan(key.Into(&attempt)...)
		newest[key.Key()] = attempt
		return err
	})
	return newest, err
}

// reached says that a commit has come to a step.
func (s *Sink) reached(step string) {
	if s.step != nil {
		s.step(step)
	}
}

// is is the condition that selects key.
func is(key analytics.Key) string {
	return fmt.Sprintf("project = %s AND granularity = %s AND window_start = toDate('%s') AND window_end = "+
		"toDate('%s')",
		quote(key.Project), quote(string(key.Granularity)), key.From, key.To)
}

// quote writes s as a literal of SQL.
func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}

func asUInt8(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// inserting returns ctx with the settings of an insert that returns when it is done,
// on every replica of the shard.
func (ses *session) inserting(ctx context.Context) context.Context {
	settings := ses.synchronous()
	if ses.cluster != "" {
		settings["insert_distributed_sync"] = 1
		settings["insert_quorum"] = ses.topology.replicas
		settings["insert_quorum_timeout"] = int(ses.timeout.Milliseconds())
		if ses.server.modern() {
			settings["insert_quorum_parallel"] = 1
		}
	}
	return clickhouse.Context(ctx, clickhouse.WithSettings(settings))
}

// synchronous are the settings of an insert that returns when this server has it.
func (ses *session) synchronous() clickhouse.Settings {
	settings := clickhouse.Settings{}
	if ses.server.modern() {
		settings["async_insert"] = 0
	}
	return settings
}

func (ses *session) batch(ctx context.Context, table string, columns []column) (driver.Batch, error) {
	known := make([]clickhouse.ColumnNameAndType, len(columns))
	for i, c := range columns {
		known[i] = clickhouse.ColumnNameAndType{Name: c.name, Type: c.kind}
	}
	ctx = clickhouse.Context(ses.inserting(ctx), clickhouse.WithColumnNamesAndTypes(known))
	return ses.conn.PrepareBatch(ctx, "INSERT INTO "+ses.in(table)+" ("+names(columns)+")")
}
