package cli

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
)

var siteKills = flag.Int("site-kills", 10, "how often TestRotation kills site serve, in all of its cases together; "+
	"`make torture` uses 60; and half as often TestFilesComeAndGo")

// TestRotation: nginx and Caddy serve a crowd while their logs are rotated, and the real binary, which follows
// them, is killed again and again, and its clock is wrong now and then.
// In the end every request counts once, with its bytes and its source, and every reader of every page once, as
// the logs have them, and readers that load a style sheet are confirmed. Only copytruncate may lose lines, and then
// it is said.
func TestRotation(t *testing.T) {
	cases := []struct {
		name   string
		run    func(t *testing.T, root string) *engines.WebServer
		log    string
		rotate func(*watched) error // nil: the server does
		loses  bool                 // it may lose lines
	}{
		{"nginx renames", nginxLogging, "combined", (*watched).rename, false},
		{"nginx renames and gzips", nginxLogging, "combined", (*watched).compress, false},
		{"nginx copytruncates", nginxLogging, "combined", (*watched).copyTruncate, true},
		{"Caddy rolls", func(t *testing.T, root string) *engines.WebServer {
			return engines.RunCaddy(t, root, true)
		}, "access", nil, false},
		{"Caddy copytruncates", func(t *testing.T, root string) *engines.WebServer {
			return engines.RunCaddy(t, root, false)
		}, "access", (*watched).copyTruncate, true},
	}
	if *siteKills <= 10 {
		cases = cases[:2] // `make torture` has all
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			root := deepSite(t)
			server := tc.run(t, root)
			w := &watched{t: t, WebServer: server, live: server.Log(tc.log), rotates: tc.rotate,
				empties: tc.loses, reads: map[int]siteRead{}}
			w.place = place{t.TempDir(), append(os.Environ(), "DOCGAUGE_SITE_LOGS="+w.live,
				"DOCGAUGE_SITE_LISTEN_ADDRESS=127.0.0.1:0", "DOCGAUGE_SITE_METRICS_ADDRESS=127.0.0.1:0")}
			w.key = strings.TrimSpace(string(w.run(t, "site", "keys", "add")))
			w.torture(max(2, *siteKills/len(cases)))
		})
	}
}

// TestFilesComeAndGo: of a directory in which small logs appear, plain and compressed, grow, are renamed, compressed
// and, once they were read, deleted, every line counts once, however often site serve is killed.
func TestFilesComeAndGo(t *testing.T) {
	if *siteKills <= 10 {
		t.Skip("`make torture` runs it")
	}
	w := &watched{t: t, live: t.TempDir()}
	w.place = place{t.TempDir(), append(os.Environ(), "DOCGAUGE_SITE_LOGS="+filepath.Join(w.live, "*.log*"),
		"DOCGAUGE_SITE_LISTEN_ADDRESS=127.0.0.1:0", "DOCGAUGE_SITE_METRICS_ADDRESS=127.0.0.1:0")}
	w.key = strings.TrimSpace(string(w.run(t, "site", "keys", "add")))
	var writing sync.WaitGroup
	var failed error
	logs := smallLogs{dir: w.live, events: map[string][]string{}}
	writing.Go(func() {
		for failed == nil && !w.isOver.Load() && logs.lines < mostReads {
			logs.mu.Lock()
			failed = logs.change()
			w.answered.Store(int64(logs.lines))
			logs.mu.Unlock()
			time.Sleep(pause)
		}
	})
	seen, kills := testbed.Series{}, max(4, *siteKills/2)
	for i := range kills {
		w.grow(perRotation)
		logs.note(fmt.Sprintf("site serve starts, kill %d follows", i), "")
		if i%2 == 1 {
			w.killOnce(i, &seen)
			continue
		}
		read := logs.take()
		logs.mu.Lock() // so that many logs are read while they are plain
		s, _ := w.serving()
		logs.mu.Unlock()
		for _, name := range read {
			logs.note("deleted", name)
			check(t, os.Remove(name))
		}
		w.grow(rand.IntN(perRotation))
		s.kill()
	}
	w.isOver.Store(true)
	writing.Wait()
	check(t, failed)
	for range 2 { // nothing is read twice after another start
		s, _ := w.serving()
		page, err := w.ask(s.URL, 0)
		check(t, err)
		s.stop(t)
		if got := page.Totals.Human; got != int64(min(logs.lines, smallReaders)) {
			t.Errorf("%d readers of %d lines, want %d", got, logs.lines, smallReaders)
		}
		requests, sum := w.requests()
		wrong, first := 0, ""
		for n := range logs.lines {
			if got := requests[asked{fmt.Sprintf("/%d", n), "", "human"}]; got != 1 {
				wrong++
				first = cmp.Or(first, fmt.Sprintf("line %d, %d times, in %s", n, got, logs.story(n)))
			}
		}
		if wrong > 0 {
			t.Errorf("%d lines do not count once; %s", wrong, first)
		}
		t.Logf("%d lines, %d views, %d files, %d deleted, %d kills", logs.lines, sum, logs.files, logs.deleted, kills)
	}
}

