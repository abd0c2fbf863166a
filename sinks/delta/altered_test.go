package delta

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/deltalog"
	"github.com/docgauge/docgauge/sinks"
)

// everything has rows read.
var everything = sinks.Scope{Rows: true}

// append adds a log entry by hand, as another engine may.
func appendEntry(t *testing.T, root, table string, lines ...string) {
	t.Helper()
	version, _, err := replay(root, table)
	check(t, err)
	name := filepath.Join(root, table, "_delta_log", fmt.Sprintf("%020d.json", version+1))
	check(t, os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}

// only returns the one file that a table has, relative to it.
func only(t *testing.T, root, table string) (path string, a action) {
	t.Helper()
	_, files, err := replay(root, table)
	check(t, err)
	if len(files) != 1 {
		t.Fatalf("%s has %d files", table, len(files))
	}
	for path, a = range files {
		path, err = filepath.Rel(filepath.Join(root, table), path)
		check(t, err)
	}
	return path, a
}

func addLine(t *testing.T, path string, size int64, tags map[string]string) string {
	t.Helper()
	line, err := json.Marshal(map[string]any{"add": map[string]any{
		"path": path, "size": size, "partitionValues": map[string]string{}, "modificationTime": 1, "dataChange": true,
		"tags": tags,
	}})
	check(t, err)
	return string(line)
}

func removeLine(path string) string {
	return fmt.Sprintf(`{"remove":{"path":%q,"deletionTimestamp":1,"dataChange":true}}`, path)
}

// TestOtherWriter: after OPTIMIZE files cannot be assigned to windows. Replace refuses and
// publishes nothing, listings say so, and RESTORE makes all good.
func TestOtherWriter(t *testing.T) {
	for _, table := range []string{visitorsTable, totalsTable} {
		t.Run(table, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "data")
			s, w := open(t, root), seal(t, 1, 30)
			replace(t, s, w)
			mine, was := only(t, root, table)
			data, err := os.ReadFile(filepath.Join(root, table, mine))
			check(t, err)
			check(t, os.WriteFile(filepath.Join(root, table, "part-0-c000.zstd.parquet"), data, 0o644))
			appendEntry(t, root, table, removeLine(mine), addLine(t, "part-0-c000.zstd.parquet", int64(len(data)), nil))

			for _, sink := range []*Sink{s, s, open(t, root)} {
				before := len(dataFiles(root))
				err := sink.Replace(t.Context(), seal(t, 2, 20))
				if !errors.Is(err, errStray) || !strings.Contains(err.Error(), "part-0-c000") ||
					!strings.Contains(err.Error(), "version 1") || !strings.Contains(err.Error(), "RESTORE") {
					t.Errorf("Replace = %v", err)
				}
				if after := len(dataFiles(root)); sink != s && after > before {
					t.Errorf("%d files are left", after-before)
				}
				if err := sink.Check(t.Context()); !errors.Is(err, errStray) {
					t.Errorf("Check = %v", err)
				}
			}
			// The sink that had read the totals before found out after its entry of visitors.
			want := w.Revision()
			if table == totalsTable {
				want = seal(t, 2, 20).Revision()
			}
			if got := entries(t, root); got != map[string]string{visitorsTable: "[2 1]", totalsTable: "[2 2]"}[table] {
				t.Errorf("entries %s", got)
			}
			var kinds []string
			for _, err := range s.Inspect(t.Context(), sinks.Scope{}) {
				if fault, ok := errors.AsType[sinks.Fault](err); ok {
					kinds = append(kinds, string(fault.Kind))
				} else if errors.Is(err, sinks.ErrNotListed) {
					kinds = append(kinds, "not listed")
				}
			}
			if got := strings.Join(kinds, ", "); !strings.HasPrefix(got, "not listed") ||
				!strings.HasSuffix(got, string(sinks.Stray)) {
				t.Errorf("Inspect yields %s", got)
			}
			listed := true
			for _, err := range s.Revisions(t.Context()) {
				listed = listed && !errors.Is(err, sinks.ErrNotListed)
			}
			if listed {
				t.Error("Revisions lists a table that it cannot tell")
			}

			appendEntry(t, root, table, removeLine("part-0-c000.zstd.parquet"),
				addLine(t, mine, int64(len(data)), was.Add.Tags))
			agreed(t, s, root, want)
			replace(t, s, seal(t, 3, 20))
			agreed(t, s, root, seal(t, 3, 20).Revision())
		})
	}
}

