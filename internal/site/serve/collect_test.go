package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

func rulesOf(t *testing.T, s count.Settings) *count.Rules {
	t.Helper()
	s.LogFormat = cmp.Or(s.LogFormat, "auto")
	r, err := count.ParseRules(s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// world is a site, its log and a collector, on a clock of its own. It knows which lines must count:
// by the rule of epochs as the documentation has it, written down once more.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	now     time.Time
	dir     string
	store   *facts.Store
	session *session      // nil: the collector is down
	silent  bool          // there is a second log, which never has a line
	skew    time.Duration // how far now is ahead of the time
	months  int           // of retention
	polled  time.Time

	waiting  []read // lines that the collector has not read
	counted  []read
	late     int
	epochs   map[facts.Epoch]*lifetime
	newest   time.Time
	rotation int
}

// read is a line: somebody read a page.
type read struct {
	at        time.Time
	who, path string
}

type lifetime struct {
	opened time.Time
	closed bool
}

func newWorld(t *testing.T, seed uint64, now time.Time) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 31)), now: now, dir: t.TempDir(),
		epochs: map[facts.Epoch]*lifetime{}}
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", w.now, err)
	}
}

func (w *world) log() string { return filepath.Join(w.dir, "access.log") }

// write writes lines of a day, in any order of time.
func (w *world) write(day analytics.Date, n int) {
	var text strings.Builder
	for range n {
		r := read{day.Time().Add(time.Duration(w.rng.IntN(86400)) * time.Second),
			fmt.Sprintf("192.0.2.%d", w.rng.IntN(40)),
			fmt.Sprintf("/page%d", w.rng.IntN(5))}
		fmt.Fprintf(&text, "%s - - [%s] \"GET %s HTTP/1.1\" 200 5 \"-\" \"Mozilla/5.0 Firefox/120.0\"\n", r.who,
			r.at.Format("02/Jan/2006:15:04:05 -0700"), r.path)
		w.waiting = append(w.waiting, r)
	}
	f, err := os.OpenFile(w.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	w.ok(err)
	_, err = f.WriteString(text.String())
	w.ok(err)
	w.ok(f.Close())
}

// rotate renames the log, as logrotate does: the newest is .1.
func (w *world) rotate() {
	for i := w.rotation; i > 0; i-- {
		w.ok(os.Rename(fmt.Sprint(w.log(), ".", i), fmt.Sprint(w.log(), ".", i+1)))
	}
	if os.Rename(w.log(), w.log()+".1") == nil {
		w.rotation++
	}
}

func (w *world) start() {
	if w.session != nil {
		return
	}
	var err error
	w.store, err = facts.Open(filepath.Join(w.dir, "site"))
	w.ok(err)
	rules := rulesOf(w.t, count.Settings{})
	sources := []logs.Source{{Where: w.log()}}
	if w.silent {
		sources = append(sources, logs.Source{Where: filepath.Join(w.dir, "other.log")})
	}
	c := NewCollector(rules, sources, w.store, CollectOptions{
		Now: func() time.Time { return w.now }, Logger: slog.New(slog.DiscardHandler), Retention: w.months,
		Running: func() time.Duration { return w.now.Add(-w.skew).Sub(time.Unix(1e9, 0)) }})
	w.session, err = c.newSession(w.t.Context())
	w.ok(err)
}

func (w *world) stop() {
	if w.session != nil {
		w.ok(w.session.follower.Close())
		w.ok(w.store.Close())
		w.session = nil
	}
}

// poll lets the collector read, and says what must come of it.
func (w *world) poll() {
	wasStopped := w.session == nil && w.now.Sub(w.polled) > 72*time.Hour // then it reads what bridges the stop first
	w.polled = w.now
	w.start()
	w.ok(w.session.poll(w.t.Context()))
	w.ok(w.session.tidy(w.t.Context()))
	if !wasStopped {
		w.close(false)
	}
	for _, r := range w.waiting {
		month := facts.EpochOf(analytics.DateOf(r.at))
		before, own := w.epochs[month-1], w.epochs[month]
		if before != nil && before.closed || own != nil && own.closed {
			w.late++
		} else {
			for _, e := range []facts.Epoch{month - 1, month} {
				if w.epochs[e] == nil {
					w.epochs[e] = &lifetime{opened: w.now}
				}
			}
			w.counted = append(w.counted, r)
		}
		if w.newest.Before(r.at) {
			w.newest = r.at
		}
	}
	w.waiting = nil
	w.close(true)
}

// close is the rule: 72 hours after the end, by the log, or two weeks after it, or after the opening.
func (w *world) close(caughtUp bool) {
	for e, l := range w.epochs {
		end := e.To().Time()
		last := end
		if l.opened.After(end) {
			last = l.opened
		}
		if !w.now.Before(last.AddDate(0, 0, 14)) || caughtUp && !w.silent && !w.newest.Before(end.Add(72*time.Hour)) {
			l.closed = true
		}
	}
}

// check compares a window.
func (w *world) check(from, to analytics.Date) {
	w.t.Helper()
	got, err := w.store.CountVisitors(w.t.Context(), count.DefaultProject, from, to, analytics.Claimed)
	w.ok(err)
	pages := map[string]map[string]bool{"": {}}
	for _, r := range w.counted {
		if day := analytics.DateOf(r.at); day >= from && day < to {
			if pages[r.path] == nil {
				pages[r.path] = map[string]bool{}
			}
			pages[r.path][r.who], pages[""][r.who] = true, true
		}
	}
	var want []analytics.Row
	for path, readers := range pages {
		if n := int64(len(readers)); path != "" {
			want = append(want, analytics.Row{Path: path, Totals: analytics.Totals{Human: n, Total: n}})
		}
	}
	slices.SortFunc(want, analytics.ByVisitors)
	if n := int64(len(pages[""])); got.Totals != (analytics.Totals{Human: n, Total: n}) ||
		!slices.Equal(got.Rows, want) {
		w.t.Fatalf("on %s, [%s,%s): %v, want %d and %v", w.now, from, to, got, n, want)
	}
}

// checkSome compares a window of each kind, anywhere in the past.
func (w *world) checkSome(first analytics.Date) {
	today := analytics.DateOf(w.now)
	if today <= first {
		return
	}
	day := first + analytics.Date(w.rng.IntN(int(today-first)))
	monday, month := day-analytics.Date((day.Weekday()+6)%7), facts.EpochOf(day)
	w.check(day, day+1)
	w.check(monday, monday+7)
	w.check(day, day+analytics.Date(1+w.rng.IntN(29)))
	w.check(month.From(), (month + 1).From())
}

// TestForYears: whatever the log and the collector do, each kind of window has exactly the lines
// that were not late: with lines that come late, outages, restarts at a month's end, rotation, and a
// year of old logs to begin with, beside a log that is empty.
func TestForYears(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed, time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC))
			w.silent = seed == 1 || seed == 2
			lastYear := 2027
			if !w.silent {
				lastYear = 2029
			}
			first := analytics.DateOf(w.now)
			if seed%2 == 0 { // old logs
				first -= 365
				for day := first; day < analytics.DateOf(w.now); day += 3 {
					w.write(day, w.rng.IntN(4))
					if w.rng.IntN(30) == 0 {
						w.rotate()
					}
				}
			}
			for w.now.Year() < lastYear {
				day := analytics.DateOf(w.now)
				outage := seed == 3 && w.now.Month() > time.May && w.now.Month() < time.August
				n := w.rng.IntN(8)
				if outage {
					n++ // so that it is bridged
				}
				w.write(day, n)
				if w.rng.IntN(6) == 0 || w.silent { // another machine's, or a buffer's
					w.write(max(first, day-analytics.Date(w.rng.IntN(80))), 3)
				}
				if w.rng.IntN(10) == 0 {
					w.rotate()
				}
				if w.rng.IntN(40) == 0 || w.now.AddDate(0, 0, 1).Day() == 1 {
					w.stop()
				}
				if !outage {
					w.poll()
					w.checkSome(first)
				} else {
					w.stop()
				}
				w.now = w.now.Add(time.Duration(12+w.rng.IntN(48)) * time.Hour)
			}
			w.poll()
			for day := first; day < analytics.DateOf(w.now); day += 9 {
				w.checkSome(first)
			}
			if w.late == 0 {
				t.Error("no line was late")
			}
			sources, _ := w.session.Sources()
			if n := sources[0].Lines; n["late"] != int64(w.late) || n["view"] != int64(len(w.counted)) {
				t.Errorf("%v, want %d views and %d late", n, len(w.counted), w.late)
			}
		})
	}
}

