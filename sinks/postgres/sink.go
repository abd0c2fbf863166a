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
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// Options is where the sink writes.
type Options struct {
	// DSN is postgres://[user[:password]@]host[:port]/database[?name=value&…]. The
	// parameters are those of libpq and of pgx; others are settings of the server.
	DSN string
	// Version is that of this program; the record of a migration names it.
	Version string
	Now     func() time.Time
}

// Sink writes to PostgreSQL. At its first use it connects and brings the schema up to
// date; if that fails, the next use tries again.
type Sink struct {
	config  *pgxpool.Config
	place   string
	version string
	now     func() time.Time
	// step is called between two steps of a commit; nil outside tests.
	step func(name string)

	// turn is taken while the pool is made and the session prepared.
	turn chan struct{}
	pool *pgxpool.Pool
	// session is nil until the schema is known to be up to date.
	session atomic.Pointer[session]
}

var _ sinks.Sink = (*Sink)(nil)

// New checks the configuration; it does not connect. No error shows a password.
func New(c Options) (*Sink, error) {
	config, place, err := parse(c.DSN)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL DSN: %w", err)
	}
	return &Sink{config: config, place: place, version: c.Version, now: c.Now, turn: make(chan struct{}, 1)}, nil
}

// Name returns "postgres".
func (s *Sink) Name() string { return sinkName }

const sinkName = "postgres"

// Location says where the sink writes, without user or password.
func (s *Sink) Location() string { return s.place }

// Close closes the connections.
func (s *Sink) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.session.Store(nil)
	if s.pool != nil {
		s.pool.Close()
		s.pool = nil
	}
	return nil
}

// session is a server and a schema that is up to date. It does not change.
type session struct {
	layout
	pool *pgxpool.Pool
	// patience is the maximum time of one transaction, 0 means forever; committing is that of
	// its COMMIT.
	patience, committing time.Duration
}

// open returns the session, for writing: it makes the tables, or brings them up to date.
func (s *Sink) open(ctx context.Context) (*session, error) { return s.prepared(ctx, true) }

// reading returns the session, and makes nothing: its error is fs.ErrNotExist where
// docgauge has made no tables yet.
func (s *Sink) reading(ctx context.Context) (*session, error) { return s.prepared(ctx, false) }

func (s *Sink) prepared(ctx context.Context, writing bool) (*session, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if ses := s.session.Load(); ses != nil {
		return ses, nil
	}
	if s.pool == nil {
		pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), s.config.Copy())
		if err != nil {
			return nil, err
		}
		s.pool = pool
	}
	ses, err := s.prepare(ctx, writing)
	if err == nil {
		s.session.Store(ses)
	}
	return ses, err
}

// prepare asks what server it is, and looks after the schema.
func (s *Sink) prepare(ctx context.Context, writing bool) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, preparing)
	defer cancel()
	var is server
	if err := s.pool.QueryRow(ctx, aboutServer).Scan(&is.version, &is.encoding, &is.schema, &is.timeout); err != nil {
		return nil, err
	}
	if err := is.check(); err != nil {
		return nil, err
	}
	ses := &session{layout: layout{is.schema}, pool: s.pool, committing: committing}
	if is.timeout != 0 {
		// Two statements of a transaction are slow, and the server ends each at its timeout.
		ses.patience = 2*time.Duration(is.timeout)*time.Millisecond + time.Minute
	}
	version, err := ses.migrated(ctx, ses.pool)
	if err != nil {
		return nil, err
	}
	if version == 0 && !writing {
		return nil, fmt.Errorf("docgauge has made no tables yet in schema %s: %w", is.schema, fs.ErrNotExist)
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
func (s *Sink) Check(ctx context.Context) error { return s.explain(s.check(ctx)) }

func (s *Sink) check(ctx context.Context) error {
	ses, err := s.open(ctx)
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
	probe := analytics.Revision{Rows: 1, ExportedAt: s.now()}
	if err := ses.begin(ctx, conn, probe); err != nil {
		return err
	}
	one := func(yield func(analytics.Row, error) bool) { yield(analytics.Row{}, nil) }
	if err := ses.copyRows(ctx, conn, probe, one); err != nil {
		return err
	}
	if err := ses.see(ctx, conn); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "ROLLBACK")
	return err
}

// see proves that the tables can be read.
func (ses *session) see(ctx context.Context, conn *pgxpool.Conn) error {
	for _, table := range []string{visitorsTable, totalsTable} {
		if _, err := conn.Exec(ctx, "SELECT * FROM "+ses.in(table)+" LIMIT 1"); err != nil {
			return fmt.Errorf("reading %s: %w", table, err)
		}
	}
	return nil
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

// place is a table of the schema, as the arguments of findTable.
func (l layout) place(table string) []any {
	id := l.identifier(table)
	return []any{id[0], id[1]}
}

// in is a table of the schema, quoted.
func (l layout) in(table string) string { return l.identifier(table).Sanitize() }
