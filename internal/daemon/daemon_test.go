package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/schedule"
)

var check = testbed.Check

// nowhere is a service that does not answer.
const nowhere = "http://127.0.0.1:1"

// configFor is the configuration of a daemon in this process.
func configFor(t *testing.T, url string) config.Config {
	t.Helper()
	testbed.NotAtMidnight()
	dir := t.TempDir()
	c := config.Config{
		BaseURL: url, APIKey: sandbox.DefaultAPIKey, Projects: config.Projects{sandbox.DefaultProject},
		Windows:     config.Windows{{Granularity: analytics.Day}},
		Since:       config.OptionalDate{Date: testbed.DaysAgo(4), Set: true},
		Settle:      config.Duration(72 * time.Hour),
		Concurrency: 2, Timeout: config.Duration(testbed.Patience), RunTimeout: config.Duration(time.Hour),
		Sinks: config.Sinks{config.SinkParquet}, ParquetURL: filepath.Join(dir, "data"),
		StateDir: filepath.Join(dir, "state"), SpoolMax: 1 << 30, TopPages: 50,
		ListenAddress: config.Addresses{"127.0.0.1:0"},
	}
	setSchedule(t, &c, "0 0 29 2 *") // which does not fire while a test runs
	return c
}

func setSchedule(t *testing.T, c *config.Config, spec string) {
	t.Helper()
	check(t, c.Schedule.UnmarshalText([]byte(spec)))
}

// logFor is a log that is shown if the test fails.
func logFor(t *testing.T) (*slog.Logger, *testbed.Log) {
	t.Helper()
	log := new(testbed.Log)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return slog.New(slog.NewTextHandler(log, nil)), log
}

// daemonFor opens a daemon in this process.
func daemonFor(t *testing.T, c config.Config) (*daemon, *testbed.Log) {
	t.Helper()
	logger, log := logFor(t)
	a, err := app.OpenExport(c, logger, time.Now)
	check(t, err)
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	values := new(exporter.Values)
	d := newDaemon(a, values, &web.Site{Current: values.Load}, noProgress{}, nil)
	d.firings = schedule.NewFirings(c.Schedule, time.Time{}, true)
	return d, log
}

// serveFor serves until the test ends, and returns the address and the log.
func serveFor(t *testing.T, c config.Config, o Options) (url string, log *testbed.Log) {
	t.Helper()
	logger, log := logFor(t)
	listening := make(chan string, 1)
	o.OnceAtStart, o.Progress, o.Listening = true, noProgress{}, func(at string) { listening <- at }
	during(t, func(ctx context.Context) {
		if err := Serve(ctx, c, logger, time.Now, o); err != nil {
			t.Error(err)
		}
	})
	return <-listening, log
}

// noProgress shows nothing.
type noProgress struct{}

func (noProgress) Reset()               {}
func (noProgress) Begin(int, time.Time) {}
func (noProgress) Observe(export.Event) {}
func (noProgress) Pause(time.Time, int) {}
func (noProgress) End()                 {}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(text), 0o600))
}

