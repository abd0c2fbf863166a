package export

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// stored is the error of a budget that cannot write its log.
type stored struct{}

func (stored) Error() string      { return "request log: disk full" }
func (stored) RetryAt() time.Time { return time.Time{} }

// days names windows of a project, newest first, and gives each three pages.
func (w *world) days(project string, n int) []analytics.Key {
	w.now = noon(n + 1)
	var keys []analytics.Key
	for i := n - 1; i >= 0; i-- {
		keys = append(keys, day(project, i))
		w.service.put(keys[len(keys)-1], 600, i)
	}
	return keys
}

// turns lists the windows of several projects in turn.
func turns(projects ...[]analytics.Key) []schedule.Item {
	var items []schedule.Item
	for i := range projects[0] {
		for _, keys := range projects {
			items = append(items, asked(keys[i])...)
		}
	}
	return items
}

// answers makes the service answer with an error where refuse says so.
func (w *world) answers(refuse func(nth int, q docsapi.PageQuery) error) {
	w.service.answer = func(nth int, q docsapi.PageQuery) (*visitorsPage, error) {
		return nil, refuse(nth, q)
	}
}

// TestRunFailures reads two projects with four windows each, one after the other.
func TestRunFailures(t *testing.T) {
	const third = 7 // the first request of the third window, which is prj_a's second
	for _, c := range []struct {
		name   string
		refuse func(nth int, q docsapi.PageQuery) error
		// These are the requests sent, and the windows and errors of the result.
		requests, committed, left, errors int
		spent                             bool
		lost                              int // requests that brought no page
	}{
		{"401", func(nth int, _ docsapi.PageQuery) error {
			return when(nth == third, statusError(http.StatusUnauthorized, docsapi.Permanent))
		}, 3 + 1 + 4*3, 5, 3, 1, false, 1},
		{"403 in the middle of a window", func(nth int, _ docsapi.PageQuery) error {
			return when(nth == third+1, statusError(http.StatusForbidden, docsapi.Permanent))
		}, 3 + 2 + 4*3, 5, 3, 1, false, 1},
		{"403 of all projects from a request on", func(nth int, _ docsapi.PageQuery) error {
			return when(nth >= third, statusError(http.StatusForbidden, docsapi.Permanent))
		}, third + 1, 2, 6, 1, false, 2},
		{"401 of all projects", func(int, docsapi.PageQuery) error {
			return statusError(http.StatusUnauthorized, docsapi.Permanent)
		}, 2, 0, 8, 1, false, 2},
		{"403 of the first project", func(_ int, q docsapi.PageQuery) error {
			return when(q.Project == "prj_a", statusError(http.StatusForbidden, docsapi.Permanent))
		}, 1 + 4*3, 4, 4, 1, false, 1},
		{"404 of one project", func(_ int, q docsapi.PageQuery) error {
			return when(q.Project == "prj_a", statusError(http.StatusNotFound, docsapi.Permanent))
		}, 1 + 4*3, 4, 4, 1, false, 1},
		{"404 of a page of one window, once", func(nth int, _ docsapi.PageQuery) error {
			return when(nth == third+1, statusError(http.StatusNotFound, docsapi.Permanent))
		}, 8*3 + 2, 8, 0, 0, false, 2},
		{"404 of a page of one window", func(_ int, q docsapi.PageQuery) error {
			return when(q.Window == day("", 3).Window && q.Project == "prj_a" && q.Offset > 0,
				statusError(http.StatusNotFound, docsapi.Permanent))
		}, schedule.MaxReadings*2 + 7*3, 7, 1, 0, false, schedule.MaxReadings*2 - 1},
		{"an outage", func(nth int, _ docsapi.PageQuery) error {
			return when(nth >= third, outageError())
		}, third + 1, 2, 6, 2, false, 2},
		{"a window fails now and then", func(_ int, q docsapi.PageQuery) error {
			return when(q.Project == "prj_b", outageError())
		}, 4*3 + 4, 4, 4, 4, false, 4},
		{"nonsense", func(_ int, q docsapi.PageQuery) error {
			return when(q.Window.From == day("", 2).From || q.Window.From == day("", 3).From, shapeError())
		}, 4 + 4*3, 4, 4, 0, false, 4},
		{"429", func(nth int, _ docsapi.PageQuery) error {
			return when(nth == third, statusError(http.StatusTooManyRequests, docsapi.Transient))
		}, third, 2, 6, 0, true, 1},
		{"the budget refuses", func(nth int, _ docsapi.PageQuery) error {
			return when(nth == third, &docsapi.Error{Outcome: docsapi.Transient, Err: spent{time.Unix(1, 0)}})
		}, third, 2, 6, 0, true, 1},
		{"the budget cannot be written", func(nth int, _ docsapi.PageQuery) error {
			return when(nth >= third, &docsapi.Error{Outcome: docsapi.Transient, Err: stored{}})
		}, third, 2, 6, 1, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			items := turns(w.days("prj_a", 4), w.days("prj_b", 4))
			w.answers(c.refuse)
			r := w.run(items...)
			if got := w.service.requests(); got != c.requests {
				t.Errorf("%d requests, want %d", got, c.requests)
			}
			if all := strings.Contains(c.name, "all projects"); r.KeyRefused != all {
				t.Errorf("the key is refused: %t", r.KeyRefused)
			}
			if r.Committed != c.committed || r.Left != c.left || len(r.Errors) != c.errors || r.BudgetSpent != c.spent {
				t.Errorf("result %+v; want %d committed, %d left, %d errors", r, c.committed, c.left, c.errors)
			}
			for _, err := range r.Errors {
				if !strings.HasPrefix(err.Error(), "export prj_") && !strings.Contains(err.Error(), "project prj_a") {
					t.Errorf("error does not name the window: %v", err)
				}
			}
			// The next run does the rest, and keeps the pages it finds.
			w.service.answer = nil
			w.clean(w.run(asked(w.lacking(items)...)...))
			w.sent(8*3 + c.lost)
			w.emptySpool()
		})
	}
}

