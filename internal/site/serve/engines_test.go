package serve

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// crowd are user agents with what they are, by what vendors say and not by our table, and their names.
// Views of Markdown by people and by tools are AI.
var crowd = []struct{ what, name, userAgent string }{
	{"person", "unconfirmed", firefox},
	{"person", "unconfirmed", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Chrome/142.0.0.0 Safari/537.36"},
	{"person", "unconfirmed", "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like " +
		"Gecko) Version/18.5 Mobile/15E148 Safari/604.1"},
	{"ai", "ChatGPT-User", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; " +
		"+https://openai.com/bot"},
	{"ai", "claude-code", "Claude-User (claude-code/2.1.86; +https://support.anthropic.com/)"},
	{"ai", "Perplexity-User", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Perplexity-User/1.0; " +
		"+https://perplexity.ai/perplexity-user)"},
	{"none", "Googlebot", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"},
	{"none", "GPTBot", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; " +
		"+https://openai.com/gptbot"},
	{"none", "unknown", "SomebodysBot/3.1 (+https://example.com/bot)"},
	{"tool", "curl", "curl/8.5.0"}, {"tool", "python-requests", "python-requests/2.32.3"},
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
		address := r.IntN(addresses)
		fmt.Fprintf(&log, "203.0.%d.%d - - [%02d/Oct/2026:%02d:00:00 +0000] \"%s %s HTTP/1.1\" %s %d \"-\" \"%s\"\n",
			address%3, address, 1+r.IntN(31), r.IntN(24), pick("GET", "GET", "GET", "GET", "GET", "HEAD", "POST"),
			page+pick("", "", "?q=1", "?a=b.css"), pick("200", "200", "200", "200", "206", "304", "301", "404", "500"),
			r.IntN(1e5), crowd[r.IntN(len(crowd))].userAgent)
	}
	return log.String()
}

// countingSQL is the same questions in the words of two engines: the site's readers, each page's, and the
// readers and requests of the agents of both, in days of October, %d to %d exclusive.
const countingSQL = `WITH
l AS (SELECT $1 AS ip, $2 AS d, $3 AS method, $4 AS target, $5 AS status, $6 AS ua FROM LINES),
v AS (SELECT ip, ua, PART(target) AS path, status = '404' AS missed FROM l
	WHERE method = 'GET' AND status IN ('200', '206', '304', '404')
	AND CAST(d AS INTEGER) >= %d AND CAST(d AS INTEGER) < %d),
w AS (SELECT ip, ua, missed, path LIKE '%%.md' AS md,
	REPLACE(REPLACE(path, '(/index)?[.](html|md)$', ''), '/+$', '') AS page
	FROM v WHERE path NOT LIKE '%%.css' AND path NOT LIKE '%%.png' AND path NOT LIKE '%%.js'),
n AS (SELECT ip, ua, missed, CASE WHEN page = '' THEN '/' ELSE page END AS page, CASE WHEN ua IN (%s) THEN 'ai'
	WHEN ua IN (%s) THEN 'neither' WHEN md THEN 'ai' WHEN ua IN (%s) THEN 'neither' ELSE 'human' END AS kind,
	CASE %s END AS name FROM w),
k AS (SELECT ip, ua, page, kind, CASE WHEN name = 'unconfirmed' AND kind = 'ai' THEN 'unnamed' ELSE name END AS agent
	FROM n WHERE NOT missed),
m AS (SELECT ip, ua, page, kind, CASE WHEN name = 'unconfirmed' THEN 'unnamed' ELSE name END AS agent
	FROM n WHERE missed AND (kind = 'ai' OR name IN ('Googlebot', 'GPTBot')))
SELECT * FROM (
	SELECT '*' AS page, UNIQ(human) AS h, UNIQ(ai) AS a, UNIQ(either) AS t FROM k WHERE kind <> 'neither'
	UNION ALL SELECT page, UNIQ(human), UNIQ(ai), UNIQ(either) FROM k WHERE kind <> 'neither' GROUP BY page
	UNION ALL SELECT concat('* ', agent, ' ', kind), UNIQ(either), count(*), 0 FROM k GROUP BY agent, kind
	UNION ALL SELECT concat(page, ' ', agent, ' ', kind), UNIQ(either), count(*), 0 FROM k GROUP BY page, agent, kind
	UNION ALL SELECT concat(page, ' ', agent, ' ', kind, ' missed'), UNIQ(either), count(*), 0 FROM m
	WHERE page IN (SELECT page FROM m GROUP BY page HAVING count(DISTINCT REPLACE(ip, '[.][0-9]+$', '')) > 1)
	GROUP BY page, agent, kind) AS answer ORDER BY page`

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
	names := ""
	for _, c := range crowd {
		names += " WHEN ua = '" + c.userAgent + "' THEN '" + c.name + "'"
	}
	for i := range 6 {
		words = append(words, fmt.Sprintf("$%d", i+1), group(i+1))
	}
	text := fmt.Sprintf(countingSQL, from, to, agents("ai"), agents("none"), agents("tool"), names)
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
		report, err := rulesOf(t, count.Settings{}).Count(t.Context(), []string{path},
			count.Options{From: &begin, To: &end, Now: end})
		if err != nil {
			t.Fatal(err)
		}
		if n := report.Totals; n.Human+n.AI > n.Total {
			both++
		}
		got = append(got, shown(report, collected(t, path, begin, end)))
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
		if diff := gocmp.Diff(strings.ReplaceAll(answer, "\t", " "), got[i]); diff != "" {
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
		if diff := gocmp.Diff(want.String(), got[i]); diff != "" {
			t.Errorf("site %d, DuckDB (-) and docgauge (+):\n%s", i, diff)
		}
	}
}

// collected is the report of agents of a log.
func collected(t *testing.T, path string, from, to analytics.Date) facts.Agents {
	t.Helper()
	store, err := facts.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s, err := NewCollector(rulesOf(t, count.Settings{}), []logs.Source{{Where: path}}, store, CollectOptions{
		Now: analytics.NewDate(2026, 11, 3).Time, Logger: slog.New(slog.DiscardHandler)}).newSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.follower.Close()
	if err := s.poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, err := store.CountAgents(t.Context(), count.DefaultProject, from, to, analytics.Claimed)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// shown is both reports as the engines answer, in order of paths.
func shown(r *count.Report, agents facts.Agents) string {
	rows := []string{fmt.Sprintf("* %d %d %d\n", r.Totals.Human, r.Totals.AI, r.Totals.Total)}
	for _, p := range r.Pages {
		rows = append(rows, fmt.Sprintf("%s %d %d %d\n", p.Path, p.Human, p.AI, p.Total))
	}
	for _, a := range slices.Concat(agents.Totals, agents.Rows) {
		missed := map[bool]string{false: " missed"}[a.Found]
		rows = append(rows, fmt.Sprintf("%s %s %s%s %d %d 0\n", cmp.Or(a.Path, "*"), a.Agent, a.Audience, missed,
			a.Visitors, a.Requests))
	}
	slices.Sort(rows)
	return strings.Join(rows, "")
}
