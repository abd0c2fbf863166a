package docsapi

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
)

const testKey = "mint_s3cretPart-0123456789"

var october = analytics.Window{From: analytics.NewDate(2026, 10, 1), To: analytics.NewDate(2026, 11, 1)}

func query() VisitorsQuery { return VisitorsQuery{Project: "prj_a", Window: october} }

func newClient(t *testing.T, base string, transport http.RoundTripper) *Client {
	t.Helper()
	c, err := New(Config{BaseURL: base, APIKey: StaticKey(testKey), Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serve starts a service on a socket and returns its client.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	transport := NewTransport(2, time.Minute)
	t.Cleanup(func() { transport.CloseIdleConnections(); server.Close() })
	return newClient(t, server.URL+"/base/", transport)
}

// once reads one page with one attempt.
func (c *Client) once(ctx context.Context) *Error {
	r := c.visitorsCall(VisitorsQuery{Project: "prj_a", Window: october, Limit: MaxLimit})
	r.decode = func(body []byte) error {
		_, err := decodePage(body, MaxLimit)
		return err
	}
	return c.attempt(ctx, r)
}

func TestRequestOnTheWire(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	sent := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buf := make([]byte, 4096)
		n, _ := conn.Read(buf)
		sent <- string(buf[:n])
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(onePage), onePage)
	}()
	transport := NewTransport(1, time.Minute)
	defer transport.CloseIdleConnections()
	c := newClient(t, "http://"+listener.Addr().String()+"/base/", transport)
	page, err := c.VisitorsPage(t.Context(), VisitorsQuery{Project: "a/b?c", Window: october, Limit: 7, Offset: 14})
	if err != nil {
		t.Fatal(err)
	}
	want := onePageWant
	want.Offset = 14
	if diff := cmp.Diff(want, page); diff != "" {
		t.Error(diff)
	}
	wantSent := "GET /base/v1/analytics/a%2Fb%3Fc/visitors?dateFrom=2026-10-01&dateTo=2026-11-01&limit=7&offset=14 HTTP/1.1\r\n" +
		"Host: " + listener.Addr().String() + "\r\nUser-Agent: docgauge\r\nAccept: application/json\r\n" +
		"Authorization: Bearer " + testKey + "\r\nAccept-Encoding: gzip\r\n\r\n"
	if diff := cmp.Diff(wantSent, <-sent); diff != "" {
		t.Error(diff)
	}
}