// TestPollsForget: once the polls have closed an epoch, no file below the site has its key or
// an id of a reader under it, while another process has the site open.
func TestPollsForget(t *testing.T) {
	w := newWorld(t, 7, time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC))
	ids := map[string]bool{} // and keys
	collect := func() {
		w.start()
		for _, one := range w.session.workers {
			one.viewer.Identify = func(v *facts.View, who []byte) count.Reason {
				why := one.inEpochs(v, who)
				w.session.locked.Lock()
				defer w.session.locked.Unlock()
				for _, id := range v.Readers {
					ids[string(binary.LittleEndian.AppendUint64(nil, id))] = true
				}
				return why
			}
		}
		w.poll()
	}
	left := func() (found int) {
		for id := range ids {
			w.ok(filepath.WalkDir(filepath.Join(w.dir, "site"), func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					var text []byte
					if text, err = os.ReadFile(path); bytes.Contains(text, []byte(id)) {
						found++
					}
				}
				return err
			}))
		}
		return found
	}
	w.write(analytics.DateOf(w.now), 60)
	collect()
	keys, _, err := w.store.Keys(t.Context(), count.DefaultProject, facts.EpochOf(analytics.DateOf(w.now)), w.now)
	w.ok(err)
	for _, key := range keys {
		ids[string(key)] = true
	}
	beside, err := facts.Attach(filepath.Join(w.dir, "site"))
	w.ok(err)
	defer beside.Close() //nolint:errcheck // it only reads
	if n := left(); n < 30 {
		t.Fatalf("only %d ids and keys found while the epochs are open: the test looks at the wrong place", n)
	}
	for range 3 {
		_, err := beside.CountVisitors(t.Context(), count.DefaultProject,
			analytics.NewDate(2026, 1, 1), analytics.NewDate(2026, 2, 1), analytics.Claimed)
		w.ok(err)
		w.now = w.now.AddDate(0, 0, 30)
		w.poll()
	}
	if n := left(); n > 0 {
		t.Errorf("%d ids and keys are left", n)
	}
	w.check(analytics.NewDate(2026, 1, 1), analytics.NewDate(2026, 2, 1))
}

