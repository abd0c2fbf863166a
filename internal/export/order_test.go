package export

import (
	"flag"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/schedule"
)

// begun returns the windows that are begun and not complete.
func (w *world) begun() []string {
	w.Helper()
	underWay, err := spool.ListUnderWay(w.dir)
	if err != nil {
		w.Fatal(err)
	}
	var keys []string
	for _, u := range underWay {
		if _, aside := w.ledger.asides()[u.Key]; !aside {
			keys = append(keys, u.Key.String())
		}
	}
	return keys
}

// malformedError is the client's error for an answer with a row that cannot be stored.
func malformedError() error {
	return &docsapi.Error{Op: "visitors", Status: http.StatusOK, Outcome: docsapi.Permanent, FromAPI: true,
		Message: "human: want an integer", Err: docsapi.ErrMalformed}
}

func refusedError() error {
	return &docsapi.Error{Op: "visitors", Status: http.StatusBadRequest, Outcome: docsapi.Permanent, FromAPI: true,
		Message: "too old"}
}

// TestScarceBudget: a budget that is not enough for everything reads complete windows,
// whatever the concurrency: 18 of 20 requests are six days of three pages.
func TestScarceBudget(t *testing.T) {
	for _, concurrency := range []int{1, 4, 16} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			w.concurrency = concurrency
			keys := w.days("prj_a", 12)
			w.now = noon(40) // they can no longer change
			w.service.limited, w.service.budget = true, 20
			r := w.clean(w.run(asked(keys...)...))
			if r.Committed != 6 || !r.BudgetSpent || r.Left != 6 {
				t.Errorf("result %+v", r)
			}
			for i, k := range keys {
				if (w.shown(k).Number == 1) != (i < 6) {
					t.Errorf("window %d of the plan: revision %d is shown", i+1, w.shown(k).Number)
				}
			}
			if begun := w.begun(); !slices.Equal(begun, []string{keys[6].String()}) {
				t.Errorf("begun: %v", begun)
			}
		})
	}
}

// At most one window of each project is begun and not complete, and it is continued before
// another that may not be completed either.
func TestBegunWindowsAreFinishedFirst(t *testing.T) {
	w := newWorld(t, t.TempDir())
	keys := w.days("prj_a", 6)
	w.now = noon(40)
	w.service.limited, w.service.budget = true, 2
	w.clean(w.run(asked(keys[3:]...)...)) // two pages of the fourth
	w.service.budget = 2
	w.clean(w.run(asked(keys...)...))
	if w.shown(keys[3]).Number != 1 || len(w.begun()) != 1 {
		t.Errorf("begun: %v; the first that was is at revision %d", w.begun(), w.shown(keys[3]).Number)
	}
}

// A window that can move is not begun if it cannot be completed; those behind it use what
// is free, as it had room when the run began.
func TestHeldBack(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.now = noon(5) // days from 2 on can still move
	young, old, small := day("prj_a", 4), day("prj_a", 3), day("prj_a", 0)
	w.service.put(young, 1250, 1)
	w.service.put(old, 1250, 1)
	w.service.put(small, 100, 1)
	w.service.limited, w.service.budget = true, 8
	run := func() Summary {
		work := w.work(asked(w.lacking(asked(young, old, small))...))
		for _, k := range []analytics.Key{young, old} {
			work.Sizes.Learn(k, 1250)
		}
		work.Sizes.Learn(small, 100)
		work.Policy.Limit, work.Learned = 8, w.ledger.learned
		return w.clean(reading(t.Context(), w.process(), work))
	}
	r := run()
	if r.Committed != 2 || w.shown(old).Number != 0 || len(w.begun()) != 0 || r.wanted != 5 || !r.BudgetSpent {
		t.Errorf("result %+v, begun %v", r, w.begun())
	}
	// It does not wait for ever: after two hours it is begun anyway.
	w.service.budget = 2
	if r = run(); len(w.begun()) != 0 || w.service.requests() != 6 {
		t.Errorf("result %+v, begun %v", r, w.begun())
	}
	w.now = w.now.Add(3 * time.Hour)
	if r = run(); len(w.begun()) != 1 {
		t.Errorf("result %+v, begun %v", r, w.begun())
	}
}