const (
	// smallReaders is how many readers small logs have.
	smallReaders = 50
	// smallPlain is how many of them are plain at least, so that many are read before they are compressed.
	smallPlain = 100
)

// smallLogs writes small logs into a directory. Each line asks for another page, so a lost or doubled line shows.
type smallLogs struct {
	dir            string
	lines          int
	files, deleted int

	mu     sync.Mutex
	plain  []string            // logs that may still change
	packed []string            // logs that are compressed
	of     []string            // the log of each line
	events map[string][]string // what became of each log, and, without a name, of site serve
}

// did notes what became of a log, or of site serve if it has no name.
func (l *smallLogs) did(what, name string) {
	log, _, _ := strings.Cut(filepath.Base(name), ".")
	l.events[log] = append(l.events[log], time.Now().UTC().Format("15:04:05.000000 ")+what)
	for len(l.of) < l.lines {
		l.of = append(l.of, log)
	}
}

// note is did for a caller without mu.
func (l *smallLogs) note(what, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.did(what, name)
}

// story returns what became of the log that has a line, and of site serve since then.
func (l *smallLogs) story(line int) string {
	all := slices.Clone(l.events[l.of[line]])
	for _, e := range l.events[""] {
		if e > all[0] {
			all = append(all, e)
		}
	}
	return l.of[line] + "\n" + strings.Join(slices.Sorted(slices.Values(all)), "\n")
}

// text returns more lines.
func (l *smallLogs) text() (text []byte) {
	for range 1 + rand.IntN(6) {
		text = fmt.Appendf(text, "10.0.0.%d - - [%s] \"GET /%d HTTP/1.1\" 200 10 \"-\" \"%s\"\n", l.lines%smallReaders,
			time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"), l.lines, fmt.Sprintf(crowd[0].userAgent, 100))
		l.lines++
	}
	return text
}

// change makes one change. The caller holds mu.
func (l *smallLogs) change() error {
	name := filepath.Join(l.dir, fmt.Sprintf("f%05d.log", l.files))
	kind, what := rand.IntN(8), "new"
	defer func() { l.did(fmt.Sprintf("%s, %d lines in all logs", what, l.lines), name) }()
	if len(l.plain) < smallPlain || kind < 2 { // a new log: compressed, or plain and growing
		l.files++
		if kind > 0 {
			l.plain = append(l.plain, name)
			return os.WriteFile(name, l.text(), 0o600)
		}
		what = "new, compressed"
		hidden := filepath.Join(l.dir, "coming")
		l.packed = append(l.packed, name+".gz")
		return errors.Join(os.WriteFile(hidden, l.text(), 0o600), exec.Command("gzip", hidden).Run(),
			os.Rename(hidden+".gz", name+".gz"))
	}
	i := rand.IntN(len(l.plain))
	name = l.plain[i]
	switch {
	case kind < 5:
		what = "grown"
		file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = file.Write(l.text())
			err = errors.Join(err, file.Close())
		}
		return err
	case kind == 5 && strings.HasSuffix(name, ".log"):
		what = "renamed"
		l.plain[i] += ".1"
		return os.Rename(name, l.plain[i])
	default:
		what = "compressed"
		l.plain = slices.Delete(l.plain, i, i+1)
		l.packed = append(l.packed, name+".gz")
		return exec.Command("gzip", name).Run()
	}
}

