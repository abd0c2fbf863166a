package parquet

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// inspected returns what Inspect yields of a sink that holds one window at most,
// and its faults.
func inspected(t *testing.T, s *Sink, scope sinks.Scope) (shown *sinks.Shown, faults []sinks.Fault) {
	t.Helper()
	for got, err := range s.Inspect(t.Context(), scope) {
		var fault sinks.Fault
		switch {
		case errors.As(err, &fault):
			faults = append(faults, fault)
		case err != nil:
			t.Fatal(err)
		default:
			shown = &got
		}
		if err != nil && scope.Rows && got.Number > 0 && !got.Whole() {
			t.Errorf("a fault comes with %+v, which is not whole", got)
		}
	}
	return shown, faults
}

// damage is something done to the files of the window that seal seals.
type damage struct {
	name string
	// do is given the paths of the two files.
	do func(t *testing.T, visitors, totals string)
	// put, instead of do, publishes another file in the place of one.
	put  func(t *testing.T) (table string, data []byte)
	kind sinks.FaultKind
	says string
	// deep damage is found only where rows are read.
	deep bool
}

func damages(t *testing.T) []damage {
	other := func(w *archive.File, from, to string) func(t *testing.T) (string, []byte) {
		return func(t *testing.T) (string, []byte) {
			s := open(t, t.TempDir())
			replace(t, s, w)
			data, err := os.ReadFile(windowFile(t, s.Location(), from))
			check(t, err)
			return to, data
		}
	}
	write := func(t *testing.T, path string, data []byte) {
		t.Helper()
		check(t, os.WriteFile(path, data, 0o644))
	}
	edit := func(t *testing.T, path string, change func(data []byte) []byte) {
		t.Helper()
		data, err := os.ReadFile(path)
		check(t, err)
		write(t, path, change(data))
	}
	half := func(data []byte) []byte { return data[:len(data)/2] }
	flip := func(data []byte) []byte { data[40] ^= 2; return data }
	older, elsewhere := seal(t, 1, 5), sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", 9), 2),
		sinktest.Pages(3))
	return []damage{
		{name: "visitors deleted", do: func(t *testing.T, v, _ string) { check(t, os.Remove(v)) },
			kind: sinks.Disagree, says: "visitors file of revision 2"},
		{name: "totals deleted", do: func(t *testing.T, _, to string) { check(t, os.Remove(to)) },
			kind: sinks.Disagree, says: "totals file of revision 2 is missing"},
		{name: "visitors truncated", do: func(t *testing.T, v, _ string) { edit(t, v, half) }, kind: sinks.Unreadable,
			says: "/visitors/v1/"},
		{name: "totals truncated", do: func(t *testing.T, _, to string) { edit(t, to, half) }, kind: sinks.Unreadable,
			says: "/totals/v1/"},
		{name: "visitors empty", do: func(t *testing.T, v, _ string) { write(t, v, nil) }, kind: sinks.Unreadable,
			says: "/visitors/v1/"},
		{name: "bit of visitors", do: func(t *testing.T, v, _ string) { edit(t, v, flip) }, kind: sinks.Unreadable,
			says: "/visitors/v1/", deep: true},
		{name: "bit of totals", do: func(t *testing.T, _, to string) { edit(t, to, flip) }, kind: sinks.Unreadable,
			says: "/totals/v1/", deep: true},
		{name: "older visitors", put: other(older, visitorsTable, visitorsTable), kind: sinks.Disagree,
			says: "revision 1 with 5 rows"},
		{name: "older totals", put: other(older, totalsTable, totalsTable), kind: sinks.Disagree,
			says: "revision 1 with 5 rows"},
		{name: "file of another window", put: other(elsewhere, visitorsTable, visitorsTable), kind: sinks.Unreadable,
			says: "holds prj_a day [2026-10-10,"},
		{name: "file of the other table", put: other(older, totalsTable, visitorsTable), kind: sinks.Unreadable,
			says: "is no file of the table visitors"},
	}
}