// during runs f beside the test, and waits for its end after the test.
func during(t *testing.T, f func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

// published makes a snapshot and returns it.
func (d *daemon) published(t *testing.T) *view.Snapshot {
	t.Helper()
	check(t, d.publish(t.Context()))
	return d.values.Load()
}

// wantRuns fails unless so many runs of each outcome are counted.
func wantRuns(t *testing.T, s *view.Snapshot, want map[string]float64) {
	t.Helper()
	got := map[string]float64{}
	for _, c := range s.Counters {
		if c.Name == "export_runs_total" {
			got[c.Labels[1]] = c.Value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestRunTimeout: a run that takes too long has failed and says why, and the next one continues where
// it ended.
func TestRunTimeout(t *testing.T) {
	t.Parallel()
	faults := sandbox.Faults{Latency: 100 * time.Millisecond}
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 10, Pages: 700, Faults: faults})
	c := configFor(t, s.URL)
	c.Concurrency, c.RunTimeout = 1, config.Duration(450*time.Millisecond)
	d, _ := daemonFor(t, c)
	during(t, func(ctx context.Context) {
		if err := d.exportLoop(ctx); err != nil {
			t.Error(err)
		}
	})
	testbed.Await(t, "the run has ended", func() bool { return !d.published(t).LastCompletion.IsZero() })
	first := d.published(t).Runs[0]
	const why = "the run took longer than DOCGAUGE_RUN_TIMEOUT (450ms) and was ended"
	if first.Outcome != export.Failed || !strings.Contains(first.Message, why) {
		t.Errorf("the run is %+v", first)
	}
	ended := len(s.Requests())
	d.export(t.Context())
	wantRuns(t, d.published(t), map[string]float64{export.Failed: 1, export.Success: 1})
	// 4 days of 3 pages; the one in flight at the end is requested again.
	if all := len(s.Requests()); ended >= 4*3 || all > 4*3+1 {
		t.Errorf("%d requests until the end of the first run, %d in all", ended, all)
	}
}

// TestRunEndsBeforeItBegins: a run whose deadline passes before it is entered has failed, and says why.
func TestRunEndsBeforeItBegins(t *testing.T) {
	t.Parallel()
	d, _ := daemonFor(t, configFor(t, nowhere))
	ctx, end := context.WithCancelCause(t.Context())
	end(schedule.ErrDeadline)
	d.export(ctx)
	runs := d.published(t).Runs
	if len(runs) != 1 || runs[0].Outcome != export.Failed ||
		!strings.Contains(runs[0].Message, "took longer than DOCGAUGE_RUN_TIMEOUT") {
		t.Errorf("the runs are %+v", runs)
	}
}

// TestLate: /readyz reports a schedule that does not run, and a run that hangs, and nothing sooner.
func TestLate(t *testing.T) {
	noon := time.Date(2026, time.November, 2, 12, 0, 0, 0, time.UTC)
	const (
		late  = "export: no run ended since"
		hangs = "export: the run that began at 2026-11-02 12:17 UTC hangs: it does not end at DOCGAUGE_RUN_TIMEOUT"
	)
	minute := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	for _, tc := range []struct {
		about                          string
		started, completed, began, now time.Time
		want                           string
	}{
		{"just started", noon, time.Time{}, time.Time{}, minute(1), ""},
		{"two firings after the start, and a minute", noon, time.Time{}, time.Time{}, minute(78), ""},
		{"after that", noon, time.Time{}, time.Time{}, minute(79), late + " 2026-11-02 12:00 UTC"},
		{"a run ended", noon, minute(20), time.Time{}, minute(138), ""},
		{"and none since", noon, minute(20), time.Time{}, minute(139), late + " 2026-11-02 12:20 UTC"},
		{"started again long after a run ended", noon, minute(-500), time.Time{}, minute(78), ""},
		{"a run continues", noon, minute(-100), minute(17), minute(17 + 361), ""},
		{"and does not end", noon, minute(-100), minute(17), minute(17 + 362), hangs},
	} {
		a := &app.App{Now: func() time.Time { return tc.now }}
		a.Config.RunTimeout = config.Duration(6 * time.Hour)
		setSchedule(t, &a.Config, "17 * * * *")
		d := &daemon{app: a, started: tc.started, values: new(exporter.Values)}
		if got := d.problems(); !cmp.Equal(got, []string{"starting: the state is being read"}) {
			t.Errorf("%s: before the first snapshot: %v", tc.about, got)
		}
		d.values.Publish(view.Snapshot{LastCompletion: tc.completed})
		d.health.value.running = tc.began
		got := strings.Join(d.problems(), "\n")
		if !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", tc.about, got, tc.want)
		}
		if shown := d.alert().Text; shown != got {
			t.Errorf("%s: the status page says %q", tc.about, shown)
		}
	}
}

// TestSinkGoesAndComes: /readyz reports a sink that cannot be written until it can be again.
func TestSinkGoesAndComes(t *testing.T) {
	t.Parallel()
	c := configFor(t, nowhere)
	d, log := daemonFor(t, c)
	d.published(t)
	check(t, d.app.Sinks[0].Check(t.Context()))
	aside := c.ParquetURL + ".aside"
	check(t, errors.Join(os.Rename(c.ParquetURL, aside), os.WriteFile(c.ParquetURL, nil, 0o600)))
	during(t, d.watchSinks)
	testbed.Await(t, "the sink is missed", func() bool { return len(d.problems()) > 0 })
	got := d.problems()
	if len(got) != 1 || !strings.HasPrefix(got[0], "sink parquet: ") || !strings.Contains(got[0], c.ParquetURL) {
		t.Error(got)
	}
	if problem := d.published(t).Sinks[0].Problem; !strings.Contains(problem, c.ParquetURL) {
		t.Errorf("the page would say %q", problem)
	}
	check(t, errors.Join(os.Remove(c.ParquetURL), os.Rename(aside, c.ParquetURL)))
	d.recheck.Send() // as the end of a run does
	testbed.Await(t, "the sink is back", func() bool { return len(d.problems()) == 0 })
	if n := strings.Count(log.String(), "sink not reachable"); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
}

// TestStateIsLost: a snapshot that cannot be made leaves the former one, /readyz says why, and the
// daemon ends.
func TestStateIsLost(t *testing.T) {
	t.Parallel()
	c := configFor(t, nowhere)
	d, _ := daemonFor(t, c)
	before := d.published(t)
	check(t, os.RemoveAll(c.StateDir))
	d.changed.Send()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Patience)
	defer cancel()
	if err := d.publishLoop(ctx); !errors.Is(err, state.ErrLost) {
		t.Errorf("publishing ended with %v", err)
	}
	const lost = "removed or replaced"
	if got := strings.Join(d.problems(), "\n"); !strings.HasPrefix(got, "state: ") || !strings.Contains(got, lost) {
		t.Error(got)
	}
	if shown := d.alert(); !strings.Contains(shown.Text, lost) || shown.Rule != "DocgaugeSnapshotOld" {
		t.Errorf("the status page says %+v", shown)
	}
	if d.values.Load() != before {
		t.Error("the former values are gone")
	}
}