// take returns logs that do not change any more.
func (l *smallLogs) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.packed[:len(l.packed)/2]
	l.packed = slices.Clone(l.packed[len(taken):])
	l.deleted += len(taken)
	return taken
}

func nginxLogging(t *testing.T, root string) *engines.WebServer {
	return engines.RunNginx(t, root, map[string]string{"combined": ""})
}

// deepSite is a site in which each path of digits leads back to its root: it has as many pages as anybody asks for.
func deepSite(t *testing.T) (root string) {
	root = t.TempDir()
	check(t, os.Chmod(root, 0o755))
	writeText(t, filepath.Join(root, "page.html"), "a page\n")
	writeText(t, filepath.Join(root, "page.css"), "p {}\n")
	for digit := range 10 {
		check(t, os.Symlink(".", filepath.Join(root, strconv.Itoa(digit))))
	}
	return root
}

// siteRead is what a request of the crowd must count as.
type siteRead struct {
	page, reader, agent, audience, source string
	bytes                                 int64
	isAsset                               bool // not a view, but evidence
}

// came are referrers with the source that they are.
var came = []struct{ referrer, source string }{
	{"https://docs.example.com/" + strings.Repeat("long/", 80), "other"}, {"https://chatgpt.com/", "chatgpt"},
	{"https://www.google.com/", "google"}, {"", "none"},
}

// crowd are the readers.
var crowd = []struct{ userAgent, agent, audience string }{
	{"Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/%[1]d.0", "", "human"},
	{"Mozilla/5.0 (Macintosh) AppleWebKit/%d.1 (KHTML, like Gecko) Safari/%[1]d.1", "", "human"},
	{"Mozilla/5.0 AppleWebKit/%d.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0", "ChatGPT-User", "ai"},
	{"Mozilla/5.0 (compatible; Googlebot/2.%d; +http://www.google.com/bot.html)", "Googlebot", ""},
}

// watched is a web server with its crowd, and a site serve that follows its log.
type watched struct {
	t *testing.T
	*engines.WebServer
	place
	key     string
	live    string // path of the log
	rotates func(*watched) error
	empties bool // rotation does it, and may lose lines
	turns   int  // rotations

	isOver   atomic.Bool
	answered atomic.Int64
	mu       sync.Mutex
	reads    map[int]siteRead // that were answered, by number
}

const (
	readersAtOnce = 6
	// perRotation is the least number of requests between two rotations of a log.
	perRotation = 150
	// mostReads bounds a test whose other parts do not get a processor.
	mostReads = 90_000
	// pause is between two requests of one reader, so that the others get a processor.
	pause = 2 * time.Millisecond
)

// torture lets the crowd read, rotates and kills, and compares in the end.
func (w *watched) torture(kills int) {
	var reading, rotating sync.WaitGroup
	var failed [readersAtOnce + 1]error
	for i := range readersAtOnce {
		reading.Go(func() { failed[i] = w.read(i) })
	}
	seen := testbed.Series{}
	w.grow(perRotation)
	w.killOnce(0, &seen) // losses of a log of which no line was read cannot be known
	rotating.Go(func() {
		for !w.isOver.Load() && w.rotates != nil && failed[readersAtOnce] == nil {
			w.grow(perRotation + rand.IntN(2*perRotation))
			failed[readersAtOnce] = w.rotates(w)
			w.turns++
		}
	})
	for i := 1; i < kills; i++ {
		w.killOnce(i, &seen)
	}
	w.grow(perRotation)
	w.isOver.Store(true)
	rotating.Wait()
	reading.Wait()
	check(w.t, errors.Join(failed[:]...))
	check(w.t, w.Stop())
	w.compare(kills)
}

// grow waits until the log has n more lines, or the crowd has ended.
func (w *watched) grow(n int) {
	until := min(w.answered.Load()+int64(n), mostReads)
	for !w.isOver.Load() && w.answered.Load() < until {
		time.Sleep(time.Millisecond)
	}
}

