package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
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
var crowd = []crowdMember{
	{"person", "browser", "human", firefox},
	{"person", "browser", "human", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Chrome/142.0.0.0 Safari/537.36"},
	{"person", "browser", "human", "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, " +
		"like Gecko) Version/18.5 Mobile/15E148 Safari/604.1"},
	{"ai", "ChatGPT-User", "answers", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; " +
		"ChatGPT-User/1.0; +https://openai.com/bot"},
	{"ai", "claude-code", "coding", "Claude-User (claude-code/2.1.86; +https://support.anthropic.com/)"},
	{"ai", "Perplexity-User", "answers", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; " +
		"Perplexity-User/1.0; +https://perplexity.ai/perplexity-user)"},
	{"none", "Googlebot", "search", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"},
	{"none", "GPTBot", "training", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; " +
		"+https://openai.com/gptbot"},
	{"none", "unknown", "unknown", "SomebodysBot/3.1 (+https://example.com/bot)"},
	{"tool", "curl", "tool", "curl/8.5.0"}, {"tool", "python-requests", "tool", "python-requests/2.32.3"},
}

type crowdMember struct {
	What      string `json:"what"`
	Name      string `json:"name"`
	Class     string `json:"class"`
	UserAgent string `json:"userAgent"`
}

// origins are where people come from, by what each is known for, and values of utm_source.
var origins = []origin{
	{"chatgpt", "assistant", []string{"chatgpt.com", "chat.openai.com"}, []string{"chatgpt.com", "openai"}},
	{"claude", "assistant", []string{"claude.ai"}, []string{"claude"}},
	{"perplexity", "assistant", []string{"www.perplexity.ai"}, []string{"perplexity"}},
	{"google", "search", []string{"www.google.com", "www.google.de"}, []string{"google"}},
	{"github", "code", []string{"github.com"}, []string{"github.com"}},
	{"reddit", "social", []string{"www.reddit.com"}, []string{"reddit"}},
}

type origin struct {
	Name   string   `json:"name"`
	Class  string   `json:"class"`
	Hosts  []string `json:"hosts"`
	Values []string `json:"values"`
}

const ownHost = "docs.example.com"

// logForm is how a site logs: with the numbers of bytes, and with Sec-Fetch-Mode.
type logForm struct {
	name        string
	bytes, mode bool
}

var logForms = []logForm{
	{"auto", true, false},
	{`nginx:$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" ` +
		`"$http_user_agent" "$http_sec_fetch_mode"`, true, true},
	{`nginx:$remote_addr - $remote_user [$time_local] "$request" $status "$http_referer" "$http_user_agent"`, false, false},
}

// randomSite writes a log of a month.
func randomSite(r *rand.Rand, form logForm) string {
	var log strings.Builder
	pages, addresses := 1+r.IntN(40), 1+r.IntN(60)
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	referrers, queries := []string{"-", "https://blog.example.net/a", "https://" + ownHost + "/docs/p1"}, []string{""}
	for _, o := range origins {
		for _, host := range o.Hosts {
			referrers = append(referrers, "https://"+host+"/", "-")
		}
		for _, value := range o.Values {
			queries = append(queries, "?utm_source="+value, "?q=1&utm_source="+value+"&utm_medium=x", "")
		}
	}
	queries = append(queries, "?q=1", "?a=b.css", "?utm_source=newsletter", "?xutm_source=claude")
	for range 200 + r.IntN(1500) {
		page := fmt.Sprintf("/docs/p%d", int(r.Float64()*r.Float64()*float64(pages)))
		if r.IntN(20) == 0 {
			page = pick("/", "/docs/", "")
		}
		isAsset := false
		switch r.IntN(12) {
		case 0, 6, 7:
			page += ".md"
		case 1:
			page += ".html"
		case 2:
			page += "/index.html"
		case 3:
			page += "/"
		case 4, 5:
			isAsset = true
			page = pick("/assets/a.css", "/assets/b.png", "/c.js", "/d.svg", "/e.woff2", "/f.json", "/g.pdf", "/h.zip",
				"/robots.txt", "/sitemap.xml", "/f.json", "/g.pdf", "/robots.txt")
		}
		page = strings.ReplaceAll("/"+strings.TrimLeft(page, "/"), "//", "/")
		if page == "/.md" || page == "/.html" {
			page = "/"
		}
		address, who := r.IntN(addresses), crowd[r.IntN(len(crowd))]
		status := pick("200", "200", "200", "200", "206", "301", "404", "500")
		if r.IntN(12) == 0 {
			status = "304"
		}
		fmt.Fprintf(&log, "203.0.%d.%d - - [%02d/Oct/2026:%02d:00:00 +0000] \"%s %s HTTP/1.1\" %s", address%3, address,
			1+r.IntN(31), r.IntN(24), pick("GET", "GET", "GET", "GET", "GET", "HEAD", "POST"), page+pick(queries...), status)
		if form.bytes {
			fmt.Fprintf(&log, " %d", r.IntN(1e5))
		}
		fmt.Fprintf(&log, " \"%s\" \"%s\"", pick(referrers...), who.UserAgent)
		if form.mode {
			mode := "-"
			if who.What == "person" && r.IntN(3) == 0 {
				mode = map[bool]string{false: "navigate", true: "no-cors"}[isAsset]
			} else if r.IntN(5) == 0 {
				mode = pick("cors", "no-cors")
			}
			fmt.Fprintf(&log, " %q", mode)
		}
		log.WriteByte('\n')
	}
	return log.String()
}

// countingSQL is the same questions in the words of two engines: the reports visitors, views, agents and sources in days
// of October, from first on and before end. Evidence is from all days before end.
const countingSQL = `WITH
l AS (SELECT $1 AS ip, CAST($2 AS INTEGER) AS d, $3 AS method, $4 AS target, $5 AS status, trim($6) AS size,
	$7 AS referrer, $8 AS ua, $9 AS mode FROM LINES),
p AS (SELECT *, PART(target) AS path FROM l
	WHERE method = 'GET' AND d < END_DAY AND status IN ('200', '206', '304', '404')),
e AS (SELECT DISTINCT concat(ip, ua) AS id FROM p WHERE status <> '404' AND (MATCH(path, '[.](css|js|png|svg|woff2)$')
	OR NOT MATCH(path, 'ASSETS') AND (status = '304' OR mode = ' "navigate"'))),
w AS (SELECT *, status = '404' AS missed, path LIKE '%.md' AS md, UTM AS utm, HOST AS host,
	REPLACE(REPLACE(path, '(/index)?[.](html|md)$', ''), '/+$', '') AS page
	FROM p WHERE d >= FIRST_DAY AND NOT MATCH(path, 'ASSETS')),
n AS (SELECT ip, ua, concat(ip, ua) IN (SELECT id FROM e) AS shown, missed, md, size,
	CASE WHEN page = '' THEN '/' ELSE page END AS page,
	CASE WHEN ua IN (AI_AGENTS) THEN 'ai' WHEN ua IN (OTHER_AGENTS) THEN 'neither' WHEN md THEN 'ai'
	WHEN ua IN (TOOLS) THEN 'neither' ELSE 'human' END AS claim,
	CASE NAMES END AS name, CASE CLASSES END AS class,
	CASE VALUES WHEN referrer = '-' THEN 'none' WHEN host = 'OWN_HOST' THEN 'site' HOSTS ELSE 'other' END AS source
	FROM w),
k AS (SELECT ip, ua, page, md, size, source, claim, CASE WHEN claim = 'human' AND NOT shown
	AND 'MODE' = 'confirmed' THEN 'neither' ELSE claim END AS kind,
	CASE WHEN name = 'browser' AND claim = 'ai' THEN 'unnamed coding' WHEN name = 'browser' AND NOT shown
	THEN 'unconfirmed human' ELSE concat(name, ' ', class) END AS agent
	FROM n WHERE NOT missed),
m AS (SELECT ip, ua, page, claim AS kind, size, CASE WHEN name = 'browser' THEN 'unnamed coding' ELSE concat(name, ' ', class)
	END AS agent FROM n WHERE missed AND (claim = 'ai' OR name IN ('Googlebot', 'GPTBot'))),
s AS (SELECT *, concat(source, ' ', CASE SOURCE_CLASSES ELSE source END, ' ', REPLACE(agent, ' .*', '')) AS origin
	FROM k WHERE claim = 'human')
SELECT * FROM (
	SELECT 'visitors *' AS name, UNIQ(human) AS a, UNIQ(ai) AS b, UNIQ(either) AS c, 0 AS d
		FROM k WHERE kind <> 'neither' HAVING count(*) > 0
	UNION ALL SELECT concat('visitors ', page), UNIQ(human), UNIQ(ai), UNIQ(either), 0
		FROM k WHERE kind <> 'neither' GROUP BY page
	UNION ALL SELECT 'views *', COUNT(claim = 'human'), COUNT(claim = 'ai'), count(*), 0
		FROM k WHERE claim <> 'neither' HAVING count(*) > 0
	UNION ALL SELECT concat('views ', page), COUNT(claim = 'human'), COUNT(claim = 'ai'), count(*), 0
		FROM k WHERE claim <> 'neither' GROUP BY page
	UNION ALL SELECT concat('agents * ', agent, ' ', kind, ' found'), UNIQ(either), count(*), COUNT(md), BYTES
		FROM k GROUP BY agent, kind
	UNION ALL SELECT concat('agents ', page, ' ', agent, ' ', kind, ' found'), UNIQ(either), count(*), COUNT(md), BYTES
		FROM k GROUP BY page, agent, kind
	UNION ALL SELECT concat('agents ', page, ' ', agent, ' ', kind, ' missed'), UNIQ(either), count(*), 0, BYTES FROM m
		WHERE page IN (SELECT page FROM m GROUP BY page HAVING count(DISTINCT REPLACE(ip, '[.][0-9]+$', '')) > 1)
		GROUP BY page, agent, kind
	UNION ALL SELECT concat('sources * ', origin), UNIQ(either), count(*), 0, 0 FROM s GROUP BY origin
	UNION ALL SELECT concat('sources ', page, ' ', origin), UNIQ(either), count(*), 0, 0 FROM s GROUP BY page, origin
) AS answer ORDER BY name`

// lineForm has the parts of a line; those that some logs lack are empty there.
const lineForm = `^([0-9.]+) - - \[([0-9]+)/[^\]]*\] "([A-Z]+) ([^ ]+) [^"]*" ([0-9]+)( [0-9]+)? "([^"]*)" "([^"]*)"` +
	`( "[^"]*")?$`

// pythonForm is lineForm in the words of Python, with names.
const pythonForm = `(?P<address>[0-9.]+) - - \[(?P<day>[0-9]+)/[^\]]*\] "(?P<method>[A-Z]+) (?P<target>[^ ]+) [^"]*" ` +
	`(?P<status>[0-9]+)(?: (?P<bytes>[0-9]+))? "(?P<referrer>[^"]*)" "(?P<userAgent>[^"]*)"(?: "(?P<mode>[^"]*)")?`

// window is days of October, with the mode in which people count.
type window struct {
	First, End int
	Humans     analytics.Humans
}

// sql writes the question for one engine: group is how a group of a match in a text is written, and
// words are its functions.
func (w window) sql(group func(text, form string, i int) string, words ...string) string {
	quoted := func(all []string) string { return "'" + strings.Join(all, "', '") + "'" }
	agents := func(what string) string {
		var all []string
		for _, c := range crowd {
			if c.What == what {
				all = append(all, c.UserAgent)
			}
		}
		return quoted(all)
	}
	names, classes, values, hosts, sourceClasses := "", "", "", "", ""
	for _, c := range crowd {
		names += " WHEN ua = '" + c.UserAgent + "' THEN '" + c.Name + "'"
		classes += " WHEN ua = '" + c.UserAgent + "' THEN '" + c.Class + "'"
	}
	for _, o := range origins {
		values += " WHEN utm IN (" + quoted(o.Values) + ") THEN '" + o.Name + "'"
		hosts += " WHEN host IN (" + quoted(o.Hosts) + ") THEN '" + o.Name + "'"
		sourceClasses += " WHEN source = '" + o.Name + "' THEN '" + o.Class + "'"
	}
	for i := range 9 {
		words = append(words, fmt.Sprintf("$%d", i+1), group("line", lineForm, i+1))
	}
	words = append(words, "FIRST_DAY", fmt.Sprint(w.First), "END_DAY", fmt.Sprint(w.End), "MODE", string(w.Humans),
		"AI_AGENTS", agents("ai"), "OTHER_AGENTS", agents("none"), "TOOLS", agents("tool"), "NAMES", names,
		"SOURCE_CLASSES", sourceClasses, "CLASSES", classes, "VALUES", values, "HOSTS", hosts, "OWN_HOST", ownHost,
		"ASSETS", "[.](css|js|png|svg|woff2|json|xml|pdf|zip|txt)$", "UTM", group("target", "[?&]utm_source=([^&]*)", 1),
		"HOST", group("referrer", "^https://([^/]*)", 1), "COUNT(claim = 'human')",
		"sum(CASE WHEN claim = 'human' THEN 1 ELSE 0 END)", "COUNT(claim = 'ai')",
		"sum(CASE WHEN claim = 'ai' THEN 1 ELSE 0 END)", "COUNT(md)", "sum(CASE WHEN md THEN 1 ELSE 0 END)", "BYTES",
		"CASE WHEN min(length(size)) = 0 THEN -1 ELSE sum(CAST(concat('0', size) AS BIGINT)) END")
	return strings.NewReplacer(words...).Replace(countingSQL)
}

// python is the question for the program in testdata.
type python struct {
	Log    string           `json:"log"`
	Format string           `json:"format"`
	First  int              `json:"first"`
	End    int              `json:"end"`
	Humans analytics.Humans `json:"humans"`
	Crowd  []crowdMember    `json:"crowd"`
	Source []origin         `json:"sources"`
	Hosts  []string         `json:"hosts"`
}

// TestEngines: for random sites and days docgauge, DuckDB, ClickHouse and a program in Python agree on every number of
// the reports, in both modes of counting people. Some readers are both human and AI, so that the total is no sum.
func TestEngines(t *testing.T) {
	sites := 20
	if testing.Short() {
		sites = len(logForms)
	}
	dir := t.TempDir()
	clickHouse, err := engines.StartEngine26(filepath.Join(dir, "clickhouse"))
	engines.Need(t, err)
	t.Cleanup(func() { _ = clickHouse.Kill() })
	r := rand.New(rand.NewPCG(29, 17))
	var forDuckDB, got, asked []string
	var forPython []python
	both := 0
	for i := range sites {
		path, form := filepath.Join(dir, fmt.Sprintf("site%d.log", i)), logForms[i%len(logForms)]
		if err := os.WriteFile(path, []byte(randomSite(r, form)), 0o600); err != nil {
			t.Fatal(err)
		}
		w := window{First: 1 + r.IntN(20)}
		w.End = w.First + 1 + r.IntN(12)
		for _, w.Humans = range []analytics.Humans{analytics.Claimed, analytics.Confirmed} {
			asked = append(asked, fmt.Sprintf("site %d, days %d to %d, %s", i, w.First, w.End, w.Humans))
			answer, isBoth := docgaugeCounts(t, path, form, w)
			got = append(got, answer)
			if isBoth {
				both++
			}
			forDuckDB = append(forDuckDB, w.sql(
				func(text, form string, i int) string {
					return fmt.Sprintf("regexp_extract(%s, '%s', %d)", text, form, i)
				},
				"LINES", "(SELECT unnest(string_split(content, chr(10))) AS line FROM read_text('"+path+
					"')) WHERE line <> ''",
				"PART(target)", "split_part(target, '?', 1)", "REPLACE(", "regexp_replace(", "MATCH(", "regexp_matches(",
				"UNIQ(human)", "count(DISTINCT (ip, ua)) FILTER (WHERE kind = 'human')",
				"UNIQ(ai)", "count(DISTINCT (ip, ua)) FILTER (WHERE kind = 'ai')", "UNIQ(either)",
				"count(DISTINCT (ip, ua))"))
			forPython = append(forPython, python{path, pythonForm, w.First, w.End, w.Humans, crowd, origins, []string{ownHost}})
			answer, err := clickHouse.Exec(t.Context(), w.sql(
				func(text, form string, i int) string {
					return fmt.Sprintf("extractGroups(%s, '%s')[%d]", text, strings.ReplaceAll(form, `\`, `\\`), i)
				},
				"LINES", "file('"+path+"', 'LineAsString', 'line String')", "PART(target)", "splitByChar('?', target)[1]",
				"REPLACE(", "replaceRegexpOne(", "MATCH(", "match(", "UNIQ(human)", "uniqExactIf((ip, ua), kind = 'human')",
				"UNIQ(ai)", "uniqExactIf((ip, ua), kind = 'ai')", "UNIQ(either)", "uniqExact((ip, ua))"))
			if err != nil {
				t.Fatal(err)
			}
			compareCounts(t, "ClickHouse", asked[len(asked)-1], strings.ReplaceAll(answer, "\t", " "), got[len(got)-1])
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
		compareCounts(t, "DuckDB", asked[i], want.String(), got[i])
	}
	for i, lines := range pythonCounts(t, forPython) {
		compareCounts(t, "Python", asked[i], strings.Join(lines, "\n")+"\n", got[i])
	}
}

func compareCounts(t *testing.T, who, asked, want, got string) {
	t.Helper()
	if diff := gocmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s: %s (-) and docgauge (+):\n%s", asked, who, diff)
	}
}

// pythonCounts are the answers of the program in testdata.
func pythonCounts(t *testing.T, questions []python) (answers [][]string) {
	t.Helper()
	text, err := json.Marshal(questions)
	if err != nil {
		t.Fatal(err)
	}
	program, err := engines.Tool(t.Context(), "python3", "testdata/counter.py")
	engines.Need(t, err)
	program.Stdin, program.Stderr = bytes.NewReader(text), os.Stderr
	out, err := program.Output()
	if err == nil {
		err = json.Unmarshal(out, &answers)
	}
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

// docgaugeCounts is what docgauge says of a window: from facts, which the report of the log alone must repeat. both says
// that some readers are human and AI.
func docgaugeCounts(t *testing.T, path string, form logForm, w window) (answer string, both bool) {
	t.Helper()
	rules := rulesOf(t, count.Settings{LogFormat: form.name, Hosts: []string{ownHost}})
	store, err := facts.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s, err := NewCollector(rules, []logs.Source{{Where: path}}, store, CollectOptions{
		Now: analytics.NewDate(2026, 11, 3).Time, Logger: slog.New(slog.DiscardHandler)}).newSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.follower.Close()
	if err := s.poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	from, to := analytics.NewDate(2026, 10, w.First), analytics.NewDate(2026, 10, w.End)
	visitors, err := store.CountVisitors(t.Context(), count.DefaultProject, from, to, w.Humans)
	views, viewsErr := store.CountViews(t.Context(), count.DefaultProject, from, to, w.Humans)
	agents, agentsErr := store.CountAgents(t.Context(), count.DefaultProject, from, to, w.Humans)
	sources, sourcesErr := store.CountSources(t.Context(), count.DefaultProject, from, to, w.Humans)
	if err := errors.Join(err, viewsErr, agentsErr, sourcesErr); err != nil {
		t.Fatal(err)
	}
	var rows []string
	add := func(report, path, key string, numbers ...int64) {
		row := report + " " + cmp.Or(path, "*") + key
		for _, n := range append(numbers, 0, 0)[:4] {
			row += fmt.Sprint(" ", n)
		}
		rows = append(rows, row+"\n")
	}
	site := analytics.Row{Totals: visitors.Totals}
	for _, r := range append(visitors.Rows, site) {
		if r.Total > 0 {
			add("visitors", r.Path, "", r.Human, r.AI, r.Total)
		}
	}
	all := analytics.ViewRow{Human: views.Totals.Human, AI: views.Totals.AI, Total: views.Totals.Total}
	for _, r := range append(views.Rows, all) {
		if r.Total > 0 {
			add("views", r.Path, "", r.Human, r.AI, r.Total)
		}
	}
	for _, r := range slices.Concat(agents.Totals, agents.Rows) {
		found := map[bool]string{true: "found", false: "missed"}[r.Found]
		add("agents", r.Path, fmt.Sprintf(" %s %s %s %s", r.Agent, r.Class, r.Audience, found), r.Visitors, r.Requests,
			r.Markdown, r.Bytes)
	}
	for _, r := range slices.Concat(sources.Totals, sources.Rows) {
		add("sources", r.Path, fmt.Sprintf(" %s %s %s", r.Source, r.Class, r.Agent), r.Visitors, r.Requests)
	}
	slices.Sort(rows)
	n := visitors.Totals
	return strings.Join(rows, ""), n.Human+n.AI > n.Total
}
