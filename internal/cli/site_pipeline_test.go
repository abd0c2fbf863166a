package cli

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

const (
	siteDays   = 70 // that the log of a site has, besides today
	siteMerge  = 35 // days since the change of /docs/p0
	siteReader = `"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"`
)

// siteLog is the log of a site whose readers come back on other days and read several pages.
// From siteMerge days ago on, the readers of /docs/p0 are so many times as many. each adds lines of a day, if it is not
// nil.
func siteLog(times int, each func(log *strings.Builder, ago int, day string)) string {
	var log strings.Builder
	r := rand.New(rand.NewPCG(30, 4))
	for ago := siteDays; ago >= 0; ago-- {
		day := testbed.DaysAgo(ago).Time().Format("02/Jan/2006")
		for page := range 8 {
			readers := 24 + r.IntN(4)
			if page == 0 && ago <= siteMerge {
				readers *= times
			}
			for range readers {
				target, agent := fmt.Sprintf("/docs/p%d", page), siteReader
				switch n := r.IntN(20); {
				case n < 2:
					agent = `"Mozilla/5.0 (compatible; Claude-User/1.0; +Claude-User@anthropic.com)"`
				case n == 2:
					agent = `"curl/8.5.0"`
				case n == 3:
					target += ".md"
				case n == 4:
					target, agent = target+".md", `"curl/8.5.0"`
				}
				fmt.Fprintf(&log, "192.0.2.%d - - [%s:%02d:%02d:00 +0000] \"GET %s HTTP/1.1\" 200 512 \"-\" %s\n",
					r.IntN(250), day, r.IntN(24), r.IntN(60), target, agent)
			}
		}
		if each != nil {
			each(&log, ago, day)
		}
	}
	return log.String()
}

// countedByDuckDB makes tables of DuckDB's own numbers of the log, for the windows of the files: the numbers of each
// page, of the site, whose path is *, and of agents, on each page and on the site, which has no path.
const countedByDuckDB = `CREATE TABLE views AS SELECT regexp_extract(line, '^(\S+)', 1) AS ip,
	regexp_extract(line, 'GET (\S+)', 1) AS target, regexp_extract(line, '"([^"]*)"$', 1) AS ua,
	CAST(strptime(regexp_extract(line, '\[([^:]+)', 1), '%d/%b/%Y') AS DATE) AS day
	FROM (SELECT unnest(string_split(content, chr(10))) AS line FROM read_text('LOG')) WHERE line <> '';
CREATE TABLE read AS SELECT ip || ' ' || ua AS reader, day, unnest([replace(target, '.md', ''), '*']) AS path,
	ua LIKE '%Claude-User%' OR target LIKE '%.md' AS ai
	FROM views WHERE ua NOT LIKE 'curl%' OR target LIKE '%.md';
CREATE TABLE files AS SELECT granularity, window_start, window_end, path, human, ai, total
	FROM read_parquet('DATA/visitors/v1/**/*.parquet', hive_partitioning = false)
	UNION ALL SELECT granularity, window_start, window_end, '*', human, ai, total
	FROM read_parquet('DATA/totals/v1/**/*.parquet', hive_partitioning = false);
CREATE TABLE counted AS SELECT granularity, window_start, window_end, path,
	count(DISTINCT reader) FILTER (NOT ai) AS human,
	count(DISTINCT reader) FILTER (ai) AS ai, count(DISTINCT reader) AS total
	FROM (SELECT DISTINCT granularity, window_start, window_end FROM files
		UNION ALL SELECT 'today', CAST('TODAY' AS DATE), CAST('TODAY' AS DATE) + 1)
	JOIN read ON day >= window_start AND day < window_end GROUP BY ALL;
CREATE TABLE named AS SELECT ip || ' ' || ua AS reader, day, unnest([replace(target, '.md', ''), '']) AS path,
	CASE WHEN ua LIKE '%Claude-User%' THEN 'Claude-User answers' WHEN ua LIKE 'curl%' THEN 'curl tool'
		WHEN target LIKE '%.md' THEN 'unnamed coding' ELSE 'unconfirmed human' END AS agent,
	CASE WHEN ua LIKE '%Claude-User%' OR target LIKE '%.md' THEN 'ai' WHEN ua LIKE 'curl%' THEN 'neither'
		ELSE 'human' END AS audience FROM views;
CREATE TABLE exported AS SELECT granularity, window_start, window_end, path, agent || ' ' || class AS agent, audience,
	visitors, requests FROM read_parquet('DATA/agents/v1/**/*.parquet', hive_partitioning = false);
CREATE TABLE readers AS SELECT granularity, window_start, window_end, path, agent, audience,
	count(DISTINCT reader) AS visitors, count(*) AS requests
	FROM (SELECT DISTINCT granularity, window_start, window_end FROM files)
	JOIN named ON day >= window_start AND day < window_end GROUP BY ALL`

