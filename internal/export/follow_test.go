package export

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/parquet"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// renamed is a Parquet sink under another name.
type renamed struct {
	*parquet.Sink
	name string
}

func (s renamed) Name() string { return s.name }

// archives is a state and two sinks that have the same windows.
type archives struct {
	*testing.T
	app      *app.App
	exporter *Exporter
	said     *bytes.Buffer
	now      time.Time
}

func newArchives(t *testing.T, windows int) *archives {
	a := &archives{T: t, said: &bytes.Buffer{}, now: time.Date(2026, 11, 20, 13, 37, 11, 0, time.UTC)}
	a.app = &app.App{Now: func() time.Time { return a.now }, Log: slog.New(slog.NewTextHandler(a.said, nil))}
	a.exporter = &Exporter{app: a.app}
	a.app.Config.StateDir = t.TempDir()
	var err error
	if a.app.State, err = state.Open(a.app.Config.StateDir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.app.State.Close() })
	if a.app.Spool, err = spool.Open(a.app.Config.StateDir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{config.SinkParquet, "clickhouse"} {
		s, err := parquet.New(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		a.app.Sinks = append(a.app.Sinks, renamed{s, name})
	}
	for day := range windows {
		a.commit(sinktest.Revision(sinktest.Key("prj_a", day), 2), a.app.Sinks...)
	}
	return a
}

// commit gives a window to sinks, and enters it in the ledger.
func (a *archives) commit(rev analytics.Revision, to ...sinks.Sink) {
	a.Helper()
	w := sinktest.Seal(a, rev, sinktest.Pages(5))
	if err := a.app.State.Record(a.Context(), w.Revision(), analytics.Provenance{Requests: 3, Checksum: w.Checksum()},
		nil); err != nil {
		a.Fatal(err)
	}
	for _, s := range to {
		a.replace(s, w)
		if err := a.app.State.Committed(a.Context(), w.Revision(), s.Name(), a.now); err != nil {
			a.Fatal(err)
		}
	}
}

func (a *archives) replace(s sinks.Sink, w sinks.Sealed) {
	a.Helper()
	if err := s.Replace(a.Context(), w); err != nil {
		a.Fatal(err)
	}
}

// lose removes the files of the windows that begin on so many days.
func (a *archives) lose(s sinks.Sink, days ...int) {
	a.Helper()
	for _, day := range days {
		from := sinktest.Key("prj_a", day).From.String()
		found := 0
		for _, table := range []string{"visitors", "totals"} {
			paths, err := filepath.Glob(filepath.Join(s.Location(), table, "v1", "p=prj_a", "g=day", "*",
				from+"_*.parquet"))
			if err != nil {
				a.Fatal(err)
			}
			for _, path := range paths {
				found++
				if err := os.Remove(path); err != nil {
					a.Fatal(err)
				}
			}
		}
		if found != 2 {
			a.Fatalf("%d files of %s", found, from)
		}
	}
}

func (a *archives) shows(s sinks.Sink) (n int) {
	a.Helper()
	for _, err := range s.Revisions(a.Context()) {
		if err != nil {
			a.Fatal(err)
		}
		n++
	}
	return n
}

func (a *archives) entries() map[analytics.Key]state.Entry {
	a.Helper()
	all, err := a.app.State.Entries(a.Context())
	if err != nil {
		a.Fatal(err)
	}
	out := map[analytics.Key]state.Entry{}
	for _, e := range all {
		out[e.Key] = e
	}
	return out
}

func (a *archives) compare() {
	a.Helper()
	if err := a.exporter.compare(a.Context()); err != nil {
		a.Fatal(err)
	}
}

// TestDailyComparison: what one sink has lost comes back from the other once a
// day, and is counted; what both have lost is due again.
func TestDailyComparison(t *testing.T) {
	a := newArchives(t, 6)
	first, second := a.app.Sinks[0], a.app.Sinks[1]
	a.lose(first, 1, 2)
	a.lose(second, 2, 3)
	a.compare()
	entries := a.entries()
	if e := entries[sinktest.Key("prj_a", 2)]; !e.Lost() || e.Number != 2 || len(entries) != 6 {
		t.Errorf("%d windows in the ledger; of the lost one it says %+v", len(entries), e)
	}
	if a.shows(first) != 5 || a.shows(second) != 5 {
		t.Errorf("the sinks show %d and %d windows", a.shows(first), a.shows(second))
	}
	counts, err := a.app.State.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lost := map[string]int64{}
	for _, c := range counts {
		if c.Name == "sink_windows_lost_total" {
			lost[c.Labels] = c.Value
		}
	}
	if lost[state.Labels("sink", config.SinkParquet)] != 2 || lost[state.Labels("sink", "clickhouse")] != 2 {
		t.Errorf("counted %v", lost)
	}
	a.lose(first, 1)
	a.now = a.now.Add(23 * time.Hour)
	if a.compare(); a.shows(first) != 4 {
		t.Error("compared twice in a day")
	}
	a.now = a.now.Add(2 * time.Hour)
	if a.compare(); a.shows(first) != 5 {
		t.Error("not compared after a day")
	}
	if left, err := filepath.Glob(filepath.Join(a.app.Config.StateDir, app.TempCopy+"-*")); len(left) > 0 ||
		err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestDailyComparisonRefuses: an empty sink is not filled and nothing is due; each
// run says so until it is mended.
func TestDailyComparisonRefuses(t *testing.T) {
	a := newArchives(t, 12)
	if err := os.Rename(a.app.Sinks[0].Location(), a.app.Sinks[0].Location()+".away"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a.said.Reset()
		a.compare()
		if said := a.said.String(); !strings.Contains(said, "docgauge verify") ||
			!strings.Contains(said, "lost 12 of the 12 windows") {
			t.Errorf("said %q", said)
		}
	}
	for key, e := range a.entries() {
		if e.Sinks[config.SinkParquet].IsZero() {
			t.Errorf("%s is owed", key)
		}
	}
	if _, err := os.Stat(a.app.Sinks[0].Location()); err == nil {
		t.Error("the sink was filled")
	}
}

// TestDailyComparisonEnds: a run that is over is not compared, and not failed.
func TestDailyComparisonEnds(t *testing.T) {
	a := newArchives(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.exporter.compare(ctx); err == nil {
		t.Error("a comparison that was stopped counts as done")
	}
	a.lose(a.app.Sinks[0], 1)
	if a.compare(); a.shows(a.app.Sinks[0]) != 2 {
		t.Error("not compared by the next run")
	}
}

// collecting is a sink that only collects.
type collecting struct {
	sinks.Sink
	collect func(context.Context) error
}

func (collecting) Name() string { return "collecting" }

func (c collecting) Collect(ctx context.Context, _ bool) ([]sinks.Superseded, error) {
	return nil, c.collect(ctx)
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
		"done":     {func(context.Context) error { return nil }, 2},
	} {
		t.Run(about, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				db, err := state.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				began := 0
				r := &Exporter{app: &app.App{Log: slog.New(slog.DiscardHandler), Now: time.Now, State: db,
					Sinks: []sinks.Sink{collecting{collect: func(ctx context.Context) error {
						began++
						return tc.collect(ctx)
					}}}}}
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