// TestSmallPages: a service that puts fewer rows on a page than were requested is
// read completely, and the size of its pages is remembered.
func TestSmallPages(t *testing.T) {
	for _, c := range []struct{ rows, cap, want int }{
		{600, 100, 6}, {601, 100, 7}, {99, 100, 1}, {100, 100, 1}, {0, 100, 1}, {700, 249, 3}, {3, 1, 3},
	} {
		for _, concurrency := range []int{1, 4} {
			t.Run(fmt.Sprintf("%d rows, %d a page, concurrency %d", c.rows, c.cap, concurrency), func(t *testing.T) {
				w := newWorld(t, t.TempDir())
				w.concurrency, w.service.cap = concurrency, c.cap
				w.service.limited, w.service.budget = true, 100
				k := day("prj_a", 0)
				w.service.put(k, c.rows, 1)
				w.clean(w.run(asked(k)...))
				if rev := w.shows(k, 1); !rev.Verified || w.service.requests() != c.want {
					t.Errorf("%d requests, want %d; %+v", w.service.requests(), c.want, rev)
				}
				if got := w.ledger.perPage[schedule.Source{Project: "prj_a"}]; c.want > 1 && got != c.cap {
					t.Errorf("%d rows a page are remembered", got)
				}
				// Read again, with the size and the length known: all but the last at once.
				w.service.again()
				work := w.work(asked(k))
				if c.want > 1 {
					work.Sizes.SetPerPage(schedule.Source{Project: "prj_a"}, c.cap)
				}
				work.Sizes.Learn(k, int64(c.rows))
				w.clean(reading(t.Context(), w.process(), work))
				if rev := w.shows(k, 2); !rev.Verified || w.service.requests() != c.want {
					t.Errorf("%d requests, want %d; %+v", w.service.requests(), c.want, rev)
				}
				// A service that returns to large pages is read, too.
				w.service.cap = 0
				w.service.again()
				w.clean(reading(t.Context(), w.process(), work))
				if rev := w.shown(k); !rev.Verified {
					t.Errorf("%+v", rev)
				}
			})
		}
	}
}

// TestBadWindowsStopNobody: of thirty days the newest seventeen cannot be stored.
func TestBadWindowsStopNobody(t *testing.T) {
	for reason, failure := range map[analytics.AsideReason]func() error{
		analytics.AsideMalformed: malformedError, analytics.AsideRefused: refusedError,
		analytics.AsideFailing: outageError, analytics.AsideRepeats: nil,
	} {
		t.Run(string(reason), func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			keys := w.days("prj_a", 30)
			bad := keys[:17]
			w.service.answer = func(_ int, q docsapi.PageQuery) (*visitorsPage, error) {
				if !slices.ContainsFunc(bad, func(k analytics.Key) bool { return k.Window == q.Window }) {
					return nil, nil
				}
				if failure == nil {
					return &visitorsPage{Rows: rowsOf(250, 1), HasMore: true}, nil
				}
				return nil, failure()
			}
			due := func() []schedule.Item {
				items := slices.DeleteFunc(asked(w.lacking(asked(keys...))...), func(i schedule.Item) bool {
					return w.ledger.asides()[i.Key].Until.After(w.now)
				})
				return append(items, schedule.Item{Key: day("prj_a", 99), TotalsOnly: true,
					Reason: schedule.ReasonOpen})
			}
			runs := 0
			for ; len(w.ledger.keys()) < 13; runs++ {
				if runs == 14 {
					t.Fatalf("%d windows after %d runs", len(w.ledger.keys()), runs)
				}
				w.run(due()...)
				w.now = w.now.Add(time.Hour)
			}
			if runs > 1 && (reason == analytics.AsideMalformed || reason == analytics.AsideRepeats) {
				t.Errorf("%d runs", runs)
			}
			// Windows that fail rest longer and longer: few requests from here on.
			w.service.again()
			for range 2 * 24 {
				w.run(due()...)
				w.now = w.now.Add(time.Hour)
			}
			if n := w.service.requests() - 2*24; n > 17*6*6 || n < 17*3 {
				t.Errorf("%d requests in two days", n)
			}
			asides := w.ledger.asides()
			if a := asides[bad[0]]; len(asides) != 17 || a.Reason != reason || a.Detail == "" || a.Failures < 4 {
				t.Errorf("%d set aside: %+v", len(asides), a)
			}
			// The service is repaired: all are read, and nothing is set aside any more.
			w.service.answer = nil
			w.now = w.now.Add(24 * time.Hour)
			w.clean(w.run(due()...))
			if len(w.ledger.asides()) != 0 || len(w.lacking(asked(keys...))) != 0 {
				t.Errorf("still aside: %v", w.ledger.asides())
			}
		})
	}
}

