package web_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/sinks"
)

// archived is the site of liveSnapshot whose archive has every window, and the sink that it is read from.
func archived(t *testing.T) (map[string]http.Handler, *view.Snapshot, *counting) {
	t.Helper()
	s, memory := liveSnapshot()
	for _, p := range s.Projects {
		for _, g := range p.Grids {
			for _, c := range g.Cells {
				if c.Revision != nil && c.Revision != g.Newest && !g.TotalsOnly {
					memory.Put(*c.Revision, rows(*c.Revision, "/old"), nil)
				}
			}
		}
	}
	from := &counting{Sink: memory}
	site := &web.Site{Current: func() *view.Snapshot { return s }, Version: "v1",
		Archive: func(ask func(sinks.Sink) error) error { return ask(from) }}
	must(t, site.Refresh(t.Context(), s, []sinks.Sink{memory}))
	return site.Handlers(), s, from
}

// TestAddresses: a URL that leads to no page says why, and leads to the nearest one.
func TestAddresses(t *testing.T) {
	pages, _, _ := archived(t)
	for _, tc := range []struct {
		query string
		code  int
		text  string
		near  string // the query of the nearest page
	}{
		{"project=docs-man", 404, `project "docs-man": not one of DOCGAUGE_PROJECTS; did you mean docs-main?`,
			"project=docs-main"},
		{"project=%3Cscript%3E", 404, `project "<script>": not one of`, "project="},
		{"project=docs-main/", 404, "did you mean docs-main?", "project=docs-main"},
		{"window=20d", 404, "window 20d: not one of the windows that are read of Product docs; the nearest is 28d.",
			"project=docs-main&window=28d"},
		{"window=year", 400, `window "year": want day`, ""},
		{"at=2026-11-10", 404, "No week with 2026-11-10 has been read. The nearest is 28 Sep – 4 Oct 2026.",
			"at=2026-10-04&project=docs-main&window=week"},
		{"at=2026-10-06", 404, "5–11 Oct 2026 is not over yet. The nearest is 28 Sep – 4 Oct 2026.",
			"at=2026-10-04&project=docs-main&window=week"},
		{"at=2001-01-01", 404, "The nearest is 6–12 Jul 2026.", "at=2026-07-12&project=docs-main&window=week"},
		{"at=2026-08-24&window=day", 404, "No day with 2026-08-24 has been read. The nearest is Wed 26 Aug 2026.",
			"at=2026-08-26&project=docs-main&window=day"},
		{"at=2026-10-06&window=28d", 404, "No 28 days with 2026-10-06 has been read.",
			"at=2026-10-05&project=docs-main&window=28d"},
		{"at=yesterday", 400, `at "yesterday": want a day, YYYY-MM-DD`, ""},
		{"at=2026-09-27&at=2026-09-20", 400, "parameter at: given more than once", ""},
		{"compare=always", 400, `compare "always": want previous, year, or a number of windows`, ""},
		{"limit=3", 400, `parameter "limit": want project, window, at, compare`, ""},
		{"%zz", 400, "cannot be read", ""},
	} {
		for path, page := range map[string]string{"/": "./", "/report": "report", "/page": "page"} {
			code, body := visit(t, pages[path], path+"?"+tc.query)
			if code != tc.code {
				t.Errorf("%s?%s: %d, want %d\n%s", path, tc.query, code, tc.code, seen(body))
			}
			wants(t, seen(body), "Readers Pages Jobs Status", tc.text)
			title := "No numbers to show"
			if strings.Contains(tc.near, "window=") { // the project is known
				title = "Product docs"
			}
			if !strings.Contains(body, "<title>"+title+" – docgauge") {
				t.Errorf("%s?%s: want the title %q", path, tc.query, title)
			}
			link := `<a href="` + page + "?" + strings.ReplaceAll(tc.near, "&", "&amp;")
			if (tc.near != "") != strings.Contains(body, link) || strings.Contains(body, "<script>") {
				t.Errorf("%s?%s: want a link to %s", path, tc.query, link)
			}
		}
	}
	for target, want := range map[string]string{
		"/page?by=nobody":           `by "nobody": want total, human, ai or change`,
		"/page?list=best":           `list "best": want top, rising or falling`,
		"/page?offset=-1":           `offset "-1": want 0 to 100000`,
		"/page?prefix=%ff":          "prefix: not UTF-8",
		"/agent?compare=year":       `parameter "compare": want project, window, at, agent`,
		"/page?path=/&compare=year": `parameter "compare": want project, window, at, path`,
		"/jobs?window=day":          `parameter "window": want project`,
	} {
		path, _, _ := strings.Cut(target, "?")
		code, body := visit(t, pages[path], target)
		if code != http.StatusBadRequest {
			t.Errorf("%s: %d", target, code)
		}
		wants(t, seen(body), want)
	}
	if code, body := visit(t, pages["/jobs"], "/jobs?project=nobody"); code != http.StatusNotFound {
		t.Errorf("jobs of nobody: %d %s", code, seen(body))
	}
	for _, path := range []string{"/jobs", "/report"} {
		_, body := visit(t, pages[path], path)
		wants(t, seen(body), "begun, 6 ended, of the newest job of each prompt, until 30 days after its end")
	}
}

