package export

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/spool"
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

// dataService has no readers, and says from which day on it has data.
type dataService struct {
	from     *analytics.Date
	requests int
}

func (s *dataService) Page(context.Context, docsapi.PageQuery) (analytics.Page, error) {
	s.requests++
	return analytics.Page{DataFrom: s.from}, nil
}

// TestNothingBeforeTheData: windows that begin before the service has data are not exported unless they are named, and
// no request is sent to learn that but those that are sent anyway.
func TestNothingBeforeTheData(t *testing.T) {
	t.Parallel()
	testbed.NotAtMidnight()
	dir := t.TempDir()
	c := config.Config{
		BaseURL: "http://127.0.0.1:1", APIKey: "key_secret", Projects: config.Projects{"prj"},
		Reports: []analytics.Report{analytics.VisitorsReport, analytics.AgentsReport},
		Windows: config.Windows{{Granularity: analytics.Day}, {Granularity: analytics.Month}},
		Since:   config.OptionalDate{Date: testbed.DaysAgo(8), Set: true}, Settle: config.Duration(72 * time.Hour),
		Concurrency: 1, Timeout: config.Duration(testbed.Patience), Sinks: config.Sinks{config.SinkParquet},
		ParquetURL: filepath.Join(dir, "data"), StateDir: filepath.Join(dir, "state"), SpoolMax: 1 << 30, TopPages: 50,
	}
	a, err := app.OpenExport(c, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	r, s := New(a, nil, noProgress{}, nil), &dataService{}
	r.service = s
	again := coverage.Selection{From: testbed.DaysAgo(7).String(), To: testbed.DaysAgo(6).String(), Windows: "day",
		Again: true}
	named := coverage.Selection{From: testbed.DaysAgo(7).String(), To: testbed.DaysAgo(6).String(), Windows: "day"}
	none := analytics.NoData
	ago := func(days int) *analytics.Date { d := testbed.DaysAgo(days); return &d }
	for _, step := range []struct {
		name      string
		from      *analytics.Date
		selection coverage.Selection
		committed int
		requests  int
		early     int // windows that the next plan leaves out
	}{
		{"no data yet", &none, coverage.Selection{}, 0, 1, 20}, // 8 days and 2 months, of 2 reports
		{"no data still", &none, coverage.Selection{}, 0, 1, 20},
		{"data of three days", ago(3), coverage.Selection{}, 6, 6, 14},
		{"nothing new", ago(3), coverage.Selection{}, 0, 0, 14},
		{"named", ago(5), named, 2, 2, 8},
		{"from now on the earlier ones too", ago(5), coverage.Selection{}, 4, 4, 8},
		{"not said any more", nil, again, 2, 2, 0},
		{"the rest", nil, coverage.Selection{}, 8, 8, 0},
	} {
		before := s.requests
		s.from = step.from
		sum, err := r.Run(t.Context(), Options{Selection: step.selection})
		if err != nil || sum.Outcome != Success || sum.Committed != step.committed || s.requests-before != step.requests ||
			(sum.Early > 0) != (step.from == &none || step.name == "data of three days") {
			t.Errorf("%s: %d requests, %+v, %v", step.name, s.requests-before, sum, err)
		}
		left, err := planAgain(t, r, coverage.Selection{})
		early := 0
		for _, e := range left.Early {
			if early += e.Windows; (e.DataFrom == nil) != (step.from == &none) {
				t.Errorf("%s: data from %v", step.name, e.DataFrom)
			}
		}
		if err != nil || early != step.early {
			t.Errorf("%s: %d windows are left out, %v", step.name, early, err)
		}
	}
	if in, err := spool.ListUnderWay(c.StateDir); err != nil || len(in) > 0 {
		t.Errorf("in the spool: %v, %v", in, err)
	}
}

func planAgain(t *testing.T, e *Exporter, sel coverage.Selection) (coverage.Plan, error) {
	ledger, err := e.ledgerNow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e.plan(t.Context(), ledger, sel, 1)
}