// TestFindings: what makes the numbers of a log wrong is logged once, and shown by a metric until later lines are right.
func TestFindings(t *testing.T) {
	w := newWorld(t, 10, time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC))
	w.silent = true
	other := filepath.Join(w.dir, "other.log")
	write := func(n int, more string) {
		line := `192.0.2.1 - - [10/Jan/2026:09:00:00 +0000] "GET /a HTTP/1.1" 200 5` + more + "\n"
		f, err := os.OpenFile(other, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		w.ok(err)
		_, err = f.WriteString(strings.Repeat(line, n))
		w.ok(errors.Join(err, f.Close()))
	}
	write(leastLines-1, "")
	w.write(analytics.DateOf(w.now), leastLines)
	w.start()
	var said bytes.Buffer
	w.session.Logger = slog.New(slog.NewTextHandler(&said, nil))
	e := NewExposition(w.session.Collector, NewAnswers(w.store, w.session.CollectOptions), w.session.rules)
	check := func(source string, value, warned int) {
		t.Helper()
		w.poll()
		answer := httptest.NewRecorder()
		e.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		series := fmt.Sprintf("docgauge_site_log_finding{finding=\"user-agent\",source=%q} %d\n", source, value)
		if !strings.Contains(answer.Body.String(), series) || strings.Count(said.String(), "no user agent in") != warned {
			t.Errorf("want %d warnings and %s%s\n%s", warned, series, &said, answer.Body)
		}
	}
	check(w.log(), 0, 0)
	check(other, 0, 0)
	write(3*recentLines, "")
	check(other, 1, 1)
	write(1, "")
	check(other, 1, 1)
	write(2*recentLines, ` "-" "Mozilla/5.0 Firefox/120.0"`)
	check(other, 0, 1)
}

