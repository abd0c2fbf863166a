package cli

import (
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// TestAskedWindowsAreReadOnce: what a run has read of the windows it was asked for it
// does not read again after a pause, whatever shows its progress.
func TestAskedWindowsAreReadOnce(t *testing.T) {
	t.Parallel()
	s := serviceOf(t, sandbox.Config{Seed: 5, Days: 10, Pages: 40})
	c := configFor(t, s.url)
	c.OpenWindows = openSet{analytics.Day}
	d, _ := daemonFor(t, c)
	d.progress = newProgress(d.progress.app) // another one, which the pipeline does not know
	asked := &selection{from: daysAgo(3).String(), to: daysAgo(1).String()}
	for range 2 { // another run reads them again
		before := len(s.Requests())
		sum, err := d.run(t.Context(), asked, runOptions{})
		if err != nil || sum.Committed != 2 || len(s.Requests())-before != 2 {
			t.Fatalf("%+v, %v", sum, err)
		}
		left, err := d.due(t.Context(), asked, 1)
		if err != nil || len(left.items) > 0 {
			t.Errorf("in the same run %d windows are due again, %v", len(left.items), err)
		}
	}
	if _, err := d.run(t.Context(), &selection{}, runOptions{}); err != nil {
		t.Fatal(err)
	}
	if left, err := d.due(t.Context(), &selection{}, 1); err != nil || len(left.items) > 0 {
		t.Errorf("in the same run %v are due again, %v", left.items, err)
	}
}
