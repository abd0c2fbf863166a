package warehouse

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/delta"
)

// deltaLake writes h to ./delta of a directory, which it returns. Each entry of the
// logs gets the time of the export that committed it: time travel goes by that.
func deltaLake(t *testing.T, h history) (dir string) {
	t.Helper()
	dir = t.TempDir()
	publishDelta(t, h, filepath.Join(dir, "delta"))
	entries, err := filepath.Glob(filepath.Join(dir, "delta", "*", "_delta_log", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		at := committed(t, entry)
		if err := os.Chtimes(entry, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// publishDelta exports h to Delta tables, at the times of h.
func publishDelta(t *testing.T, h history, root string) {
	t.Helper()
	var now time.Time
	sink, err := delta.New(delta.Options{URL: root, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	for i, w := range h {
		now = w.ExportedAt
		h[i:i+1].into(t, sink)
	}
}

// committed returns the time in an entry of a log.
func committed(t *testing.T, entry string) time.Time {
	t.Helper()
	text, err := os.ReadFile(entry)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var action struct {
			CommitInfo struct{ Timestamp int64 }
		}
		if err := json.Unmarshal([]byte(line), &action); err != nil {
			t.Fatal(err)
		}
		if at := action.CommitInfo.Timestamp; at != 0 {
			return time.UnixMilli(at)
		}
	}
	t.Fatalf("%s has no time", entry)
	return time.Time{}
}

func reader(t *testing.T, r engines.DeltaReader) *exec.Cmd {
	t.Helper()
	cmd, err := r.Command(t.Context(), t.TempDir())
	engines.Need(t, err)
	return cmd
}

func TestDeltaDuckDB(t *testing.T) {
	cmd, h := reader(t, engines.DuckDB), exported(t)
	setup, blocks := recipes(t, "duckdb-delta", "duckdb")
	script(t, deltaLake(t, h), cmd, setup, blocks)
}

func TestDeltaSpark(t *testing.T) {
	cmd, h := reader(t, engines.Spark), exported(t)
	setup, blocks := recipes(t, "spark", "spark")
	dir := deltaLake(t, h)
	setup = moved(t, setup, "/srv/docgauge", dir)
	for i := range blocks {
		blocks[i].body = strings.ReplaceAll(blocks[i].body, "/srv/docgauge", dir)
	}
	script(t, dir, cmd, setup, blocks)
}

// moved replaces a path of the page, which must be there.
func moved(t *testing.T, code, former, path string) string {
	t.Helper()
	if !strings.Contains(code, former) {
		t.Fatalf("the setup does not read %s:\n%s", former, code)
	}
	return strings.ReplaceAll(code, former, path)
}

func TestDeltaPython(t *testing.T) {
	program, err := engines.DeltaPython()
	engines.Need(t, err)
	h := exported(t)
	setup, blocks := recipes(t, "pyarrow-delta", "pyarrow", "pyarrow-delta")
	script(t, deltaLake(t, h), tool(t, program, "pyarrow_run.py"), setup, blocks)
}

// TestDeltaPythonS3 asks only for what has not been asked of a directory: time travel in
// a bucket goes by times that a test cannot set.
func TestDeltaPythonS3(t *testing.T) {
	program, err := engines.DeltaPython()
	engines.Need(t, err)
	h := exported(t)
	server := bucket(t, h, "delta", publishDelta)
	setup, blocks := recipes(t, "pyarrow-delta-s3", "pyarrow")
	here := `"AWS_ENDPOINT_URL": "` + server.Endpoint + `", "AWS_ALLOW_HTTP": "true", "AWS_REGION"`
	script(t, t.TempDir(), tool(t, program, "pyarrow_run.py"), moved(t, setup, `"AWS_REGION"`, here), blocks)
}

func TestDeltaClickHouseS3(t *testing.T) {
	h := exported(t)
	b, s := bucket(t, h, "delta", publishDelta), engines.RunEngine26(t)
	setup, _ := recipes(t, "clickhouse-delta-s3", "clickhouse")
	prepare(t, s, inBucket(t, setup, b))
	ask(t, s, "clickhouse", "clickhouse-26")
}

func TestDeltaClickHouse(t *testing.T) {
	h := exported(t)
	dir := deltaLake(t, h)
	s, err := engines.StartEngine26(dir)
	engines.Need(t, err)
	t.Cleanup(func() { _ = s.Kill() })
	setup, _ := recipes(t, "clickhouse-delta", "clickhouse")
	prepare(t, s, moved(t, setup, "/var/lib/clickhouse/user_files", dir))
	ask(t, s, "clickhouse", "clickhouse-26")

	version := versionBefore(t, filepath.Join(dir, "delta", "totals"), beforeChanges)
	then, err := s.Exec(t.Context(), fmt.Sprintf("SELECT count() FROM docgauge_totals SETTINGS delta_lake_snapshot_version = %d", version))
	if want := fmt.Sprintln(len(h.before(beforeChanges).shown())); err != nil || then != want {
		t.Errorf("version %d has %q windows, want %q: %v", version, then, want, err)
	}
}
