package export

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/state"
)

// backup copies the state directory.
func (c *clocks) backup() (restore func()) {
	c.Helper()
	kept := filepath.Join(c.TempDir(), "backup")
	if err := os.CopyFS(kept, os.DirFS(c.cfg.StateDir)); err != nil {
		c.Fatal(err)
	}
	return func() {
		c.Helper()
		if err := os.RemoveAll(c.cfg.StateDir); err != nil {
			c.Fatal(err)
		}
		if err := os.CopyFS(c.cfg.StateDir, os.DirFS(kept)); err != nil {
			c.Fatal(err)
		}
	}
}

// days lets docgauge run each day.
func (c *clocks) days(n int) {
	c.Helper()
	for range n {
		c.now = c.now.Add(daily)
		c.truth = c.now
		if s, _ := c.run(); s.Outcome != Success {
			c.Fatalf("%+v", s)
		}
	}
}

// TestOlderState: a state from an older backup beside a newer archive reads its ledger back, so
// that nothing is requested again and the revision numbers continue. A queue that has sent
// something since the backup must ask first; any other queue must not. Without a marker, as
// without a files sink, the readings show that the state is older, and the queue asks in any case.
func TestOlderState(t *testing.T) {
	for _, tc := range []struct{ sent, marked bool }{{false, true}, {true, true}, {false, false}} {
		sent := tc.sent
		c := newClocks(t)
		if s, _ := c.run(); s.Committed != 5 {
			t.Fatalf("%+v", s)
		}
		adopt := func(a *app.App) {
			q, err := a.State.Queue(t.Context())
			q.Adopted = true
			if err == nil {
				_, err = a.State.Apply(t.Context(), journal.Change{Queue: &q})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		c.open(adopt)
		restore := c.backup()
		c.days(5)
		if sent {
			c.open(func(a *app.App) {
				job := journal.Job{Prompt: "a.md", Path: "a.md", Project: "prj_a", Try: 1, State: journal.Submitting}
				if _, err := a.State.Apply(t.Context(), journal.Change{Job: job, At: c.now}); err != nil {
					t.Fatal(err)
				}
			})
			c.run()
		}
		before := c.shown()
		restore()
		if markers, err := filepath.Glob(filepath.Join(c.cfg.ParquetURL, "_docgauge_*.json")); err != nil ||
			len(markers) != 1 {
			t.Fatal(markers, err)
		} else if !tc.marked {
			if err := os.Remove(markers[0]); err != nil {
				t.Fatal(err)
			}
		}
		s, requests := c.run()
		if s.Outcome != Success || requests != 1 || s.Open != 1 {
			t.Errorf("restored: %d requests, %+v", requests, s)
		}
		for key, rev := range c.shown() {
			if rev != before[key] {
				t.Errorf("%s: %+v was %+v", key, rev, before[key])
			}
		}
		c.open(func(a *app.App) {
			q, err := a.State.Queue(t.Context())
			if asks := sent || !tc.marked; err != nil || q.Adopted == asks || q.Restored != asks {
				t.Errorf("%+v: %+v, %v", tc, q, err)
			}
		})
		c.days(3)
		if n := strings.Count(c.log.String(), "a backup older than"); n != 1 {
			t.Errorf("%d warnings of an older backup", n)
		}
	}
}

// TestDamagedMarker: the queue sends nothing until an export has written the marker again.
func TestDamagedMarker(t *testing.T) {
	c := newClocks(t)
	c.run()
	markers, err := filepath.Glob(filepath.Join(c.cfg.ParquetURL, "_docgauge_*.json"))
	if err == nil {
		err = os.Truncate(markers[0], 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	find := func() (err error) {
		c.open(func(a *app.App) {
			_, err = a.FindTraces(t.Context(), 0, func(func(*state.Entry) bool) {})
		})
		return err
	}
	if err := find(); err == nil || !strings.Contains(err.Error(), "`docgauge export` writes it again") {
		t.Error(err)
	}
	c.run()
	if err := find(); err != nil {
		t.Error(err)
	}
}

// TestMisplacedSink: a sink that existed and is now empty, half filled or elsewhere gets
// nothing. Each run reports that, and the windows that were read wait for it.
func TestMisplacedSink(t *testing.T) {
	for _, tc := range []struct {
		name string
		keep bool // one window of it
		sink string
	}{{"empty", false, config.SinkParquet}, {"half filled", true, config.SinkParquet},
		{"empty table", false, "delta"}} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClocks(t)
			c.cfg.Sinks, c.cfg.DeltaURL = config.Sinks{tc.sink}, filepath.Join(t.TempDir(), "delta")
			place := c.cfg.ParquetURL
			if tc.sink == "delta" {
				place = c.cfg.DeltaURL
			}
			c.run()
			away := place + ".away"
			if err := os.Rename(place, away); err != nil {
				t.Fatal(err)
			}
			if tc.keep {
				newest := (c.now.Truncate(daily).AddDate(0, 0, -1)).Format("2006-01-02") + "_*.parquet"
				files, err := filepath.Glob(filepath.Join(away, "*", "v1", "*", "*", "*", newest))
				if err != nil || len(files) != 2 {
					t.Fatal(files, err)
				}
				for _, from := range files {
					to := strings.Replace(from, away, place, 1)
					text, err := os.ReadFile(from)
					if err == nil {
						err = os.MkdirAll(filepath.Dir(to), 0o777)
					}
					if err == nil {
						err = os.WriteFile(to, text, 0o666)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			shown := len(c.shown())
			c.now = c.now.Add(daily)
			c.truth = c.now
			for i, requests := range []int{3, 1} { // a new day, one that settles and the running one, then that alone
				s, got := c.run()
				if s.Outcome != Failed || len(s.Errors) != 1 ||
					!strings.Contains(s.Errors[0].Error(), "is it the right place, and mounted?") || got != requests {
					t.Errorf("run %d: %d requests, %+v", i, got, s)
				}
			}
			if now := len(c.shown()); now != shown {
				t.Errorf("%d windows were written to the wrong place", now-shown)
			}
			if err := os.RemoveAll(place); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(away, place); err != nil {
				t.Fatal(err)
			}
			if s, got := c.run(); s.Outcome != Success || s.Recovered != 2 || got != 1 {
				t.Errorf("mounted again: %d requests, %+v", got, s)
			}
			if now := len(c.shown()); now != 6 {
				t.Errorf("%d windows are shown", now)
			}
		})
	}
}

// TestNewPlace: the remedy for a new place without another sink: the ledger becomes what the
// sinks show, and the windows are requested again.
func TestNewPlace(t *testing.T) {
	c := newClocks(t)
	c.run()
	c.cfg.ParquetURL += ".new"
	if s, _ := c.run(); s.Outcome != Failed {
		t.Errorf("%+v", s)
	}
	c.open(func(a *app.App) {
		if _, err := coverage.Rebuild(t.Context(), a.State, a.Sinks, a.InSpool, a.Log); err != nil {
			t.Fatal(err)
		}
	})
	if s, _ := c.run(); s.Outcome != Success || s.Committed != 5 || len(c.shown()) != 5 {
		t.Errorf("%+v", s)
	}
}
