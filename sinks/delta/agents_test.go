package delta

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// sealAgents is seal for a window of agents.
func sealAgents(t *testing.T, number int32, n int) *archive.File {
	t.Helper()
	key := sinktest.Of(analytics.AgentsReport, sinktest.Key("prj_a", 0))
	return sinktest.Seal(t, sinktest.Revision(key, number), sinktest.Pages(n))
}

func TestVisitorsOnly(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	sinktest.VisitorsOnly(t, open(t, root), open(t, root, analytics.AgentsReport), reader{root}, seal(t, 1, 3),
		sealAgents(t, 1, 3), func() bool {
			_, err := os.Stat(filepath.Join(root, agentsTable))
			return err == nil
		})
}

// TestActionOfAgents is TestAction for a window of agents: its statistics count the rows of the site, and
// bound each column of texts and of counts.
func TestActionOfAgents(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	w := sealAgents(t, 3, 1500)
	replace(t, open(t, root, analytics.AgentsReport), w)
	path, a := only(t, root, agentsTable)
	const same = `"project":"prj_a","granularity":"day","window_start":"2026-10-01","window_end":"2026-10-02",` +
		`"revision":3,"exported_at":"2026-11-01T00:00:03.12`
	const want = `{"numRecords":1502,"minValues":{` + same +
		`3Z","path":"","agent":"Claude-User","class":"answers","audience":"ai","visitors":3,"requests":3},` +
		`"maxValues":{` + same + `4Z","path":"/docs/page-0001499","agent":"curl","class":"tool","audience":"neither",` +
		`"visitors":1001499,"requests":1001502}}`
	var stats, expected map[string]any
	check(t, json.Unmarshal([]byte(a.Add.Stats), &stats))
	check(t, json.Unmarshal([]byte(want), &expected))
	nulls := map[string]any{}
	for _, column := range columnsOf(analytics.AgentsReport, agentsTable) {
		nulls[column.Name] = 0.0
	}
	expected["nullCount"] = nulls
	if diff := cmp.Diff(expected, stats); diff != "" {
		t.Errorf("statistics (-want +got):\n%s", diff)
	}
	if foot, err := archive.ParseMetadata(a.Add.Tags); err != nil || !foot.Same(w.Revision()) || foot.SiteRows != 2 {
		t.Errorf("tags %v, %v", a.Add.Tags, err)
	}
	sealed, err := os.ReadFile(w.Path())
	check(t, err)
	if got, err := os.ReadFile(filepath.Join(root, agentsTable, path)); err != nil || string(got) != string(sealed) {
		t.Errorf("the data file is not the sealed file: %v", err)
	}
}

// TestAgentsAlone: what another engine did to the table of agents stops their windows, and not those of
// visitors, in the same sink.
func TestAgentsAlone(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	s := open(t, root, analytics.AgentsReport)
	replace(t, s, seal(t, 1, 30))
	replace(t, s, sealAgents(t, 1, 30))
	appendEntry(t, root, agentsTable, addLine(t, "part-0-c000.zstd.parquet", 1, nil))
	if err := s.Replace(t.Context(), sealAgents(t, 2, 3)); !errors.Is(err, errStray) ||
		!strings.Contains(err.Error(), "table agents") {
		t.Errorf("Replace of agents = %v", err)
	}
	replace(t, s, seal(t, 2, 20))
	if visitors, totals := sinktest.Whole(t, reader{root}, seal(t, 2, 20).Revision()); visitors != 2 || totals != 2 {
		t.Errorf("readers see revisions %d and %d of visitors", visitors, totals)
	}
}

// TestDamageOfAgents is found where rows are read, and mended by the next Replace; a window that the table
// has twice is mended by Revisions.
func TestDamageOfAgents(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	s, w := open(t, root, analytics.AgentsReport), sealAgents(t, 2, 20)
	key := w.Revision().Key
	inspect := func() (shown sinks.Shown, fault sinks.Fault) {
		t.Helper()
		for got, err := range s.Inspect(t.Context(), everything) {
			if got.Key == key {
				shown = got
			}
			_ = errors.As(err, &fault)
		}
		return shown, fault
	}
	replace(t, s, w)
	path, was := only(t, root, agentsTable)
	data, err := os.ReadFile(filepath.Join(root, agentsTable, path))
	check(t, err)
	data[40] ^= 2
	check(t, os.WriteFile(filepath.Join(root, agentsTable, path), data, 0o644))
	if _, fault := inspect(); fault.Kind != sinks.Unreadable || fault.Key != key {
		t.Errorf("a flipped bit is %+v", fault)
	}
	replace(t, s, w)
	if shown, fault := inspect(); !shown.Whole() || !shown.Same(w.Revision()) || fault.Err != nil {
		t.Errorf("after Replace %+v, %v", shown, fault)
	}
	data[40] ^= 2
	check(t, os.WriteFile(filepath.Join(root, agentsTable, path), data, 0o644))
	appendEntry(t, root, agentsTable, addLine(t, path, int64(len(data)), was.Add.Tags))
	if _, fault := inspect(); fault.Kind != sinks.Disagree || fault.Key != key {
		t.Errorf("a window that is there twice is %+v", fault)
	}
	agreed(t, s, root, w.Revision())
}
