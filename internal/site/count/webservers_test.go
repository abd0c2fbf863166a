package count

import (
	"bufio"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

// visitors are who may be in a crowd: what they are and which agent, as vendors say.
var visitors = []struct{ what, agent, userAgent string }{
	{"person", "", firefox},
	{"person", "", `Mozilla/5.0 (X11; "quoted" \ back\x41slash) Gecko Größe/1.0`},
	{"person", "", "Mozilla/5.0 (tab\there) \xff\xfe Safari/604.1"},
	{"person", "", `Mozilla/5.0" 200 7 "-" "Firefox/140.0" "192.0.2.66`},
	{"ai", "ChatGPT-User", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; " +
		"+https://openai.com/bot"},
	{"ai", "claude-code", "Claude-User (claude-code/2.1.86; +https://support.anthropic.com/)"},
	{"none", "Googlebot", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"},
	{"none", "GPTBot", "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; GPTBot/1.2; " +
		"+https://openai.com/gptbot"},
	{"none", "unknown", "SomebodysBot/3.1 (+https://example.com/bot)"},
	{"none", "unknown", ""},
	{"tool", "curl", "curl/8.5.0"}, {"tool", "python-requests", "python-requests/2.32.3"},
}

// requested are targets with the page that a reader means, none for what is no page.
var requested = []struct {
	target, page string
	markdown     bool
}{
	{"/", "/", false}, {"/index.html?utm=1", "/", false}, {"/guide/", "/guide", false}, {"/guide", "/guide", false},
	{"/guide/index.html", "/guide", false}, {"/gu%69de/?q=/style.css", "/guide", false},
	{"/guide/index.md", "/guide", true},
	{"/guide/setup.html", "/guide/setup", false}, {"/guide/setup.md", "/guide/setup", true},
	{"/guide/setup.md?raw=.html", "/guide/setup", true}, {"/llms.txt", "/llms.txt", true},
	{"http://docs.example.com/guide/setup.html", "/guide/setup", false},
	{"/caf%C3%A9.html", "/café", false}, {"/café.html", "/café", false}, {`/say"hi".html`, `/say"hi"`, false},
	{"/say%22hi%22.html", `/say"hi"`, false}, {`/back\slash.html`, `/back\slash`, false},
	{"/back%5Cslash.html", `/back\slash`, false}, {"/a%01b.html", "/a%01b", false}, {"/a%20b.html", "/a b", false},
	{"/%1B[31m.html", "/%1B[31m", false}, {"/a\x01b.html", "/a%01b", false}, {"/missing.html", "/missing", false},
	{"/style.css", "", false}, {"/logo.svg?v=2", "", false}, {"/robots.txt", "", false},
}

// addresses of readers as proxies forward them, by who it is: a network of IPv6 is one reader.
var forwardedAs = []struct{ list, who string }{
	{"203.0.113.1", "1"}, {"198.51.100.9, 203.0.113.1", "1"}, {"203.0.113.2", "2"}, {"203.0.113.3, 127.0.0.9", "3"},
	{"::ffff:203.0.113.2", "2"}, {"2001:db8:0:7::1", "7"}, {"2001:db8:0:7::2", "7"}, {"2001:db8:0:8::1", "8"},
	{"203.0.113.4:4711", "4"}, {"unknown, 203.0.113.5", "5"},
}

// visit is what a visitor asked for and got.
type visit struct {
	visitor, target, address, accept, status int
	html                                     bool
}

var (
	acceptHeaders = []string{
		"", "text/html,*/*;q=0.8", "text/plain;q=1.0, text/markdown;q=0.9", "text/markdown, text/html;q=0.9",
	}
	wantsMarkdown = []bool{false, false, true, true}
)

// letIn sends the requests of a crowd, one after the other, and returns the views: GETs that were
// answered with a page or with 304.
func letIn(t *testing.T, addr string, r *rand.Rand) (views []visit) {
	t.Helper()
	known := map[int]string{} // ETags by target
	statuses := map[int]int{}
	for range 1500 {
		v := visit{r.IntN(len(visitors)), r.IntN(len(requested)), r.IntN(len(forwardedAs)),
			r.IntN(len(acceptHeaders)), 0, false}
		method := []string{"GET", "GET", "GET", "GET", "HEAD", "POST"}[r.IntN(6)]
		head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: docs.example.com\r\nConnection: close\r\nX-Forwarded-For: %s\r\n",
			method, requested[v.target].target, forwardedAs[v.address].list)
		if agent := visitors[v.visitor].userAgent; agent != "" {
			head += "User-Agent: " + agent + "\r\n"
		}
		if accept := acceptHeaders[v.accept]; accept != "" {
			head += "Accept: " + accept + "\r\n"
		}
		if tag := known[v.target]; tag != "" && r.IntN(3) == 0 {
			head += "If-None-Match: " + tag + "\r\n"
		}
		status, header := sendRequest(t, addr, method, head+"\r\n")
		v.status, v.html = status, strings.HasPrefix(header.Get("Content-Type"), "text/html")
		known[v.target] = cmp.Or(header.Get("ETag"), known[v.target])
		statuses[v.status]++
		if method == http.MethodGet && (v.status == http.StatusOK || v.status == http.StatusNotModified) {
			views = append(views, v)
		}
	}
	for _, status := range []int{200, 304, 400, 404, 405} {
		if statuses[status] < 5 {
			t.Errorf("of 1500 requests %d were answered with %d: %v", statuses[status], status, statuses)
		}
	}
	return views
}

// ask sends one request over a connection of its own: net/http would refuse some of them.
func sendRequest(t *testing.T, addr, method, text string) (status int, header http.Header) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // everything was read
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	defer answer.Body.Close()
	return answer.StatusCode, answer.Header
}

