package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// insert inserts the rows of a group, each window under its own attempt, block by
// block, so that memory does not grow with their number. Over the native protocol the
// blocks are one INSERT; over HTTP, where the driver cannot stream, each block is one.
//
// A window that cannot be read to its end, or whose caller has gone, is left where it
// stopped, with the reason in its err: no marker will name its rows.
//
// sent is called when all rows are on their way: another group may then be read while
// the server works.
func (ses *session) insert(ctx context.Context, group []*delivery, sent func() error) (err error) {
	in := insert{ctx: ctx, ses: ses}
	in.fields = ses.data.Fields(&in.row)
	in.staged.ownColumns = block{make([][]string, len(in.fields.Texts)), make([][]uint8, len(in.fields.Truths)),
		make([][]int64, len(in.fields.Counts))}
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
	if err := in.end(); err != nil {
		return err
	}
	return sent()
}

// insert is the INSERT of a group's rows.
type insert struct {
	ctx    context.Context
	ses    *session
	row    analytics.Record
	fields analytics.Fields // of row
	staged staged
	// batch is the driver's, nil where nothing is under way; rows and bytes are those
	// of its block.
	batch       driver.Batch
	rows, bytes int
	answer      chan error // of the INSERT that was sent last, nil if none is awaited
}

// window inserts the rows of d. An error concerns the whole group.
func (in *insert) window(d *delivery) error {
	rev := d.Revision()
	in.staged.reset() // rows of a window that failed must not go under this attempt
	in.staged.same = nil
	if d.err = context.Cause(d.ctx); d.err != nil {
		return nil
	}
	counted := int64(0)
	for row, err := range d.Rows() {
		if err != nil {
			d.err = err
			return nil
		}
		in.row = row
		if d.rows++; !in.ses.data.IsOfSite(row) {
			counted++
		}
		in.staged.rows++
		in.staged.bytes += in.staged.ownColumns.add(in.fields)
		if in.staged.rows < min(stagedRows, in.ses.blockRows) && in.staged.bytes < stagedBytes {
			continue
		}
		if err := in.append(rev, d.attempt); err != nil {
			return err
		}
		if d.err = context.Cause(d.ctx); d.err != nil {
			return nil
		}
	}
	if err := in.append(rev, d.attempt); err != nil {
		return err
	}
	if want := max(rev.Rows, 0); counted != want {
		d.err = fmt.Errorf("the window file has %d rows, its revision says %d", counted, want)
	}
	return nil
}

// append hands the staged rows of a window to the driver, and sends the block if it is full.
func (in *insert) append(rev analytics.Revision, attempt uint64) (err error) {
	if in.staged.rows == 0 {
		return nil
	}
	if in.ctx.Err() != nil {
		return context.Cause(in.ctx)
	}
	if in.batch == nil {
		if in.batch, err = in.ses.batch(in.ctx, in.ses.data.rows, in.ses.data.rowColumns()); err != nil {
			return err
		}
	}
	for i, values := range in.staged.columns(rev, attempt) {
		if err := in.batch.Column(i).Append(values); err != nil {
			return err
		}
	}
	in.rows, in.bytes = in.rows+in.staged.rows, in.bytes+in.staged.bytes
	in.staged.reset()
	if in.rows < in.ses.blockRows && in.bytes < blockBytes {
		return nil
	}
	if in.ses.http {
		return in.end()
	}
	in.rows, in.bytes = 0, 0
	in.ses.reached("block sent")
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
	in.ses.reached("block sent")
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

// staged are rows of one window that were not handed to the driver yet.
type staged struct {
	ownColumns  block
	rows, bytes int
	// same are the columns that are the same in all rows, sameRows times.
	same     []any
	sameRows int
}

// reset drops the rows.
func (s *staged) reset() {
	s.ownColumns.clear()
	s.rows, s.bytes = 0, 0
}

// columns returns the rows in the order of rowColumns.
func (s *staged) columns(rev analytics.Revision, attempt uint64) []any {
	if n := s.rows; s.same == nil || n != s.sameRows {
		s.same, s.sameRows = []any{
			slices.Repeat([]string{rev.Project}, n), slices.Repeat([]string{string(rev.Granularity)}, n),
			slices.Repeat([]time.Time{rev.From.Time()}, n), slices.Repeat([]time.Time{rev.To.Time()}, n),
			slices.Repeat([]uint64{attempt}, n),
			slices.Repeat([]int32{rev.Number}, n), slices.Repeat([]uint8{asUInt8(rev.Settled)}, n),
			slices.Repeat([]uint8{asUInt8(rev.Verified)}, n), slices.Repeat([]int64{rev.ExportedAt.UnixMicro()}, n),
		}, n
	}
	return slices.Concat(s.same[:len(attempted)], s.ownColumns.columns(), s.same[len(attempted):])
}