// TestRepeated: two live logs with the same lines are found, once; a log that is rotated, copied, emptied or compressed
// is the same log.
func TestRepeated(t *testing.T) {
	w := newWorld(t, 11, time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC))
	w.silent = true
	other := filepath.Join(w.dir, "other.log")
	w.ok(os.WriteFile(other, nil, 0o600))
	w.start()
	var said bytes.Buffer
	w.session.Logger = slog.New(slog.NewTextHandler(&said, nil))
	check := func(step string, is, warned int) {
		t.Helper()
		w.poll()
		all, _ := w.session.Sources()
		var found []string
		for _, s := range all {
			for _, f := range s.Findings {
				if f.Name == count.Repeated {
					found = append(found, s.Name+": "+f.Name)
				}
			}
		}
		if !slices.Equal(found, []string{other + ": repeated"}[:is]) ||
			strings.Count(said.String(), "too, so that their requests count twice") != warned {
			t.Errorf("%s: %q, want %d and %d warnings\n%s", step, found, is, warned, &said)
		}
	}
	copyTo := func(path string) {
		text, err := os.ReadFile(w.log())
		w.ok(err)
		w.ok(os.WriteFile(path, text, 0o600))
	}
	day := analytics.DateOf(w.now)
	w.write(day, 100)
	check("written", 0, 0)
	w.rotate()
	w.write(day, 100)
	check("renamed", 0, 0)
	copyTo(w.log() + ".copy.log")
	copyTo(w.log() + "-20260110")
	check("copied", 0, 0)
	w.ok(os.Truncate(w.log(), 0))
	check("emptied", 0, 0)
	w.write(day, 100)
	check("written again", 0, 0)
	w.ok(exec.CommandContext(t.Context(), "gzip", w.log()+".1").Run())
	check("compressed", 0, 0)
	w.stop()
	w.start()
	w.session.Logger = slog.New(slog.NewTextHandler(&said, nil))
	check("started again", 0, 0)
	w.write(day, 300)
	copyTo(other)
	check("a second log", 1, 1)
	w.write(day, 1)
	copyTo(other)
	check("and more of it", 1, 1)
	w.now = w.now.Add(48 * time.Hour)
	w.write(day+2, 20)
	check("two days later", 0, 1)
}

// TestCollectingFails: what keeps the logs from being collected is said by the metrics and the readiness.
func TestCollectingFails(t *testing.T) {
	w := newWorld(t, 8, time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC))
	w.write(analytics.DateOf(w.now), 5)
	w.poll()
	c := w.session.Collector
	e := NewExposition(c, NewAnswers(w.store, c.CollectOptions), c.rules)
	shown := func() string {
		answer := httptest.NewRecorder()
		e.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		return answer.Body.String()
	}
	if c.setResult(nil); len(e.Ready()) > 0 || !strings.Contains(shown(), "docgauge_site_collecting 1\n") {
		t.Errorf("%v; %s", e.Ready(), shown())
	}
	w.stop()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) }) // into a store that is closed
	for c.Failed() == nil && ctx.Err() == nil {
		runtime.Gosched()
	}
	stop()
	running.Wait()
	if !strings.Contains(fmt.Sprint(e.Ready()), "logs not collected: ") ||
		!strings.Contains(shown(), "docgauge_site_collecting 0\n") {
		t.Errorf("%v; %s", e.Ready(), shown())
	}
}

