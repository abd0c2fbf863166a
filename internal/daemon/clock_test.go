package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/schedule"
)

// dates are what the Date headers of a service say while the clock of docgauge is wrong.
type dates string

const (
	dateRight  dates = "Date right"
	dateWrong  dates = "Date as wrong"
	dateAbsent dates = "no Date"
)

// clockWorld is a docgauge whose clock can be set. All of a test happens within seconds.
type clockWorld struct {
	*testing.T
	cfg  config.Config
	logs []*testbed.Log

	serve *daemon

	mu             sync.Mutex
	silent         []string      // methods of questions for the time that are not answered
	off            time.Duration // docgauge's clock less the right one
	dates          dates
	reads, creates int
	throttles      bool // reads are refused for an hour
}

func (w *clockWorld) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.off)
}

func (w *clockWorld) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rw.Header()["Date"] = nil
	switch w.dates { // the client has the clock of this process: Date is wrong instead
	case dateRight:
		rw.Header().Set("Date", time.Now().Add(-w.off).UTC().Format(http.TimeFormat))
	case dateWrong:
		rw.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	const job = `{"id":"job_%d","status":"completed","source":{"repository":"a/b","ref":null},"model":"m",` +
		`"prLink":null,"createdAt":"2026-11-20T00:00:00Z"}`
	switch {
	case r.URL.Path == "/":
		if r.Header.Get("Authorization") != "" {
			w.Error("the question for the time has a key, so a limit may count it")
		}
		if slices.Contains(w.silent, r.Method) {
			panic(http.ErrAbortHandler)
		}
		rw.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodPost:
		w.creates++
		rw.WriteHeader(http.StatusCreated)
		fmt.Fprintf(rw, job, w.creates)
	case strings.Contains(r.URL.Path, "/job/"):
		n := 0
		if _, err := fmt.Sscanf(filepath.Base(r.URL.Path), "job_%d", &n); err != nil {
			http.NotFound(rw, r)
			return
		}
		fmt.Fprintf(rw, job, n)
	default:
		w.reads++
		if w.throttles {
			rw.Header().Set("Retry-After", "3600")
			rw.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = rw.Write([]byte(`{"totals":{"human":7,"ai":0,"total":7},` +
			`"visitors":[{"path":"/","human":7,"ai":0,"total":7}],"hasMore":false}`))
	}
}

func newClockWorld(t *testing.T, d dates, change func(*config.Config)) *clockWorld {
	t.Helper()
	w := &clockWorld{T: t, dates: d}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	w.cfg = configFor(t, server.URL)
	w.cfg.Since = config.OptionalDate{Date: testbed.DaysAgo(20), Set: true}
	w.cfg.PollInterval = config.Duration(time.Hour)
	w.cfg.PromptsDir, w.cfg.PromptsOnNewState = filepath.Join(t.TempDir(), "prompts"), config.NewState(jobs.Submit)
	check(t, os.Mkdir(w.cfg.PromptsDir, 0o700))
	for i := range clockPrompts {
		path := filepath.Join(w.cfg.PromptsDir, fmt.Sprintf("p%d.md", i))
		writeText(t, path, fmt.Sprintf("Do %d.", i))
		longAgo := time.Now().Add(-100 * 24 * time.Hour)
		check(t, os.Chtimes(path, longAgo, longAgo))
	}
	change(&w.cfg)
	return w
}

// export makes one run: of a process, or of serve.
func (w *clockWorld) export() {
	w.Helper()
	if w.serve != nil {
		w.serve.export(w.Context())
		return
	}
	w.open(app.OpenExport, func(a *app.App) {
		if _, err := export.New(a, nil, noProgress{}, nil).Run(w.Context(), export.Options{}); err != nil {
			w.Error(err)
		}
	})
}

// queue makes one pass.
func (w *clockWorld) queue() {
	w.Helper()
	pass := func(a *app.App, q *jobs.Queue) {
		folder, err := app.OpenPrompts(w.cfg)
		check(w.T, err)
		_, err = q.Run(w.Context(), folder, jobs.UntilPassed, func(jobs.Report) error { return nil })
		if _, wrong := errors.AsType[*docsapi.ClockError](err); err != nil && !wrong {
			w.Error(err)
		}
		check(w.T, a.API.FlushAgents(w.Context()))
	}
	if w.serve != nil {
		pass(w.serve.app, w.serve.queue.jobs)
		return
	}
	w.open(app.OpenQueue, func(a *app.App) { pass(a, a.NewQueue(func() {})) })
}

func (w *clockWorld) open(how opener, use func(*app.App)) {
	w.Helper()
	logger, log := logFor(w.T)
	w.logs = append(w.logs, log)
	a, err := how(w.cfg, logger, w.now)
	check(w.T, err)
	use(a)
	check(w.T, errors.Join(a.API.Flush(w.Context()), a.Close()))
}

// TestClockMatrix: a clock that jumps, for one process or under serve, and then is set right, gives no
// budget and no cap back while the service's Date is right. If that is wrong too, or absent, each jump gives
// back one at most, and is logged. Nothing stays blocked afterwards.
func TestClockMatrix(t *testing.T) {
	const hour, limit = time.Hour, 3
	for name, kind := range map[string]struct {
		limit func(*config.Config)
		does  func(*clockWorld)
		used  func(*clockWorld) int
		all   int
	}{
		"budget":       {func(c *config.Config) { c.Budget = limit }, (*clockWorld).export, reads, clockWindows},
		"jobs per day": {func(c *config.Config) { c.MaxJobsPerDay = limit }, (*clockWorld).queue, creates, clockPrompts},
		"cost per day": {func(c *config.Config) { c.MaxCostPerDay, c.JobCost = limit, 1 }, (*clockWorld).queue, creates,
			clockPrompts},
		"agent budget": {func(c *config.Config) { c.AgentBudget = limit }, (*clockWorld).queue, creates, clockPrompts},
	} {
		offs := []time.Duration{-48 * hour, 72 * hour, -25 * hour, -2 * hour, 2 * hour, 5 * hour, 50 * 24 * hour}
		if testing.Short() {
			offs = offs[:2]
		}
		for _, off := range offs {
			for _, d := range []dates{dateRight, dateWrong, dateAbsent} {
				for _, served := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%v/%s/serve=%v", name, off, d, served), func(t *testing.T) {
						t.Parallel()
						w := newClockWorld(t, d, kind.limit)
						if served {
							w.startServe()
						}
						var after []int
						for _, w.off = range []time.Duration{0, off, off, 0, 0} {
							kind.does(w)
							after = append(after, kind.used(w))
						}
						most, total := limit, after[len(after)-1]
						if d != dateRight {
							most = 2 * limit // there and back are two jumps, and only the one forward frees
						}
						if after[0] != limit || total > most {
							t.Errorf("used after each step %v, with a limit of %d", after, limit)
						}
						if total > limit && !strings.Contains(w.logged(), "clock was ahead until it was set back") {
							t.Error("the jump is not logged")
						}
						w.nextDay()
						kind.does(w)
						if got := kind.used(w); got < kind.all {
							t.Errorf("%d of %d are done on the next day without a limit", got, kind.all)
						}
					})
				}
			}
		}
	}
}

