package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// meddler is a sink that calls functions during the work that follows a run.
type meddler struct {
	sinks.Sink
	top     func(context.Context) error
	collect func(context.Context) error
}

func (m meddler) Window(ctx context.Context, rev analytics.Revision, dir string) (sinks.Sealed, func() error, error) {
	if err := m.top(ctx); err != nil {
		return nil, nil, err
	}
	return m.Sink.Window(ctx, rev, dir)
}

func (m meddler) Collect(ctx context.Context, _ bool) ([]sinks.Superseded, error) {
	return nil, m.collect(ctx)
}

func nothing(context.Context) error { return nil }

// TestStopAfterARun: a stop, or the end of the run's time, while pages are filled in
// or superseded rows are collected does not make a good run one that never ended.
func TestStopAfterARun(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 10, Pages: 40})
	for about, cause := range map[string]error{"stop": context.Canceled, "deadline": schedule.ErrDeadline} {
		for _, during := range []string{"top", "collect"} {
			t.Run(about+" during "+during, func(t *testing.T) {
				c := configFor(t, s.URL)
				before, _ := daemonFor(t, c)
				before.export(t.Context())
				check(t, errors.Join(before.app.Close(), os.RemoveAll(c.StateDir)))
				// The state is lost, so that pages are to be filled in.
				d, log := daemonFor(t, c)
				ctx, end := context.WithCancelCause(t.Context())
				ended := 0
				stop := func(context.Context) error { ended++; end(cause); return nil }
				m := meddler{d.app.Sinks[0], nothing, nothing}
				if during == "top" {
					m.top = func(ctx context.Context) error { return errors.Join(stop(ctx), ctx.Err()) }
				} else {
					m.collect = stop
				}
				d.app.Sinks[0] = m
				d.export(ctx)
				now := d.published(t)
				if ended != 1 || now.Runs[0].Outcome != export.Success || now.LastSuccess.IsZero() {
					t.Errorf("stopped %d times, the run is %+v, the last success at %v", ended, now.Runs[0],
						now.LastSuccess)
				}
				wantRuns(t, now, map[string]float64{export.Success: 1})
				if strings.Contains(log.String(), "level=ERROR") {
					t.Error("a stop is logged as an error")
				}
				// The next run does the rest.
				collected := false
				m.top, m.collect = nothing, func(context.Context) error { collected = true; return nil }
				d.app.Sinks[0] = m
				d.export(t.Context())
				if !collected || len(d.published(t).Windows[0].Pages) == 0 {
					t.Errorf("collected: %v, pages: %v", collected, d.published(t).Windows[0].Pages)
				}
			})
		}
	}
}

// TestCollectionComesLast: when it begins the run is over, and its metrics are exported.
func TestCollectionComesLast(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 10, Pages: 40})
	c := configFor(t, s.URL)
	c.Textfile = filepath.Join(t.TempDir(), "docgauge.prom")
	d, _ := daemonFor(t, c)
	var text []byte
	d.app.Sinks[0] = meddler{d.app.Sinks[0], nothing, func(context.Context) (err error) {
		text, err = os.ReadFile(c.Textfile)
		return err
	}}
	d.export(t.Context())
	if !strings.Contains(string(text), "docgauge_export_runs_total{outcome=\"success\"} 1\n") ||
		!strings.Contains(string(text), "docgauge_export_duration_seconds_count 1\n") {
		t.Errorf("when the collection began the textfile had\n%s", text)
	}
}
