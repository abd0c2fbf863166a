package export

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// noProgress shows nothing.
type noProgress struct{}

func (noProgress) Reset()               {}
func (noProgress) Begin(int, time.Time) {}
func (noProgress) Observe(Event)        {}
func (noProgress) Pause(time.Time, int) {}
func (noProgress) End()                 {}

// TestAskedWindowsAreReadOnce: a run that has read a window it was asked for does not
// read it again after a pause. Another run that starts over does.
func TestAskedWindowsAreReadOnce(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 10, Pages: 40})
	dir := t.TempDir()
	c := config.Config{
		BaseURL: s.URL, APIKey: sandbox.DefaultAPIKey, Projects: config.Projects{sandbox.DefaultProject},
		Windows: config.Windows{{Granularity: analytics.Day}}, OpenWindows: config.OpenWindows{analytics.Day},
		Since: config.OptionalDate{Date: testbed.DaysAgo(4), Set: true}, Settle: config.Duration(72 * time.Hour),
		Concurrency: 2, Timeout: config.Duration(testbed.Patience), Sinks: config.Sinks{config.SinkParquet},
		ParquetURL: filepath.Join(dir, "data"), StateDir: filepath.Join(dir, "state"), SpoolMax: 1 << 30, TopPages: 50,
	}
	a, err := app.OpenExport(c, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	r := New(a, nil, noProgress{}, nil)
	asked := coverage.Selection{From: testbed.DaysAgo(3).String(), To: testbed.DaysAgo(1).String(), Again: true}
	for range 2 {
		before := len(s.Requests())
		sum, err := r.Run(t.Context(), Options{Selection: asked})
		if err != nil || sum.Committed != 2 || len(s.Requests())-before != 2 {
			t.Fatalf("%+v, %v", sum, err)
		}
		if left, err := planAgain(t, r, asked); err != nil || len(left.Due) > 0 {
			t.Errorf("in the same run %d windows are due again, %v", len(left.Due), err)
		}
	}
	if _, err := r.Run(t.Context(), Options{}); err != nil {
		t.Fatal(err)
	}
	if left, err := planAgain(t, r, coverage.Selection{}); err != nil || len(left.Due) > 0 {
		t.Errorf("in the same run %v are due again, %v", left.Due, err)
	}
}

func planAgain(t *testing.T, e *Exporter, sel coverage.Selection) (coverage.Plan, error) {
	ledger, err := e.ledgerNow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e.plan(t.Context(), ledger, sel, 1)
}
