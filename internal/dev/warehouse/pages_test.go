package warehouse

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/parquet"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// sitePaths are the pages of the random sites.
var sitePaths = []string{
	"/", "/a", "/a/b", "/a/b/c", "/quickstart", "/quickstart/", "/Quickstart", "/it's", `/"x"<b>&amp;`, "/文档/指南",
	"/%20", "/a b", "=1+1", "/guides/1", "/guides/2", "/guides/10", "/guides/ü", "//", "/?q=1&r=2", "/#top",
}

var siteKinds = []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month, "7d"}

// randomSite writes ten weeks of a project and three of another into an archive: windows are missing,
// have totals only, lack pages, and are read again.
func randomSite(t *testing.T, seed uint64, dir string) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	sink, err := parquet.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	totals := func(most int64) analytics.Totals {
		total := random.Int64N(most)
		human := random.Int64N(total + 1)
		return analytics.Totals{Human: human, AI: total - human + random.Int64N(human+1), Total: total}
	}
	for i, project := range projects {
		for _, g := range siteKinds {
			for w := range schedule.Within(g, today-[]analytics.Date{70, 21}[i], today) {
				if random.IntN(8) == 0 && w.To < today {
					continue
				}
				for number := int32(1); number <= 1+random.Int32N(5)/4; number++ {
					rev := sinktest.Revision(analytics.Key{Project: project, Granularity: g, Window: w}, number)
					rev.Totals, rev.Humans = totals(5000), analytics.Claimed // windows of two modes are not compared
					if random.IntN(9) == 0 && w.To < today-8 {
						sinktest.Replace(t, sink, sinktest.Seal(t, sinktest.TotalsOnly(rev), analytics.ByPath(nil)))
						continue
					}
					var rows []analytics.Row
					for _, path := range sitePaths {
						if random.IntN(5) > 0 {
							n := totals(cmp.Or(random.Int64N(3)*400, 4)) // many are equal
							rows = append(rows, analytics.Row{Path: path, Totals: analytics.Totals{Human: n.Human, AI: n.AI,
								Total: n.Total}})
						}
					}
					rev.Rows = int64(len(rows))
					sinktest.Replace(t, sink, sinktest.Seal(t, rev, analytics.ByPath(rows)))
				}
			}
		}
	}
}

// siteQuestion is a question to the pages of serve, and what answers it in SQL.
type siteQuestion struct {
	name, sql string
	history   bool // a row for each window: its days, then its numbers
	ask       func(t *testing.T) [][]string
}

// TestPagesAnswerAsDuckDB: what /api/v1/history, /api/v1/pages and /page answer about random sites is
// what DuckDB answers about the files.
func TestPagesAnswerAsDuckDB(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			randomSite(t, seed, dir)
			get := serveSite(t, dir)
			var all []siteQuestion
			random := rand.New(rand.NewPCG(seed, 1))
			for _, g := range siteKinds {
				for _, path := range append(slices.Clone(sitePaths), "") {
					all = append(all, historyQuestion(projects[random.IntN(2)], g, path, get))
				}
				for range 12 {
					all = append(all, pagesQuestion(random, projects[random.IntN(2)], g, get))
				}
				for range 5 {
					path := sitePaths[random.IntN(len(sitePaths))]
					all = append(all, pathQuestions(projects[random.IntN(2)], g, path, get)...)
				}
			}
			cmd, err := engines.DuckDB.Command(t.Context(), t.TempDir())
			engines.Need(t, err)
			var blocks []block
			for _, q := range all {
				blocks = append(blocks, block{name: q.name, body: q.sql})
			}
			asked := 0
			for i, want := range answers(t, t.TempDir(), cmd, siteViews(dir), blocks...) {
				got := all[i].ask(t)
				asked += len(got)
				if got == nil && all[i].history && !slices.ContainsFunc(want.Rows, func(r []string) bool {
					return r[2] != null
				}) {
					continue // no window has the page: 404
				}
				if diff := gocmp.Diff(plainNumbers(want.Rows), plainNumbers(got)); diff != "" {
					t.Errorf("%s (-DuckDB +answered):\n%s\n%s", all[i].name, diff, all[i].sql)
				}
			}
			t.Logf("%d questions, %d rows", len(all), asked)
			if asked < 500 {
				t.Errorf("only %d rows were compared", asked)
			}
		})
	}
}

