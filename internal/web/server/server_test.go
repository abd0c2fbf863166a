package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// logged is what a server has logged.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// running is a server that is being served.
type running struct {
	*Server
	log    *logged
	client *http.Client
	stop   context.CancelFunc
	served chan error // closed after the result of Serve
}

// start serves cfg on a free port until the test ends; change may alter the server first.
func start(t *testing.T, cfg Options, change ...func(*Server)) *running {
	t.Helper()
	log := &logged{}
	cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if cfg.Addresses == nil {
		cfg.Addresses = []string{"127.0.0.1:0"}
	}
	s, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableCompression: true}
	r := &running{s, log, &http.Client{Transport: transport, Timeout: patience}, cancel, make(chan error, 1)}
	go func() {
		r.served <- s.Serve(ctx)
		close(r.served)
	}()
	t.Cleanup(func() {
		cancel()
		transport.CloseIdleConnections()
		if err := <-r.served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return r
}

// do sends a request and returns the answer with its whole body.
func (r *running) do(t *testing.T, method, path string, change ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(req)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// says is a handler that answers with a text.
func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
		time.Sleep(time.Millisecond)
	}
}

// wait waits for a channel to be closed or to have a value.
func wait[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s: not within %s", what, patience)
	}
	return v
}

func TestRoutes(t *testing.T) {
	r := start(t, Options{Handlers: map[string]http.Handler{"/metrics": says("metrics"), "/": says("page"), "POST /mcp": says("answer")}})
	for _, tc := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/", 200, "page"},
		{"GET", "/metrics", 200, "metrics"},
		{"GET", "/metrics?x=1", 200, "metrics"},
		{"GET", "/healthz", 200, "ok\n"},
		{"GET", "/readyz", 200, "ready\n"},
		{"GET", "/-/healthy", 200, "ok\n"},
		{"GET", "/-/ready", 200, "ready\n"},
		{"POST", "/mcp", 200, "answer"},
		{"HEAD", "/", 200, ""},
		{"HEAD", "/metrics", 200, ""},
		{"HEAD", "/healthz", 200, ""},
		{"HEAD", "/readyz", 200, ""},
		{"POST", "/metrics", 405, "Method Not Allowed\n"},
		{"DELETE", "/", 405, "Method Not Allowed\n"},
		{"PUT", "/healthz", 405, "Method Not Allowed\n"},
		{"OPTIONS", "/readyz", 405, "Method Not Allowed\n"},
		{"GET", "/metrics/", 404, "404 page not found\n"},
		{"GET", "/favicon.ico", 404, "404 page not found\n"},
		{"GET", "/debug/pprof/", 404, "404 page not found\n"},
		{"POST", "/nothing", 404, "404 page not found\n"},
	} {
		resp, body := r.do(t, tc.method, tc.path)
		if resp.StatusCode != tc.code || body != tc.body {
			t.Errorf("%s %s: %d %q, want %d %q", tc.method, tc.path, resp.StatusCode, body, tc.code, tc.body)
		}
		if tc.code == 405 && resp.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s allows %q", tc.method, tc.path, resp.Header.Get("Allow"))
		}
		wantHeaders(t, tc.method+" "+tc.path, resp)
	}
}

func wantHeaders(t *testing.T, what string, resp *http.Response) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "no-referrer",
		"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":                "no-store",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %s is %q, want %q", what, name, got, want)
		}
	}
	if got := resp.Header.Get("Server"); got != "" {
		t.Errorf("%s: names its software: %q", what, got)
	}
}

func TestHandlerSetsItsOwnPolicy(t *testing.T) {
	const policy = "default-src 'none'; style-src 'self'"
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Security-Policy", policy) })
	r := start(t, Options{Handlers: map[string]http.Handler{"/": page}})
	resp, _ := r.do(t, "GET", "/")
	if got := resp.Header.Values("Content-Security-Policy"); len(got) != 1 || got[0] != policy {
		t.Errorf("policy is %q, want %q alone", got, policy)
	}
}

