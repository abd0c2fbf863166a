package warehouse

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/clickhouse"
	"github.com/docgauge/docgauge/sinks/delta"
	"github.com/docgauge/docgauge/sinks/parquet"
	"github.com/docgauge/docgauge/sinks/postgres"
)

// store is the exported history as files and Delta tables: in ./data and ./delta of a
// directory, and in s3://lake/docs and s3://lake/delta; and the facts of a site in ./facts.
// Nothing writes to it.
type store struct {
	dir    string
	bucket *engines.S3
}

// newStore exports the history four times. Each entry of the log in ./delta gets the time of the
// export that committed it, because time travel goes by that.
func newStore(t *testing.T) store {
	t.Helper()
	h, s := ofAllReports(t), store{t.TempDir(), engines.RunS3(t)}
	if err := s.bucket.CreateBucket(t.Context(), "lake"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", s.bucket.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s.bucket.SecretKey)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	query := "?path_style=true&region=" + s.bucket.Region + "&endpoint=" + s.bucket.Endpoint
	for _, root := range []string{filepath.Join(s.dir, "data"), "s3://lake/docs" + query} {
		sink, err := parquet.New(root, analytics.Reports...)
		h.into(t, sink, err)
	}
	h.asDelta(t, filepath.Join(s.dir, "delta"))
	h.asDelta(t, "s3://lake/delta"+query)
	exportFacts(t, s.dir)
	return s
}

// asDelta exports h to Delta tables, at the times of h.
func (h history) asDelta(t *testing.T, root string) {
	t.Helper()
	var now time.Time
	sink, err := delta.New(delta.Options{URL: root, Now: func() time.Time { return now },
		Reports: analytics.Reports})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	for i, w := range h {
		now = w.ExportedAt
		h[i:i+1].replace(t, sink)
	}
	entries, _ := filepath.Glob(filepath.Join(root, "*", "_delta_log", "*.json"))
	for _, entry := range entries {
		at := committed(t, entry)
		if err := os.Chtimes(entry, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

// into commits h to a new sink and closes it.
func (h history) into(t *testing.T, sink sinks.Sink, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	h.replace(t, sink)
}

// here lets code of the page read from the store: where the page has a placeholder for its reader, the code, which
// must have it, gets the value of the test.
func (s store) here(t *testing.T, code, page string) string {
	t.Helper()
	if !strings.Contains(code, page) {
		t.Fatalf("the setup does not read %s:\n%s", page, code)
	}
	return strings.NewReplacer(
		"/srv/docgauge", s.dir, "/var/lib/clickhouse/user_files", s.dir,
		"https://lake.s3.us-east-1.amazonaws.com/", s.bucket.Endpoint+"/lake/",
		"ACCESS_KEY_ID", s.bucket.AccessKey, "SECRET_ACCESS_KEY", s.bucket.SecretKey,
		`region="us-east-1"`, `region="us-east-1", endpoint_override="`+s.bucket.Endpoint+`"`,
		`"AWS_REGION"`, `"AWS_ENDPOINT_URL": "`+s.bucket.Endpoint+`", "AWS_ALLOW_HTTP": "true", "AWS_REGION"`,
	).Replace(code)
}

// TestRecipes runs every recipe of the pages in every engine that is installed, on what the
// sinks wrote, and compares each answer with the one that the page shows.
func TestRecipes(t *testing.T) {
	s := newStore(t)
	current, err := engines.StartEngine26(s.dir) // as clickhouse local runs in a directory
	engines.Need(t, err)
	t.Cleanup(func() { _ = current.Kill() })
	python, err := engines.DeltaPython()
	engines.Need(t, err)
	script, err := filepath.Abs(filepath.Join("testdata", "pyarrow_run.py"))
	if err != nil {
		t.Fatal(err)
	}
	pyarrow := s.program(func() (*exec.Cmd, error) { return exec.Command(python, script), nil })
	duckDB := s.program(func() (*exec.Cmd, error) { return engines.DuckDB.Command(t.Context(), t.TempDir()) })
	debian := func(t *testing.T, setup string, all []block) { tables(engines.RunClickHouse(t))(t, setup, all) }
	// Each recipe runs in an engine of these, or is long.
	quick := []string{"DuckDB", "pyarrow", "Python, Delta", "ClickHouse 26, files", "ClickHouse 26"}
	for _, tc := range []struct {
		name, setup, recipes string
		place                string // of the data, as the setup has it
		run                  func(t *testing.T, setup string, all []block)
	}{
		{"DuckDB", "duckdb", "duckdb duckdb-files", "data/", duckDB},
		{"DuckDB, Delta", "duckdb-delta", "duckdb", "delta/", duckDB},
		{"pyarrow", "pyarrow", "pyarrow", "data/", pyarrow},
		{"pyarrow, S3", "pyarrow-s3", "pyarrow", `region="us-east-1"`, pyarrow},
		{"Python, Delta", "pyarrow-delta", "pyarrow pyarrow-delta", "delta/", pyarrow},
		// Time travel in a bucket goes by times that a test cannot set.
		{"Python, Delta in S3", "pyarrow-delta-s3", "pyarrow", `"AWS_REGION"`, pyarrow},
		{"ClickHouse 26, files", "clickhouse-file", "clickhouse clickhouse-26 clickhouse-file", "data/", views(current)},
		{"ClickHouse 26, S3", "clickhouse-s3", "clickhouse clickhouse-26", "https://lake", views(current)},
		{"ClickHouse 26, Delta", "clickhouse-delta", "clickhouse clickhouse-26", "/var/lib", views(current)},
		{"ClickHouse 26, Delta in S3", "clickhouse-delta-s3", "clickhouse clickhouse-26", "https://lake",
			views(current)},
		{"ClickHouse 26", "", "clickhouse clickhouse-26 clickhouse-tables", "", tables(current)},
		{"ClickHouse 18.16", "", "clickhouse clickhouse-tables", "", debian},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !slices.Contains(quick, tc.name) {
				engines.Long(t)
			}
			setup, all := s.recipes(t, tc.setup, strings.Fields(tc.recipes)...)
			tc.run(t, s.here(t, setup, tc.place), all)
		})
	}
	for _, version := range engines.PostgresVersions {
		t.Run("PostgreSQL "+version, func(t *testing.T) {
			if version != "15" {
				engines.Long(t)
			}
			testPostgres(t, version)
		})
	}
	t.Run("time travel", func(t *testing.T) { s.testTimeTravel(t, current) })
	t.Run("Spark", s.testSpark)
}

// recipes returns a setup, and the recipes that are for one of the engines, on the files of the store.
func (s store) recipes(t *testing.T, setup string, engines ...string) (first string, all []block) {
	t.Helper()
	first, all = recipes(t, setup, engines...)
	for i := range all {
		all[i].body = strings.ReplaceAll(all[i].body, "/srv/docgauge", s.dir)
	}
	return first, all
}

// program passes the setup and the recipes to a program, which runs them in the directory of the
// store.
func (s store) program(start func() (*exec.Cmd, error)) func(t *testing.T, setup string, all []block) {
	return func(t *testing.T, setup string, all []block) {
		cmd, err := start()
		engines.Need(t, err)
		for i, got := range answers(t, s.dir, cmd, setup, all...) {
			check(t, all[i], got)
		}
	}
}

// answers passes recipes to a program, which runs them in dir and prints a table for each.
func answers(t *testing.T, dir string, cmd *exec.Cmd, setup string, all ...block) (got []table) {
	t.Helper()
	type recipe struct {
		Name string `json:"name"`
		Code string `json:"code"`
	}
	input := struct {
		Setup   string   `json:"setup"`
		Recipes []recipe `json:"recipes"`
	}{Setup: setup}
	for _, b := range all {
		input.Recipes = append(input.Recipes, recipe{b.name, b.body})
	}
	text, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(text)
	out := strings.TrimSpace(shell(t, cmd))
	out = out[strings.LastIndex(out, "\n")+1:] // Spark prints above it what VACUUM deleted
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != len(all) {
		t.Fatalf("%s answers %q: %v", cmd.Path, out, err)
	}
	return got
}

// shell runs a command and returns its output.
func shell(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	return string(out)
}

// server is a ClickHouse of any version.
type server interface {
	DSN(database string) string
	Exec(ctx context.Context, sql string) (string, error)
}

// tables fills the tables of the database default, and asks them.
func tables(s server) func(t *testing.T, _ string, all []block) {
	return func(t *testing.T, _ string, all []block) {
		sink, err := clickhouse.New(clickhouse.Options{DSN: s.DSN("default"), Now: time.Now,
			Reports: analytics.Reports})
		ofAllReports(t).into(t, sink, err)
		ask(t, s, all)
	}
}

// views makes the views of a setup, and asks them.
func views(s server) func(t *testing.T, setup string, all []block) {
	return func(t *testing.T, setup string, all []block) {
		prepare(t, s, setup)
		ask(t, s, all)
		for _, name := range []string{"visitors", "totals", "agents", "sources", "views", "views_totals"} {
			prepare(t, s, "DROP VIEW docgauge_"+name)
		}
		prepare(t, s, "DROP VIEW IF EXISTS facts")
	}
}

func prepare(t *testing.T, s server, sql string) {
	t.Helper()
	for _, statement := range statements(sql) {
		query(t, s, statement)
	}
}

func query(t *testing.T, s server, sql string) string {
	t.Helper()
	text, err := s.Exec(t.Context(), sql)
	if err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	return text
}

func ask(t *testing.T, s server, all []block) {
	t.Helper()
	for _, b := range all {
		code := statements(b.body)
		last := len(code) - 1
		prepare(t, s, strings.Join(code[:last], ";\n"))
		check(t, b, parseTSV(query(t, s, strings.TrimSuffix(code[last], ";")+" FORMAT TSVWithNames")))
	}
}

func parseTSV(text string) (out table) {
	for l := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		out.Rows = append(out.Rows, strings.Split(strings.ReplaceAll(l, `\N`, null), "\t"))
	}
	out.Columns, out.Rows = out.Rows[0], out.Rows[1:]
	return out
}

// testPostgres runs the recipes on tables of a version.
func testPostgres(t *testing.T, version string) {
	_, all := recipes(t, "", "postgres")
	dsn := engines.RunPostgres(t, version).DSN("postgres")
	sink, err := postgres.New(postgres.Options{DSN: dsn, Now: time.Now, Reports: analytics.Reports})
	ofAllReports(t).into(t, sink, err)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, b := range all {
		var out table
		result := conn.PgConn().ExecParams(t.Context(), statements(b.body)[0], nil, nil, nil, nil)
		for _, c := range result.FieldDescriptions() {
			out.Columns = append(out.Columns, c.Name)
		}
		for result.NextRow() {
			var row []string
			for _, v := range result.Values() {
				cell := string(v)
				if v == nil {
					cell = null
				}
				row = append(row, cell)
			}
			out.Rows = append(out.Rows, row)
		}
		if _, err := result.Close(); err != nil {
			t.Fatalf("%v\n%s", err, b.body)
		}
		check(t, b, out)
	}
}