// TestNeverRead: a log of which no line was ever read is warned of at the start and once a day.
func TestNeverRead(t *testing.T) {
	w := newWorld(t, 9, time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC))
	w.silent = true
	w.ok(os.WriteFile(filepath.Join(w.dir, "other.log"), nil, 0o600))
	w.start()
	var said bytes.Buffer
	w.session.Logger = slog.New(slog.NewTextHandler(&said, nil))
	w.write(analytics.DateOf(w.now), 3)
	for hour, want := range []int{0: 1, 23: 1, 24: 2, 25: 2} {
		w.poll()
		if n := strings.Count(said.String(), "no line of a log was ever read"); want > 0 && n != want ||
			n != strings.Count(said.String(), "log="+filepath.Join(w.dir, "other.log")) {
			t.Errorf("after %d hours: want %d warnings of other.log:\n%s", hour, want, &said)
		}
		w.now = w.now.Add(time.Hour)
	}
}

// TestLacks: answers that could lack lines are refused, and only those.
func TestLacks(t *testing.T) {
	dir := t.TempDir()
	store, err := facts.Open(filepath.Join(dir, "site"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	now := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	today := analytics.DateOf(now)
	a, b, many := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log"), filepath.Join(dir, "many")
	c := NewCollector(rulesOf(t, count.Settings{}), []logs.Source{{Project: "prj_a", Where: a}, {Project: "prj_b", Where: b},
		{Project: "prj_c", Where: many + "*.log"}}, store, CollectOptions{Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)})
	s, err := c.newSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.follower.Close() })
	e := NewExposition(c, NewAnswers(store, c.CollectOptions), c.rules)
	lineOf := func(at time.Time) string {
		return fmt.Sprintf("192.0.2.1 - - [%s] \"GET /a HTTP/1.1\" 200 5 \"-\" \"Mozilla/5.0 Firefox/120.0\"\n",
			at.Format("02/Jan/2006:15:04:05 -0700"))
	}
	line := lineOf(now.AddDate(0, 0, -2))
	write := func(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }
	for _, step := range []struct {
		name   string
		do     func() error
		ready  string
		wanted map[string]string // by project and days before today at which a window ends
	}{
		{"start", func() error { return nil }, "still being read",
			map[string]string{"prj_a 0": "still being read", "prj_b 9": "still being read"}},
		{"no b.log", func() error {
			return errors.Join(write(a, line), write(many+"1.log", line), write(many+"2.log", line), s.poll(t.Context()))
		}, "no such log",
			map[string]string{"prj_a 0": "", "prj_b 0": "log 2 of", "prj_b 9": "log 2 of"}},
		{"b.log", func() error { return errors.Join(write(b, line), s.poll(t.Context())) }, "",
			map[string]string{"prj_a 0": "", "prj_b 0": "", "prj_b 9": ""}},
		{"a directory", func() error {
			return errors.Join(os.Remove(b), os.Mkdir(b, 0o700), write(b+".1", line), s.poll(t.Context()))
		}, "is a directory",
			map[string]string{"prj_a -1": "", "prj_b 2": "", "prj_b 1": "was read up to 2026-01-08T12"}},
		{"one of several", func() error {
			return errors.Join(os.Remove(many+"2.log"), syscall.Mkfifo(many+"2.log", 0o600), write(many+"1.log", line+lineOf(now)),
				s.poll(t.Context()))
		}, "is a named pipe",
			map[string]string{"prj_a -1": "", "prj_c 2": "", "prj_c 1": "was read up to 2026-01-08T12"}},
		{"the other again", func() error {
			return errors.Join(os.Remove(many+"2.log"), write(many+"2.log", line+lineOf(now)), s.poll(t.Context()))
		}, "is a directory", map[string]string{"prj_c 0": ""}},
		{"b.log again", func() error { return errors.Join(os.Remove(b), write(b, line), s.poll(t.Context())) }, "",
			map[string]string{"prj_b 0": ""}},
		{"disk full", func() error { c.setResult(syscall.ENOSPC); return nil }, "not collected",
			map[string]string{"prj_a 9": "cannot be kept", "prj_b 0": "cannot be kept"}},
		{"space", func() error { c.setResult(nil); return nil }, "", map[string]string{"prj_a 0": "", "prj_b 0": ""}},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		ready := strings.Join(e.Ready(), "; ")
		if (ready == "") != (step.ready == "") || !strings.Contains(ready, step.ready) {
			t.Errorf("%s: ready says %q, want %q", step.name, ready, step.ready)
		}
		for of, want := range step.wanted {
			var project string
			var ago int
			_, _ = fmt.Sscan(of, &project, &ago)
			err := c.Lacks(project, today-analytics.Date(ago))
			r, _ := errors.AsType[*api.Refusal](err)
			if (r == nil) != (want == "") || r != nil && (!strings.Contains(r.Message, want) || r.Status != 503 ||
				r.Header.Get("Retry-After") == "" || strings.Contains(r.Message, dir)) {
				t.Errorf("%s, %s: %v; want %q", step.name, of, err, want)
			}
		}
	}
}