func TestVisitorsPageChecksItsQuery(t *testing.T) {
	c := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for name, change := range map[string]func(*VisitorsQuery){
		"project":   func(q *VisitorsQuery) { q.Project = "" },
		"parent":    func(q *VisitorsQuery) { q.Project = ".." },
		"window":    func(q *VisitorsQuery) { q.Window.To = q.Window.From },
		"limit":     func(q *VisitorsQuery) { q.Limit = MaxLimit + 1 },
		"limit < 0": func(q *VisitorsQuery) { q.Limit = -1 },
		"offset":    func(q *VisitorsQuery) { q.Offset = -1 },
	} {
		q := query()
		change(&q)
		if _, err := c.VisitorsPage(t.Context(), q); OutcomeOf(err) != Permanent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGzip(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, onePage)
		z.Close()
	})
	page, err := c.VisitorsPage(t.Context(), query())
	if diff := cmp.Diff(onePageWant, page); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestStatuses(t *testing.T) {
	for name, tc := range map[string]struct {
		status  int
		header  http.Header
		body    string
		outcome Outcome
		after   time.Duration
		says    []string
	}{
		"expired key":       {401, nil, `{"error":"key expired"}`, Permanent, 0, []string{"HTTP 401 Unauthorized", "DOCGAUGE_API_KEY", "expired", "scope", "IP allow-list", "the service says: key expired"}},
		"scope":             {403, nil, ``, Permanent, 0, []string{"HTTP 403 Forbidden", "DOCGAUGE_API_KEY"}},
		"redirect":          {302, http.Header{"Location": {"/elsewhere"}}, ``, Permanent, 0, []string{"redirect not followed: check DOCGAUGE_BASE_URL"}},
		"bad request":       {400, nil, `{"error":{"x":1},"message":"bad\n\u001b[31m date"}`, Permanent, 0, []string{"the service says: bad [31m date"}},
		"not found":         {404, nil, "\n<html>Not here</html>", Permanent, 0, []string{"DOCGAUGE_PROJECTS", "the service says: an HTML page"}},
		"plain text":        {405, nil, "  no  such\tmethod ", Permanent, 0, []string{"the service says: no such method"}},
		"throttled":         {429, http.Header{"Retry-After": {"40"}}, `{"error":"slow"}`, Transient, 40 * time.Second, []string{"request limit"}},
		"server error":      {503, http.Header{"Retry-After": {"7"}}, `{"error":"down"}`, Transient, 7 * time.Second, []string{"HTTP 503", "down"}},
		"long error":        {500, nil, strings.Repeat("é", maxErrorBody), Transient, 0, []string{"éé…"}},
		"no content":        {204, nil, ``, Permanent, 0, []string{"HTTP 204"}},
		"created":           {201, nil, onePage, Permanent, 0, []string{"HTTP 201"}},
		"HTML":              {200, http.Header{"Content-Type": {"text/html; charset=utf-8"}}, `<html>`, Permanent, 0, []string{"specification", "content type text/html"}},
		"empty body":        {200, nil, ``, Transient, 0, []string{"cut off"}},
		"cut JSON":          {200, nil, onePage[:60], Transient, 0, []string{"cut off"}},
		"wrong shape":       {200, nil, `{"visitors":[],"totals":{"human":1,"ai":1,"total":1}}`, Permanent, 0, []string{"missing: hasMore"}},
		"too large":         {200, nil, strings.Repeat(" ", maxBody+1), Permanent, 0, []string{"over 16 MiB"}},
		"as large as it is": {200, nil, onePage + strings.Repeat(" ", maxBody-len(onePage)), OK, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				for k, v := range tc.header {
					w.Header()[k] = v
				}
				w.WriteHeader(tc.status)
				io.WriteString(w, tc.body)
			})
			e := c.once(t.Context())
			if requests.Load() != 1 {
				t.Errorf("%d requests", requests.Load())
			}
			if e == nil {
				if tc.outcome != OK {
					t.Error("no error")
				}
				return
			}
			if e.Outcome != tc.outcome || e.Status != tc.status || e.RetryAfter != tc.after {
				t.Errorf("%v, status %d, after %v; want %v, %d, %v", e.Outcome, e.Status, e.RetryAfter, tc.outcome, tc.status, tc.after)
			}
			for _, says := range append(tc.says, "visitors at offset 0: GET http://127.0.0.1:", "/base/v1/analytics/prj_a/visitors: ") {
				if !strings.Contains(e.Error(), says) {
					t.Errorf("%q does not say %q", e.Error(), says)
				}
			}
			if n := len([]rune(e.Message)); n > maxMessage || strings.ContainsAny(e.Error(), "\n\x1b?") {
				t.Errorf("message of %d characters: %q", n, e.Error())
			}
		})
	}
}

// hangUp serves each connection with one handler call and closes it.
func hangUp(t *testing.T, answer func(conn *net.TCPConn)) (string, *atomic.Int32) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	requests := new(atomic.Int32)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 4096))
			requests.Add(1)
			answer(conn.(*net.TCPConn))
			conn.Close()
		}
	}()
	return "http://" + listener.Addr().String(), requests
}