// hourly runs every hour, n times, what is due of a reading of the days of keys, and calls seen after each.
func (w *world) hourly(keys []analytics.Key, n int, seen func(hour int, r Summary)) {
	w.Helper()
	for hour := range n {
		in := w.input(keys[len(keys)-1].From)
		in.Projects = nil
		for _, k := range keys {
			if !slices.Contains(in.Projects, k.Project) {
				in.Projects = append(in.Projects, k.Project)
			}
		}
		in.Rotate = hour
		items, _ := schedule.Plan(in)
		items = slices.DeleteFunc(items, func(i schedule.Item) bool { return i.Key.To > keys[0].To })
		w.service.again()
		work := w.work(items)
		for of, facts := range w.ledger.learned {
			for fact, n := range facts {
				work.Learned.Set(of, fact, n.N, n.At)
			}
		}
		work.KeyRefused = w.keyRefused
		for _, k := range keys {
			if rev, ok := w.ledger.known(k); ok {
				work.Sizes.Learn(k, rev.Rows)
			}
		}
		r := reading(w.Context(), w.process(), work)
		w.keyRefused = r.KeyRefused
		seen(hour, r)
		w.now = w.now.Add(time.Hour)
	}
}

// TestRefusedProject: a project that the service refuses is asked for less and less often, and costs the others
// nothing; a key that it refuses costs one request for each project once, and then one a run.
func TestRefusedProject(t *testing.T) {
	days := func(w *world) []analytics.Key {
		var keys []analytics.Key
		for _, item := range turns(w.days("prj_a", 3), w.days("prj_b", 3), w.days("prj_c", 3)) {
			keys = append(keys, item.Key)
		}
		w.now = noon(20)
		return keys
	}
	t.Run("one of three", func(t *testing.T) {
		w := newWorld(t, t.TempDir())
		keys, asked := days(w), []int{}
		w.answers(func(_ int, q docsapi.PageQuery) error {
			return when(q.Project == "prj_b", statusError(http.StatusForbidden, docsapi.Permanent))
		})
		w.hourly(keys, 49, func(hour int, r Summary) {
			if r.KeyRefused || hour == 0 && r.Committed != 6 {
				t.Fatalf("hour %d: %+v", hour, r)
			}
			for _, q := range w.service.sent {
				if q.Project == "prj_b" {
					asked = append(asked, hour)
					if len(r.Errors) != 1 || !strings.Contains(r.Errors[0].Error(), "DOCGAUGE_PROJECTS") {
						t.Fatalf("hour %d: %v", hour, r.Errors)
					}
				}
			}
		})
		if want := []int{0, 1, 3, 7, 15, 30}; !slices.Equal(asked, want) {
			t.Errorf("prj_b was asked for in the hours %v, want %v", asked, want)
		}
		// Access is given: all is read, and the next refusal begins anew.
		w.service.answer, w.now = nil, w.now.Add(24*time.Hour)
		w.hourly(keys, 1, func(_ int, r Summary) { w.clean(r) })
		for _, k := range keys {
			w.shows(k, 1)
		}
		of := schedule.Series{Source: schedule.Source{Project: "prj_b"}}
		if n := w.ledger.learned.Of(of, schedule.Refused).N; n != 0 {
			t.Errorf("%d refusals are remembered", n)
		}
	})
	t.Run("the key", func(t *testing.T) {
		w := newWorld(t, t.TempDir())
		keys := days(w)
		w.answers(func(int, docsapi.PageQuery) error {
			return statusError(http.StatusUnauthorized, docsapi.Permanent)
		})
		projects := map[string]bool{}
		w.hourly(keys, 4, func(hour int, r Summary) {
			want := 1
			if hour == 0 {
				want = 3
			}
			if !r.KeyRefused || len(r.Errors) != 1 {
				t.Errorf("hour %d: %+v", hour, r)
			}
			w.sent(want)
			projects[w.service.sent[0].Project] = true
		})
		if len(projects) != 3 {
			t.Errorf("tried first: %v; want each project in turn", projects)
		}
	})
}