// TestFullDisk: while the disk is full nothing is collected and the answers stay; later each line counts once.
func TestFullDisk(t *testing.T) {
	w := newWorld(t, 5, time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC))
	defer w.stop()
	day, dir := analytics.DateOf(w.now), filepath.Join(w.dir, "site")
	w.ok(os.Mkdir(dir, 0o700))
	faults.Mount(t, dir, "4m")
	w.write(day, 50)
	w.poll()
	full := filepath.Join(dir, "full")
	faults.FillDisk(t, full)
	w.write(day, 50)
	for range 2 {
		if err := w.session.poll(t.Context()); !errors.Is(err, syscall.ENOSPC) && !strings.Contains(fmt.Sprint(err), "full") {
			t.Fatalf("collected on a full disk: %v", err)
		}
		w.check(day, day+1)
	}
	w.ok(os.Remove(full))
	w.stop() // as Run does after an error
	w.poll()
	w.check(day, day+1)
	if problems, err := w.store.Verify(t.Context()); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// TestAddedLater: a log that is added when its months are closed is warned of once.
func TestAddedLater(t *testing.T) {
	w := newWorld(t, 10, time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC))
	w.write(analytics.DateOf(w.now), 5)
	w.poll()
	w.now = w.now.AddDate(0, 3, 0)
	w.poll()
	w.stop()
	lines := strings.Repeat("192.0.2.1 - - [30/Jan/2026:10:00:00 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"Firefox\"\n", 3)
	w.ok(os.WriteFile(filepath.Join(w.dir, "other.log"), []byte(lines), 0o600))
	w.silent = true
	var said bytes.Buffer
	for range 3 {
		w.start()
		w.session.Logger = slog.New(slog.NewTextHandler(&said, nil))
		w.poll()
		w.stop()
	}
	if n := strings.Count(said.String(), "lines of months that are closed are not counted"); n != 1 {
		t.Errorf("warned %d times:\n%s", n, &said)
	}
}

