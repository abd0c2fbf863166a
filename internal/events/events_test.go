package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
)

// start is an odd moment, on a Sunday.
var start = time.Date(2026, 11, 22, 5, 18, 11, 0, time.UTC)

// world is a pipeline whose time the test sets.
type world struct {
	t   *testing.T
	cfg config.Config
	app *app.App
	now time.Time
	w   *Watcher
}

func newWorld(t *testing.T, change func(*config.Config)) *world {
	t.Helper()
	dir := t.TempDir()
	service := httptest.NewServer(http.NotFoundHandler()) // it knows what time it is
	t.Cleanup(service.Close)
	w := &world{t: t, now: start, cfg: config.Config{
		BaseURL: service.URL, APIKey: "adm_secret", Projects: config.Projects{"prj_a", "prj_b"},
		ProjectNames: config.ProjectNames{"prj_a": "Product docs"},
		Windows:      config.Windows{{Granularity: analytics.Week}},
		Concurrency:  1, Timeout: config.Duration(time.Second), Sinks: config.Sinks{config.SinkParquet},
		ParquetURL: filepath.Join(dir, "data"),
		StateDir:   filepath.Join(dir, "state"), RunTimeout: config.Duration(6 * time.Hour),
	}}
	w.decode(&w.cfg.Schedule, "17 * * * *")
	if change != nil {
		change(&w.cfg)
	}
	w.restart(time.Time{})
	t.Cleanup(func() { w.check(w.app.Close()) })
	return w
}

func (w *world) decode(c *schedule.Cron, spec string) {
	w.t.Helper()
	w.check(c.UnmarshalText([]byte(spec)))
}

