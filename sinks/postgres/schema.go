package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	keyColumns      = "project, granularity, window_start, window_end"
	revisionColumns = "revision, settled, verified, exported_at"
)

// layout says where the tables of a dataset are.
type layout struct {
	data   *dataset
	schema string
}

// server has the properties of a server.
type server struct {
	version  int // 150004 is 15.4
	encoding string
	schema   string // the first of search_path that is there; empty if none is
	timeout  int64  // of a statement, in milliseconds; 0 for none
}

const aboutServer = `SELECT current_setting('server_version_num')::int4, current_setting('server_encoding'),
	coalesce(current_schema()::text, ''), (SELECT setting::int8 FROM pg_settings WHERE name = 'statement_timeout')`

// oldest is the oldest major version that this package was tested with.
const oldest = 13

// check refuses a server that could not hold the tables.
func (s server) check() error {
	switch {
	case s.version < oldest*10_000:
		return fmt.Errorf("server version %d.%d: too old, want %d or later", s.version/10_000, s.version%10_000, oldest)
	case s.encoding != "UTF8":
		return fmt.Errorf("the database has the encoding %s: want one made with CREATE DATABASE … ENCODING 'UTF8' "+
			"TEMPLATE template0", s.encoding)
	case s.schema == "":
		return errors.New("no schema of search_path is there, or the user has no right to it: CREATE SCHEMA and " +
			"GRANT USAGE, or name another one with ?search_path= in the DSN")
	}
	return nil
}

// column is a column of a table; made is its type for CREATE TABLE.
type column struct{ name, kind, made string }

// The columns of the tables, in the order of the other sinks. Text is compared by
// bytes, whatever the collation of the database: cheaper, and the order of docgauge.
var (
	windowColumns = []column{
		{"project", "text", textColumn}, {"granularity", "text", textColumn},
		{"window_start", "date", "NOT NULL"}, {"window_end", "date", "NOT NULL"},
	}
	readingColumns = []column{
		{"revision", "integer", "NOT NULL"}, {"settled", "boolean", "NOT NULL"}, {"verified", "boolean", "NOT NULL"},
		{"exported_at", "timestamp with time zone", "NOT NULL"},
	}
)

// kinds are the columns of a report, without their names.
var kinds = [...]column{analytics.Text: {"", "text", textColumn}, analytics.Truth: {"", "boolean", "NOT NULL"},
	analytics.Count: {"", "bigint", "NOT NULL"}}

const textColumn = `COLLATE "C" NOT NULL`

// pathBytes are the bytes of a path; they order as docgauge orders paths.
const pathBytes = "coalesce(path_bytes, convert_to(path, 'UTF8'))"

// pathKey is half of a SHA-256 of a path. Strangers choose paths, and with MD5 they could have chosen two with one key.
// The cast to bytea takes a text with its backslashes doubled; convert_to(path, 'UTF8') would be plainer, but a generated
// column needs immutable functions, and convert_to is only stable.
const pathKey = `encode(substring(sha256(coalesce(path_bytes, replace(path, '\', '\\')::bytea)) FROM 1 FOR 16), 'hex')::uuid`

// table is a table with the columns of its primary key.
type table struct {
	name    string
	columns []column
	key     string
	about   []string // comments: on the table, and on a column
}

// orZero is the column c of the table, or where it has none an expression of that type.
func (t table) orZero(c column) string {
	if slices.Contains(t.columns, c) {
		return c.name
	}
	return map[string]string{"text": `'' COLLATE "C"`, "boolean": "false", "bigint": "0::bigint"}[c.kind] + " AS " +
		c.name
}

// dataset is the tables of a report.
type dataset struct {
	report   analytics.Report
	shape    *analytics.Shape
	versions string // the table of its migrations
	rows     table
	// windows has one row for each window. A window of agents may have no other.
	windows    table
	ownColumns []column // of the report, in rows after the path
	totals     []column // of the site, in windows; none if they are rows
	count      column   // of windows: Revision.Rows
}

