package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

const daily = 24 * time.Hour

// clocks is a service and a docgauge that need not agree what time it is.
type clocks struct {
	*testing.T
	cfg config.Config
	log strings.Builder

	second *sinktest.Memory // nil: there is none
	mu     sync.Mutex
	// now is docgauge's clock. true is the time: windows that are complete then have visitors.
	now, truth time.Time
	// date is the difference of the service's Date to this process's clock; nil: no Date is sent.
	date     *time.Duration
	requests int
	// takes is how long a request takes by docgauge's clock.
	takes time.Duration
	// throttles is how often each request is throttled for a minute before it is answered.
	throttles int
}

func newClocks(t *testing.T) *clocks {
	c := &clocks{T: t}
	c.now = time.Date(2026, 11, 20, 13, 37, 11, 0, time.UTC)
	c.truth = c.now
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	c.cfg = config.Config{
		BaseURL: server.URL, APIKey: "adm_secret", Projects: config.Projects{"prj_a"},
		Windows: config.Windows{{Granularity: analytics.Day}}, OpenWindows: config.OpenWindows{analytics.Day},
		Since:  config.OptionalDate{Date: analytics.DateOf(c.now) - 5, Set: true},
		Settle: config.Duration(72 * time.Hour), Concurrency: 4,
		Timeout: config.Duration(time.Minute), Sinks: config.Sinks{config.SinkParquet},
		ParquetURL: filepath.Join(dir, "data"),
		StateDir:   filepath.Join(dir, "state"), SpoolMax: 1 << 30, TopPages: 50,
	}
	return c
}