// digestAt sets DOCGAUGE_DIGEST.
func digestAt(t *testing.T, spec string) func(*config.Config) {
	return func(c *config.Config) {
		if err := c.Digest.UnmarshalText([]byte(spec)); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// restart is another process over the same state, which begins.
func (w *world) restart(served time.Time) {
	w.t.Helper()
	if w.app != nil {
		w.check(w.app.Close())
	}
	var err error
	w.app, err = app.OpenExport(w.cfg, slog.New(slog.DiscardHandler), func() time.Time { return w.now })
	w.check(err)
	w.w = &Watcher{app: w.app, served: served}
	w.check(w.w.begin(w.t.Context()))
}

// run is a run that ends a minute later; without an outcome it was killed.
func (w *world) run(outcome, message string) {
	w.t.Helper()
	id, err := w.app.State.BeginRun(w.t.Context(), w.now)
	w.check(err)
	w.now = w.now.Add(time.Minute)
	if outcome != "" {
		good := outcome == "success" || outcome == "deferred"
		w.check(w.app.State.EndRun(w.t.Context(), analytics.Run{ID: id, Finished: w.now, Outcome: outcome,
			Message: message}, good))
	}
}

// derived evaluates twice, and returns the events that were entered, which it removes.
func (w *world) derived() []view.Event {
	w.t.Helper()
	for range 2 {
		w.check(w.w.evaluateAll(w.t.Context()))
	}
	return w.outbox()
}

func (w *world) outbox() (out []view.Event) {
	w.t.Helper()
	notes, err := w.app.State.Events(w.t.Context(), 100)
	w.check(err)
	for _, n := range notes {
		var e view.Event
		w.check(json.Unmarshal(n.Body, &e))
		if n.Kind != e.Event || !n.At.Equal(e.At) || e.Text == "" || strings.Contains(e.Text, "\n") {
			w.t.Errorf("%s %v: %s", n.Kind, n.At, n.Body)
		}
		out = append(out, e)
		w.check(w.app.State.EventDone(w.t.Context(), n.ID))
	}
	return out
}

// want fails unless exactly these events are derived.
func (w *world) want(what string, kinds ...string) []view.Event {
	w.t.Helper()
	got := w.derived()
	var names []string
	for _, e := range got {
		names = append(names, e.Event)
	}
	if !slices.Equal(names, kinds) {
		w.t.Fatalf("%s: derived %v, want %v", what, names, kinds)
	}
	return got
}

// TestExportsFail: the third failure in a row is reported, once, over restarts
// too, and again when exports are good again.
func TestExportsFail(t *testing.T) {
	w := newWorld(t, nil)
	for range 2 {
		w.run("success", "")
		success := w.now
		w.run("failed", "no such host")
		w.run("interrupted", "")
		w.run("", "") // killed
		w.want("two failures")
		w.run("failed", "connection refused")
		e := w.want("three failures", exportFailing)[0]
		if e.Export.Failures != 3 || !e.Export.LastSuccess.Equal(success) ||
			e.Export.LastError != "connection refused" {
			t.Errorf("%+v", e.Export)
		}
		w.run("failed", "connection refused")
		w.want("four failures")
		w.restart(time.Time{})
		w.now = w.now.Add(5 * time.Hour)
		w.run("failed", "connection refused")
		w.want("five failures, hours later")
		w.run("deferred", "")
		if e := w.want("a good one", exportRecovered)[0]; !e.Export.LastSuccess.Equal(w.now) {
			t.Errorf("%+v", e.Export)
		}
		w.restart(time.Time{})
		w.run("failed", "no such host")
		w.want("one failure")
	}
}

// TestSingleRuns: a first installation that never works is reported, too, and a run that fails is
// late if the last good one is long ago.
func TestSingleRuns(t *testing.T) {
	for name, steps := range map[string][]struct {
		after         time.Duration
		outcome, want string
	}{
		"never good": {{0, "failed", ""}, {0, "failed", ""}, {0, "failed", exportFailing},
			{0, "success", exportRecovered}},
		"once a day": {
			{0, "success", ""}, {24 * time.Hour, "success", ""}, {2 * time.Hour, "failed", ""},
			{time.Hour, "failed", exportLate},
			{0, "failed", exportFailing}, {0, "success", exportRecovered},
		},
	} {
		w := newWorld(t, nil)
		w.want("nothing happened")
		for i, step := range steps {
			w.now = w.now.Add(step.after)
			w.run(step.outcome, "disk full")
			w.want(fmt.Sprint(name, " ", i), strings.Fields(step.want)...)
		}
	}
}

// TestLateByServe: serve is late when four firings of its schedule brought nothing good,
// counted from its start at the earliest, and not while a run is under way.
func TestLateByServe(t *testing.T) {
	w := newWorld(t, nil)
	w.run("success", "")
	w.now = w.now.Add(48 * time.Hour) // the machine was off
	w.restart(w.now)
	w.want("just started")
	w.now = w.now.Add(3*time.Hour + 50*time.Minute)
	w.want("three firings")
	id, err := w.app.State.BeginRun(t.Context(), w.now)
	w.check(err)
	w.now = w.now.Add(5 * time.Hour)
	w.want("a run is under way")
	w.now = w.now.Add(2 * time.Hour)
	w.want("it hangs", exportLate)
	w.check(w.app.State.EndRun(t.Context(), analytics.Run{ID: id, Finished: w.now, Outcome: "success"}, true))
	w.want("it ended well", exportRecovered)
}

// TestKeyExpires: once for each number of days, and again for another key or date.
func TestKeyExpires(t *testing.T) {
	expires := analytics.DateOf(start) + 16
	w := newWorld(t, func(c *config.Config) { c.APIKeyExpires = config.OptionalDate{Date: expires, Set: true} })
	var days []int
	for range 20 {
		for _, e := range w.derived() {
			if e.Event != keyExpiring || e.Key.Variable != "DOCGAUGE_API_KEY" || *e.Key.Expires != expires ||
				strings.Contains(e.Text, "expired on") != (*e.Key.DaysLeft == 0) {
				t.Errorf("%+v", e)
			}
			days = append(days, *e.Key.DaysLeft)
		}
		w.now = w.now.Add(24 * time.Hour)
		w.restart(time.Time{})
	}
	if want := []int{14, 7, 1, 0}; !slices.Equal(days, want) {
		t.Errorf("reported with %v days left, want %v", days, want)
	}
	w.cfg.APIKey = "adm_other"
	w.restart(time.Time{})
	w.want("another key that has expired", keyExpiring)
	w.cfg.WriteAPIKey = "wr_new"
	w.restart(time.Time{})
	w.want("another write key beside it")
	w.cfg.APIKeyExpires.Date += 100
	w.restart(time.Time{})
	w.want("a good date")
}

// TestKeyRefused: once, until it was accepted and an export was good.
func TestKeyRefused(t *testing.T) {
	w := newWorld(t, func(c *config.Config) { c.WriteAPIKey = "wr_secret" })
	answers := func(key string, status int) {
		t.Helper()
		endpoint := "visitors"
		if key == docsapi.KeyWrite {
			endpoint = "agent_create"
		}
		w.app.API.Meter.Observe(docsapi.Attempt{Endpoint: endpoint, Key: key, Status: status})
		if key == docsapi.KeyAdmin && status != http.StatusOK {
			w.want("refused for one project") // until the run knows that it is the key
			w.app.API.RefuseKey()
		}
		w.check(w.app.API.Flush(t.Context()))
	}
	answers(docsapi.KeyAdmin, http.StatusUnauthorized)
	if e := w.want("refused", keyRefused)[0]; e.Key.Variable != "DOCGAUGE_API_KEY" ||
		strings.Contains(fmt.Sprint(e), "secret") {
		t.Errorf("%+v", e)
	}
	answers(docsapi.KeyAdmin, http.StatusOK) // for another project
	w.want("accepted once")
	answers(docsapi.KeyAdmin, http.StatusForbidden)
	w.restart(time.Time{})
	w.want("refused again")
	w.cfg.WriteAPIKey = "wr_other"
	w.restart(time.Time{})
	w.want("still refused, beside another write key")
	answers(docsapi.KeyWrite, http.StatusForbidden)
	w.want("the service refuses a project's agent jobs, until the queue knows that it is the key")
	answers(docsapi.KeyWrite, http.StatusUnauthorized)
	if e := w.want("the other key", keyRefused)[0]; e.Key.Variable != "DOCGAUGE_WRITE_API_KEY" {
		t.Errorf("%+v", e.Key)
	}
	answers(docsapi.KeyAdmin, http.StatusOK)
	w.run("success", "")
	w.want("good again")
	answers(docsapi.KeyAdmin, http.StatusUnauthorized)
	w.want("refused later", keyRefused)
}

// TestQuota: once a day at most, with what came since, and not with what came before
// people wanted to know.
func TestQuota(t *testing.T) {
	w := newWorld(t, nil)
	throttle := func(n int64) {
		t.Helper()
		w.check(w.app.State.Count(t.Context(), "api_foreign_throttles_total", n))
	}
	throttle(2)
	if e := w.want("throttled", quotaUse)[0]; e.Quota.Throttled != 2 {
		t.Errorf("%+v", e.Quota)
	}
	throttle(3)
	w.now = w.now.Add(23 * time.Hour)
	w.restart(time.Time{})
	w.want("the same day")
	w.now = w.now.Add(time.Hour)
	if e := w.want("a day later", quotaUse)[0]; e.Quota.Throttled != 3 || e.Quota.Since.IsZero() {
		t.Errorf("%+v", e.Quota)
	}
	w.now = w.now.Add(48 * time.Hour)
	w.want("nothing since")

	old := newWorld(t, nil)
	old.check(old.app.State.Report(t.Context(), state.Report{Over: []string{quotaUse}}))
	old.check(old.app.State.Count(t.Context(), "api_foreign_throttles_total", 9))
	old.restart(time.Time{})
	old.want("what came before")
}

// TestSetAside: a window is reported once while it is set aside, all of a project at once;
// one that an outage has left behind is not.
func TestSetAside(t *testing.T) {
	w := newWorld(t, nil)
	aside := func(project string, day int, since time.Time, pause time.Duration) analytics.Aside {
		from := analytics.DateOf(start) - analytics.Date(day)
		a := analytics.Aside{
			Key: analytics.Key{Project: project, Granularity: analytics.Day,
				Window: analytics.Window{From: from, To: from + 1}},
			Reason: analytics.AsideMalformed, Detail: "total is not an integer", Failures: 1, Since: since,
			Until: since.Add(pause),
		}
		w.check(w.app.State.SetAside(t.Context(), a))
		return a
	}
	aside("prj_a", 2, start, time.Hour)
	aside("prj_a", 3, start, time.Hour)
	aside("prj_a", 4, start, 0)
	aside("prj_b", 2, start, time.Hour)
	aside("prj_gone", 2, start, time.Hour)
	got := w.want("three windows", windowsSetAside, windowsSetAside)
	if a := got[0]; a.Project != "prj_a" || a.ProjectName != "Product docs" || len(a.Windows) != 2 ||
		!strings.Contains(a.Text, "2 windows of Product docs") || len(a.Lines) != 2 {
		t.Errorf("%+v", a)
	}
	if b := got[1]; b.Project != "prj_b" || b.ProjectName != "" || len(b.Windows) != 1 {
		t.Errorf("%+v", b)
	}
	again := aside("prj_a", 2, start, 24*time.Hour) // it failed again
	w.restart(time.Time{})
	w.want("they still are")
	w.check(w.app.State.Record(t.Context(), analytics.Revision{Key: again.Key, Number: 1, ExportedAt: w.now},
		analytics.Provenance{}, nil))
	w.want("one was read")
	aside("prj_a", 2, start.Add(time.Hour), time.Hour)
	if e := w.want("and set aside again", windowsSetAside)[0]; len(e.Windows) != 1 {
		t.Errorf("%+v", e.Windows)
	}
}

// week enters a week whose totals alone were read, n weeks ago.
func (w *world) week(project string, ago int, totals analytics.Totals) {
	w.t.Helper()
	w.record(project, ago, 1, totals, nil)
}

// TestDigestFires: once for each firing that comes after the schedule is known, for the
// newest where several were missed, and for a project when its week is there.
func TestDigestFires(t *testing.T) {
	w := newWorld(t, digestAt(t, "0 7 * * 1"))
	w.week("prj_a", 1, analytics.Totals{Human: 5, AI: 4, Total: 8})
	w.week("prj_a", 0, analytics.Totals{Human: 6, AI: 4, Total: 9})
	w.want("the firing of last Monday is not due")
	w.now = time.Date(2026, 11, 23, 6, 59, 59, 0, time.UTC)
	w.restart(time.Time{})
	w.want("a second too early")
	w.now = w.now.Add(2 * time.Second)
	w.want("the week is not exported yet")
	w.week("prj_a", 0, analytics.Totals{Human: 7, AI: 6, Total: 12})
	e := w.want("it fires", digest)[0]
	if e.Project != "prj_a" || e.Digest.Totals.Total != 12 || e.Digest.Change.Total != 3 || e.Digest.Pages != nil ||
		!strings.HasPrefix(e.Text, "Product docs, 16–22 Nov 2026: 12 readers (+3, ") {
		t.Errorf("%+v %+v", e, e.Digest)
	}
	w.restart(time.Time{})
	w.want("once")
	w.now = w.now.Add(time.Hour)
	w.week("prj_b", 0, analytics.Totals{Human: 1, Total: 1})
	if e := w.want("the other project, later", digest)[0]; e.Project != "prj_b" || e.Digest.Before != nil ||
		strings.Contains(e.Text, "(") {
		t.Errorf("%+v", e)
	}
	w.now = w.now.Add(4*7*24*time.Hour - 90*time.Minute) // before the fifth firing
	w.restart(time.Time{})
	w.week("prj_a", 0, analytics.Totals{Total: 1})
	w.want("three missed firings are one", digest)
	w.decode(&w.cfg.Digest, "0 7 * * 2")
	w.restart(time.Time{})
	w.want("another schedule counts from now on")
}

// TestTwoProcesses: two processes that evaluate at once report an event once.
func TestTwoProcesses(t *testing.T) {
	for round := range 5 {
		w := newWorld(t, digestAt(t, "* * * * *"))
		w.week("prj_a", 0, analytics.Totals{Human: 6, AI: 4, Total: 9})
		other, err := app.OpenQueue(w.cfg, slog.New(slog.DiscardHandler), func() time.Time { return w.now })
		w.check(err)
		w.now = w.now.Add(time.Duration(1+round) * time.Minute)
		var both sync.WaitGroup
		for _, watcher := range []*Watcher{w.w, {app: other}} {
			both.Go(func() {
				if err := watcher.evaluateAll(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if got := w.outbox(); len(got) != 1 {
			t.Errorf("%d digests", len(got))
		}
		w.check(other.Close())
	}
}

// TestUnreadable: while the rows of a project cannot be read, everything else is reported,
// once, and its digest comes when they can.
func TestUnreadable(t *testing.T) {
	w := newWorld(t, digestAt(t, "* * * * *"))
	w.week("prj_b", 0, analytics.Totals{Total: 1})
	for range 3 {
		w.run("failed", "disk full")
	}
	w.want("before", exportFailing, digest)
	to := schedule.Newest(analytics.Week, analytics.DateOf(w.now)).To
	for i := range analytics.Date(2) {
		rev := analytics.Revision{
			Key: analytics.Key{Project: "prj_a", Granularity: analytics.Week,
				Window: analytics.Window{From: to - 7 - 7*i, To: to - 7*i}},
			Number: 1, Rows: 5, ExportedAt: w.now,
		}
		w.check(w.app.State.Record(t.Context(), rev, analytics.Provenance{}, []string{config.SinkParquet}))
	}
	w.run("success", "")
	for range 2 {
		if err := w.w.evaluateAll(t.Context()); err == nil || !strings.Contains(err.Error(), "digest of prj_a") {
			t.Errorf("rows that no sink has: %v", err)
		}
	}
	var got []string
	for _, e := range w.outbox() {
		got = append(got, e.Event)
	}
	if !slices.Equal(got, []string{exportRecovered, digest}) {
		t.Errorf("derived %v, want the digest of the other project too", got)
	}
	// A condition that cannot be read may persist, so it does not count as over.
	unread := errors.New("not read")
	if err := w.w.evaluate(t.Context(), func(context.Context, *evaluation) error { return unread }); !errors.Is(err,
		unread) {
		t.Error(err)
	}
	reported, err := w.app.State.Reported(t.Context())
	if _, kept := reported[conditionOf(digest, "prj_b")]; err != nil || !kept {
		t.Errorf("the other project would be reported again: %v, %v", reported, err)
	}
	if err := w.w.evaluate(t.Context(), func(_ context.Context, e *evaluation) error {
		e.remember(state.Reported{Condition: "x", At: w.now})
		return w.app.State.Close()
	}); err == nil {
		t.Error("what could not be entered is not an error")
	}
}

// TestDigestAfterAClockAhead: a digest that was reported while the clock was weeks ahead does not
// silence those that follow once it is right.
func TestDigestAfterAClockAhead(t *testing.T) {
	w := newWorld(t, digestAt(t, "0 7 * * 1"))
	right := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	for _, ahead := range []time.Duration{0, 35 * 24 * time.Hour} {
		w.now = right.Add(ahead)
		w.restart(time.Time{})
		w.week("prj_a", 0, analytics.Totals{Total: 9})
		w.want("it fires", digest)
	}
	w.now = right.Add(time.Hour)
	w.restart(time.Time{})
	w.want("set right")
	w.now = right.Add(7 * 24 * time.Hour)
	w.restart(time.Time{})
	w.week("prj_a", 0, analytics.Totals{Total: 9})
	w.want("the next one", digest)
}

// TestDigestByAWrongClock: a clock that the service shows to be wrong, or that it cannot confirm, neither
// reports a digest nor forgets one, so none comes twice.
func TestDigestByAWrongClock(t *testing.T) {
	w := newWorld(t, digestAt(t, "0 7 * * 1"))
	right := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	var off time.Duration
	service := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Date", time.Now().Add(-off).UTC().Format(http.TimeFormat))
	}))
	t.Cleanup(service.Close)
	at := func(url string, ahead time.Duration) {
		w.cfg.BaseURL, off, w.now = url, ahead, right.Add(ahead)
		w.restart(time.Time{})
		w.week("prj_a", 0, analytics.Totals{Total: 9})
	}
	at(service.URL, 0)
	w.want("it fires", digest)
	for _, ahead := range []time.Duration{-25 * time.Hour, -15 * 24 * time.Hour, 7 * 24 * time.Hour} {
		for _, url := range []string{service.URL, "http://127.0.0.1:1"} {
			at(url, ahead)
			err := w.w.evaluateAll(t.Context())
			if _, wrong := errors.AsType[*docsapi.ClockError](err); err != nil && !wrong {
				t.Error(err)
			}
			if told := w.outbox(); len(told) > 0 {
				t.Errorf("the clock is %v ahead: %v", ahead, told)
			}
			at(service.URL, 0)
			w.want("set right")
		}
	}
}
