package export

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/budget"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

var long = flag.Bool("long", false, "simulate whole years")

// backlog is how many days are due when a simulation begins.
const backlog = 40

// timeout is how long a request can take.
const timeout = time.Minute

// TestYear simulates hourly runs with the real client, budget, ledger and spool
// over a service that has outages and late data, and processes that are killed.
// No window of 2000 has the dates of another granularity's window.
func TestYear(t *testing.T) {
	days, seeds := 40, 1
	switch {
	case *long:
		days, seeds = 320, 2
	case testing.Short():
		days = 10
	}
	for _, limit := range []int{10, 90} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("budget %d, seed %d", limit, seed), func(t *testing.T) {
				bubble(t, func(t *testing.T) { simulate(t, uint64(seed), limit, days) })
			})
		}
	}
}

// year is one simulation.
type year struct {
	*world
	t      *testing.T
	rand   *rand.Rand
	remote *remote
	db     *state.DB
	limit  int
	since  analytics.Date
	rotate int
	// settled has when each settled revision first reached the sink.
	mu      sync.Mutex // of settled
	settled map[analytics.Key]map[int32]time.Time
}

func simulate(t *testing.T, seed uint64, limit, days int) {
	y := newYear(t, seed, limit)
	defer func() {
		if err := y.db.Close(); err != nil {
			t.Error(err)
		}
	}()
	for end := time.Now().AddDate(0, 0, days); time.Now().Before(end); {
		y.sleep(y.process1(y.rand.IntN(8) == 0))
	}
	y.remote.calm = true
	for n := 0; y.process1(false) || len(y.due(entriesOf(y.t, y.db))) > 0; n++ {
		if n > 24*30 {
			t.Fatal("the backlog does not end")
		}
		y.sleep(true)
	}
	y.checkBudget()
	y.checkWindows()
	y.emptySpool()
}

func newYear(t *testing.T, seed uint64, limit int) *year {
	dir := t.TempDir()
	db, err := state.Open(filepath.Join(dir, "db"))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(backlog*24*time.Hour + 17*time.Minute + 3*time.Second)
	y := &year{
		world: newWorld(t, dir), t: t, rand: rand.New(rand.NewPCG(seed, 1)), db: db, limit: limit,
		since: analytics.DateOf(time.Now()) - backlog + 1, settled: map[analytics.Key]map[int32]time.Time{},
	}
	y.remote = &remote{
		process: func() error { return y.on.Err() },
		rand:    rand.New(rand.NewPCG(seed, 2)), asked: map[place][]time.Time{},
	}
	y.now, y.concurrency = time.Time{}, 4
	mem := sinktest.NewMemory()
	y.sink, y.reader, y.book = noting{mem, y}, mem, db
	return y
}

// noting notes when settled revisions reach the sink.
type noting struct {
	*sinktest.Memory
	y *year
}

func (n noting) Replace(ctx context.Context, w sinks.Sealed) error {
	if err := n.Memory.Replace(ctx, w); err != nil {
		return err
	}
	n.y.mu.Lock()
	defer n.y.mu.Unlock()
	rev := w.Revision()
	if _, again := n.y.settled[rev.Key][rev.Number]; rev.Settled && !again {
		if n.y.settled[rev.Key] == nil {
			n.y.settled[rev.Key] = map[int32]time.Time{}
		}
		n.y.settled[rev.Key][rev.Number] = time.Now()
	}
	return nil
}

// sleep waits for the next run that can have something to do: in the next hour, or when
// the day is over.
func (y *year) sleep(busy bool) {
	now := time.Now()
	next := now.Truncate(time.Hour).Add(time.Hour + 17*time.Minute)
	if !busy {
		next = now.Truncate(24 * time.Hour).Add(24*time.Hour + 17*time.Minute)
	}
	time.Sleep(next.Sub(now))
}

