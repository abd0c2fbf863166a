package cli

import (
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/redirects"
	"github.com/docgauge/docgauge/internal/view"
)

// TestPrintProposals: a project without misses does not hide the next one.
func TestPrintProposals(t *testing.T) {
	day := analytics.Date(20000)
	window := analytics.Window{From: day, To: day + 1}
	miss := view.MissedPath{Project: "prj_b", Path: "/old"}
	var out strings.Builder
	check(t, printProposals(&out, []query.MissedPaths{
		{Project: "prj_a", Window: window},
		{Project: "prj_b", Window: window, Misses: []view.MissedPath{miss}},
	}, []redirects.Proposal{{MissedPath: miss, Grade: redirects.None, Reason: "no page has these words"}}, render.Wording{}))
	for _, want := range []string{"prj_a", "prj_b", "/old"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
}
