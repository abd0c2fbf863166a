package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/ingest"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// pushSite is a site to which hosts push, and that is stopped and started again.
type pushSite struct {
	t         *testing.T
	dir       string
	now       atomic.Int64 // Unix seconds
	key       string
	store     *facts.Store
	collector *Collector
	handler   http.Handler
	log       lockedBuffer
	stop      func()
}

// lockedBuffer is a log.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func newPushSite(t *testing.T) *pushSite {
	p := &pushSite{t: t, dir: t.TempDir()}
	p.now.Store(time.Date(2026, 10, 20, 12, 0, 0, 0, time.UTC).Unix())
	p.start()
	_, secret, err := p.store.AddAPIKey(t.Context(), "prj_site", "ingest", "", p.clock())
	p.ok(err)
	p.key = secret
	t.Cleanup(func() { p.stop() })
	return p
}

func (p *pushSite) clock() time.Time { return time.Unix(p.now.Load(), 0) }

func (p *pushSite) ok(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *pushSite) start() {
	var err error
	p.store, err = facts.Open(filepath.Join(p.dir, "site"))
	p.ok(err)
	sources, err := logs.ParseSources("http:edge,http:other")
	p.ok(err)
	rules := rulesOf(p.t, count.Settings{})
	p.collector = NewCollector(rules, sources, p.store, CollectOptions{Now: p.clock, Every: time.Hour,
		Logger: slog.New(slog.NewTextHandler(&p.log, nil))})
	p.handler = ingest.NewHandler(ingest.Options{Sources: sources, Projects: rules.Projects(sources),
		Logger: p.collector.Logger, Take: p.collector.Take,
		FindKey: func(ctx context.Context, digest [32]byte) (ingest.Credential, bool, error) {
			k, found, err := p.store.FindAPIKey(ctx, digest)
			return ingest.Credential{Scope: k.Scope, Project: k.Project, Source: k.Source}, found, err
		}})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.ok(p.collector.Run(ctx)) })
	p.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		p.ok(p.store.Close())
	})
}

// restart is a stop and a start.
func (p *pushSite) restart() {
	p.stop()
	p.start()
}

// push sends a body to a source.
func (p *pushSite) push(source, body string) (status int, taken ingest.Taken) {
	r := httptest.NewRequest(http.MethodPost, ingest.Prefix+source, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+p.key)
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		p.t.Error("503 without Retry-After")
	}
	_ = json.Unmarshal(w.Body.Bytes(), &taken) // a refusal has none of it
	return w.Code, taken
}

// wants fails unless a body is taken, with these numbers, and the site then has these requests of pages.
func (p *pushSite) wants(name, source, body string, want ingest.Taken, requests map[string]int64) {
	p.t.Helper()
	status, taken := p.push(source, body)
	if status != http.StatusOK || taken != want {
		p.t.Errorf("%s: %d %+v, want %+v", name, status, taken, want)
	}
	if diff := gocmp.Diff(requests, p.requests()); diff != "" {
		p.t.Errorf("%s (-want, +got): %s", name, diff)
	}
}

// requests are the requests of each page on the last days.
func (p *pushSite) requests() map[string]int64 {
	p.t.Helper()
	all := map[string]int64{}
	today := analytics.DateOf(p.clock())
	for day := today - 3; day <= today; day++ {
		n, err := p.store.Numbering(p.t.Context(), count.DefaultProject, facts.EpochOf(day))
		p.ok(err)
		p.ok(p.store.Facts(p.t.Context(), n, day, false, func(f facts.Fact) error {
			all[f.Path] += int64(f.Requests)
			return nil
		}))
	}
	return all
}

// netlify is a line without an id, vercel and logpush have one.
func (p *pushSite) netlify(path string) string {
	return fmt.Sprintf(`{"client_ip":"192.0.2.1","log_type":"traffic","method":"GET","status_code":200,"timestamp":%d,`+
		`"url":"https://docs.example.com%s","user_agent":%q}`+"\n", p.now.Load()*1000, path, firefox)
}

func (p *pushSite) vercel(id, path string) string {
	return fmt.Sprintf(`{"id":"l","deploymentId":"dpl","source":"static","requestId":%q,"proxy":{"timestamp":%d,`+
		`"method":"GET","host":"docs.example.com","path":%q,"userAgent":[%q],"clientIp":"192.0.2.1",`+
		`"statusCode":200}}`+"\n", id,
		p.now.Load()*1000, path, firefox)
}

func (p *pushSite) logpush(id, path string) string {
	return fmt.Sprintf(`{"RayID":%q,"ClientIP":"192.0.2.1","ClientRequestHost":"docs.example.com",`+
		`"ClientRequestMethod":"GET","ClientRequestURI":%q,"ClientRequestUserAgent":%q,`+
		`"ClientRequestSource":"eyeball","EdgeResponseStatus":200,`+
		`"EdgeStartTimestamp":%d}`+"\n", id, path, firefox, p.now.Load()*1e9)
}