// TestRefusedReport: however the service refuses the report of agents, visitors are exported in the first run, and the
// message names the setting.
func TestRefusedReport(t *testing.T) {
	for status, asked := range map[int]int{400: 3, 401: 6, 403: 6, 404: 3, 405: 3, 501: 3} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			w.report, w.concurrency = analytics.AgentsReport, 4
			w.service.limited, w.service.budget = true, 1000
			err := statusError(status, docsapi.Permanent)
			if e, ok := errors.AsType[*docsapi.Error](err); ok {
				e.FromAPI = status != 405
			}
			w.source = &reportless{service: w.service, err: err}
			keys, of := w.days("prj_a", 3), w.source.(*reportless)
			w.now = noon(20)
			w.hourly(keys, 49, func(hour int, r Summary) {
				if hour == 0 && r.Committed != 3 || r.KeyRefused || len(r.Errors) > 0 &&
					(len(r.Errors) > 1 || !strings.Contains(r.Errors[0].Error(), "DOCGAUGE_REPORTS")) {
					t.Fatalf("hour %d: %+v", hour, r)
				}
			})
			if of.asked != asked {
				t.Errorf("the report was asked for %d times, want %d", of.asked, asked)
			}
		})
	}
}

// reportless is a service that answers so for agents.
type reportless struct {
	*service
	err   error
	asked int
}

func (s *reportless) Page(ctx context.Context, q docsapi.PageQuery) (analytics.Page, error) {
	if q.Report == analytics.VisitorsReport {
		return s.service.Page(ctx, q)
	}
	s.asked++
	return analytics.Page{}, s.err
}

// TestStrangeWindow: a window that is always answered by something that is no page, or whose second page is never
// there, is set aside, with a growing pause, also once nothing else is due.
func TestStrangeWindow(t *testing.T) {
	for first, err := range []error{shapeError(), statusError(http.StatusNotFound, docsapi.Permanent)} {
		w := newWorld(t, t.TempDir())
		keys, asked := w.days("prj_a", 3), []int{}
		w.now = noon(20)
		w.answers(func(_ int, q docsapi.PageQuery) error {
			return when(q.Window == keys[1].Window && q.Offset >= first, err)
		})
		w.hourly(keys, 25, func(hour int, r Summary) {
			if slices.ContainsFunc(w.service.sent, func(q docsapi.PageQuery) bool { return q.Window == keys[1].Window }) {
				asked = append(asked, hour)
				w.setAside(r, 1)
			}
			if len(r.Errors) > 0 {
				t.Fatalf("%v, hour %d: %+v", err, hour, r)
			}
		})
		if want := []int{0, 1, 3, 7, 15}; !slices.Equal(asked, want) {
			t.Errorf("%v: asked for in the hours %v, want %v", err, asked, want)
		}
	}
}

