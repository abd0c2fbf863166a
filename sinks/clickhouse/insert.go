package clickhouse

import (
	"context"
	"errors"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// blockRows and blockBytes bound a block of rows in memory.
	blockRows  = 65_536
	blockBytes = 8 << 20
)

// inserting returns ctx with the settings of an insert.
func (ses *session) inserting(ctx context.Context) context.Context {
	settings := ses.synchronous()
	ses.confirmed(settings)
	return clickhouse.Context(ctx, clickhouse.WithSettings(settings))
}

// synchronous are the settings with which an insert ends when it is done.
func (ses *session) synchronous() clickhouse.Settings {
	settings := clickhouse.Settings{}
	if ses.server.modern() {
		settings["async_insert"] = 0
	}
	return settings
}

// insertRows inserts the rows of w under the attempt and returns how many.
func (ses *session) insertRows(ctx context.Context, w sinks.Sealed, attempt uint64) (n int64, err error) {
	in := newInsert(ctx, ses, w.Revision(), attempt)
	defer func() { err = errors.Join(err, in.abandon()) }()
	for row, err := range w.Rows() {
		if err != nil {
			return n, err
		}
		if err := in.add(row); err != nil {
			return n, err
		}
		n++
	}
	return n, in.end()
}

// insertMarker makes the attempt the one that views show.
func (ses *session) insertMarker(ctx context.Context, rev analytics.Revision, attempt uint64) error {
	batch, err := ses.batch(ctx, windowsTable, windowColumns)
	if err != nil {
		return err
	}
	err = batch.Append(rev.Project, string(rev.Granularity), rev.From.Time(), rev.To.Time(), attempt,
		rev.Totals.Human, rev.Totals.AI, rev.Totals.Total, rev.Rows,
		rev.Number, asUInt8(rev.Settled), asUInt8(rev.Verified), rev.ExportedAt.UnixMicro())
	if err != nil {
		return errors.Join(err, batch.Abort())
	}
	return batch.Send()
}

func (ses *session) batch(ctx context.Context, table string, columns []column) (driver.Batch, error) {
	ctx = ses.inserting(ctx)
	known := make([]clickhouse.ColumnNameAndType, len(columns))
	for i, c := range columns {
		known[i] = clickhouse.ColumnNameAndType{Name: c.name, Type: c.kind}
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithColumnNamesAndTypes(known))
	return ses.conn.PrepareBatch(ctx, "INSERT INTO "+ses.in(table)+" ("+names(columns)+")")
}

func asUInt8(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
