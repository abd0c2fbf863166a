package export

import (
	"flag"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/budget"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

var economyTable = flag.Bool("economy", false, "simulate more days and print the table of docs/performance-tables.md")

// startUp is how long a process takes before its first request.
const startUp = 200 * time.Millisecond

// climate describes a live service and the cost of reading it.
type climate struct {
	name string
	// days is how many days are due when the simulation begins, lasts how long it takes
	// at least.
	days  int
	lasts time.Duration
	// rows returns how many rows a day has at some age, version which ones.
	rows    func(age time.Duration) int
	version func(age time.Duration, now time.Time) int
	// down reports whether the service fails in an hour since the start, foreign how
	// many requests of others arrive in it.
	down    func(hour int) bool
	foreign func(hour int) int
	// before is how many requests a day costs at least when it is read before it
	// settles, 0 where it cannot be read then; after is its cost later.
	before, after int
	// once is how many requests it may cost, one time, to learn about the service.
	once int
}

func steady(n int) func(time.Duration) int      { return func(time.Duration) int { return n } }
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
	growing := func(age time.Duration) int { return 2_000 + 250*int(min(age, 60*time.Hour)/(20*time.Hour)) }
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
			down:  func(hour int) bool { return hour%11 >= 2 && hour%11 < 5 }},
		{name: "foreign use", days: 20, lasts: lasts, rows: steady(5_000), version: hourlyUntil(settle), before: 20,
			after:   20,
			foreign: func(hour int) int { return hour * 7919 % 61 }},
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
	mu       sync.Mutex
	start    time.Time
	arrivals []time.Time
	failed   int
}

const serviceLimit = 100

func (s *live) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(150 * time.Millisecond)
	defer time.Sleep(150 * time.Millisecond)
	return serve(req, s.answer)
}

func (s *live) answer(at place) (status, rows, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.arrivals = append(s.arrivals, now)
	hour := int(now.Sub(s.start) / time.Hour)
	if s.down != nil && s.down(hour) {
		s.failed++
		return http.StatusServiceUnavailable, 0, 0
	}
	if s.foreign != nil && s.within(now) > serviceLimit-s.foreign(hour) {
		s.failed++
		s.arrivals = s.arrivals[:len(s.arrivals)-1]
		return http.StatusTooManyRequests, 0, 0
	}
	age := now.Sub(at.To.Time())
	return http.StatusOK, s.rows(age), s.version(age, now)
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
	t           *testing.T
	service     *live
	db          *state.DB
	dir         string
	sink        *sinktest.Memory
	limit       int
	concurrency int
	since       analytics.Date
	rotate      int
	outcome     outcome
}

func (c climate) simulate(t *testing.T, concurrency int) outcome {
	dir := t.TempDir()
	db, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// Begin in the morning of a day, at seventeen minutes past an hour.
	now := time.Now()
	time.Sleep(now.Truncate(24 * time.Hour).Add(24*time.Hour + 5*time.Hour + 17*time.Minute).Sub(now))
	start := time.Now()
	u := &user{
		t: t, dir: dir, db: db, sink: sinktest.NewMemory(), limit: 90, concurrency: concurrency,
		since:   analytics.DateOf(start) - analytics.Date(c.days),
		service: &live{climate: c, start: start},
	}
	backlog := analytics.DateOf(start)
	var ages time.Duration
	runs := 0
	for firing := start; firing.Sub(start) < c.lasts; firing = firing.Add(time.Hour) {
		time.Sleep(time.Until(firing) + startUp)
		u.run()
		runs++
		newest := u.newestVerified()
		ages += time.Since(newest.Time())
		if u.outcome.backlog == 0 && u.has(backlog) {
			u.outcome.backlog, u.outcome.paid = time.Since(start), len(u.service.arrivals)
		}
	}
	u.outcome.age = ages / time.Duration(runs)
	u.outcome.failed = u.service.failed
	u.outcome.requests = len(u.service.arrivals)
	if c.down != nil {
		u.outcome.requests -= u.outcome.failed
	}
	u.tally()
	return u.outcome
}

// run is one process.
func (u *user) run() {
	u.rotate++
	now := time.Now()
	sp, err := spool.Open(u.dir)
	if err != nil {
		u.t.Fatal(err)
	}
	b := budget.New(budget.Options{
		Name: "analytics", Limit: u.limit, Timeout: timeout, InFlight: u.concurrency, Patience: time.Minute,
		RetryAfter: docsapi.RetryAfter, Now: time.Now,
	}, budgetLog(u.db), u.service)
	p := exporterOf(&app.App{
		Config: config.Config{Concurrency: config.Count(u.concurrency), Settle: config.Duration(settle)},
		Now:    time.Now, Spool: sp, Sinks: []sinks.Sink{u.sink},
	}, clientOver(u.t, b), u.db)
	input, work := planOf(u.t, u.db, u.dir, schedule.Input{
		Now: now, Projects: []string{"prj_a"}, Specs: []analytics.Spec{{Granularity: analytics.Day}}, Since: u.since,
		Settle: settle,
		Rotate: u.rotate, Policy: schedule.Policy{Limit: u.limit, Settle: settle},
	})
	work.Items, _ = schedule.Plan(input)
	work.Free = b.Available
	reading(u.t.Context(), p, work)
	if err := b.Flush(u.t.Context()); err != nil {
		u.t.Fatal(err)
	}
	underWay, err := spool.ListUnderWay(u.dir)
	if err != nil {
		u.t.Fatal(err)
	}
	u.outcome.most = max(u.outcome.most, len(underWay))
}

// planOf collects what a plan depends on, as the commands do.
func planOf(t tb, db *state.DB, dir string, in schedule.Input) (schedule.Input, work) {
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
	underWay, err := spool.ListUnderWay(dir)
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
	in.Known = look(known)
	in.GaveUp = func(k analytics.Key) bool { return known[k].TotalsOnly() && known[k].Requests > 1 }
	in.Aside = func(k analytics.Key) (analytics.Aside, bool) { a, ok := asides[k]; return a, ok }
	in.Policy.Learned = learned.Of
	return in, work{Known: in.Known, Sizes: in.Sizes, Policy: in.Policy, Learned: learned, Asides: asides}
}

// newestVerified returns the end of the newest day with verified rows.
func (u *user) newestVerified() analytics.Date {
	newest := u.since
	for _, e := range entriesOf(u.t, u.db) {
		if e.Verified && !e.TotalsOnly() {
			newest = max(newest, e.To)
		}
	}
	return newest
}

// has reports whether every day up to an end has its rows.
func (u *user) has(end analytics.Date) bool {
	with := map[analytics.Date]bool{}
	for _, e := range entriesOf(u.t, u.db) {
		with[e.From] = !e.TotalsOnly()
	}
	for day := u.since; day < end; day++ {
		if !with[day] {
			return false
		}
	}
	return true
}

// tally counts the readings in the ledger, and the fewest requests for them.
func (u *user) tally() {
	for _, e := range entriesOf(u.t, u.db) {
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
		if e.Number > 1 && u.service.before > 0 { // it was read before it settled, too
			u.outcome.fewest += u.service.before
		}
		if first.Before(e.To.Time().Add(settle)) {
			u.outcome.fewest += u.service.before
		} else {
			u.outcome.fewest += u.service.after
		}
	}
	u.outcome.fewest = max(u.outcome.fewest, 1)
}
