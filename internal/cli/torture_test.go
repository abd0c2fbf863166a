package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/parquet"
)

var tortureKills = flag.Int("torture", 12, "how often TestTorture kills the real binary; `make torture` uses 200")

// TestTorture kills the real binary at random moments and at each named step, while readers
// open every .parquet file and ask every other sink, the service refuses a project or a report, and
// clocks are wrong; then one run must finish the work: every window of both reports exactly once, each
// row equal to the service's.
func TestTorture(t *testing.T) {
	kills := *tortureKills
	if testing.Short() {
		kills /= 3
	}
	torture(t, kills, warehouses(t))
}

// TestTortureBucket is TestTorture for tables of Delta Lake in a bucket.
func TestTortureBucket(t *testing.T) {
	engines.Long(t)
	w, err := newDeltaBucket(t)
	engines.Need(t, err)
	torture(t, max(6, *tortureKills/4), []warehouse{w})
}

func torture(t *testing.T, kills int, all []warehouse) {
	s := tortureService(t, 700)
	r := &runs{service: s.Sandbox, gate: newGate(t, s.URL)}
	r.place = torturePlace(t, r.gate)
	watch := watchFiles(t, filepath.Join(r.dir, "data"))
	chosen := []string{"parquet"}
	var stops []func() int
	for _, w := range all {
		chosen, r.env = append(chosen, w.name), append(r.env, w.env...)
		reader := &reader{warehouse: w, t: t, service: s.Sandbox}
		r.readers, stops = append(r.readers, reader), append(stops, reader.watch())
	}
	r.env = append(r.env, "DOCGAUGE_SINKS="+strings.Join(chosen, ","))
	killed, rounds, windows, rows := 0, 0, 0, 0
	for i := 1; killed < kills; i++ {
		if i > 20*kills {
			t.Fatalf("only %d of %d runs could be killed", killed, i)
		}
		if r.killOnce(t, i) {
			killed++
		}
		// A round ends before the work is done for good: there must be
		// something to kill.
		if i%roundRuns == 0 || killed == kills {
			w, n := r.healed(t)
			windows, rows, rounds = windows+w, rows+n, rounds+1
		}
	}
	t.Logf("%d kills in %d rounds, one run after each: %d windows and %d rows equal to the service's, each once; %d "+
		"files opened in between, none unreadable; %v",
		killed, rounds, windows, rows, watch.stop(), r.gate.drawn)
	for i, stop := range stops {
		t.Logf("%s asked %d times, never half a window", r.readers[i].name, stop())
	}
}

// runs are runs of the real binary, and readers of its output.
type runs struct {
	place
	service *sandbox.Sandbox
	gate    *gate
	readers []*reader
}

// roundRuns is the number of runs that are killed before one is let through.
const roundRuns = 12

// healed lets one run through, compares everything with the service, and clears
// the table for the next round.
func (r *runs) healed(t *testing.T) (windows, rows int) {
	r.gate.heal()
	r.try(t, "check") // asks again for refused windows
	r.run(t, "export")
	if out := r.run(t, "export"); !strings.Contains(string(out), "0 windows, 0 rows, 0 requests") {
		t.Fatalf("a second run found work: %s", out)
	}
	windows, rows = compareAll(t, r.service, filepath.Join(r.dir, "data"), exported...)
	for _, reader := range r.readers {
		reader.compare(windows, rows)
	}
	check(t, errors.Join(os.RemoveAll(filepath.Join(r.dir, "state")),
		os.RemoveAll(filepath.Join(r.dir, "data"))))
	return windows, rows
}

// exported are the projects of the tortures of exports, refusable what the service refuses.
var (
	exported  = []string{sandbox.DefaultProject, "prj_other"}
	refusable = append(exported, analytics.AgentsReport.String(), analytics.AgentsReport.String())
)

// tortureService is a sandbox whose windows do not change. For it all days are over that any of the wrong clocks
// may export.
func tortureService(t *testing.T, pages int) *testbed.Service {
	const ahead = 100
	return testbed.NewService(t, sandbox.Config{Seed: 7, Days: 20 + ahead, Pages: pages, Projects: exported,
		Now:    func() time.Time { return time.Now().AddDate(0, 0, ahead) },
		Faults: sandbox.Faults{Latency: 3 * time.Millisecond}})
}

// torturePlace is where the runs of a torture export 14 days of both reports.
func torturePlace(t *testing.T, g *gate) place {
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	return placeFor(t, &testbed.Service{URL: server.URL}, exported, "DOCGAUGE_OPEN_WINDOWS=",
		"DOCGAUGE_SINCE="+testbed.DaysAgo(14).String(), "DOCGAUGE_WINDOWS=day,week,3d:totals",
		"DOCGAUGE_REPORTS=visitors,agents")
}

// export is one export by the real binary, killed at a step.
func (r *runs) export(stop string) *exec.Cmd {
	cmd := r.command("export")
	cmd.Env = append(cmd.Env, "STOP_AT="+stop)
	return cmd
}