func TestReadySaysWhyNot(t *testing.T) {
	var mu sync.Mutex
	reasons := []string{"<b>last run 3h ago", "sink clickhouse:\nconnection  refused"}
	r := start(t, Options{Ready: func() []string {
		mu.Lock()
		defer mu.Unlock()
		return reasons
	}})
	resp, body := r.do(t, "GET", "/readyz")
	if want := "<b>last run 3h ago\nsink clickhouse: connection refused\n"; resp.StatusCode != http.StatusServiceUnavailable || body != want {
		t.Errorf("%d %q, want 503 %q", resp.StatusCode, body, want)
	}
	if got := resp.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
		t.Errorf("type is %q", got)
	}
	if resp, body := r.do(t, "HEAD", "/readyz"); resp.StatusCode != http.StatusServiceUnavailable || body != "" {
		t.Errorf("HEAD: %d %q, want 503 without a body", resp.StatusCode, body)
	}
	if resp, _ := r.do(t, "GET", "/healthz"); resp.StatusCode != http.StatusOK {
		t.Errorf("/healthz is %d when not ready, want 200: it is about the process alone", resp.StatusCode)
	}
	mu.Lock()
	reasons = nil
	mu.Unlock()
	if resp, body := r.do(t, "GET", "/readyz"); resp.StatusCode != http.StatusOK || body != "ready\n" {
		t.Errorf("%d %q, want 200 ready", resp.StatusCode, body)
	}
}

