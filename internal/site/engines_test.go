package site

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

// crowd are user agents with what they are, by what vendors say and not by our table. Views of
// Markdown by people and by tools are AI.
var crowd = []struct{ what, userAgent string }{
	{"person", firefox},
	{"person", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Chrome/142.0.0.0 Safari/537.36"},
	{"person", "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
		"Version/18.5 Mobile/15E148 Safari/604.1"},
	{"ai", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot"},
	{"ai", "Claude-User (claude-code/2.1.86; +https://support.anthropic.com/)"},
	{"ai", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Perplexity-User/1.0; " +
		"+https://perplexity.ai/perplexity-user)"},
	{"none", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"},
	{"none", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; +https://openai.com/gptbot"},
	{"none", "SomebodysBot/3.1 (+https://example.com/bot)"},
	{"tool", "curl/8.5.0"}, {"tool", "python-requests/2.32.3"},
}

// randomSite writes a log of a month.
func randomSite(r *rand.Rand) string {
	var log strings.Builder
	pages, addresses := 1+r.IntN(40), 1+r.IntN(60)
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	for range 200 + r.IntN(3000) {
		page := fmt.Sprintf("/docs/p%d", int(r.Float64()*r.Float64()*float64(pages)))
		if r.IntN(20) == 0 {
			page = pick("/", "/docs/", "")
		}
		switch r.IntN(12) {
		case 0:
			page += ".md"
		case 1:
			page += ".html"
		case 2:
			page += "/index.html"
		case 3:
			page += "/"
		case 4, 5, 6:
			page = "/assets/" + pick("a.css", "b.png", "c.js")
		}
		page = strings.ReplaceAll("/"+strings.TrimLeft(page, "/"), "//", "/")
		if page == "/.md" || page == "/.html" {
			page = "/"
		}
		fmt.Fprintf(&log, "203.0.113.%d - - [%02d/Oct/2026:%02d:00:00 +0000] \"%s %s HTTP/1.1\" %s %d \"-\" \"%s\"\n",
			r.IntN(addresses), 1+r.IntN(31), r.IntN(24), pick("GET", "GET", "GET", "GET", "GET", "HEAD", "POST"),
			page+pick("", "", "?q=1", "?a=b.css"), pick("200", "200", "200", "200", "206", "304", "301", "404", "500"),
			r.IntN(1e5), crowd[r.IntN(len(crowd))].userAgent)
	}
	return log.String()
}

// countingSQL is the same question in the words of two engines: the site's readers, then each page's,
// in days of October, %d to %d exclusive.
const countingSQL = `WITH l AS (SELECT $1 AS ip, $2 AS d, $3 AS method, $4 AS target, $5 AS status, $6 AS ua FROM LINES),
v AS (SELECT ip, ua, PART(target) AS path FROM l WHERE method = 'GET' AND status IN ('200', '206', '304')
	AND CAST(d AS INTEGER) >= %d AND CAST(d AS INTEGER) < %d),
w AS (SELECT ip, ua, path LIKE '%%.md' AS md, REPLACE(REPLACE(path, '(/index)?[.](html|md)$', ''), '/+$', '') AS page
	FROM v WHERE path NOT LIKE '%%.css' AND path NOT LIKE '%%.png' AND path NOT LIKE '%%.js'),
k AS (SELECT ip, ua, page, CASE WHEN ua IN (%s) THEN 'ai' WHEN ua IN (%s) THEN '' WHEN md THEN 'ai'
	WHEN ua IN (%s) THEN '' ELSE 'human' END AS kind FROM w)
SELECT * FROM (
	SELECT '*' AS page, UNIQ(human) AS h, UNIQ(ai) AS a, UNIQ(either) AS t FROM k WHERE kind <> ''
	UNION ALL SELECT CASE WHEN page = '' THEN '/' ELSE page END, UNIQ(human), UNIQ(ai), UNIQ(either) FROM k
	WHERE kind <> '' GROUP BY page) AS answer ORDER BY page`

const lineForm = `^([0-9.]+) - - \[([0-9]+)/[^\]]*\] "([A-Z]+) ([^ ]+) [^"]*" ([0-9]+) [0-9]+ "-" "([^"]*)"$`

// question writes the question for one engine: group is how a group of a match is written, and
// words are its functions.
func question(from, to int, group func(i int) string, words ...string) string {
	agents := func(what string) string {
		var all []string
		for _, c := range crowd {
			if c.what == what {
				all = append(all, "'"+c.userAgent+"'")
			}
		}
		return strings.Join(all, ", ")
	}
	for i := range 6 {
		words = append(words, fmt.Sprintf("$%d", i+1), group(i+1))
	}
	text := fmt.Sprintf(countingSQL, from, to, agents("ai"), agents("none"), agents("tool"))
	return strings.NewReplacer(words...).Replace(text)
}

// TestEngines: for random sites and days docgauge, DuckDB and ClickHouse agree on every page and on
// the site, for people, AI and both together. Some readers are both, so that the total is no sum.
func TestEngines(t *testing.T) {
	const sites = 20
	dir := t.TempDir()
	clickHouse, err := engines.StartEngine26(filepath.Join(dir, "clickhouse"))
	engines.Need(t, err)
	t.Cleanup(func() { _ = clickHouse.Kill() })
	r := rand.New(rand.NewPCG(29, 17))
	var forDuckDB, got []string
	both := 0
	for i := range sites {
		path := filepath.Join(dir, fmt.Sprintf("site%d.log", i))
		if err := os.WriteFile(path, []byte(randomSite(r)), 0o600); err != nil {
			t.Fatal(err)
		}
		from := 1 + r.IntN(20)
		to := from + 1 + r.IntN(12)
		first := analytics.NewDate(2026, 10, 1)
		begin, end := first+analytics.Date(from-1), first+analytics.Date(to-1)
		report, err := rulesOf(t, Settings{}).Count(t.Context(), []string{path},
			Options{From: &begin, To: &end, Now: end})
		if err != nil {
			t.Fatal(err)
		}
		if n := report.Totals; n.Human+n.AI > n.Total {
			both++
		}
		got = append(got, shown(report))
		forDuckDB = append(forDuckDB, question(from, to,
			func(i int) string { return fmt.Sprintf("regexp_extract(line, '%s', %d)", lineForm, i) },
			"LINES", "(SELECT unnest(string_split(content, chr(10))) AS line FROM read_text('"+path+
				"')) WHERE line <> ''",
			"PART(target)", "split_part(target, '?', 1)", "REPLACE(", "regexp_replace(",
			"UNIQ(human)", "count(DISTINCT (ip, ua)) FILTER (WHERE kind = 'human')",
			"UNIQ(ai)", "count(DISTINCT (ip, ua)) FILTER (WHERE kind = 'ai')", "UNIQ(either)",
			"count(DISTINCT (ip, ua))"))
		answer, err := clickHouse.Exec(t.Context(), question(from, to,
			func(i int) string {
				return fmt.Sprintf("extractGroups(line, '%s')[%d]", strings.ReplaceAll(lineForm, `\`, `\\`), i)
			},
			"LINES", "file('"+path+"', 'LineAsString', 'line String')", "PART(target)", "splitByChar('?', target)[1]",
			"REPLACE(", "replaceRegexpOne(", "UNIQ(human)", "uniqExactIf((ip, ua), kind = 'human')",
			"UNIQ(ai)", "uniqExactIf((ip, ua), kind = 'ai')", "UNIQ(either)", "uniqExact((ip, ua))"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.ReplaceAll(answer, "\t", " "), got[i]); diff != "" {
			t.Errorf("site %d, days %d to %d, ClickHouse (-) and docgauge (+):\n%s", i, from, to, diff)
		}
	}
	if both < sites/2 {
		t.Errorf("only %d sites have readers who are both", both)
	}
	answers, err := engines.DuckDB.Query(t.Context(), t.TempDir(), nil, forDuckDB...)
	engines.Need(t, err)
	for i, answer := range answers {
		var want strings.Builder
		for _, row := range answer.Rows {
			want.WriteString(strings.Join(row, " ") + "\n")
		}
		if diff := cmp.Diff(want.String(), got[i]); diff != "" {
			t.Errorf("site %d, DuckDB (-) and docgauge (+):\n%s", i, diff)
		}
	}
}

// shown is a report as the engines answer, in order of paths.
func shown(r *Report) string {
	rows := []string{fmt.Sprintf("* %d %d %d\n", r.Totals.Human, r.Totals.AI, r.Totals.Total)}
	for _, p := range r.Pages {
		rows = append(rows, fmt.Sprintf("%s %d %d %d\n", p.Path, p.Human, p.AI, p.Total))
	}
	slices.Sort(rows)
	return strings.Join(rows, "")
}
