package count

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

var worlds = flag.Uint64("worlds", 1000, "number of simulated sites of TestWorlds; their seeds are 1, 2, 3, …")

// A world is a simulated site with its log, and what is true of it. A person is an address and a user agent.
type world struct {
	*rand.Rand
	caddy     bool // the log is Caddy's JSON with all headers; else combined
	proxied   bool // clients are in X-Forwarded-For; a cache of the site's own asks for pages again
	elsewhere bool // another host serves style sheets, scripts and images
	immutable bool // browsers never ask again for an asset that they have

	log      []worldLine
	clients  int
	people   map[string]bool // whether the log has evidence of them
	forged   map[string]bool
	pages    map[string]map[string]bool // people by page
	evidence bool                       // of the client at present
}

// worldLine is a line of the log.
type worldLine struct {
	at   int64
	text string
}

// client is a person, an agent, or a program.
type client struct {
	address, userAgent string
	at                 int64
	headers            []string // names and values, of all requests
}

// browsers have the version %d.
var browsers = []string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36",
	"Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/%[1]d.0",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
		"Version/%d.5 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36 " +
		"Edg/%[1]d.0.0.0",
}

// forgers are programs under a browser's name. The first eight are plain: they load pages and what pages link to.
// The others do what browsers do.
var forgers = []struct {
	name    string
	headers []string
	visit   func(w *world, c *client, page string)
}{
	{"curl", []string{"Accept", "*/*"}, func(w *world, c *client, page string) {
		if w.IntN(4) == 0 {
			w.ask(c, "HEAD", page, 200)
		}
		w.ask(c, "GET", page, 200)
	}},
	{"requests", []string{"Accept", "*/*", "Accept-Encoding", "gzip, deflate", "Connection", "keep-alive"},
		func(w *world, c *client, page string) {
			if w.IntN(3) == 0 {
				w.ask(c, "GET", "/docs", 301)
			}
			w.ask(c, "GET", page, 200)
		}},
	{"got", []string{"Accept-Encoding", "gzip, deflate, br"}, func(w *world, c *client, page string) {
		w.ask(c, "GET", "/robots.txt", 200)
		w.ask(c, "GET", page, 200)
	}},
	{"undici", []string{"Accept", "*/*", "Accept-Language", "*", "Sec-Fetch-Mode", "cors"},
		func(w *world, c *client, page string) { w.ask(c, "GET", page, 200) }},
	{"Go", []string{"Accept-Encoding", "gzip"}, func(w *world, c *client, page string) {
		w.ask(c, "GET", "/sitemap.xml", 200)
		w.ask(c, "GET", "/search-index.json", 200)
		w.ask(c, "GET", page, 200)
	}},
	{"colly", []string{"Accept", "*/*", "Accept-Encoding", "gzip", "Referer", "https://docs.example.com/docs/p1"},
		func(w *world, c *client, page string) {
			w.ask(c, "GET", page, 200)
			for _, link := range []string{"/manual.pdf", "/sdk.zip", "/feed.xml", "/openapi.json"} {
				w.ask(c, "GET", link, 200)
			}
			w.ask(c, "GET", "/old/style.css", 404)
			w.ask(c, "GET", "/moved/logo.png", 301)
		}},
	{"each page twice", nil, func(w *world, c *client, page string) {
		w.ask(c, "GET", page, 200)
		w.ask(c, "GET", page, 200)
	}},
	{"fleet", []string{"Accept", "text/html,*/*;q=0.8"}, func(w *world, c *client, page string) {
		w.ask(c, "GET", page, 200)
		c.address = w.address() // the next request comes from another address
	}},
	{"copied headers", navigation, func(w *world, c *client, page string) { w.ask(c, "GET", page, 200) }},
	{"copied headers, each page twice", navigation, func(w *world, c *client, page string) {
		w.ask(c, "GET", page, 200)
		w.ask(c, "GET", page, 200)
	}},
	{"automated browser", navigation, func(w *world, c *client, page string) {
		w.ask(c, "GET", page, 200)
		w.assets(c, 200)
	}},
}

// plainForgers is the number of plain ones.
const plainForgers = 8

// navigation are headers of a browser that asks for a page.
var navigation = []string{"Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
	"Accept-Language", "en-US,en;q=0.5", "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate",
	"Sec-Fetch-Site", "none", "Sec-Fetch-User", "?1", "Upgrade-Insecure-Requests", "1"}

// subresource are the fields of a browser that asks for a part of a page.
var subresource = []string{"Accept", "*/*", "Accept-Language", "en-US,en;q=0.5", "Sec-Fetch-Dest", "style",
	"Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Site", "same-origin"}