// humansColumn is a column of windows.
var humansColumn = column{"humans", "text", textColumn}

// shown are the columns of windows between the columns of the key and of the reading.
func (d *dataset) shown() []column { return slices.Concat(d.totals, []column{humansColumn, d.count}) }

// tables are those that a migration makes.
func (d *dataset) tables() []table { return []table{d.rows, d.windows} }

var datasets = func() (all []*dataset) {
	for _, report := range analytics.Reports {
		all = append(all, newDataset(report))
	}
	return all
}()

// newDataset returns the dataset of a report, with the comments on its tables.
func newDataset(report analytics.Report) *dataset {
	shape, name := report.Shape(), "docgauge_"+report.String()
	d := &dataset{report: report, shape: shape, versions: name + "_migrations", count: kinds[analytics.Count]}
	for _, c := range shape.Columns[1:] {
		own := kinds[c.Kind]
		own.name = c.Name
		d.ownColumns = append(d.ownColumns, own)
	}
	if report == analytics.VisitorsReport {
		d.versions = "docgauge_migrations"
	}
	key := strings.Join(append([]string{keyColumns, "path_key"}, shape.Order...), ", ")
	d.rows = table{name, slices.Concat(windowColumns, []column{{"path", "text", textColumn}}, d.ownColumns, readingColumns,
		[]column{{"path_bytes", "bytea", ""}, {"path_key", "uuid", "NOT NULL GENERATED ALWAYS AS (" + pathKey + ") STORED"}}),
		key, nil}
	d.rows.about = slices.Concat([]string{"TABLE %s IS 'docgauge: " + shape.About + "'"},
		commentsOn(d.rows.columns, shape),
		[]string{"COLUMN %s.path_bytes IS 'The path, if text cannot hold it; otherwise NULL.'"})
	windows, ofWindows := name+"_windows", []string{"TABLE %s IS 'docgauge: the windows of " + name +
		", also those without a row'"}
	if d.count.name = "row_count"; !shape.Site {
		windows, d.count.name, d.totals = "docgauge_"+shape.TotalsTable, "page_count", d.ownColumns
		ofWindows = append([]string{"TABLE %s IS 'docgauge: " + shape.AboutSite + "'"}, commentsOn(d.totals, shape)...)
	}
	ofWindows = append(ofWindows, "COLUMN %s."+d.count.name+" IS 'Rows of the window in "+name+
		" that have a path; -1 if only totals were read.'")
	ofWindows = append(ofWindows, "COLUMN %s.humans IS 'Which readers that call themselves browsers count as human: "+
		"claimed (all), confirmed (those with evidence); empty where the service does not say.'")
	d.windows = table{windows, slices.Concat(windowColumns, d.shown(), readingColumns), keyColumns, ofWindows}
	return d
}

// commentsOn are the comments on some of the columns of a report.
func commentsOn(columns []column, shape *analytics.Shape) (comments []string) {
	for _, c := range shape.Columns {
		if c.About != "" && slices.Contains(nameList(columns), c.Name) {
			comments = append(comments, "COLUMN %s."+c.Name+" IS '"+c.About+"'")
		}
	}
	return comments
}

// definition returns the statements that make a table.
func (l layout) definition(t table) (statements []string) {
	var columns []string
	for _, c := range t.columns {
		columns = append(columns, strings.Join([]string{c.name, c.kind, c.made}, " "))
	}
	statements = append(statements, fmt.Sprintf("CREATE TABLE %s (%s, PRIMARY KEY (%s))", l.in(t.name),
		strings.Join(columns, ", "), t.key))
	for _, comment := range t.about {
		statements = append(statements, "COMMENT ON "+fmt.Sprintf(comment, l.in(t.name)))
	}
	return statements
}

// schemaVersion is the newest that this program knows.
const schemaVersion = 1