// serveSite serves an archive, and returns a function that gets a page of it.
func serveSite(t *testing.T, dir string) func(t *testing.T, target string) (int, string) {
	s := &view.Snapshot{At: today.Time()}
	for _, id := range projects {
		p := view.Project{ID: id}
		for _, g := range siteKinds {
			p.Grids = append(p.Grids, view.Grid{Project: id, Granularity: g})
		}
		s.Projects = append(s.Projects, p)
	}
	current := func() *view.Snapshot { return s }
	archive := func(ask func(sinks.Sink) error) error {
		sink, err := parquet.New(dir)
		if err != nil {
			return err
		}
		defer sink.Close()
		return ask(sink)
	}
	mux := http.NewServeMux()
	for path, h := range (&web.Site{Current: current, Archive: archive}).Handlers() {
		mux.Handle(path, h)
	}
	return func(t *testing.T, target string) (int, string) {
		t.Helper()
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		if w.Code != http.StatusOK && w.Code != http.StatusNotFound {
			t.Fatalf("%s: %d %s", target, w.Code, w.Body)
		}
		return w.Code, w.Body.String()
	}
}

// siteViews are the windows w with the site or a page, and the window that each is compared with.
func siteViews(dir string) string {
	files := func(table string) string {
		return fmt.Sprintf("read_parquet('%s/%s/v1/*/*/*/*.parquet', hive_partitioning = true, hive_types_autocast = false)",
			strings.ReplaceAll(dir, "'", "''"), table)
	}
	return `CREATE TABLE v AS SELECT * FROM ` + files("visitors") + `;
CREATE TABLE w AS SELECT *, CASE WHEN granularity = 'day' THEN window_end - 7 ELSE window_start END AS former
  FROM ` + files("totals") + `;`
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

const (
	shareSQL  = "round(ai::DOUBLE / nullif(total, 0) * 1000) / 10"
	growthSQL = "round((x - y)::DOUBLE / nullif(y, 0) * 1000) / 10"
)

// historySQL are the windows of a page, or of the site, with the total of the one before.
func historySQL(project string, g analytics.Granularity, path string) string {
	numbers := "SELECT project, granularity, window_start, window_end, human, ai, total FROM w"
	if path != "" {
		numbers = "SELECT project, granularity, window_start, window_end, human, ai, total FROM v WHERE path = " +
			quoted(path)
	}
	return fmt.Sprintf(`WITH n AS (%s)
SELECT w.window_start, w.window_end, a.human, a.ai, a.total,
  b.human AS before_human, b.ai AS before_ai, b.total AS before
FROM w LEFT JOIN n a ON a.project = w.project AND a.granularity = w.granularity AND a.window_start = w.window_start
  AND a.window_end = w.window_end
LEFT JOIN n b ON b.project = w.project AND b.granularity = w.granularity AND b.window_end = w.former
WHERE w.project = %s AND w.granularity = %s`, numbers, quoted(project), quoted(string(g)))
}

func historyQuestion(
	project string, g analytics.Granularity, path string, get func(*testing.T, string) (int, string),
) siteQuestion {
	q := siteQuestion{history: true, name: fmt.Sprintf("history of %q, %s %s", path, project, g)}
	q.sql = "SELECT window_start, window_end, human, ai, total, " + shareSQL + ", before_human, before_ai, before, " +
		"total - before, " + strings.NewReplacer("x", "total", "y", "before").Replace(growthSQL) +
		" FROM (" + historySQL(project, g, path) + ") ORDER BY window_end"
	values := url.Values{"project": {project}, "window": {string(g)}, "limit": {"1000"}, "format": {"csv"}}
	if path != "" {
		values.Set("path", path)
	}
	q.ask = func(t *testing.T) [][]string {
		code, text := get(t, "/api/v1/history?"+values.Encode())
		if code == http.StatusNotFound {
			return nil
		}
		var out [][]string
		for _, r := range csvRows(t, text) {
			if r["path"] != path || r["project"] != project {
				t.Errorf("%s: a row of %s %q", q.name, r["project"], r["path"])
			}
			if (r["state"] == "missing") != (r["revision"] == "") {
				t.Errorf("%s: %v", q.name, r)
			}
			if r["state"] != "missing" {
				out = append(out, pick(r, "from", "to", "human", "ai", "total", "ai_share_percent", "previous_human",
					"previous_ai", "previous_total", "change", "change_percent"))
			}
		}
		return out
	}
	return q
}

// pagesSQL are the pages of the newest window with rows, and what they had in the one before.
func pagesSQL(project string, g analytics.Granularity) string {
	newest := fmt.Sprintf("SELECT * FROM w WHERE project = %s AND granularity = %s AND page_count IS NOT NULL "+
		"ORDER BY window_end DESC LIMIT 1", quoted(project), quoted(string(g)))
	return fmt.Sprintf(`WITH n AS (%s),
  a AS (SELECT v.* FROM v JOIN n USING (project, granularity, window_start, window_end)),
  b AS (SELECT v.* FROM v JOIN n ON v.project = n.project AND v.granularity = n.granularity AND v.window_end = n.former)
SELECT a.path, a.human, a.ai, a.total, b.human AS before_human, b.ai AS before_ai, b.total AS before_total
FROM a LEFT JOIN b ON a.path = b.path`, newest)
}

// pagesQuestion asks for pages in some order.
func pagesQuestion(
	random *rand.Rand, project string, g analytics.Granularity, get func(*testing.T, string) (int, string),
) siteQuestion {
	list := []string{"top", "rising", "falling"}[random.IntN(3)]
	by := []string{"total", "human", "ai", "change"}[random.IntN(4)]
	if list != "top" && by == "change" {
		by = "ai"
	}
	prefix := []string{"", "/", "/guides/", "/Q"}[random.IntN(4)]
	limit, offset := 1+random.IntN(12), random.IntN(8)
	audience := strings.ReplaceAll(by, "change", "total")
	gain := fmt.Sprintf("(%s - before_%s)", audience, audience)
	order, which := audience+" DESC", "true"
	switch {
	case list == "rising":
		order, which = gain+" DESC", gain+" > 0"
	case list == "falling":
		order, which = gain, gain+" < 0"
	case by == "change":
		order, which = "abs"+gain+" DESC", gain+" <> 0"
	}
	q := siteQuestion{name: fmt.Sprintf("%s pages by %s, %s %s, prefix %q, %d after %d", list, by, project, g, prefix,
		limit, offset)}
	q.sql = fmt.Sprintf(`SELECT row_number() OVER (ORDER BY %s, path), path, human, ai, total, before_human, before_ai,
  before_total, %s, %s FROM (%s) WHERE %s AND starts_with(path, %s) ORDER BY %s, path LIMIT %d OFFSET %d`,
		order, gain, strings.NewReplacer("x", audience, "y", "before_"+audience).Replace(growthSQL),
		pagesSQL(project, g), which, quoted(prefix), order, limit, offset)
	values := url.Values{"project": {project}, "window": {string(g)}, "list": {list}, "by": {by}, "format": {"csv"},
		"limit": {fmt.Sprint(limit)}, "offset": {fmt.Sprint(offset)}}
	if prefix != "" {
		values.Set("prefix", prefix)
	}
	q.ask = func(t *testing.T) [][]string { return pageRows(t, get, values) }
	return q
}

func pageRows(t *testing.T, get func(*testing.T, string) (int, string), values url.Values) (out [][]string) {
	t.Helper()
	code, text := get(t, "/api/v1/pages?"+values.Encode())
	if code == http.StatusNotFound { // the window that it is compared with is not there
		return nil
	}
	for _, r := range csvRows(t, text) {
		out = append(out, pick(r, "rank", "path", "human", "ai", "total", "previous_human", "previous_ai",
			"previous_total", "change", "change_percent"))
	}
	return out
}

var (
	tableRow = regexp.MustCompile(`<tr><th scope="row">.*?</tr>`)
	count    = regexp.MustCompile(`<td class="n">([0-9,.]+|–)%?</td>`)
	moved    = regexp.MustCompile(`<span class="(?:up|down|slight)?">([^<]*)</span>`)
	dated    = regexp.MustCompile(`First day ([0-9-]+), last day ([0-9-]+)`)
	figure   = regexp.MustCompile(`<dt>([A-Za-z]+)</dt><dd>([^<]*)</dd>`)
)

// pathQuestions ask /page: its table has the newest windows, and the rank is that among all pages.
func pathQuestions(
	project string, g analytics.Granularity, path string, get func(*testing.T, string) (int, string),
) []siteQuestion {
	target := "/page?" + url.Values{"project": {project}, "window": {string(g)}, "path": {path}}.Encode()
	table := siteQuestion{history: true, name: target, sql: "SELECT window_start, window_end - 1, human, ai, " +
		shareSQL + ", total, total - before FROM (" + historySQL(project, g, path) + ") ORDER BY window_end DESC"}
	if g == analytics.Day || g.RollingDays() > 0 { // of those it shows the last 56
		table.sql = fmt.Sprintf("WITH h AS (%s) SELECT window_start, window_end - 1, human, ai, %s, total, total - before "+
			"FROM h WHERE window_end > (SELECT max(window_end) FROM h) - 56 ORDER BY window_end DESC",
			historySQL(project, g, path), shareSQL)
	}
	table.ask = func(t *testing.T) (out [][]string) {
		code, text := get(t, target)
		if code == http.StatusNotFound {
			return nil
		}
		_, text, _ = strings.Cut(text, `<table class="windows">`)
		text, _, _ = strings.Cut(text, "</table>")
		for _, row := range tableRow.FindAllString(text, -1) {
			if strings.Contains(row, "missing") {
				continue
			}
			row = html.UnescapeString(row)
			cells := dated.FindStringSubmatch(row)[1:]
			for _, number := range count.FindAllStringSubmatch(row, 4) {
				cells = append(cells, number[1])
			}
			change := "–"
			if m := moved.FindStringSubmatch(row); m != nil {
				change = m[1]
			}
			out = append(out, append(cells, change))
		}
		return out
	}
	rank := siteQuestion{name: "rank of " + target, sql: fmt.Sprintf(`SELECT r, c FROM (SELECT path,
  row_number() OVER (ORDER BY total DESC, path) AS r, count(*) OVER () AS c FROM (%s)) WHERE path = %s`,
		pagesSQL(project, g), quoted(path))}
	rank.ask = func(t *testing.T) [][]string {
		_, text := get(t, target)
		for _, m := range figure.FindAllStringSubmatch(text, -1) {
			if m[1] == "Rank" && m[2] != "–" {
				_, of, _ := strings.Cut(text, `<dt>Rank</dt>`)
				_, of, _ = strings.Cut(of, `"quiet">of `)
				of, _, _ = strings.Cut(of, " ")
				return [][]string{{m[2], of}}
			}
		}
		return nil
	}
	api := siteQuestion{name: "pages with path of " + target, sql: rank.sql}
	api.ask = func(t *testing.T) [][]string {
		values := url.Values{"project": {project}, "window": {string(g)}, "path": {path}, "format": {"csv"}}
		rows := pageRows(t, get, values)
		for i := range rows {
			rows[i] = []string{rows[i][0], rank.ask(t)[0][1]}
		}
		return rows
	}
	return []siteQuestion{table, rank, api}
}

func csvRows(t *testing.T, text string) (out []map[string]string) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	for _, r := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = r[i]
		}
		out = append(out, row)
	}
	return out
}

func pick(row map[string]string, names ...string) (out []string) {
	for _, name := range names {
		out = append(out, row[name])
	}
	return out
}

// plainNumbers writes numbers alike: 33.0 as 33, −1,300 as -1300; and unknown values as nothing.
func plainNumbers(rows [][]string) [][]string {
	out := [][]string{}
	for _, row := range rows {
		var cells []string
		for _, cell := range row {
			cell = strings.NewReplacer("−", "-", "+", "", ",", "").Replace(cell)
			if n, err := strconv.ParseFloat(cell, 64); err == nil {
				cell = strconv.FormatFloat(n, 'f', -1, 64)
			}
			if cell == null || cell == "–" {
				cell = ""
			}
			cells = append(cells, cell)
		}
		out = append(out, cells)
	}
	return out
}
