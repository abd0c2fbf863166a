package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestMain lets the test binary be the bench's children, as the bench itself is.
func TestMain(m *testing.M) {
	isChild, err := runChild()
	if !isChild {
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// newLab starts a server for the binary, or for the real one.
func newLab(t *testing.T, binary string) *lab {
	t.Helper()
	if binary == "" {
		binary = engines.Docgauge(t)
	}
	l := &lab{binaries: map[string]string{docgaugeClient: binary}, dir: t.TempDir(), short: true, log: t.Output()}
	stop := l.startServer(context.WithoutCancel(t.Context())) // it ends after the test's context
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// TestShort builds and runs the real binary: it sends no more requests than needed, in any scenario.
func TestShort(t *testing.T) {
	engines.Long(t)
	all, err := newLab(t, "").measureAll(t.Context(), "", false)
	if err != nil {
		t.Fatal(err)
	}
	text := report(all)
	for _, c := range exportContests {
		if !strings.Contains(text, "| "+c.scenario+" ") {
			t.Errorf("no result for %q", c.scenario)
		}
	}
	for _, want := range []string{"| " + secondReading, "| Delta Lake ", "| " + caddyLog} {
		if !strings.Contains(text, want) {
			t.Errorf("no row with %q", want)
		}
	}
	for _, r := range all {
		v := r.values
		switch {
		case v["peak RSS"] <= 0 || v["CPU s"] <= 0 || v["seconds"] <= 0:
			t.Errorf("%+v: a cost of %+v", r.client, v)
		case r.table == exportTable && (v["ratio"] < 1 || r.client.budget > 0 && v["ratio"] > 1 || v["empty share"] > 1):
			t.Errorf("%s, %+v: %+v", r.scenario, r.client, v)
		}
	}
	if t.Failed() {
		t.Logf("the tables:\n%s", text)
	}
}

// TestPages reads windows of awkward sizes as a client does.
func TestPages(t *testing.T) {
	srv := httptest.NewServer(new(server).handler())
	defer srv.Close()
	var fewest int64
	for _, rows := range []int{0, 1, 249, 250, 251, 1000} {
		w := workload{1, rows, 0}
		fewest += w.fewest()
		paths := readWindow(t, srv.URL, w)
		if len(paths) != rows {
			t.Errorf("a window of %d rows served %d", rows, len(paths))
		}
		if rows > 1 && slices.IsSorted(paths) {
			t.Errorf("a window of %d rows came sorted: sorting it would be no work", rows)
		}
		slices.Sort(paths)
		if n := len(slices.Compact(slices.Clone(paths))); n != rows {
			t.Errorf("a window of %d rows has %d paths", rows, n)
		}
		for _, p := range paths {
			if len(p) < 30 || len(p) > 40 {
				t.Errorf("path %s has %d bytes, want 30 to 40", p, len(p))
			}
		}
	}
	requests := (&lab{server: srv.URL}).countRequests()
	if requests != 10 || fewest != 10 {
		t.Errorf("the server counted %d requests, %d are the fewest; want 10", requests, fewest)
	}
}

// readWindow reads one window page by page and returns its paths.
func readWindow(t *testing.T, base string, w workload) (paths []string) {
	t.Helper()
	var first visitor
	for p := range (order{Base: base, Work: w, First: firstDay}).pages(0) {
		if len(paths) == 0 {
			first = p.Totals
		}
		if p.Totals != first {
			t.Errorf("totals %v after %d rows, before %v", p.Totals, len(paths), first)
		}
		for _, v := range p.Visitors {
			if v.Total < max(v.Human, v.AI) || v.Total > v.Human+v.AI {
				t.Errorf("%+v cannot be: total is of the union", v)
			}
			paths = append(paths, v.Path)
		}
		if len(paths) > w.Rows {
			t.Fatalf("a window of %d rows does not end", w.Rows)
		}
	}
	return paths
}

func TestServerRefuses(t *testing.T) {
	srv := httptest.NewServer(new(server).handler())
	defer srv.Close()
	for _, path := range []string{
		"/nonsense/visitors?dateFrom=2025-01-01&limit=250&offset=0",
		"/5rows_0ms/visitors?dateFrom=yesterday&limit=250&offset=0",
		"/5rows_0ms/visitors?dateFrom=2025-01-01&limit=251&offset=0",
		"/5rows_0ms/visitors?dateFrom=2025-01-01&limit=250&offset=-1",
		"/5rows_0ms/visitors?dateFrom=2025-01-01&limit=250",
	} {
		resp, err := http.Get(srv.URL + "/v1/analytics" + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s, want 400", path, resp.Status)
		}
	}
}

// TestWrongCount: a client that reports other numbers than the server is an error.
func TestWrongCount(t *testing.T) {
	liar := t.TempDir() + "/docgauge"
	if err := os.WriteFile(liar, []byte("#!/bin/sh\necho '{\"rows\": 9, \"requests\": 0}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, liar)
	o := order{Base: l.server, Work: workload{1, 10, 0}, InFlight: 1, Dir: t.TempDir(), First: firstDay}
	err := l.installed(func() { l.export(t.Context(), client{name: docgaugeClient, inFlight: 1}, o) })
	if err == nil || !strings.Contains(err.Error(), "Rows:9") || !strings.Contains(err.Error(), "Rows:10") {
		t.Errorf("error %v, want both numbers of rows", err)
	}
}

// TestCompare: a client that occurs once is compared with all others, a former docgauge with the one that has the
// same settings.
func TestCompare(t *testing.T) {
	r := func(name string, inFlight int, seconds float64) result {
		return result{client: client{name: name, inFlight: inFlight}, values: values{"seconds": seconds}}
	}
	all := []result{
		r(plainClient, 1, 8), r(formerClient, 1, 6), r(docgaugeClient, 1, 4), r(formerClient, 4, 3),
		r(docgaugeClient, 4, 1),
	}
	compare(all)
	for i, want := range map[int]values{
		2: {"seconds": 4, "× plain": 2, "× before": 1.5, "× first": 2},
		4: {"seconds": 1, "× plain": 8, "× before": 3, "× first": 8},
	} {
		if !maps.Equal(all[i].values, want) {
			t.Errorf("%+v: compared as %v", all[i].client, all[i].values)
		}
	}
}

// TestCheck changes what docgauge and go-parquet wrote; each change is found.
func TestCheck(t *testing.T) {
	l := newLab(t, "")
	o := order{Base: l.server, Work: workload{2, 300, 0}, InFlight: 2, Dir: t.TempDir(), First: firstDay}
	look := func(rows int64, differ bool) {
		t.Helper()
		if got := findRows(t.Context(), o); got != (findings{rows, differ}) {
			t.Errorf("found %+v, want %d rows that differ: %v", got, rows, differ)
		}
	}
	readIntoParquet(o)
	look(600, false)
	second := o.Dir + "/" + o.day(1).Format(time.DateOnly) + ".parquet"
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	look(300, false)
	readIntoParquet(o)
	look(600, false)

	o.Dir = t.TempDir()
	l.export(t.Context(), client{name: docgaugeClient, inFlight: 1}, o)
	look(600, false)
	o.Work.Windows = 1
	look(600, true)
	o.Work = workload{2, 301, 0}
	look(600, true)
	o.Work.Rows = 300
	o.First = o.First.AddDate(0, 0, 1)
	look(600, true)
	o.First = firstDay
	if err := os.CopyFS(o.Dir+"/again", os.DirFS(o.Dir+"/data/visitors")); err != nil {
		t.Fatal(err)
	}
	look(1_200, true)
}

func TestMarkdown(t *testing.T) {
	got := markdown("a|× b", []string{"long|1"})
	want := "\n| a    | × b |\n| ---  | --- |\n| long | 1   |\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestPeers lets docgauge and go-parquet do the work of make bench-peers in small, and kills them half-way.
func TestPeers(t *testing.T) {
	l := newLab(t, "")
	text := report(l.comparePeers(t.Context(), peers[:2]))
	if !strings.Contains(text, "| "+goParquetClient+" ") {
		t.Fatalf("the table:\n%s", text)
	}
	work := killWork.shortened()
	repeated, found := l.killed(t.Context(), client{name: docgaugeClient, inFlight: 4, budget: largeBudget}, work)
	if repeated < 1 || repeated > 4 || found != (findings{Rows: work.totalRows()}) {
		t.Errorf("after the kill %d requests were repeated, there is %+v", repeated, found)
	}
}

func TestPeersMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	var log strings.Builder
	found := (&lab{log: &log}).installedPeers(peers)
	for _, want := range []string{"dlt, tuned", "run make bench-peers"} {
		if len(found) != 2 || !strings.Contains(log.String(), want) {
			t.Errorf("%d peers are there; the log lacks %q:\n%s", len(found), want, &log)
		}
	}
}

// TestPeerPrograms: without it, programs that Python cannot parse would only be found when dlt is
// installed.
func TestPeerPrograms(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	programs, err := filepath.Glob("[cp]*s/*.py")
	if err != nil || len(programs) != 5 {
		t.Fatalf("%q (%v), want five programs", programs, err)
	}
	const parse = "import ast, sys\nfor path in sys.argv[1:]: ast.parse(open(path).read(), path)"
	if out, err := exec.Command(python, append([]string{"-c", parse}, programs...)...).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