// TestFailingReport: a report for which the service always fails ends after two windows, and visitors are exported.
func TestFailingReport(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.report = analytics.AgentsReport
	w.source = &reportless{service: w.service, err: outageError()}
	var items []schedule.Item
	for _, k := range w.days("prj_a", 5) {
		items = append(items, asked(sinktest.Of(w.report, k))...)
	}
	items = slices.Concat(asked(day("prj_a", 4)), items, asked(day("prj_a", 3), day("prj_a", 2)))
	if r := w.run(items...); r.Committed != 3 || len(r.Errors) != maxFailures || w.source.(*reportless).asked != 2 {
		t.Errorf("asked %d times, %+v", w.source.(*reportless).asked, r)
	}
}

// TestLackingReport: a service without the report of agents costs one request a day to learn that, and
// is said; visitors are exported.
func TestLackingReport(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.report, w.service.lacks, w.concurrency = analytics.AgentsReport, true, 4
	w.service.limited, w.service.budget = true, 1000 // without a budget, pages are guessed
	keys := w.days("prj_a", 3)
	w.now = noon(20) // they are settled
	for hour := range 49 {
		items, _ := schedule.Plan(w.input(keys[2].From))
		w.service.again()
		work := w.work(slices.DeleteFunc(items, func(i schedule.Item) bool { return i.Key.To > keys[0].To }))
		if hour > 0 {
			work.Sizes.Learn(keys[0], 600)
		}
		r := reading(t.Context(), w.process(), work)
		want := 0
		if hour%24 == 0 {
			want = 1
		}
		if len(r.Errors) != want || want > 0 && !strings.Contains(r.Errors[0].Error(), "DOCGAUGE_REPORTS") {
			t.Fatalf("hour %d: %v", hour, r.Errors)
		}
		if hour == 0 {
			want += 3 * 3
		}
		w.sent(want)
		w.now = w.now.Add(time.Hour)
	}
	for _, k := range keys {
		w.shows(k, 1)
	}
	w.service.lacks = false
	items, _ := schedule.Plan(w.input(keys[2].From))
	w.clean(w.run(items...))
	if got := w.shown(sinktest.Of(w.report, keys[0])); got.Number != 0 {
		t.Errorf("asked for again within a day: %+v", got)
	}
	w.now = w.now.Add(24 * time.Hour)
	items, _ = schedule.Plan(w.input(keys[2].From))
	w.clean(w.run(items...))
	for _, k := range keys {
		w.shows(sinktest.Of(w.report, k), 1)
	}
}

func when(yes bool, err error) error {
	if yes {
		return err
	}
	return nil
}

func (w *world) lacking(items []schedule.Item) (keys []analytics.Key) {
	for _, item := range items {
		if _, ok := w.ledger.newest(item.Key); !ok {
			keys = append(keys, item.Key)
		}
	}
	return keys
}

// After a refused key nothing is sent, neither requests that wait for their turn nor retries.
func TestNothingIsSentAfterARefusedKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, t.TempDir())
		w.concurrency = 16
		w.predict = 3
		items := turns(w.days("prj_a", 30))
		w.source = &turnstile{service: w.service, places: make(chan struct{}, 4)}
		// Each request takes a second; the tenth is refused. Requests sent at that very moment may arrive before the
		// refusal is known.
		start := time.Now()
		var last, refused atomic.Int64
		w.service.answer = func(nth int, _ docsapi.PageQuery) (*visitorsPage, error) {
			last.Store(int64(time.Since(start)))
			time.Sleep(time.Second)
			if nth != 10 {
				return nil, nil
			}
			refused.Store(int64(time.Since(start)))
			return nil, statusError(http.StatusUnauthorized, docsapi.Permanent)
		}
		r := w.run(items...)
		if w.service.requests() < 10 || last.Load() > refused.Load() {
			t.Errorf("%d requests, the last after %v, the refusal after %v", w.service.requests(),
				time.Duration(last.Load()), time.Duration(refused.Load()))
		}
		if len(r.Errors) != 1 || !docsapi.IsUnauthorized(r.Errors[0]) || r.Left+r.Committed != 30 {
			t.Errorf("result %+v", r)
		}
	})
}

