package export

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/budget"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
)

var (
	economyTable = flag.Bool("economy", false, "simulate more days; print the table of docs/dev/performance-tables.md")
	long         = flag.Bool("long", false, "simulate whole years")
)

const (
	// startUp is how long a process takes before its first request.
	startUp = 200 * time.Millisecond
	// timeout is how long a request can take.
	timeout = time.Minute
)

// climate describes a live service and the cost of reading it.
type climate struct {
	name string
	// days is how many days are due when the simulation begins, lasts how long it takes
	// at least.
	days  int
	lasts time.Duration
	// rows returns how many rows a window has at some age, version which ones.
	rows    func(at place, age time.Duration) int
	version func(age time.Duration, now time.Time) int
	// status is the status of a request in an hour since the start; nil: no request fails.
	status func(s *live, hour int) int
	// before is how many requests a day costs at least when it is read before it
	// settles, 0 where it cannot be read then; after is its cost later.
	before, after int
	// once is how many requests it may cost, one time, to learn about the service.
	once int
}

func steady(n int) func(place, time.Duration) int {
	return func(place, time.Duration) int { return n }
}
func stillAt(time.Duration, time.Time) int      { return 0 }
func hourly(_ time.Duration, now time.Time) int { return int(now.Unix() / 3600) }

// hourlyUntil moves every hour until a day reaches an age.
func hourlyUntil(limit time.Duration) func(time.Duration, time.Time) int {
	return func(age time.Duration, now time.Time) int {
		if age >= limit {
			return 0
		}
		return hourly(age, now)
	}
}

const movesHourly = "moves hourly"

func climates(long bool) []climate {
	lasts := 30 * time.Hour
	if long {
		lasts = 5 * 24 * time.Hour
	}
	growing := func(_ place, age time.Duration) int { return 2_000 + 250*int(min(age, 60*time.Hour)/(20*time.Hour)) }
	return []climate{
		{name: "holds still", days: 12, lasts: lasts, rows: steady(10_000), version: stillAt, before: 40, after: 40},
		{name: movesHourly, days: 8, lasts: lasts, rows: steady(10_000), version: hourly, before: 40, after: 40},
		{name: "moves hourly for 3 days", days: 40, lasts: lasts, rows: steady(2_500), version: hourlyUntil(settle),
			before: 10, after: 10},
		{name: "days above the budget", days: 6, lasts: 4 * lasts, rows: steady(30_000), version: hourlyUntil(settle),
			before: 0, after: 120, once: 90 + 10},
		{name: "late pages", days: 20, lasts: lasts, rows: growing, version: hourlyUntil(60 * time.Hour), before: 8,
			after: 11},
		{name: "outages", days: 20, lasts: lasts, rows: steady(5_000), version: hourlyUntil(settle), before: 20,
			after: 20,
			status: func(_ *live, hour int) int {
				if hour%11 >= 2 && hour%11 < 5 {
					return http.StatusServiceUnavailable
				}
				return http.StatusOK
			}},
		{name: "foreign use", days: 20, lasts: lasts, rows: steady(5_000), version: hourlyUntil(settle), before: 20,
			after: 20,
			status: func(s *live, hour int) int {
				if s.within(time.Now()) >= serviceLimit-hour*7919%61 {
					return http.StatusTooManyRequests
				}
				return http.StatusOK
			}},
	}
}

const economyHead = "TABLE | service | in flight | requests | fewest | ratio | failed | verified | unverified | " +
	"backlog done, h | newest verified day, h old |\n" +
	"TABLE |---|---|---|---|---|---|---|---|---|---|"

// TestEconomy: with a live service, every window that can be verified is verified, with
// hardly more requests than the minimum, and no concurrency is worse than one request at
// a time.
func TestEconomy(t *testing.T) {
	if !testbed.InBubble() {
		t.Log(economyHead)
	}
	for _, c := range climates(*economyTable) {
		if testing.Short() && c.name != movesHourly {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var alone outcome
				for _, concurrency := range []int{1, 4, 16} {
					got := c.simulate(t, concurrency)
					t.Log("TABLE " + got.row(c, concurrency))
					got.check(t, c)
					if concurrency == 1 {
						alone = got
					} else if got.requests > alone.requests+alone.requests/50 || got.verified < alone.verified ||
						got.age > alone.age+time.Hour/4 {
						t.Errorf("concurrency %d is worse than 1: %+v, %+v", concurrency, got, alone)
					}
				}
			})
		})
	}
}

