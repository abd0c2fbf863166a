package exporter_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// want compares the series whose names begin with one of prefixes.
func want(t *testing.T, s view.Snapshot, series map[string]float64, prefixes ...string) {
	t.Helper()
	got := map[string]float64{}
	for name, value := range metrics(t, s) {
		for _, p := range prefixes {
			if strings.HasPrefix(name, p) {
				got[name] = value
			}
		}
	}
	if diff := cmp.Diff(series, got); diff != "" {
		t.Error(diff)
	}
}

// What can be foreseen counts from 0, and nothing else is there.
func TestNothingYet(t *testing.T) {
	s := view.Snapshot{Projects: []view.Project{{ID: "p"}}, Sinks: []view.Sink{{Name: "parquet"}}}
	all := metrics(t, s)
	for name := range all {
		if strings.HasPrefix(name, "docgauge_build_info") || !strings.HasPrefix(name, "docgauge_") {
			delete(all, name)
		}
	}
	if diff := cmp.Diff(map[string]float64{
		`docgauge_export_runs_total{outcome="deferred"}`:               0,
		`docgauge_export_runs_total{outcome="failed"}`:                 0,
		`docgauge_export_runs_total{outcome="interrupted"}`:            0,
		`docgauge_export_runs_total{outcome="success"}`:                0,
		`docgauge_export_duration_seconds`:                             0,
		`docgauge_windows_committed_total{project="p",sink="parquet"}`: 0,
		`docgauge_window_drift_total{project="p"}`:                     0,
		`docgauge_pages_mispredicted_total{project="p"}`:               0,
		`docgauge_rows_written_total{sink="parquet"}`:                  0,
		`docgauge_sink_failures_total{sink="parquet"}`:                 0,
		`docgauge_sink_windows_lost_total{sink="parquet"}`:             0,
		`docgauge_windows_set_aside{project="p",reason="malformed"}`:   0,
		`docgauge_windows_set_aside{project="p",reason="empty"}`:       0,
		`docgauge_windows_set_aside{project="p",reason="repeats"}`:     0,
		`docgauge_windows_set_aside{project="p",reason="refused"}`:     0,
		`docgauge_windows_set_aside{project="p",reason="failing"}`:     0,
		`docgauge_spool_windows{sink="parquet"}`:                       0,
		`docgauge_api_requests_total{code="200",endpoint="visitors"}`:  0,
		`docgauge_api_request_duration_seconds{endpoint="visitors"}`:   0,
		`docgauge_api_foreign_throttles_total`:                         0,
	}, all); diff != "" {
		t.Error(diff)
	}
}

// An unknown moment has no series: 0 would be 1970.
func TestUnknownMoments(t *testing.T) {
	s := rich()
	for _, moment := range []*time.Time{&s.At, &s.Finish, &s.LastStart, &s.LastCompletion, &s.LastSuccess,
		&s.Reload.LastSuccess, &s.Queue.Reviews[0].OldestOpen, &s.Open[0].ReadAt, &s.Sinks[0].LastCommit,
		&s.Keys[0].Expires} {
		*moment = time.Time{}
	}
	for i := range s.Queue.Jobs {
		s.Queue.Jobs[i].Created, s.Queue.Jobs[i].Ended = time.Time{}, time.Time{}
	}
	for name := range metrics(t, s) {
		if strings.Contains(name, "timestamp_seconds") && strings.HasPrefix(name, "docgauge_") &&
			!strings.HasPrefix(name, "docgauge_window_") {
			t.Error(name)
		}
	}
}

// However many merges there are, the newest 50 effects have series.
func TestManyEffects(t *testing.T) {
	s := rich()
	for i := range 30 {
		o := s.Outcomes.Merges[0]
		o.Link += strconv.Itoa(i)
		o.Effects = append(o.Effects[:2:2], view.Effect{Path: "/more", Audience: analytics.AI,
			Verdict: view.FewerReaders, Change: -.2, Low: -.3, High: -.1})
		s.Outcomes.Merges = append(s.Outcomes.Merges, o)
	}
	count := map[string]int{}
	for series := range metrics(t, s) {
		name, _, _ := strings.Cut(series, "{")
		count[name]++
	}
	changes, verdicts := count["docgauge_agent_outcome_change_ratio"], count["docgauge_agent_outcome_verdict"]
	if changes != 150 || verdicts != 50 {
		t.Errorf("%d and %d series, want 150 and 50", changes, verdicts)
	}
}