// TestKeyAfterRestart: that the key was refused is known after a restart, and does not count against
// another one.
func TestKeyAfterRestart(t *testing.T) {
	t.Parallel()
	const expired = "sbx_expired-secret"
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 10, Pages: 40, ExpiredKey: expired})
	c := configFor(t, s.URL)
	for _, start := range []struct {
		about    string
		key      config.Secret
		export   bool
		rejected bool
	}{
		{"refused", expired, true, true},
		{"the same", expired, false, true},
		{"another", sandbox.DefaultAPIKey, false, false},
		{"the same again", expired, false, true},
	} {
		t.Run(start.about, func(t *testing.T) {
			c.APIKey = start.key
			d, _ := daemonFor(t, c)
			if start.export {
				d.export(t.Context())
			}
			if got := d.published(t).Keys[0].Rejected; got != start.rejected {
				t.Errorf("rejected is %v, want %v", got, start.rejected)
			}
		})
	}
}

// TestKeyIsReplaced: after the service refused the key, the next run uses the one that the file has by
// then.
func TestKeyIsReplaced(t *testing.T) {
	t.Parallel()
	const expired = "sbx_expired-secret"
	s := testbed.NewService(t, sandbox.Config{Seed: 5, Days: 10, Pages: 40, ExpiredKey: expired})
	c := configFor(t, s.URL)
	file := filepath.Join(t.TempDir(), "key")
	c.APIKey, c.SecretFiles = expired, map[string]string{"DOCGAUGE_API_KEY": file}
	writeText(t, file, expired)
	d, log := daemonFor(t, c)
	for key := range d.app.API.Keys() {
		during(t, func(ctx context.Context) { key.Watch(ctx, d.app.Log, d.changed.Send) })
	}
	d.export(t.Context())
	now := d.published(t)
	if !now.Keys[0].Rejected || now.Runs[0].Outcome != export.Failed || !now.LastSuccess.IsZero() {
		t.Errorf("the key is %+v, the run %+v", now.Keys[0], now.Runs[0])
	}
	writeText(t, file, sandbox.DefaultAPIKey+"\n")
	testbed.Await(t, "the key is taken", func() bool { return !d.published(t).Keys[0].Rejected })
	before := len(s.Requests())
	d.export(t.Context())
	now = d.published(t)
	_, rows, err := s.Visitors(sandbox.DefaultProject, now.Windows[0].Window)
	if err != nil || now.Runs[0].Outcome != export.Success || now.Keys[0].Rejected ||
		len(now.Windows[0].Pages) != len(rows) {
		t.Errorf("the run is %+v, %d pages of %d: %v", now.Runs[0], len(now.Windows[0].Pages), len(rows), err)
	}
	for _, r := range s.Requests()[before:] {
		if r.Status != http.StatusOK {
			t.Errorf("with the new key: %+v", r)
		}
	}
	if text := log.String(); strings.Contains(text, "secret") || strings.Contains(text, sandbox.DefaultAPIKey) {
		t.Error("the log has a key")
	}
}