// TestWindows: every window that was read has a page, which reads it and the one that it is compared with from the
// archive, and leads to those around it.
func TestWindows(t *testing.T) {
	pages, s, from := archived(t)
	s.Open = []analytics.OpenWindow{{Key: analytics.Key{Project: "docs-main", Granularity: analytics.Week,
		Window: analytics.Window{From: testbed.Today - 1, To: testbed.Today + 6}},
		Totals: analytics.Totals{Human: 400, AI: 300, Total: 650}}}
	for _, tc := range []struct {
		query string
		read  int // windows
		want  []string
		links []string
	}{
		{"", 0, []string{"This week so far (5–11 Oct 2026): 650 readers, 400 people, 300 AI.",
			"compared with 21–27 Sep 2026"}, []string{
			"./?at=2026-09-27&project=docs-main&window=week", "./?project=docs-main&window=month",
			"page?project=docs-main&window=week", "report?project=docs-main&window=week",
			"./?project=developer-hub"}},
		{"at=2026-10-01&window=week", 0, []string{"readers during 28 Sep – 4 Oct 2026"}, nil},
		{"at=2026-09-22&project=docs-main&window=week", 2, []string{"readers during 21–27 Sep 2026",
			"compared with 14–20 Sep 2026"}, []string{
			"./?at=2026-09-20&project=docs-main&window=week", "./?at=2026-10-04&project=docs-main&window=week",
			"./?project=docs-main&window=week", "./?at=2026-09-27&project=docs-main&window=day",
			"page?at=2026-09-27&project=docs-main&window=week", "report?at=2026-09-27&project=docs-main&window=week"}},
		{"compare=3&at=2026-09-27", 2, []string{"on 31 Aug – 6 Sep 2026", "compared with 31 Aug – 6 Sep 2026"}, []string{
			"./?at=2026-09-20&compare=3&project=docs-main&window=week"}},
		{"compare=year&window=week", 1, []string{"No reading of 29 Sep – 5 Oct 2025 to compare with."}, nil},
		{"at=2026-07-12", 1, []string{"readers during 6–12 Jul 2026", "No earlier window to compare with."}, nil},
		{"window=28d&at=2026-10-04", 0, []string{"readers during 7 Sep – 4 Oct 2026",
			"Only the totals of the site are read"}, nil},
	} {
		for _, path := range []string{"/", "/report"} {
			before := from.windows
			code, body := visit(t, pages[path], path+"?"+tc.query)
			if read := from.windows - before; code != http.StatusOK || read != tc.read {
				t.Errorf("%s?%s: %d, %d windows read, want %d", path, tc.query, code, read, tc.read)
			}
			wants(t, seen(body), tc.want...)
			if path == "/report" {
				continue
			}
			for _, link := range tc.links {
				wants(t, body, `<a href="`+strings.ReplaceAll(link, "&", "&amp;")+`"`)
			}
			newest := strings.Contains(body, "during 28 Sep – 4 Oct 2026")
			if strings.Contains(body, "so far") != newest {
				t.Errorf("%s: the running week beside another", tc.query)
			}
		}
	}
}