// gate stands between docgauge and its service. It refuses a project or a report, and has the service be as
// wrong about the time as docgauge, or right.
type gate struct {
	service *httputil.ReverseProxy

	mu      sync.Mutex
	refused string // a project or a report
	status  int
	ahead   time.Duration // offset of docgauge's clock; negative = behind
	known   bool          // by the service's Date
	drawn   map[string]int
}

// wrongClocks are the offsets of docgauge's clock that the tortures draw from.
var wrongClocks = []time.Duration{-48 * time.Hour, -25 * time.Hour, -2 * time.Hour, 2 * time.Hour, 5 * time.Hour,
	72 * time.Hour, 50 * 24 * time.Hour}

func newGate(t *testing.T, service string) *gate {
	target, err := url.Parse(service)
	check(t, err)
	g := &gate{drawn: map[string]int{}}
	g.service = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: g.date,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:       log.New(io.Discard, "", 0), // clients are killed
	}
	return g
}

// date sets the Date of an answer back by as much as docgauge's clock is ahead: the client compares it with the
// clock of its process, which is right.
func (g *gate) date(answer *http.Response) error {
	date, err := http.ParseTime(answer.Header.Get("Date"))
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known {
		answer.Header.Set("Date", date.Add(-g.ahead).Format(http.TimeFormat))
	}
	return err
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	refused, status := g.refused, g.status
	g.mu.Unlock()
	if refused != "" && slices.Contains(strings.Split(r.URL.Path, "/"), refused) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":"the gate refuses %s"}`, refused)
		return
	}
	g.service.ServeHTTP(w, r)
}

// draw changes what is wrong: every other time nothing. What can be refused are projects and reports.
func (g *gate) draw(intN func(int) int, refusable ...string) {
	g.heal()
	switch intN(6) {
	case 0, 1:
		what := refusable[intN(len(refusable))]
		statuses := []int{http.StatusUnauthorized, http.StatusForbidden}
		if what == analytics.AgentsReport.String() {
			statuses = append(statuses, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusBadRequest,
				http.StatusNotImplemented)
		}
		g.refuse(what, statuses[intN(len(statuses))])
	case 2:
		g.setClock(wrongClocks[intN(len(wrongClocks))], intN(2) == 0)
	}
	g.drawn[g.String()]++
}

// refuse has a project or a report answered with a status.
func (g *gate) refuse(what string, status int) { g.set(what, status, 0, false) }

// setClock makes docgauge's clock wrong. The service's Date is as wrong, or right.
func (g *gate) setClock(ahead time.Duration, known bool) { g.set("", 0, ahead, known) }

// heal ends what is wrong.
func (g *gate) heal() { g.set("", 0, 0, false) }

func (g *gate) set(refused string, status int, ahead time.Duration, known bool) {
	g.mu.Lock()
	g.refused, g.status, g.ahead, g.known = refused, status, ahead, known
	g.mu.Unlock()
}

// clock is the variable with docgauge's clock.
func (g *gate) clock() string { return "CLOCK_AHEAD=" + g.ahead.String() }

// fails reports whether what is wrong explains an exit code.
func (g *gate) fails(code int) bool { return code == exitFailed && (g.status > 0 || g.known) }

func (g *gate) String() string {
	switch {
	case g.status > 0:
		return fmt.Sprintf("%s refused with %d", g.refused, g.status)
	case g.ahead != 0:
		return fmt.Sprintf("a clock %v ahead, Date right: %v", g.ahead, g.known)
	}
	return "nothing wrong"
}

// killSteps are the steps of an export at which it can be killed.
var killSteps = []string{"started", "page", "fetched", "sealed", "recorded", "replaced", "committed", "done"}

// killOnce runs the binary and kills it: at a random moment, or every other
// time at another step. It reports whether the kill came in time.
func (r *runs) killOnce(t *testing.T, i int) bool {
	stop := ""
	if i%2 == 0 {
		stop = fmt.Sprintf("%s:%d", killSteps[(i/2)%len(killSteps)], 1+rand.IntN(3))
	}
	r.gate.draw(rand.IntN, refusable...)
	cmd := r.export(stop)
	cmd.Env = append(cmd.Env, r.gate.clock())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	check(t, cmd.Start())
	if stop == "" {
		time.AfterFunc(time.Duration(rand.IntN(400))*time.Millisecond, func() { _ = cmd.Process.Kill() })
	}
	err := cmd.Wait()
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return false
	case !failed, exit.Exited() && !r.gate.fails(exit.ExitCode()):
		t.Fatalf("run %d with %s: %v\n%s", i, r.gate, err, stderr.String())
	}
	return !exit.Exited()
}

// watcher is the reader: it opens every .parquet file there is, again and again.
type watcher struct {
	t     *testing.T
	end   context.CancelFunc
	ended sync.WaitGroup
	files int
}

