package export

import (
	"os"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/parquet"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func (a *archives) rebuild() (coverage.Rebuilt, error) {
	return coverage.Rebuild(a.Context(), a.app.State, a.app.Sinks, a.app.InSpool, a.app.Log)
}

// TestRebuild: the ledger says what each sink shows, and what only the spool has.
func TestRebuild(t *testing.T) {
	a := newArchives(t, 7)
	first, second := a.app.Sinks[0], a.app.Sinks[1]
	key := func(day int) analytics.Key { return sinktest.Key("prj_a", day) }
	a.lose(first, 1)  // one sink has it
	a.lose(first, 2)  // neither the sinks nor the spool have it
	a.lose(second, 2) //
	a.lose(first, 3)  // the spool has it
	a.lose(second, 3) //
	older := sinktest.Seal(t, sinktest.Revision(key(4), 1), sinktest.Pages(3))
	a.replace(first, older) // the sinks disagree
	newer := sinktest.Seal(t, sinktest.Revision(key(5), 3), sinktest.Pages(3))
	a.replace(second, newer) // a sink knows more than the ledger
	a.seal(sinktest.Revision(key(3), 2))

	done, err := a.rebuild()
	if err != nil || done != (coverage.Rebuilt{Windows: 6, Forgotten: 1}) {
		t.Errorf("rebuilt %+v, %v", done, err)
	}
	entries := a.entries()
	for day, want := range map[int]struct {
		number        int32
		first, second bool // has it
		requests      int
	}{
		0: {2, true, true, 3}, 1: {2, false, true, 3}, 3: {2, false, false, 3}, 4: {2, false, true, 3},
		5: {3, false, true, 0}, 6: {2, true, true, 3},
	} {
		e, known := entries[key(day)]
		if !known || e.Number != want.number || e.Sinks[first.Name()].IsZero() == want.first ||
			e.Sinks[second.Name()].IsZero() == want.second || e.Requests != want.requests {
			t.Errorf("day %d: %+v, want %+v", day, e, want)
		}
		if len(e.Checksum) != 16 {
			t.Errorf("day %d: checksum %q", day, e.Checksum)
		}
		for _, s := range a.app.Sinks {
			if at, owed := e.Sinks[s.Name()]; !owed {
				t.Errorf("day %d: nothing is said of %s", day, s.Name())
			} else if want.requests == 3 && !at.IsZero() && !at.Equal(a.now) {
				t.Errorf("day %d: committed at %s", day, at)
			}
		}
	}
	if again, err := a.rebuild(); err != nil || again != (coverage.Rebuilt{Windows: 6}) {
		t.Errorf("again: %+v, %v", again, err)
	}
	// What disagreed is filled by the next comparison.
	a.now = a.now.Add(25 * time.Hour)
	if a.compare(); a.shows(first) != 5 {
		t.Errorf("the first sink shows %d windows", a.shows(first))
	}
	// A lost state gets the checksums back too.
	before := a.entries()
	if err := a.app.State.ReplaceLedger(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if done, err := a.rebuild(); err != nil || done.Windows != 5 {
		t.Errorf("of a lost state: %+v, %v", done, err)
	}
	for key, e := range a.entries() {
		if e.Revision != before[key].Revision || e.Checksum != before[key].Checksum {
			t.Errorf("%+v, before %+v", e, before[key])
		}
	}
}

// seal puts a window into the spool.
func (a *archives) seal(rev analytics.Revision) {
	a.Helper()
	f, err := a.app.Spool.Begin(rev.Key, rev.Number, rev.ExportedAt, time.Time{})
	if err != nil {
		a.Fatal(err)
	}
	page := analytics.Page{Totals: rev.Totals}
	for r := range sinktest.Pages(5) {
		page.Rows = append(page.Rows, analytics.RecordOf(r))
	}
	if err := f.Append(page); err != nil {
		a.Fatal(err)
	}
	if err := f.Wait(); err != nil {
		a.Fatal(err)
	}
}

// TestRebuildWhileASinkIsAway keeps what that sink is said to have.
func TestRebuildWhileASinkIsAway(t *testing.T) {
	a := newArchives(t, 3)
	first := a.app.Sinks[0]
	a.lose(first, 1)
	a.app.Sinks[1] = away(t, a.app.Sinks[1].Name())
	if done, err := a.rebuild(); err != nil || done != (coverage.Rebuilt{Windows: 3}) {
		t.Errorf("rebuilt %+v, %v", done, err)
	}
	for key, e := range a.entries() {
		lost := key == sinktest.Key("prj_a", 1)
		if e.Sinks["clickhouse"].IsZero() || e.Sinks[config.SinkParquet].IsZero() != lost {
			t.Errorf("%+v", e)
		}
	}
	// No sink that can be listed has anything: nothing is concluded.
	a.lose(first, 0, 2)
	if done, err := a.rebuild(); err == nil || len(a.entries()) != 3 {
		t.Errorf("rebuilt %+v, %v", done, err)
	}
}

// away is a sink that cannot be listed.
func away(t *testing.T, name string) sinks.Sink {
	t.Helper()
	dir := t.TempDir()
	s, err := parquet.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("visitors", dir+"/visitors"); err != nil { // a loop, for root too
		t.Fatal(err)
	}
	return renamed{s, name}
}