// read reads as one reader of the crowd, which has several user agents.
func (w *watched) read(one int) error {
	address := net.IPv4(127, 0, 0, byte(2+one/2))
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: address}}
	client := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}, Timeout: testbed.Patience}
	defer client.CloseIdleConnections()
	for n := one; n < mostReads && !w.isOver.Load(); n += readersAtOnce {
		who := crowd[rand.IntN(len(crowd))]
		userAgent := fmt.Sprintf(who.userAgent, 100+rand.IntN(20))
		page := fmt.Sprintf("/%d/page", rand.IntN(10))
		if n%3 > 0 { // a page with a single request
			page = "/" + strings.Join(strings.Split(fmt.Sprintf("%05d", n), ""), "/") + "/page"
		}
		r := siteRead{page: page, reader: address.String() + " " + userAgent, agent: who.agent, audience: who.audience,
			isAsset: rand.IntN(60) == 0}
		from, extension := came[rand.IntN(len(came))], ".html"
		if r.source = from.source; r.isAsset {
			extension = ".css"
		}
		request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://%s%s%s?n=%d", w.Addr, page, extension, n), nil)
		if err != nil {
			return err
		}
		request.Header.Set("User-Agent", userAgent)
		if from.referrer != "" {
			request.Header.Set("Referer", from.referrer)
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		r.bytes, err = io.Copy(io.Discard, answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: status %d, %w", page, answer.StatusCode, err)
		}
		time.Sleep(pause)
		w.mu.Lock()
		w.reads[n] = r
		w.mu.Unlock()
		w.answered.Add(1)
	}
	return nil
}

// shift makes room for the next rotated log.
func (w *watched) shift() (err error) {
	for i := w.turns; i > 0; i-- {
		for _, ext := range []string{"", ".gz"} {
			from, to := fmt.Sprint(w.live, ".", i, ext), fmt.Sprint(w.live, ".", i+1, ext)
			if moved := os.Rename(from, to); !errors.Is(moved, os.ErrNotExist) {
				err = errors.Join(err, moved)
			}
		}
	}
	return err
}

// rename is a rotation by rename: the server writes to the former log until it opens the new one.
func (w *watched) rename() error {
	err := errors.Join(w.shift(), os.Rename(w.live, w.live+".1"))
	w.grow(rand.IntN(50))
	if err = errors.Join(err, w.Reopen()); err != nil {
		return err
	}
	return testbed.Poll("nginx opens its log again", func() (bool, error) {
		_, err := os.Stat(w.live)
		return err == nil, nil
	})
}

// compress is rename, and then gzip of that log.
func (w *watched) compress() error {
	if err := w.rename(); err != nil {
		return err
	}
	return exec.Command("gzip", w.live+".1").Run()
}