// own counts the views by hand: each set is of readers. A log without X-Forwarded-For knows them by
// their user agents only, one without Accept knows Markdown by its path only, and one without Content-Type does not
// know who got HTML.
func own(views []visit, knowsAddress, knowsAccept, knowsType bool) string {
	sets, requests := map[string]map[string]bool{}, map[string]int{}
	add := func(set, reader string) {
		if sets[set] == nil {
			sets[set] = map[string]bool{}
		}
		sets[set][reader] = true
	}
	var names []string
	for _, v := range views {
		who, page := visitors[v.visitor], requested[v.target]
		if page.page == "" {
			continue
		}
		reader := who.userAgent
		if knowsAddress {
			reader = forwardedAs[v.address].who + " " + reader
		}
		if who.agent != "" {
			add("agent "+who.agent, reader)
			requests[who.agent]++
		}
		for _, part := range []string{"*", who.agent}[:1+min(1, len(who.agent))] {
			if knowsAccept && wantsMarkdown[v.accept] {
				add("asked "+part, reader)
			}
			if knowsType && wantsMarkdown[v.accept] && v.html {
				add("html "+part, reader)
			}
		}
		kind := who.what
		switch markdown := page.markdown || knowsAccept && wantsMarkdown[v.accept]; {
		case kind == "none", kind == "tool" && !markdown:
			continue
		case markdown:
			kind = "ai"
		}
		for _, part := range []string{"*", page.page} {
			add(kind+" "+part, reader)
			add("any "+part, reader)
			names = append(names, part)
		}
	}
	slices.Sort(names)
	var out strings.Builder
	for _, name := range slices.Compact(names) {
		fmt.Fprintf(&out, "%s %d %d %d\n", name, len(sets["person "+name]), len(sets["ai "+name]),
			len(sets["any "+name]))
	}
	for i, who := range visitors {
		if n := requests[who.agent]; n > 0 && visitors[i-1].agent != who.agent {
			fmt.Fprintf(&out, "%s: %d, %d requests, asked %d, got HTML %d\n", who.agent, len(sets["agent "+who.agent]), n,
				len(sets["asked "+who.agent]), len(sets["html "+who.agent]))
		}
	}
	fmt.Fprintf(&out, "asked %d, got HTML %d\n", len(sets["asked *"]), len(sets["html *"]))
	return out.String()
}