// TestPushed: what is pushed counts once, however it is sent again, also after a restart.
func TestPushed(t *testing.T) {
	p := newPushSite(t)
	one := p.netlify("/a") + p.netlify("/b") + "what is this?\n" + p.netlify("/logo.png")
	p.wants("a body", "edge", one, ingest.Taken{Lines: 4, Views: 2, Unparsed: 1}, map[string]int64{"/a": 1, "/b": 1})
	again, same := ingest.Taken{Again: true}, map[string]int64{"/a": 1, "/b": 1}
	p.wants("the same body", "edge", one, again, same)
	p.restart()
	p.wants("the same body after a restart", "edge", one, again, same)
	p.wants("the same body to another source", "other", one, ingest.Taken{Lines: 4, Views: 2, Unparsed: 1},
		map[string]int64{"/a": 2, "/b": 2})
	p.wants("overlapping bodies without ids", "edge", p.netlify("/a"), ingest.Taken{Lines: 1, Views: 1},
		map[string]int64{"/a": 3, "/b": 2})
	p.wants("several lines of one request", "edge", p.vercel("r1", "/v")+p.vercel("r1", "/v")+p.vercel("r2", "/v"),
		ingest.Taken{Lines: 3, Views: 2}, map[string]int64{"/a": 3, "/b": 2, "/v": 2})
	p.restart()
	p.wants("overlapping bodies with ids", "edge", p.vercel("r2", "/v")+p.vercel("r3", "/v"),
		ingest.Taken{Lines: 2, Views: 1}, map[string]int64{"/a": 3, "/b": 2, "/v": 3})
	p.wants("ids of Logpush", "edge", "["+strings.Join([]string{p.logpush("8a", "/c"), p.logpush("8b", "/c"),
		p.logpush("8a", "/c")}, ",")+"]", ingest.Taken{Lines: 3, Views: 2},
		map[string]int64{"/a": 3, "/b": 2, "/v": 3, "/c": 2})
	p.wants("nothing", "edge", "[]", ingest.Taken{}, map[string]int64{"/a": 3, "/b": 2, "/v": 3, "/c": 2})
	if text := p.log.String(); strings.Contains(text, "what is this") || !strings.Contains(text, `lengths="13 bytes"`) {
		t.Error(text)
	}
	known := p.collector.idsKnown.Load()
	if want := int64(3 + 3 + 2); known != want { // bodies and requests: none of bodies all of whose lines have one
		t.Errorf("%d ids, want %d", known, want)
	}
}

// TestPushedTogether: the requests of a moment are one commit, and a body that several have counts once for each source.
func TestPushedTogether(t *testing.T) {
	p := newPushSite(t)
	body := p.netlify("/a") + p.vercel("r1", "/v")
	var sending sync.WaitGroup
	var counted atomic.Int64
	for i := range 50 {
		sending.Go(func() {
			if status, taken := p.push([]string{"edge", "other"}[i%2], body); status != http.StatusOK {
				t.Errorf("status %d", status)
			} else if !taken.Again {
				counted.Add(1)
			}
		})
	}
	sending.Wait()
	if diff := gocmp.Diff(map[string]int64{"/a": 2, "/v": 2}, p.requests()); diff != "" || counted.Load() != 2 {
		t.Errorf("counted %d times (-want, +got): %s", counted.Load(), diff)
	}
}

// TestPushFails: what cannot be kept is 503, and counts once when it is sent again.
func TestPushFails(t *testing.T) {
	p := newPushSite(t)
	folder := filepath.Join(p.dir, "site", "facts")
	p.ok(os.RemoveAll(folder))
	body := p.netlify("/a") + p.vercel("r1", "/v")
	for range 2 {
		if status, _ := p.push("edge", body); status != http.StatusServiceUnavailable {
			t.Errorf("status %d", status)
		}
	}
	p.ok(os.Mkdir(folder, 0o700))
	p.restart()
	p.wants("sent again", "edge", body, ingest.Taken{Lines: 2, Views: 2}, map[string]int64{"/a": 1, "/v": 1})
	p.stop()
	if status, _ := p.push("edge", p.netlify("/late")); status != http.StatusServiceUnavailable {
		t.Errorf("after the stop: status %d", status)
	}
}