func watchFiles(t *testing.T, root string) *watcher {
	ctx, end := context.WithCancel(context.Background())
	w := &watcher{t: t, end: end}
	w.ended.Go(func() {
		for ctx.Err() == nil {
			w.look(root)
			time.Sleep(betweenLooks)
		}
	})
	t.Cleanup(func() { w.stop() }) // where the test has failed before
	return w
}

func (w *watcher) stop() int {
	w.end()
	w.ended.Wait()
	return w.files
}

func (w *watcher) look(root string) {
	_ = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".parquet") {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return nil // removed when a new round began
		}
		defer f.Close()
		info, err := f.Stat()
		if err == nil {
			_, err = archive.ReadFooter(f, info.Size())
		}
		if err != nil {
			w.t.Errorf("a reader cannot open %s: %v", path, err)
		}
		w.files++
		return nil
	})
}

// isOver reports whether a window is over. One that is not was read while clocks were wrong: a run by a right clock
// neither delivers it to a sink that lacks it nor reads it again before it is over.
func isOver(w analytics.Window) bool { return w.Complete(time.Now()) }

// compareAll compares every window below root with the service, and counts those that are over.
func compareAll(t *testing.T, s *sandbox.Sandbox, root string, projects ...string) (windows, rows int) {
	sink, err := parquet.New(root, analytics.Reports...)
	check(t, err)
	seen := map[analytics.Key]bool{}
	for rev, err := range sink.Revisions(t.Context()) {
		check(t, err)
		if seen[rev.Key] {
			t.Errorf("%s is there twice", rev.Key)
		}
		seen[rev.Key] = true
		n := 0
		if rev.Report == analytics.AgentsReport {
			n = compareAgents(t, s, root, rev)
		} else {
			n = compareVisitors(t, s, root, rev)
		}
		if isOver(rev.Window) {
			windows, rows = windows+1, rows+n
		}
	}
	// 14 days; Mondays decide how many weeks; 14-3+1 rolling windows.
	for i := range 14 * len(projects) {
		d := analytics.DateOf(time.Now()) - analytics.Date(i/len(projects)+1)
		if k := (analytics.Key{Project: projects[i%len(projects)], Granularity: analytics.Day,
			Window: analytics.Window{From: d, To: d + 1}}); !seen[k] {
			t.Errorf("%s is lost", k)
		}
	}
	return windows, rows
}

// windowFile is the file of a window below root.
func windowFile(t *testing.T, root string, rev analytics.Revision) *archive.File {
	path := filepath.Join(root, rev.Report.String(), "v1", "p="+rev.Project, "g="+string(rev.Granularity),
		"ym="+rev.From.Time().Format("2006-01"), fmt.Sprintf("%s_%s.parquet", rev.From, rev.To))
	f, err := archive.Open(path)
	check(t, err)
	return f
}

// agentsOf are the rows of a window of agents as the service has them.
func agentsOf(t *testing.T, s *sandbox.Sandbox, rev analytics.Revision) []analytics.AgentRow {
	site, rows, err := s.Agents(rev.Project, rev.Window)
	if err != nil {
		t.Error(err)
	}
	if rev.TotalsOnly() {
		rows = nil
	}
	return slices.SortedFunc(slices.Values(slices.Concat(site, rows)), analytics.AgentRow.Compare)
}

func compareAgents(t *testing.T, s *sandbox.Sandbox, root string, rev analytics.Revision) int {
	var got []analytics.AgentRow
	for r, err := range sinks.RowsOf[analytics.AgentRow](windowFile(t, root, rev)) {
		check(t, err)
		got = append(got, r)
	}
	want := agentsOf(t, s, rev)
	if !slices.Equal(want, got) || !rev.Verified {
		t.Errorf("%s: %d rows, the service has %d; verified %v", rev.Key, len(got), len(want), rev.Verified)
	}
	return int(max(rev.Rows, 0))
}

func compareVisitors(t *testing.T, s *sandbox.Sandbox, root string, rev analytics.Revision) int {
	totals, want, err := s.Visitors(rev.Project, rev.Window)
	if err != nil || totals != rev.Totals || !rev.Verified {
		t.Errorf("%s: totals %+v, the service has %+v (%v); verified %v", rev.Key, rev.Totals,
			totals, err, rev.Verified)
	}
	if rev.TotalsOnly() {
		return 0
	}
	byPath := map[string]analytics.Row{}
	for _, r := range want {
		byPath[r.Path] = r
	}
	got := map[string]analytics.Row{}
	n := 0
	for r, err := range sinks.RowsOf[analytics.Row](windowFile(t, root, rev)) {
		if err != nil {
			t.Error(err)
			return n
		}
		got[r.Path] = r
		n++
	}
	if diff := cmp.Diff(byPath, got); diff != "" || n != len(want) {
		t.Errorf("%s: %d rows, the service has %d; differences (-service +file):\n%s", rev.Key, n, len(want), diff)
	}
	return n
}