func TestCounters(t *testing.T) {
	s := rich()
	s.Counters = []view.Counter{
		{Name: "windows_committed_total", Labels: []string{"sink", "parquet", "project", "prj_a"}, Value: 5},
		{Name: "windows_committed_total", Labels: []string{"project", "prj_b", "sink", "parquet"}, Value: 6},
		{Name: "windows_committed_total", Labels: []string{"project", "gone", "sink", "parquet"}, Value: 7},
		{Name: "windows_committed_total", Labels: []string{"project", "prj_a", "sink", "gone"}, Value: 8},
		{Name: "windows_committed_total", Labels: []string{"project", "prj_a"}, Value: 9},
		{Name: "windows_committed_total", Labels: []string{"project", "prj_a", "other", "x"}, Value: 10},
		{Name: "windows_committed_total", Labels: []string{"project", "prj_a", "project", "prj_b"}, Value: 11},
		{Name: "windows_committed_total", Labels: []string{"project"}, Value: 12},
		{Name: "rows_written_total", Labels: []string{"sink", "gone"}, Value: 13},
		{Name: "of_another_time_total", Value: 14},
		{Name: "site_visitors", Labels: []string{"project", "prj_a", "window", "day", "audience", "ai"}, Value: 15},
		{Name: "export_duration_seconds", Value: 16},
	}
	want(t, s, map[string]float64{
		`docgauge_windows_committed_total{project="prj_a",sink="parquet"}`:    5,
		`docgauge_windows_committed_total{project="prj_b",sink="parquet"}`:    6,
		`docgauge_windows_committed_total{project="prj_a",sink="clickhouse"}`: 0,
		`docgauge_windows_committed_total{project="prj_b",sink="clickhouse"}`: 0,
		`docgauge_rows_written_total{sink="parquet"}`:                         0,
		`docgauge_rows_written_total{sink="clickhouse"}`:                      0,
	}, "docgauge_windows_committed_total", "docgauge_rows_written_total", "docgauge_of_another")
}

// Series disappear as soon as the snapshot lacks them.
func TestSeriesDisappear(t *testing.T) {
	v := publish(rich())
	s := rich()
	s.Projects, s.Windows, s.Open, s.Due = s.Projects[:1], s.Windows[:1], nil, nil
	s.Sinks, s.Keys, s.Queue = s.Sinks[:1], s.Keys[:1], nil
	v.Publish(s)
	for _, accept := range []string{acceptText, acceptOpenMetrics, acceptProtobuf} {
		_, text := scrape(t, v, accept, "gzip")
		for _, gone := range []string{"prj_b", "28d", "clickhouse", "write", "docgauge_open_", "docgauge_windows_due",
			"docgauge_agent_"} {
			if strings.Contains(text, gone) {
				t.Errorf("%s: %s is still there", accept, gone)
			}
		}
		if !strings.Contains(text, "prj_a") {
			t.Errorf("%s: prj_a is gone", accept)
		}
	}
}

// A folder of prompts that cannot be read holds the queue up as a pause does, beside one.
func TestQueuePaused(t *testing.T) {
	s := view.Snapshot{Queue: &view.Queue{Paused: "unknown", Problem: "no such folder"}}
	series := map[string]float64{}
	for _, reason := range []string{"unknown", "unauthorized", "operator", "new_state", "folder"} {
		series[fmt.Sprintf(`docgauge_agent_queue_paused{reason=%q}`, reason)] = 0
	}
	series[`docgauge_agent_queue_paused{reason="unknown"}`] = 1
	series[`docgauge_agent_queue_paused{reason="folder"}`] = 1
	want(t, s, series, "docgauge_agent_queue_paused")
}

// Pages whose paths are shown alike stay two series; a page that comes twice is one.
func TestPaths(t *testing.T) {
	long := strings.Repeat("/long", 100)
	s := view.Snapshot{Windows: []view.Window{{Revision: revision("p", analytics.Day, 6, 7, 5), Pages: []analytics.Row{
		{Path: long + "1", Totals: analytics.Totals{Total: 9}}, {Path: long + "2", Totals: analytics.Totals{Total: 8}},
		{Path: "/x\xff", Totals: analytics.Totals{Total: 7}},
		{Path: "/x\xfe", Totals: analytics.Totals{Total: 6}},
		{Path: "/twice", Totals: analytics.Totals{Total: 5}}, {Path: "/twice", Totals: analytics.Totals{Total: 4}},
	}}}}
	series := map[string]float64{}
	for i, path := range []string{long + "1", long + "2", "/x\xff", "/x\xfe", "/twice"} {
		series[fmt.Sprintf(`docgauge_page_visitors_deduplicated{path=%q,project="p",window="day"}`,
			exporter.Label(path))] = float64(9 - i)
	}
	want(t, s, series, "docgauge_page_visitors_deduplicated")
}

// Values that read alike when they are joined belong to two series.
func TestJoinedAlike(t *testing.T) {
	s := view.Snapshot{Due: []view.Due{{Project: "a", Granularity: "bc"}, {Project: "ab", Granularity: "c"}}}
	want(t, s, map[string]float64{
		`docgauge_windows_due{project="a",reason="",report="visitors",window="bc"}`: 0,
		`docgauge_windows_due{project="ab",reason="",report="visitors",window="c"}`: 0,
	}, "docgauge_windows_due")
}

