// Package postgres commits windows to a PostgreSQL database, version 13 or later.
//
// A window is replaced in one transaction: its former rows are deleted, its rows come by
// COPY, its totals by one upsert. A statement of a reader sees the state before COMMIT or
// after it, so one revision, whole; so do all statements of a REPEATABLE READ
// transaction.
//
//	died or cut            a reader sees               the next Replace
//	before COMMIT          the former revision         does all of it again
//	COMMIT sent, answer    the former or this one,     does all of it again, after the
//	lost                   whole                       other transaction has ended
//
// Two that replace one window wait for each other: each transaction holds an advisory
// lock of its window. A transaction whose client is gone ends when the server notices.
//
// The key of a row ends with a hash of its path, as an index holds no long ones. Paths
// with a NUL, which text cannot hold, are in path_bytes, and readable in path.
//
// The package does not decide when a window is written, keeps nothing superseded, and leaves
// the rest to autovacuum.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// Options is where the sink writes.
type Options struct {
	// DSN is postgres://[user[:password]@]host[:port]/database[?name=value&…]. The parameters are parameters of libpq
	// and of pgx; others are settings of the server.
	DSN string
	// Version is the version of this program; the record of a migration names it.
	Version string
	Now     func() time.Time
	// Reports are those that it stores besides visitors, which it always does.
	Reports []analytics.Report
}

// Sink writes to PostgreSQL. At its first use it connects and brings the schema up to
// date; if that fails, the next use tries again.
type Sink struct {
	config   *pgxpool.Config
	local    local
	location string
	version  string
	now      func() time.Time
	// step is called between two steps of a commit; nil outside tests.
	step func(name string)

	// turn is taken while the pool is made and the session prepared.
	turn chan struct{}
	pool *pgxpool.Pool
	// sessions are the sessions of the reports that the sink stores: nil until their tables are known to be up to date.
	sessions map[analytics.Report]*atomic.Pointer[session]
}

var _ sinks.Sink = (*Sink)(nil)

// New checks the configuration; it does not connect. No error shows a password.
func New(c Options) (*Sink, error) {
	config, local, place, err := parse(c.DSN)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL DSN: %w", err)
	}
	s := &Sink{config: config, local: local, location: place, version: c.Version, now: c.Now, turn: make(chan struct{}, 1),
		sessions: map[analytics.Report]*atomic.Pointer[session]{}}
	for _, d := range datasets {
		if sinks.Offers(c.Reports, d.report) {
			s.sessions[d.report] = new(atomic.Pointer[session])
		}
	}
	return s, nil
}

// Name returns "postgres".
func (s *Sink) Name() string { return sinkName }

const sinkName = "postgres"

// Location says where the sink writes, without user or password.
func (s *Sink) Location() string { return s.location }

// Close closes the connections.
func (s *Sink) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	for _, ses := range s.sessions {
		ses.Store(nil)
	}
	if s.pool != nil {
		s.pool.Close()
		s.pool = nil
	}
	return nil
}

// session is a server, and the tables of a dataset that are up to date. It does not change.
type session struct {
	layout
	local
	pool *pgxpool.Pool
	// patience is the maximum time of one transaction, 0 means forever; committing is the maximum time of its COMMIT.
	patience, committing time.Duration
}

// open returns the session of a report, for writing: it makes its tables, or brings them up to date.
func (s *Sink) open(ctx context.Context, report analytics.Report) (*session, error) {
	return s.prepared(ctx, report, true)
}

// reading returns the session of a report, and makes nothing: its error is fs.ErrNotExist where
// docgauge has made no tables for it yet.
func (s *Sink) reading(ctx context.Context, report analytics.Report) (*session, error) {
	return s.prepared(ctx, report, false)
}

func (s *Sink) prepared(ctx context.Context, report analytics.Report, writing bool) (*session, error) {
	kept, offered := s.sessions[report]
	if !offered {
		return nil, sinks.NotOffered(report)
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if ses := kept.Load(); ses != nil {
		return ses, nil
	}
	if s.pool == nil {
		pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), s.config.Copy())
		if err != nil {
			return nil, err
		}
		s.pool = pool
	}
	ses, err := s.prepare(ctx, report, writing)
	if err == nil {
		kept.Store(ses)
	}
	return ses, err
}

// connected reports whether there is a connection.
func (s *Sink) connected() bool {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.pool != nil && s.pool.Stat().TotalConns() > 0
}

// offered yields the reports that the sink stores.
func (s *Sink) offered(yield func(analytics.Report) bool) {
	for _, d := range datasets {
		if s.sessions[d.report] != nil && !yield(d.report) {
			return
		}
	}
}