func TestParallelRequests(t *testing.T) {
	const clients = 40
	var together sync.WaitGroup // every request is in flight before any is answered
	together.Add(clients)
	r := start(t, Options{Handlers: map[string]http.Handler{"/metrics": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		together.Done()
		together.Wait()
		_, _ = io.WriteString(w, "metrics")
	})}})
	errs := make(chan error, clients)
	for range clients {
		go func() {
			resp, err := r.client.Get(r.URL() + "/metrics")
			if err != nil {
				errs <- err
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if string(body) != "metrics" {
				err = fmt.Errorf("got %d %q, %w", resp.StatusCode, body, err)
			}
			errs <- err
		}()
	}
	for range clients {
		if err := wait(t, "an answer", errs); err != nil {
			t.Error(err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:9817": "", "localhost:0": "", ":0": "", "[::1]:65535": "", "0.0.0.0:80": "",
		"": "want host:port", "9817": "want host:port", "127.0.0.1": "want host:port", "127.0.0.1:": "want host:port",
		"127.0.0.1:65536": "want host:port", "127.0.0.1:http": "want host:port", "::1:9817": "want host:port",
		"http://127.0.0.1:9817": "want host:port", "127.0.0.1:-1": "want host:port",
	} {
		err := Check(Options{Addresses: []string{address}})
		if want == "" && err != nil || want != "" && !isConfig(err, "DOCGAUGE_LISTEN_ADDRESS", want, "127.0.0.1:9817") {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
	}
}

// isConfig reports whether err is a ConfigError that says all of want.
func isConfig(err error, want ...string) bool {
	if _, ok := errors.AsType[ConfigError](err); !ok {
		return false
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			return false
		}
	}
	return true
}

func TestCheckFindsEverything(t *testing.T) {
	err := Check(Options{Addresses: []string{"nowhere"}, WebConfigFile: "/does/not/exist.yml"})
	if !isConfig(err, "DOCGAUGE_LISTEN_ADDRESS", "DOCGAUGE_WEB_CONFIG_FILE") {
		t.Errorf("%v, want both variables", err)
	}
}

func TestPortTaken(t *testing.T) {
	first := start(t, Options{})
	address := first.listeners[0].Addr().String()
	_, err := Listen(Options{Addresses: []string{address}})
	if !errors.Is(err, syscall.EADDRINUSE) || isConfig(err) {
		t.Fatalf("%v, want an error of the machine, address in use", err)
	}
	for _, want := range []string{"DOCGAUGE_LISTEN_ADDRESS " + address, "stop it, or set another port"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestAddressOfAnotherMachine(t *testing.T) {
	_, err := Listen(Options{Addresses: []string{"192.0.2.1:0"}}) // RFC 5737: nobody has it
	if err == nil || isConfig(err) || !strings.Contains(err.Error(), "must be an address of this machine") {
		t.Errorf("%v, want an error of the machine", err)
	}
}

// TestSeveralAddresses: all of them are served until the stop; if one cannot be had, none
// is kept.
func TestSeveralAddresses(t *testing.T) {
	r := start(t, Options{Addresses: []string{"127.0.0.1:0", "[::1]:0", "127.0.0.1:0"}})
	for _, l := range r.listeners {
		resp, err := r.client.Get(r.urlOf(l) + "/-/healthy")
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", r.urlOf(l), resp.StatusCode)
		}
	}
	if n := strings.Count(r.log.String(), "msg=listening"); n != 3 {
		t.Errorf("%d addresses are in the log\n%s", n, r.log)
	}
	free, taken := "127.0.0.1:0", r.listeners[2].Addr().String()
	if _, err := Listen(Options{Addresses: []string{free, taken}}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v, want address in use", err)
	}
	r.stop()
	if err := wait(t, "Serve", r.served); err != nil {
		t.Error(err)
	}
	for _, l := range r.listeners {
		if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
			t.Errorf("%s is still open", l.Addr())
			conn.Close()
		}
	}
}

// TestReload: by POST and PUT alone, by nobody where it is not enabled, and not by a page of
// another site.
func TestReload(t *testing.T) {
	var calls int
	var problem error
	r := start(t, Options{Reload: func(context.Context) error { calls++; return problem }})
	foreign := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	for _, tc := range []struct {
		method      string
		problem     error
		change      func(*http.Request)
		code, calls int
		body        string
	}{
		{"GET", nil, nil, 405, 0, "Method Not Allowed\n"},
		{"HEAD", nil, nil, 405, 0, ""},
		{"POST", nil, nil, 200, 1, "reloaded\n"},
		{"PUT", nil, nil, 200, 1, "reloaded\n"},
		{"POST", errors.New("configuration:\n  one\n  two"), nil, 500, 1, "configuration:\none\ntwo\n"},
		{"POST", nil, foreign, 403, 0, "cross-origin request detected from Sec-Fetch-Site header\n"},
	} {
		calls, problem = 0, tc.problem
		if tc.change == nil {
			tc.change = func(*http.Request) {}
		}
		resp, body := r.do(t, tc.method, "/-/reload", tc.change)
		if resp.StatusCode != tc.code || body != tc.body || calls != tc.calls {
			t.Errorf("%s: %d %q after %d calls, want %d %q after %d", tc.method, resp.StatusCode, body, calls, tc.code, tc.body, tc.calls)
		}
		if tc.code == 405 && resp.Header.Get("Allow") != "POST, PUT" {
			t.Errorf("%s allows %q", tc.method, resp.Header.Get("Allow"))
		}
		wantHeaders(t, tc.method, resp)
	}
	off := start(t, Options{})
	if resp, body := off.do(t, "POST", "/-/reload"); resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "--web.enable-lifecycle") {
		t.Errorf("not enabled: %d %q", resp.StatusCode, body)
	}
}

// TestHosts: pages, API and requests that change something answer under our names alone, and
// the latter to pages of ours alone; metrics and probes answer under every name.
func TestHosts(t *testing.T) {
	r := start(t, Options{
		AllowedHosts: []string{"docs.example", "docgauge"}, Reload: func(context.Context) error { return nil },
		Handlers: map[string]http.Handler{
			"/": says("page"), "/api/v1/windows": says("page"), "POST /mcp": says("page"), "/metrics": says("metrics"),
		},
	})
	address := strings.TrimPrefix(r.URL(), "http://")
	for _, tc := range []struct {
		method, paths, host string
		origins             []string
		code                int
		want                string
	}{
		{"GET", "/ /api/v1/windows", address, nil, 200, ""},
		{"GET", "/ /api/v1/windows", "[::1]:9817", nil, 200, ""},
		{"GET", "/ /api/v1/windows", "192.0.2.7", nil, 200, ""},
		{"GET", "/ /api/v1/windows", "localhost:1", nil, 200, ""},
		{"GET", "/ /api/v1/windows", "a.localhost", nil, 200, ""},
		{"GET", "/ /api/v1/windows", "Docs.Example:443", nil, 200, ""},
		{"GET", "/ /api/v1/windows", "docgauge.", nil, 200, ""},
		{"GET", "/ /api/v1/windows", "evil.example:9817", nil, 421, `Host "evil.example:9817": `},
		{"GET", "/ /api/v1/windows", "localhost.evil.example", nil, 421, "DOCGAUGE_ALLOWED_HOSTS"},
		{"HEAD", "/", "evil.example", nil, 421, ""},
		{"GET", "/", address, []string{"https://evil.example"}, 200, ""},
		{"GET", "/metrics /healthz /readyz /-/healthy /-/ready", "evil.example", nil, 200, ""},
		{"POST", "/mcp /-/reload", "evil.example:9817", []string{"http://evil.example:9817"}, 421, "DOCGAUGE_ALLOWED_HOSTS"},
		{"POST", "/mcp /-/reload", address, nil, 200, ""},
		{"POST", "/mcp /-/reload", address, []string{"http://" + address}, 200, ""},
		{"POST", "/mcp /-/reload", "docs.example", []string{"https://docs.example"}, 200, ""},
		{"POST", "/mcp", address, []string{"http://localhost:6274"}, 200, ""},
		{"POST", "/mcp", "docgauge:9817", []string{"https://docs.example"}, 200, ""}, // behind a proxy
		{"POST", "/mcp /-/reload", address, []string{"https://evil.example"}, 403, `Origin "https://evil.example": `},
		{"POST", "/mcp /-/reload", address, []string{"http://192.0.2.8"}, 403, "another site"},
		{"POST", "/mcp /-/reload", "docs.example", []string{"https://docs.example.evil"}, 403, "another site"},
		{"POST", "/mcp /-/reload", address, []string{"null"}, 403, "another site"},
		{"POST", "/mcp /-/reload", address, []string{"http://localhost", "https://evil.example"}, 403, "another site"},
	} {
		for _, path := range strings.Fields(tc.paths) {
			resp, body := r.do(t, tc.method, path, func(r *http.Request) { r.Host, r.Header["Origin"] = tc.host, tc.origins })
			if resp.StatusCode != tc.code || !strings.Contains(body, tc.want) {
				t.Errorf("%s %s of %s by %v: %d %s, want %d", tc.method, path, tc.host, tc.origins, resp.StatusCode, body, tc.code)
			}
		}
	}
}

func TestURLIsReachable(t *testing.T) {
	for address, host := range map[string]string{":0": "127.0.0.1", "0.0.0.0:0": "127.0.0.1", "127.0.0.1:0": "127.0.0.1"} {
		r := start(t, Options{Addresses: []string{address}})
		if resp, _ := r.do(t, "GET", "/healthz"); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", r.URL(), resp.StatusCode)
		}
		if want := fmt.Sprintf("http://%s:%d", host, r.listeners[0].Addr().(*net.TCPAddr).Port); r.URL() != want {
			t.Errorf("URL of %s is %s, want %s", address, r.URL(), want)
		}
		if got, want := strings.Contains(r.log.String(), "level=WARN"), host != strings.TrimSuffix(address, ":0"); got != want {
			t.Errorf("listening on %s warns of an open server: %v, want %v\n%s", address, got, want, r.log)
		}
	}
}