// Windows of the ledger do not become series, only the newest of each granularity, nor do windows
// that are skipped for a reason, or in a project, that is not known.
func TestCardinality(t *testing.T) {
	small, big := rich(), rich()
	for i := range 10_000 {
		r := revision("prj_a", analytics.Day, -i, 1-i, 100)
		grid := &big.Projects[0].Grids[0]
		grid.Cells = append(grid.Cells, view.Cell{Window: r.Window, Revision: &r})
		reason := analytics.AsideReason(fmt.Sprint("old ", i%40))
		big.Asides = append(big.Asides, analytics.Aside{Key: r.Key, Reason: reason})
	}
	gone := key("gone", analytics.Day, 5, 6)
	big.Asides = append(big.Asides, analytics.Aside{Key: gone, Reason: analytics.AsideFailing})
	if a, b := len(metrics(t, small)), len(metrics(t, big)); a != b {
		t.Errorf("%d series with few windows in the ledger, %d with many", a, b)
	}
}

// Whatever a snapshot holds, the registry finds nothing wrong with it.
func TestAnySnapshot(t *testing.T) {
	name := rapid.SampledFrom([]string{"", "a", "b", "a\xff", "a\xfe", "\n\"\\", "🙂", strings.Repeat("é", 200),
		strings.Repeat("é", 201)})
	number := rapid.Int64()
	at := rapid.Custom(func(t *rapid.T) time.Time { return time.Unix(rapid.Int64().Draw(t, "at"), 0) })
	label := rapid.SampledFrom([]string{"project", "sink", "outcome", "endpoint", "code", "x", ""})
	metric := rapid.Custom(func(t *rapid.T) string {
		return strings.TrimPrefix(rapid.SampledFrom(exporter.Metrics()).Draw(t, "metric").Name, "docgauge_")
	})
	pairs := rapid.Custom(func(t *rapid.T) (p []string) {
		for range rapid.IntRange(0, 3).Draw(t, "pairs") {
			p = append(p, label.Draw(t, "label"), name.Draw(t, "value"))
		}
		return p
	})
	page := rapid.Custom(func(t *rapid.T) analytics.Row {
		return analytics.Row{Path: name.Draw(t, "path"), Totals: analytics.Totals{Total: number.Draw(t, "n")}}
	})
	many := func(t *rapid.T, make func()) {
		for range rapid.IntRange(0, 3).Draw(t, "many") {
			make()
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := view.Snapshot{At: at.Draw(t, "at"), LastSuccess: at.Draw(t, "success")}
		many(t, func() {
			g := analytics.Granularity(name.Draw(t, "g"))
			k := analytics.Key{Project: name.Draw(t, "project"), Granularity: g}
			s.Projects = append(s.Projects, view.Project{ID: k.Project})
			s.Windows = append(s.Windows, view.Window{
				Revision: analytics.Revision{Key: k, Rows: number.Draw(t, "rows")},
				Pages:    rapid.SliceOfN(page, 0, 4).Draw(t, "pages"),
			})
			s.Open = append(s.Open, analytics.OpenWindow{Key: k, ReadAt: at.Draw(t, "read")})
			s.Due = append(s.Due, view.Due{Project: k.Project, Granularity: g, Reason: name.Draw(t, "reason")})
			s.Asides = append(s.Asides, analytics.Aside{Key: k, Reason: analytics.AsideReason(name.Draw(t, "aside"))})
			s.Budgets = append(s.Budgets, view.Budget{Name: name.Draw(t, "budget"),
				Limit: int(number.Draw(t, "limit"))})
			s.Keys = append(s.Keys, view.Key{Name: name.Draw(t, "key"), Expires: at.Draw(t, "expires")})
			s.Sinks = append(s.Sinks, view.Sink{Name: name.Draw(t, "sink"), LastCommit: at.Draw(t, "commit")})
			s.Counters = append(s.Counters, view.Counter{Name: metric.Draw(t, "counter"),
				Labels: pairs.Draw(t, "labels"), Value: float64(number.Draw(t, "count"))})
			s.Histograms = append(s.Histograms, view.Histogram{
				Name: metric.Draw(t, "histogram"), Labels: pairs.Draw(t, "labels"), Sum: rapid.Float64().Draw(t, "sum"),
				Buckets: rapid.MapOf(rapid.IntRange(-300, 300), rapid.Uint64Range(0, 1<<40)).Draw(t, "buckets"),
			})
		})
		if err := exporter.Inconsistent(s); err != nil {
			t.Fatal(err)
		}
	})
}
