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
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for an expected event.
const patience = time.Minute

// logged collects the log of a server.
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
	must(t, err)
	for _, f := range change {
		f(s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableCompression: true,
	}
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
	must(t, err)
	for _, f := range change {
		f(req)
	}
	resp, err := r.client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp, string(body)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// says is a handler that answers with a text.
func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// at is the options of a server with one handler.
func at(path string, h http.Handler) Options {
	return Options{Handlers: map[string]http.Handler{path: h}}
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
	r := start(t, Options{Handlers: map[string]http.Handler{
		"/metrics": says("metrics"), "/": says("page"), "POST /mcp": says("answer"),
	}})
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

// TestOtherHeaders: a handler and the web configuration replace a header of ours.
func TestOtherHeaders(t *testing.T) {
	const policy = "default-src 'none'; style-src 'self'"
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
	})
	file := webConfig(t, "http_server_config:\n  headers:\n    X-Frame-Options: sameorigin\n")
	r := start(t, Options{WebConfigFile: file, Handlers: map[string]http.Handler{"/": page}})
	resp, _ := r.do(t, "GET", "/")
	for name, want := range map[string]string{"Content-Security-Policy": policy, "X-Frame-Options": "sameorigin"} {
		if got := resp.Header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q alone", name, got, want)
		}
	}
}

func TestReadySaysWhyNot(t *testing.T) {
	var reasons atomic.Pointer[[]string]
	reasons.Store(&[]string{"<b>last run 3h ago", "sink clickhouse:\nconnection  refused"})
	r := start(t, Options{Ready: func() []string { return *reasons.Load() }})
	resp, body := r.do(t, "GET", "/readyz")
	if body != "<b>last run 3h ago\nsink clickhouse: connection refused\n" ||
		resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%d %q", resp.StatusCode, body)
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
	reasons.Store(new([]string))
	if resp, body := r.do(t, "GET", "/readyz"); resp.StatusCode != http.StatusOK || body != "ready\n" {
		t.Errorf("%d %q, want 200 ready", resp.StatusCode, body)
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
		good := err == nil
		if want != "" {
			good = isConfig(err, "DOCGAUGE_LISTEN_ADDRESS", want, "127.0.0.1:9817")
		}
		if !good {
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

// TestAddressesThatCannotBeBound: the machine's error names the address and the remedy.
func TestAddressesThatCannotBeBound(t *testing.T) {
	taken := start(t, Options{}).listeners[0].Addr().String()
	for address, remedy := range map[string]string{
		taken:         "address already in use: another process has the port; stop it, or set another port",
		"192.0.2.1:0": "must be an address of this machine", // RFC 5737: no machine has it
	} {
		_, err := Listen(Options{Addresses: []string{address}})
		if err == nil || isConfig(err) || !strings.Contains(err.Error(), "DOCGAUGE_LISTEN_ADDRESS "+address) ||
			!strings.Contains(err.Error(), remedy) {
			t.Errorf("%v, want an error of the machine: %s", err, remedy)
		}
	}
}

// TestSeveralAddresses: all of them are served until the stop; if one cannot be bound, none is.
func TestSeveralAddresses(t *testing.T) {
	r := start(t, Options{Addresses: []string{"127.0.0.1:0", "[::1]:0", "127.0.0.1:0"}})
	for _, l := range r.listeners {
		resp, err := r.client.Get(r.urlOf(l) + "/-/healthy")
		must(t, err)
		if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", r.urlOf(l), resp.StatusCode)
		}
	}
	if n := strings.Count(r.log.String(), "msg=listening"); n != 3 {
		t.Errorf("%d addresses are in the log\n%s", n, r.log)
	}
	_, err := Listen(Options{Addresses: []string{"127.0.0.1:0", r.listeners[2].Addr().String()}})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v, want address in use", err)
	}
	r.stop()
	must(t, wait(t, "Serve", r.served))
	for _, l := range r.listeners {
		if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
			t.Errorf("%s is still open", l.Addr())
			conn.Close()
		}
	}
}

// TestReload: by POST and PUT alone, not where it is not enabled, and not by a page of another site.
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
			t.Errorf("%s: %d %q after %d calls, want %d %q after %d",
				tc.method, resp.StatusCode, body, calls, tc.code, tc.body, tc.calls)
		}
		if tc.code == 405 && resp.Header.Get("Allow") != "POST, PUT" {
			t.Errorf("%s allows %q", tc.method, resp.Header.Get("Allow"))
		}
		wantHeaders(t, tc.method, resp)
	}
	off := start(t, Options{})
	resp, body := off.do(t, "POST", "/-/reload")
	if resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "--web.enable-lifecycle") {
		t.Errorf("not enabled: %d %q", resp.StatusCode, body)
	}
}

