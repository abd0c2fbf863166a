package clickhouse

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

const (
	localSuffix    = "_local"
	inlineViews    = "analyzer_inline_views" // a setting of servers from 26.4
	flavourClassic = "classic"
	keyColumns     = "project, granularity, window_start, window_end"
	attemptColumns = keyColumns + ", attempt"
)

type column struct{ name, kind string }

func names(columns []column) string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.name
	}
	return strings.Join(out, ", ")
}

func definitions(columns []column) string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.name + " " + c.kind
	}
	return strings.Join(out, ", ")
}

// layout makes statements about the tables of a dataset, for a server, alone or in a cluster.
type layout struct {
	data              *dataset
	database, cluster string
	topology          topology
	server            server
	// inlines: a setting of the server can make views part of the query's plan.
	inlines bool
}

// local is the name of the table or view that holds name's data on one server.
func (l layout) local(name string) string {
	if l.cluster == "" {
		return name
	}
	return name + localSuffix
}

// in qualifies name with the database.
func (l layout) in(name string) string { return "`" + l.database + "`." + name }

func (l layout) onCluster() string {
	if l.cluster == "" {
		return ""
	}
	return " ON CLUSTER `" + l.cluster + "`"
}

// engine is the engine of a table. In a cluster it is replicated within the shard, by the server's macros, or among
// all servers.
func (l layout) engine(name, shard, replica string) string {
	if l.cluster == "" {
		return "MergeTree"
	}
	return fmt.Sprintf("ReplicatedMergeTree('/clickhouse/tables/%s/%s/%s', '%s')", shard, l.database, name, replica)
}

// versions makes the table that records which migrations were done.
func (l layout) versions() string {
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s%s (version UInt32, views String, applied_at DateTime DEFAULT "+
		"now()) ENGINE = %s ORDER BY version",
		l.in(l.data.versions), l.onCluster(), l.engine(l.data.versions, "all", "{shard}-{replica}"))
}

// tables makes the two tables. They are plain MergeTrees with the attempt in the
// sorting key: an engine that replaces rows would lose committed ones to an attempt
// that is never committed.
func (l layout) tables() []string {
	order := "project, granularity, window_start, attempt, path"
	for _, name := range l.data.Order {
		order += ", " + name
	}
	return append(l.table(l.data.rows, l.data.rowColumns(), "written_at", order),
		l.table(l.data.markers, l.data.markerColumns(), "committed_at", attemptColumns)...)
}

func (l layout) table(name string, columns []column, stamp, order string) []string {
	out := []string{fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s%s (%s, %s DateTime DEFAULT now()) ENGINE = %s "+
		"PARTITION BY toYYYYMM(window_start) ORDER BY (%s)",
		l.in(l.local(name)), l.onCluster(), definitions(columns), stamp, l.engine(name, "{shard}", "{replica}"), order)}
	if l.cluster != "" {
		out = append(out, l.distributed(name, ", cityHash64("+keyColumns+")"))
	}
	return out
}

// distributed makes name over the local tables or views of the cluster.
func (l layout) distributed(name, sharding string) string {
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s%s AS %s ENGINE = Distributed(`%s`, `%s`, %s%s)",
		l.in(name), l.onCluster(), l.in(l.local(name)), l.cluster, l.database, l.local(name), sharding)
}

// views makes the two views, or makes them again.
func (l layout) views() []string {
	var out []string
	if l.server.modern() {
		out = append(out, l.view(l.data.attempts, "SELECT * FROM "+l.in(l.local(l.data.rows))))
	}
	out = append(out, l.view(l.data.view, l.shownRows()), l.view(l.data.windows, l.shownWindows()))
	if l.cluster != "" {
		out = append(out, l.distributed(l.data.view, ""), l.distributed(l.data.windows, ""))
	}
	return out
}

func (l layout) view(name, query string) string {
	create := "CREATE VIEW IF NOT EXISTS "
	if l.server.modern() {
		create = "CREATE OR REPLACE VIEW "
	}
	return create + l.in(l.local(name)) + l.onCluster() + " AS " + query
}

// flavour names the form of the views, which depends on the server: they are made
// again after an upgrade to a server that has better types.
func (l layout) flavour() string {
	switch {
	case l.inlines:
		return "modern, not inlined"
	case l.server.modern():
		return "modern"
	}
	return flavourClassic
}

// shownRows shows the rows of the newest markers. The query must not know a marker that
// is newer than its rows: it would see nothing of that window. Old servers evaluate the
// markers before they determine the parts of the table. Today's servers first take the
// state of every table that the query itself names, and later, when they plan a view,
// the state of those inside it: so the rows are read through a separate view, which
// must not be planned inline.
func (l layout) shownRows() string {
	rows, settings := l.data.rows, ""
	columns := []string{"path"}
	for _, c := range l.data.ownColumns {
		columns = append(columns, c.name)
		if c.kind == truth && l.server.modern() {
			columns[len(columns)-1] = fmt.Sprintf("toBool(%s) AS %[1]s", c.name)
		}
	}
	if l.server.modern() {
		rows = l.data.attempts
	}
	if l.inlines {
		settings = " SETTINGS " + inlineViews + " = 0"
	}
	return fmt.Sprintf("SELECT %s, %s, %s FROM %s WHERE (%s) IN (%s)%s",
		keyColumns, strings.Join(columns, ", "), l.described(""), l.in(l.local(rows)), attemptColumns, l.newest(), settings)
}