// TestUnreadableFileHoldsTheEpoch: a file of a glob does not close the month of another that cannot be read.
func TestUnreadableFileHoldsTheEpoch(t *testing.T) {
	w := newWorld(t, 11, time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC))
	w.write(analytics.DateOf(w.now), 5)
	w.poll()
	c := w.session.Collector
	w.now = time.Date(2026, 3, 6, 12, 0, 0, 0, time.UTC)
	w.session.sources[0].Watermark = w.now.Unix()
	end := facts.EpochOf(analytics.NewDate(2025, 12, 1)).To().Time().Add(epochGrace)
	if !w.session.past(count.DefaultProject, end) {
		t.Error("is not past although its only log is")
	}
	c.mu.Lock()
	c.status[0].Err = "b.log: permission denied"
	c.mu.Unlock()
	if w.session.past(count.DefaultProject, end) {
		t.Error("is past although a file was not read")
	}
}

// jump sets the clock.
func (w *world) jump(by time.Duration) { w.now, w.skew = w.now.Add(by), w.skew+by }

// TestClock: whatever a clock shows that is wrong for a moment, in the end the site has what one with a right clock has.
func TestClock(t *testing.T) {
	const year = 365 * 24 * time.Hour
	start := time.Date(2026, 11, 28, 9, 17, 0, 0, time.UTC)
	collect := func(w *world) {
		w.start()
		w.ok(w.session.poll(t.Context()))
		w.ok(w.session.tidy(t.Context()))
	}
	for _, c := range []struct {
		name  string
		first time.Duration // the error of the clock at the first start
		by    []time.Duration
	}{
		{name: "behind by two days", by: []time.Duration{-2 * 24 * time.Hour}},
		{name: "behind by 25 hours", by: []time.Duration{-25 * time.Hour}},
		{name: "behind by two hours", by: []time.Duration{-2 * time.Hour}},
		{name: "ahead by two hours", by: []time.Duration{2 * time.Hour}},
		{name: "ahead by five hours", by: []time.Duration{5 * time.Hour}},
		{name: "ahead by three days", by: []time.Duration{3 * 24 * time.Hour}},
		{name: "ahead by 50 days", by: []time.Duration{50 * 24 * time.Hour}},
		{name: "ahead by three days at the start", first: 3 * 24 * time.Hour},
		{name: "ahead by 50 days at the start", first: 50 * 24 * time.Hour},
		{name: "ahead by three years at the start", first: 3 * year},
		{name: "ahead by three years", by: []time.Duration{3 * year}},
		{name: "behind by a year", by: []time.Duration{-year}},
		{name: "behind by a year at the start", first: -year},
		{name: "behind by three days at the start", first: -3 * 24 * time.Hour},
		{name: "to and fro", by: []time.Duration{50 * 24 * time.Hour, -year, 3 * year}},
	} {
		for _, isRestarted := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, ", restarted ", isRestarted), func(t *testing.T) {
				w := newWorld(t, 1, start)
				w.months = 13
				today := analytics.DateOf(start)
				wrong := func(by time.Duration, who int) {
					if isRestarted {
						w.stop()
					}
					w.jump(by)
					w.write(today, who)
					collect(w)
					w.now = w.now.Add(4 * time.Second)
					collect(w)
					w.jump(-by)
					if isRestarted {
						w.stop()
					}
				}
				w.write(today-40, 7)
				w.write(today, 50)
				if c.first != 0 {
					wrong(c.first, 20)
				}
				collect(w)
				for _, by := range c.by {
					wrong(by, 20)
				}
				w.write(today, 10)
				collect(w)
				w.now = w.now.Add(25 * time.Hour)
				w.write(today+1, 10)
				collect(w)
				w.counted, w.waiting = w.waiting, nil
				w.check(today-40, today-39)
				w.check(today, today+2)
				open, err := w.store.OpenEpochs(t.Context())
				w.ok(err)
				if len(open) != 2 {
					t.Errorf("%v are open, want October's and November's", open)
				}
				sources, _ := w.session.Sources()
				if n := sources[0].Lines; n["late"]+n["outside"] > 0 || n["view"] != int64(len(w.counted)) {
					t.Errorf("%v, want %d views", n, len(w.counted))
				}
				if w.session.clock.isHeld.Load() {
					t.Error("held up after 25 hours")
				}
				w.now = w.now.AddDate(0, 0, 30)
				collect(w)
				if open, err = w.store.OpenEpochs(t.Context()); err != nil || len(open) != 1 {
					t.Errorf("%v, %v are open at the end of December, want November's alone", open, err)
				}
			})
		}
	}
}

