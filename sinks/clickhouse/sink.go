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

	"github.com/docgauge/docgauge/sinks"
)

// Config is where the sink writes.
type Config struct {
	// DSN is clickhouse://[user:password@]host:port/database[?secure=true] for
	// the native protocol, https://… for HTTP. Other parameters of the query are
	// those of clickhouse-go, or settings of the server.
	DSN string
	// Cluster names a cluster of the server's configuration: tables are then
	// Replicated and Distributed. Empty means one server.
	Cluster string
	// Version is that of this program; the server logs it.
	Version string
	Now     func() time.Time
}

// Sink writes to ClickHouse. It connects, and brings the schema up to date, at
// its first use, and again after that failed. Many goroutines may use it.
type Sink struct {
	options  *clickhouse.Options
	cluster  string
	attempts attempts
	// slots has room for as many windows as there are connections.
	slots   chan struct{}
	timeout time.Duration // among the servers of a cluster
	// blockRows bounds the rows of a block in memory.
	blockRows int
	// step is called between two steps of a commit; nil outside tests.
	step func(name string)
	// inserting is held where inserts with a quorum must not overlap.
	inserting sync.Mutex

	mu      sync.Mutex
	session *session
}

var _ sinks.Sink = (*Sink)(nil)

// New checks the configuration; it does not connect. No error shows a password.
func New(c Config) (*Sink, error) {
	o, err := parse(c.DSN)
	if err != nil {
		return nil, fmt.Errorf("ClickHouse DSN: %w", err)
	}
	if c.Cluster != "" && !clusterForm.MatchString(c.Cluster) {
		return nil, fmt.Errorf("ClickHouse cluster %.80q: must match %s", c.Cluster, clusterForm)
	}
	o.ClientInfo.Products = append(o.ClientInfo.Products, struct{ Name, Version string }{"docgauge", c.Version})
	return &Sink{
		options: o, cluster: c.Cluster, timeout: clusterTimeout, blockRows: blockRows,
		attempts: attempts{now: c.Now}, slots: make(chan struct{}, o.MaxOpenConns),
	}, nil
}

// Name returns "clickhouse".
func (s *Sink) Name() string { return name }

const name = "clickhouse"

// Location says where the sink writes, without user or password.
func (s *Sink) Location() string {
	place := strings.Join(s.options.Addr, ",") + "/" + s.options.Auth.Database
	if s.cluster != "" {
		place += " (cluster " + s.cluster + ")"
	}
	return place
}

// Close gives the connections up.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		return nil
	}
	err := s.session.conn.Close()
	s.session = nil
	return err
}

// session is a connected server whose schema is up to date.
type session struct {
	layout
	conn driver.Conn
	http bool
	// timeout is how long the servers of a cluster wait for each other.
	timeout   time.Duration
	blockRows int
	at        func(step string)
}

// open returns the session, made at the first call.
func (s *Sink) open(ctx context.Context) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil {
		return s.session, nil
	}
	conn, err := clickhouse.Open(s.options)
	if err != nil {
		return nil, err
	}
	ses, err := s.prepare(ctx, conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	s.session = ses
	return ses, nil
}

func (s *Sink) prepare(ctx context.Context, conn driver.Conn) (*session, error) {
	if err := conn.Ping(ctx); err != nil {
		return nil, errConnect{err}
	}
	v, err := conn.ServerVersion()
	if err != nil {
		return nil, err
	}
	ses := &session{
		layout: layout{database: s.options.Auth.Database, cluster: s.cluster, server: serverOf(v)},
		conn:   conn, http: s.options.Protocol == clickhouse.HTTP,
		timeout: s.timeout, blockRows: s.blockRows, at: s.at,
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
	if err := ses.migrate(ctx); err != nil {
		return nil, err
	}
	newest, err := ses.number(ctx, "SELECT max(attempt) FROM "+ses.in(windowsTable))
	s.attempts.past(newest)
	return ses, err
}

// number runs a query whose answer is one UInt64.
func (ses *session) number(ctx context.Context, query string) (uint64, error) {
	var n uint64
	err := ses.conn.QueryRow(ctx, query).Scan(&n)
	return n, err
}
