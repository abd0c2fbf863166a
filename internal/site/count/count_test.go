package count

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/logs"
)

const now = analytics.Date(20_800)

func rulesOf(t *testing.T, s Settings) *Rules {
	t.Helper()
	s.LogFormat = cmp.Or(s.LogFormat, "auto")
	r, err := ParseRules(s, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// counted returns the report about some lines.
func counted(t *testing.T, r *Rules, o Options, lines ...string) *Report {
	t.Helper()
	o.Now, o.Stdin = now, strings.NewReader(strings.Join(lines, "\n")+"\n")
	report, err := r.Count(t.Context(), []string{"-"}, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestPages: a page has one spelling, and what is Markdown is known.
func TestPages(t *testing.T) {
	for target, want := range map[string]string{
		"/": "/", "/?a=b": "/", "/a/": "/a", "/a/index.html": "/a", "/a.html": "/a", "/a.html#b": "/a",
		"/index.html": "/",
		"/index.md":   "/ md", "/a.md?x=.css": "/a md", "/llms.txt": "/llms.txt md",
		"/a/llms-full.txt": "/a/llms-full.txt md", "/a.html.md": "/a md", "/a/index.html.md": "/a md", "/a.mdx": "/a md",
		"/a/index.mdx": "/a md", "/index.html.md": "/ md", "/a/.html.md": "/a md", "/aindex.mdx": "/aindex md",
		"/.html": "/", "/docs/.md": "/docs md", "/a//": "/a", "//a": "//a", "/a%20b": "/a b", "/%61": "/a",
		"/a%2Fb": "/a%2Fb",
		"/a%2fb": "/a%2Fb", "/100%25": "/100%25", "/100%": "/100%25", "/%zz": "/%25zz", "/%C3%BC": "/ü", "/ü": "/ü",
		"/%c3%28": "/%C3(", "/\xff": "/%FF", "/a%00b": "/a%00b", "/\x1b[31m": "/%1B[31m", "/%E2%80%AEa": "/%E2%80%AEa",
		"/a%3Fb": "/a%3Fb", "/a%23b": "/a%23b", "http://h/a?b": "/a", "https://h": "/", "*": "", "": "", "h:443": "",
		"/" + strings.Repeat("x", maxPath): otherPages, "/a/../b": "/a/../b", "/Index.HTML": "/Index.HTML",
	} {
		page, markdown := pageOf([]byte(target))
		if got := page + map[bool]string{true: " md"}[markdown]; got != want {
			t.Errorf("%.80q is %.80q, want %q", target, got, want)
		}
		if again, _ := pageOf([]byte(page)); page != otherPages && page != "" && again != page {
			t.Errorf("%.80q is %.80q, and that %.80q", target, page, again)
		}
	}
	a := parseAssets("")
	for path, want := range map[string]bool{
		"/a.css": true, "/A.CSS": true, "/robots.txt": true, "/sitemap.xml": true, "/x/sitemap-2.xml": true,
		"/a":    false,
		"/a.md": false, "/llms.txt": false, "/v1.2": false, "/css": false, "/.css": true, "/a.tar.gz": true,
		"/en/_sources/a.rst.txt": true, "/_sources/": true, "/objects.inv": true, "/_sourcesx/a": false, "/a_sources/b": false,
		"/searchindex.js": true, "/search/search_index.json": true, "/pagefind/wasm.en.pagefind": true,
		"/pagefind/index/en_1.pf_index": true, "/pagefind/fragment/en_1.pf_fragment": true, "/search": false,
		"/hashmap.json": true, "/assets/a.md.Cx1.lean.js": true, "/_next/image": true, "/docs.data": true, "/image": false,
		"/search-index.json": true, "/genindex.html": false, "/_image": true, "/cdn-cgi/trace": true,
	} {
		if got := a.kindOf([]byte(path)) != isPage || a.haveFolder(path); got != want {
			t.Errorf("%s is an asset: %t", path, got)
		}
	}
}

// TestPlainPage: only what could be a page's path, and means nothing anywhere else, is kept of what is not
// there.
func TestPlainPage(t *testing.T) {
	for path, want := range map[string]bool{
		"/": true, "/docs/getting-started": true, "/v1.2/api_x~y": true, "/docs/1.0": true, "/llms.txt": true,
		"/a/llms-full.txt": true, "/guide.mdx": false, "": false, otherPages: false, "/.env": false, "/.git/config": false,
		"/a/../b": false, "//evil.example": false, "/a//b": false, "/wp-login.php": false, "/config.yml": false,
		"/notes.txt": false, "/a.": false, "/a b": false, "/ü": false, "/a%2Fb": false, "/@everyone": false,
		"/[x](y)": false, "/`id`": false, "/<script>": false, "/{{.}}": false, "/a|b": false, "/a\nb": false,
		"/" + strings.Repeat("x", maxMissed): false,
	} {
		if got := plainPage(path); got != want {
			t.Errorf("%.40q: %t", path, got)
		}
	}
}

// TestAccept: Markdown is preferred where its q is greater than HTML's, named or by a wildcard.
func TestAccept(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/html": false, "text/markdown": true, "text/markdown, text/html": false,
		"text/markdown, text/html;q=0.9": true, "text/html, text/markdown;q=0.9": false, "text/markdown, */*": false,
		"text/markdown, */*;q=0.1": true, "text/plain;q=1.0, text/markdown;q=0.9": true,
		"text/markdown;q=0.9, text/*;q=0.8": true, "TEXT/MARKDOWN ; Q=1 , text/html;q=0": true,
		"text/markdown;q=2":   false,
		"text/markdown;q=NaN": false, "text/markdown;q=0.5, text/html;q=0.4, */*": true, ",;,=": false,
	} {
		if got := prefersMarkdown(accept); got != want {
			t.Errorf("%q: %t", accept, got)
		}
	}
}

const (
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	day     = "10/Oct/2026:12:00:00 +0000"
)

// hit is a line in the combined format with X-Forwarded-For.
func hit(addr, path, agent string) string {
	return fmt.Sprintf(`%s - - [%s] "GET %s HTTP/1.1" 200 100 "-" "%s"`, addr, day, path, agent)
}

// TestLeftOut: each line is a view or left out, for the first reason that applies.
func TestLeftOut(t *testing.T) {
	ranges := t.TempDir()
	published := fmt.Sprintf(`{"creationTime":%q,"prefixes":[{"ipv4Prefix":"203.0.113.0/24"}]}`,
		time.Now().UTC().Format("2006-01-02T15:04:05.000000"))
	if err := os.WriteFile(filepath.Join(ranges, "gptbot.json"), []byte(published), 0o600); err != nil {
		t.Fatal(err)
	}
	old := `{"creationTime":"2020-01-01","prefixes":[{"ipv4Prefix":"203.0.113.0/24"}]}`
	if err := os.WriteFile(filepath.Join(ranges, "bingbot.json"), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	r := rulesOf(t, Settings{Exclude: "198.51.100.0/24, ::ffff:203.0.113.128/121, /internal/*, /ping, /status.html, " +
		"/admin/, /a%20b, agent:UptimeX", RangesDir: ranges})
	line := hit("192.0.2.1", "/a", firefox)
	for _, test := range []struct {
		line string
		want Reason
	}{
		{line, ""}, {strings.Replace(line, " 200 ", " 304 ", 1), ""},
		{strings.Replace(line, " 200 ", " 404 ", 1), Status},
		{strings.Replace(line, "GET", "HEAD", 1), Method}, {strings.Replace(line, "GET /a HTTP/1.1", "-", 1), Method},
		{hit("192.0.2.1", "/a.css?x", firefox), Asset}, {hit("192.0.2.1", "*", firefox), Asset},
		{hit("192.0.2.1", "/_sources/a.rst.txt", firefox), Asset},
		{hit("192.0.2.1", "/p1?_rsc=1", firefox), Prefetch}, {hit("192.0.2.1", "/b.txt?a=b&_rsc=1", firefox), Prefetch},
		{hit("192.0.2.1", "/__next._tree.txt?_rsc=1", firefox), Prefetch}, {hit("192.0.2.1", "/a?x_rsc=1", firefox), ""},
		{hit("192.0.2.1", "/docs/_next/data/x/a.json", firefox), Prefetch}, {hit("192.0.2.1", "/b.txt", firefox), ""},
		{hit("192.0.2.1", "/a/_payload.json?x", firefox), Prefetch}, {hit("192.0.2.1", "/a.json?_rsc=1", firefox), Asset},
		{strings.Replace(line, "2026", "2036", 1), Outside}, {"no log", Unparsed},
		{"2026-10-10T12:00:00Z stdout P " + line[:20], Unparsed}, // whose rest is not there
		{hit("198.51.100.7", "/a", firefox), Excluded}, {hit("192.0.2.1", "/internal/a", firefox), Excluded},
		{hit("192.0.2.1", "/ping", firefox), Excluded}, {hit("192.0.2.1", "/pings", firefox), ""},
		{hit("192.0.2.1", "/internal", firefox), Excluded}, {hit("192.0.2.1", "/internal/", firefox), Excluded},
		{hit("192.0.2.1", "/internal/index.html?x", firefox), Excluded}, {hit("192.0.2.1", "/internals", firefox), ""},
		{hit("192.0.2.1", "/internal.html", firefox), Excluded}, {hit("192.0.2.1", "/%69nternal/a", firefox), Excluded},
		{hit("192.0.2.1", "/status.html", firefox), Excluded}, {hit("192.0.2.1", "/status", firefox), ""},
		{hit("192.0.2.1", "/admin/", firefox), Excluded}, {hit("192.0.2.1", "/ping.html", firefox), Excluded},
		{hit("192.0.2.1", "/a%20b", firefox), Excluded}, {hit("203.0.113.200", "/a", firefox), Excluded},
		{hit("203.0.113.1", "/a", firefox), ""}, {hit("::ffff:203.0.113.200", "/a", firefox), Excluded},
		{hit("192.0.2.1", "/internal/"+strings.Repeat("x", maxPath), firefox), Excluded},
		{hit("192.0.2.1", "/a", "uptimex/1.0"), Excluded}, {hit("localhost", "/a", firefox), Client},
		{hit("192.0.2.1", "/a", "GPTBot/1.1"), Spoofed}, {hit("203.0.113.9", "/a", "GPTBot/1.1"), ""},
		{hit("192.0.2.1", "/a", "bingbot/2.0"), ""},    // its list is too old
		{strings.Replace(line, "HTTP/1.1", "", 1), ""}, // HTTP/0.9
	} {
		want := map[Reason]int{}
		if test.want != "" {
			want[test.want] = 1
		}
		got := counted(t, r, Options{}, line, test.line)
		if diff := gocmp.Diff(want, got.LeftOut); diff != "" || got.Views+len(want) != 2 || got.Lines != 2 {
			t.Errorf("%s: %d views of %d lines: %s", test.line, got.Views, got.Lines, diff)
		}
		last := len(got.Warnings) - 1
		if last != strings.Count(test.line, "2036") || !strings.Contains(got.Warnings[last], "bingbot.json of 2020-01-01 is "+
			"too old") {
			t.Errorf("warnings: %q", got.Warnings)
		}
	}
}

// TestRequests: Vercel writes a line for each message of a request, and lines that are of none; a request counts once,
// also if its lines are far from each other.
func TestRequests(t *testing.T) {
	line := func(id, source, path, message string, status int) string {
		return fmt.Sprintf(`{"id":"1","deploymentId":"dpl_1","source":%q,"host":"docs.example.com","timestamp":1791640536000,`+
			`"requestId":%q,"message":%q,"proxy":{"timestamp":1791640536000,"method":"GET","host":"docs.example.com","path":%q,`+
			`"userAgent":[%q],"statusCode":%d,"clientIp":"192.0.2.1"}}`, source, id, message, path, firefox, status)
	}
	var lines []string
	const n = 3000
	for i := range n {
		id := fmt.Sprintf("fra1::%d", i)
		lines = append(lines, line(id, "edge", "/a", "middleware", 200), line(id, "static", "/a", "", 200))
	}
	for i := range n {
		lines = append(lines, line(fmt.Sprintf("fra1::%d", i), "lambda", "/a", "GET /a 200", 200))
	}
	lines = append(lines, line("", "static", "/a", "", 200), line("", "static", "/a", "", 200), // without an id
		line("x", "static", "/gone", "", 404), line("x", "lambda", "/gone", "", 404),
		`{"id":"1","deploymentId":"dpl_1","source":"build","timestamp":1791640536000,"message":`+
			`"192.0.2.1 - - [10/Oct/2026:12:00:00 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"x\""}`,
		`{"id":"1","deploymentId":"dpl_1","source":"lambda","timestamp":1791640536000,"message":"hello","requestId":"y",`+
			`"path":"/a","statusCode":200}`)
	got := counted(t, rulesOf(t, Settings{}), Options{}, lines...)
	want := map[Reason]int{Again: 2 * n, Status: 2}
	if diff := gocmp.Diff(want, got.LeftOut); diff != "" || got.Views != n+2 || got.Lines != 3*n+4 {
		t.Errorf("%d views of %d lines: %s", got.Views, got.Lines, diff)
	}
	v := NewViewer(rulesOf(t, Settings{}), NewVocabulary(), 0, 1<<62)
	v.All, v.Identify = true, func(*view, []byte) Reason { return "" }
	missed := strings.ReplaceAll(line("x", "static", "/gone", "", 404), firefox, "ChatGPT-User/1.0")
	text := strings.Join([]string{missed, missed, strings.Replace(missed, ":404", ":200", 1)}, "\n")
	b := v.Batch(v.Parser(), logs.Lines{First: 1, Text: []byte(text)})
	if len(b.Missed) != 2 || len(b.Views) != 1 { // the reader and the network
		t.Errorf("%d missed, %d views", len(b.Missed), len(b.Views))
	}
}

// TestPrefetch: what headers say of why a page is fetched decides, in every format that may have them.
func TestPrefetch(t *testing.T) {
	next := func(path string, headers ...string) string {
		text := ""
		for i := 0; i < len(headers); i += 2 {
			text += fmt.Sprintf(",%q:[%q]", headers[i], headers[i+1])
		}
		return `{"ts":1791640536.5,"request":{"remote_ip":"192.0.2.1","method":"GET","uri":"` + path + `","headers":{` +
			`"User-Agent":["` + firefox + `"]` + text + `}},"status":200}`
	}
	flat := func(key, value string) string {
		return `{"time":"2026-10-10T12:00:00Z","ClientAddr":"192.0.2.1:1","RequestMethod":"GET","RequestPath":"/a",` +
			`"DownstreamStatus":200,"request_User-Agent":"` + firefox + `","` + key + `":"` + value + `"}`
	}
	columns := func(fields, values string) string {
		return "#Fields: date time c-ip cs-method cs-uri-stem sc-status cs(User-Agent) " + fields +
			"\n2026-10-10 12:00:00 192.0.2.1 GET /a 200 " + strings.ReplaceAll(firefox, " ", "+") + " " + values
	}
	for _, test := range []struct{ format, line, want string }{
		{"", next("/a"), "/a"}, {"", next("/a", "Sec-Purpose", "prefetch;prerender"), ""},
		{"", next("/a", "Purpose", "prefetch"), ""}, {"", next("/a", "Sec-Purpose", "else"), "/a"},
		{"", next("/a?_rsc=1", "Rsc", "1"), "/a"}, {"", next("/a?_rsc=1", "Rsc", "1", "Next-Router-Prefetch", "1"), ""},
		{"", next("/a?_rsc=1", "Rsc", "1", "Next-Router-Segment-Prefetch", "/_tree"), ""}, {"", next("/a?_rsc=1"), ""},
		{"", next("/d/b.txt?_rsc=1", "Rsc", "1"), "/d/b"}, {"", next("/d/index.txt?_rsc=1", "Rsc", "1"), "/d"},
		{"", next("/__next._tree.txt?_rsc=1", "Rsc", "1"), ""},
		{"", next("/d/_next/data/x/a/b.json?q=1", "X-Nextjs-Data", "1"), "/d/a/b"},
		{"", next("/_next/data/x/index.json", "X-Nextjs-Data", "1"), "/"},
		{"", next("/_next/data/x/a.json", "X-Nextjs-Data", "1", "Purpose", "prefetch"), ""},
		{"", next("/_next/data/x/a.json", "X-Nextjs-Data", "1", "X-Middleware-Prefetch", "1"), ""},
		{"", next("/_payload.json", "Rsc", "1"), ""},
		{"", flat("request_Sec-Purpose", "prefetch"), ""}, {"", flat("request_Next-Router-Prefetch", "1"), ""},
		{"", flat("request_Sec-Purpose", "-"), "/a"},
		{"", `{"time_local":"10/Oct/2026:12:00:00 +0000","remote_addr":"192.0.2.1","request":"GET /a HTTP/1.1",` +
			`"status":"200","http_user_agent":"` + firefox + `","http_sec_purpose":"prefetch"}`, ""},
		{`nginx:$remote_addr [$time_iso8601] "$request" $status "$http_user_agent" "$http_rsc" "$http_sec_purpose"`,
			`192.0.2.1 [2026-10-10T12:00:00Z] "GET /a?_rsc=1 HTTP/1.1" 200 "` + firefox + `" "1" "-"`, "/a"},
		{`nginx:$remote_addr [$time_iso8601] "$request" $status "$http_user_agent" "$http_rsc" "$http_sec_purpose"`,
			`192.0.2.1 [2026-10-10T12:00:00Z] "GET /a HTTP/1.1" 200 "` + firefox + `" "-" "prefetch"`, ""},
		{"", columns("cs-uri-query", "_rsc=1"), ""}, {"", columns("cs-uri-query", "-"), "/a"},
		{"", columns("cs(Sec-Purpose)", "prefetch"), ""},
		{"", next("/b.txt?_rsc=1", "Rsc", "1") + "\n" + next("/b.txt"), "/b/b.txt"},
	} {
		r := counted(t, rulesOf(t, Settings{LogFormat: test.format}), Options{}, test.line)
		got := ""
		for _, p := range r.Pages {
			got += p.Path
		}
		if got != test.want || r.LeftOut[Prefetch] != map[bool]int{true: 1}[test.want == ""] {
			t.Errorf("%s: %q, want %q; left out %v", test.line, got, test.want, r.LeftOut)
		}
	}
}

// TestMarkdown: on a site whose own script fetches Markdown, a browser's Markdown is a person's.
func TestMarkdown(t *testing.T) {
	accepts := hit("192.0.2.4", "/guide/install.md", firefox) + ` "text/markdown"`
	format := `nginx:$remote_addr - - [$time_local] "$request" $status $size "-" "$http_user_agent" "$http_accept"`
	var lines []string
	for _, path := range []string{"/", "/README.md", "/_sidebar.md", "/_navbar.md", "/en/README.md", "/guide/install.md",
		"/docs/README", "/XREADME.md"} {
		lines = append(lines, hit("192.0.2.1", path, firefox)+` "*/*"`)
	}
	lines = append(lines, hit("192.0.2.2", "/guide/install.md", "ChatGPT-User/1.0")+` "*/*"`,
		hit("192.0.2.3", "/guide/install.md", "curl/8.1")+` "*/*"`, accepts)
	for markdown, want := range map[string]string{
		"browser": "/ 1 0, /XREADME 1 0, /docs/README 1 0, /en 1 0, /guide/install 1 3",
		"agent": "/ 1 0, /README 0 1, /XREADME 0 1, /_navbar 0 1, /_sidebar 0 1, /docs/README 1 0, /en/README 0 1, " +
			"/guide/install 0 4",
	} {
		r := counted(t, rulesOf(t, Settings{Markdown: markdown, LogFormat: format}), Options{}, lines...)
		var pages []string
		for _, p := range r.Pages {
			pages = append(pages, fmt.Sprint(p.Path, " ", p.Human, " ", p.AI))
		}
		slices.Sort(pages)
		if got := strings.Join(pages, ", "); got != want {
			t.Errorf("%s: %s, want %s", markdown, got, want)
		}
	}
	agent := hit("192.0.2.2", "/guide/install.md", "ChatGPT-User/1.0")
	docsify := []string{hit("192.0.2.1", "/", firefox), hit("192.0.2.1", "/vue.css", firefox)}
	for _, path := range []string{"/README.md", "/_sidebar.md", "/_navbar.md", "/guide/install.md", "/a.md", "/b.md"} {
		docsify = append(docsify, hit("192.0.2.1", path, firefox))
	}
	path := filepath.Join(t.TempDir(), "access.log")
	for _, test := range []struct {
		markdown string
		lines    []string
		want     bool
	}{
		{"", docsify, true}, {"browser", docsify, false}, {"", docsify[:5], false},
		{"", slices.Concat(docsify, slices.Repeat(docsify[:1], 9)), false}, {"", slices.Repeat([]string{accepts}, 9), false},
		{"", slices.Concat(docsify[:1], slices.Repeat([]string{agent}, 9)), false},
		{"", slices.Repeat([]string{strings.Replace(docsify[2], " 200 ", " 404 ", 1)}, 9), false},
	} {
		if err := os.WriteFile(path, []byte(strings.Join(test.lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		tried, err := rulesOf(t, Settings{Markdown: test.markdown, LogFormat: format}).Try(t.Context(),
			logs.Source{Where: path}, time.Now)
		if err != nil || tried.Scripted() != test.want {
			t.Errorf("%q %q: %t, want %t; %v", test.markdown, test.lines, tried.Scripted(), test.want, err)
		}
	}
}

// TestReaders: who is the same reader, and behind which proxy.
func TestReaders(t *testing.T) {
	forwarded := func(peer, list string) string { return hit(peer, "/a", firefox) + ` "` + list + `"` }
	caddy := func(addresses, headers string) string {
		return `{"ts":1791640536.5,"request":{` + addresses + `,"method":"GET","uri":"/a","headers":{"User-Agent":["` +
			firefox + `"]` + headers + `}},"status":200}`
	}
	ranges := t.TempDir()
	for name, text := range map[string]string{"mycdn": "198.18.0.0/16 # of the CDN\n",
		"mycdn.json": `{"creationTime":"2020-01-01","prefixes":[{"ipv4Prefix":"198.19.0.0/16"}]}`} {
		if err := os.WriteFile(filepath.Join(ranges, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	three := []string{"198.51.100.1", "198.51.100.2", "198.51.100.3"}
	each := func(line func(string) string) (lines []string) {
		for _, text := range three {
			lines = append(lines, line(text))
		}
		return lines
	}
	for _, test := range []struct {
		proxies string
		lines   []string
		want    int64
	}{
		{"", []string{hit("192.0.2.1", "/a", firefox), hit("::ffff:192.0.2.1", "/b", firefox)}, 1},
		{"", []string{hit("192.0.2.1", "/a", firefox), hit("192.0.2.1", "/a", firefox+"x")}, 2},
		{"", []string{hit("2001:db8::1", "/a", firefox), hit("2001:db8::ffff", "/a", firefox)}, 1},
		{"", []string{hit("2001:db8::1", "/a", firefox), hit("2001:db8:0:1::1", "/a", firefox)}, 2},
		{"", []string{forwarded("10.0.0.1", "192.0.2.1"), forwarded("10.0.0.1", "192.0.2.2")}, 1},
		{"10.0.0.0/8", []string{forwarded("10.0.0.1", "192.0.2.1"), forwarded("10.0.0.1", "192.0.2.2")}, 2},
		{"10.0.0.0/8", []string{forwarded("10.0.0.1", "192.0.2.1"),
			forwarded("10.0.0.2", "192.0.2.7, 192.0.2.1, 10.9.9.9")}, 1},
		{"10.0.0.0/8", []string{forwarded("192.0.2.3", "192.0.2.1"), forwarded("192.0.2.3", "192.0.2.2")}, 1},
		{"10.0.0.0/8", []string{forwarded("10.0.0.1", "192.0.2.1:4711"), forwarded("10.0.0.1", "192.0.2.1")}, 1},
		{"10.0.0.0/8", []string{forwarded("10.0.0.1", "-"), forwarded("10.0.0.1", "10.0.0.3")}, 2},
		{"10.0.0.0/8", []string{forwarded("10.0.0.1", "192.0.2.1, unknown"), forwarded("10.0.0.1", "192.0.2.1")}, 1},
		{"2001:db8::/32", []string{forwarded("2001:db8::9", "192.0.2.1"), forwarded("2001:db8:5::9", "192.0.2.1")}, 1},
		{"cloudflare", each(func(a string) string { return forwarded("172.70.1.1", a) }), 3},
		{"mycdn,private", each(func(a string) string { return forwarded("198.18.1.1", a+", 198.18.9.9") }), 3},
		{"mycdn.json", each(func(a string) string { return forwarded("198.19.1.1", a) }), 3},
		{"mycdn", each(func(a string) string { return forwarded("198.19.1.1", a) }), 1},
		{"fastly, private", each(func(a string) string { return forwarded("151.101.1.1", a+", 10.0.0.3") }), 3},
		{"private", []string{forwarded("fd00::1", "192.0.2.1"), forwarded("::1", "192.0.2.1"),
			forwarded("100.64.0.1", "192.0.2.1"), forwarded("127.0.0.1", "192.0.2.1, 192.168.0.1")}, 1},
		// The header has the client's own text before the address that the proxy has added.
		{"10.0.0.0/8", each(func(a string) string { return forwarded("10.0.0.1", a+", ;--, 192.0.2.1") }), 1},
		// A number is no address, and what is after the header of another name is not X-Forwarded-For.
		{"10.0.0.0/8", []string{hit("10.0.0.1", "/a", firefox) + ` "4.981" "192.0.2.1"`,
			hit("10.0.0.1", "/a", firefox) + ` 0.001 - "192.0.2.1"`}, 1},
		{"10.0.0.0/8", each(func(a string) string { return hit("10.0.0.1", "/a", firefox) + ` "text/html" "` + a + `"` }), 1},
		{"2001:db8::/32", []string{"192.0.2.1, 2001:db8::1" + hit("", "/a", firefox),
			`"192.0.2.1, 2001:db8::1"` + hit("", "/a", firefox), "h:443 192.0.2.1, 2001:db8::1" + hit("", "/a", firefox)}, 1},
		{"", []string{forwarded("2001:db8::1%eth0", "-"), `[2001:db8::1]` + hit("", "/a", firefox),
			`[2001:db8::1]:443` + hit("", "/a", firefox), `2001:db8:0:0:0:0:0:1:443` + hit("", "/a", firefox),
			`[2001:db8::1%eth0]:443` + hit("", "/a", firefox)}, 1},
		// Caddy's client_ip; without it, the address of the connection.
		{"", each(func(a string) string { return caddy(`"remote_ip":"10.0.0.2","client_ip":"`+a+`"`, "") }), 3},
		{"", each(func(a string) string {
			return caddy(`"remote_ip":"192.0.2.1"`, `,"X-Forwarded-For":["`+a+`"],"Client-Ip":["`+a+`"]`)
		}), 1},
		{"10.0.0.0/8", each(func(a string) string {
			return caddy(`"remote_ip":"10.0.0.2","client_ip":"10.0.0.2"`, `,"X-Forwarded-For":["`+a+`","192.0.2.1"]`)
		}), 1},
		{"10.0.0.0/8", each(func(a string) string {
			return caddy(`"remote_ip":"10.0.0.2","client_ip":"`+a+`"`, `,"X-Forwarded-For":["6.6.6.6","`+a+`, 10.0.0.9"]`)
		}), 3},
		// The address that Azure's clients say in X-Forwarded-For is theirs only from a proxy.
		{"", each(func(a string) string {
			return `{"time":"2026-10-10T12:00:00Z","properties":{"httpMethod":"GET","requestUri":"https://h:443/a",` +
				`"httpStatusCode":"200","userAgent":"` + firefox + `","clientIp":"` + a + `","socketIp":"192.0.2.1"}}`
		}), 1},
	} {
		r := counted(t, rulesOf(t, Settings{LogProxies: test.proxies, RangesDir: ranges}), Options{}, test.lines...)
		if r.Totals.Total != test.want {
			t.Errorf("%s: %q: %d readers, want %d", test.proxies, test.lines, r.Totals.Total, test.want)
		}
	}
	many := []string{hit("192.0.2.1", "/a.css", firefox)}
	for i := range 2000 {
		many = append(many, hit(fmt.Sprintf("192.0.2.%d", i%2), "/a", firefox))
	}
	if r := counted(t, rulesOf(t, Settings{}), Options{}, many...); len(r.Warnings) != 1 ||
		!strings.HasPrefix(r.Warnings[0], "2 addresses have about ") {
		t.Error(r.Warnings)
	}
	for i := range many {
		many[i] = hit(fmt.Sprintf("198.18.%d.%d", i/250, i%250), "/a", firefox)
	}
	linked := slices.Clone(many)
	for i := range linked[:1500] {
		linked[i] = strings.Replace(linked[i], `"-"`, `"https://www.Docs.example:8443/b"`, 1)
	}
	linked[0] = hit("198.18.0.1", "/a.css", firefox)
	for _, hosts := range [][]string{nil, {"docs.example"}} {
		r := counted(t, rulesOf(t, Settings{Hosts: hosts}), Options{BySource: true}, linked...)
		said := strings.Join(r.Warnings, " ")
		if (hosts == nil) != strings.Contains(said, "DOCGAUGE_SITE_HOSTS=docs.example,") || (hosts != nil) != (said == "") {
			t.Errorf("hosts %q: %q", hosts, said)
		}
	}
	many[0] = hit("198.18.0.1", "/a.css", firefox)
	if r := counted(t, rulesOf(t, Settings{}), Options{}, many...); len(r.Warnings) != 0 {
		t.Error(r.Warnings)
	}
}

// TestFindings: a log whose numbers say little is named with the remedy, in a count and by a look at it.
func TestFindings(t *testing.T) {
	repeat := func(n int, line func(i int) string) (lines []string) {
		for i := range n {
			lines = append(lines, line(i))
		}
		return lines
	}
	combined := func(i int) string { return hit(fmt.Sprintf("192.0.2.%d", i%200), "/a", firefox) }
	common := func(i int) string { return strings.TrimSuffix(combined(i), ` "-" "`+firefox+`"`) }
	object := func(i int) string {
		return fmt.Sprintf(`{"t":"2026-10-10T12:00:00Z","ip":"192.0.2.%d","p":"/a","s":200,"user_agent":%q}`, i, firefox)
	}
	traefik := func(i int) string {
		return fmt.Sprintf(`{"ClientHost":"192.0.2.%d","DownstreamStatus":200,"RequestHost":"docs.example.com",`+
			`"RequestMethod":"GET","RequestPath":"/a","StartUTC":"2026-10-10T11:39:21Z","time":"2026-10-10T11:41:25Z"}`, i)
	}
	cloudflare := func(key string) func(i int) string {
		return func(i int) string {
			return fmt.Sprintf(`{"EdgeStartTimestamp":1791640536,"ClientIP":"192.0.2.%d","ClientRequestMethod":"GET",`+
				`"ClientRequestURI":"/a","ClientRequestHost":"h",%s}`, i, key)
		}
	}
	const ruins = "ruins: "
	style := hit("192.0.2.1", "/a.css", firefox)
	behind := func(network, more string, browsers int) []string {
		return append([]string{style}, repeat(60, func(i int) string {
			return hit(fmt.Sprint(network, i%30/browsers), "/a", fmt.Sprint(firefox, i)) + more
		})...)
	}
	navigates := func(i int) string {
		return logged(fmt.Sprint("192.0.2.", i), "/a", firefox, 200, "2026-10-10 12:00:00",
			`,"Sec-Fetch-Mode":["navigate"]`)
	}
	for name, test := range map[string]struct {
		format string
		lines  []string
		want   []string // beginnings of each; ruins: no number of this log is right
	}{
		"good":                     {"", repeat(3, combined), nil},
		"common":                   {"", repeat(3, common), []string{ruins + "no user agent in 3 of 3 lines (combined)"}},
		"combined and some common": {"", append(repeat(3, combined), repeat(3, common)...), nil},
		"Traefik's JSON": {"", append(repeat(3, combined), repeat(2, traefik)...), []string{
			ruins + "no user agent in 2 of 2 lines (traefik), which therefore count no reader: set " +
				"accesslog.fields.headers.names.User-Agent=keep in Traefik"}},
		"Traefik's CLF": {"", repeat(3, func(i int) string {
			return common(i) + ` "-" "-" 7 "docs@docker" "http://172.18.0.2:80" 2ms`
		}), []string{ruins + "no user agent in 3 of 3 lines (combined), which therefore count no reader: log the format " +
			"combined"}},
		"Logpush without user agent": {"", repeat(2, cloudflare(`"EdgeResponseStatus":200`)), []string{
			ruins + "no user agent in 2 of 2 lines (cloudflare), which therefore count no reader: add ClientRequestUserAgent"}},
		"Logpush without status": {"", repeat(2, cloudflare(`"ClientRequestUserAgent":"Mozilla/5.0"`)), []string{
			ruins + "no status in 2 of 2 lines (cloudflare), which therefore count no view: add EdgeResponseStatus"}},
		"key of the agent": {"json:time=t,client=ip,path=p,status=s,agent=userAgent", repeat(3, object), []string{
			ruins + "no line has the key userAgent (agent) that DOCGAUGE_SITE_LOG_FORMAT names"}},
		"key of the status": {"json:time=t,client=ip,path=p,status=code,agent=user_agent", repeat(3, object), []string{
			ruins + "no line has the key code (status) that DOCGAUGE_SITE_LOG_FORMAT names"}},
		"key of the path": {"json:time=t,client=ip,path=url,status=s,agent=user_agent", repeat(3, object), []string{
			ruins + "no line has a known format; name it with DOCGAUGE_SITE_LOG_FORMAT (docs/site.md says which ones are " +
				"known); no line has the key url (path) that DOCGAUGE_SITE_LOG_FORMAT names"}},
		"one of two keys":      {"json:time=t,client=addr,client=ip,path=p,status=s,agent=user_agent", repeat(3, object), nil},
		"keys for other lines": {"json:time=t,client=ip,path=p", repeat(3, combined), nil},
		"behind Cloudflare": {"", behind("172.70.1.", "", 1), []string{ruins + "100% of the views by browsers come from the " +
			"networks of cloudflare: set DOCGAUGE_SITE_LOG_PROXIES=cloudflare, and log X-Forwarded-For, which"}},
		"behind Fastly": {"", behind("2a04:4e42::", ` "192.0.2.1"`, 1), []string{ruins + "100% of the views by browsers come " +
			"from the networks of fastly: set DOCGAUGE_SITE_LOG_PROXIES=fastly"}},
		"fewer than half": {"", append(behind("172.70.1.", "", 1), repeat(80, combined)...), nil},
		"a few":           {"", behind("172.70.1.", "", 1)[:leastViews], nil},
		"private":         {"", behind("10.0.0.", "", 1), []string{"100% of the views by browsers come from private networks: unless"}},
		"many browsers each": {"", behind("192.0.2.", "", 8), []string{
			"100% of the views by browsers come from addresses that have 8 or more different browsers each"}},
		"two browsers each": {"", behind("192.0.2.", "", 1), nil},
		"future": {"", append(repeat(3, combined), strings.Replace(combined(1), "2026", "2036", 1)), []string{
			"1 of 4 lines left out, with times in the future, up to 2036-10-10T12:00:00Z: correct the clock"}},
		"no evidence": {"", repeat(leastViews, combined), []string{"no line can show whether the clients that call " +
			"themselves browsers are browsers: the log has no styles, scripts, fonts or images of the site, no page " +
			"answered 304, and no Sec-Fetch-Mode: log them; name a log_format with $http_sec_fetch_mode"}},
		"304 alone":              {"", append(repeat(leastViews, combined), strings.Replace(combined(1), " 200 ", " 304 ", 1)), nil},
		"no evidence, confirmed": {"", repeat(leastViews, combined), []string{ruins + "no line can show whether"}},
		"little evidence":        {"", append(repeat(leastViews, combined), style), nil},
		"headers alone":          {"", repeat(leastViews, navigates), nil},
		"few views":              {"", repeat(leastViews-1, combined), nil},
	} {
		t.Run(name, func(t *testing.T) {
			settings := Settings{LogFormat: test.format}
			if strings.HasSuffix(name, "confirmed") {
				settings.Humans = analytics.Confirmed
			}
			r := rulesOf(t, settings)
			var said, ruined []string
			for _, want := range test.want {
				text, ruins := strings.CutPrefix(want, ruins)
				if said = append(said, text); ruins {
					ruined = append(ruined, text)
				}
			}
			log := filepath.Join(t.TempDir(), "a.log")
			if err := os.WriteFile(log, []byte(strings.Join(test.lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			report, err := r.Count(t.Context(), []string{log}, Options{Now: now})
			if err != nil {
				report = &Report{Warnings: []string{strings.TrimPrefix(err.Error(), log+": ")}}
			}
			if !begin(report.Warnings, said) {
				t.Errorf("count: %q, want %q", report.Warnings, said)
			}
			tried, err := r.Try(t.Context(), logs.Source{Where: log}, now.Time)
			if errors.Is(err, logs.ErrUnknown) {
				tried.Findings = []Finding{{Text: strings.TrimPrefix(err.Error(), log+": "), Ruins: true}}
			} else if err != nil {
				t.Fatal(err)
			}
			var all, fatal []string
			for _, f := range tried.Findings {
				if all = append(all, f.Text); f.Ruins {
					fatal = append(fatal, f.Text)
				}
			}
			if !begin(all, said) || !begin(fatal, ruined) {
				t.Errorf("a look: %q, of which ruin it %q; want %q, %q", all, fatal, said, ruined)
			}
		})
	}
}

// begin reports whether each text begins as it should.
func begin(texts, want []string) bool {
	return slices.EqualFunc(texts, want, strings.HasPrefix)
}

// TestProjects: lines belong to the project of their host and the longest prefix of their path. A
// project can have several hosts.
func TestProjects(t *testing.T) {
	r := rulesOf(t, Settings{Projects: "prj_docs=docs.example.com, prj_docs=old.example.com., prj_api=example.com/api, " +
		"prj_api=example.com/caf%C3%A9, prj_site=example.com"})
	var lines []string
	for i, url := range []string{
		"docs.example.com /a", "DOCS.example.com. /b", "example.com /api", "example.com /api/x", "example.com /apix",
		"other.example /a", "example.com /", "old.example.com /old", "example.com /caf%c3%a9/x",
	} {
		where, path, _ := strings.Cut(url, " ")
		lines = append(lines, where+":443 "+hit(fmt.Sprintf("192.0.2.%d", i), path, firefox))
	}
	for project, want := range map[string]string{
		"prj_docs": "/a /b /old", "prj_api": "/api /api/x /café/x", "prj_site": "/ /apix",
	} {
		report := counted(t, r, Options{Project: project}, lines...)
		var pages []string
		for _, p := range report.Pages {
			pages = append(pages, p.Path)
		}
		if got := strings.Join(pages, " "); got != want || report.LeftOut[Foreign] != len(lines)-len(pages) {
			t.Errorf("%s: %s, want %s; %v", project, got, want, report.LeftOut)
		}
	}
	for project, want := range map[string]string{"": "name one with --project", "prj_x": "has no"} {
		if _, err := r.Count(t.Context(), []string{"-"}, Options{Project: project}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", project, err, want)
		}
	}
}

// TestWrongSettings: every setting that is wrong is named.
func TestWrongSettings(t *testing.T) {
	_, err := ParseRules(Settings{LogFormat: "x", Projects: "prj_a", LogProxies: "10.0.0.0/33", Exclude: "ping", Markdown: "x",
		AgentsFile: "/nowhere", RangesDir: "/nowhere"}, time.Now)
	for _, name := range []string{"LOG_FORMAT", "PROJECTS", "LOG_PROXIES", "EXCLUDE", "MARKDOWN", "AGENTS_FILE", "RANGES_DIR"} {
		if err == nil || !strings.Contains(err.Error(), "DOCGAUGE_SITE_"+name+": ") {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
	for settings, want := range map[string]string{
		"prj_a=https://h/a": "want project=host", "prj_a=h:8080": "want project=host", "prj_a=h/a/*": "want project=host",
		"prj_a=*.h": "want project=host", "prj_a=h/a,prj_b=H./a/": "is prj_a's already", "prj_a=h,prj_a=h,prj_b=h/b": "",
	} {
		if _, err := ParseRules(Settings{LogFormat: "auto", Projects: settings}, time.Now); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", settings, err, want)
		}
	}
	for _, never := range []string{"/a?b", "/a#b", "/*/a", "/a.css", "/robots.txt", "/_sources/a", "/" + strings.Repeat("x", maxPath),
		"::ffff:0:0/90"} {
		if _, err := ParseRules(Settings{LogFormat: "auto", Exclude: never}, time.Now); err == nil ||
			!strings.Contains(err.Error(), "match") {
			t.Errorf("%.40s: %v", never, err)
		}
	}
}

// TestHostileLines: whatever a client sends, the report is printable and bounded, and other lines
// count.
func TestHostileLines(t *testing.T) {
	r := rulesOf(t, Settings{})
	good := hit("192.0.2.1", "/a", firefox)
	report := counted(t, r, Options{}, good, strings.Repeat("x", 3<<20), hit("192.0.2.1", "/\x1b[2J\x07", firefox),
		hit("192.0.2.1", "/\xff\xfe", "\x00\x1b]0;x"), "\x1b[31mAlice Müller 203.0.113.77\x00 \u202e"+
			strings.Repeat("z", 500),
		hit("192.0.2.1", "/"+strings.Repeat("p/", 5000), firefox), hit("1.2.3.4.5", "/a", firefox), good)
	if report.Lines != 8 || report.Views != 5 || report.LeftOut[Unparsed] != 2 || report.LeftOut[Client] != 1 {
		t.Errorf("%d views of %d lines, %v", report.Views, report.Lines, report.LeftOut)
	}
	for _, p := range report.Pages {
		if strings.ContainsFunc(p.Path, func(r rune) bool { return r < ' ' || r == 0xfffd }) {
			t.Errorf("page %q", p.Path)
		}
	}
	if b := report.Unparsed; b == nil || b.Source != "-" || b.Line != 2 || len([]rune(b.Text)) > 200 {
		t.Errorf("%+v", b)
	}
	const want = ".[00aaaaaa aaaaaa 000.0.000.00."
	if got := mask([]byte("\x1b[31mAlice Müller 203.0.113.77\x00")); got != want {
		t.Errorf("masked: %q, want %q", got, want)
	}
	// Whoever invents paths uses up nobody's pages: not those that came before, nor those that come
	// after; and not by changing the user agent.
	var lines []string
	for i := range 2 * maxPages {
		lines = append(lines, hit("192.0.2.2", fmt.Sprint("/x/", i), fmt.Sprint(firefox, i%9)))
	}
	report = counted(t, r, Options{}, append(append([]string{good}, lines...), hit("192.0.2.3", "/late", firefox))...)
	pages := map[string]int64{}
	for _, p := range report.Pages {
		pages[p.Path] = p.Total
	}
	if n := len(pages); n < maxPages/2 || n > maxPages/2+10 || pages["/a"] != 1 || pages["/late"] != 1 ||
		pages[otherPages] != 9 {
		t.Errorf("%d pages, of /a %d, of /late %d, of others %d", n, pages["/a"], pages["/late"], pages[otherPages])
	}
	// Many who do it together cannot use up the memory.
	for i := range lines {
		lines[i] = hit(fmt.Sprintf("192.0.%d.2", i%250), fmt.Sprint("/x/", i), firefox)
	}
	if n := len(counted(t, r, Options{}, lines...).Pages); n != maxPages+1 {
		t.Errorf("%d pages", n)
	}
}

// TestParseIPv4: it takes what net/netip takes.
func TestParseIPv4(t *testing.T) {
	for _, text := range []string{"192.0.2.1", "0.0.0.0", "255.255.255.255", "1.2.3", "1.2.3.", "1.2.3.256", "1.256.3.4",
		"01.2.3.4", "1.2.3.04", "1.2.3.4.5", "1..2.3", ".1.2.3", "1.2.3.4 ", "1.2.3.1000", "1.2.3.x", "", "::1"} {
		want, err := netip.ParseAddr(text)
		if got, ok := parseIPv4([]byte(text)); ok != (err == nil && want.Is4()) || ok && got != want {
			t.Errorf("%q: %v, %v; netip: %v, %v", text, got, ok, want, err)
		}
	}
}

// TestNoLog: what cannot be read is an error that names the file.
func TestNoLog(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "gzip.gz": "\x1f\x8b\x08", "picture": "\x89PNG\r\n\x1a\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Mkdir(filepath.Join(dir, "folder"), 0o700),
		os.Symlink("pipe", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"pipe": "is a named pipe", "link": "is a named pipe", "empty": "", "gzip.gz": "ends too early",
		"picture": "no line has a known format", "absent": "no such file", "folder": "is a directory without a file",
	} {
		path := filepath.Join(dir, name)
		_, err := rulesOf(t, Settings{}).Count(t.Context(), []string{path}, Options{Now: now})
		if got := fmt.Sprint(err); (err == nil) != (want == "") || want != "" &&
			(!strings.HasPrefix(got, path) || !strings.Contains(got, want)) {
			t.Errorf("%s: %v, want …%s…", name, err, want)
		}
	}
	twice := filepath.Join(dir, "empty")
	if _, err := rulesOf(t, Settings{}).Count(t.Context(), []string{twice, twice}, Options{Now: now}); err == nil ||
		!strings.Contains(err.Error(), twice+": is named twice") {
		t.Errorf("a log named twice: %v", err)
	}
}

// TestMixedLog: lines of several formats, and lines that are of none, leave each other as they are, in every order; a
// file of another kind beside a log is named and left out.
func TestMixedLog(t *testing.T) {
	common := `192.0.2.8 - - [` + day + `] "GET /a HTTP/1.1" 200 5`
	good := []string{hit("192.0.2.1", "/a", firefox), hit("192.0.2.2", "/a", firefox) + ` "198.51.100.1"`,
		"docs.example.com " + hit("192.0.2.3", "/a", firefox), "docs.example.com:443 " + hit("192.0.2.4", "/a", firefox),
		strings.Replace(hit("192.0.2.5", "/a", firefox), day, "2026-10-10 12:00:00.786 +0200", 1),
		`{"ts":1791640536.5,"request":{"remote_ip":"192.0.2.6","method":"GET","uri":"/a","headers":{"User-Agent":["` +
			firefox + `"]}},"status":200}`}
	bad := []string{hit("192.0.2.9", "/a", `Mozilla "bare" quote`), hit("192.0.2.9", "/a", firefox)[:90],
		"2026/11/28 11:25:57 [error] 22351#22351: *947 open() failed", "{}", "#Fields: date time"}
	for range 40 {
		lines := slices.Concat(good, bad, []string{common})
		rand.Shuffle(len(lines), func(i, k int) { lines[i], lines[k] = lines[k], lines[i] })
		r := counted(t, rulesOf(t, Settings{}), Options{}, lines...)
		if r.Totals.Human != int64(len(good)) || r.LeftOut[Unparsed] != 4 || r.Views != len(good)+1 {
			t.Fatalf("%d readers, want %d; views %d, left out %v:\n%s", r.Totals.Human, len(good), r.Views, r.LeftOut,
				strings.Join(lines, "\n"))
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"access.log": good[0], "error.log": bad[2], ".hidden": good[1]} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := rulesOf(t, Settings{}).Count(t.Context(), []string{dir}, Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if r.Lines != 1 || r.Totals.Human != 1 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "error.log") {
		t.Errorf("%d lines, %d readers, warnings %q", r.Lines, r.Totals.Human, r.Warnings)
	}
}

// logged is a line of Caddy's with a header and more.
func logged(addr, path, agent string, status int, at, more string) string {
	when, err := time.Parse(time.DateTime, at)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"ts":%d,"request":{"remote_ip":%q,"method":"GET","host":"docs.example.com","uri":%q,"headers":{`+
		`"User-Agent":[%q]%s}},"status":%d,"size":100}`, when.Unix(), addr, path, agent, more, status)
}

// TestEvidence: what shows that a client is a browser, what does not, and when it counts.
func TestEvidence(t *testing.T) {
	const at = "2026-10-10 12:00:00"
	from, to := analytics.NewDate(2026, 10, 10), analytics.NewDate(2026, 10, 12)
	line := func(path string, status int, more string) string {
		return logged("192.0.2.1", path, firefox, status, at, more)
	}
	page := line("/a", 200, "")
	for name, test := range map[string]struct {
		settings Settings
		project  string
		lines    []string
		want     string // confirmed of claimed, and by what
	}{
		"page alone":            {lines: []string{page, page}, want: "0/1"},
		"style":                 {lines: []string{page, line("/a.CSS?v=1", 200, "")}, want: "1/1 assets"},
		"before the page":       {lines: []string{line("/x/a.woff2", 206, ""), page}, want: "1/1 assets"},
		"style that is known":   {lines: []string{page, line("/a.css", 304, "")}, want: "1/1 assets"},
		"style that is missing": {lines: []string{page, line("/a.css", 404, "")}, want: "0/1"},
		"in a folder of assets": {lines: []string{page, line("/_next/static/a.js", 200, "")}, want: "1/1 assets"},
		"data, downloads, robots, sitemaps": {lines: []string{page, line("/a.json", 200, ""), line("/a.pdf", 200, ""),
			line("/robots.txt", 200, ""), line("/sitemap.xml", 200, ""), line("/a.map", 200, ""), line("/a.zip", 200, ""),
			line("/a.mp4", 200, ""), line("/objects.inv", 200, "")}, want: "0/1"},
		"304":         {lines: []string{page, line("/a", 304, "")}, want: "1/1 304"},
		"304 of data": {lines: []string{page, line("/a.json", 304, "")}, want: "0/1"},
		"304 behind a proxy": {Settings{LogProxies: "192.0.2.0/24"}, "", []string{
			line("/a", 304, `,"X-Forwarded-For":["198.51.100.1"]`)}, "0/1"},
		"304 before a proxy": {Settings{LogProxies: "192.0.2.0/24"}, "", []string{
			logged("198.51.100.1", "/a", firefox, 304, at, `,"X-Forwarded-For":["198.51.100.9"]`)}, "1/1 304"},
		"style behind a proxy": {Settings{LogProxies: "192.0.2.0/24"}, "", []string{
			line("/a", 200, `,"X-Forwarded-For":["198.51.100.1"]`), line("/b", 200, `,"X-Forwarded-For":["198.51.100.2"]`),
			line("/a.js", 200, `,"X-Forwarded-For":["198.51.100.2"]`)}, "1/2 assets"},
		"navigate":          {lines: []string{line("/a", 200, `,"Sec-Fetch-Mode":["navigate"]`)}, want: "1/1 mode"},
		"cors":              {lines: []string{line("/a", 200, `,"Sec-Fetch-Mode":["cors"]`)}, want: "0/1"},
		"navigate, missing": {lines: []string{page, line("/b", 404, `,"Sec-Fetch-Mode":["navigate"]`)}, want: "0/1"},
		"all": {lines: []string{line("/a", 304, `,"Sec-Fetch-Mode":["navigate"]`), line("/a.png", 200, "")},
			want: "1/1 assets 304 mode"},
		"another client": {lines: []string{page, logged("192.0.2.2", "/a.css", firefox, 200, at, ""),
			logged("192.0.2.1", "/a.css", firefox+"x", 200, at, "")}, want: "0/1"},
		"two browsers of one address": {lines: []string{page, line("/a.css", 200, ""),
			logged("192.0.2.1", "/a", firefox+"x", 200, at, ""), logged("192.0.2.1", "/a.css", firefox+"x", 200, at, "")},
			want: "2/2 assets"},
		"another client of the same /64": {lines: []string{logged("2001:db8::1", "/a", firefox, 200, at, ""),
			logged("2001:db8::2", "/a.css", firefox, 200, at, "")}, want: "1/1 assets"},
		"an agent": {lines: []string{logged("192.0.2.1", "/a", "GPTBot/1.3", 200, at, ""),
			logged("192.0.2.1", "/a.css", "GPTBot/1.3", 200, at, "")}, want: "0/0"},
		"POST": {lines: []string{page, strings.Replace(line("/a.css", 200, ""), "GET", "POST", 1)}, want: "0/1"},
		"excluded": {Settings{Exclude: "/x/*,agent:nobody"}, "", []string{page,
			line("/x/a", 304, "")}, "0/1"},
		"day before, in the month": {lines: []string{page,
			logged("192.0.2.1", "/a.css", firefox, 200, "2026-10-01 00:00:00", "")},
			want: "1/1 assets"},
		"page of the day before": {lines: []string{page, logged("192.0.2.1", "/b", firefox, 304, "2026-10-09 23:59:59", "")},
			want: "1/1 304"},
		"month before": {lines: []string{page, logged("192.0.2.1", "/a.css", firefox, 200, "2026-09-30 23:59:59", "")},
			want: "0/1"},
		"day after": {lines: []string{page, logged("192.0.2.1", "/a.css", firefox, 200, "2026-10-12 00:00:00", "")},
			want: "0/1"},
		"next day": {lines: []string{page, logged("192.0.2.1", "/a.css", firefox, 200, "2026-10-11 23:59:59", "")},
			want: "1/1 assets"},
		"projects of one host": {Settings{Projects: "prj_a=docs.example.com/a,prj_b=docs.example.com/b,prj_c=other"}, "prj_b",
			[]string{line("/b/x", 200, ""), line("/assets/a.css", 200, "")}, "1/1 assets"},
		"page of another project": {Settings{Projects: "prj_a=docs.example.com/a,prj_b=docs.example.com/b"}, "prj_b",
			[]string{line("/b/x", 200, ""), line("/a/x", 304, "")}, "1/1 304"},
		"project of another host": {Settings{Projects: "prj_a=docs.example.com,prj_b=other.example"}, "prj_b",
			[]string{strings.Replace(page, "docs.example.com", "other.example", 1), line("/a.css", 200, "")}, "0/1"},
		"event": {lines: []string{`{"time":"2026-10-10T12:00:00Z","visitor":"a","kind":"human","path":"/","evidence":true}`,
			`{"time":"2026-10-10T12:00:00Z","visitor":"b","kind":"human","path":"/"}`}, want: "1/2 assets"},
	} {
		for _, mode := range []analytics.Humans{analytics.Claimed, analytics.Confirmed} {
			test.settings.Humans = mode
			r := counted(t, rulesOf(t, test.settings), Options{From: &from, To: &to, Project: test.project, ByDay: true},
				test.lines...)
			p := r.People
			got := fmt.Sprintf("%d/%d", p.Confirmed, p.Claimed)
			for kind, n := range map[string]int{" assets": p.Assets, " 304": p.NotModified, " mode": p.FetchMode} {
				if strings.Contains(test.want, kind) != (n > 0) {
					t.Errorf("%s: %d%s, want %s", name, n, kind, test.want)
				}
			}
			if want, _, _ := strings.Cut(test.want, " "); got != want {
				t.Errorf("%s: %s confirmed, want %s", name, got, want)
			}
			want := int64(p.Claimed)
			if mode == analytics.Confirmed {
				want = int64(p.Confirmed)
			}
			var pages, days int64
			for _, page := range r.Pages {
				pages = max(pages, page.Human)
			}
			for _, day := range r.Days {
				days = max(days, day.Human)
			}
			if r.Humans != mode || r.Totals.Human != want || days != want || pages > want || pages == 0 && want > 0 {
				t.Errorf("%s: %s: %d human, want %d; on a day %d, of a page %d", name, r.Humans, r.Totals.Human, want, days,
					pages)
			}
		}
	}
}

// TestShown: evidence is for each project of a host, with the reader's ids in it, once for a client and a day, and not
// for agents; also where a log before has it.
func TestShown(t *testing.T) {
	r := rulesOf(t, Settings{Projects: "prj_a=docs.example.com/a,prj_b=docs.example.com/b,prj_c=other.example"})
	v := NewViewer(r, NewVocabulary(), 0, now.Time().Unix())
	v.Identify = func(out *view, who []byte) Reason {
		out.Readers = [2]uint64{uint64(out.Project), uint64(who[4])} // the last byte of the address
		return ""
	}
	var lines []string
	for i := range 1000 {
		addr, at := fmt.Sprint("192.0.2.", i%3), fmt.Sprintf("2026-10-1%d 12:00:00", i%2)
		lines = append(lines, logged(addr, "/a", firefox, 304, at, `,"Sec-Fetch-Mode":["navigate"]`),
			logged(addr, "/app.css", firefox, 200, at, ""), logged("192.0.2.9", "/app.css", "GPTBot/1.3", 200, at, ""))
	}
	all := v.Batch(r.Parser(), logs.Lines{Text: []byte(strings.Join(lines, "\n")), First: 1}).Shown
	got := map[string]int{}
	for _, s := range all {
		if s.Readers[0] != uint64(s.Project) {
			t.Fatalf("ids %v in project %d", s.Readers, s.Project)
		}
		got[fmt.Sprint(s.Project, s.Readers[1], s.Day)]++
	}
	// Two clients may have one slot, and then take turns.
	if len(got) != 2*3*2 || len(all) > 2000 {
		t.Errorf("%d entries: %v", len(all), got)
	}
	for v.Fixed = range int32(2) { // logs of two projects, whose lines have no host
		b := v.Batch(r.Parser(), logs.Lines{Text: []byte(hit("192.0.2.5", "/app.css", firefox)), First: 1})
		if len(b.Shown) != 1 || b.Shown[0].Project != v.Fixed {
			t.Errorf("log of project %d: %v", v.Fixed, b.Shown)
		}
	}
	dir := t.TempDir()
	for name, line := range map[string]string{"1.log": hit("192.0.2.1", "/app.css", firefox),
		"2.log": hit("192.0.2.1", "/a", firefox)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if report, err := rulesOf(t, Settings{}).Count(t.Context(), []string{dir}, Options{Now: now}); err != nil ||
		report.People.Confirmed != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestRedirected: what agents asked for and was answered with a redirect is kept apart, but no page that is there.
func TestRedirected(t *testing.T) {
	v := NewViewer(rulesOf(t, Settings{}), NewVocabulary(), 0, now.Time().Unix())
	v.All, v.Identify = true, func(*view, []byte) Reason { return "" }
	line := func(path, agent string, status int) string {
		return logged("192.0.2.1", path, agent, status, "2026-10-10 12:00:00", "")
	}
	lines := []string{line("/there", firefox, 200), line("/there/", "GPTBot/1.3", 301)}
	for _, status := range []int{301, 302, 303, 307, 308, 404} {
		lines = append(lines, line(fmt.Sprint("/", status), "GPTBot/1.3", status), line("/x", firefox, status))
	}
	b := v.Batch(rulesOf(t, Settings{}).Parser(), logs.Lines{Text: []byte(strings.Join(lines, "\n")), First: 1})
	kinds := map[uint8]int{}
	for _, m := range b.Missed {
		kinds[m.Kind]++
	}
	// Each for the reader and for its network.
	if kinds[facts.Redirected] != 2*4 || kinds[facts.Missed] != 2 || len(kinds) != 2 || len(b.Views) != 1 {
		t.Errorf("%v, %d views", kinds, len(b.Views))
	}
	for i := range maxMisses {
		lines = append(lines, logged(fmt.Sprintf("198.18.%d.%d", i/250, i%250), fmt.Sprint("/old/", i), "GPTBot/1.3", 301,
			"2026-10-10 12:00:00", ""))
	}
	v.Batch(rulesOf(t, Settings{}).Parser(), logs.Lines{Text: []byte(strings.Join(lines, "\n")), First: 1})
	b = v.Batch(rulesOf(t, Settings{}).Parser(), logs.Lines{Text: []byte(line("/late", "GPTBot/1.3", 404)), First: 1})
	if len(b.Missed) != 2 {
		t.Errorf("after many redirects %d missed", len(b.Missed))
	}
}

// TestForged: one forged browser's name from many addresses is not confirmed, and people are.
func TestForged(t *testing.T) {
	const forged = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Safari/537.36"
	random := rand.New(rand.NewPCG(1, 2))
	var lines []string
	for i := range 300 {
		for range 3 {
			addr := fmt.Sprintf("10.0.%d.%d", i/250, i%250)
			lines = append(lines, hit(addr, fmt.Sprint("/p", random.IntN(50)), firefox), hit(addr, "/app.css", firefox),
				hit(addr, "/app.js", firefox))
		}
	}
	for i := range 4200 {
		for range 1 + random.IntN(2) {
			lines = append(lines, hit(fmt.Sprintf("73.%d.%d.9", i/250, i%250), fmt.Sprint("/p", random.IntN(50)), forged))
		}
	}
	random.Shuffle(len(lines), func(i, k int) { lines[i], lines[k] = lines[k], lines[i] })
	r := counted(t, rulesOf(t, Settings{}), Options{}, lines...)
	if p := r.People; p.Claimed != 4500 || p.Confirmed != 300 || r.Totals.Human != 4500 {
		t.Errorf("%+v, %d human", p, r.Totals.Human)
	}
}

// TestAgentsAndSources: people are two agents, with what they were sent, and come from somewhere.
func TestAgentsAndSources(t *testing.T) {
	line := func(addr, path, agent, size, referrer string) string {
		return fmt.Sprintf(`%s - - [%s] "GET %s HTTP/1.1" 200 %s "%s" "%s"`, addr, day, path, size, referrer, agent)
	}
	typed := func(media string) string {
		return strings.Replace(logged("192.0.2.9", "/a", "Claude-User/1.0", 200, "2026-10-10 12:00:00",
			`,"Accept":["text/markdown"]`), `"status"`, `"resp_headers":{"Content-Type":["`+media+`"]},"status"`, 1)
	}
	lines := []string{
		line("192.0.2.1", "/a", firefox, "100", "https://chatgpt.com/"), line("192.0.2.1", "/a.css", firefox, "9999", "-"),
		line("192.0.2.1", "/b", firefox, "50", "https://docs.example.com/a"),
		line("192.0.2.1", "/b", firefox, "50", "https://www.docs.example.com/b"),
		line("192.0.2.2", "/a?utm_source=chatgpt.com", firefox, "7", "https://evil.example/"),
		line("192.0.2.3", "/a.md", firefox, "5", "https://chatgpt.com/"),
		line("192.0.2.4", "/a.md", "Claude-User/1.0", "-", "https://chatgpt.com/"),
		line("192.0.2.4", "/a", "Claude-User/1.0", "3", "-"),
		line("192.0.2.5", "/a", "GPTBot/1.3", "3", "-"), line("192.0.2.5", "/a", "GPTBot/1.3", "0.5", "-"),
		typed("text/html; charset=utf-8"), typed("TEXT/Markdown"), typed("text/plain"),
		strings.Replace(typed("text/html"), `"/a"`, `"/a.md"`, 1), strings.Replace(typed("text/plain"), `"/a"`, `"/a.md"`, 1),
		line("192.0.2.6", "/a", firefox, "1", "https://evil.example/"),
	}
	r := counted(t, rulesOf(t, Settings{Hosts: []string{"docs.example.com"}}), Options{ByAgent: true, BySource: true},
		lines...)
	var got []string
	for _, a := range r.Agents {
		got = append(got, fmt.Sprintf("%s %s %s %d %d %d %d", a.Agent, a.Class, a.Audience, a.Visitors, a.Requests,
			a.Markdown, a.Bytes))
	}
	for _, s := range r.Sources {
		got = append(got, fmt.Sprintf("from %s %s %s %d %d", s.Source, s.Class, s.Agent, s.Visitors, s.Requests))
	}
	for _, c := range r.Classes {
		got = append(got, fmt.Sprintf("class %s %d %d", c.Class, c.Visitors, c.Requests))
	}
	slices.Sort(got)
	want := []string{
		"Claude-User answers ai 2 7 3 503", "GPTBot training neither 1 2 0 -1", "browser human human 1 3 0 200",
		"class answers 2 7", "class browser 1 3", "class coding 1 1", "class training 1 2", "class unconfirmed 2 2",
		"from chatgpt assistant browser 1 1", "from chatgpt assistant unconfirmed 1 1", "from other other unconfirmed 1 1",
		"from site site browser 1 2", "unconfirmed human human 2 2 0 8", "unnamed coding ai 1 1 1 5",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	plain := counted(t, rulesOf(t, Settings{}), Options{}, lines...)
	if len(plain.Sources) > 0 || plain.Totals != r.Totals || plain.People != r.People {
		t.Errorf("without lists: %+v, %+v", plain.Totals, plain.People)
	}
}