// turnstile limits the requests in flight, as the budget does.
type turnstile struct {
	*service
	places chan struct{}
}

func (g *turnstile) Page(ctx context.Context, q docsapi.PageQuery) (analytics.Page, error) {
	select {
	case g.places <- struct{}{}:
		defer func() { <-g.places }()
		return g.service.Page(ctx, q)
	case <-ctx.Done():
		return analytics.Page{}, ctx.Err()
	}
}

// TestBadService: a failure of the service as a whole is reported a few times, not for
// each window, and does not cost the whole budget.
func TestBadService(t *testing.T) {
	for _, c := range []struct {
		name           string
		concurrency    int
		err            error
		most, reported int // requests, errors
	}{
		// One window may start between the first and the second failure.
		{"an outage", 16, outageError(), 17, maxFailures},
		{"no connection", 1, unreachedError(), 1, 1},
		{"an unknown project", 4, statusError(http.StatusNotFound, docsapi.Permanent), 4, 1},
		{"a project that never gave a window and refuses three", 1, refusedError(), maxRefusedNew, 1},
		{"a wrong base URL, answered by some web server", 1, shapeError(), maxUnrecognized, maxUnrecognized},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, t.TempDir())
				w.concurrency = c.concurrency
				w.answers(func(int, docsapi.PageQuery) error {
					time.Sleep(time.Second)
					return c.err
				})
				r := w.run(asked(w.days("prj_a", 30)...)...)
				if n := w.service.requests(); n > c.most || c.concurrency == 1 && n < c.most ||
					len(r.Errors) != c.reported || r.Left != 30 {
					t.Errorf("%d requests, %+v", n, r)
				}
				if said := fmt.Sprint(r.Errors); strings.Count(said, c.err.Error()) != 1 {
					t.Errorf("the cause is not said once: %s", said)
				}
				w.setAside(r, 0)
			})
		})
	}
}

// setAside fails unless so many windows rest, and the result says so.
func (w *world) setAside(r Summary, want int) {
	w.Helper()
	resting := 0
	for _, a := range w.ledger.asides() {
		if a.Until.After(w.now) {
			resting++
		}
	}
	if resting != want || r.SetAside != want || len(r.Warnings) != want && r.Left == want {
		w.Errorf("%d windows rest, want %d; %+v", resting, want, r)
	}
}

// TestRefusedInMidRun: the service refuses everything from some request on. That ends the
// windows of the project after a few, none is set aside, and the next run reads the rest.
func TestRefusedInMidRun(t *testing.T) {
	const good = 4
	for refused, c := range map[int]struct{ requests, left, aside int }{
		// The windows of prj_a that are refused after the first good ones, in a row.
		1:              {30*2*3 - 2, 1, 1},
		maxRefused - 1: {(60-maxRefused+1)*3 + maxRefused - 1, maxRefused - 1, maxRefused - 1},
		26:             {(30+good)*3 + maxRefused, 30 - good, 0},
	} {
		t.Run(fmt.Sprintf("%d windows", refused), func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			a, b := w.days("prj_a", 30), w.days("prj_b", 30)
			bad := a[good : good+refused]
			w.answers(func(_ int, q docsapi.PageQuery) error {
				return when(q.Project == "prj_a" && slices.ContainsFunc(bad,
					func(k analytics.Key) bool { return k.Window == q.Window }), refusedError())
			})
			items := turns(a, b)
			r := w.run(items...)
			if got := w.service.requests(); got != c.requests || r.Left != c.left ||
				(len(r.Errors) > 0) != (c.aside == 0) {
				t.Errorf("%d requests, want %d; %+v", got, c.requests, r)
			}
			w.setAside(r, c.aside)
			// All is well again: nothing was lost, and no window rests that was not at fault.
			w.service.answer = nil
			w.service.again()
			due := slices.DeleteFunc(asked(w.lacking(items)...),
				func(i schedule.Item) bool { return w.ledger.asides()[i.Key].Until.After(w.now) })
			if w.clean(w.run(due...)); w.service.requests() != 3*(c.left-c.aside) {
				t.Errorf("%d requests in the next run", w.service.requests())
			}
		})
	}
}