func (c *clocks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header()["Date"] = nil
	if c.throttles > 0 { // an open connection would hold up the time of a bubble
		w.Header().Set("Connection", "close")
	}
	if c.date != nil {
		w.Header().Set("Date", time.Now().Add(*c.date).UTC().Format(http.TimeFormat))
	}
	if r.Method == http.MethodHead { // the question for the time
		return
	}
	c.requests++
	c.now = c.now.Add(c.takes)
	if c.throttles > 0 && c.requests%(c.throttles+1) != 0 {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	n, to := 0, analytics.Date(0)
	if err := to.UnmarshalText([]byte(r.FormValue("dateTo"))); err != nil {
		c.Error(err)
	}
	if !to.Time().After(c.truth) {
		n = 7
	}
	fmt.Fprintf(w, `{"totals":{"human":%d,"ai":0,"total":%[1]d},`+
		`"visitors":[{"path":"/","human":%[1]d,"ai":0,"total":%[1]d}],"hasMore":false}`, n)
}

func (c *clocks) clock() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// run makes one run in a separate process, and returns the number of its requests.
func (c *clocks) run() (s Summary, requests int) {
	c.Helper()
	c.open(func(a *app.App) {
		before := c.requests
		var err error
		if s, err = New(a, nil, noProgress{}, nil).Run(c.Context(), Options{}); err != nil {
			c.Fatal(err)
		}
		requests = c.requests - before
	})
	return s, requests
}

func (c *clocks) open(use func(*app.App)) {
	c.Helper()
	a, err := app.OpenExport(c.cfg, slog.New(slog.NewTextHandler(io.MultiWriter(&c.log), nil)), c.clock)
	if err != nil {
		c.Fatal(err)
	}
	if c.second != nil {
		a.Sinks = append(a.Sinks, other{c.second})
	}
	use(a)
	if err := a.Close(); err != nil {
		c.Error(err)
	}
}

// shown returns what the sink shows.
func (c *clocks) shown() map[analytics.Key]analytics.Revision {
	c.Helper()
	out := map[analytics.Key]analytics.Revision{}
	c.open(func(a *app.App) {
		for rev, err := range sinks.List(c.Context(), a.Sinks[0]) {
			if err != nil {
				c.Fatal(err)
			}
			out[rev.Key] = rev
		}
	})
	return out
}

// TestLogOfALongRun: the log says once a minute how far a run is, and has no line for each window.
func TestLogOfALongRun(t *testing.T) {
	c := newClocks(t)
	c.takes, c.cfg.Concurrency = 25*time.Second, 1
	s, requests := c.run()
	if s.Outcome != "success" || requests != 6 {
		t.Errorf("%d requests, %+v", requests, s)
	}
	lines := strings.Split(strings.TrimSpace(c.log.String()), "\n")
	if underWay := strings.Count(c.log.String(), `msg="export under way" windows=`); len(lines) != 2 || underWay != 2 {
		t.Errorf("want a line after each whole minute:\n%s", &c.log)
	}
}

// pausing calls itself at each pause.
type pausing struct {
	noProgress
	pause func(until time.Time, windows int)
}

func (p pausing) Pause(until time.Time, windows int) { p.pause(until, windows) }

// TestWait: a run that waits continues whenever the budget has requests again, until nothing is due. It reads no window
// twice, the running one included.
func TestWait(t *testing.T) {
	t.Parallel()
	c := newClocks(t)
	c.cfg.Budget, c.cfg.Concurrency = 2, 1
	var left []int
	hours := pausing{pause: func(until time.Time, windows int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		left, c.now = append(left, windows), until
	}}
	c.open(func(a *app.App) {
		s, err := New(a, nil, hours, nil).Run(t.Context(), Options{Wait: true})
		if err != nil || s.Outcome != Success || s.Committed != 5 || s.Open != 1 || s.Left != 0 || s.Requests != 6 ||
			c.requests != 6 || !slices.Equal(left, []int{4, 2}) {
			t.Errorf("%d requests, windows left at the pauses: %v; %+v, %v", c.requests, left, s, err)
		}
	})
}

// TestWaitThrottled: each pass of a run that waits has the patience of a run for a service that throttles for a moment.
func TestWaitThrottled(t *testing.T) {
	newClocks(t).run() // encoders that all tests share must not be made in a bubble
	c := newClocks(t)
	c.cfg.Budget, c.cfg.Concurrency, c.cfg.OpenWindows, c.throttles = 4, 1, nil, 3
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(13*time.Hour + 37*time.Minute)
		c.truth = time.Now()
		c.cfg.Since.Date = analytics.DateOf(c.truth) - 5
		a, err := app.OpenExport(c.cfg, slog.New(slog.DiscardHandler), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(a, nil, noProgress{}, nil).Run(t.Context(), Options{Wait: true})
		if err = errors.Join(err, a.Close()); err != nil || s.Outcome != Success || s.Committed != 5 || s.Throttled != 0 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// TestFutureIsNotOwed: a sink that was down while the clock was ahead gets none of the windows of the future. Nothing
// says that it waits for them, and it has them like the other sink once their days have come.
func TestFutureIsNotOwed(t *testing.T) {
	c := newClocks(t)
	isDown := true
	c.second = &sinktest.Memory{Fault: func(sinktest.Step, analytics.Revision) error {
		return when(isDown, errors.New("is down"))
	}}
	waiting := func(want int) {
		t.Helper()
		c.open(func(a *app.App) {
			reader := coverage.SnapshotReader{Config: a.Config, State: a.State, Sinks: a.Sinks, Now: c.clock,
				KeyRejected: func(context.Context, string) (bool, error) { return false, nil }}
			snapshot, err := reader.Read(t.Context())
			a.Config.Sinks = config.Sinks{config.SinkParquet, "other"}
			status, failed := coverage.NewStatus(t.Context(), a.State, a.Config, coverage.Selection{}, c.clock())
			if err = errors.Join(err, failed); err != nil {
				t.Fatal(err)
			}
			if snapshot.Sinks[1].Waiting != want || status.Owed["other"] != want {
				t.Errorf("%d windows wait for the sink by the metrics, %d by status, want %d", snapshot.Sinks[1].Waiting,
					status.Owed["other"], want)
			}
		})
	}
	c.now = c.truth.Add(10 * daily)
	if s, _ := c.run(); s.Committed != 0 || s.Waiting != 15 {
		t.Fatalf("the clock is ahead: %+v", s)
	}
	waiting(15)
	isDown = false
	for range 20 {
		c.now = c.truth
		if s, _ := c.run(); s.Outcome != Success || s.Recovered > 0 {
			t.Errorf("%v: %+v", c.now, s)
		}
		waiting(0)
		shown := 0
		for rev, err := range c.second.Revisions(t.Context()) {
			if shown++; err != nil || rev.To.Time().After(c.truth) || rev.Totals.Total != 7 {
				t.Errorf("%v: the sink shows %+v, %v", c.now, rev, err)
			}
		}
		if want := int(analytics.DateOf(c.truth) - c.cfg.Since.Date); shown != want {
			t.Errorf("%v: the sink shows %d windows, want %d", c.now, shown, want)
		}
		c.truth = c.truth.Add(daily)
	}
}

// TestClockAhead: a clock that the service shows to be a month off ends the run before
// anything is committed, and the next run with the right one is as if it had not been.
func TestClockAhead(t *testing.T) {
	for _, off := range []time.Duration{-30 * daily, 30 * daily} {
		c := newClocks(t)
		c.date = &off
		s, requests := c.run()
		if s.Outcome != Failed || requests != 2 || len(s.Errors) != 1 ||
			!strings.HasPrefix(s.Errors[0].Error(), "this machine's clock is 30 d ") {
			t.Errorf("%v: %d requests, %+v", off, requests, s)
		}
		if shown := c.shown(); len(shown) > 0 {
			t.Errorf("%v: %d windows were committed", off, len(shown))
		}
		*c.date = 0
		if s, _ := c.run(); s.Outcome != Success || s.Committed != 5 || s.Open != 1 {
			t.Errorf("%v: set right: %+v", off, s)
		}
	}
}

// TestFutureIsNotBelieved: windows that were read while the clock was days ahead, from a service that does not say
// the time, are read again when their day has come: whether docgauge ran each day until then, or not at all after
// the first run by the right clock.
func TestFutureIsNotBelieved(t *testing.T) {
	for _, every := range []time.Duration{daily, 20 * daily} {
		c := newClocks(t)
		c.now = c.truth.Add(10 * daily)
		if s, _ := c.run(); s.Committed != 15 {
			t.Fatalf("the clock is ahead: %+v", s)
		}
		c.now = c.truth
		if s, _ := c.run(); s.Committed != 5 || !strings.Contains(c.log.String(), "clock was ahead") {
			t.Errorf("set right: %+v", s)
		}
		if s, _ := c.run(); s.Committed != 0 {
			t.Errorf("again: %+v", s)
		}
		for range 20 * daily / every {
			c.now = c.now.Add(every)
			c.truth = c.now
			c.run()
		}
		shown := c.shown()
		if len(shown) != 25 {
			t.Errorf("every %v: %d windows are shown", every, len(shown))
		}
		for key, rev := range shown {
			if rev.Totals.Total != 7 || rev.Settled && rev.ExportedAt.Before(rev.To.Time().Add(72*time.Hour)) ||
				rev.ExportedAt.After(c.now) {
				t.Errorf("every %v: %s: %+v", every, key, rev)
			}
		}
		c.open(func(a *app.App) {
			lists, err := a.State.Top(t.Context(), 1)
			if err != nil || len(lists) != 1 || lists[0].To != analytics.DateOf(c.now) {
				t.Errorf("every %v: pages of %+v, %v", every, lists, err)
			}
		})
	}
}