// outcome is the result of a simulation.
type outcome struct {
	// requests that were answered, those that failed because of outages or others, and the
	// minimum.
	requests, failed, fewest int
	// whole and verified count readings with rows that the sink got.
	whole, verified, unverified int
	// backlog is when every day that was due at the start had its rows, paid how many
	// requests had been sent by then.
	backlog time.Duration
	paid    int
	// age is how long after its end the newest day with verified rows is, on average.
	age  time.Duration
	most int // windows begun and not whole at the end of a run
}

func (o outcome) row(c climate, concurrency int) string {
	return fmt.Sprintf("| %s | %d | %d | %d | %.3f | %d | %d | %d | %.1f | %.1f |", c.name, concurrency, o.requests,
		o.fewest,
		float64(o.requests)/float64(o.fewest), o.failed, o.verified, o.unverified, o.backlog.Hours(), o.age.Hours())
}

func (o outcome) check(t *testing.T, c climate) {
	if ratio := float64(o.requests-c.once) / float64(o.fewest); ratio > 1.05 {
		t.Errorf("%d requests, the fewest are %d: %.3f times", o.requests, o.fewest, ratio)
	}
	// Eight days of forty pages that move every hour: four runs, two days in each.
	if c.name == movesHourly && (o.backlog > 4*time.Hour || o.paid > 340) {
		t.Errorf("%d requests and %v for the first eight days", o.paid, o.backlog)
	}
	if o.unverified > 0 {
		t.Errorf("%d readings are not verified", o.unverified)
	}
	if o.most > 1 {
		t.Errorf("%d windows are begun and not whole", o.most)
	}
}

// live is the service of a climate, behind the client and the budget.
type live struct {
	climate
	process func() error // an error where the process that asks is dead
	mu      sync.Mutex
	start   time.Time
	// arrivals are the requests that were answered, all those that came.
	arrivals, all []time.Time
}

const serviceLimit = 100

func (s *live) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := s.process(); err != nil {
		return nil, err
	}
	time.Sleep(150 * time.Millisecond)
	defer time.Sleep(150 * time.Millisecond)
	return serve(req, s.answer)
}

func (s *live) answer(at place) (status, rows, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.all = append(s.all, now)
	if s.status != nil {
		if status = s.status(s, int(now.Sub(s.start)/time.Hour)); status != http.StatusOK {
			return status, 0, 0
		}
	}
	s.arrivals = append(s.arrivals, now)
	age := now.Sub(at.To.Time())
	return http.StatusOK, s.rows(at, age), s.version(age, now)
}

// within counts the requests of the last hour.
func (s *live) within(now time.Time) int {
	n := 0
	for _, at := range slices.Backward(s.arrivals) {
		if now.Sub(at) >= time.Hour {
			break
		}
		n++
	}
	return n
}

// user runs docgauge against a live service, an hour apart.
type user struct {
	*world
	live    *live
	db      *state.DB
	input   schedule.Input
	limit   int
	outcome outcome
}

