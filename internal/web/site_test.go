package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// counting is a sink that counts the windows that are read.
type counting struct {
	sinks.Sink
	windows int
}

func (c *counting) Window(ctx context.Context, rev analytics.Revision, dir string) (sinks.Sealed, func() error, error) {
	c.windows++
	return c.Sink.Window(ctx, rev, dir)
}

// liveSnapshot is two projects with jobs, and the sink that has their newest windows.
func liveSnapshot() (*view.Snapshot, *sinktest.Memory) {
	s := &view.Snapshot{
		At: testbed.Now, LastSuccess: testbed.Now, Runs: []analytics.Run{{Outcome: "success", Started: testbed.Now}},
		Projects: []view.Project{
			madeUpProject("docs-main", analytics.NewDate(2026, 7, 1), 1800), madeUpProject("developer-hub",
				analytics.NewDate(2026, 9, 1), 96),
		},
		Queue: &view.Queue{
			Jobs: madeUpJobs("docs-main"), Waiting: []view.Job{{Project: "docs-main", Prompt: "later.md",
				State: "pending"}},
			Problem: "/srv/prompts: no such directory",
		},
	}
	s.Projects[0].Name = "Product docs"
	sink := sinktest.NewMemory()
	for _, p := range s.Projects {
		for _, g := range p.Grids {
			if newest := g.Newest; newest != nil && !g.TotalsOnly {
				sink.Put(*newest, rows(*newest, "/new"), nil)
				if before := g.EndingAt(g.Granularity.ComparedWith(newest.Window).To); before != nil {
					sink.Put(*before, rows(*before, "/old"), nil)
				}
			}
		}
	}
	return s, sink
}

// rows are the pages of a reading by path.
func rows(r analytics.Revision, extra string) []analytics.Row {
	out := madeUpPages(r, extra)
	slices.SortFunc(out, func(a, b analytics.Row) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func visit(t *testing.T, l http.Handler, target string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	l.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	for _, name := range []string{"script-src 'sha256-", "frame-ancestors 'none'"} {
		wants(t, w.Header().Get("Content-Security-Policy"), name)
	}
	return w.Code, w.Body.String()
}

// TestNewest: a view of the newest window shows the numbers of the snapshot and the pages that were read for
// it, and reads nothing itself; only a new reading is read again.
func TestNewest(t *testing.T) {
	var s *view.Snapshot
	site := &web.Site{Current: func() *view.Snapshot { return s }, Version: "v1",
		Archive: func(func(sinks.Sink) error) error { t.Error("a view asks the archive"); return nil }}
	pages := site.Handlers()
	for _, path := range []string{"/", "/report", "/jobs"} {
		if code, body := visit(t, pages[path], path); code != http.StatusServiceUnavailable ||
			!strings.Contains(seen(body), "No numbers yet") {
			t.Error(path, code, body)
		}
	}
	var memory *sinktest.Memory
	s, memory = liveSnapshot()
	code, body := visit(t, pages["/"], "/")
	text := seen(body)
	if code != http.StatusOK || strings.Contains(text, "compared with") ||
		!strings.Contains(text, "not been read from a sink yet") {
		t.Errorf("%d, and pages that were not read", code)
	}
	wants(t, text, "Readers Pages Jobs Status", "Product docs Product docs developer-hub Day Week Month 28 days",
		commas(s.Projects[0].Grids[1].Newest.Totals.Total)+" readers during 28 Sep – 4 Oct 2026",
		"Up to date , 1 problem. The last successful export ended just now . Status")
	_, file := visit(t, pages["/report"], "/report")
	wants(t, seen(file), "Documentation readers of Product docs", "later.md pending", "#431",
		"The newest export started just now and succeeded .")

	sink := &counting{Sink: memory}
	refresh := func() error {
		next := *s
		s = &next
		return site.Refresh(t.Context(), s, []sinks.Sink{sink})
	}
	must(t, refresh())
	read := sink.windows
	for range 3 {
		_, body = visit(t, pages["/"], "/?project=docs-main")
		_, file = visit(t, pages["/report"], "/report?project=docs-main&window=week")
	}
	for _, body := range []string{body, file} {
		wants(t, seen(body), "compared with 21–27 Sep 2026", "/new",
			"Vanished 1 page with readers in 21–27 Sep 2026", "/old")
		if strings.Contains(body, "/srv/prompts") {
			t.Error("the page has a path of the machine")
		}
	}
	if _, body = visit(t, pages["/jobs"], "/jobs?project=developer-hub"); strings.Contains(body, "#431") ||
		!strings.Contains(body, `href="jobs?project=docs-main"`) {
		t.Error("the second project has jobs of the first, or no link to it")
	}
	must(t, refresh())
	if sink.windows != read || read == 0 {
		t.Errorf("%d windows were read, then %d", read, sink.windows)
	}

	// The week is read again: the former pages are not shown beside the new numbers.
	next := *s.Projects[0].Grids[1].Newest
	next.Number++
	s.Projects[0].Grids[1].Cells[len(s.Projects[0].Grids[1].Cells)-1].Revision = &next
	s.Projects[0].Grids[1].Count()
	must(t, refresh())
	if _, body = visit(t, pages["/"], "/"); strings.Contains(seen(body), "compared with 21–27 Sep 2026") {
		t.Error("pages of one reading beside the numbers of another")
	}
	memory.Put(next, rows(next, "/newer"), nil)
	must(t, refresh())
	_, body = visit(t, pages["/"], "/")
	wants(t, body, "/newer", "/old")
}

// TestSinks: where one sink fails the next is read.
func TestSinks(t *testing.T) {
	s, memory := liveSnapshot()
	site := &web.Site{Current: func() *view.Snapshot { return s }, Version: "v1"}
	must(t, site.Refresh(t.Context(), s, []sinks.Sink{sinktest.NewMemory(), memory}))
	_, body := visit(t, site.Handlers()["/"], "/")
	wants(t, seen(body), "compared with 21–27 Sep 2026")
	if err := new(web.Site).Refresh(t.Context(), s, []sinks.Sink{sinktest.NewMemory()}); err == nil ||
		!strings.Contains(err.Error(), "docs-main week") {
		t.Errorf("no sink has the pages: %v", err)
	}
}
