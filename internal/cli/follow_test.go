package cli

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// meddler is a sink during whose part of what follows a run something happens.
type meddler struct {
	sinks.Sink
	top     func(context.Context) error
	collect func(context.Context) error
}

func (m meddler) Top(ctx context.Context, _ analytics.Revision, _ int) ([]analytics.Row, error) {
	return []analytics.Row{{Path: "/"}}, m.top(ctx)
}

func (m meddler) Collect(ctx context.Context, _ bool) ([]sinks.Superseded, error) {
	return nil, m.collect(ctx)
}

func nothing(context.Context) error { return nil }

// TestStopAfterARun: a stop, or the end of the run's time, while pages are filled in
// or superseded rows are collected does not make a good run one that never ended.
func TestStopAfterARun(t *testing.T) {
	t.Parallel()
	s := serviceOf(t, sandbox.Config{Seed: 5, Days: 10, Pages: 40})
	for about, cause := range map[string]error{"stop": context.Canceled, "deadline": schedule.ErrDeadline} {
		for _, during := range []string{"top", "collect"} {
			t.Run(about+" during "+during, func(t *testing.T) {
				c := configFor(t, s.url)
				before, _ := daemonFor(t, c)
				before.export(t.Context())
				if err := errors.Join(before.Close(), os.RemoveAll(c.StateDir)); err != nil {
					t.Fatal(err)
				}
				// The state is lost, so that pages are to be filled in.
				d, log := daemonFor(t, c)
				ctx, end := context.WithCancelCause(t.Context())
				ended := 0
				stop := func(context.Context) error { ended++; end(cause); return nil }
				m := meddler{d.stores[0], nothing, nothing}
				if during == "top" {
					m.top = func(ctx context.Context) error { return errors.Join(stop(ctx), ctx.Err()) }
				} else {
					m.collect = stop
				}
				d.stores[0] = m
				d.export(ctx)
				now := d.published(t)
				if ended != 1 || now.Runs[0].Outcome != outcomeSuccess || now.LastSuccess.IsZero() {
					t.Errorf("stopped %d times, the run is %+v, the last success at %v", ended, now.Runs[0], now.LastSuccess)
				}
				want := []exporter.Counter{{Name: "export_runs_total", Labels: []string{"outcome", outcomeSuccess}, Value: 1}}
				if diff := cmp.Diff(want, counters(now, "export_runs_total")); diff != "" {
					t.Error(diff)
				}
				if strings.Contains(log.String(), "level=ERROR") {
					t.Error("a stop is told as an error")
				}
				// The next run does what was left.
				collected := false
				m.top, m.collect = nothing, func(context.Context) error { collected = true; return nil }
				d.stores[0] = m
				d.export(t.Context())
				if !collected || len(d.published(t).Windows[0].Pages) != 1 {
					t.Errorf("collected: %v, pages: %v", collected, d.published(t).Windows[0].Pages)
				}
			})
		}
	}
}

// TestNobodyWaitsForTheCollection: when it begins the run is over, and its metrics
// are handed over.
func TestNobodyWaitsForTheCollection(t *testing.T) {
	t.Parallel()
	s := serviceOf(t, sandbox.Config{Seed: 5, Days: 10, Pages: 40})
	c := configFor(t, s.url)
	c.Textfile = filepath.Join(t.TempDir(), "docgauge.prom")
	d, _ := daemonFor(t, c)
	var text []byte
	d.stores[0] = meddler{d.stores[0], nothing, func(context.Context) (err error) {
		text, err = os.ReadFile(c.Textfile)
		return err
	}}
	d.export(t.Context())
	if !strings.Contains(string(text), "docgauge_export_runs_total{outcome=\"success\"} 1\n") || !strings.Contains(string(text), "docgauge_export_duration_seconds_count 1\n") {
		t.Errorf("when the collection began the textfile had\n%s", text)
	}
}

// TestCollectionTakesTooLong: it is broken off, and begun again on the next day, not
// by the next run. One that fails at once is.
func TestCollectionTakesTooLong(t *testing.T) {
	for about, tc := range map[string]struct {
		collect func(context.Context) error
		want    int
	}{
		"too long": {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 2},
		"fails":    {func(context.Context) error { return errors.New("down") }, 26},
		"done":     {nothing, 2},
	} {
		t.Run(about, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				db, err := state.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				a, _ := appFor(t)
				began := 0
				sink, err := newStore(config{ParquetURL: dir}, sinkParquet)
				if err != nil {
					t.Fatal(err)
				}
				r := &runner{log: a.logger(config{}), now: time.Now, db: db, stores: []sinks.Sink{meddler{sink, nothing, func(ctx context.Context) error {
					began++
					return tc.collect(ctx)
				}}}}
				time.Sleep(17 * time.Minute)
				for range 26 { // hours
					at := time.Now()
					if err := r.collect(t.Context()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour - time.Since(at))
				}
				if began != tc.want {
					t.Errorf("begun %d times in 26 hours, want %d", began, tc.want)
				}
			})
		})
	}
}

// TestAllErrorsAreTold: that the run cannot be entered in the state hides neither its
// summary nor that its metrics could not be handed over.
func TestAllErrorsAreTold(t *testing.T) {
	t.Parallel()
	s := serviceOf(t, sandbox.Config{Seed: 5, Days: 10, Pages: 40})
	c := configFor(t, s.url)
	c.Textfile = filepath.Join(t.TempDir(), "gone", "docgauge.prom")
	db, err := state.Open(c.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", filepath.Join(c.StateDir, state.FileName))
	if err != nil {
		t.Fatal(err)
	}
	_, err = raw.Exec(`CREATE TRIGGER broken BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'no end'); END`)
	if err := errors.Join(err, raw.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, asJSON := range []bool{false, true} {
		a, log := appFor(t)
		err := a.exportWith(t.Context(), c, &selection{}, runOptions{json: asJSON})
		if err == nil || exitCode(err) != exitFailed {
			t.Errorf("the exit code is of %v", err)
		}
		said := log.String()
		if !errors.Is(err, errSaid) {
			said += err.Error()
		}
		want := []string{"no end", "textfile " + c.Textfile, "success: "}
		if asJSON {
			want[2] = `"outcome": "success"`
		}
		for _, text := range want {
			if strings.Count(said, text) != 1 {
				t.Errorf("want once %q in\n%s", text, said)
			}
		}
	}
}