// overSite serves a log, and returns the place whose commands ask that site.
func (p place) overSite(t *testing.T, log string) (place, *sidecar) {
	t.Helper()
	p.env = append(slices.Clip(p.env), "DOCGAUGE_SITE_LOGS="+sandbox.DefaultProject+"="+log,
		"DOCGAUGE_SITE_DIR="+log+".site")
	site := p.serve(t, "site", "serve")
	p.env = append(p.env, "DOCGAUGE_BASE_URL="+site.URL,
		"DOCGAUGE_API_KEY="+strings.TrimSpace(string(p.run(t, "site", "keys", "add"))))
	testbed.Await(t, "the log is read", func() bool {
		code, _, _ := p.try(t, "check")
		return code == exitDone
	})
	return p, site
}

// withInstall adds the requests for /docs/install to the log of a site: agents in two networks miss it, or,
// since mended days, are redirected to /docs/p0.
func withInstall(mended int) string {
	agents := []string{"Claude-User/1.0", "ChatGPT-User/1.0", "opencode/1.0"}
	return siteLog(2, func(log *strings.Builder, ago int, day string) {
		for reader := range 24 {
			get := func(path string, status int) {
				fmt.Fprintf(log, "%s.%d - - [%s:12:00:00 +0000] \"GET %s HTTP/1.1\" %d 512 \"-\" \"%s\"\n",
					[]string{"192.0.2", "198.51.100"}[reader%2], reader, day, path, status, agents[reader%len(agents)])
			}
			if ago > mended {
				get("/docs/install", 404)
				continue
			}
			get("/docs/install", 301)
			get("/docs/p0", 200)
		}
	})
}

// TestMissesAreMended: a path that agents miss in the log of a site is in the prompt that a template makes, its
// job's pull request, which redirects it, is merged, and since then the path is missed no more and the page has
// more AI readers.
func TestMissesAreMended(t *testing.T) {
	t.Parallel()
	pulls := sandbox.Pulls{}
	pulls.MergeShare, pulls.DaysAgo = 1, siteMerge
	s := testbed.NewService(t, sandbox.Config{Agent: sandbox.Agent{After: 10 * time.Millisecond, Pulls: pulls}})
	jobs := queuePlace(t, s, map[string]string{"misses.md": "---\ntitle: Missing pages\ntemplate: true\n" +
		"pages: [/docs/p0]\n---\n[[ if have \"week\" \"agents\" -]]\nAdd pages or redirects:\n~~~\n" +
		"[[ misses \"week\" 5 ]]\n~~~\nThese read us:\n[[ agents \"week\" ]]\n[[- end ]]\n"},
		"DOCGAUGE_GITHUB_URL="+s.URL+"/github", "DOCGAUGE_GITHUB_TOKEN=ghp_any", "DOCGAUGE_REPORTS=visitors,agents",
		"DOCGAUGE_WINDOWS=day,week", "DOCGAUGE_SINCE="+testbed.DaysAgo(siteDays).String())
	log := filepath.Join(jobs.dir, "missing.log")
	writeText(t, log, withInstall(-1))
	p, site := jobs.overSite(t, log)
	p.run(t, "export")
	site.stop(t)
	missed := `,/docs/install,,,,8,168,0,86016,8,168,0,86016,0,0,"ChatGPT-User 56, Claude-User 56, opencode 56",`
	week := testbed.DaysAgo(7).String()
	if out := string(p.run(t, "top", "--misses", "--csv", "--at", week)); !strings.Contains(out, missed) {
		t.Errorf("misses before: %s, want %s", out, missed)
	}
	prompt := string(p.run(t, "jobs", "plan", "--text"))
	for _, line := range []string{`- "/docs/install": 168 requests (+0) by "`, `- "Claude-User" (answers, ai): `,
		`- "unconfirmed" (human, human): `} {
		if !strings.Contains(prompt, line) {
			t.Errorf("the prompt lacks %s:\n%s", line, prompt)
		}
	}
	jobs.run(t, "jobs", "run", "--wait") // at the sandbox, which merges

	log = filepath.Join(jobs.dir, "mended.log")
	writeText(t, log, withInstall(siteMerge))
	p, site = jobs.overSite(t, log) // of the same site, since the merge
	p.run(t, "export", "--from", testbed.DaysAgo(siteDays).String(), "--to", testbed.DaysAgo(0).String())
	p.run(t, "verify")
	site.stop(t)
	if out := string(p.run(t, "top", "--misses", "--csv", "--at", week)); strings.Contains(out, "/docs/install") {
		t.Errorf("missed since the merge: %s", out)
	}
	before := testbed.DaysAgo(siteMerge + 10).String()
	if out := string(p.run(t, "top", "--misses", "--csv", "--at", before)); !strings.Contains(out, "/docs/install,,,,8,") {
		t.Errorf("misses before the merge: %s", out)
	}
	if out := string(p.run(t, "top", "--agent", "opencode", "--csv", "--at", week)); !strings.Contains(out,
		",1,/docs/p0,opencode,coding,ai,8,56,0,28672,8,56,0,28672,") {
		t.Errorf("pages of an agent: %s", out)
	}
	if out := string(p.run(t, "outcomes", "--csv")); !strings.Contains(out, ",/docs/p0,ai,more readers,") {
		t.Errorf("outcomes:\n%s", out)
	}
}

