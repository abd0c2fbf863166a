package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// blocked is a handler that answers when it is released.
type blocked struct {
	entered  chan struct{}
	released chan struct{}
}

func newBlocked() blocked { return blocked{make(chan struct{}, 1), make(chan struct{})} }

func (h blocked) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	h.entered <- struct{}{}
	<-h.released
	_, _ = io.WriteString(w, "late")
}

// get asks in the background.
func (r *running) get(path string) <-chan string {
	answer := make(chan string, 1)
	go func() {
		resp, err := r.client.Get(r.URL() + path)
		if err != nil {
			answer <- "error: " + err.Error()
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		answer <- fmt.Sprint(resp.StatusCode, " ", string(body), " ", err)
	}()
	return answer
}

func (r *running) refuses() bool {
	conn, err := net.Dial("tcp", r.listeners[0].Addr().String())
	if err == nil {
		conn.Close()
	}
	return err != nil
}

// TestStop: a request in flight is answered, unless it takes too long; new connections are refused.
func TestStop(t *testing.T) {
	for name, tc := range map[string]struct {
		drain  time.Duration
		answer *regexp.Regexp
	}{
		"waits":    {patience, regexp.MustCompile("^200 late <nil>$")},
		"cuts off": {50 * time.Millisecond, regexp.MustCompile("^error: .*(EOF|reset)")},
	} {
		t.Run(name, func(t *testing.T) {
			slow := newBlocked()
			r := start(t, at("/slow", slow), func(s *Server) { s.drain = tc.drain })
			answer := r.get("/slow")
			wait(t, "the request arrives", slow.entered)
			r.stop()
			until(t, "new connections are refused", r.refuses)
			cutOff := tc.drain < patience
			if cutOff {
				defer close(slow.released)
			} else {
				select {
				case err := <-r.served:
					t.Fatalf("Serve returned %v before the request was answered", err)
				default:
				}
				close(slow.released)
			}
			must(t, wait(t, "Serve", r.served))
			if got := wait(t, "the answer", answer); !tc.answer.MatchString(got) {
				t.Errorf("the request in flight got %q", got)
			}
			if got := strings.Contains(r.log.String(), "requests cut off by the stop"); got != cutOff {
				t.Errorf("logged\n%s", r.log)
			}
		})
	}
	t.Run("before a request", func(t *testing.T) {
		r := start(t, Options{})
		r.stop()
		must(t, wait(t, "Serve", r.served))
		if !r.refuses() {
			t.Error("the port is still open")
		}
	})
}

func TestSocketThatFails(t *testing.T) {
	s, err := Listen(Options{Addresses: []string{"127.0.0.1:0"}})
	must(t, err)
	s.listeners[0].Close()
	if err := s.Serve(t.Context()); !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), s.URL()) {
		t.Errorf("%v, want the closed socket of %s", err, s.URL())
	}
}

// large is more than the buffers of two sockets hold.
var large = strings.Repeat("docgauge_site_visitors 1\n", 1<<19)

// ask sends a request on a new connection.
func (r *running) ask(t *testing.T, path string, headers ...string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", r.listeners[0].Addr().String())
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	lines := append([]string{"GET " + path + " HTTP/1.1", "Host: x"}, headers...)
	_, err = io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n")
	must(t, err)
	return conn, bufio.NewReader(conn)
}

func TestSlowReader(t *testing.T) {
	r := start(t, at("/metrics", says(large)))
	_, slow := r.ask(t, "/metrics")
	resp, err := http.ReadResponse(slow, nil)
	must(t, err)
	for range 5 {
		if _, body := r.do(t, "GET", "/metrics"); body != large {
			t.Fatal("another scrape is not whole")
		}
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != large {
		t.Errorf("the slow scraper got %d of %d bytes, %v", len(body), len(large), err)
	}
}

func TestReaderThatStopsIsCutOff(t *testing.T) {
	done := make(chan error, 1)
	writes := func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, large)
		done <- err
	}
	r := start(t, at("/metrics", http.HandlerFunc(writes)),
		func(s *Server) { s.http.WriteTimeout = 100 * time.Millisecond })
	_, reader := r.ask(t, "/metrics")
	if err := wait(t, "the handler ends", done); err == nil {
		t.Error("a handler wrote everything to a client that reads nothing")
	}
	if body, err := io.ReadAll(reader); err == nil && len(body) >= len(large) {
		t.Error("the client got everything")
	}
}

