package export

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/parquet"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// progress is how far a revision has come.
type progress string

const (
	former    progress = "former"    // the ledger has the former revision, or none
	owed      progress = "owed"      // it has the new one, owed to the sink
	committed progress = "committed" // and the sink has it
)

// faultCase is a fault in one step of the export of a window.
type faultCase struct {
	call  string
	nth   int
	fault faults.Fault
	// shown reports whether readers see the new revision then; ledger is the progress in
	// the ledger; logged is how many pages need no request any more.
	shown  bool
	ledger progress
	logged int
}

// faultCases lists every step of the export of a window, with every fault that can occur in
// it. A window of one page is held in memory until a sink does not take it.
func faultCases(pages int) []faultCase {
	var all []faultCase
	add := func(call string, nth int, shown [2]bool, ledger [2]progress, logged int) {
		for _, f := range []faults.Fault{faults.RequestLost, faults.KilledBefore} {
			all = append(all, faultCase{call, nth, f, shown[0], ledger[0], logged})
		}
		for _, f := range []faults.Fault{faults.ReplyLost, faults.KilledAfter} {
			all = append(all, faultCase{call, nth, f, shown[1], ledger[1], logged})
		}
	}
	for n := range pages {
		add(callAsk, n+1, [2]bool{}, [2]progress{former, former}, n)
		all = append(all, faultCase{StepPage, n + 1, faults.KilledAfter, false, former, n + 1})
	}
	add(callRecord, 1, [2]bool{}, [2]progress{former, owed}, pages)
	add(callReplace, 1, [2]bool{false, true}, [2]progress{owed, owed}, pages)
	add(callCommitted, 1, [2]bool{true, true}, [2]progress{owed, committed}, pages)
	return append(all, []faultCase{
		{stepStarted, 1, faults.KilledAfter, false, former, 0},
		{stepFetched, 1, faults.KilledAfter, false, former, pages},
		{stepSealed, 1, faults.KilledAfter, false, former, pages},
		{StepRecorded, 1, faults.KilledAfter, false, owed, pages},
		{stepReplaced, 1, faults.KilledAfter, true, owed, pages},
		{stepCommitted, 1, faults.KilledAfter, true, committed, pages},
		{stepDone, 1, faults.KilledAfter, true, committed, pages},
	}...)
}

func TestEachFault(t *testing.T) {
	for _, kind := range []string{"memory", "parquet", "parquet, agents"} {
		for _, before := range []int32{0, 1} {
			for _, pages := range []int{1, 3} {
				for _, c := range faultCases(pages) {
					t.Run(fmt.Sprintf("%s/revision %d/%d pages/%s %d/%s", kind, before+1, pages, c.call, c.nth,
						c.fault), func(t *testing.T) {
						t.Parallel() // most of its time is waiting for the disk
						w := newWorld(t, t.TempDir())
						if strings.HasSuffix(kind, "agents") {
							w.report = analytics.AgentsReport
						}
						if strings.HasPrefix(kind, "parquet") {
							s, err := parquet.New(t.TempDir(), w.report)
							if err != nil {
								t.Fatal(err)
							}
							w.sink, w.reader = s, s
						}
						testFault(t, w, before, pages, c)
					})
				}
			}
		}
	}
}

func testFault(t *testing.T, w *world, before int32, pages int, c faultCase) {
	k := w.day("prj_a", 0)
	if before > 0 {
		w.service.put(k, 300, 1)
		w.clean(w.run(w.due(true)...))
		w.shows(k, before)
	}
	w.now = noon(4) // it settles
	old := w.service.all(k)
	w.service.put(k, pages*240, 2)
	w.service.again()

	w.failing(c.call, c.nth, c.fault)
	w.run(w.due(true)...)
	w.faults = nil

	if got := w.shown(k).Number; got != before && !c.shown || got != before+1 && c.shown {
		t.Fatalf("revision %d is shown", got)
	}
	if !c.shown && before > 0 {
		if diff := rowsDiffer(old, w.rows(k)); diff != "" {
			t.Fatalf("the former revision is shown with other rows: %s", diff)
		}
	}
	w.says(k, before, c.ledger)

	w.service.again()
	w.heal()
	if got, want := w.service.requests(), pages-c.logged; got != want {
		t.Errorf("%d more requests, want %d", got, want)
	}
	if rev := w.shows(k, before+1); !rev.Settled || !rev.Verified {
		t.Errorf("revision %+v", rev)
	}
	w.says(k, before, committed)
	w.charged(k, pages)
	w.emptySpool()
	if due := w.due(true); len(due) > 0 {
		t.Errorf("still due: %v", due)
	}
}

// heal is one whole run of a new process.
func (w *world) heal() {
	w.Helper()
	p, _ := w.recovered()
	w.clean(reading(w.Context(), p, w.work(w.due(true))))
}

// says fails unless the ledger has the window in the given state.
func (w *world) says(k analytics.Key, before int32, want progress) {
	w.Helper()
	e, known := w.ledger.newest(k)
	got := former
	switch {
	case e.rev.Number == before+1 && e.sinks[w.sink.Name()]:
		got = committed
	case e.rev.Number == before+1:
		got = owed
	case e.rev.Number != before || known != (before > 0):
		w.Fatalf("the ledger has revision %d", e.rev.Number)
	}
	if got != want {
		w.Fatalf("the ledger says %s, want %s", got, want)
	}
}