// TestPipelineOverSite: the pipeline makes the same numbers of a site's API, in files and metrics, as DuckDB counts
// in the log, and all commands work with it.
func TestPipelineOverSite(t *testing.T) {
	t.Parallel()
	pulls := sandbox.Pulls{}
	pulls.MergeShare, pulls.DaysAgo = 1, siteMerge
	s := testbed.NewService(t, sandbox.Config{Agent: sandbox.Agent{After: 10 * time.Millisecond, Pulls: pulls}})
	p := queuePlace(t, s, map[string]string{"p0.md": "---\ntitle: Better p0\npages: [/docs/p0]\n---\nImprove it."},
		"DOCGAUGE_GITHUB_URL="+s.URL+"/github", "DOCGAUGE_GITHUB_TOKEN=ghp_any")
	p.run(t, "jobs", "run", "--wait") // a site runs no jobs: these belong to the sandbox

	log := filepath.Join(p.dir, "access.log")
	writeText(t, log, siteLog(2, nil))
	p.env = append(p.env, "DOCGAUGE_PROMPTS_DIR=", "DOCGAUGE_WINDOWS=day,week,month,28d",
		"DOCGAUGE_REPORTS=visitors,agents",
		"DOCGAUGE_SINCE="+testbed.DaysAgo(siteDays).String())
	p, site := p.overSite(t, log)
	p.run(t, "export")
	p.run(t, "verify")
	if out := string(p.run(t, "plan")); strings.Contains(out, "missing") {
		t.Errorf("due after the export: %s", out)
	}
	if out := p.run(t, "outcomes", "--csv"); !strings.Contains(string(out), ",/docs/p0,human,more readers,") {
		t.Errorf("outcomes:\n%s", out)
	}

	replace := strings.NewReplacer("LOG", log, "DATA", filepath.Join(p.dir, "data"), "TODAY", testbed.DaysAgo(0).String())
	answers, err := engines.DuckDB.Query(t.Context(), t.TempDir(), nil, replace.Replace(countedByDuckDB),
		`(SELECT 'counted', * FROM (FROM counted WHERE granularity <> 'today' EXCEPT FROM files))
			UNION ALL (SELECT 'in files', * FROM (FROM files EXCEPT FROM counted))`,
		`(SELECT 'counted', * FROM (FROM readers EXCEPT FROM exported))
			UNION ALL (SELECT 'in files', * FROM (FROM exported EXCEPT FROM readers))`,
		`SELECT granularity, count(*), count(*) FILTER (human + ai > total) FROM files GROUP BY ALL ORDER BY 1`,
		`SELECT granularity, path, human, ai, total FROM counted
			QUALIFY window_end = max(window_end) OVER (PARTITION BY granularity) ORDER BY granularity, path`,
		`SELECT granularity, agent, audience, visitors, requests FROM readers WHERE path = ''
			QUALIFY window_end = max(window_end) OVER (PARTITION BY granularity)`)
	engines.Need(t, err)
	for _, row := range slices.Concat(answers[1].Rows, answers[2].Rows) {
		t.Errorf("only one of the log and the files has %v", row)
	}
	for _, row := range answers[3].Rows { // at least one window with the site and its 8 pages
		if n, err := strconv.Atoi(row[1]); err != nil || n < 9 || row[2] == "0" {
			t.Errorf("granularity, numbers, readers who are both: %v", row)
		}
	}
	if len(answers[3].Rows) != 4 {
		t.Errorf("granularities: %v", answers[3].Rows)
	}

	serve := p.serve(t, "--once-at-start")
	all := serve.awaitRuns(t, "success", 1)
	for _, row := range answers[4].Rows {
		name, labels := "site_visitors", `project="prj_sandbox",window="`+row[0]+`"`
		switch {
		case row[0] == "today" && row[1] == "*":
			name, labels = "open_site_visitors", `project="prj_sandbox",window="day"`
		case row[0] == "today":
			continue
		case row[1] != "*":
			name, labels = "page_visitors", `path="`+row[1]+`",`+labels
		}
		for i, series := range []string{name + `{audience="human",` + labels, name + `{audience="ai",` + labels,
			name + "_deduplicated{" + labels} {
			if got, ok := all["docgauge_"+series+"}"]; strconv.Itoa(int(got)) != row[2+i] || !ok {
				t.Errorf("%s} is %v, DuckDB counts %s", series, got, row[2+i])
			}
		}
	}
	for _, row := range answers[5].Rows {
		agent, class, _ := strings.Cut(row[1], " ")
		for i, name := range []string{"visitors", "requests"} {
			series := fmt.Sprintf(`docgauge_site_agent_%s{agent=%q,audience=%q,class=%q,project="prj_sandbox",window=%q}`,
				name, agent, row[2], class, row[0])
			if got, ok := all[series]; strconv.Itoa(int(got)) != row[3+i] || !ok {
				t.Errorf("%s is %v, DuckDB counts %s", series, got, row[3+i])
			}
		}
	}
	if len(answers[5].Rows) != 4*5 {
		t.Errorf("agents of the newest windows: %v", answers[5].Rows)
	}
	top := strings.Split(string(p.run(t, "top", "--window", "28d", "--csv")), "\n")
	i := slices.IndexFunc(answers[4].Rows, func(row []string) bool { return row[0] == "28d" && row[1] == "/docs/p0" })
	if i < 0 || len(top) < 2 || !strings.Contains(top[1], ","+strings.Join(answers[4].Rows[i][1:], ",")+",") {
		t.Errorf("top: %s", strings.Join(top, "\n"))
	}
	serve.stop(t)
	site.stop(t)
}

