package schedule

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
)

// world runs the plan day after day against a service that drifts and fails and
// a budget that ends in the middle of a plan.
type world struct {
	in      Input
	ledger  ledger
	early   map[analytics.Key]int // committed readings before the settle time
	late    map[analytics.Key]int // and after it
	settled map[analytics.Key]int
}

func newWorld(t *rapid.T) *world {
	w := &world{
		ledger: ledger{}, early: map[analytics.Key]int{}, late: map[analytics.Key]int{},
		settled: map[analytics.Key]int{},
	}
	in, _ := drawInput(t)
	in.Known = w.ledger.known
	w.in = in
	return w
}

func (w *world) plan() []Item {
	w.in.Provisional = w.ledger.provisional()
	w.in.Rotate++
	return due(w.in)
}

// commit records a reading of i, as the export does.
func (w *world) commit(i Item, verified bool) {
	r := analytics.Revision{
		Key: i.Key, Verified: verified, ExportedAt: w.in.Now,
		Settled: Settles(i.Window, w.in.Settle, w.in.Now, verified, w.ledger[i.Key].ExportedAt),
	}
	if i.TotalsOnly {
		r.Rows = analytics.TotalsOnlyRows
	}
	w.ledger[i.Key] = r
	if w.in.Now.Sub(i.To.Time()) < w.in.Settle {
		w.early[i.Key]++
	} else {
		w.late[i.Key]++
	}
	if r.Settled {
		w.settled[i.Key]++
	}
}

// run takes items from the front of the plan until the budget is spent; a
// reading that fails is not committed.
func (w *world) run(t *rapid.T) {
	budget := rapid.IntRange(0, 60).Draw(t, "budget")
	outcomes := rapid.SliceOfN(rapid.SampledFrom([]string{"verified", "drifted", "failed"}), 1, 8).Draw(t, "outcomes")
	for n, i := range w.plan() {
		outcome := outcomes[n%len(outcomes)]
		if n >= budget {
			return
		}
		if i.Reason != ReasonOpen && outcome != "failed" {
			w.commit(i, outcome == "verified")
		}
	}
}

// checkReads: one reading when the window is complete, at most two when it can
// no longer change, none after it settled.
func (w *world) checkReads(t *rapid.T) {
	for k, r := range w.ledger {
		early, late, settled := w.early[k], w.late[k], w.settled[k]
		if early > 1 || late > 2 || settled > 1 || r.Settled != (settled == 1) {
			t.Fatalf("%s: %d early and %d late readings, settled %d times", k, early, late, settled)
		}
	}
}

// drain runs the whole plan without a budget until nothing is due, which takes
// at most two runs even where every reading drifts.
func (w *world) drain(t *rapid.T, verified bool) {
	for range 2 {
		for _, i := range w.plan() {
			w.commit(i, verified)
		}
	}
	w.checkReads(t)
	if left := w.plan(); left != nil {
		t.Fatalf("still due after two whole runs: %q", lines(left))
	}
}

// finish drains the plan now, and again when everything of today has settled;
// then the ledger has every window that was to be exported, settled once.
func (w *world) finish(t *rapid.T) {
	verified := rapid.Bool().Draw(t, "recovers")
	w.in.Open = nil
	w.drain(t, verified)
	wanted := w.wanted()
	w.in.Now = w.in.Now.Add(w.in.Settle)
	w.drain(t, verified)
	for k := range w.ledger {
		wanted[k] = true
	}
	for k := range wanted {
		if k.To <= analytics.DateOf(w.in.Now.Add(-w.in.Settle)) && w.settled[k] != 1 {
			t.Fatalf("%s settled %d times", k, w.settled[k])
		}
	}
}

// wanted returns the windows that a ledger must have now.
func (w *world) wanted() map[analytics.Key]bool {
	want := map[analytics.Key]bool{}
	today := analytics.DateOf(w.in.Now)
	for _, project := range w.in.Projects {
		for _, s := range w.in.Specs {
			newest := Newest(s.Granularity, today)
			for _, window := range []analytics.Window{newest, Previous(s.Granularity, newest)} {
				want[analytics.Key{Project: project, Granularity: s.Granularity, Window: window}] = true
			}
			for window := range Within(s.Granularity, w.in.Since, today) {
				want[analytics.Key{Project: project, Granularity: s.Granularity, Window: window}] = true
			}
		}
	}
	return want
}

func TestEveryWindowIsReadAndSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) {
				w.in.Now = w.in.Now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "hours")) * time.Hour)
			},
			"run": w.run,
			"":    w.checkReads,
		})
		w.finish(t)
	})
}