// The windows that met an outage are not at fault: when it is over, they are read in the
// first run, and none rests.
func TestAfterAnOutage(t *testing.T) {
	w := newWorld(t, t.TempDir())
	keys := w.days("prj_a", 6)
	w.answers(func(int, docsapi.PageQuery) error { return outageError() })
	for range 4 {
		w.run(asked(keys...)...)
		w.now = w.now.Add(time.Hour)
	}
	w.service.answer = nil
	if r := w.clean(w.run(asked(keys...)...)); r.Committed != 6 || len(w.ledger.asides()) != 0 {
		t.Errorf("result %+v, aside %v", r, w.ledger.asides())
	}
}

// After an outage windows are read in the order of the plan, which begins with one that did
// not meet the outage.
func TestPlanAfterAnOutage(t *testing.T) {
	for runs, first := range map[int]int{0: 0, 1: 2, 2: 4, 3: 0} {
		w := newWorld(t, t.TempDir())
		keys := w.days("prj_a", 6)
		plan := func() []schedule.Item {
			items, _, _, err := schedule.Asked(w.input(0), keys[5].From, keys[0].To)
			if err != nil {
				t.Fatal(err)
			}
			return items
		}
		w.answers(func(int, docsapi.PageQuery) error { return outageError() })
		for range runs {
			w.run(plan()...)
		}
		w.service.answer = nil
		w.service.again()
		var planned, read []analytics.Window
		for _, item := range plan() {
			planned = append(planned, item.Window)
		}
		w.clean(w.run(plan()...))
		for _, q := range w.service.sent {
			if q.Offset == 0 {
				read = append(read, q.Window)
			}
		}
		if !slices.Equal(planned, read) || read[0] != keys[first].Window {
			t.Errorf("after %d runs: planned %v, read %v", runs, planned, read)
		}
	}
}

// TestSuspectRows: an unverified reading says which of its rows are suspect.
func TestSuspectRows(t *testing.T) {
	w, k := oneWindow(t, 700, 1)
	w.service.answer = func(_ int, q docsapi.PageQuery) (*visitorsPage, error) {
		p := w.service.page(q)
		switch q.Offset {
		case 0:
			p.Totals.AI++
		case 250:
			p.Rows = slices.Clone(p.Rows)
			p.Rows[3].Path = rowsOf(1, 1)[0].Path
		}
		return &p, nil
	}
	r := w.clean(w.run(asked(k)...))
	e, _ := w.ledger.newest(k)
	if e.rev.Verified || e.prov.MovedRows != 250 || e.prov.RepeatedRows != 1 || r.Unverified != 1 ||
		r.MovedRows != 250 || r.RepeatedRows != 1 {
		t.Errorf("%+v, %+v, %+v", e.rev, e.prov, r)
	}
}

// TestAnyService: whatever a service does, the windows that can be read at all are read
// completely and exactly, with a bounded number of requests, and none starves; those that
// cannot be read delay no others.
//
// The services are the same each time, unless -rapid.seed names others.
func TestAnyService(t *testing.T) {
	root := t.TempDir()
	if seed := flag.Lookup("rapid.seed").Value; seed.String() == "0" {
		if err := seed.Set("20261122"); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = seed.Set("0") }()
	}
	rapid.Check(t, func(t *rapid.T) { newAnyService(t, dirOf(t, root)).check() })
}

// anyService is a random service and a user of it.
type anyService struct {
	*world
	t *rapid.T
	// rows of each window; bad ones fail with their error, restless ones change every run
	// until they can settle.
	rows     map[analytics.Key]int
	bad      map[analytics.Key]error
	restless bool
	alike    bool // no window has more than twice the rows of another
	limit    int
	outage   int // runs until it is over
	requests map[analytics.Key]int
}

func newAnyService(t *rapid.T, dir string) *anyService {
	s := &anyService{
		world: newWorld(t, dir), t: t, rows: map[analytics.Key]int{}, bad: map[analytics.Key]error{},
		requests: map[analytics.Key]int{},
		restless: rapid.Bool().Draw(t, "restless"), alike: rapid.Bool().Draw(t, "alike"),
		limit:  rapid.IntRange(4, 30).Draw(t, "limit"),
		outage: rapid.IntRange(0, 3).Draw(t, "outage"),
	}
	s.now = noon(7)
	s.concurrency = rapid.SampledFrom([]int{1, 4}).Draw(t, "concurrency")
	s.service.cap = rapid.SampledFrom([]int{0, 0, 100, 37}).Draw(t, "page rows")
	s.service.limited = true
	failures := []error{malformedError(), refusedError(), outageError()}
	least, most := 0, 1500
	if s.alike {
		least = rapid.IntRange(1, 750).Draw(t, "least rows")
		most = 2 * least
	}
	for n := range rapid.IntRange(1, 7).Draw(t, "days") {
		k := day("prj_a", n)
		s.rows[k] = rapid.IntRange(least, most).Draw(t, "rows")
		s.service.put(k, s.rows[k], 0)
		if rapid.IntRange(0, 4).Draw(t, "bad") == 0 {
			s.bad[k] = rapid.SampledFrom(failures).Draw(t, "failure")
		}
	}
	s.service.answer = func(_ int, q docsapi.PageQuery) (*visitorsPage, error) {
		k := analytics.Key{Project: q.Project, Granularity: analytics.Day, Window: q.Window}
		s.service.mu.Lock()
		s.requests[k]++
		s.service.mu.Unlock()
		if s.outage > 0 {
			return nil, outageError()
		}
		return nil, s.bad[k]
	}
	return s
}

