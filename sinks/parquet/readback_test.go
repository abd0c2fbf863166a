package parquet

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

const (
	installReaders = "sh sinks/parquet/testdata/install-readers.sh"
	repository     = "../.."
)

// tree publishes four windows: with rows over two months and two projects,
// an empty one, and totals only.
func makeTree(t *testing.T) *Sink {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "data"))
	for _, w := range []struct {
		rev  analytics.Revision
		rows int
	}{
		{sinktest.Revision(sinktest.Key("prj_a", 0), 3), 1500},
		{sinktest.Revision(sinktest.Key("prj_b", 31), 2), 10},
		{sinktest.Revision(sinktest.Key("prj_a", 1), 1), 0},
		{sinktest.TotalsOnly(sinktest.Revision(sinktest.Key("prj_a", 2), 4)), 0},
	} {
		replace(t, s, sinktest.Seal(t, w.rev, sinktest.Pages(w.rows)))
	}
	return s
}

// missing ends the test: the engine must be there in CI.
func missing(t *testing.T, engine string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed: %s", engine, installReaders)
	}
	t.Skipf("SKIPPED: %s is not installed: %s", engine, installReaders)
}

// script runs a reader's script and decodes the JSON it prints into result.
func script(t *testing.T, result any, cmd *exec.Cmd) {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd.Path, err, stderr.String())
	}
	if err := json.Unmarshal(out, result); err != nil {
		t.Fatalf("%s prints %q: %v", cmd.Path, out, err)
	}
}

type table struct {
	Columns []string   `json:"columns"`
	Types   []string   `json:"types"`
	Rows    [][]string `json:"rows"`
}

// duckdb answers queries; NULL is the empty string.
func duckdb(t *testing.T, queries ...string) (tables []table) {
	t.Helper()
	modules, err := filepath.Abs(filepath.Join(repository, ".tools/node/node_modules"))
	check(t, err)
	node, err := exec.LookPath("node")
	if _, absent := os.Stat(filepath.Join(modules, "@duckdb/node-api")); err != nil || absent != nil {
		missing(t, "DuckDB")
	}
	text, err := json.Marshal(queries)
	check(t, err)
	cmd := exec.Command(node, "testdata/read_duckdb.cjs", string(text))
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	script(t, &tables, cmd)
	return tables
}

// TestDuckDB reads both tables by globs, with and without the keys in the names of directories.
func TestDuckDB(t *testing.T) {
	s := makeTree(t)
	all := func(name string) string { return fmt.Sprintf("'%s/%s/**/*.parquet'", s.Location(), name) }
	got := duckdb(t,
		"SELECT * FROM read_parquet("+all("visitors")+", hive_partitioning = true) ORDER BY window_start, path LIMIT 1",
		"SELECT project, window_start, count(*), min(path), max(path), sum(human), max(revision) FROM "+
			all("visitors")+" GROUP BY ALL ORDER BY ALL",
		"SELECT * FROM read_parquet("+all("totals")+", hive_partitioning = false) ORDER BY window_start LIMIT 1",
		"SELECT project, window_start, page_count FROM "+all("totals")+" ORDER BY window_start",
		"SELECT count(*) FROM read_parquet('"+s.Location()+"/**/*.parquet', union_by_name = true) WHERE ym = '2026-10'",
		"SELECT count(*), count(stats_min_value), count(stats_max_value), min(compression), max(compression) FROM "+
			"parquet_metadata("+all("*")+")",
		"SELECT count(*) FROM "+all("visitors")+" WHERE path = '/docs/page-0001234' AND exported_at >= TIMESTAMPTZ "+
			"'2026-11-01 00:00:03+00'",
	)
	const key, exported = "prj_a day 2026-10-01 2026-10-02 ", "2026-11-01 00:00:03.123456+00"
	row := func(words string, more ...string) [][]string {
		return [][]string{append(strings.Fields(words), more...)}
	}
	equal(t, "visitors with partition keys", table{
		strings.Fields("project granularity window_start window_end path human ai total revision settled verified " +
			"exported_at g p ym"),
		append(strings.Fields("VARCHAR VARCHAR DATE DATE VARCHAR BIGINT BIGINT BIGINT INTEGER BOOLEAN BOOLEAN"),
			"TIMESTAMP WITH TIME ZONE", "VARCHAR", "VARCHAR", "VARCHAR"),
		row(key+"/docs/page-0000000 1000000 7 1000003 3 false false", exported, "day", "prj_a", "2026-10"),
	}, got[0])
	equal(t, "windows", [][]string{
		strings.Fields("prj_a 2026-10-01 1500 /docs/page-0000000 /docs/page-0001499 1501124250 3"),
		strings.Fields("prj_b 2026-11-01 10 /docs/page-0000000 /docs/page-0000009 10000045 2"),
	}, got[1].Rows)
	equal(t, "totals", row(key+"3000 300 3150 claimed 3 false false", exported, "1500"), got[2].Rows)
	equal(t, "page counts", [][]string{
		{"prj_a", "2026-10-01", "1500"}, {"prj_a", "2026-10-02", "0"}, {"prj_a", "2026-10-03", "-1"},
		{"prj_b", "2026-11-01", "10"},
	}, got[3].Rows)
	equal(t, "rows of a month in both tables", row("1503"), got[4].Rows)
	equal(t, "chunks, with minimum, with maximum, compression", row("76 76 76 ZSTD ZSTD"), got[5].Rows)
	equal(t, "a row found by its path and time", row("1"), got[6].Rows)
}

