package docsapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	testWriteKey = "mint_wr1tePart-9876543210"
	testPrompt   = "Rewrite the page on quotas, and keep the table of limits <as it is>."
	oneJob       = `{"id":"job_1","status":"active","source":{"repository":"o/r","ref":"main"},"model":"m",` +
		`"prLink":null,"createdAt":"2026-10-01T08:00:00Z"}`
	testKey = "mint_s3cretPart-0123456789"
)

var october = analytics.Window{From: analytics.NewDate(2026, 10, 1), To: analytics.NewDate(2026, 11, 1)}

func query() PageQuery { return PageQuery{Project: "prj_a", Window: october} }

func newClient(t *testing.T, base string, transport http.RoundTripper) *Client {
	t.Helper()
	c, err := New(ClientOptions{BaseURL: base, APIKey: StaticKey(testKey), Transport: transport})
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
	c.options.Attempts = 1
	_, err := c.Page(ctx, query())
	e, _ := errors.AsType[*Error](err)
	return e
}

// agentClient is a client with both keys.
func agentClient(t *testing.T, base string, change ...func(*ClientOptions)) *Client {
	t.Helper()
	cfg := ClientOptions{
		BaseURL: base, APIKey: StaticKey(testKey), WriteAPIKey: StaticKey(testWriteKey),
		Timeout: time.Minute,
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// writesVia sends the POSTs of every project over transport.
func writesVia(transport http.RoundTripper) func(*ClientOptions) {
	return func(cfg *ClientOptions) { cfg.WriteTransport = func(string) http.RoundTripper { return transport } }
}

// outcomeOf returns the outcome of a call that returned err. Only reads return the
// end of their context.
func outcomeOf(err error) Outcome {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Outcome
	}
	switch {
	case err == nil:
		return succeeded
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Transient
	}
	return Permanent
}

// fate returns what became of a write, by the questions that its caller asks.
func fate(err error) string {
	switch {
	case err == nil:
		return "accepted"
	case IsNotSent(err):
		return "not sent"
	case IsInDoubt(err):
		return "in doubt"
	case outcomeOf(err) == Transient:
		return "not accepted for a time"
	}
	return "not accepted"
}

// reply answers a request in memory.
type reply = func(*http.Request) (*http.Response, error)

// scripted is a transport in memory: it answers request n with answers[n], repeats
// the last answer, and records when each request came.
type scripted struct {
	answers []reply
	at      []time.Time
}

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	n := min(len(s.at), len(s.answers)-1)
	s.at = append(s.at, time.Now())
	return s.answers[n](r)
}

func (s *scripted) waits() (waits []time.Duration) {
	for i := 1; i < len(s.at); i++ {
		waits = append(waits, s.at[i].Sub(s.at[i-1]))
	}
	return waits
}

func status(code int, body string, header ...string) reply {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func breaks(err error) reply {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func script(answers ...reply) []reply { return answers }

// hang takes a connection and never answers.
func hang(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).GetConn("")
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
	<-r.Context().Done()
	return nil, r.Context().Err()
}

type notBefore struct{ at time.Time }

func (e notBefore) Error() string { return "budget used up" }

func (e notBefore) RetryAt() time.Time { return e.at }

// inBubble runs f with fake time that does not begin on the full hour.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(11*time.Minute + 7*time.Second)
		f(t)
	})
}

func scriptedClient(t *testing.T, answers ...reply) (*Client, *scripted) {
	s := &scripted{answers: answers}
	return newClient(t, "https://api.example.com", s), s
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type closer struct {
	io.Reader
	times int
}

func (c *closer) Close() error {
	c.times++
	return nil
}

type stuck struct{ ctx context.Context }

func (s stuck) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// isBare reports whether err is want without an *Error around it.
func isBare(err, want error) bool {
	_, ours := errors.AsType[*Error](err)
	return !ours && errors.Is(err, want)
}

// rawService is a service without net/http: handle gets each connection.
type rawService struct {
	base     string
	handle   func(*rawService, net.Conn)
	listener net.Listener // nil where connections are pipes
	handlers sync.WaitGroup

	mu          sync.Mutex
	connections int
	requests    []rawRequest
}

type rawRequest struct {
	line, body string
	header     http.Header
}

// records passes on what a connection sends in one write, and answers it.
func records(sent chan<- string, answer string) func(net.Conn) {
	return func(c net.Conn) {
		buf := make([]byte, 4096)
		n, _ := c.Read(buf) // header and body leave in one write
		sent <- string(buf[:n])
		io.WriteString(c, answer)
	}
}

func inOrder(early bool, handle func(net.Conn)) func(*rawService, net.Conn) {
	return func(s *rawService, conn net.Conn) {
		if early || s.take(conn) {
			handle(conn)
		}
	}
}

// serveRaw starts the service. handle gets the connection after its request was
// read, or before that if early is true.
func serveRaw(t *testing.T, early bool, handle func(net.Conn)) *rawService {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawService{base: "http://" + listener.Addr().String(), handle: inOrder(early, handle), listener: listener}
	s.handlers.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.serve(conn)
		}
	})
	t.Cleanup(func() { listener.Close(); s.handlers.Wait() })
	return s
}

func (s *rawService) serve(conn net.Conn) {
	s.mu.Lock()
	s.connections++
	s.mu.Unlock()
	s.handlers.Go(func() {
		defer conn.Close()
		s.handle(s, conn)
	})
}

// servePipes starts the service for a bubble: its connections stay inside the
// process, and are made with dial.
func servePipes(handle func(s *rawService, conn net.Conn)) *rawService {
	return &rawService{base: "http://127.0.0.1:1", handle: handle}
}

func (s *rawService) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	s.serve(server)
	return client, nil
}

// take reads one whole request; false if there was none.
func (s *rawService) take(conn net.Conn) bool {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return false
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, rawRequest{r.Method + " " + r.URL.EscapedPath(), string(body), r.Header})
	return true
}

// seen stops the service and returns how many connections and whole requests
// there were. It counts everything that the client sent before.
func (s *rawService) seen() (connections int, requests []rawRequest) {
	ours := 0
	if s.listener != nil {
		ours = s.drain()
		s.listener.Close()
	}
	s.handlers.Wait()
	return s.connections - ours, s.requests
}

// drain returns once all earlier connections were accepted, and how many it made
// itself: connections are accepted in order, and a closed listener drops those that
// still wait.
func (s *rawService) drain() int {
	last, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		return 0
	}
	defer last.Close()
	last.(*net.TCPConn).CloseWrite()
	io.Copy(io.Discard, last)
	return 1
}

// replies writes an answer and hangs up.
func replies(text string) func(net.Conn) {
	return func(c net.Conn) { io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n")) }
}

// answers is a whole answer with a body.
func answers(status, body string) func(net.Conn) {
	return func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Type: application/json\r\n\r\n"+body)
	}
}

// reset makes the end of a connection a reset.
func reset(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }

// stalls waits until the client hangs up.
func stalls(c net.Conn) { io.Copy(io.Discard, c) }

// refusing returns the URL of a port that is occupied by a connection, so that no process can listen.
func refusing(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); listener.Close() })
	return "http://" + conn.LocalAddr().String()
}