// process1 is one process, from its start to its end, and reports whether it
// left anything to do.
func (y *year) process1(killed bool) (busy bool) {
	y.rotate++
	y.faults = nil
	if killed {
		call, nth := y.rand.IntN(6), 1+y.rand.IntN(10)
		calls := []string{callAsk, callRecord, callReplace, callCommitted, string(StepPage), string(StepSealed)}
		y.failing(calls[call], nth, []faults.Fault{faults.KilledBefore, faults.KilledAfter}[y.rand.IntN(2)])
	}
	p := y.process()
	b := y.connect()
	known := entriesOf(y.t, y.db)
	if _, _, err := recovering(y.t.Context(), p, each(known)); err != nil {
		return true
	}
	known = entriesOf(y.t, y.db)
	work := y.work(known, b)
	r := reading(y.t.Context(), p, work)
	if y.on.Err() == nil {
		if err := b.Flush(y.t.Context()); err != nil {
			y.t.Fatal(err)
		}
	}
	return r.Left > 0 || y.on.Err() != nil
}

// connect gives the process its own client and budget.
func (y *year) connect() *budget.Budget {
	b := budget.New(budget.Options{
		Name: "analytics", Limit: y.limit, Timeout: timeout, InFlight: y.concurrency,
		RetryAfter: docsapi.RetryAfter, Now: time.Now,
	}, mortal{budgetLog(y.db), y.on}, y.remote)
	y.source = clientOver(y.t, b)
	return b
}

// mortal is the request log of a process that can be killed.
type mortal struct {
	state.BudgetLog
	on *power
}

func budgetLog(db *state.DB) state.BudgetLog {
	return state.BudgetLog{DB: db, Name: "analytics", Span: budget.Span, Unanswered: timeout, Now: time.Now}
}

func (m mortal) Charge(ctx context.Context, limit, most int, life time.Duration, answered map[int64]time.Time) (
	int64, int, time.Time, error,
) {
	if err := m.on.Err(); err != nil {
		return 0, 0, time.Time{}, err
	}
	return m.BudgetLog.Charge(ctx, limit, most, life, answered)
}

func (m mortal) Cooldown(ctx context.Context, until time.Time, step int) error {
	if err := m.on.Err(); err != nil {
		return err
	}
	return m.BudgetLog.Cooldown(ctx, until, step)
}

// work returns the input of a run from the state.
func (y *year) work(known map[analytics.Key]state.Entry, b *budget.Budget) work {
	sizes := schedule.NewSizes(nil)
	for k, e := range known {
		sizes.Learn(k, e.Rows)
	}
	return work{Items: y.due(known), Known: look(known), Sizes: sizes,
		Policy: schedule.Policy{Limit: y.limit, Settle: settle}, Learned: schedule.Learned{}}
}

func look(entries map[analytics.Key]state.Entry) func(analytics.Key) (analytics.Revision, bool) {
	return func(k analytics.Key) (analytics.Revision, bool) {
		e, ok := entries[k]
		return e.Revision, ok
	}
}

var specs = []analytics.Spec{{Granularity: analytics.Day}, {Granularity: analytics.Week},
	{Granularity: analytics.Month}, {Granularity: "28d", TotalsOnly: true}}

func (y *year) due(known map[analytics.Key]state.Entry) []schedule.Item {
	in := schedule.Input{
		Now: time.Now(), Projects: []string{"prj_a", "prj_b"}, Specs: specs, Since: y.since,
		Settle: settle, Known: look(known), Rotate: y.rotate,
	}
	for k, e := range known {
		if !e.Settled {
			in.Provisional = append(in.Provisional, k)
		}
	}
	due, _ := schedule.Plan(in)
	return due
}

// checkBudget: in no hour do more requests arrive than the budget allows.
func (y *year) checkBudget() {
	at := y.remote.arrivals
	for i := y.limit; i < len(at); i++ {
		if span := at[i].Sub(at[i-y.limit]); span < time.Hour {
			y.t.Fatalf("%d requests within %v, at %v", y.limit+1, span, at[i])
		}
	}
}