// TestManyFaults: several windows at once, faults anywhere, also while
// recovering; then one run without a fault.
func TestManyFaults(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, dirOf(t, root))
		w.now = noon(10)
		w.concurrency = rapid.SampledFrom([]int{1, 4}).Draw(t, "concurrency")
		w.predict = rapid.IntRange(0, 4).Draw(t, "predicted")
		keys := []analytics.Key{day("prj_a", 0), sinktest.Of(analytics.AgentsReport, day("prj_a", 1)), day("prj_a", 2)}
		for i, k := range keys {
			w.service.put(k, rapid.IntRange(0, 1000).Draw(t, "rows"), i)
		}
		for range rapid.IntRange(1, 5).Draw(t, "processes") {
			w.faulty(t, keys)
		}
		w.faults = nil
		w.heals(keys)
		for _, k := range keys {
			if rev := w.shows(k, 1); !rev.Verified || !rev.Settled {
				t.Fatalf("revision %+v", rev)
			}
		}
		w.emptySpool()
	})
}

// faulty is a process with a fault, now or a few calls later.
func (w *world) faulty(t *rapid.T, keys []analytics.Key) {
	call := rapid.SampledFrom([]string{
		callAsk, callRecord, callReplace, callCommitted, callForget, callCount,
		stepStarted, StepPage, stepFetched, stepSealed, StepRecorded,
		stepReplaced, stepCommitted, stepDone,
	}).Draw(t, "call")
	f := rapid.SampledFrom(faults.OfCalls).Draw(t, "fault")
	w.failing(call, rapid.IntRange(1, 6).Draw(t, "nth"), f)
	p := w.process()
	if _, _, err := recovering(w.Context(), p, w.ledger.owed()); err == nil {
		reading(w.Context(), p, w.work(w.missing(keys)))
	}
	for _, k := range keys {
		if rev := w.shown(k); rev.Number > 1 || rev.Number == 1 && rowsDiffer(w.service.all(k), w.rows(k)) != "" {
			t.Fatalf("%s after the fault: %+v", k, rev)
		}
	}
}

func (w *world) missing(keys []analytics.Key) []schedule.Item {
	return asked(slices.DeleteFunc(slices.Clone(keys), func(k analytics.Key) bool {
		_, ok := w.ledger.newest(k)
		return ok
	})...)
}

func (w *world) heals(keys []analytics.Key) {
	w.Helper()
	p, _ := w.recovered()
	w.clean(reading(w.Context(), p, w.work(w.missing(keys))))
}

// TestKilledWhileASinkIsDown: a window that one sink lacks survives a kill at each point between
// the failure of that sink and the move of its log to those that wait, and at each later attempt.
// When the sink is back, it gets the window without a request.
func TestKilledWhileASinkIsDown(t *testing.T) {
	for _, pages := range []int{1, 3} {
		for _, c := range []struct {
			call  string
			fault faults.Fault
		}{
			{"", faults.None}, {callCount, faults.RequestLost}, {callCount, faults.ReplyLost},
			{callCount, faults.KilledBefore},
			{callCount, faults.KilledAfter}, {callReplace, faults.KilledAfter}, {callCommitted, faults.KilledBefore},
			{callCommitted, faults.KilledAfter}, {stepCommitted, faults.KilledAfter},
		} {
			t.Run(fmt.Sprintf("%d pages/%s/%s", pages, c.call, c.fault), func(t *testing.T) {
				w, k := oneWindow(t, pages*240, 1)
				isDown := true
				second := &sinktest.Memory{Fault: func(sinktest.Step, analytics.Revision) error {
					return when(isDown, errors.New("is down"))
				}}
				w.more = []sinks.Sink{other{second}}
				w.failing(c.call, 1, c.fault)
				w.run(asked(k)...)
				w.service.again()
				for range 2 { // the first delivers to the sink that is up, and finds the other one down
					recovering(t.Context(), w.process(), w.ledger.owed())
					w.faults = nil
				}
				w.shows(k, 1)
				w.spooled("waiting/*.r1.pages")
				isDown = false
				if _, n := w.recovered(); n != 1 || w.service.requests() != 0 {
					t.Errorf("%d windows delivered, %d requests", n, w.service.requests())
				}
				w.reader = second
				w.shows(k, 1)
				w.emptySpool()
			})
		}
	}
}

// TestLedgerOlderThanTheSpool: a window that waits for a sink, and that the ledger from an older
// backup does not know, is recorded and delivered again without a request.
func TestLedgerOlderThanTheSpool(t *testing.T) {
	for _, processes := range []int{1, 2} { // with two, one died after it had moved the log
		w, k := oneWindow(t, 700, 1)
		w.failing(callReplace, 1, faults.RequestLost)
		w.run(asked(k)...)
		w.faults = nil
		rev, _ := w.ledger.known(k)
		if err := w.ledger.Forget(t.Context(), rev); err != nil {
			t.Fatal(err)
		}
		w.service.again()
		for range processes {
			w.recovered()
		}
		w.clean(w.run(asked(k)...))
		if got := w.shows(k, 1); w.service.requests() != 0 || got != rev {
			t.Errorf("%d requests, revision %+v, was %+v", w.service.requests(), got, rev)
		}
		w.emptySpool()
	}
}
