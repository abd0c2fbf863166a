package clickhouse

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/docgauge/docgauge/internal/analytics"
)

// insert writes the rows of one attempt block by block, so that memory does not
// grow with their number. Over the native protocol the blocks are one INSERT,
// over HTTP, where the driver cannot stream, each is one.
type insert struct {
	ctx   context.Context
	ses   *session
	http  bool
	batch driver.Batch

	block block
}

// block is a block of rows by column. Those that are the same in every row are
// made once.
type block struct {
	paths            []string
	human, ai, total []int64
	bytes            int

	projects, granularities []string
	starts, ends            []time.Time
	attempts                []uint64
	revisions               []int32
	settled, verified       []uint8
	exported                []int64
}

func newInsert(ctx context.Context, ses *session, rev analytics.Revision, attempt uint64) *insert {
	n := int(min(max(rev.Rows, 1), int64(ses.blockRows)))
	return &insert{ctx: ctx, ses: ses, http: ses.http, block: block{
		paths: make([]string, 0, n), human: make([]int64, 0, n), ai: make([]int64, 0, n), total: make([]int64, 0, n),
		projects: repeat(n, rev.Project), granularities: repeat(n, string(rev.Granularity)),
		starts: repeat(n, rev.From.Time()), ends: repeat(n, rev.To.Time()), attempts: repeat(n, attempt),
		revisions: repeat(n, rev.Number), settled: repeat(n, asUInt8(rev.Settled)), verified: repeat(n, asUInt8(rev.Verified)),
		exported: repeat(n, rev.ExportedAt.UnixMicro()),
	}}
}

func repeat[T any](n int, v T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// add takes a row, and sends the block if it is full.
func (in *insert) add(r analytics.Row) error {
	b := &in.block
	b.paths = append(b.paths, r.Path)
	b.human, b.ai, b.total = append(b.human, r.Human), append(b.ai, r.AI), append(b.total, r.Total)
	b.bytes += len(r.Path)
	if len(b.paths) < cap(b.projects) && b.bytes < blockBytes {
		return nil
	}
	return in.flush()
}

// flush sends the block.
func (in *insert) flush() error {
	if err := in.ctx.Err(); err != nil {
		return err
	}
	if in.batch == nil {
		batch, err := in.ses.batch(in.ctx, rowsTable, rowColumns)
		if err != nil {
			return err
		}
		in.batch = batch
	}
	for i, values := range in.block.columns() {
		if err := in.batch.Column(i).Append(values); err != nil {
			return err
		}
	}
	in.block.reset()
	in.ses.at("block sent")
	if in.http {
		return in.end()
	}
	return in.batch.Flush()
}

// end sends what is left and ends the INSERT.
func (in *insert) end() error {
	if len(in.block.paths) > 0 {
		if err := in.flush(); err != nil {
			return err
		}
	}
	if in.batch == nil {
		return nil
	}
	err := in.batch.Send()
	in.batch = nil
	return err
}

// abandon gives up an INSERT that was not ended, and its connection.
func (in *insert) abandon() error {
	if in.batch == nil {
		return nil
	}
	return in.batch.Abort()
}

// columns returns the block in the order of rowColumns.
func (b *block) columns() []any {
	n := len(b.paths)
	return []any{
		b.projects[:n], b.granularities[:n], b.starts[:n], b.ends[:n], b.attempts[:n],
		b.paths, b.human, b.ai, b.total,
		b.revisions[:n], b.settled[:n], b.verified[:n], b.exported[:n],
	}
}

func (b *block) reset() {
	clear(b.paths)
	b.paths, b.human, b.ai, b.total, b.bytes = b.paths[:0], b.human[:0], b.ai[:0], b.total[:0], 0
}