// october is the first second of the month of all worlds.
var october = time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC).Unix()

// newWorld returns a site without visits.
func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 44)), people: map[string]bool{}, forged: map[string]bool{},
		pages: map[string]map[string]bool{}}
	w.caddy, w.proxied, w.elsewhere, w.immutable = w.IntN(2) == 0, w.IntN(4) == 0, w.IntN(4) == 0, w.IntN(2) == 0
	return w
}

// address returns a new address.
func (w *world) address() string {
	w.clients++
	if w.IntN(5) == 0 {
		return fmt.Sprintf("2001:db8:%x:%x::1", w.clients>>16, w.clients&0xffff)
	}
	return fmt.Sprintf("%d.%d.%d.7", 11+w.IntN(100), w.clients>>8&0xff, w.clients&0xff)
}

func (w *world) browser() string { return fmt.Sprintf(browsers[w.IntN(len(browsers))], 120+w.IntN(30)) }

func (w *world) page() string { return fmt.Sprintf("/docs/p%d", w.IntN(20)) }

// newClient returns a client that comes for the first time.
func (w *world) newClient(userAgent string, headers []string) *client {
	return &client{w.address(), userAgent, october + w.Int64N(30*24*3600), headers}
}

// ask logs a request.
func (w *world) ask(c *client, method, target string, status int, headers ...string) {
	c.at += 1 + w.Int64N(20)
	headers = slices.Concat(c.headers, headers)
	peer := c.address
	if w.proxied {
		peer = "10.0.0.1"
	}
	at := time.Unix(c.at, 0).UTC()
	referrer := "-"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Referer" {
			referrer = headers[i+1]
		}
	}
	text := fmt.Sprintf(`%s - - [%s] "%s %s HTTP/1.1" %d 5000 "%s" "%s"`, peer, at.Format("02/Jan/2006:15:04:05 -0700"),
		method, target, status, referrer, c.userAgent)
	if w.proxied {
		text += fmt.Sprintf(" %q", c.address)
	}
	if w.caddy {
		all := map[string][]string{"User-Agent": {c.userAgent}}
		for i := 0; i < len(headers); i += 2 {
			all[headers[i]] = []string{headers[i+1]}
		}
		if w.proxied {
			all["X-Forwarded-For"] = []string{c.address}
		}
		header, err := json.Marshal(all)
		if err != nil {
			panic(err)
		}
		text = fmt.Sprintf(`{"level":"info","ts":%d.5,"logger":"http.log.access.log0","msg":"handled request","request":`+
			`{"remote_ip":%q,"remote_port":"40000","client_ip":%[2]q,"proto":"HTTP/2.0","method":%q,"host":`+
			`"docs.example.com","uri":%q,"headers":%s},"bytes_read":0,"user_id":"","duration":0.01,"size":5000,`+
			`"status":%d,"resp_headers":{"Content-Type":["text/html"]}}`, c.at, peer, method, target, header, status)
	}
	w.log = append(w.log, worldLine{c.at, text + "\n"})
}

// assets logs what a page needs.
func (w *world) assets(c *client, status int) {
	own := &client{c.address, c.userAgent, c.at, subresource}
	for _, target := range []string{"/assets/site.css", "/assets/site.js", "/logo.svg"} {
		w.ask(own, "GET", target, status)
	}
	w.evidence = true
}

// person logs the visits of a person.
func (w *world) person() {
	c := w.newClient(w.browser(), navigation)
	who := c.address + " " + c.userAgent
	warm := w.IntN(4) == 0 // it has been there before the log begins
	w.evidence = w.caddy
	for range 1 + w.IntN(3) {
		for i := range 1 + w.IntN(4) {
			page := w.page()
			if w.pages[page] == nil {
				w.pages[page] = map[string]bool{}
			}
			w.pages[page][who] = true
			status := 200
			if warm && w.IntN(6) == 0 {
				status = 304
				w.evidence = w.evidence || !w.proxied
			}
			w.ask(c, "GET", page, status)
			switch {
			case w.elsewhere, i > 0 && w.immutable, warm && w.immutable:
			case warm || i > 0:
				w.assets(c, 304)
			default:
				w.assets(c, 200)
			}
			if w.IntN(8) == 0 {
				w.ask(c, "GET", page+".md", 200)
			}
		}
		warm = true
		c.at += w.Int64N(3 * 24 * 3600)
	}
	w.people[who] = w.evidence
}

// agent logs the views of an agent with its own name, which loads what browsers load.
func (w *world) agent() {
	names := []string{"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
		"curl/8.5.0"}
	c := w.newClient(names[w.IntN(len(names))], navigation)
	for range 1 + w.IntN(5) {
		w.ask(c, "GET", w.page(), 200)
		w.assets(c, 200)
	}
}

