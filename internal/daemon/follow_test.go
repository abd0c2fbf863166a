package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
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

// TestMissedPaths: the most requested missed path of the newest day whose redirect is sure is published.
func TestMissedPaths(t *testing.T) {
	t.Parallel()
	c := configFor(t, "http://127.0.0.1:1")
	c.Reports = config.Reports{analytics.AgentsReport}
	d, _ := daemonFor(t, c)
	check(t, d.findMissed(t.Context()))
	if got := d.missed.get(); len(got) != 0 {
		t.Errorf("without an archive: %+v", got)
	}
	for day := range int64(2) {
		row := func(path string, found bool, requests int64) analytics.AgentRow {
			return analytics.AgentRow{Path: path, Agent: "GPTBot", Class: "training", Audience: "neither", Found: found,
				Visitors: 1, Requests: requests}
		}
		from := analytics.NewDate(2026, 10, 1) + analytics.Date(day)
		key := analytics.Key{Project: c.Projects[0], Granularity: analytics.Day, Report: analytics.AgentsReport,
			Window: analytics.Window{From: from, To: from + 1}}
		file, err := archive.Encode(analytics.Revision{Key: key, Number: 1, ExportedAt: time.Unix(0, 0)},
			analytics.Records(sinktest.List(row("/other", false, 99), row("/set-up", true, 7), row("/set.up", false, 3),
				row("/set_up", false, 40+day))))
		check(t, err)
		check(t, d.app.Sinks[0].Replace(t.Context(), file))
	}
	check(t, d.findMissed(t.Context()))
	want := view.MissedPath{Project: c.Projects[0], Path: "/set_up", Requests: 41, Agents: []string{"GPTBot"},
		First: "2026-10-02", Last: "2026-10-02"}
	if got := d.published(t).Missed; len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("published %+v, want %+v", got, want)
	}
	for n, reports := range []config.Reports{{analytics.VisitorsReport}, c.Reports} {
		next := &daemon{app: new(*d.app)}
		next.app.Config.Reports = reports
		if next.inherit(d); len(next.missed.get()) != n {
			t.Errorf("after a reload with the reports %v: %+v", reports, next.missed.get())
		}
	}
	damaged, err := filepath.Glob(filepath.Join(c.ParquetURL, "agents", "*", "*", "*", "*", "2026-10-02*"))
	if err != nil || len(damaged) != 1 {
		t.Fatal(damaged, err)
	}
	check(t, os.Truncate(damaged[0], 0))
	if err := d.findMissed(t.Context()); err == nil {
		t.Error("no error of a damaged window")
	}
	during(t, d.outcomesLoop)
	testbed.Await(t, "outcomes are estimated beside a damaged window of agents", func() bool {
		return d.outcomes.get().Merges != nil
	})
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