func TestFullSpool(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.spoolMax = 1
	items := turns(w.days("prj_a", 4))
	down := &sinktest.Memory{Fault: func(sinktest.Step, analytics.Revision) error { return errors.New("is down") }}
	w.more = []sinks.Sink{other{down}}
	r := w.run(items...)
	if len(r.Errors) != 2 || r.Waiting != 1 || r.Left != 3 ||
		!strings.Contains(fmt.Sprint(r.Errors), "DOCGAUGE_SPOOL_MAX") {
		t.Errorf("result %+v", r)
	}
	// With nothing delivered, the next run sends nothing at all.
	w.service.again()
	p := w.process()
	if n, failures, err := recovering(t.Context(), p, w.ledger.owed()); n != 0 || len(failures) != 1 || err != nil {
		t.Fatalf("Recover: %d, %v, %v", n, failures, err)
	}
	if r := reading(t.Context(), p, w.work(items[1:])); len(r.Errors) != 1 || r.Left != 3 || w.service.requests() != 0 {
		t.Errorf("%d requests, %+v", w.service.requests(), r)
	}
}

// other is a second sink beside the sink of the world.
type other struct{ *sinktest.Memory }

func (other) Name() string { return "other" }

// TestSinkDown: a sink that fails is tried once in a run, and again in the next run of the same process.
func TestSinkDown(t *testing.T) {
	w := newWorld(t, t.TempDir())
	keys := w.days("prj_a", 3)
	isDown, tried := true, 0
	second := &sinktest.Memory{Fault: func(step sinktest.Step, _ analytics.Revision) error {
		if step == sinktest.Before {
			tried++
		}
		return when(isDown && step == sinktest.Read, errors.New("is down"))
	}}
	w.more = []sinks.Sink{other{second}}
	p := w.process()
	r := reading(t.Context(), p, w.work(asked(keys...)))
	if len(r.Errors) != 1 || tried != 1 || r.Waiting != 3 || r.Committed != 0 || r.Left != 0 ||
		w.ledger.counters["sink_failures_total sink other"] != 1 {
		t.Errorf("tried %d times, %+v", tried, r)
	}
	for _, k := range keys {
		w.shows(k, 1)
		if e, _ := w.ledger.newest(k); !e.sinks["memory"] || e.sinks["other"] {
			t.Errorf("%s: the ledger says %v", k, e.sinks)
		}
	}
	isDown = false
	w.service.again()
	again := 0
	w.told = func(ev Event) {
		if ev.Step == stepReplaced && ev.Sink == "memory" {
			again++
		}
	}
	n, failures, err := recovering(t.Context(), p, w.ledger.owed())
	if n != 3 || again != 0 || w.service.requests() != 0 || len(failures) > 0 || err != nil {
		t.Errorf("%d windows delivered, %d of them again, %d requests, %v, %v", n, again, w.service.requests(), failures,
			err)
	}
	w.reader = second
	for _, k := range keys {
		w.shows(k, 1)
	}
	w.emptySpool()
}