// TestHeldUp: how long a jump holds up what cannot be undone, and what is no jump.
func TestHeldUp(t *testing.T) {
	start := time.Date(2026, 1, 20, 9, 17, 0, 0, time.UTC)
	day := analytics.DateOf(start)
	for _, c := range []struct {
		name string
		stop int                        // days without docgauge
		line func(day int) (lines bool) // whether the log has lines of such a day
		want int                        // hours until the epoch of December is closed after it is due
	}{
		{"off for 30 days", 30, func(int) bool { return false }, 24},
		{"stopped for 30 days beside a busy server", 30, func(int) bool { return true }, 0},
		{"stopped for 30 days beside a quiet server", 30, func(day int) bool { return day%3 == 0 }, 0},
		{"stopped for 30 days, the server for four", 30, func(day int) bool { return day < 11 || day > 14 }, 24},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 2, start)
			w.silent = true // so that the age alone closes the epoch
			w.write(day, 3)
			collect := func() bool {
				w.start()
				w.ok(w.session.poll(t.Context()))
				w.ok(w.session.tidy(t.Context()))
				open, err := w.store.OpenEpochs(t.Context())
				w.ok(err)
				return open[0].Epoch != facts.EpochOf(day)-1
			}
			collect()
			w.stop()
			w.now = start.AddDate(0, 0, c.stop)
			for i := range c.stop {
				if c.line(i + 1) {
					w.write(day+analytics.Date(i+1), 1)
				}
			}
			for hour := range 100 {
				if isClosed := collect(); isClosed != (hour >= c.want) {
					t.Fatalf("closed after %d hours: %v, want it after %d", hour, isClosed, c.want)
				}
				if hour%5 == 3 {
					w.stop() // the hours are summed over restarts
					collect()
				}
				w.now = w.now.Add(time.Hour)
			}
		})
	}
}

// TestLineOfTheFuture: one line with a wrong date holds up nothing once a right one follows, or once the clock has
// gone evenly for a day.
func TestLineOfTheFuture(t *testing.T) {
	w := newWorld(t, 3, time.Date(2026, 1, 20, 9, 17, 0, 0, time.UTC))
	day := analytics.DateOf(w.now)
	far := analytics.NewDate(2099, 1, 1)
	lines := func(views, outside int64) {
		t.Helper()
		w.start()
		w.ok(w.session.poll(t.Context()))
		w.ok(w.session.tidy(t.Context()))
		sources, _ := w.session.Sources()
		if n := sources[0].Lines; n["view"] != views || n["outside"] != outside {
			t.Errorf("%v, want %d views and %d outside", n, views, outside)
		}
	}
	w.write(day, 3)
	w.write(far, 1)
	w.write(day, 3)
	lines(6, 1)
	w.write(far, 1)
	w.writeText("no line of a log\n")
	lines(6, 1) // is it the clock?
	sources, _ := w.session.Sources()
	if said := sources[0].Err; !strings.Contains(said, "2099-01-01") || !strings.Contains(said, "2026-01-20") {
		t.Errorf("said %q", said)
	}
	w.write(day, 1)
	lines(7, 2)
	w.now = w.now.Add(20 * time.Hour)
	lines(7, 2)
	w.write(far, 1)
	lines(7, 2)
	w.now = w.now.Add(4 * time.Hour)
	lines(7, 3)
	w.write(far, 1)
	lines(7, 4)
}