// begin is in the morning of a day, at seventeen minutes past an hour.
func (c climate) begin(t *testing.T, limit, concurrency int) *user {
	w := newWorld(t, t.TempDir())
	w.now, w.concurrency = time.Time{}, concurrency
	db, err := state.Open(filepath.Join(w.root, "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	now := time.Now()
	time.Sleep(now.Truncate(24 * time.Hour).Add(24*time.Hour + 5*time.Hour + 17*time.Minute).Sub(now))
	w.book = db
	return &user{
		world: w, db: db, limit: limit,
		live: &live{climate: c, start: time.Now(), process: func() error { return w.on.Err() }},
		input: schedule.Input{
			Projects: []string{"prj_a"}, Specs: []analytics.Spec{{Granularity: analytics.Day}},
			Since: analytics.DateOf(time.Now()) - analytics.Date(c.days), Settle: settle,
			Policy: schedule.Policy{Limit: limit, Settle: settle},
		},
	}
}

func (c climate) simulate(t *testing.T, concurrency int) outcome {
	u := c.begin(t, 90, concurrency)
	start := u.live.start
	backlog := analytics.DateOf(start)
	var ages time.Duration
	runs := 0
	for firing := start; firing.Sub(start) < c.lasts; firing = firing.Add(time.Hour) {
		time.Sleep(time.Until(firing) + startUp)
		u.run()
		underWay, err := spool.ListUnderWay(u.dir)
		if err != nil {
			t.Fatal(err)
		}
		u.outcome.most = max(u.outcome.most, len(underWay))
		runs++
		newest := u.newestVerified()
		ages += time.Since(newest.Time())
		if u.outcome.backlog == 0 && u.has(backlog) {
			u.outcome.backlog, u.outcome.paid = time.Since(start), len(u.live.all)
		}
	}
	u.outcome.age = ages / time.Duration(runs)
	u.outcome.requests = len(u.live.arrivals)
	u.outcome.failed = len(u.live.all) - len(u.live.arrivals)
	u.tally()
	u.withinBudget(t)
	return u.outcome
}

// run is one process, and reports whether it left anything to do.
func (u *user) run() (busy bool) {
	u.input.Rotate++
	p := u.process()
	b := budget.New(budget.Options{
		Name: "analytics", Limit: u.limit, Timeout: timeout, InFlight: u.concurrency, Patience: time.Minute,
		RetryAfter: docsapi.RetryAfter, Now: time.Now,
	}, mortal{state.BudgetLog{DB: u.db, Name: "analytics", Span: budget.Span, Unanswered: timeout, Now: time.Now}, u.on},
		u.live)
	u.source = clientOver(u, b)
	if _, _, err := recovering(u.Context(), p, each(entriesOf(u, u.db))); err != nil {
		return true
	}
	work := u.plan()
	work.Free = b.Available
	r := reading(u.Context(), p, work)
	if u.on.Err() != nil {
		return true
	}
	if err := b.Flush(u.Context()); err != nil {
		u.Fatal(err)
	}
	return r.Left > 0
}

// mortal is the request log of a process that can be killed.
type mortal struct {
	state.BudgetLog
	on *power
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

// withinBudget fails if more requests arrived in an hour than the budget allows.
func (u *user) withinBudget(t *testing.T) {
	at := u.live.all
	for i := u.limit; i < len(at); i++ {
		if span := at[i].Sub(at[i-u.limit]); span < time.Hour {
			t.Fatalf("%d requests within %v, at %v", u.limit+1, span, at[i])
		}
	}
}

// plan collects what a plan depends on, as the commands do, and plans.
func (u *user) plan() work {
	t, db, in := u, u.db, u.input
	in.Now = time.Now()
	known := entriesOf(t, db)
	sizes, err := db.PageSizes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	in.Sizes = schedule.NewSizes(nil)
	for _, s := range sizes {
		in.Sizes.SetPerPage(schedule.Source{Project: s.Project, Report: s.Report}, s.Rows)
	}
	for _, e := range known {
		in.Sizes.Learn(e.Key, e.Rows)
		if !e.Settled {
			in.Provisional = append(in.Provisional, e.Key)
		}
	}
	underWay, err := spool.ListUnderWay(u.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range underWay {
		if w.Revision == known[w.Key].Number+1 {
			in.Sizes.SetBegun(w.Key, w.Pages)
		}
	}
	all, err := db.Asides(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asides := map[analytics.Key]analytics.Aside{}
	for _, a := range all {
		asides[a.Key] = a
	}
	moved, err := db.Movements(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	learned := schedule.Learned{}
	for _, m := range moved {
		learned.Set(seriesOf(m), schedule.Fact(m.Kind), m.Times, m.At)
	}
	in.Known = func(k analytics.Key) (analytics.Revision, bool) { e, ok := known[k]; return e.Revision, ok }
	in.GaveUp = func(k analytics.Key) bool { return known[k].TotalsOnly() && known[k].Requests > 1 }
	in.Aside = func(k analytics.Key) (analytics.Aside, bool) { a, ok := asides[k]; return a, ok }
	in.Policy.Learned = learned.Of
	items, _ := schedule.Plan(in)
	return work{Items: items, Known: in.Known, Sizes: in.Sizes, Policy: in.Policy, Learned: learned, Asides: asides}
}

// newestVerified returns the end of the newest day with verified rows.
func (u *user) newestVerified() analytics.Date {
	newest := u.input.Since
	for _, e := range entriesOf(u, u.db) {
		if e.Verified && !e.TotalsOnly() {
			newest = max(newest, e.To)
		}
	}
	return newest
}

// has reports whether every day up to an end has its rows.
func (u *user) has(end analytics.Date) bool {
	with := map[analytics.Date]bool{}
	for _, e := range entriesOf(u, u.db) {
		with[e.From] = !e.TotalsOnly()
	}
	for day := u.input.Since; day < end; day++ {
		if !with[day] {
			return false
		}
	}
	return true
}

// tally counts the readings in the ledger, and the fewest requests for them.
func (u *user) tally() {
	for _, e := range entriesOf(u, u.db) {
		if e.TotalsOnly() {
			continue
		}
		u.outcome.whole++
		if e.Verified {
			u.outcome.verified++
		} else {
			u.outcome.unverified++
		}
		first := e.ExportedAt
		if e.Number > 1 && u.live.before > 0 { // it was read before it settled, too
			u.outcome.fewest += u.live.before
		}
		if first.Before(e.To.Time().Add(settle)) {
			u.outcome.fewest += u.live.before
		} else {
			u.outcome.fewest += u.live.after
		}
	}
	u.outcome.fewest = max(u.outcome.fewest, 1)
}

// TestYear simulates hourly runs over a service that has outages and late data, of processes that are
// killed, until every window is there, settled and correct. No window of 2000 has the dates of
// another granularity's window.
func TestYear(t *testing.T) {
	days, seeds := 30, 1
	if *long {
		days, seeds = 320, 2
	}
	for _, limit := range []int{10, 90} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("budget %d, seed %d", limit, seed), func(t *testing.T) {
				bubble(t, func(t *testing.T) { simulateYear(t, uint64(seed), limit, days) })
			})
		}
	}
}

func simulateYear(t *testing.T, seed uint64, limit, days int) {
	const late, lateStep = 60 * time.Hour, 7 * time.Hour // complete windows change until then, so often
	random, service := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	version := func(age time.Duration, _ time.Time) int { return int(max(0, min(age, late)) / lateStep) }
	calm, down := false, 0
	u := climate{days: 39, version: version,
		rows: func(at place, age time.Duration) int {
			h := fnv.New32()
			fmt.Fprint(h, at.project, at.From, at.To)
			return int(h.Sum32()%600) + 20*min(at.Days(), 31) + 3*version(age, time.Time{})
		},
		status: func(_ *live, hour int) int {
			switch n := service.IntN(1000); {
			case calm:
			case hour < down:
				return http.StatusServiceUnavailable
			case n == 0:
				down = hour + service.IntN(30)
				return http.StatusServiceUnavailable
			case n < 3:
				return http.StatusTooManyRequests
			case n < 20:
				return http.StatusInternalServerError
			}
			return http.StatusOK
		}}.begin(t, limit, 4)
	u.input.Projects = []string{"prj_a", "prj_b"}
	u.input.Specs = []analytics.Spec{{Granularity: analytics.Day}, {Granularity: analytics.Week},
		{Granularity: analytics.Month}, {Granularity: "28d", TotalsOnly: true}}
	end := u.live.start.AddDate(0, 0, days)
	for n := 0; ; n++ {
		if calm = time.Now().After(end); n > 24*(days+30) {
			t.Fatal("the backlog does not end")
		}
		if u.faults = nil; !calm && random.IntN(8) == 0 {
			calls := []string{callAsk, callRecord, callReplace, callCommitted, StepPage, stepSealed}
			u.failing(calls[random.IntN(len(calls))], 1+random.IntN(10),
				[]faults.Fault{faults.KilledBefore, faults.KilledAfter}[random.IntN(2)])
		}
		busy := u.run()
		if calm && !busy && len(u.plan().Items) == 0 {
			break
		}
		// The next run that can have something to do is in the next hour, or when the day is over.
		now, pause := time.Now(), time.Hour
		if !busy {
			pause = 24 * time.Hour
		}
		time.Sleep(now.Truncate(pause).Add(pause + 17*time.Minute).Sub(now))
	}
	u.withinBudget(t)
	known, windows, settled := entriesOf(t, u.db), 0, 0
	for _, project := range u.input.Projects {
		for _, spec := range u.input.Specs {
			for w := range schedule.Within(spec.Granularity, u.input.Since, analytics.DateOf(time.Now())) {
				k := analytics.Key{Project: project, Granularity: spec.Granularity, Window: w}
				rev := known[k].Revision
				if shown := u.shown(k); shown != rev || rev.Number == 0 || rev.TotalsOnly() != spec.TotalsOnly {
					t.Errorf("%s: the ledger has %+v, readers see %+v", k, rev, shown)
				}
				windows++
				if time.Now().Before(k.To.Time().Add(settle)) {
					continue
				}
				settled++
				at := place{project, w}
				want := rowsOf(u.live.rows(at, late), version(late, time.Time{}))
				if !rev.Settled || rev.Totals != totalsOf(want) || !rev.TotalsOnly() && rowsDiffer(want, u.rows(k)) != "" {
					t.Errorf("%s: %+v, want %+v", k, rev, totalsOf(want))
				}
			}
		}
	}
	t.Logf("%d windows, %d requests, %d windows settled", windows, len(u.live.all), settled)
	if settled < windows/2 {
		t.Error("the simulation did next to nothing")
	}
	u.emptySpool()
}