// A newer revision replaces one that still waits for a sink. One that the ledger does not know
// yet, because the process died, follows it without a request.
func TestNewerRevisionSupersedes(t *testing.T) {
	for f, want := range map[faults.Fault][]int32{faults.None: {2}, faults.KilledAfter: {1, 2}} {
		w := newWorld(t, t.TempDir())
		k := day("prj_a", 0)
		isDown := true
		var numbers []int32
		second := &sinktest.Memory{Fault: func(step sinktest.Step, rev analytics.Revision) error {
			if step == sinktest.After {
				numbers = append(numbers, rev.Number)
			}
			return when(isDown, errors.New("is down"))
		}}
		w.more = []sinks.Sink{other{second}}
		w.service.put(k, 300, 0)
		w.run(asked(k)...)
		w.service.put(k, 300, 1)
		w.failing(stepSealed, 1, f)
		w.run(asked(k)...)
		w.faults, isDown = nil, false
		w.service.again()
		p, n := w.recovered()
		if f != faults.None {
			w.clean(reading(t.Context(), p, w.work(asked(k))))
		}
		if n != 1 || !slices.Equal(numbers, want) || w.service.requests() != 0 {
			t.Errorf("%q: %d windows delivered, revisions %v, %d requests", f, n, numbers, w.service.requests())
		}
		w.shows(k, 2)
		w.reader = second
		w.shows(k, 2)
		w.emptySpool()
	}
}

// TestDamagedLog: a log that has lost pages is never delivered in part. If no sink has its
// window, the pages that are missing are requested again; otherwise it is left to a repair.
func TestDamagedLog(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"removed": os.Remove, "cut": func(path string) error { return os.Truncate(path, 100) },
		"one bit flipped": flipBit,
	} {
		for call, waiting := range map[string]bool{StepRecorded: false, callReplace: true} {
			for _, elsewhere := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%t", name, call, elsewhere), func(t *testing.T) {
					w, k := oneWindow(t, 300, 1)
					second := sinktest.NewMemory()
					f := map[bool]faults.Fault{true: faults.RequestLost, false: faults.KilledAfter}[waiting]
					if w.failing(call, 1, f); elsewhere {
						w.more = []sinks.Sink{other{second}}
					}
					w.run(asked(k)...)
					w.faults = nil
					dir := map[bool]string{true: "waiting", false: "fetching"}[waiting]
					if err := damage(w.spooled(dir + "/*")); err != nil {
						t.Fatal(err)
					}
					w.recovered()
					w.emptySpool()
					if rev, ok := w.ledger.known(k); ok != (elsewhere && waiting) {
						t.Fatalf("the ledger has %+v", rev)
					} else if ok {
						w.reader = second
					} else {
						w.clean(w.run(asked(k)...))
					}
					w.shows(k, 1)
				})
			}
		}
	}
}

// spooled returns the only file of the spool with such a name.
func (w *world) spooled(name string) string {
	w.Helper()
	found, err := filepath.Glob(filepath.Join(w.dir, "spool", name))
	if err != nil || len(found) != 1 {
		w.Fatal(found, err)
	}
	return found[0]
}

func flipBit(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	data[len(data)/2] ^= 4
	return os.WriteFile(path, data, 0o600)
}