func TestClientThatGoesAway(t *testing.T) {
	entered, gone := make(chan struct{}), make(chan struct{})
	waits := func(w http.ResponseWriter, req *http.Request) {
		close(entered)
		<-req.Context().Done()
		_, _ = io.WriteString(w, large)
		close(gone)
	}
	r := start(t, at("/metrics", http.HandlerFunc(waits)))
	conn, _ := r.ask(t, "/metrics")
	wait(t, "the request arrives", entered)
	conn.Close()
	wait(t, "the handler hears of it", gone)
	if resp, _ := r.do(t, "GET", "/healthz"); resp.StatusCode != http.StatusOK {
		t.Errorf("/healthz is %d afterwards", resp.StatusCode)
	}
	wantQuiet(t, r)
}

// wantQuiet fails if anything above debug but the start is in the log.
func wantQuiet(t *testing.T, r *running) {
	t.Helper()
	log := r.log.String()
	if strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") ||
		strings.Count(log, "level=INFO") > 1 {
		t.Errorf("logged\n%s", log)
	}
}

func TestClientThatSaysNothingIsCutOff(t *testing.T) {
	r := start(t, Options{}, func(s *Server) { s.http.ReadHeaderTimeout = 50 * time.Millisecond })
	for _, begin := range []string{"", "GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: "} {
		conn, err := net.Dial("tcp", r.listeners[0].Addr().String())
		must(t, err)
		defer conn.Close()
		_, _ = io.WriteString(conn, begin)
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		// What the server had not read when it closed makes that a reset.
		if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %q: %v, want a closed connection", begin, err)
		}
	}
	wantQuiet(t, r)
}

func TestEveryWaitIsBounded(t *testing.T) {
	h := start(t, Options{}).http
	const interval = time.Minute // the longest between two scrapes
	if h.ReadHeaderTimeout <= 0 || h.ReadTimeout <= 0 || h.WriteTimeout < interval || h.IdleTimeout <= interval {
		t.Errorf("%+v", h)
	}
}

func TestHandlerThatGivesUpIsSilent(t *testing.T) {
	panics := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	r := start(t, at("/", http.HandlerFunc(panics)))
	if got := wait(t, "the answer", r.get("/")); !strings.Contains(got, "EOF") {
		t.Errorf("got %q, want a closed connection", got)
	}
	wantQuiet(t, r)
}

func TestLargeHeaders(t *testing.T) {
	r := start(t, Options{})
	// The answer comes before all was read: it must be sent by then.
	_, answer := r.ask(t, "/healthz", "X-Large: "+strings.Repeat("x", 2*maxHeader))
	resp, err := http.ReadResponse(answer, nil)
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d, want 431", resp.StatusCode)
	}
}

func TestPanicCostsItsRequestOnly(t *testing.T) {
	var calls atomic.Int32
	panics := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		if calls.Add(1) == 1 {
			panic("no such window")
		}
	}
	r := start(t, at("/metrics", http.HandlerFunc(panics)))
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+"/metrics?token=in-the-query", nil)
	req.Header.Set("Authorization", "Basic in-the-header")
	if resp, err := r.client.Do(req); err == nil {
		resp.Body.Close()
		t.Errorf("a broken answer looked whole: %d", resp.StatusCode)
	}
	if _, body := r.do(t, "GET", "/metrics"); body != "half" {
		t.Errorf("the next request got %q", body)
	}
	log := r.log.String()
	for _, want := range []string{
		"level=ERROR", `msg="handler panicked"`, "path=/metrics", `panic="no such window"`, "stop_test.go",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not say %s:\n%s", want, log)
		}
	}
	if strings.Contains(log, "in-the-") || strings.Count(log, "no such window") != 1 {
		t.Errorf("logged what the request carried, or twice:\n%s", log)
	}
}