// copyTruncate copies the log and empties it: lines that come in between are in neither.
func (w *watched) copyTruncate() error {
	err := w.shift()
	from, openErr := os.Open(w.live)
	if err = errors.Join(err, openErr); err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(w.live+".1", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	w.grow(rand.IntN(3) * 20)
	return errors.Join(err, to.Close(), os.Truncate(w.live, 0))
}

// killOnce starts site serve and kills it at a random moment: every other time after it has read all lines that were
// there when it started. Its counts then are never less than before.
func (w *watched) killOnce(i int, seen *testbed.Series) {
	if i%2 == 1 {
		cmd := w.command("site", "serve")
		if i%4 == 1 {
			cmd.Env = append(cmd.Env, "CLOCK_AHEAD="+wrongClocks[rand.IntN(len(wrongClocks))].String())
		}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		dieWithUs(cmd)
		check(w.t, cmd.Start())
		time.AfterFunc(time.Duration(rand.IntN(1200))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		if exit, failed := errors.AsType[*exec.ExitError](err); !failed || exit.Exited() {
			w.t.Fatalf("site serve ended before it was killed: %v\n%s", err, out.String())
		}
		return
	}
	s, first := w.serving()
	if down := testbed.Fallen(*seen, first); len(down) > 0 {
		w.t.Errorf("after a kill:\n%s", strings.Join(down, "\n"))
	}
	time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
	*seen = w.series(s).Only(func(name string) bool {
		return strings.HasPrefix(name, "docgauge_site_lines_total") || strings.Contains(name, "possibly_lost")
	})
	s.kill()
}

var metricsURL = regexp.MustCompile(`msg="site serve started" .* metrics=(http://[^/ ]+)/metrics`)

// series is a scrape of site serve.
func (w *watched) series(s *sidecar) testbed.Series {
	w.t.Helper()
	text, err := os.ReadFile(s.log)
	check(w.t, err)
	all := metricsURL.FindAllSubmatch(text, -1)
	status, body, err := testbed.Fetch(w.t.Context(), string(all[len(all)-1][1])+"/metrics")
	if err != nil || status != http.StatusOK {
		w.t.Fatalf("status %d, %v", status, err)
	}
	series, err := testbed.ParseSeries(body)
	check(w.t, err)
	return series
}

// serving starts site serve, and returns when it has read what there was.
func (w *watched) serving() (*sidecar, testbed.Series) {
	w.t.Helper()
	s := w.serve(w.t, "site", "serve")
	testbed.Await(w.t, "site serve answers", func() bool {
		page, _ := w.ask(s.URL, 0)
		return page != nil
	})
	return s, w.series(s)
}

// sitePage is the body of an answer about visitors.
type sitePage struct {
	Totals   analytics.Totals
	Visitors []analytics.Row
	HasMore  bool
}

// ask returns one page of the answer for all days of the test; nil while the site answers 503.
func (w *watched) ask(url string, offset int) (*sitePage, error) {
	w.t.Helper()
	today := analytics.DateOf(time.Now())
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, fmt.Sprintf(
		"%s/v1/analytics/prj_site/visitors?dateFrom=%s&dateTo=%s&limit=%d&offset=%d", url, today-1, today+1,
		api.MaxLimit, offset), nil)
	check(w.t, err)
	request.Header.Set("Authorization", "Bearer "+w.key)
	answer, err := http.DefaultClient.Do(request)
	check(w.t, err)
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusServiceUnavailable {
		return nil, nil
	}
	page := &sitePage{}
	if answer.StatusCode != http.StatusOK {
		w.t.Fatalf("status %d", answer.StatusCode)
	}
	return page, json.NewDecoder(answer.Body).Decode(page)
}

// compare compares what the API, the metrics and the facts have with the logs.
func (w *watched) compare(kills int) {
	t := w.t
	logged := w.logged()
	if len(logged) < len(w.reads) && !w.empties || len(logged) == 0 {
		t.Fatalf("the logs have %d of %d requests", len(logged), len(w.reads))
	}
	for range 2 { // nothing is read twice after another start
		s, series := w.serving()
		rows := map[string]analytics.Row{}
		for offset, more := 0, true; more; {
			page, err := w.ask(s.URL, offset)
			check(t, err)
			rows[""] = analytics.Row{Totals: analytics.Totals{Human: page.Totals.Human, AI: page.Totals.AI,
				Total: page.Totals.Total}}
			for _, row := range page.Visitors {
				rows[row.Path] = row
			}
			offset, more = offset+len(page.Visitors), page.HasMore
		}
		s.stop(t)
		requests, sum := w.requests()
		if !w.empties {
			w.compareRows(logged)
		}
		least, leastRequests := countReads(logged)
		most, mostRequests := countReads(w.reads)
		for path := range most { // the site also: it has no path
			if got := rows[path]; !within(got, least[path], most[path]) {
				t.Errorf("the API has %q %+v, want %+v to %+v", path, got, least[path], most[path])
			}
			delete(rows, path)
		}
		for what, n := range mostRequests {
			if got := requests[what]; got < leastRequests[what] || got > n {
				t.Errorf("%v: %d requests, want %d to %d", what, got, leastRequests[what], n)
			}
			delete(requests, what)
		}
		if len(rows)+len(requests) > 0 {
			t.Errorf("pages that nobody read: %v, %v", rows, requests)
		}
		source := `source="` + w.live + `"}`
		if n := series[`docgauge_site_lines_total{result="view",`+source]; n != float64(sum) {
			t.Errorf("%v views by the metric, %d in the facts", n, sum)
		}
		lost, said := pageReads(w.reads)-sum, series["docgauge_site_possibly_lost_total{"+source]
		if lost > 0 && said == 0 || said > 0 && !w.empties || said > float64(w.turns) {
			t.Errorf("%d lines are lost, possibly lost %v times in %d rotations", lost, said, w.turns)
		}
		t.Logf("%d requests, %d files, %d kills: %d lines lost, possibly lost %v times", len(w.reads), len(w.files()),
			kills, lost, said)
	}
	w.run(t, "site", "check")
}

// within reports whether each number of e is at least the number of least and at most the number of most.
func within(e, least, most analytics.Row) bool {
	return e.Human >= least.Human && e.AI >= least.AI && e.Total >= least.Total &&
		e.Human <= most.Human && e.AI <= most.AI && e.Total <= most.Total
}

// asked is what requests are counted by.
type asked struct{ page, agent, audience string }

// countReads counts readers and requests by hand; the readers of the site are under the empty path.
func countReads(all map[int]siteRead) (readers map[string]analytics.Row, requests map[asked]int) {
	readers, requests = map[string]analytics.Row{}, map[asked]int{}
	known := map[[3]string]bool{}
	isNew := func(of ...string) bool {
		of = append(of, "")
		was := known[[3]string(of)]
		known[[3]string(of)] = true
		return !was
	}
	for _, r := range all {
		if r.isAsset {
			continue
		}
		requests[asked{r.page, r.agent, r.audience}]++
		for _, page := range []string{"", r.page} {
			e := readers[page]
			if r.audience != "" && isNew(page, r.reader) { // no user agent has two audiences
				e.Total++
				if e.Human++; r.audience == "ai" {
					e.Human, e.AI = e.Human-1, e.AI+1
				}
			}
			readers[page] = e
		}
	}
	return readers, requests
}

// pageReads returns how many of the requests are for pages.
func pageReads(all map[int]siteRead) (n int) {
	for _, r := range all {
		if !r.isAsset {
			n++
		}
	}
	return n
}

// compareRows compares the rows of the reports agents and sources with those that the requests make.
func (w *watched) compareRows(all map[int]siteRead) {
	confirmed, readers := map[string]bool{}, map[[4]string]map[string]bool{}
	wantAgents, wantSources := map[[4]string]analytics.AgentRow{}, map[[4]string]analytics.SourceRow{}
	for _, r := range all {
		confirmed[r.reader] = confirmed[r.reader] || r.isAsset
	}
	isNew := func(key [4]string, reader string) int64 {
		if readers[key] == nil {
			readers[key] = map[string]bool{}
		}
		was := readers[key][reader]
		if readers[key][reader] = true; was {
			return 0
		}
		return 1
	}
	for _, r := range all {
		if r.isAsset {
			continue
		}
		agent := cmp.Or(r.agent, analytics.UnconfirmedAgent)
		if r.agent == "" && confirmed[r.reader] {
			agent = analytics.BrowserAgent
		}
		for _, page := range []string{"", r.page} {
			key := [4]string{page, agent, cmp.Or(r.audience, "neither")}
			row := wantAgents[key]
			row.Visitors, row.Requests, row.Bytes = row.Visitors+isNew(key, r.reader), row.Requests+1, row.Bytes+r.bytes
			wantAgents[key] = row
			if r.agent == "" {
				key = [4]string{page, agent, "from", r.source}
				row := wantSources[key]
				row.Visitors, row.Requests = row.Visitors+isNew(key, r.reader), row.Requests+1
				wantSources[key] = row
			}
		}
	}
	store, err := facts.Attach(filepath.Join(w.dir, "site"))
	check(w.t, err)
	defer store.Close()
	today := analytics.DateOf(time.Now())
	agents, err := store.CountAgents(w.t.Context(), count.DefaultProject, today-1, today+1, analytics.Claimed)
	check(w.t, err)
	sources, err := store.CountSources(w.t.Context(), count.DefaultProject, today-1, today+1, analytics.Claimed)
	check(w.t, err)
	gotAgents, gotSources := map[[4]string]analytics.AgentRow{}, map[[4]string]analytics.SourceRow{}
	for _, r := range slices.Concat(agents.Totals, agents.Rows) {
		gotAgents[[4]string{r.Path, r.Agent, string(r.Audience)}] = analytics.AgentRow{Visitors: r.Visitors,
			Requests: r.Requests, Markdown: r.Markdown, Bytes: r.Bytes}
	}
	for _, r := range slices.Concat(sources.Totals, sources.Rows) {
		gotSources[[4]string{r.Path, r.Agent, "from", r.Source}] = analytics.SourceRow{Visitors: r.Visitors,
			Requests: r.Requests}
	}
	if diff := gocmp.Diff(wantAgents, gotAgents); diff != "" {
		w.t.Errorf("agents (-want, +got): %.4000s", diff)
	}
	if diff := gocmp.Diff(wantSources, gotSources); diff != "" {
		w.t.Errorf("sources (-want, +got): %.4000s", diff)
	}
}

// requests are those that are kept, and how many they are.
func (w *watched) requests() (requests map[asked]int, sum int) {
	store, err := facts.Attach(filepath.Join(w.dir, "site"))
	check(w.t, err)
	requests = map[asked]int{}
	today := analytics.DateOf(time.Now())
	for day := today - 1; day <= today; day++ {
		n, err := store.Numbering(w.t.Context(), count.DefaultProject, facts.EpochOf(day))
		check(w.t, err)
		check(w.t, store.Facts(w.t.Context(), n, day, false, func(f facts.Fact) error {
			audience := map[uint8]string{facts.Human: "human", facts.AI: "ai"}[f.Kind]
			requests[asked{f.Path, f.Agent, audience}] += int(f.Requests)
			sum += int(f.Requests)
			return nil
		}))
	}
	check(w.t, store.Close())
	return requests, sum
}

// files are the log and those that were rotated from it.
func (w *watched) files() []string {
	all, err := filepath.Glob(strings.TrimSuffix(w.live, ".log") + "*")
	check(w.t, err)
	return all
}

// combined is a line of nginx.
var combined = regexp.MustCompile(`^(\S+) - - \[[^\]]+\] "GET (\S+) HTTP/1.1" 200 (\d+) "[^"]*" "([^"]*)"$`)

// logged are the requests in the logs of the server: each is one that was answered.
func (w *watched) logged() map[int]siteRead {
	t, all := w.t, map[int]siteRead{}
	for _, name := range w.files() {
		text, err := os.ReadFile(name)
		check(t, err)
		if strings.HasSuffix(name, ".gz") {
			z, err := gzip.NewReader(bytes.NewReader(text))
			if err == nil {
				text, err = io.ReadAll(z)
			}
			if _, beside := os.Stat(strings.TrimSuffix(name, ".gz")); err != nil && beside != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for line := range strings.Lines(string(text)) {
			if w.empties && !strings.HasSuffix(line, "\n") {
				continue // the copy was made while the server wrote the line
			}
			var l struct {
				Size    int64
				Request struct {
					Address string `json:"remote_ip"`
					URI     string
					Headers map[string][]string
				}
			}
			if m := combined.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
				l.Request.Address, l.Request.URI, l.Request.Headers = m[1], m[2], map[string][]string{"User-Agent": {m[4]}}
				l.Size, err = strconv.ParseInt(m[3], 10, 64)
				check(t, err)
			} else if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatalf("%s: %.100q: %v", name, line, err)
			}
			page, number, _ := strings.Cut(l.Request.URI, "?n=")
			page = strings.TrimSuffix(strings.TrimSuffix(page, ".html"), ".css")
			n, err := strconv.Atoi(number)
			check(t, err)
			r := w.reads[n]
			if r.page != page || r.bytes != l.Size || r.reader != l.Request.Address+" "+l.Request.Headers["User-Agent"][0] {
				t.Fatalf("%s: %.300q is of %+v", name, line, r)
			}
			all[n] = r
		}
	}
	return all
}
