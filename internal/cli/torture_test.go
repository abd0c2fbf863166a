package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
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
// open every .parquet file and ask every other sink; then one run must finish the work:
// every window of both reports exactly once, each row equal to the service's.
func TestTorture(t *testing.T) {
	torture(t, *tortureKills, warehouses(t))
}

// TestTortureBucket is TestTorture for tables of Delta Lake in a bucket.
func TestTortureBucket(t *testing.T) {
	w, err := newDeltaBucket(t)
	engines.Need(t, err)
	torture(t, max(6, *tortureKills/4), []warehouse{w})
}

func torture(t *testing.T, kills int, all []warehouse) {
	s := tortureService(t, 700)
	r := &runs{place: torturePlace(t, s.URL), service: s.Sandbox}
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
		"files opened in between, none unreadable",
		killed, rounds, windows, rows, watch.stop())
	for i, stop := range stops {
		t.Logf("%s asked %d times, never half a window", r.readers[i].name, stop())
	}
}

// runs are runs of the real binary, and readers of its output.
type runs struct {
	place
	service *sandbox.Sandbox
	readers []*reader
}

// roundRuns is the number of runs that are killed before one is let through.
const roundRuns = 12

// healed lets one run through, compares everything with the service, and clears
// the table for the next round.
func (r *runs) healed(t *testing.T) (windows, rows int) {
	r.run(t, "export")
	if out := r.run(t, "export"); !strings.Contains(string(out), "0 windows, 0 rows, 0 requests") {
		t.Fatalf("a second run found work: %s", out)
	}
	windows, rows = compareAll(t, r.service, filepath.Join(r.dir, "data"))
	for _, reader := range r.readers {
		reader.compare(windows, rows)
	}
	check(t, errors.Join(os.RemoveAll(filepath.Join(r.dir, "state")),
		os.RemoveAll(filepath.Join(r.dir, "data"))))
	return windows, rows
}

// tortureService is a sandbox whose closed windows do not change.
func tortureService(t *testing.T, pages int) *testbed.Service {
	return testbed.NewService(t, sandbox.Config{Seed: 7, Days: 20, Pages: pages,
		Faults: sandbox.Faults{Latency: 3 * time.Millisecond}})
}

// torturePlace is where the runs of a torture export 14 days of both reports.
func torturePlace(t *testing.T, url string) place {
	return placeFor(t, &testbed.Service{URL: url}, []string{sandbox.DefaultProject}, "DOCGAUGE_OPEN_WINDOWS=",
		"DOCGAUGE_SINCE="+testbed.DaysAgo(14).String(), "DOCGAUGE_WINDOWS=day,week,3d:totals",
		"DOCGAUGE_REPORTS=visitors,agents")
}

// export is one export by the real binary, killed at a step.
func (r *runs) export(stop string) *exec.Cmd {
	cmd := r.command("export")
	cmd.Env = append(cmd.Env, "STOP_AT="+stop)
	return cmd
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
	cmd := r.export(stop)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	check(t, cmd.Start())
	if stop == "" {
		time.AfterFunc(time.Duration(rand.IntN(400))*time.Millisecond, func() { _ = cmd.Process.Kill() })
	}
	err := cmd.Wait()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if err != nil && (!failed || exit.Exited()) {
		t.Fatalf("run %d: %v\n%s", i, err, stderr.String())
	}
	return err != nil
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

// compareAll compares every window below root with the service.
func compareAll(t *testing.T, s *sandbox.Sandbox, root string) (windows, rows int) {
	sink, err := parquet.New(root, analytics.Reports...)
	check(t, err)
	seen := map[analytics.Key]bool{}
	for rev, err := range sink.Revisions(t.Context()) {
		check(t, err)
		if seen[rev.Key] {
			t.Errorf("%s is there twice", rev.Key)
		}
		seen[rev.Key] = true
		if rev.Report == analytics.AgentsReport {
			windows++
			rows += compareAgents(t, s, root, rev)
			continue
		}
		totals, want, err := s.Visitors(rev.Project, rev.Window)
		if err != nil || totals != rev.Totals || !rev.Verified {
			t.Errorf("%s: totals %+v, the service has %+v (%v); verified %v", rev.Key, rev.Totals,
				totals, err, rev.Verified)
		}
		windows++
		if !rev.TotalsOnly() {
			rows += compareRows(t, root, rev, want)
		}
	}
	// 14 days; Mondays decide how many weeks; 14-3+1 rolling windows.
	for i := range 14 {
		d := analytics.DateOf(time.Now()) - analytics.Date(i+1)
		if k := (analytics.Key{Project: sandbox.DefaultProject, Granularity: analytics.Day,
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

func compareRows(t *testing.T, root string, rev analytics.Revision, want []analytics.Row) int {
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
