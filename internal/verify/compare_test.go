package verify

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestCompare(t *testing.T) {
	away := func(w *world, _ analytics.Revision) { w.files.away = fmt.Errorf("%w: down", sinks.ErrNotListed) }
	full := func(w *world, _ analytics.Revision) {
		w.table.Fault = func(sinktest.Step, analytics.Revision) error { return errors.New("full") }
	}
	for _, c := range []struct {
		name  string
		harms []harm
		// lost, filled and due count; owed names the sinks that are owed after it.
		lost, filled, due int
		owed              string
		errors            int
	}{
		{name: "lost in one", harms: []harm{gone(clickhouse)}, lost: 1, filled: 1},
		{name: "lost in both", harms: []harm{gone(clickhouse, parquet)}, lost: 2, due: 1},
		{name: "lost in both, in the spool", harms: []harm{inSpool, gone(clickhouse, parquet)}, lost: 2,
			owed: "clickhouse parquet"},
		{name: "damaged", harms: []harm{faulty(parquet, sinks.Unreadable)}, lost: 1, filled: 1},
		{name: "unavailable", harms: []harm{faulty(parquet, sinks.Unavailable)}},
		{name: "lost in one, the other unavailable",
			harms: []harm{faulty(parquet, sinks.Unavailable), gone(clickhouse)},
			lost:  1, owed: "clickhouse"},
		{name: "older revision", harms: []harm{other(parquet, 1, 4)}, lost: 1, filled: 1},
		{name: "newer revision", harms: []harm{other(parquet, 3, 4)}},
		{name: "lost in one, the other not listed", harms: []harm{gone(clickhouse), away}, lost: 1, owed: clickhouse,
			errors: 1},
		{name: "lost in one, which takes nothing", harms: []harm{gone(clickhouse), full}, lost: 1, owed: clickhouse,
			errors: 1},
		{name: "lost in one, the other shows other rows",
			harms: []harm{gone(clickhouse), shows(parquet, append(rows(4), analytics.Row{Path: "/z"}))},
			lost:  1, owed: "clickhouse", errors: 1},
		{name: "owed since before, not in the spool", harms: []harm{gone(clickhouse), owed(clickhouse)}, filled: 1},
		{name: "never owed", harms: []harm{gone(clickhouse), undelivered(clickhouse)}},
		{name: "extra", harms: []harm{unknown}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 3)
			rev := w.revision(1, 2)
			for _, do := range c.harms {
				do(w, rev)
			}
			known := len(w.ledger.entries)
			done := w.compare()
			lost := 0
			for _, n := range done.Lost {
				lost += n
			}
			var owed []string
			for _, s := range []string{"clickhouse", "parquet"} {
				if w.ledger.entries[rev.Key].Owes(s) {
					owed = append(owed, s)
				}
			}
			if lost != c.lost || done.Filled != c.filled || done.Due != c.due || strings.Join(owed, " ") != c.owed ||
				len(done.Errors) != c.errors {
				t.Errorf("%+v, owed %v", done, owed)
			}
			if e, ok := w.ledger.entries[rev.Key]; len(w.ledger.entries) != known || ok && e.Lost() != (c.due == 1) {
				t.Errorf("the ledger has %d windows of %d, and %+v", len(w.ledger.entries), known, e)
			}
			w.table.Fault, w.files.away = nil, nil
			if c.filled == 1 {
				if r := w.verify(); len(r.Findings) > 0 {
					t.Errorf("after it: %+v", r.Findings)
				}
			}
		})
	}
}

// TestCompareRefuses: a sink that has lost most of its windows is another one, or
// is not mounted. Nothing is owed, and nothing read again.
func TestCompareRefuses(t *testing.T) {
	for left, refused := range map[int]bool{0: true, 5: true, 6: false, 11: false} {
		w := newWorld(t, 12)
		w.ledger.entries = maps12(w, left)
		done := w.compare()
		if refused != (len(done.Errors) == 1) || refused != (done.Due == 0) {
			t.Errorf("%d of 12 left: %+v", left, done)
		}
		if refused && (!strings.Contains(done.Errors[0].Error(), "docgauge verify --repair") ||
			!strings.Contains(done.Errors[0].Error(), "docgauge status --rebuild") || len(w.ledger.entries) != 12) {
			t.Errorf("%v; %d windows in the ledger", done.Errors, len(w.ledger.entries))
		}
	}
	// Few windows can be lost at once.
	w := newWorld(t, 3)
	for day := range 3 {
		w.files.Remove(w.revision(day, 2).Key)
	}
	if done := w.compare(); done.Filled != 3 {
		t.Errorf("%+v", done)
	}
}

// maps12 is the ledger of a world whose only sink, parquet, has so many windows left.
func maps12(w *world, left int) map[analytics.Key]state.Entry {
	out := w.ledger.entries
	for day := range 12 {
		rev := w.revision(day, 2)
		delete(out[rev.Key].Sinks, "clickhouse")
		w.table.Remove(rev.Key)
		if day >= left {
			w.files.Remove(rev.Key)
		}
	}
	return out
}