func equal[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

type description struct {
	CreatedBy string `json:"created_by"`
	RowGroups []int  `json:"row_groups"`
	Columns   []struct {
		Name, Type string
		Nullable   bool
	}
	Metadata          map[string]string
	Compression       []string
	WithoutStatistics []string            `json:"without_statistics"`
	WithIndex         bool                `json:"with_index"`
	MinMax            map[string][]string `json:"min_max"`
	Rows              [][]string
}

func pyarrow(t *testing.T, paths ...string) (files []description) {
	t.Helper()
	python, err := filepath.Abs(filepath.Join(repository, ".tools/venv/bin/python"))
	check(t, err)
	if exec.Command(python, "-c", "import pyarrow").Run() != nil {
		missing(t, "pyarrow")
	}
	script(t, &files, exec.Command(python, append([]string{"testdata/read_pyarrow.py"}, paths...)...))
	return files
}

func TestPyarrow(t *testing.T) {
	s := makeTree(t)
	path := func(table string, day int) string {
		p, err := s.path(table, sinktest.Key("prj_a", day))
		check(t, err)
		return p
	}
	files := pyarrow(t, path(visitorsTable, 0), path(visitorsTable, 1), path(totalsTable, 0), path(totalsTable, 2))
	full, empty, totals, only := files[0], files[1], files[2], files[3]

	var columns []string
	for _, c := range full.Columns {
		if c.Nullable {
			t.Errorf("column %s is nullable", c.Name)
		}
		columns = append(columns, c.Name+" "+c.Type)
	}
	equal(t, "columns", []string{
		"project string", "granularity string", "window_start date32[day]", "window_end date32[day]", "path string",
		"human int64", "ai int64", "total int64", "revision int32", "settled bool", "verified bool",
		"exported_at timestamp[us, tz=UTC]",
	}, columns)
	equal(t, "columns of an empty window", full.Columns, empty.Columns)
	if len(full.Metadata["docgauge.checksum"]) != 16 || len(full.Metadata["docgauge.crc32c"]) != 8 {
		t.Errorf("metadata %v", full.Metadata)
	}
	delete(full.Metadata, "docgauge.checksum")
	delete(full.Metadata, "docgauge.crc32c")
	equal(t, "metadata", map[string]string{
		"docgauge.schema_version": "1", "docgauge.project": "prj_a", "docgauge.granularity": "day",
		"docgauge.window_start": "2026-10-01", "docgauge.window_end": "2026-10-02", "docgauge.revision": "3",
		"docgauge.settled": "false", "docgauge.verified": "false", "docgauge.row_count": "1500",
		"docgauge.totals_human": "3000", "docgauge.totals_ai": "300", "docgauge.totals_total": "3150",
		"docgauge.humans":      "claimed",
		"docgauge.exported_at": "2026-11-01T00:00:03.123456Z",
	}, full.Metadata)
	equal(t, "row groups", []int{1500}, full.RowGroups)
	equal(t, "compression", []string{"ZSTD"}, full.Compression)
	equal(t, "columns without statistics", []string{}, full.WithoutStatistics)
	equal(t, "paths between", []string{"/docs/page-0000000", "/docs/page-0001499"}, full.MinMax["path"])
	equal(t, "last row", []string{"prj_a", "day", "2026-10-01", "2026-10-02", "/docs/page-0001499", "1001499", "7",
		"1001502", "3", "False", "False", "2026-11-01 00:00:03.123456+00:00"}, full.Rows[1499])
	if full.WithIndex || !strings.HasPrefix(full.CreatedBy, "docgauge ") {
		t.Errorf("page index %t, created by %q", full.WithIndex, full.CreatedBy)
	}
	if len(empty.Rows) != 0 || empty.Metadata["docgauge.row_count"] != "0" {
		t.Errorf("the empty window has %d rows, metadata %v", len(empty.Rows), empty.Metadata)
	}
	equal(t, "totals", [][]string{{"prj_a", "day", "2026-10-01", "2026-10-02", "3000", "300", "3150", "claimed", "3",
		"False", "False", "2026-11-01 00:00:03.123456+00:00", "1500"}}, totals.Rows)
	equal(t, "page_count of totals only", "-1", only.Rows[0][12])
}