// queryer is a connection, a transaction or a pool.
type queryer interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, arguments ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row
}

// findTable selects the oid of the table $2 in the schema $1.
const findTable = "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 " +
	"AND c.relname = $2"

// migrated returns the version of the dataset's tables that are there, 0 if none, and refuses one
// newer than this program.
func (l layout) migrated(ctx context.Context, q queryer) (version int, err error) {
	var there bool
	// to_regclass may answer from a cache, and miss a table that another process has just made.
	if err := q.QueryRow(ctx, "SELECT EXISTS ("+findTable+")", l.arguments(l.data.versions)...).Scan(&there); err != nil ||
		!there {
		return 0, err
	}
	err = q.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM "+l.in(l.data.versions)).Scan(&version)
	if err == nil && version > schemaVersion {
		err = fmt.Errorf("the tables have schema version %d, this program knows %d: use the release of docgauge "+
			"that made them, or a newer one", version, schemaVersion)
	}
	return version, err
}

// migrate makes the tables of the dataset, in one transaction. Processes that come at the same time
// wait for each other.
func (ses *session) migrate(ctx context.Context, by string) error {
	return pgx.BeginFunc(ctx, ses.pool, func(tx pgx.Tx) error {
		var b pgx.Batch
		ses.set(&b)
		b.Queue("SELECT pg_advisory_xact_lock($1, 0)", lockClass)
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		if version, err := ses.migrated(ctx, tx); err != nil || version == schemaVersion {
			return err
		}
		statements := []string{fmt.Sprintf("CREATE TABLE %s (version integer PRIMARY KEY, made_by text NOT NULL, "+
			"applied_at timestamptz NOT NULL DEFAULT now())", ses.in(ses.data.versions))}
		for _, t := range ses.data.tables() {
			statements = append(statements, ses.definition(t)...)
		}
		for _, statement := range statements {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, fmt.Sprintf("INSERT INTO %s (version, made_by) VALUES ($1, $2)", ses.in(ses.data.versions)),
			schemaVersion, "docgauge "+by)
		return err
	})
}

// verify refuses tables that lack one of our columns or our primary key. Other columns may
// be added.
func (ses *session) verify(ctx context.Context) error {
	for _, t := range ses.data.tables() {
		columns, key, err := ses.described(ctx, t.name)
		if err != nil {
			return err
		}
		if len(columns) == 0 {
			return errAltered{t.name, "is gone"}
		}
		for _, c := range t.columns {
			if got := columns[c.name]; got != c.kind {
				return errAltered{t.name, fmt.Sprintf("has %s for column %s, want %s", orNone(got), c.name, c.kind)}
			}
		}
		if key != t.key {
			return errAltered{t.name, fmt.Sprintf("has %s for primary key, want %s", orNone(key), t.key)}
		}
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// described returns the columns of a table with their types, and its primary key.
func (ses *session) described(ctx context.Context, table string) (columns map[string]string, key string, err error) {
	const query = `SELECT a.attname::text, trim('"' FROM format_type(a.atttypid, NULL)),
			coalesce(array_position(i.indkey::int2[], a.attnum), -1)
		FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
		WHERE a.attrelid = (` + findTable + `) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 3`
	columns = map[string]string{}
	var keys []string
	rows, err := ses.pool.Query(ctx, query, ses.arguments(table)...)
	if err != nil {
		return nil, "", err
	}
	var name, kind string
	var position int
	_, err = pgx.ForEachRow(rows, []any{&name, &kind, &position}, func() error {
		columns[name] = kind
		if position >= 0 {
			keys = append(keys, name)
		}
		return nil
	})
	return columns, strings.Join(keys, ", "), err
}

func nameList(columns []column) (all []string) {
	for _, c := range columns {
		all = append(all, c.name)
	}
	return all
}

// names lists the names of columns.
func names(columns []column) string { return strings.Join(nameList(columns), ", ") }