// TestManyStrays names a few and counts the others.
func TestManyStrays(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	s := open(t, root)
	replace(t, s, seal(t, 1, 3))
	var lines []string
	for i := range 20 {
		lines = append(lines, addLine(t, fmt.Sprintf("part-%02d.parquet", i), 1, nil))
	}
	appendEntry(t, root, visitorsTable, lines...)
	strays, shown, last := 0, 0, ""
	for rev, err := range s.Inspect(t.Context(), sinks.Scope{}) {
		if fault, ok := errors.AsType[sinks.Fault](err); ok && fault.Kind == sinks.Stray {
			strays, last = strays+1, fault.Error()
		} else if err == nil && rev.Same(seal(t, 1, 3).Revision()) {
			shown++
		}
	}
	if strays != straysNamed+1 || !strings.Contains(last, "15 more") || shown != 1 {
		t.Errorf("%d faults, the last is %q; %d windows", strays, last, shown)
	}
}

// TestAltered does what an engine or a hand can do to a table: Replace and Check refuse
// with the reason, nothing is written, and nothing is lost once it is undone.
func TestAltered(t *testing.T) {
	for name, tc := range map[string]struct {
		line, says string
		is         error
	}{
		"protocol": {`{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],` +
			`"writerFeatures":["deletionVectors"]}}`, "deletionVectors", deltalog.ErrProtocol},
		"column dropped": {metaLine(t, func(columns []column) []column { return columns[:5] }), "human",
			deltalog.ErrSchema},
		"not NULL column": {metaLine(t, func(columns []column) []column {
			return append(columns, column{"mine", "string", false, map[string]any{}})
		}), "mine", deltalog.ErrSchema},
		"no JSON": {`{"add":`, ".json", deltalog.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "data")
			s, w := open(t, root), seal(t, 1, 30)
			replace(t, s, w)
			appendEntry(t, root, visitorsTable, tc.line)
			for _, sink := range []*Sink{s, open(t, root)} {
				before := len(dataFiles(root))
				for call, err := range map[string]error{"Replace": sink.Replace(t.Context(), seal(t, 2, 20)),
					"Check": sink.Check(t.Context())} {
					if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
						t.Errorf("%s = %v, want %v with %q", call, err, tc.is, tc.says)
					}
				}
				if after := len(dataFiles(root)); sink != s && after > before {
					t.Errorf("%d files are left", after-before)
				}
				for rev, err := range sink.Revisions(t.Context()) {
					if !errors.Is(err, sinks.ErrNotListed) {
						t.Errorf("Revisions yields %+v, %v", rev, err)
					}
				}
			}
			check(t, os.Remove(filepath.Join(root, visitorsTable, "_delta_log", fmt.Sprintf("%020d.json", 1))))
			s = open(t, root)
			agreed(t, s, root, w.Revision())
			replace(t, s, seal(t, 2, 20))
			agreed(t, s, root, seal(t, 2, 20).Revision())
		})
	}
}

type column struct {
	Name     string         `json:"name"`
	Type     string         `json:"type"`
	Nullable bool           `json:"nullable"`
	Metadata map[string]any `json:"metadata"`
}

// metaLine is a metaData action with columns changed.
func metaLine(t *testing.T, change func([]column) []column) string {
	t.Helper()
	var columns []column
	for _, c := range columnsOf(analytics.VisitorsReport, visitorsTable) {
		columns = append(columns, column{c.Name, c.Type, c.Nullable, map[string]any{}})
	}
	schema, err := json.Marshal(map[string]any{"type": "struct", "fields": change(columns)})
	check(t, err)
	line, err := json.Marshal(map[string]any{"metaData": map[string]any{
		"id": "x", "format": map[string]any{"provider": "parquet", "options": map[string]any{}},
		"schemaString": string(schema), "partitionColumns": []string{}, "configuration": map[string]any{},
	}})
	check(t, err)
	return string(line)
}