// TestSilentClock: the service does not answer a HEAD request, or no question for the time at all. In the latter
// case the first create that a wrong clock allows shows that it is wrong, and is the last one.
func TestSilentClock(t *testing.T) {
	const limit = 3
	for _, off := range []time.Duration{-48 * time.Hour, 25 * time.Hour, 50 * 24 * time.Hour} {
		for i := range 4 {
			served, most := i%2 == 1, limit
			w := newClockWorld(t, dateRight, func(c *config.Config) { c.MaxJobsPerDay = limit })
			if w.silent = []string{http.MethodHead}; i/2 == 1 {
				w.silent = append(w.silent, http.MethodGet)
				most++ // the jobs that are read in the first step of the wrong clock show it too, and are completed then
			}
			if served {
				w.startServe()
			}
			var after []int
			for _, w.off = range []time.Duration{0, off, off, 0, 0} {
				w.queue()
				after = append(after, creates(w))
			}
			if after[0] != limit || after[4] > most {
				t.Errorf("%v, serve=%t, no %v: created after each step %v, want at most %d", off, served, w.silent, after, most)
			}
			w.nextDay()
			if w.queue(); creates(w) < clockPrompts {
				t.Errorf("%v, serve=%t: %d created on the next day", off, served, creates(w))
			}
		}
	}
}

// TestThrottledByAWrongClock: the service refuses requests for an hour while the clock is wrong. With the right clock
// nothing is sent in that hour.
func TestThrottledByAWrongClock(t *testing.T) {
	for _, off := range []time.Duration{-48 * time.Hour, -2 * time.Hour, 2 * time.Hour, 72 * time.Hour} {
		for _, served := range []bool{false, true} {
			w := newClockWorld(t, dateRight, func(c *config.Config) { c.Concurrency = 1 })
			w.throttles = true
			if served {
				w.startServe()
			}
			for _, w.off = range []time.Duration{off, 0, 0} {
				w.export()
			}
			if n := reads(w); n != 1 {
				t.Errorf("%v, serve=%t: %d requests, want 1", off, served, n)
			}
		}
	}
}

const clockPrompts, clockWindows = 8, 20

func reads(w *clockWorld) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads
}

func creates(w *clockWorld) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.creates
}

type opener = func(config.Config, *slog.Logger, func() time.Time) (*app.App, error)

// startServe opens what serve keeps open.
func (w *clockWorld) startServe() {
	w.Helper()
	logger, log := logFor(w.T)
	w.logs = append(w.logs, log)
	a, err := app.OpenExport(w.cfg, logger, w.now)
	check(w.T, err)
	values := new(exporter.Values)
	w.serve = newDaemon(a, values, &web.Site{Current: values.Load}, noProgress{}, nil)
	w.serve.firings = schedule.NewFirings(w.cfg.Schedule, time.Time{}, true)
	check(w.T, w.serve.openQueue())
}

// stop ends serve. Commands follow.
func (w *clockWorld) stop() {
	if w.serve != nil {
		check(w.T, errors.Join(w.serve.app.API.Flush(w.Context()), w.serve.app.Close()))
		w.serve = nil
	}
}

// nextDay comes, for docgauge and for the service, and the limits are removed.
func (w *clockWorld) nextDay() {
	w.stop()
	w.off, w.dates = 26*time.Hour, dateWrong
	w.cfg.Budget, w.cfg.MaxJobsPerDay, w.cfg.MaxCostPerDay, w.cfg.AgentBudget = 0, 0, 0, 0
}

// logged is what was logged.
func (w *clockWorld) logged() (all string) {
	for _, log := range w.logs {
		all += log.String()
	}
	return all
}
