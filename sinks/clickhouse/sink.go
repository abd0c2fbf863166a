// Package clickhouse commits windows to a ClickHouse server or cluster, from
// 18.16 to today's versions.
//
// ClickHouse has no transactions over several inserts, so a window is committed
// by a marker:
//
//  1. its rows are inserted under a fresh attempt id: no view shows them
//  2. the rows of the attempt are counted on the server
//  3. one row in docgauge_windows, or docgauge_agents_markers, names the attempt: the marker
//
// The views show, per window, the rows of the greatest attempt that has a
// marker. Step 3 is one row and so one step. Attempt ids grow, and none is used
// again: if anything fails or its outcome is unknown, the attempt is abandoned and
// its rows stay invisible until they are collected.
//
//	died or cut                  a reader sees              the next Replace
//	before or during 1           the former revision        takes a new attempt
//	between 1 and 3              the former revision        takes a new attempt
//	3 sent, answer lost          the former or this one     takes a new attempt,
//	                             whole                      which supersedes both
//
// # Groups
//
// Windows of one report that wait while others are inserted are committed as a group: one INSERT has
// the rows of all, each window under its own attempt id, one query counts them by
// attempt, and one INSERT has a marker for each window whose rows are there. So a
// window becomes visible whole, and on its own. One that cannot be read is left without
// a marker, and the others are committed. If the connection breaks, each window of the
// group starts again under another attempt id; if the server refuses the group, each is
// committed alone. A single window is committed at once: no group waits to fill up. While
// the server inserts, counts and marks one group, the rows of the next one are sent.
//
// # The order of reading
//
// A query over docgauge_visitors reads two tables, and takes the state of one
// after the other. If rows and marker came between the two, and the state of the
// rows was taken first, the query would know the marker and not its rows. The
// views are made so that the markers come first: a marker that is too old is
// harmless, since the rows it names stay for a day (see layout.shownRows). On
// servers of versions that were not tested, the marker waits a moment for queries
// that began before it (see pause).
//
// # Cluster
//
// On a cluster the tables named …_local are replicated and the names without
// the suffix are Distributed over them, sharded by window, so that a window,
// its marker and the view over both live on one shard. Rows and markers wait
// for every replica of their shard: a replica that had a marker but not yet its
// rows would show half a window. After an error one replica may show the new
// revision and another the former, each whole, until they have caught up. A
// replica that is added or rebuilt fetches both tables in no order: it must not
// be queried before its queue is empty.
//
// The package does not decide when a window is written, and it never deletes rows that a
// view shows (see Collect).
package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// Options is where the sink writes.
type Options struct {
	// DSN is clickhouse://[user:password@]host:port/database[?secure=true] for the native protocol, https://… for HTTP.
	// Other parameters of the query are parameters of clickhouse-go, or settings of the server.
	DSN string
	// Cluster names a cluster of the server's configuration: tables are then
	// Replicated and Distributed. Empty means one server.
	Cluster string
	// Version is the version of this program; the server logs it.
	Version string
	Now     func() time.Time
	// Reports are those that it stores besides visitors, which it always does.
	Reports []analytics.Report
}

// Sink writes to ClickHouse. At its first use it connects and brings the schema up to
// date; if that fails, the next use tries again.
type Sink struct {
	options  *clickhouse.Options
	datasets []*dataset // of the reports that it stores
	cluster  string
	attempts attempts
	queue    queue
	timeout  time.Duration // among the servers of a cluster
	// blockRows bounds the rows of a block in memory.
	blockRows int
	// step is called between two steps of a commit; nil outside tests.
	step func(name string)

	mu       sync.Mutex
	conn     driver.Conn
	sessions map[analytics.Report]*session
}

var (
	_ sinks.Sink      = (*Sink)(nil)
	_ sinks.Collector = (*Sink)(nil)
)

// New checks the configuration; it does not connect. No error shows a password.
func New(c Options) (*Sink, error) {
	o, err := parse(c.DSN)
	if err != nil {
		return nil, fmt.Errorf("ClickHouse DSN: %w", err)
	}
	if c.Cluster != "" && !clusterForm.MatchString(c.Cluster) {
		return nil, fmt.Errorf("ClickHouse cluster %.80q: must match %s", c.Cluster, clusterForm)
	}
	o.ClientInfo.Products = append(o.ClientInfo.Products, struct{ Name, Version string }{"docgauge", c.Version})
	s := &Sink{
		options: o, cluster: c.Cluster, timeout: clusterTimeout, blockRows: blockRows,
		attempts: attempts{now: c.Now}, queue: newQueue(), sessions: map[analytics.Report]*session{},
	}
	for _, d := range datasets {
		if sinks.Offers(c.Reports, d.report) {
			s.datasets = append(s.datasets, d)
		}
	}
	return s, nil
}

