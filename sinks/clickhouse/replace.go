package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// blockRows and blockBytes bound a block of rows in memory.
	blockRows  = 65_536
	blockBytes = 8 << 20
	// pause is the time between the rows and their marker on servers that may read
	// the marker after the rows. A query takes the states of both tables within
	// milliseconds of each other, while it is planned; this is a hundred times as
	// long.
	pause = 100 * time.Millisecond
	// tries is how often a window is written before its error is returned.
	tries = 3
	// between is the wait before the second try; it doubles.
	between = 500 * time.Millisecond
	// turns is how often a window waits for its turn where a table takes one insert
	// at a time, each time longestTurn at most: ten seconds or so.
	turns       = 30
	longestTurn = 500 * time.Millisecond
)

// Replace commits w; see the package comment for the protocol. Errors that may pass
// by themselves are tried again, each time as a new attempt.
func (s *Sink) Replace(ctx context.Context, w sinks.Sealed) error {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return s.explain(context.Cause(ctx))
	}
	const last = analytics.Date(1<<16 - 1)
	if rev := w.Revision(); rev.From < 0 || rev.To > last {
		return s.explain(fmt.Errorf("window %s: ClickHouse's Date holds %s to %s", rev.Window, analytics.Date(0), last))
	}
	for try := 1; ; try++ {
		err := s.commit(ctx, w)
		wait, again := between<<min(try-1, tries), try < tries && isTransient(err)
		if isOccupied(err) { // the turn of this window comes sooner or later
			wait, again = rand.N(longestTurn), try < turns
		}
		if !again || clock.Sleep(ctx, wait) != nil {
			return s.explain(err)
		}
	}
}

// errOvertaken is the error of an attempt that a greater one has overtaken.
var errOvertaken = errors.New("another process has committed this window meanwhile: let one process write it")

// errShort means that rows are missing although their insert succeeded.
type errShort struct {
	got  uint64
	want int64
}

func (e errShort) Error() string {
	return fmt.Sprintf("the server has %d of %d rows after an insert without error", e.got, e.want)
}

// commit writes w as one attempt. Whatever it returns or dies of before the marker,
// no view shows the rows, and Collect deletes them later.
func (s *Sink) commit(ctx context.Context, w sinks.Sealed) error {
	ses, err := s.open(ctx)
	if err != nil {
		return err
	}
	if ses.cluster != "" && !ses.server.modern() {
		s.inserting.Lock() // these servers take one insert with a quorum at a time
		defer s.inserting.Unlock()
	}
	rev, attempt := w.Revision(), s.attempts.next()

	// 1. INSERT the rows, under an attempt id that nobody else has.
	n, err := ses.insertRows(ctx, w, attempt)
	if err != nil {
		return err
	}
	s.at("rows inserted")

	// 2. Count them on the server: the driver has been seen to report success for an
	// insert that failed.
	if want := max(rev.Rows, 0); n != want {
		return fmt.Errorf("the window file has %d rows, its revision says %d", n, want)
	}
	if n > 0 {
		got, err := ses.number(ctx, fmt.Sprintf("SELECT toUInt64(count()) FROM %s WHERE %s AND attempt = %d", ses.in(rowsTable), is(rev.Key), attempt))
		if err == nil && got != uint64(n) {
			err = errShort{got, n}
		}
		if err != nil {
			return err
		}
	}
	if !ses.server.ordered() {
		if err := clock.Sleep(ctx, pause); err != nil {
			return err
		}
	}
	s.at("rows verified")

	// 3. The marker: one row, so it is there or not. If its answer is lost, the
	// attempt may be committed; the next try takes a greater id and supersedes it.
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
	if err := batch.Send(); err != nil {
		return err
	}
	s.at("marker inserted")

	// Look whether the views show the attempt: the clock of another process may have
	// been ahead of ours, so that its marker is the greater one.
	newest, err := ses.number(ctx, fmt.Sprintf("SELECT max(attempt) FROM %s WHERE %s", ses.in(windowsTable), is(rev.Key)))
	if err != nil || newest == attempt {
		return err
	}
	s.attempts.past(newest)
	return errOvertaken
}

// at says that a commit has come to a step.
func (s *Sink) at(step string) {
	if s.step != nil {
		s.step(step)
	}
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

// insertRows inserts the rows of w under the attempt, block by block, so that memory
// does not grow with their number, and returns how many there are. Over the native
// protocol the blocks are one INSERT; over HTTP, where the driver cannot stream, each
// block is one.
func (ses *session) insertRows(ctx context.Context, w sinks.Sealed, attempt uint64) (n int64, err error) {
	b := newBlock(w.Revision(), attempt, ses.blockRows)
	var batch driver.Batch
	defer func() {
		if batch != nil {
			err = errors.Join(err, batch.Abort()) // gives up its connection
		}
	}()
	end := func() error {
		sent := batch
		batch = nil
		return sent.Send()
	}
	send := func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if batch == nil {
			made, err := ses.batch(ctx, rowsTable, rowColumns)
			if err != nil {
				return err
			}
			batch = made
		}
		for i, values := range b.columns() {
			if err := batch.Column(i).Append(values); err != nil {
				return err
			}
		}
		b.reset()
		ses.at("block sent")
		if ses.http {
			return end()
		}
		return batch.Flush()
	}
	for row, err := range w.Rows() {
		if err != nil {
			return n, err
		}
		n++
		if b.add(row) {
			if err := send(); err != nil {
				return n, err
			}
		}
	}
	if len(b.paths) > 0 {
		if err := send(); err != nil {
			return n, err
		}
	}
	if batch != nil {
		return n, end()
	}
	return n, nil
}

// block is a block of rows by column. Those that are the same in every row are made
// once.
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

func newBlock(rev analytics.Revision, attempt uint64, most int) *block {
	n := int(min(max(rev.Rows, 1), int64(most)))
	return &block{
		paths: make([]string, 0, n), human: make([]int64, 0, n), ai: make([]int64, 0, n), total: make([]int64, 0, n),
		projects: repeat(n, rev.Project), granularities: repeat(n, string(rev.Granularity)),
		starts: repeat(n, rev.From.Time()), ends: repeat(n, rev.To.Time()), attempts: repeat(n, attempt),
		revisions: repeat(n, rev.Number), settled: repeat(n, asUInt8(rev.Settled)), verified: repeat(n, asUInt8(rev.Verified)),
		exported: repeat(n, rev.ExportedAt.UnixMicro()),
	}
}

func repeat[T any](n int, v T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// add takes a row, and reports whether the block is full.
func (b *block) add(r analytics.Row) (full bool) {
	b.paths = append(b.paths, r.Path)
	b.human, b.ai, b.total = append(b.human, r.Human), append(b.ai, r.AI), append(b.total, r.Total)
	b.bytes += len(r.Path)
	return len(b.paths) == cap(b.projects) || b.bytes >= blockBytes
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

// randomBits end an attempt id, so that two processes that begin in the same
// microsecond do not take the same one.
const randomBits = 12

// attempts hands out attempt ids: microseconds since 1970, then random bits. Each is
// greater than every one before it and every one it was told of, even if the clock
// goes backwards.
type attempts struct {
	now func() time.Time

	mu   sync.Mutex
	last uint64
}

func (a *attempts) next() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	noise := rand.Uint64N(1 << randomBits)
	a.last = max(uint64(a.now().UnixMicro())<<randomBits|noise, a.last+1+noise)
	return a.last
}

// past lets ids begin after id, which another process has used.
func (a *attempts) past(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = max(a.last, id)
}
