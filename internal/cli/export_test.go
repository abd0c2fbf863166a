package cli

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/state"
)

// TestAllErrorsAreTold: that the run cannot be entered in the state hides neither its
// summary nor that its metrics could not be delivered.
func TestAllErrorsAreTold(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 10, Pages: 40})
	textfile := filepath.Join(t.TempDir(), "gone", "docgauge.prom")
	p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_SINCE="+testbed.DaysAgo(4).String(),
		"DOCGAUGE_TEXTFILE="+textfile)
	dir := filepath.Join(p.dir, "state")
	db, err := state.Open(dir)
	check(t, err)
	raw, err := sql.Open("sqlite", filepath.Join(dir, state.FileName))
	check(t, err)
	_, err = raw.Exec(`CREATE TRIGGER broken BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'no end'); END`)
	check(t, errors.Join(err, raw.Close(), db.Close()))
	for _, flags := range [][]string{nil, {"--json"}} {
		code, out, log := p.try(t, append([]string{"export"}, flags...)...)
		if code != exitFailed {
			t.Errorf("exit code %d", code)
		}
		want := []string{"no end", "textfile " + textfile, "success: "}
		if flags != nil {
			want[2] = `"outcome": "success"`
		}
		for _, text := range want {
			if !strings.Contains(out+log, text) {
				t.Errorf("want %q in\n%s%s", text, out, log)
			}
		}
	}
}
