package engines

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// deltaTable makes a table of two files, with 200 rows and then 300.
func deltaTable(t *testing.T) (path string) {
	t.Helper()
	python, err := DeltaPython()
	Need(t, err)
	path = filepath.Join(t.TempDir(), "numbers")
	out, err := exec.CommandContext(t.Context(), python, "-c", `
import os, sys
import pyarrow as pa
from deltalake import write_deltalake
for first in (0, 100):
    write_deltalake(sys.argv[1], pa.table({"n": range(first, first + 100)}), mode="append")
write_deltalake(sys.argv[1], pa.table({"n": range(200, 300)}), mode="append")
os._exit(0)
`, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func TestDeltaReaders(t *testing.T) {
	path, before := deltaTable(t), int64(1)
	tables := []DeltaTable{{"now", path, nil}, {"before", path, &before}}
	for _, reader := range []DeltaReader{Deltalake, DuckDB} { // Spark: see package warehouse
		t.Run(string(reader), func(t *testing.T) {
			got, err := reader.Query(t.Context(), t.TempDir(), tables,
				"SELECT count(*) AS n, sum(n) AS total, min(n) = 0 AS whole FROM now",
				"SELECT count(*) AS n, CAST(NULL AS INT) AS nothing FROM before")
			Need(t, err)
			want := []DeltaRows{
				{[]string{"n", "total", "whole"}, [][]string{{"300", "44850", "true"}}},
				{[]string{"n", "nothing"}, [][]string{{"200", "NULL"}}},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDeltaReaderFails(t *testing.T) {
	_, err := Deltalake.Query(t.Context(), t.TempDir(), []DeltaTable{{"none", t.TempDir(), nil}}, "SELECT 1")
	if err == nil {
		t.Error("a directory that is no table was read")
	}
}