// checkWindows: every window is there, settled once if it can be, and correct.
func (y *year) checkWindows() {
	known := entriesOf(y.t, y.db)
	windows := 0
	for _, project := range []string{"prj_a", "prj_b"} {
		for _, spec := range specs {
			for w := range schedule.Within(spec.Granularity, y.since, analytics.DateOf(time.Now())) {
				windows++
				e, ok := known[analytics.Key{Project: project, Granularity: spec.Granularity, Window: w}]
				if !ok {
					y.t.Errorf("%s %s %s was never read", project, spec, w)
				}
				y.checkWindow(e.Revision)
			}
		}
	}
	y.t.Logf("%d windows, %d requests, %d windows settled", windows, len(y.remote.arrivals), len(y.settled))
	if windows == 0 || len(y.settled) < windows/2 {
		y.t.Error("the simulation did next to nothing")
	}
}

func (y *year) checkWindow(rev analytics.Revision) {
	k := rev.Key
	if shown := y.shown(k); shown != rev {
		y.t.Errorf("%s: the ledger has %+v, readers see %+v", k, rev, shown)
	}
	if time.Now().Before(k.To.Time().Add(settle)) {
		return
	}
	if !rev.Settled || len(y.settled[k]) != 1 {
		y.t.Errorf("%s settled %d times: %+v", k, len(y.settled[k]), rev)
	}
	at := place{k.Project, k.Window}
	for _, asked := range y.remote.asked[at] {
		if asked.After(y.settled[k][rev.Number]) {
			y.t.Errorf("%s was asked for again at %v", k, asked)
		}
	}
	want := rowsOf(content(at, time.Now()))
	rows := y.rows(k)
	if !rev.TotalsOnly() && rowsDiffer(want, rows) != "" || rev.Totals != totalsOf(want) {
		y.t.Errorf("%s: %+v with %d rows, want %+v with %d", k, rev.Totals, len(rows), totalsOf(want), len(want))
	}
}

const (
	// late is how long complete windows change, and lateStep how often.
	late     = 60 * time.Hour
	lateStep = 7 * time.Hour
)

// remote is the service of a simulation, behind the client and the budget. Its windows
// change until late after their end.
type remote struct {
	process func() error // an error where the process that asks is dead

	mu       sync.Mutex
	rand     *rand.Rand
	calm     bool // no failures
	down     time.Time
	arrivals []time.Time
	asked    map[place][]time.Time
}

func (s *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := s.process(); err != nil {
		return nil, err
	}
	s.delay()
	defer s.delay()
	return serve(req, func(at place) (status, rows, version int) {
		status = s.arrive(at)
		rows, version = content(at, time.Now())
		return status, rows, version
	})
}

func (s *remote) delay() {
	s.mu.Lock()
	d := time.Duration(s.rand.IntN(1500)) * time.Millisecond
	s.mu.Unlock()
	time.Sleep(d)
}

// arrive notes a request and returns its status.
func (s *remote) arrive(at place) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.arrivals = append(s.arrivals, now)
	s.asked[at] = append(s.asked[at], now)
	switch n := s.rand.IntN(1000); {
	case s.calm:
		return http.StatusOK
	case now.Before(s.down):
		return http.StatusServiceUnavailable
	case n == 0:
		s.down = now.Add(time.Duration(s.rand.IntN(30)) * time.Hour)
		return http.StatusServiceUnavailable
	case n < 3:
		return http.StatusTooManyRequests
	case n < 20:
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

// content is how many rows of which version a window has at a time.
func content(at place, now time.Time) (rows, version int) {
	version = int(max(0, min(now.Sub(at.To.Time()), late)) / lateStep)
	h := fnv.New32()
	fmt.Fprint(h, at.project, at.From, at.To)
	return int(h.Sum32()%600) + 20*min(at.Days(), 31) + version*3, version
}
