package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	// blockRows and blockBytes bound a block of rows in memory.
	blockRows  = 32_768
	blockBytes = 8 << 20
	// stagedRows and stagedBytes bound the rows that are handed to the driver's block at
	// once.
	stagedRows  = 4096
	stagedBytes = 1 << 20
)

// insertRows inserts the rows of a group, each window under its own attempt, block by
// block, so that memory does not grow with their number. Over the native protocol the
// blocks are one INSERT; over HTTP, where the driver cannot stream, each block is one.
//
// A window that cannot be read to its end, or whose caller has gone, is left where it
// stopped, with the reason in its err: no marker will name what was inserted of it.
//
// sent is called when all rows are on their way: another group may then be read while
// the server works.
func (ses *session) insertRows(ctx context.Context, group []*delivery, sent func() error) (err error) {
	in := insert{ctx: ctx, ses: ses, staged: newStaged(min(stagedRows, ses.blockRows))}
	defer func() {
		if in.batch != nil {
			err = errors.Join(err, in.batch.Abort()) // gives up its connection
		}
		err = errors.Join(err, in.wait())
	}()
	for _, d := range group {
		if err := in.window(d); err != nil {
			return err
		}
	}
	if len(unfailed(group)) == 0 {
		return nil
	}
	if err := in.append(); err != nil {
		return err
	}
	if err := in.end(); err != nil {
		return err
	}
	return sent()
}

// insert is the INSERT of a group's rows.
type insert struct {
	ctx    context.Context
	ses    *session
	staged staged
	// batch is the driver's, nil where nothing is under way; rows and bytes are those
	// of its block.
	batch       driver.Batch
	rows, bytes int
	answer      chan error // of the INSERT that was sent last, nil if none is awaited
}

// window inserts the rows of d. An error is that of the whole group.
func (in *insert) window(d *delivery) error {
	rev := d.Revision()
	if d.err = context.Cause(d.ctx); d.err != nil {
		return nil
	}
	for row, err := range d.Rows() {
		if err != nil {
			d.err = err
			return nil
		}
		d.rows++
		if !in.staged.add(&rev, d.attempt, row) {
			continue
		}
		if err := in.append(); err != nil {
			return err
		}
		if d.err = context.Cause(d.ctx); d.err != nil {
			return nil
		}
	}
	if want := max(rev.Rows, 0); d.rows != want {
		d.err = fmt.Errorf("the window file has %d rows, its revision says %d", d.rows, want)
	}
	return nil
}

// append hands the staged rows to the driver, and sends the block if it is full.
func (in *insert) append() (err error) {
	if len(in.staged.paths) == 0 {
		return nil
	}
	if in.ctx.Err() != nil {
		return context.Cause(in.ctx)
	}
	if in.batch == nil {
		if in.batch, err = in.ses.batch(in.ctx, rowsTable, rowColumns); err != nil {
			return err
		}
	}
	for i, values := range in.staged.columns() {
		if err := in.batch.Column(i).Append(values); err != nil {
			return err
		}
	}
	in.rows, in.bytes = in.rows+len(in.staged.paths), in.bytes+in.staged.bytes
	in.staged.reset()
	if in.rows < in.ses.blockRows && in.bytes < blockBytes {
		return nil
	}
	if in.ses.http {
		return in.end()
	}
	in.rows, in.bytes = 0, 0
	in.ses.at("block sent")
	return in.batch.Flush()
}

// end ends the INSERT, if one is under way, and has its answer awaited beside what
// follows, if there are connections for that.
func (in *insert) end() error {
	if in.batch == nil {
		return nil
	}
	if err := in.wait(); err != nil {
		return err
	}
	batch, answer := in.batch, make(chan error, 1)
	in.batch, in.rows, in.bytes, in.answer = nil, 0, 0, answer
	in.ses.at("block sent")
	go func() { answer <- batch.Send() }()
	if in.ses.overlaps {
		return nil
	}
	return in.wait()
}

// wait returns the error of the INSERT that was sent last.
func (in *insert) wait() error {
	if in.answer == nil {
		return nil
	}
	err := <-in.answer
	in.answer = nil
	return err
}

// staged are rows by column, as the driver takes them.
type staged struct {
	projects, granularities []string
	starts, ends            []time.Time
	attempts                []uint64
	paths                   []string
	human, ai, total        []int64
	revisions               []int32
	settled, verified       []uint8
	exported                []int64

	most, bytes int
}

func newStaged(most int) staged {
	return staged{
		projects: make([]string, 0, most), granularities: make([]string, 0, most),
		starts: make([]time.Time, 0, most), ends: make([]time.Time, 0, most), attempts: make([]uint64, 0, most),
		paths: make([]string, 0, most), human: make([]int64, 0, most), ai: make([]int64, 0, most),
		total:     make([]int64, 0, most),
		revisions: make([]int32, 0, most), settled: make([]uint8, 0, most), verified: make([]uint8, 0, most),
		exported: make([]int64, 0, most), most: most,
	}
}

// add takes a row, and reports whether there is room for no other.
func (s *staged) add(rev *analytics.Revision, attempt uint64, r analytics.Row) (full bool) {
	s.projects, s.granularities = append(s.projects, rev.Project), append(s.granularities, string(rev.Granularity))
	s.starts, s.ends = append(s.starts, rev.From.Time()), append(s.ends, rev.To.Time())
	s.attempts, s.paths = append(s.attempts, attempt), append(s.paths, r.Path)
	s.human, s.ai, s.total = append(s.human, r.Human), append(s.ai, r.AI), append(s.total, r.Total)
	s.revisions, s.exported = append(s.revisions, rev.Number), append(s.exported, rev.ExportedAt.UnixMicro())
	s.settled, s.verified = append(s.settled, asUInt8(rev.Settled)), append(s.verified, asUInt8(rev.Verified))
	s.bytes += len(r.Path)
	return len(s.paths) == s.most || s.bytes >= stagedBytes
}

// columns returns the rows in the order of rowColumns.
func (s *staged) columns() []any {
	return []any{
		s.projects, s.granularities, s.starts, s.ends, s.attempts,
		s.paths, s.human, s.ai, s.total,
		s.revisions, s.settled, s.verified, s.exported,
	}
}

func (s *staged) reset() {
	clear(s.paths)
	s.projects, s.granularities, s.starts, s.ends, s.attempts = s.projects[:0], s.granularities[:0], s.starts[:0],
		s.ends[:0], s.attempts[:0]
	s.paths, s.human, s.ai, s.total = s.paths[:0], s.human[:0], s.ai[:0], s.total[:0]
	s.revisions, s.settled, s.verified, s.exported = s.revisions[:0], s.settled[:0], s.verified[:0], s.exported[:0]
	s.bytes = 0
}