// prepare asks what server it is, and looks after the tables of a report.
func (s *Sink) prepare(ctx context.Context, report analytics.Report, writing bool) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, preparing)
	defer cancel()
	var is server
	rows, err := s.local.query(ctx, s.pool, aboutServer)
	if err != nil {
		return nil, err
	}
	if is, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (is server, err error) {
		return is, row.Scan(&is.version, &is.encoding, &is.schema, &is.timeout)
	}); err != nil {
		return nil, err
	}
	if err := is.check(); err != nil {
		return nil, err
	}
	of := slices.IndexFunc(datasets, func(d *dataset) bool { return d.report == report })
	ses := &session{layout: layout{datasets[of], is.schema}, local: s.local, pool: s.pool, committing: committing}
	if is.timeout != 0 {
		// Two statements of a transaction are slow, and the server ends each at its timeout.
		ses.patience = 2*time.Duration(is.timeout)*time.Millisecond + time.Minute
	}
	version, err := ses.migrated(ctx, ses.pool)
	if err != nil {
		return nil, err
	}
	if version == 0 && !writing {
		return nil, fmt.Errorf("docgauge has made no tables of %s yet in schema %s: %w", report, is.schema, fs.ErrNotExist)
	}
	if version == 0 {
		if err := ses.migrate(ctx, s.version); err != nil {
			return nil, fmt.Errorf("making the tables in schema %s: %w", is.schema, err)
		}
	}
	return ses, ses.verify(ctx)
}

// preparing bounds the first use.
const preparing = 2 * time.Minute

// Check connects, brings the schema up to date, and proves that the user may do what
// exporting does: it replaces a window that no service has, and takes it back.
func (s *Sink) Check(ctx context.Context) error {
	for report := range s.offered {
		if err := s.check(ctx, report); err != nil {
			return s.explain(err)
		}
	}
	return nil
}

func (s *Sink) check(ctx context.Context, report analytics.Report) error {
	ses, err := s.open(ctx, report)
	if err != nil {
		return err
	}
	ctx, cancel := ses.limit(ctx)
	defer cancel()
	conn, err := ses.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	probe := probe{rev: analytics.Revision{Rows: 1, ExportedAt: s.now()}}
	if err := ses.begin(ctx, conn, probe.rev); err != nil {
		return err
	}
	if err := ses.copyRows(ctx, conn, probe); err != nil {
		return err
	}
	for _, table := range ses.data.tables() { // prove that the tables can be read
		if _, err := conn.Exec(ctx, "SELECT * FROM "+ses.in(table.name)+" LIMIT 1"); err != nil {
			return fmt.Errorf("reading %s: %w", table.name, err)
		}
	}
	if _, err = conn.Exec(ctx, "ROLLBACK"); err != nil {
		return err
	}
	if _, err := ses.sum(ctx, probe.rev.Key); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// probe is a window of any report with one row.
type probe struct {
	sinks.Sealed
	rev analytics.Revision
}

func (p probe) Revision() analytics.Revision { return p.rev }

func (probe) Rows() iter.Seq2[analytics.Record, error] {
	return func(yield func(analytics.Record, error) bool) {
		yield(analytics.RecordOf(analytics.Row{Path: "/"}), nil)
	}
}

// local are settings of a transaction, by name.
type local map[string]string

// set queues the statement that makes the settings, for the rest of the transaction.
func (l local) set(b *pgx.Batch) {
	var calls []string
	var arguments []any
	for _, name := range slices.Sorted(maps.Keys(l)) {
		arguments = append(arguments, name, l[name])
		calls = append(calls, fmt.Sprintf("set_config($%d, $%d, true)", len(arguments)-1, len(arguments)))
	}
	if len(calls) > 0 {
		b.Queue("SELECT "+strings.Join(calls, ", "), arguments...)
	}
}

// query runs one statement with the settings, in one round trip: statements sent together are a transaction.
func (l local) query(ctx context.Context, pool *pgxpool.Pool, sql string, arguments ...any) (pgx.Rows, error) {
	var b pgx.Batch
	l.set(&b)
	settings := b.Len()
	b.Queue(sql, arguments...)
	results := pool.SendBatch(ctx, &b)
	for range settings {
		if _, err := results.Exec(); err != nil {
			return nil, errors.Join(err, results.Close())
		}
	}
	rows, err := results.Query()
	if err != nil {
		return nil, errors.Join(err, results.Close())
	}
	return batchRows{rows, results}, nil
}

// batchRows are the rows of the last statement of a batch.
type batchRows struct {
	pgx.Rows
	results pgx.BatchResults
}

func (r batchRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	_ = r.results.Close() // Err has its error
	return false
}

func (r batchRows) Close() {
	r.Rows.Close()
	_ = r.results.Close() // Err has its error
}

// limit bounds a transaction of a session.
func (ses *session) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if ses.patience == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, ses.patience)
}

// identifier is a table of the schema, the one place that says where it is.
func (l layout) identifier(table string) pgx.Identifier { return pgx.Identifier{l.schema, table} }

// arguments is a table of the schema, as the arguments of findTable.
func (l layout) arguments(table string) []any {
	id := l.identifier(table)
	return []any{id[0], id[1]}
}

// in is a table of the schema, quoted.
func (l layout) in(table string) string { return l.identifier(table).Sanitize() }