// TestWebServers: what nginx and Caddy have logged of a crowd is counted as the crowd counts itself.
func TestWebServers(t *testing.T) {
	root := t.TempDir()
	for _, path := range []string{
		"index.html", "guide/index.html", "guide/index.md", "guide/setup.html", "guide/setup.md", "llms.txt",
		"café.html",
		`say"hi".html`, `back\slash.html`, "a\x01b.html", "a b.html", "\x1b[31m.html", "style.css", "logo.svg",
		"robots.txt",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("a page\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const main = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" ` +
		`"$http_user_agent" "$http_x_forwarded_for"`
	const accepting = `$msec|$remote_addr|$http_x_forwarded_for|$status|"$request" "$http_accept" "$http_user_agent" ` +
		`$sent_http_content_type`
	const long = `$host $remote_addr [$time_iso8601] "$request" $status $bytes_sent "$http_referer" ` +
		`"$http_user_agent" "$http_accept" "$sent_http_content_type" "$http_sec_fetch_mode" "$http_x_forwarded_for"`
	hosts, err := os.ReadFile("../../../docs/site-hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(hosts), strings.TrimSpace(engines.Caddyfile)) {
		t.Errorf("docs/site-hosts.md lacks %s", engines.Caddyfile)
	}
	_, asJSON, _ := strings.Cut(string(hosts), "log_format docgauge ")
	asJSON, _, _ = strings.Cut(asJSON, ";\n")
	type logged struct {
		name, format                 string
		knowsAddress, accept, answer bool
	}
	check := func(t *testing.T, w *engines.WebServer, logs ...logged) {
		views := letIn(t, w.Addr, rand.New(rand.NewPCG(29, 1)))
		if err := w.Stop(); err != nil {
			t.Fatal(err)
		}
		for _, l := range logs {
			r := rulesOf(t, Settings{LogFormat: l.format, LogProxies: "127.0.0.0/8"})
			got, err := r.Count(t.Context(), []string{w.Log(l.name)}, Options{Now: analytics.DateOf(time.Now())})
			if err != nil {
				t.Fatal(err)
			}
			want := own(views, l.knowsAddress, l.accept, l.answer)
			if diff := gocmp.Diff(want, shownPages(got)+shownAgents(got)); diff != "" {
				t.Errorf("%s: the crowd (-) and docgauge (+):\n%s", l.name, diff)
			}
			if got.LeftOut[Unparsed]+got.LeftOut[Client] > 0 {
				t.Errorf("%s: left out %v: %+v", l.name, got.LeftOut, got.Unparsed)
			}
		}
	}
	t.Run("nginx", func(t *testing.T) {
		w := engines.RunNginx(t, root, map[string]string{"combined": "", "main": main, "accepting": accepting,
			"long": long, "json": asJSON})
		check(t, w, logged{"combined", "auto", false, false, false}, logged{"main", "auto", true, false, false},
			logged{"accepting", "nginx:" + accepting, true, true, true},
			logged{"long", "nginx:" + long, true, true, true}, logged{"json", "auto", true, true, true})
	})
	t.Run("Caddy", func(t *testing.T) {
		check(t, engines.RunCaddy(t, root, false), logged{"access", "auto", true, true, true})
	})
}

// shownPages are the readers of the site and of each page of a report, in order of paths.
func shownPages(r *Report) string {
	rows := []string{fmt.Sprintf("* %d %d %d\n", r.Totals.Human, r.Totals.AI, r.Totals.Total)}
	for _, p := range r.Pages {
		rows = append(rows, fmt.Sprintf("%s %d %d %d\n", p.Path, p.Human, p.AI, p.Total))
	}
	slices.Sort(rows)
	return strings.Join(rows, "")
}

// shownAgents are the agents of a report, in the order of visitors.
func shownAgents(r *Report) string {
	number := func(n *int) int { // 0 if the log lacks the header
		if n == nil {
			return 0
		}
		return *n
	}
	var out strings.Builder
	for i, who := range visitors {
		for _, a := range r.Agents {
			if a.Agent == who.agent && visitors[i-1].agent != who.agent {
				fmt.Fprintf(&out, "%s: %d, %d requests, asked %d, got HTML %d\n", a.Agent, a.Visitors, a.Requests,
					number(a.Asked), number(a.GotHTML))
			}
		}
	}
	if len(r.Agents) != strings.Count(out.String(), "\n") {
		fmt.Fprintf(&out, "%+v\n", r.Agents)
	}
	fmt.Fprintf(&out, "asked %d, got HTML %d\n", number(r.Asked), number(r.GotHTML))
	return out.String()
}