// dataset returns the dataset of a report.
func (s *Sink) dataset(report analytics.Report) (*dataset, error) {
	for _, d := range s.datasets {
		if d.report == report {
			return d, nil
		}
	}
	return nil, sinks.NotOffered(report)
}

// Name returns "clickhouse".
func (s *Sink) Name() string { return sinkName }

const sinkName = "clickhouse"

// Location says where the sink writes, without user or password.
func (s *Sink) Location() string {
	place := strings.Join(s.options.Addr, ",") + "/" + s.options.Auth.Database
	if s.cluster != "" {
		place += " (cluster " + s.cluster + ")"
	}
	return place
}

// Close closes the connections.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	clear(s.sessions)
	return err
}

// session is a connected server where the tables of a dataset are up to date.
type session struct {
	layout
	conn driver.Conn
	http bool
	// timeout is the time that the servers of a cluster wait for each other.
	timeout   time.Duration
	blockRows int
	reached   func(step string)
	// overlaps: rows may be read and sent while the server works on those before them.
	overlaps bool
	// classic: the views have the exact time in a separate column. Only reading sets it.
	classic bool
}

// open returns the session of a report, made at the first call.
func (s *Sink) open(ctx context.Context, report analytics.Report) (ses *session, err error) {
	d, err := s.dataset(report)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ses := s.sessions[report]; ses != nil {
		return ses, nil
	}
	conn := s.conn
	if conn == nil {
		if conn, err = clickhouse.Open(s.options); err != nil {
			return nil, err
		}
	}
	ses, err = s.prepare(ctx, conn, d)
	if err != nil {
		if s.conn == nil {
			err = errors.Join(err, conn.Close())
		}
		return nil, err
	}
	s.conn, s.sessions[report] = conn, ses
	return ses, nil
}

func (s *Sink) prepare(ctx context.Context, conn driver.Conn, d *dataset) (*session, error) {
	if err := conn.Ping(ctx); err != nil {
		return nil, errConnect{err}
	}
	v, err := conn.ServerVersion()
	if err != nil {
		return nil, err
	}
	ses := &session{
		layout: layout{data: d, database: s.options.Auth.Database, cluster: s.cluster, server: serverOf(v)},
		conn:   conn, http: s.options.Protocol == clickhouse.HTTP,
		timeout: s.timeout, blockRows: s.blockRows, reached: s.reached,
	}
	if err := ses.server.check(); err != nil {
		return nil, err
	}
	if s.cluster != "" {
		if ses.topology, err = ses.findTopology(ctx); err != nil {
			return nil, err
		}
	}
	inlines, err := ses.number(ctx, "SELECT toUInt64(count()) FROM system.settings WHERE name = '"+inlineViews+"'")
	if err != nil {
		return nil, err
	}
	ses.inlines = inlines > 0
	// Servers before 22.3 take one insert with a quorum at a time.
	ses.overlaps = s.options.MaxOpenConns >= connections && (s.cluster == "" || ses.server.modern())
	if err := ses.migrate(ctx); err != nil {
		return nil, err
	}
	newest, err := ses.number(ctx, "SELECT max(attempt) FROM "+ses.in(d.markers))
	s.attempts.past(newest)
	return ses, err
}

// Check connects, brings the schema up to date, and proves that the user may do what
// exporting does, without writing a row.
func (s *Sink) Check(ctx context.Context) error {
	for _, d := range s.datasets {
		if err := s.check(ctx, d); err != nil {
			return s.explain(err)
		}
	}
	return nil
}

func (s *Sink) check(ctx context.Context, d *dataset) error {
	ses, err := s.open(ctx, d.report)
	if err != nil {
		return err
	}
	for table, columns := range map[string][]column{d.rows: d.rowColumns(), d.markers: d.markerColumns()} {
		insert := fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s WHERE 0",
			ses.in(table), names(columns), names(columns), ses.in(table))
		if err := ses.conn.Exec(ses.inserting(ctx), insert); err != nil {
			return err
		}
	}
	if err := ses.inStep(ctx); err != nil {
		return err
	}
	for _, view := range []string{d.view, d.windows} {
		if err := ses.conn.Exec(ctx, "SELECT * FROM "+ses.in(view)+" WHERE project = '' LIMIT 1"); err != nil {
			return fmt.Errorf("view %s: %w", view, err)
		}
	}
	return nil
}