func TestBrokenConnections(t *testing.T) {
	head := "HTTP/1.1 200 OK\r\n"
	for name, answer := range map[string]func(*net.TCPConn){
		"no answer":  func(*net.TCPConn) {},
		"reset":      func(c *net.TCPConn) { c.SetLinger(0) },
		"cut header": func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 20") },
		"not HTTP":   func(c *net.TCPConn) { io.WriteString(c, "SSH-2.0-OpenSSH\r\n") },
		"cut body":   func(c *net.TCPConn) { io.WriteString(c, head+"Content-Length: 112\r\n\r\n"+onePage[:50]) },
		"cut chunk":  func(c *net.TCPConn) { io.WriteString(c, head+"Transfer-Encoding: chunked\r\n\r\n20\r\n{") },
		"no last chunk": func(c *net.TCPConn) {
			fmt.Fprintf(c, head+"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(onePage), onePage)
		},
		"cut until closed": func(c *net.TCPConn) { io.WriteString(c, head+"\r\n"+onePage[:50]) },
		"cut gzip":         func(c *net.TCPConn) { io.WriteString(c, head+"Content-Encoding: gzip\r\n\r\n\x1f\x8b\x08") },
	} {
		t.Run(name, func(t *testing.T) {
			base, requests := hangUp(t, answer)
			e := newClient(t, base, NewTransport(1, time.Minute)).once(t.Context())
			if e == nil || e.Outcome != Transient || requests.Load() != 1 || errors.Is(e, ErrNotSent) {
				t.Errorf("%v after %d requests; want a transient error after one", e, requests.Load())
			}
		})
	}
}

func TestNothingSent(t *testing.T) {
	e := newClient(t, refusing(t), nil).once(t.Context())
	if e == nil || e.Outcome != Transient || !errors.Is(e, ErrNotSent) || e.Status != 0 {
		t.Errorf("refused connection: %v", e)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	e = newClient(t, server.URL, nil).once(t.Context())
	if e == nil || e.Outcome != Permanent || !strings.Contains(e.Message, "certificate is not trusted") {
		t.Errorf("unknown certificate: %v", e)
	}
}

// TestNoHiddenReplay guards the budget: net/http by itself sends a GET again
// where a used connection dies before its answer.
func TestNoHiddenReplay(t *testing.T) {
	var requests atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			io.WriteString(w, onePage)
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	})
	if e := c.once(t.Context()); e != nil {
		t.Fatal(e)
	}
	if e := c.once(t.Context()); e == nil || e.Outcome != Transient {
		t.Errorf("connection closed on the second request: %v", e)
	}
	if requests.Load() != 2 {
		t.Errorf("%d requests on the wire for 2 attempts", requests.Load())
	}
}

func TestConnectionIsReused(t *testing.T) {
	inBubble(t, func(t *testing.T) { // net/http gives up a connection whose writer is slow to end
		status := 200
		service := servePipes(func(s *rawService, conn net.Conn) {
			for s.take(conn) {
				fmt.Fprintf(conn, "HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n%s", status, len(onePage), onePage)
			}
		})
		transport := NewTransport(2, time.Minute)
		transport.DialContext = service.dial
		c := newClient(t, service.base, transport)
		for _, status = range []int{200, 500, 404, 302, 200} {
			c.once(t.Context())
		}
		transport.CloseIdleConnections()
		if connections, requests := service.seen(); connections != 1 || len(requests) != 5 {
			t.Errorf("%d connections for %d requests", connections, len(requests))
		}
	})
}

func TestKeyIsAskedEachTime(t *testing.T) {
	var got []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		io.WriteString(w, onePage)
	})
	keys := []string{"a_first1", "b_second", "broken"}
	c.admin.get = func() string { return keys[len(got)] }
	c.once(t.Context())
	c.once(t.Context())
	e := c.once(t.Context())
	if diff := cmp.Diff([]string{"Bearer a_first1", "Bearer b_second"}, got); diff != "" {
		t.Error(diff)
	}
	if e == nil || e.Outcome != Permanent || !strings.Contains(e.Error(), "DOCGAUGE_API_KEY") {
		t.Errorf("unusable key: %v", e)
	}
}
