package warehouse

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// The exporter ran every morning from firstRun to today. The newest windows are
// not settled yet.
var (
	firstRun  = analytics.NewDate(2026, 10, 26)
	withdrawn = analytics.NewDate(2026, 10, 28) // when the bot's visits were
	today     = analytics.NewDate(2026, 11, 3)
)

const settle = 3 // days

// window is one revision with its rows, sorted by path.
type window struct {
	analytics.Revision
	rows    []analytics.Row
	records []analytics.Record // of another report than visitors
}

// history is everything that was read, in order; a window may appear again.
type history []window

// shown is the content of a sink after h: the newest revision of each window,
// sorted by project, granularity and date.
func (h history) shown() []window {
	newest := map[analytics.Key]window{}
	for _, w := range h {
		newest[w.Key] = w
	}
	return slices.SortedFunc(maps.Values(newest), func(a, b window) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Granularity, b.Granularity),
			cmp.Compare(a.From, b.From))
	})
}

// exported is the exported history of visitors, read once for all tests.
func exported(t *testing.T) history {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(ofAllReports(t)), func(w window) bool {
		return w.Report != analytics.VisitorsReport
	})
}

// ofAllReports is the exported history of all reports.
func ofAllReports(t *testing.T) history {
	t.Helper()
	h, err := reading()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// reading asks the sandbox for everything that was due each morning.
var reading = sync.OnceValues(func() (h history, err error) {
	dir, err := os.MkdirTemp("", "warehouse-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	now := today.Time()
	s, err := sandbox.New(sandbox.Config{Projects: projects, DataDir: dir, Now: func() time.Time { return now }})
	if err != nil {
		return nil, err
	}
	for day := firstRun; day <= today; day++ {
		now = day.Time().Add(6*time.Hour + 17*time.Minute)
		if day == firstRun || day == withdrawn {
			if err := os.WriteFile(filepath.Join(dir, "events.ndjson"), eventLog(day < withdrawn), 0o600); err != nil {
				return nil, err
			}
		}
		for _, key := range keys() {
			number := due(key, day)
			if number == 0 {
				continue
			}
			w, err := read(s, key, number, now)
			if err != nil {
				return nil, err
			}
			h = append(h, w)
			if w.TotalsOnly() {
				continue
			}
			if key.Granularity == analytics.Day {
				h = append(h, viewsOf(w))
				continue
			}
			h = append(h, sourcesOf(w))
			if w, err = readAgents(s, w.Revision); err != nil {
				return nil, err
			}
			h = append(h, w)
		}
	}
	return h, nil
})

// due returns the number of the revision of key that is read on day, or 0: the
// first when the window is over, the second when it has settled.
func due(key analytics.Key, day analytics.Date) int32 {
	first := max(key.To, firstRun)
	switch {
	case day == first:
		return 1
	case day == key.To+settle && day > first:
		return 2
	}
	return 0
}

// keys lists the complete windows of each project: days, weeks, a month, and
// rolling ones. Some of these begin with the last weeks, to catch queries that
// forget the granularity.
func keys() (all []analytics.Key) {
	firstMonday := lastWeek - 3*7
	for _, project := range projects {
		add := func(g analytics.Granularity, from, to analytics.Date) {
			all = append(all, analytics.Key{Project: project, Granularity: g,
				Window: analytics.Window{From: from, To: to}})
		}
		for day := firstMonday; day <= lastDay; day++ {
			add(analytics.Day, day, day+1)
		}
		for week := firstMonday; week <= lastWeek; week += 7 {
			add(analytics.Week, week, week+7)
		}
		add(analytics.Month, firstDay, lastDay)
		add("28d", lastDay-28, lastDay)
		add("28d", lastDay-27, lastDay+1)
		if project == projects[0] {
			add("14d", lastWeek-7, lastDay+1)
			add("7d", lastWeek, lastDay+1)
		}
	}
	return all
}

// read reads one window completely, or only the totals of 28 days.
func read(s *sandbox.Sandbox, key analytics.Key, number int32, now time.Time) (window, error) {
	totals, rows, err := s.Visitors(key.Project, key.Window)
	if err != nil {
		return window{}, err
	}
	w := window{Revision: analytics.Revision{
		Key: key, Number: number, Totals: totals, Rows: int64(len(rows)),
		Settled: key.To+settle <= analytics.DateOf(now), Verified: true, ExportedAt: now,
	}}
	if key.Granularity == "28d" {
		w.Revision.Rows = analytics.TotalsOnlyRows
		return w, nil
	}
	slices.SortFunc(rows, func(a, b analytics.Row) int { return cmp.Compare(a.Path, b.Path) })
	w.rows = rows
	return w, nil
}

// readAgents reads the report of agents for the window of rev. The event log has no path that is not
// there: some are added.
func readAgents(s *sandbox.Sandbox, rev analytics.Revision) (window, error) {
	site, rows, err := s.Agents(rev.Project, rev.Window)
	if err != nil {
		return window{}, err
	}
	days := int64(rev.To - rev.From)
	for i, path := range []string{"/docs/install", "/docs/mcp.json", "/llms.md"} {
		for j, agent := range []string{"Claude-User", "Cursor"} {
			readers := days - int64(2*i+j)
			rows = append(rows, analytics.AgentRow{Path: path, Agent: agent, Class: []string{"answers", "coding"}[j],
				Audience: analytics.AI, Visitors: readers, Requests: 3*readers + int64(i)})
		}
	}
	slices.SortFunc(rows, analytics.AgentRow.Compare)
	rev.Report, rev.Totals, rev.Rows = analytics.AgentsReport, analytics.Totals{}, int64(len(rows))
	w := window{Revision: rev}
	for _, row := range append(site, rows...) {
		w.records = append(w.records, analytics.RecordOf(row))
	}
	return w, nil
}

// sourcesOf makes up where the people of a window came from.
func sourcesOf(visitors window) window {
	w := window{Revision: visitors.Revision}
	add := func(path string, people int64) {
		for _, of := range []struct {
			source, class, agent string
			percent              int64
		}{
			{"chatgpt", "assistant", analytics.BrowserAgent, 30}, {"chatgpt", "assistant", analytics.UnconfirmedAgent, 10},
			{"claude", "assistant", analytics.BrowserAgent, 20}, {"google", "search", analytics.BrowserAgent, 50},
			{"none", "none", analytics.UnconfirmedAgent, 40},
		} {
			if n := people * of.percent / 100; n > 0 {
				w.records = append(w.records, analytics.RecordOf(analytics.SourceRow{Path: path, Source: of.source,
					Class: of.class, Agent: of.agent, Visitors: n, Requests: n + n/3}))
			}
		}
	}
	add("", visitors.Totals.Human)
	site := len(w.records)
	for _, row := range visitors.rows {
		add(row.Path, row.Human)
	}
	w.Report, w.Totals, w.Revision.Rows = analytics.SourcesReport, analytics.Totals{}, int64(len(w.records)-site)
	return w
}

// viewsOf makes up the requests of a day.
func viewsOf(visitors window) window {
	w := window{Revision: visitors.Revision}
	w.Report, w.Totals = analytics.ViewsReport, analytics.Totals{}
	for _, row := range visitors.rows {
		views := analytics.ViewRow{Path: row.Path, Human: 2 * row.Human, AI: 3 * row.AI, Total: 2*row.Human + 3*row.AI}
		w.records = append(w.records, analytics.RecordOf(views))
		w.Totals.Human, w.Totals.AI, w.Totals.Total = w.Totals.Human+views.Human, w.Totals.AI+views.AI,
			w.Totals.Total+views.Total
	}
	return w
}

// seal returns the window as sinks take it.
func (w window) seal(t *testing.T) *archive.File {
	t.Helper()
	if w.Report != analytics.VisitorsReport {
		path := filepath.Join(t.TempDir(), "window")
		_, err := archive.Write(path, w.Revision, sinktest.List(w.records...))
		if err != nil {
			t.Fatal(err)
		}
		file, err := archive.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	return sinktest.Seal(t, w.Revision, func(yield func(analytics.Row, error) bool) {
		for _, row := range w.rows {
			if !yield(row, nil) {
				return
			}
		}
	})
}

// replace commits h to a sink, settled windows twice, as if the first answer had been lost.
func (h history) replace(t *testing.T, sink sinks.Sink) {
	t.Helper()
	for _, w := range h {
		sealed := w.seal(t)
		for range w.Number {
			if err := sink.Replace(t.Context(), sealed); err != nil {
				t.Fatal(err)
			}
		}
	}
}