// TestForeignFilesInTheLog are left alone: other engines keep more there than entries.
func TestForeignFilesInTheLog(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	s := open(t, root)
	replace(t, s, seal(t, 1, 3))
	for _, name := range []string{"00000000000000000000.crc", "notes.txt", "_last_checkpoint", ".hidden.json.tmp",
		"00000000000000000000.00000000000000000009.compacted.json"} {
		check(t, os.WriteFile(filepath.Join(root, visitorsTable, "_delta_log", name), []byte("not ours"), 0o644))
	}
	s = open(t, root)
	replace(t, s, seal(t, 2, 30))
	for rev, err := range s.Revisions(t.Context()) {
		if err != nil || !rev.Same(revOf(seal(t, 2, 30))) {
			t.Errorf("Revisions yields %+v, %v", rev, err)
		}
	}
}

// TestWindowTwice: a former file that is added again doubles the rows of a window,
// which Revisions or Replace heals.
func TestWindowTwice(t *testing.T) {
	for _, table := range []string{visitorsTable, totalsTable, agentsTable} {
		for _, by := range []string{"Revisions", "Replace"} {
			root := filepath.Join(t.TempDir(), "data")
			s := open(t, root, analytics.AgentsReport)
			replace(t, s, sealFor(t, table, 1, 30))
			former, was := only(t, root, table)
			next := sealFor(t, table, 2, 20)
			replace(t, s, next)
			appendEntry(t, root, table, addLine(t, former, was.Add.Size, was.Add.Tags))
			for shown, err := range s.Inspect(t.Context(), sinks.Scope{}) {
				if fault, ok := errors.AsType[sinks.Fault](err); !ok || fault.Kind != sinks.Disagree ||
					shown.Number != 2 || !strings.Contains(err.Error(), table) {
					t.Errorf("Inspect yields %+v, %v", shown, err)
				}
			}
			if by == "Replace" {
				next = sealFor(t, table, 3, 10)
				replace(t, s, next)
			}
			agreed(t, s, root, next.Revision())
		}
	}
}

// TestDamagedData: damage to a data file is found where rows are read, and
// Replace of the same revision repairs it.
func TestDamagedData(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, path string){
		"deleted":   func(t *testing.T, path string) { check(t, os.Remove(path)) },
		"truncated": func(t *testing.T, path string) { check(t, os.Truncate(path, 100)) },
		"a bit":     flip,
		"of another window": func(t *testing.T, path string) {
			data, err := os.ReadFile(sealDay(t, 5, 2, 20).Path())
			check(t, err)
			check(t, os.WriteFile(path, data, 0o644))
		},
	} {
		for _, table := range []string{visitorsTable, totalsTable, agentsTable} {
			t.Run(name+" "+table, func(t *testing.T) {
				root := filepath.Join(t.TempDir(), "data")
				s, w := open(t, root, analytics.AgentsReport), sealFor(t, table, 2, 20)
				replace(t, s, w)
				path, _ := only(t, root, table)
				harm(t, filepath.Join(root, table, path))
				n := 0
				for shown, err := range s.Inspect(t.Context(), everything) {
					fault, ok := errors.AsType[sinks.Fault](err)
					if !ok || fault.Kind != sinks.Unreadable || fault.Key != w.Revision().Key ||
						!strings.Contains(err.Error(), path) {
						t.Errorf("Inspect yields %+v, %v", shown, err)
					}
					n++
				}
				if n != 1 {
					t.Errorf("Inspect yields %d windows", n)
				}
				if table != totalsTable {
					if _, _, err := s.Window(t.Context(), w.Revision(), t.TempDir()); err == nil {
						t.Error("Window gives it")
					}
				}
				replace(t, s, w)
				for shown, err := range s.Inspect(t.Context(), everything) {
					if err != nil || !shown.Whole() {
						t.Errorf("after Replace: Inspect yields %+v, %v", shown, err)
					}
				}
			})
		}
	}
}