// run1 is one run, an hour after the one before.
func (s *anyService) run1(n int, killed bool) {
	s.service.budget = s.limit
	s.faults = nil
	if killed {
		call := rapid.SampledFrom([]string{callAsk, callRecord, callReplace, callCommitted,
			stepSealed}).Draw(s.t, "killed at")
		s.failing(call, rapid.IntRange(1, 5).Draw(s.t, "nth"),
			rapid.SampledFrom([]faults.Fault{faults.KilledBefore, faults.KilledAfter}).Draw(s.t, "when"))
	}
	p := s.process()
	if _, _, err := recovering(s.t.Context(), p, s.ledger.owed()); err != nil && !killed {
		s.t.Fatal(err)
	}
	work := s.work(nil)
	for _, k := range s.ledger.keys() {
		if rev, ok := s.ledger.known(k); ok {
			work.Sizes.Learn(k, rev.Rows)
		}
	}
	for of, rows := range s.ledger.perPage {
		work.Sizes.SetPerPage(of, rows)
	}
	in := s.input(day("prj_a", 0).From)
	in.Rotate, in.Sizes = n, work.Sizes
	in.GaveUp = func(k analytics.Key) bool {
		e, ok := s.ledger.newest(k)
		return ok && e.rev.TotalsOnly() && e.prov.Requests > 1
	}
	in.Policy = schedule.Policy{Limit: s.limit, Settle: settle,
		Learned: s.ledger.learned.Of}
	before := len(s.begun())
	due, _ := schedule.Plan(in)
	work.Items = slices.DeleteFunc(due, func(i schedule.Item) bool { return s.rows[i.Key] == 0 && !s.has(i.Key) })
	work.Policy, work.Learned = in.Policy, s.ledger.learned
	reading(s.t.Context(), p, work)
	// Where sizes cannot be derived from other windows, two can be begun.
	if s.alike && !killed && len(s.begun()) > 1 && before <= 1 {
		s.t.Fatalf("begun: %v", s.begun())
	}
	s.now = s.now.Add(time.Hour)
	s.outage--
	if !s.restless {
		return
	}
	for k, rows := range s.rows {
		if s.now.Before(k.To.Time().Add(settle)) {
			s.service.put(k, rows, n+1)
		}
	}
}

func (s *anyService) has(k analytics.Key) bool { _, ok := s.rows[k]; return ok }

func (s *anyService) check() {
	n := 0
	for ; n < 4; n++ {
		s.run1(n, rapid.Bool().Draw(s.t, "killed"))
	}
	for ; n < 24*10 && (n == 4 || !s.settled()); n++ {
		s.run1(n, false)
	}
	perPage := 250
	if s.service.cap > 0 {
		perPage = s.service.cap
	}
	for k, rows := range s.rows {
		if s.bad[k] != nil {
			if s.shown(k).Number != 0 {
				s.t.Errorf("%s is shown", k)
			}
			continue
		}
		rev := s.shown(k)
		if !rev.Settled || !rev.Verified {
			s.t.Fatalf("after %d runs %s is %+v", n, k, rev)
		}
		s.shows(k, rev.Number)
		// Two complete readings, those that a kill or a move cut short, an outage.
		pages := schedule.Requests(int64(rows), perPage)
		if most := 7*pages + 12 + 4; s.requests[k] > most {
			s.t.Errorf("%s: %d requests for %d pages, want at most %d", k, s.requests[k], pages, most)
		}
	}
}

// settled reports whether every window that can be read is.
func (s *anyService) settled() bool {
	for k := range s.rows {
		if rev, ok := s.ledger.known(k); s.bad[k] == nil && (!ok || !rev.Settled) {
			return false
		}
	}
	return true
}