// TestHosts: pages, API and requests that change something answer under our names alone, and
// the latter to pages of ours alone; metrics and probes answer under every name.
func TestHosts(t *testing.T) {
	r := start(t, Options{
		AllowedHosts: []string{"docs.example", "docgauge"}, Reload: func(context.Context) error { return nil },
		Handlers: map[string]http.Handler{
			"/": says("page"), "/page": says("page"), "/api/v1/windows": says("page"),
			"/api/v1/": says("list"), "POST /mcp": says("page"), "/metrics": says("metrics"),
		},
	})
	address := strings.TrimPrefix(r.URL(), "http://")
	for _, tc := range []struct {
		method, paths, host string
		origins             []string
		code                int
		want                string
	}{
		{"GET", "/ /page /api/v1/windows /api/v1/", address, nil, 200, ""},
		{"GET", "/ /page /api/v1/windows /api/v1/", "[::1]:9817", nil, 200, ""},
		{"GET", "/ /page /api/v1/windows /api/v1/", "192.0.2.7", nil, 200, ""},
		{"GET", "/ /page /api/v1/windows /api/v1/", "localhost:1", nil, 200, ""},
		{"GET", "/ /page /api/v1/windows /api/v1/", "a.localhost", nil, 200, ""},
		{"GET", "/ /page /api/v1/windows /api/v1/", "Docs.Example:443", nil, 200, ""},
		{"GET", "/ /page /api/v1/windows /api/v1/", "docgauge.", nil, 200, ""},
		{"GET", "/ /page", "evil.example:9817", nil, 421, `Host "evil.example:9817": `},
		{"GET", "/api/v1/windows /api/v1/ /api/v1/no", "evil.example:9817", nil, 421,
			`{"error":"Host \"evil.example:9817\": `},
		{"GET", "/api/v1/no", address, nil, 200, "list"},
		{"POST", "/api/v1/ /api/v1/no /api/v1/windows", address, nil, 200, "list"}, // which refuses it
		{"POST", "/page", address, nil, 405, ""},
		{"POST", "/api/v1/", address, []string{"https://evil.example"}, 403, "another site"},
		{"GET", "/ /page /api/v1/windows /api/v1/", "localhost.evil.example", nil, 421, "DOCGAUGE_ALLOWED_HOSTS"},
		{"HEAD", "/", "evil.example", nil, 421, ""},
		{"GET", "/", address, []string{"https://evil.example"}, 200, ""},
		{"GET", "/metrics /healthz /readyz /-/healthy /-/ready", "evil.example", nil, 200, ""},
		{"POST", "/mcp /-/reload", "evil.example", []string{"http://evil.example"}, 421, "DOCGAUGE_ALLOWED_HOSTS"},
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
			resp, body := r.do(t, tc.method, path, func(r *http.Request) {
				r.Host, r.Header["Origin"] = tc.host, tc.origins
			})
			if resp.StatusCode != tc.code || !strings.Contains(body, tc.want) {
				t.Errorf("%s %s of %s by %v: %d %s, want %d",
					tc.method, path, tc.host, tc.origins, resp.StatusCode, body, tc.code)
			}
		}
	}
}

func TestURLIsReachable(t *testing.T) {
	const host = "127.0.0.1"
	for _, address := range []string{":0", "0.0.0.0:0", "127.0.0.1:0"} {
		r := start(t, Options{Addresses: []string{address}})
		if resp, _ := r.do(t, "GET", "/healthz"); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", r.URL(), resp.StatusCode)
		}
		if want := fmt.Sprintf("http://%s:%d", host, r.listeners[0].Addr().(*net.TCPAddr).Port); r.URL() != want {
			t.Errorf("URL of %s is %s, want %s", address, r.URL(), want)
		}
		want := address != "127.0.0.1:0"
		if got := strings.Contains(r.log.String(), "level=WARN"); got != want {
			t.Errorf("listening on %s warns of an open server: %v, want %v\n%s", address, got, want, r.log)
		}
	}
}

// TestPeers: of a peer outside the networks nothing is read, and it gets nothing; a handler of one's
// own takes the place of the probes.
func TestPeers(t *testing.T) {
	for network, want := range map[string]bool{"127.0.0.0/8": true, "192.0.2.0/24": false, "::/0": false} {
		s := start(t, Options{Peers: []netip.Prefix{netip.MustParsePrefix(network)},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { text(w, http.StatusTeapot, r.URL.Path) })})
		response, err := s.client.Get(s.URL() + "/-/ready")
		if (err == nil) != want {
			t.Errorf("%s: %v", network, err)
		}
		if err == nil {
			if must(t, response.Body.Close()); response.StatusCode != http.StatusTeapot {
				t.Errorf("%s: %s", network, response.Status)
			}
		}
	}
}