// TestForeignBytes: paths that are not UTF-8, which a service or another program's file might have, stay
// apart and break nothing.
func TestForeignBytes(t *testing.T) {
	t.Parallel()
	d, _ := daemonFor(t, configFor(t, nowhere))
	rev := revisionOf(sandbox.DefaultProject, 1)
	check(t, d.app.State.Restore(t.Context(), config.SinkParquet, []analytics.Revision{rev}))
	rows := []analytics.Record{
		analytics.RecordOf(analytics.Row{Path: "/\xff\x00", Totals: analytics.Totals{Total: 2}}),
		analytics.RecordOf(analytics.Row{Path: "/\xfe\x00", Totals: analytics.Totals{Total: 1}}),
	}
	check(t, d.app.State.SetTop(t.Context(), state.TopRows{Key: rev.Key, Revision: rev.Number, Rows: rows}))
	d.published(t)
	service := new(service)
	service.site = &web.Site{Current: service.values.Load, Archive: service.archive}
	service.values.Publish(*d.values.Load())
	service.current.Store(d)
	for path, handler := range service.handlers() {
		if strings.HasPrefix(path, "POST ") {
			continue
		}
		answer := httptest.NewRecorder()
		want := map[string]int{"/status": 2, "/metrics": 2}[path] // others escape them, have no paths, or read the archive
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		text := answer.Body.String()
		if answer.Code != http.StatusOK && (want > 0 || answer.Code >= 500) || !utf8.ValidString(text) ||
			strings.Count(text, "\uFFFD") < want {
			t.Errorf("%s: status %d, valid %v: %.300q", path, answer.Code, utf8.ValidString(text), text)
		}
	}
}

// TestRemaining: an unchanged schedule fires when it would have fired without the reload; a missed
// firing is made up for, and so is a run that the reload cut short.
func TestRemaining(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	minute := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }
	for _, tc := range []struct {
		about, was, is      string
		fired, stopped, now int
		owed                bool
		atOnce              bool
		coming              int
	}{
		{"nothing", "17 * * * *", "17 * * * *", 17, 30, 31, false, false, 77},
		{"a run cut short", "17 * * * *", "17 * * * *", 17, 30, 31, true, true, 77},
		{"a firing in between", "17 * * * *", "17 * * * *", 17, 76, 78, false, true, 137},
		{"firings during the run", "17 * * * *", "17 * * * *", 197, 205, 206, false, false, 257},
		{"an interval", "@every 90m", "@every 90m", 10, 60, 61, false, false, 100},
		{"another schedule", "17 * * * *", "30 * * * *", 17, 20, 21, false, false, 30},
		{"another schedule that fired in between", "17 * * * *", "30 * * * *", 17, 29, 31, false, true, 90},
	} {
		var was, is config.Config
		setSchedule(t, &was, tc.was)
		setSchedule(t, &is, tc.is)
		d := &daemon{app: &app.App{Config: was}, owed: tc.owed}
		d.firings = schedule.NewFirings(was.Schedule, minute(tc.fired), false)
		d.firings.Next(minute(tc.fired))
		f, owed := d.remaining(is.Schedule, minute(tc.stopped), minute(tc.now))
		if got := f.Coming(); !got.Equal(minute(tc.coming)) {
			t.Errorf("%s: fires at %v", tc.about, got)
		}
		if got := f.Next(minute(tc.now)).Equal(minute(tc.now)); got != tc.atOnce || owed != got {
			t.Errorf("%s: at once is %v", tc.about, got)
		}
	}
}

// TestPauseAfter: a stall of minutes delays the next snapshot by no more than a minute.
func TestPauseAfter(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: time.Second, 100 * time.Millisecond: 2 * time.Second, time.Minute: time.Minute, time.Hour: time.Minute,
	} {
		if got := pauseAfter(took); got != want {
			t.Errorf("after a snapshot of %v: %v, want %v", took, got, want)
		}
	}
}