// TestInspectDamage: each is found by name, in a directory and in a bucket, and
// looking mends nothing.
func TestInspectDamage(t *testing.T) {
	for where, place := range map[string]func(t *testing.T) (url, root string){
		"directory": func(t *testing.T) (string, string) { dir := t.TempDir(); return dir, dir },
		"bucket":    faults.Bucket,
	} {
		for _, d := range damages(t) {
			t.Run(where+"/"+d.name, func(t *testing.T) {
				url, root := place(t)
				s, w := open(t, url), seal(t, 2, 20)
				replace(t, s, w)
				if shown, faults := inspected(t, s, sinks.Scope{Rows: true}); shown == nil || !shown.Whole() ||
					len(faults) > 0 {
					t.Fatalf("before: %+v, %v", shown, faults)
				}
				if d.put != nil {
					table, data := d.put(t)
					publish(t, s, placed(t, table, w.Revision().Key), data)
				} else {
					d.do(t, windowFile(t, root, visitorsTable), windowFile(t, root, totalsTable))
				}
				for range 2 { // looking mends nothing
					shown, faults := inspected(t, s, sinks.Scope{Rows: true})
					if shown != nil || len(faults) != 1 || faults[0].Kind != d.kind ||
						faults[0].Key != w.Revision().Key || !strings.Contains(faults[0].Error(), d.says) {
						t.Fatalf("shown %+v, faults %v; want %s that says %q", shown, faults, d.kind, d.says)
					}
				}
				if dir := t.TempDir(); d.name == "bit of visitors" { // it is not copied
					_, _, err := s.Window(t.Context(), w.Revision(), dir)
					if err == nil || where == "directory" && !errors.Is(err, archive.ErrDamaged) {
						t.Errorf("Window = %v", err)
					}
					if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
						t.Errorf("left behind: %v, %v", left, err)
					}
				}
				if _, faults := inspected(t, s, sinks.Scope{}); d.deep != (len(faults) == 0) && where == "directory" {
					t.Errorf("from footers alone: %v", faults)
				}
				replace(t, s, w)
				if shown, faults := inspected(t, s, sinks.Scope{Rows: true}); shown == nil || len(faults) > 0 {
					t.Errorf("after Replace: %+v, %v", shown, faults)
				}
			})
		}
	}
}

// publish puts data under a name.
func publish(t *testing.T, s *Sink, name string, data []byte) {
	t.Helper()
	check(t, s.store.Prepare(t.Context()))
	staged := s.store.StagingFile()
	check(t, os.WriteFile(staged, data, 0o600))
	check(t, s.store.Publish(t.Context(), staged, name))
}

// windowFile finds the only window file of a table below root, also where a server
// keeps it.
func windowFile(t *testing.T, root, table string) (path string) {
	t.Helper()
	for _, p := range published(root) {
		if strings.Contains(p, "/"+table+"/v1/") {
			path = p
		}
	}
	if path == "" {
		t.Fatalf("no file of the table %s below %s", table, root)
	}
	return path
}

// TestInspectDamagedAgents: a window of agents is one file, so damage to that file is all there is to find.
func TestInspectDamagedAgents(t *testing.T) {
	key := sinktest.Of(analytics.AgentsReport, sinktest.Key("prj_a", 0))
	w := sinktest.Seal(t, sinktest.Revision(key, 2), sinktest.Pages(20))
	visitors, err := os.ReadFile(seal(t, 2, 20).Path())
	check(t, err)
	for name, change := range map[string]func(data []byte) []byte{
		"cut":              func(data []byte) []byte { return data[:len(data)/2] },
		"bit":              func(data []byte) []byte { data[40] ^= 2; return data },
		"file of visitors": func([]byte) []byte { return visitors },
	} {
		s := open(t, t.TempDir(), analytics.AgentsReport)
		replace(t, s, w)
		path := windowFile(t, s.Location(), agentsTable)
		data, err := os.ReadFile(path)
		check(t, err)
		check(t, os.WriteFile(path, change(data), 0o644))
		shown, faults := inspected(t, s, sinks.Scope{Rows: true})
		if shown != nil || len(faults) != 1 || faults[0].Kind != sinks.Unreadable || faults[0].Key != key {
			t.Errorf("%s: shown %+v, faults %v", name, shown, faults)
		}
		replace(t, s, w)
		if shown, faults := inspected(t, s, sinks.Scope{Rows: true}); shown == nil || !shown.Whole() || len(faults) > 0 {
			t.Errorf("%s: after Replace %+v, %v", name, shown, faults)
		}
	}
}

func TestInspectStray(t *testing.T) {
	s := open(t, t.TempDir())
	replace(t, s, seal(t, 1, 3))
	path := windowFile(t, s.Location(), visitorsTable)
	data, err := os.ReadFile(path)
	check(t, err)
	stray := strings.TrimSuffix(path, ".parquet") + " (1).parquet"
	check(t, os.WriteFile(stray, data, 0o644))
	shown, faults := inspected(t, s, sinks.Scope{Rows: true})
	if shown == nil || len(faults) != 1 || faults[0].Kind != sinks.Stray ||
		!strings.Contains(faults[0].Error(), stray) {
		t.Errorf("shown %+v, faults %v", shown, faults)
	}
}

// TestInspectUnavailable: a file that cannot be opened is not taken for damaged.
func TestInspectUnavailable(t *testing.T) {
	s := open(t, t.TempDir())
	replace(t, s, seal(t, 1, 3))
	path := windowFile(t, s.Location(), visitorsTable)
	check(t, os.Remove(path))
	check(t, os.Symlink(path, path)) // opening it is an error for root too
	_, faults := inspected(t, s, sinks.Scope{Rows: true})
	if len(faults) != 1 || faults[0].Kind != sinks.Unavailable {
		t.Errorf("faults %v", faults)
	}
}