// TestSiteServeBeyondLoopback: with TLS it may listen on every address; behind proxies no other client gets a byte.
func TestSiteServeBeyondLoopback(t *testing.T) {
	t.Parallel()
	withTLS := "DOCGAUGE_WEB_CONFIG_FILE=web.yml"
	for name, tc := range map[string]struct {
		env    []string
		scheme string
		want   int // status; 0: no answer
	}{
		"tls":             {[]string{withTLS}, "https://", http.StatusUnauthorized},
		"proxy":           {[]string{"DOCGAUGE_SITE_TRUSTED_PROXIES=127.0.0.0/8"}, "http://", http.StatusUnauthorized},
		"stranger":        {[]string{"DOCGAUGE_SITE_TRUSTED_PROXIES=192.0.2.0/24,::1"}, "http://", 0},
		"stranger by tls": {[]string{"DOCGAUGE_SITE_TRUSTED_PROXIES=192.0.2.0/24", withTLS}, "https://", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			engines.Certificate(t, dir)
			writeText(t, filepath.Join(dir, "web.yml"), "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n")
			env := append([]string{"DOCGAUGE_SITE_LISTEN_ADDRESS=0.0.0.0:0", "DOCGAUGE_SITE_LOGS=access.log"}, tc.env...)
			s, err := startSidecar(dir, filepath.Join(dir, "serve.log"), env, "site", "serve")
			check(t, err)
			defer s.kill()
			client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			answer, err := client.Get(s.URL + "/v1/analytics/prj_site/visitors")
			status := 0
			if err == nil {
				status = answer.StatusCode
				check(t, answer.Body.Close())
			}
			if status != tc.want || !strings.HasPrefix(s.URL, tc.scheme) {
				t.Errorf("%s: status %d, %v, want %d", s.URL, status, err, tc.want)
			}
		})
	}
}