// newest selects the attempt that each window shows.
func (l layout) newest() string {
	return fmt.Sprintf("SELECT %s, max(attempt) FROM %s GROUP BY %s", keyColumns,
		l.in(l.local(l.data.markers)), keyColumns)
}

// described are the last columns of both views, in the server's types, from stored
// columns whose names begin with prefix. Servers without DateTime64 show exported_at in
// whole seconds, and the exact time in an additional column.
func (l layout) described(prefix string) string {
	form := "%[1]srevision AS revision, %[1]ssettled AS settled, %[1]sverified AS verified, " +
		"toDateTime(intDiv(%[1]sexported_at_us, 1000000), 'UTC') AS exported_at, %[1]sexported_at_us AS exported_at_us"
	if l.server.modern() {
		form = "%[1]srevision AS revision, toBool(%[1]ssettled) AS settled, toBool(%[1]sverified) AS verified, " +
			"fromUnixTimestamp64Micro(%[1]sexported_at_us, 'UTC') AS exported_at"
	}
	return fmt.Sprintf(form, prefix)
}

// shownWindows aggregates, so that a marker that was written twice is one row.
func (l layout) shownWindows() string {
	var newest, shown []string
	for _, c := range l.data.markerColumns()[5:] {
		newest = append(newest, fmt.Sprintf("argMax(%s, attempt) AS newest_%[1]s", c.name))
	}
	for _, c := range l.data.shown() {
		shown = append(shown, fmt.Sprintf("newest_%s AS %[1]s", c.name))
	}
	inner := fmt.Sprintf("SELECT %s, %s FROM %s GROUP BY %s", keyColumns, strings.Join(newest, ", "),
		l.in(l.local(l.data.markers)), keyColumns)
	return fmt.Sprintf("SELECT %s, %s, %s FROM (%s)", keyColumns, strings.Join(shown, ", "), l.described("newest_"), inner)
}

// schemaVersion is the newest that this program knows.
const schemaVersion = 1

// placedOn stands between flavour and placement in the record of a migration.
const placedOn = " on "

// migrate brings the schema up to date. Every statement may be run again, even by
// another process at the same time. It only reads a schema that is up to date, so that
// exporting needs no right to create, and refuses one newer than this program.
func (ses *session) migrate(ctx context.Context) error {
	version, made, err := ses.migrated(ctx)
	if err != nil {
		return err
	}
	flavour, placement, placed := strings.Cut(made, placedOn)
	if err := checkVersion(version); err != nil {
		return err
	}
	switch {
	case placed && placement != ses.placement():
		return fmt.Errorf("the tables were made for %s, and this is %s: windows would be in two places; name "+
			"another database, or drop the docgauge_ tables and views everywhere and fill them with `docgauge load "+
			"--sink clickhouse`", placement, ses.placement())
	case version == schemaVersion && flavour == ses.flavour():
		return nil
	}
	statements := append(append([]string{ses.versions()}, ses.tables()...), ses.views()...)
	for _, statement := range statements {
		if err := ses.define(ctx, statement); err != nil {
			return fmt.Errorf("making tables and views: %w", err)
		}
	}
	return ses.recordMigration(ctx)
}

// checkVersion refuses a schema newer than this program.
func checkVersion(version uint32) error {
	if version > schemaVersion {
		return fmt.Errorf("the tables have schema version %d, this program knows %d: use the release of docgauge "+
			"that made them, or a newer one", version, schemaVersion)
	}
	return nil
}

// migrated returns the version of the schema that is there, 0 if none, and how
// it was made: flavour and placement.
func (ses *session) migrated(ctx context.Context) (version uint32, made string, err error) {
	var there uint8
	if err := ses.conn.QueryRow(ctx, "EXISTS TABLE "+ses.in(ses.data.versions)).Scan(&there); err != nil || there == 0 {
		return 0, "", err
	}
	err = ses.conn.QueryRow(ctx, "SELECT version, views FROM "+ses.in(ses.data.versions)+" ORDER BY version DESC, "+
		"applied_at DESC LIMIT 1").Scan(&version, &made)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, "", nil
	}
	return version, made, err
}

// recordMigration needs no quorum: a process that does not see the record yet runs
// statements that do nothing, and two that begin at once must not refuse each other.
func (ses *session) recordMigration(ctx context.Context) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(ses.synchronous()))
	batch, err := ses.conn.PrepareBatch(ctx, "INSERT INTO "+ses.in(ses.data.versions)+" (version, views)")
	if err != nil {
		return err
	}
	if err := batch.Append(uint32(schemaVersion), ses.flavour()+placedOn+ses.placement()); err != nil {
		return errors.Join(err, batch.Abort())
	}
	return batch.Send()
}

// server knows the capabilities of a server by its version.
type server struct{ major, minor uint64 }

func serverOf(v *driver.ServerVersion) server { return server{v.Version.Major, v.Version.Minor} }

func (s server) atLeast(major, minor uint64) bool {
	return s.major > major || s.major == major && s.minor >= minor
}

func (s server) String() string { return fmt.Sprintf("%d.%d", s.major, s.minor) }

// oldest is the oldest server that this package was tested with.
var oldest = server{18, 16}

// modern servers have DateTime64, Bool, CREATE OR REPLACE VIEW, asynchronous
// inserts and parallel quorum inserts.
func (s server) modern() bool { return s.atLeast(22, 3) }

// check refuses servers too old.
func (s server) check() error {
	if !s.atLeast(oldest.major, oldest.minor) {
		return fmt.Errorf("server %s: too old, want %s or newer", s, oldest)
	}
	return nil
}
