package dashboards

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/clickhouse"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// warehouse is a running database of the histories.
type warehouse struct {
	source string // the plugin of its dashboard
	sink   sinks.Sink
	// rows returns the names and the rows of a query, columns apart by " | ".
	rows func(ctx context.Context, sql string) ([]string, error)
	page func(path string) string // the value of $page
	// last are the rows of its last panel.
	lastPanel string
	last      []string
}

// server is a running ClickHouse, of whichever version.
type server interface {
	DSN(database string) string
	Exec(ctx context.Context, sql string) (string, error)
}

func newClickHouse(t *testing.T, s server, database string) warehouse {
	sink, err := clickhouse.New(clickhouse.Options{DSN: s.DSN(database), Now: time.Now})
	must(t, err)
	t.Cleanup(func() { _ = sink.Close() })
	unescape := strings.NewReplacer("\t", " | ", `\\`, `\`, `\'`, `'`)
	return warehouse{
		source: engines.ClickHouseSource, sink: sink,
		rows: func(ctx context.Context, sql string) ([]string, error) {
			text, err := s.Exec(ctx, sql+"\nFORMAT TSVWithNames")
			return strings.Split(unescape.Replace(strings.TrimSuffix(text, "\n")), "\n"), err
		},
		page:      func(path string) string { return strings.ToUpper(hex.EncodeToString([]byte(path))) },
		lastPanel: "Restated windows",
		last:      []string{"week | 2026-11-09 | 2 | 99 | 100 | 1 | 1 | 5 | 2026-11-20 12:00:00"},
	}
}

func TestClickHouse1816(t *testing.T) {
	testSQL(t, newClickHouse(t, engines.RunClickHouse(t), "default"))
}

// TestClickHouse26 then runs every query as a user that has only the rights which docs/grafana.md
// names.
func TestClickHouse26(t *testing.T) {
	dir := t.TempDir()
	admin, err := engines.StartEngine26(dir)
	engines.Need(t, err)
	testSQL(t, newClickHouse(t, admin, "default"))
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE docs"); err != nil {
		t.Fatal(err)
	}
	fill(t, newClickHouse(t, admin, "docs").sink)
	must(t, admin.Stop())
	reader, err := engines.StartEngine26(dir, documentedGrants(t)...)
	engines.Need(t, err)
	t.Cleanup(func() { _ = reader.Kill() })
	w := newClickHouse(t, reader, "docs")
	for _, q := range w.queries(t) {
		q.Expr = strings.ReplaceAll(q.Expr, "FROM docgauge_", "FROM docs.docgauge_")
		answer(t, w, q, november)
	}
	if _, err := reader.Exec(t.Context(), "INSERT INTO docs.docgauge_windows (project) VALUES ('x')"); err == nil {
		t.Error("the user can write")
	}
}

// documentedGrants are the statements of the documentation, without the user.
func documentedGrants(t *testing.T) (grants []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/grafana.md")
	must(t, err)
	_, part, _ := strings.Cut(string(text), "<!-- grants to read -->")
	part, _, _ = strings.Cut(part, "<!-- end -->")
	for _, m := range regexp.MustCompile(`(?m)^(GRANT .*) TO grafana;$`).FindAllStringSubmatch(part, -1) {
		grants = append(grants, m[1])
	}
	if len(grants) < 3 {
		t.Fatalf("the documentation names %q", grants)
	}
	return grants
}

// oddPath is a page whose path would end a string of SQL.
const oddPath = `/it's \' OR 1=1 -- 🙂`

// november is the range of the tests' windows.
var november = map[string]string{
	"project": "docs", "granularity": "week",
	"__from": millis(2026, 9, 1), "__to": millis(2026, 12, 1),
}

func millis(year, month, day int) string {
	return fmt.Sprint(analytics.NewDate(year, time.Month(month), day).Time().UnixMilli())
}

func (w warehouse) queries(t *testing.T) []engines.Query {
	return queries(t, func(q engines.Query) bool { return q.Source == w.source })
}

// testSQL fills a server through the sink, and runs every query on it.
func testSQL(t *testing.T, w warehouse) {
	fill(t, w.sink)
	for _, q := range w.queries(t) {
		if rows := answer(t, w, q, november); len(rows) < 2 {
			t.Errorf("%s is empty\n%s", q, q.Expand(november))
		}
	}
	t.Run("answers", func(t *testing.T) { testAnswers(t, w) })
	t.Run("nothing", func(t *testing.T) { testNothing(t, w) })
}

// fill commits three weeks of two projects, of which the one in the middle is
// read twice, and more.
func fill(t *testing.T, sink sinks.Sink) {
	t.Helper()
	day := func(n int) analytics.Date { return analytics.NewDate(2026, time.November, n) }
	row := func(path string, human, ai, total int64) analytics.Row {
		return analytics.Row{Path: path, Totals: analytics.Totals{Human: human, AI: ai, Total: total}}
	}
	commit := func(project string, g analytics.Granularity, from, to analytics.Date, number int32,
		totals analytics.Totals, rows ...analytics.Row) {
		t.Helper()
		slices.SortFunc(rows, func(a, b analytics.Row) int { return strings.Compare(a.Path, b.Path) })
		rev := analytics.Revision{
			Key:    analytics.Key{Project: project, Granularity: g, Window: analytics.Window{From: from, To: to}},
			Number: number, Settled: number > 1, Verified: true, Totals: totals, Rows: int64(len(rows)),
			ExportedAt: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		}
		sealed := sinktest.Seal(t, rev, func(yield func(analytics.Row, error) bool) {
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
			}
		})
		must(t, sink.Replace(t.Context(), sealed))
	}
	commit("docs", "week", day(2), day(9), 1, analytics.Totals{Human: 70, AI: 20, Total: 85}, row("/", 60, 20, 75),
		row("/old", 12, 0, 12))
	commit("docs", "week", day(9), day(16), 1, analytics.Totals{Human: 99, AI: 99, Total: 99}, row("/bot", 99, 99, 99))
	commit("docs", "week", day(9), day(16), 2, analytics.Totals{Human: 80, AI: 30, Total: 100},
		row("/", 60, 20, 75), row("/down", 20, 0, 20), row("/up", 10, 0, 10), row("/old", 5, 0, 5), row("/zero", 0, 0,
			0))
	commit("docs", "week", day(16), day(23), 1, analytics.Totals{Human: 80, AI: 40, Total: 110},
		row("/", 60, 20, 75), row("/down", 5, 0, 5), row("/up", 30, 20, 40), row(oddPath, 4, 3, 6), row("/zero", 1, 0,
			1))
	commit("other", "week", day(9), day(16), 1, analytics.Totals{Human: 500, AI: 1, Total: 500},
		row("/other", 1, 1, 1), row("/up", 500, 1, 500))
	commit("other", "week", day(16), day(23), 1, analytics.Totals{Human: 900, AI: 1, Total: 900},
		row("/other", 1, 1, 1), row("/up", 900, 1, 900))
	commit("docs", "7d", day(16), day(23), 1, analytics.Totals{Human: 900, AI: 1, Total: 900}, row("/up", 900, 1, 900))
	commit("docs", "day", day(12), day(13), 1, analytics.Totals{Human: 16, AI: 6, Total: 20}, row("/", 16, 6, 20))
	commit("docs", "day", day(18), day(19), 1, analytics.Totals{Human: 4, AI: 1, Total: 5}, row("/", 4, 1, 5))
	commit("docs", "day", day(19), day(20), 1, analytics.Totals{Human: 8, AI: 4, Total: 11}, row("/", 8, 4, 11))
	commit("docs", "month", analytics.NewDate(2026, 10, 1), day(1), 1,
		analytics.Totals{Human: 300, AI: 90, Total: 350}, row("/", 300, 90, 350))
}

// answer returns the rows of a query after their names, columns apart by " | ".
func answer(t *testing.T, w warehouse, q engines.Query, vars map[string]string) []string {
	t.Helper()
	sql := q.Expand(vars)
	rows, err := w.rows(t.Context(), sql)
	if err != nil {
		t.Fatalf("%s: %v\n%s", q, err, sql)
	}
	return rows
}

// titled returns the query of a panel.
func titled(t *testing.T, w warehouse, panel string) engines.Query {
	t.Helper()
	found := slices.DeleteFunc(w.queries(t), func(q engines.Query) bool { return q.Panel != panel })
	if len(found) == 0 {
		t.Fatalf("no panel %q", panel)
	}
	return found[0]
}

// expect compares the rows of a panel without their names, and without the
// column id, which comes last.
func expect(t *testing.T, w warehouse, panel string, vars map[string]string, want ...string) {
	t.Helper()
	got := answer(t, w, titled(t, w, panel), vars)
	_, withID := strings.CutSuffix(got[0], " | id")
	for i, row := range got {
		if cut := strings.LastIndex(row, " | "); withID && cut >= 0 {
			got[i] = row[:cut]
		}
	}
	if diff := cmp.Diff(want, append([]string(nil), got[1:]...)); diff != "" {
		t.Errorf("%s\n%s", panel, diff)
	}
}

func testAnswers(t *testing.T, w warehouse) {
	const odd = oddPath
	expect(t, w, "Weekly readers", november,
		"2026-11-02 00:00:00 | 85 | 70 | 20", "2026-11-09 00:00:00 | 100 | 80 | 30", "2026-11-16 00:00:00 | 110 | "+
			"80 | 40")
	expect(t, w, "Human, AI, and both", november,
		"2026-11-02 00:00:00 | 65 | 5 | 15", "2026-11-09 00:00:00 | 70 | 10 | 20", "2026-11-16 00:00:00 | 70 | 10 | 30")
	expect(t, w, "Top pages", november, "/ | 75 | 60 | 20 | 5", "/up | 40 | 30 | 20 | 10", odd+" | 6 | 4 | 3 | 1",
		"/down | 5 | 5 | 0 | 0", "/zero | 1 | 1 | 0 | 0")
	expect(t, w, "Rising pages", november, "/up | 10 | 40 | 30 | 3", `/zero | 0 | 1 | 1 | \N`)
	expect(t, w, "Falling pages", november, "/down | 20 | 5 | -15 | -0.75")
	expect(t, w, "Pages that appeared", november, odd+" | 6 | 4 | 3")
	expect(t, w, "Pages that vanished", november, "/old | 5 | 5 | 0")
	expect(t, w, w.lastPanel, november, w.last...)
	expect(t, w, "$project", november, "docs", "other")
	expect(t, w, "$granularity", november, "week", "day", "month", "7d")
	expect(t, w, "$after", november, "9999-12-31 | the newest", "2026-11-16 | 2026-11-16", "2026-11-09 | 2026-11-09",
		"2026-11-02 | 2026-11-02")
	expect(t, w, "$before", with("after", "2026-11-09"), "9999-12-31 | the one before",
		"2026-11-02 | 2026-11-02")

	earlier := with("after", "2026-11-09")
	expect(t, w, "Falling pages", earlier, "/old | 12 | 5 | -7 | -0.5833333333333334")
	expect(t, w, "Falling pages", with("granularity", "day"), "/ | 20 | 11 | -9 | -0.45")
	twoWeeks := with("before", "2026-11-02")
	expect(t, w, "Pages that vanished", twoWeeks, "/old | 12 | 12 | 0")
	expect(t, w, "Pages that appeared", with("granularity", "month"))

	up := with("page", w.page("/up"))
	expect(t, w, "The page by $granularity", up, "2026-11-02 00:00:00 | 0 | 0 | 0", "2026-11-09 00:00:00 | 10 | 10 | "+
		"0", "2026-11-16 00:00:00 | 40 | 30 | 20")
	page := with("page", w.page(oddPath))
	expect(t, w, "The page in the chosen window", page, odd+" | 6 | 4 | 3 | 0.05454545454545454")
	row := answer(t, w, titled(t, w, "Pages that appeared"), november)[1]
	if _, id, _ := strings.Cut(row, " | 6 | 4 | 3 | "); id != page["page"] {
		t.Errorf("the table links to page %s, want %s", id, page["page"])
	}
}

// testNothing runs every query of a panel for a project without windows, and with what
// would end a string in the variables: none fails, and none shows another project.
func testNothing(t *testing.T, w warehouse) {
	hostile := []string{`\' OR 1=1 -- `, "{a,b}') OR (1=1\n"}
	for _, q := range w.queries(t) {
		if strings.HasPrefix(q.Panel, "$") {
			continue
		}
		for _, project := range append(hostile, "nobody") {
			if rows := answer(t, w, q, with("project", project)); len(rows) > 1 {
				t.Errorf("$project = %q: %s shows %q", project, q, rows)
			}
		}
		for _, value := range hostile {
			chosen := maps.Clone(november)
			for name := range q.Defaults {
				chosen[name] = value
			}
			if rows := answer(t, w, q, chosen); strings.Contains(strings.Join(rows, "\n"), "/other") {
				t.Errorf("all but the project = %q: %s shows %q", value, q, rows)
			}
		}
	}
}

// with returns november with another value of a variable.
func with(name, value string) map[string]string {
	all := maps.Clone(november)
	all[name] = value
	return all
}