// TestDamagedBeforeSealing: pages that were damaged after they were read are not delivered, and
// the next run requests them again.
func TestDamagedBeforeSealing(t *testing.T) {
	w := newWorld(t, t.TempDir())
	k, next := day("prj_a", 0), day("prj_a", 1)
	w.service.put(k, 300, 1)
	w.service.put(next, 300, 1)
	w.told = func(ev Event) {
		if ev.Step == stepFetched && ev.Key == k {
			if err := flipBit(w.spooled("fetching/*.2026-10-01_*")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if r := w.run(asked(k)...); len(r.Errors) != 1 || !errors.Is(r.Errors[0], spool.ErrDamaged) ||
		w.shown(k).Number != 0 {
		t.Errorf("result %+v", r)
	}
	w.told = nil
	w.clean(w.run(asked(k, next)...))
	w.shows(k, 1)
	w.shows(next, 1)
	w.emptySpool()
}

// A lost revision leaves the one before it where it is: in the spool, without a request.
func TestLostRevisionAfterWaitingOne(t *testing.T) {
	w, k := oneWindow(t, 300, 1)
	w.failing(callReplace, 1, faults.RequestLost)
	w.run(asked(k)...)
	w.run(asked(k)...)
	w.faults = nil
	if err := os.Remove(w.spooled("waiting/*.r2.pages")); err != nil {
		t.Fatal(err)
	}
	w.recovered()
	if _, n := w.recovered(); n != 1 {
		t.Errorf("%d windows delivered, want 1", n)
	}
	w.shows(k, 1)
	w.emptySpool()
}

// TestLedgerFails: an error of the ledger is not a failure of the sink, and ends the run.
func TestLedgerFails(t *testing.T) {
	for _, call := range []string{callRecord, callCommitted} {
		t.Run(call, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			w.failing(call, 1, faults.RequestLost)
			r := w.run(asked(w.days("prj_a", 3)...)...)
			if len(r.Errors) != 1 || strings.Contains(r.Errors[0].Error(), "sink") || w.service.requests() != 3 ||
				r.Left != 3 {
				t.Errorf("%d requests, %+v", w.service.requests(), r)
			}
			if n := w.ledger.counters["sink_failures_total sink memory"]; n != 0 {
				t.Errorf("%d failures of the sink", n)
			}
		})
	}
}

// TestCancelled cancels the run at each step: it returns soon, nothing is
// half done, and the next run requests no page that was kept.
func TestCancelled(t *testing.T) {
	for i, step := range []string{stepStarted, StepPage, stepFetched, stepSealed, StepRecorded, stepReplaced,
		stepCommitted, stepDone} {
		committed := 0
		if i >= 3 {
			committed = 1 // sealed by then
		}
		t.Run(step, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			keys := w.days("prj_a", 3)
			ctx, cancel := context.WithCancel(t.Context())
			pages := 0
			w.told = func(ev Event) {
				if ev.Step == StepPage {
					pages++
				}
				if ev.Step == step {
					cancel()
				}
			}
			r := reading(ctx, w.process(), w.work(asked(keys...)))
			w.told = nil
			kept := pages
			if len(r.Errors) != 0 || r.Left != 3-committed || r.Committed != committed {
				t.Errorf("result %+v", r)
			}
			for _, k := range keys {
				if w.shown(k).Number > 0 {
					w.shows(k, 1)
				}
			}
			w.service.again()
			p, n := w.recovered()
			w.clean(reading(t.Context(), p, w.work(asked(w.lacking(asked(keys...))...))))
			if got := w.service.requests(); got != 9-kept || n != 0 {
				t.Errorf("%d more requests after %d pages, %d windows in the spool", got, kept, n)
			}
			for _, k := range keys {
				w.shows(k, 1)
			}
			w.emptySpool()
		})
	}
}

// A commit under way when the run is cancelled gets the grace time, no more.
func TestCancelledCommit(t *testing.T) {
	for _, c := range []struct {
		takes     time.Duration
		committed int
	}{{grace - time.Second, 1}, {grace + time.Minute, 0}} {
		t.Run(c.takes.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, t.TempDir())
				w.sink = slow{w.sink, c.takes}
				ctx, cancel := context.WithCancel(t.Context())
				w.told = func(ev Event) {
					if ev.Step == StepRecorded {
						cancel()
					}
				}
				start := time.Now()
				r := reading(ctx, w.process(), w.work(asked(w.days("prj_a", 2)...)))
				if took := time.Since(start); took > grace {
					t.Errorf("the run went on for %v", took)
				}
				if r.Committed != c.committed || r.Waiting != 1-c.committed || r.Left != 1 {
					t.Errorf("result %+v", r)
				}
			})
		})
	}
}

// slow is a sink that needs some time.
type slow struct {
	sinks.Sink
	takes time.Duration
}

func (s slow) Replace(ctx context.Context, w sinks.Sealed) error {
	select {
	case <-time.After(s.takes):
		return s.Sink.Replace(ctx, w)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// After it is cancelled, Recover starts with no other window.
func TestRecoverCancelled(t *testing.T) {
	w := newWorld(t, t.TempDir())
	keys := w.days("prj_a", 3)
	w.failing(callReplace, 1, faults.RequestLost)
	w.run(asked(keys...)...)
	w.faults = nil
	ctx, cancel := context.WithCancel(t.Context())
	w.told = func(ev Event) { cancel() }
	n, failures, err := recovering(ctx, w.process(), w.ledger.owed())
	if n != 1 || len(failures) != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("Recover: %d, %v, %v", n, failures, err)
	}
}
