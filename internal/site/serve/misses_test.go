package serve

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// missedLine is a line about a path that is not there.
func missedLine(at time.Time, addr, path, agent string, status int) string {
	return fmt.Sprintf("%s - - [%s] \"GET %s HTTP/1.1\" %d 5 \"-\" \"%s\"\n",
		addr, at.Format("02/Jan/2006:15:04:05 -0700"), path, status, agent)
}

func (w *world) writeText(text string) {
	w.t.Helper()
	f, err := os.OpenFile(w.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	w.ok(err)
	_, err = f.WriteString(text)
	w.ok(err)
	w.ok(f.Close())
}

// agentRows are the rows of the report in October that are not there, as text.
func (w *world) misses() (rows []string) {
	w.t.Helper()
	a, err := w.store.CountAgents(w.t.Context(), count.DefaultProject, analytics.NewDate(2026, 10, 1),
		analytics.NewDate(2026, 11, 1), analytics.Claimed)
	w.ok(err)
	for _, r := range a.Rows {
		if !r.Found {
			rows = append(rows, fmt.Sprintf("%s %s %s %s %d/%d", r.Path, r.Agent, r.Class, r.Audience, r.Visitors, r.Requests))
		}
	}
	return rows
}

// pages are the names that the collector has made durable.
func (w *world) pages() []facts.Page {
	pages, err := w.store.Pages(w.t.Context())
	w.ok(err)
	return pages
}

// TestMisses: paths that agents of several networks asked for and that are not there are counted, also
// over a restart; browsers, scanners, and what one network invents are not; and nothing of it is in the
// numbers of visitors.
func TestMisses(t *testing.T) {
	at := time.Date(2026, 10, 10, 12, 0, 0, 0, time.UTC)
	w := newWorld(t, 1, at.AddDate(0, 0, 3))
	const claude, gpt, curl = "Claude-User/1.0", "GPTBot/1.1", "curl/8.0"
	var text strings.Builder
	add := func(addr, path, agent string, status int) {
		text.WriteString(missedLine(at, addr, path, agent, status))
	}
	add("192.0.2.1", "/there", claude, 200)
	for _, addr := range []string{"192.0.2.1", "192.0.2.2", "198.51.100.1"} { // two networks
		add(addr, "/setup", claude, 404)
		add(addr, "/setup.md?x=y", curl, 410)
		add(addr, "/setup/", firefox, 404)        // a person
		add(addr, "/setup.md", firefox, 404)      // an agent that says it is a browser
		add(addr, "/shell", curl, 404)            // a scanner
		add(addr, "/shell.md", "FooBot/1.0", 404) // and another
		add(addr, "/there", gpt, 404)             // not always
		add(addr, "/wp-login.php", claude, 404)   // no page
		add(addr, "/setup", claude, 500)          // not answered
		add(addr, "/style.css", claude, 404)      // an asset
		add(addr, "/a%0A@everyone", claude, 404)  // not plain
		add(addr, "//evil.example/", claude, 404) // nor this
		add(addr, "/only/"+addr, claude, 404)     // of one network each
		add(addr, "/near/"+addr[:6], claude, 404) // 192.0. has two addresses of one network
	}
	for _, addr := range []string{"2001:db8:1::1", "2001:db8:1:2::1"} { // two clients of one network
		add(addr, "/six", claude, 404)
	}
	w.writeText(text.String())
	w.start()
	w.ok(w.session.poll(t.Context()))
	want := []string{"/setup Claude-User answers ai 3/3", "/setup curl tool ai 3/3", "/setup unnamed coding ai 3/3",
		"/there GPTBot training neither 3/3"}
	if diff := gocmp.Diff(want, w.misses()); diff != "" {
		t.Errorf("(-want, +got): %s", diff)
	}
	w.stop()
	text.Reset()
	add("2001:db8:2::1", "/six", claude, 404) // a second network
	add("192.0.2.1", "/setup", claude, 404)
	w.writeText(text.String())
	w.start()
	w.ok(w.session.poll(t.Context()))
	want[0] = "/setup Claude-User answers ai 3/4"
	want = append(want[:3:3], "/six Claude-User answers ai 3/3", want[3])
	if diff := gocmp.Diff(want, w.misses()); diff != "" {
		t.Errorf("after a restart (-want, +got): %s", diff)
	}
	v, err := w.store.CountVisitors(t.Context(), count.DefaultProject, analytics.DateOf(at), analytics.DateOf(at)+1,
		analytics.Claimed)
	w.ok(err)
	if diff := gocmp.Diff(facts.Visitors{Totals: analytics.Totals{AI: 1, Total: 1},
		Rows: []analytics.Row{{Path: "/there", Totals: analytics.Totals{AI: 1, Total: 1}}}}, v); diff != "" {
		t.Errorf("visitors (-want, +got): %s", diff)
	}
	sources, _ := w.session.Sources()
	if n := sources[0].Lines; n["view"] != 1 || n["status"] != 3*14+2+2 {
		t.Errorf("%v", n)
	}
}

// TestInventedMisses: a client can add only so many, all clients together only so many more in a month,
// and pages are not fewer for it.
func TestInventedMisses(t *testing.T) {
	at := time.Date(2026, 10, 10, 12, 0, 0, 0, time.UTC)
	w := newWorld(t, 1, at.AddDate(0, 1, 0))
	var text strings.Builder
	const maxMisses, maxInvented = 10_000, 1000
	const clients = maxMisses/maxInvented + 2
	for c := range clients {
		for i := range maxInvented + 5 {
			text.WriteString(missedLine(at, fmt.Sprintf("192.0.%d.1", c), fmt.Sprintf("/x/%d/%d", c, i), "Claude-User/1.0", 404))
		}
	}
	text.WriteString(missedLine(at.AddDate(0, 1, -9), "192.0.0.1", "/next-month", "Claude-User/1.0", 404))
	text.WriteString(missedLine(at, "192.0.0.1", "/there", firefox, 200))
	w.writeText(text.String())
	w.start()
	w.ok(w.session.poll(t.Context()))
	for range 2 { // as it goes on, and after a restart
		known := map[facts.Epoch]int{}
		for _, p := range w.pages() {
			known[p.Missed]++
		}
		if october, november := facts.EpochOf(analytics.DateOf(at)), facts.EpochOf(analytics.DateOf(at))+1; known[0] != 1 ||
			known[october] != maxMisses || known[november] != 1 {
			t.Errorf("%v", known)
		}
		w.stop()
		w.start()
	}
}

// TestInventedPages: a client that invents 10,000 paths a minute, on a server that answers all of them,
// changes neither the numbers of other pages nor, beyond a bound, what the collector has to remember.
func TestInventedPages(t *testing.T) {
	at := time.Date(2026, 10, 10, 12, 0, 0, 0, time.UTC)
	w := newWorld(t, 1, at.AddDate(0, 0, 1))
	w.start()
	for minute := range 12 {
		var text strings.Builder
		begins := at.Add(time.Duration(minute) * time.Minute)
		for i := range 10_000 {
			text.WriteString(missedLine(begins.Add(time.Duration(i)*6*time.Millisecond), "192.0.2.2",
				fmt.Sprintf("/x/%d/%d", minute, i), firefox, 200))
		}
		text.WriteString(missedLine(begins, "192.0.2.3", "/guide", firefox, 200))
		text.WriteString(missedLine(begins, "192.0.2.3", fmt.Sprint("/new/", minute), firefox, 200))
		w.writeText(text.String())
		w.ok(w.session.poll(t.Context()))
	}
	day := analytics.DateOf(at)
	got, err := w.store.CountVisitors(t.Context(), count.DefaultProject, day, day+1, analytics.Claimed)
	w.ok(err)
	pages := map[string]int64{}
	for _, row := range got.Rows {
		pages[row.Path] = row.Total
	}
	const maxPages = 100_000
	names := len(w.pages())
	if n := len(pages); got.Totals.Total != 2 || pages["/guide"] != 1 || pages["/new/11"] != 1 || pages["(other)"] != 1 ||
		n > maxPages/2+20 || names != n {
		t.Errorf("%v, %d pages of %d names, /guide %d, /new/11 %d, others %d", got.Totals, n,
			names, pages["/guide"], pages["/new/11"], pages["(other)"])
	}
	w.stop()
}