// forge logs some requests by a program.
func (w *world) forge(kind int) {
	f := forgers[kind]
	c := w.newClient(w.browser(), f.headers)
	for range 1 + w.IntN(8) {
		w.forged[c.address+" "+c.userAgent] = true
		if f.visit(w, c, w.page()); w.proxied && w.IntN(6) == 0 {
			w.forged[c.address+" "+c.userAgent] = true
			w.ask(c, "GET", w.page(), 304) // the cache asks again, on behalf of its client
		}
	}
}

// count counts the log under a mode, from a day on and before another; 0 is no bound.
func (w *world) count(t *testing.T, humans analytics.Humans, from, to analytics.Date) *Report {
	t.Helper()
	s := Settings{Humans: humans}
	if w.proxied {
		s.LogProxies = "10.0.0.0/8"
	}
	slices.SortStableFunc(w.log, func(a, b worldLine) int { return int(a.at - b.at) })
	var text strings.Builder
	for _, l := range w.log {
		text.WriteString(l.text)
	}
	o := Options{Now: analytics.NewDate(2026, 12, 1), Stdin: strings.NewReader(text.String())}
	if to > 0 {
		o.From, o.To = &from, &to
	}
	report, err := rulesOf(t, s).Count(t.Context(), []string{"-"}, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// confirmed returns how many people have evidence in the log.
func (w *world) confirmed() (n int) {
	for _, has := range w.people {
		if has {
			n++
		}
	}
	return n
}

// TestWorlds: whatever calls itself a browser, people are at least the confirmed and at most the claimed ones, on the
// site and on each page, and hardly any program that calls itself a browser is confirmed.
func TestWorlds(t *testing.T) {
	t.Logf("seeds 1 to %d", *worlds)
	people, confirmed, forged, passed := 0, 0, 0, 0
	for seed := uint64(1); seed <= *worlds; seed++ {
		w := newWorld(seed)
		for range 1 + w.IntN(12) {
			w.person()
		}
		for range w.IntN(4) {
			w.agent()
		}
		byPeople, share := len(w.log), w.Float64()*0.95
		for kind := w.IntN(plainForgers); float64(len(w.log)-byPeople) < share*float64(len(w.log)); {
			w.forge(kind)
			if w.IntN(3) == 0 {
				kind = w.IntN(plainForgers)
			}
		}
		want := w.confirmed()
		claims, evidence := w.count(t, analytics.Claimed, 0, 0), w.count(t, analytics.Confirmed, 0, 0)
		got := int(evidence.Totals.Human)
		if got > len(w.people) || int(claims.Totals.Human) < len(w.people) || got < want {
			t.Errorf("seed %d: %d confirmed (%d have evidence), %d people, %d claimed", seed, got, want, len(w.people),
				claims.Totals.Human)
		}
		if n := len(w.people) + len(w.forged); int(claims.Totals.Human) != n {
			t.Errorf("seed %d: %d claim to be people, want %d", seed, claims.Totals.Human, n)
		}
		for _, r := range []*Report{claims, evidence} {
			if r.People.Confirmed != got || r.People.Claimed != int(claims.Totals.Human) {
				t.Errorf("seed %d, %s: %+v, want %d of %d", seed, r.Humans, r.People, got, claims.Totals.Human)
			}
		}
		w.comparePages(t, seed, claims, evidence)
		w.compareWindow(t, seed, got)
		people, confirmed = people+len(w.people), confirmed+want
		forged, passed = forged+len(w.forged), passed+got-want
	}
	t.Logf("%d people, %d confirmed; %d forged, %d confirmed", people, confirmed, forged, passed)
	if passed*100 > forged {
		t.Errorf("%d of %d forged readers are confirmed, want at most 1 %%", passed, forged)
	}
}

// comparePages compares the pages of both reports.
func (w *world) comparePages(t *testing.T, seed uint64, claims, evidence *Report) {
	t.Helper()
	least, most := map[string]int64{}, map[string]int64{}
	for _, row := range evidence.Pages {
		least[row.Path] = row.Human
	}
	for _, row := range claims.Pages {
		most[row.Path] = row.Human
	}
	for page, n := range least {
		if n > int64(len(w.pages[page])) {
			t.Errorf("seed %d: %s has %d confirmed, %d people", seed, page, n, len(w.pages[page]))
		}
	}
	for page, who := range w.pages {
		if most[page] < int64(len(who)) {
			t.Errorf("seed %d: %s has %d people, %d claimed", seed, page, len(who), most[page])
		}
	}
}

// compareWindow compares some days with the month, which has confirmed people.
func (w *world) compareWindow(t *testing.T, seed uint64, confirmed int) {
	t.Helper()
	first := analytics.NewDate(2026, 10, 1)
	from := first + analytics.Date(w.IntN(25))
	r := w.count(t, analytics.Claimed, from, from+1+analytics.Date(w.IntN(10)))
	if r.People.Claimed != int(r.Totals.Human) || r.People.Confirmed > confirmed {
		t.Errorf("seed %d, from %s: %+v of %d, %d confirmed in the month", seed, from, r.People, r.Totals.Human, confirmed)
	}
}

// TestForgers shows what evidence can tell, kind by kind, in both logs.
func TestForgers(t *testing.T) {
	for kind, f := range forgers {
		shown := ""
		for _, caddy := range []bool{false, true} {
			w := newWorld(uint64(kind))
			w.caddy, w.proxied, w.elsewhere = caddy, false, false
			for len(w.forged) < 200 {
				w.forge(kind)
			}
			r := w.count(t, analytics.Claimed, 0, 0)
			got := 100 * r.People.Confirmed / len(w.forged)
			// Headers are only in Caddy's log, and assets in both.
			want := kind >= plainForgers && (caddy || f.name == "automated browser")
			if want && got < 100 || !want && got > 1 || int(r.Totals.Human) != len(w.forged) {
				t.Errorf("%s, Caddy %t: %d %% of %d are confirmed, want all of them: %t", f.name, caddy, got, len(w.forged), want)
			}
			shown += fmt.Sprintf(" %d %%", got)
		}
		t.Logf("%s: confirmed in combined and in Caddy's log%s", f.name, shown)
	}
}

// TestReturning shows what the log of a site can tell whose readers come back with warm caches: the share of people on a
// day of the month who are unconfirmed, since their evidence is of a month before. With assets and 304s alone they are
// many at first; with Sec-Fetch-Mode at most 1 % on any day. docs/dev/agents-method.md has the table.
func TestReturning(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/dev/agents-method.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, site := range []struct {
		hasMode   bool
		returning float64 // share of a day's readers
		deploys   int     // days between two changes of all assets
	}{{false, 0.3, 7}, {false, 0.3, 60}, {false, 0.6, 7}, {false, 0.6, 60}, {true, 0.6, 60}} {
		w := newWorld(1)
		w.caddy, w.proxied = site.hasMode, false
		w.returning(site.returning, site.deploys)
		evidence := map[bool]string{false: "assets", true: "`Sec-Fetch-Mode`"}[site.hasMode]
		row := fmt.Sprintf("| %s | %.0f %% | %d days |", evidence, 100*site.returning, site.deploys)
		for _, day := range []int{1, 2, 4, 8, 15, 29} {
			first := analytics.NewDate(2026, 10, day)
			people := w.count(t, analytics.Claimed, first, first+1).People
			unconfirmed := people.Claimed - people.Confirmed
			if site.hasMode && 100*unconfirmed > people.Claimed {
				t.Errorf("day %d: %d of %d people are unconfirmed", day, unconfirmed, people.Claimed)
			}
			row += fmt.Sprintf(" %d %% |", (100*unconfirmed+people.Claimed/2)/people.Claimed)
		}
		if !strings.Contains(string(docs), row) {
			t.Errorf("docs/dev/agents-method.md lacks %s", row)
		}
	}
}

// returning logs September and October: on each day people of whom a share has been there within a month, most of
// them lately. What they have in their caches they do not load again, until it has a new name.
func (w *world) returning(share float64, deploys int) {
	const perDay, pages, first, end = 100, 200, -30, 31
	type reader struct {
		client
		last int            // day
		has  map[string]int // the days of pages
	}
	var byDay [end - first][]*reader
	for day := range byDay {
		deployed := day - day%deploys
		for range perDay {
			back := 1 + int(w.ExpFloat64()*6)
			var r *reader
			if w.Float64() < share && back <= day {
				r = byDay[day-back][w.IntN(perDay)]
			} else {
				r = &reader{client{w.address(), w.browser(), 0, navigation}, -1, map[string]int{}}
			}
			r.at = october + int64(day+first)*24*3600 + w.Int64N(23*3600)
			for range 1 + w.IntN(4) {
				page, status := fmt.Sprintf("/docs/p%d", w.IntN(pages)), 200
				if got, known := r.has[page]; known && got >= deployed {
					status = 304 // the browser has it, and asks whether it has changed
				}
				w.ask(&r.client, "GET", page, status)
				r.has[page] = day
			}
			if r.last < deployed {
				w.assets(&r.client, 200)
			}
			r.last = day
			byDay[day] = append(byDay[day], r)
		}
	}
}