// TestLinks: each link of each kind of page leads to a page, whatever was read.
func TestLinks(t *testing.T) {
	pages, _, _ := archived(t)
	next, kinds, known := []string{"/", "/status"}, map[string]int{}, map[string]bool{}
	for len(next) > 0 {
		target := next[0]
		next = next[1:]
		u, err := url.Parse(target)
		must(t, err)
		v := u.Query()
		kind := fmt.Sprint(u.Path, v["window"], v["list"], v["by"], v.Has("path"), v.Has("prefix"), v.Has("agent"))
		if kinds[kind]++; kinds[kind] > 3 || pages[u.Path] == nil || known[target] {
			continue
		}
		known[target] = true
		w := httptest.NewRecorder()
		pages[u.Path].ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d\n%s", target, w.Code, seen(w.Body.String()))
		}
		for _, link := range regexp.MustCompile(` href="([^"#:]+)`).FindAllStringSubmatch(w.Body.String(), -1) {
			to, err := u.Parse(html.UnescapeString(link[1]))
			must(t, err)
			next = append(next, to.String())
		}
	}
	if len(kinds) < 30 {
		t.Errorf("only %d kinds of pages: %v", len(kinds), kinds)
	}
}

// TestPages: all pages of a window in the order that is asked for, a bounded number on one page.
func TestPages(t *testing.T) {
	pages, s, from := archived(t)
	week := s.Projects[0].Grids[1].Cells
	older := week[len(week)-2].Revision
	many := rows(*older, "/extra")
	for i := range 900 {
		many = append(many, analytics.Row{Path: "/z/" + strings.Repeat("z", i), Totals: analytics.Totals{Human: 1, Total: 1}})
	}
	slices.SortFunc(many, func(x, y analytics.Row) int { return strings.Compare(x.Path, y.Path) })
	older.Rows = int64(len(many))
	from.Sink.(interface {
		Put(analytics.Revision, []analytics.Row, error)
	}).Put(*older, many, nil)
	for _, tc := range []struct {
		query string
		want  []string
	}{
		{"", []string{"28 Sep – 4 Oct 2026, 52 pages, compared with 21–27 Sep 2026"}},
		{"at=2026-09-27", []string{"21–27 Sep 2026, 952 pages, compared with 14–20 Sep 2026", "Pages 1 to 500 of 952."}},
		{"at=2026-09-27&offset=500", []string{"Pages 501 to 952 of 952."}},
		{"at=2026-09-27&prefix=/z/zz&prefix=", []string{"parameter prefix: given more than once"}},
		{"at=2026-09-27&prefix=", []string{"952 pages"}},
		{"at=2026-09-27&prefix=/extra", []string{"1 page, compared with"}},
		{"by=ai&compare=2", []string{"compared with 14–20 Sep 2026"}},
		{"list=rising", []string{"Pages 28 Sep – 4 Oct 2026"}},
		{"list=rising&at=2026-07-12", []string{"which pages are rising is not known", "Later: 13–19 Jul 2026"}},
		{"window=28d", []string{"Only the totals of this window are known"}},
	} {
		code, body := visit(t, pages["/page"], "/page?"+tc.query)
		if twice := strings.Count(tc.query, "prefix=") > 1; (code == http.StatusOK) == twice {
			t.Errorf("%s: %d", tc.query, code)
		}
		wants(t, seen(body), tc.want...)
		if next := strings.Contains(body, "offset=500"); next != strings.Contains(seen(body), "Pages 1 to 500") {
			t.Errorf("%s: a link to the next pages: %t", tc.query, next)
		}
		if len(body) > 1<<20 {
			t.Errorf("%s: %d bytes", tc.query, len(body))
		}
	}
	// A bar is as long as the number by which the list is ordered, if it is ordered by one.
	row := regexp.MustCompile(`<rect width="(\d+)" height="1"/></svg></th><td>([\d,]+)</td><td>([\d,]+)</td>`)
	for by, column := range map[string]int{"human": 2, "ai": 3, "change": 0} {
		_, body := visit(t, pages["/page"], "/page?by="+by)
		all := row.FindAllStringSubmatch(body, -1)
		number := func(text string) int {
			n, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
			must(t, err)
			return n
		}
		if (len(all) == 0) != (column == 0) {
			t.Errorf("by %s: %d bars", by, len(all))
		}
		for _, r := range all {
			if column > 0 && number(r[1]) != number(r[column])*100/number(all[0][column]) {
				t.Errorf("by %s: %v, the first %v", by, r, all[0])
			}
		}
	}
}
