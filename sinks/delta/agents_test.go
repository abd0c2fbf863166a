package delta

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// sealFor is seal for a window that has a file in a table.
func sealFor(t *testing.T, table string, number int32, n int) *archive.File {
	t.Helper()
	if table == agentsTable {
		return sealAgents(t, number, n)
	}
	return seal(t, number, n)
}

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

// TestAgentsAlone: what another engine did to the table of agents stops the windows of agents, and not the windows
// of visitors, in the same sink.
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