// TestPushedForgotten: ids are forgotten after a day, in memory and on the disk, and the oldest of too many before.
func TestPushedForgotten(t *testing.T) {
	p := newPushSite(t)
	p.wants("another body", "edge", p.netlify("/b"), ingest.Taken{Lines: 1, Views: 1}, map[string]int64{"/b": 1})
	var old []byte
	p.ok(p.store.EachPushed(t.Context(), func(some facts.Pushed) {
		old = binary.LittleEndian.AppendUint64(old, some.IDs[0])
	}))
	body := p.netlify("/a")
	p.wants("a body", "edge", body, ingest.Taken{Lines: 1, Views: 1}, map[string]int64{"/a": 1, "/b": 1})
	p.now.Add(int64(rememberPushed/time.Second) - 1)
	p.wants("within a day", "edge", body, ingest.Taken{Again: true}, map[string]int64{"/a": 1, "/b": 1})
	p.now.Add(1)
	p.wants("after a day", "edge", body, ingest.Taken{Lines: 1, Views: 1}, map[string]int64{"/a": 2, "/b": 1})
	p.now.Add(60)
	p.wants("a minute later", "edge", body, ingest.Taken{Again: true}, map[string]int64{"/a": 2, "/b": 1})
	for _, name := range []string{"site.db", "site.db-wal"} {
		if text, err := os.ReadFile(filepath.Join(p.dir, "site", name)); err != nil || bytes.Contains(text, old) {
			t.Errorf("%s has an id that is forgotten, %v", name, err)
		}
	}
	ids := 0
	p.ok(p.store.EachPushed(t.Context(), func(some facts.Pushed) { ids += len(some.IDs) }))
	if ids != 1 || p.collector.idsKnown.Load() != 1 {
		t.Errorf("%d ids are durable, %d known", ids, p.collector.idsKnown.Load())
	}
	var total, dropped atomic.Int64
	all := &pushedIDs{known: map[uint64]int64{}, total: &total, dropped: &dropped}
	for id := range uint64(maxPushed + 2) {
		if id%4096 == 0 {
			all.rotate(p.clock(), true)
		}
		all.add(id)
	}
	all.rotate(p.clock(), true)
	all.kept()
	if total.Load() > maxPushed || all.has(0) || !all.has(generationSize) || dropped.Load() != generationSize {
		t.Errorf("%d ids, %d dropped", total.Load(), dropped.Load())
	}
}

// TestPushLacks: answers about days that end more than a day after the newest line, or empty body, are 503.
func TestPushLacks(t *testing.T) {
	p := newPushSite(t)
	today := analytics.DateOf(p.clock())
	lacks := func(name string, to analytics.Date, want bool) {
		t.Helper()
		if err := p.collector.Lacks(count.DefaultProject, to); (err != nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	both := func(body string) {
		for _, source := range []string{"edge", "other"} {
			if status, _ := p.push(source, body); status != http.StatusOK {
				t.Fatalf("status %d", status)
			}
		}
	}
	lacks("before the first line", today, true)
	both(p.netlify("/a"))
	lacks("yesterday", today, false)
	lacks("today", today+1, false)
	p.now.Add(24 * 3600)
	lacks("a day later, yesterday", today+1, false)
	p.now.Add(24 * 3600)
	lacks("two days later, the day of the line", today+1, false)
	lacks("two days later, the day after it", today+2, true)
	lacks("two days later, today", today+3, true)
	both("")
	lacks("after an empty body", today+3, false)
}

// TestPushedWhileReading: bodies do not wait for the end of a poll, and say nothing of the clock.
func TestPushedWhileReading(t *testing.T) {
	p := newPushSite(t)
	p.stop()
	var err error
	p.store, err = facts.Open(filepath.Join(p.dir, "site"))
	p.ok(err)
	defer func() { p.ok(p.store.Close()) }()
	path := filepath.Join(p.dir, "access.log")
	p.ok(os.WriteFile(path, []byte("192.0.2.1 - - [01/Oct/2026:12:00:00 +0000] \"GET /old HTTP/1.1\" 200 5 \"-\" "+
		"\"Mozilla/5.0\"\n"), 0o600))
	sources, err := logs.ParseSources("prj_pushed=http:edge,prj_file=" + path)
	p.ok(err)
	c := NewCollector(rulesOf(t, count.Settings{}), sources, p.store, CollectOptions{Now: p.clock,
		Logger: slog.New(slog.DiscardHandler)})
	p.handler = ingest.NewHandler(ingest.Options{Sources: sources, Logger: c.Logger, Take: c.Take,
		FindKey: func(context.Context, [32]byte) (ingest.Credential, bool, error) {
			return ingest.Credential{Scope: "ingest", Project: "prj_pushed"}, true, nil
		}})
	s, err := c.newSession(t.Context())
	p.ok(err)
	defer s.follower.Close()
	status := make(chan int, 1)
	go func() {
		code, _ := p.push("edge", p.netlify("/a"))
		status <- code
	}()
	for len(c.pushes) == 0 {
		runtime.Gosched()
	}
	p.ok(s.poll(t.Context()))
	if len(c.pushes) > 0 {
		t.Fatal("the body still waits")
	}
	if code := <-status; code != http.StatusOK {
		t.Errorf("status %d", code)
	}
	p.ok(s.tidy(t.Context()))
	today := analytics.DateOf(p.clock())
	days, err := p.store.FactDays(t.Context(), today, today+1, nil)
	p.ok(err)
	ofFiles, err := p.store.FactDays(t.Context(), today, today+1, s.pushedProjects())
	p.ok(err)
	if len(days) != 1 || len(ofFiles) != 0 || s.isConfirmed(p.clock()) {
		t.Errorf("facts of %v, of files %v; confirmed: %t", days, ofFiles, s.isConfirmed(p.clock()))
	}
}
