package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/site/api"
)

// exchange is a client's view of one request over a socket.
type exchange struct {
	Status     int
	RetryAfter string
	Cut        bool
}

// ask sends n requests, each over a new connection.
func ask(t *testing.T, server *httptest.Server, method string, n int, target string) (seen []exchange) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	for range n {
		r, err := http.NewRequest(method, server.URL+target, strings.NewReader(promptBody("x")))
		check(t, err)
		r.Header.Set("Authorization", "Bearer "+DefaultAPIKey)
		r.Header.Set("Content-Type", "application/json")
		resp, err := transport.RoundTrip(r)
		if errors.Is(err, io.EOF) { // closed instead of an answer
			seen = append(seen, exchange{})
			continue
		}
		check(t, err)
		body, err := io.ReadAll(resp.Body)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		resp.Body.Close()
		if err == nil && !json.Valid(body) {
			t.Errorf("body is not JSON: %s", body)
		}
		seen = append(seen, exchange{resp.StatusCode, resp.Header.Get("Retry-After"), err != nil})
	}
	return seen
}

func start(t *testing.T, s *Sandbox) *httptest.Server {
	server := httptest.NewServer(s.service.Handler())
	t.Cleanup(server.Close)
	return server
}

func TestFaults(t *testing.T) {
	ok, limited, broken, cut := exchange{Status: 200}, exchange{Status: 429}, exchange{Status: 500},
		exchange{Status: 200, Cut: true}
	for name, tc := range map[string]struct {
		faults Faults
		want   []exchange
	}{
		"none":        {Faults{}, []exchange{ok, ok, ok}},
		"error every": {Faults{ErrorEvery: 2}, []exchange{ok, broken, ok, broken}},
		"cut every":   {Faults{CutEvery: 3}, []exchange{ok, ok, cut, ok, ok, cut}},
		"throttle":    {Faults{ThrottleAfter: 2}, []exchange{ok, ok, limited, limited}},
		"rate limit": {Faults{RateLimit: 1, RetryAfter: 1500 * time.Millisecond},
			[]exchange{ok, {429, "2", false}, {429, "2", false}}},
		"429 goes first": {Faults{ThrottleAfter: 1, ErrorEvery: 2, CutEvery: 2},
			[]exchange{ok, {429, "", true}, limited}},
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t, newTest(t, Config{Pages: 10, Faults: tc.faults}))
			if diff := cmp.Diff(tc.want, ask(t, server, http.MethodGet, len(tc.want), path)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRateLimitIsASlidingHour(t *testing.T) {
	now := noon
	s := newTest(t, Config{Pages: 10, Projects: []string{DefaultProject, "b"}, Faults: Faults{RateLimit: 3},
		Now: func() time.Time { return now }})
	server := start(t, s)
	var got []int
	at := func(minute int, target string) {
		now = noon.Add(time.Duration(minute) * time.Minute)
		got = append(got, ask(t, server, http.MethodGet, 1, target)[0].Status)
	}
	for _, minute := range []int{0, 20, 40, 59, 60, 61, 80, 99} {
		at(minute, path)
	}
	at(99, "/v1/analytics/b/visitors")
	at(100, "/v1/analytics/b/visitors")
	if diff := cmp.Diff([]int{200, 200, 200, 429, 200, 429, 200, 429, 429, 200}, got); diff != "" {
		t.Error(diff)
	}
}

// A request that never passed authentication is in no count.
func TestRefusedKeysAreNotCounted(t *testing.T) {
	s := newTest(t, Config{Pages: 10, Faults: Faults{ErrorEvery: 2, RateLimit: 2, CutEvery: 7}})
	var got []int
	for _, key := range []string{"sbx_wrong", DefaultAPIKey, "sbx_wrong", DefaultAPIKey, DefaultAPIKey} {
		got = append(got, get(s, path, "Bearer "+key).Code)
	}
	if diff := cmp.Diff([]int{401, 200, 401, 500, 429}, got); diff != "" {
		t.Error(diff)
	}
}

func TestRequestsAreLogged(t *testing.T) {
	var out bytes.Buffer
	s := newTest(t, Config{Pages: 10, RequestLog: slog.NewJSONHandler(&out, nil)})
	server := start(t, s)
	ask(t, server, http.MethodGet, 1, path+"?dateFrom=2026-10-01&dateTo=2026-10-02&limit=250&offset=500")
	ask(t, server, http.MethodGet, 1, path)
	ask(t, server, http.MethodGet, 1, path+"?limit=many")
	ask(t, server, http.MethodGet, 1, "/nowhere")
	request := func(path, project, from, to string, limit, offset, status int) api.Request {
		return api.Request{Time: noon, Method: "GET", Path: path, Project: project, From: from, To: to, Limit: limit,
			Offset: offset, Status: status}
	}
	want := []api.Request{
		request(path, DefaultProject, "2026-10-01", "2026-10-02", 250, 500, 200),
		request(path, DefaultProject, "", "", 50, 0, 200),
		request(path, DefaultProject, "", "", -1, 0, 400),
		request("/nowhere", "", "", "", 0, 0, 404),
	}
	if diff := cmp.Diff(want, s.Requests()); diff != "" {
		t.Error(diff)
	}
	var logged []api.Request
	for d := json.NewDecoder(strings.NewReader(out.String())); d.More(); {
		var r api.Request
		check(t, d.Decode(&r))
		logged = append(logged, r)
	}
	if diff := cmp.Diff(want, logged); diff != "" {
		t.Error(diff)
	}
	for line := range strings.Lines(out.String()) {
		var more struct {
			Duration *float64
			Bytes    int
		}
		if err := json.Unmarshal([]byte(line), &more); err != nil || more.Duration == nil || more.Bytes < 20 {
			t.Errorf("%s: %v", line, err)
		}
	}
	if strings.Contains(out.String(), DefaultAPIKey) {
		t.Error("the key is in the request log")
	}
}

func TestListenStaysOnThisMachine(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0"} {
		ln, err := Listen(address, false)
		if err == nil {
			ln.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "--allow-remote") || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if _, err := Listen("127.0.0.1", false); err == nil || !strings.Contains(err.Error(), "host:port") {
		t.Errorf("no port: %v", err)
	}
	for address, remote := range map[string]bool{"127.0.0.1:0": false, "localhost:0": false, "0.0.0.0:0": true} {
		ln, err := Listen(address, remote)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		ln.Close()
	}
}

// pipes is a listener whose connections stay inside the process, and so inside
// a synctest bubble.
type pipes struct {
	net.Listener // only for its address
	conns        chan net.Conn
	closed       chan struct{}
	closeOnce    sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.closeOnce.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

// serving runs s in a bubble and returns the results of one request and of Serve.
func serving(t *testing.T, s *Sandbox, ctx context.Context, target string) (status chan int, served chan error) {
	ln := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	status, served = make(chan int, 1), make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	go func() {
		transport := &http.Transport{DialContext: ln.dial}
		defer transport.CloseIdleConnections()
		r, _ := http.NewRequest(http.MethodGet, "http://sandbox"+target, nil)
		r.Header.Set("Authorization", "Bearer "+DefaultAPIKey)
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Error(err)
			status <- 0
			return
		}
		resp.Body.Close()
		status <- resp.StatusCode
	}()
	synctest.Wait()
	return status, served
}

func TestLatencyIsExact(t *testing.T) {
	for target, want := range map[string]int{path: http.StatusOK, "/nowhere": http.StatusNotFound} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			begin := time.Now()
			s := newTest(t, Config{Pages: 10, Faults: Faults{Latency: 10 * time.Second}})
			status, served := serving(t, s, ctx, target)
			if got := <-status; got != want || time.Since(begin) != 10*time.Second {
				t.Errorf("%s: status %d after %s", target, got, time.Since(begin))
			}
			stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

// A request in flight when the server stops is answered, its latency cut short.
func TestServeStopsGracefully(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		begin := time.Now()
		status, served := serving(t, newTest(t, Config{Pages: 10, Faults: Faults{Latency: time.Hour}}), ctx, path)
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if got := <-status; got != http.StatusOK || time.Since(begin) > 5*time.Second {
			t.Errorf("status %d after %s", got, time.Since(begin))
		}
	})
}

func TestServeReportsALostListener(t *testing.T) {
	ln, err := Listen("127.0.0.1:0", false)
	check(t, err)
	ln.Close()
	if err := newTest(t, Config{}).Serve(t.Context(), ln); err == nil {
		t.Error("no error")
	}
}
