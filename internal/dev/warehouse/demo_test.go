package warehouse

import (
	"encoding/csv"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestDemo pastes what `docgauge demo` prints: the queries give what the command gives,
// whatever the directory is called.
func TestDemo(t *testing.T) {
	binary, dir := engines.Docgauge(t), filepath.Join(t.TempDir(), "a demo's")
	printed := shell(t, exec.Command(binary, "demo", "--dir", dir))
	if !strings.Contains(printed, " 1  /") {
		t.Errorf("no page is shown:\n%s", printed)
	}
	want := topPagesOf(t, shell(t, exec.Command("sh", "-c",
		between(t, printed, "day by day:\n\n", "\n")+" --csv -n 10")))
	if len(want.Rows) != 10 {
		t.Fatalf("%v", want)
	}
	t.Run("DuckDB", func(t *testing.T) {
		query := block{name: "demo", body: between(t, printed, "read by DuckDB:", ";")}
		cmd, err := engines.DuckDB.Command(t.Context(), t.TempDir())
		engines.Need(t, err)
		if diff := cmp.Diff(want, answers(t, t.TempDir(), cmd, "", query)[0]); diff != "" {
			t.Errorf("-top +query:\n%s\n%s", diff, query.body)
		}
	})
	t.Run("ClickHouse", func(t *testing.T) {
		server := engines.RunClickHouse(t)
		env := append(exec.Command(binary).Environ(), "DOCGAUGE_SINKS=parquet,clickhouse",
			"DOCGAUGE_CLICKHOUSE_DSN="+server.DSN("default"))
		again := exec.Command(binary, "demo", "--dir", dir)
		again.Env = env
		sql := between(t, shell(t, again), "in ClickHouse:", ";")
		load := exec.Command(binary, "load", "--sink", "clickhouse", "--archive", filepath.Join(dir, "data"))
		load.Env = append(env, "DOCGAUGE_STATE_DIR="+filepath.Join(dir, "state"))
		shell(t, load)
		if diff := cmp.Diff(want, parseTSV(query(t, server, sql+" FORMAT TSVWithNames"))); diff != "" {
			t.Errorf("-top +query:\n%s\n%s", diff, sql)
		}
	})
}

// between returns the part of text after begin and before end.
func between(t *testing.T, text, begin, end string) string {
	t.Helper()
	_, after, found := strings.Cut(text, begin)
	part, _, ends := strings.Cut(after, end)
	if !found || !ends {
		t.Fatalf("no %q and %q in:\n%s", begin, end, text)
	}
	return part
}

// topPagesOf returns path, human, ai and total from the output of `docgauge top --csv`.
func topPagesOf(t *testing.T, text string) table {
	t.Helper()
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := table{Columns: records[0][5:9]}
	for _, r := range records[1:] {
		out.Rows = append(out.Rows, r[5:9])
	}
	return out
}
