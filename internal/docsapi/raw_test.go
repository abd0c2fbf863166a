package docsapi

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	testWriteKey = "mint_wr1tePart-9876543210"
	testPrompt   = "Rewrite the page on quotas, and keep the table of limits <as it is>."
	oneJob       = `{"id":"job_1","status":"active","source":{"repository":"o/r","ref":"main"},"model":"m","prLink":null,"createdAt":"2026-10-01T08:00:00Z"}`
)

// rawService is a service made of bytes: each connection goes to one call of
// handle.
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

// serveRaw starts the service. handle gets the connection with its request read,
// or before that where early is true.
func serveRaw(t *testing.T, early bool, handle func(net.Conn)) *rawService {
	t.Helper()
	return serveConnections(t, inOrder(early, handle))
}

func inOrder(early bool, handle func(net.Conn)) func(*rawService, net.Conn) {
	return func(s *rawService, conn net.Conn) {
		if early || s.take(conn) {
			handle(conn)
		}
	}
}

func serveConnections(t *testing.T, handle func(s *rawService, conn net.Conn)) *rawService {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawService{base: "http://" + listener.Addr().String(), handle: handle, listener: listener}
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

// servePipes is serveConnections for a bubble: its connections stay inside the
// process, and are made with dial.
func servePipes(handle func(s *rawService, conn net.Conn)) *rawService {
	return &rawService{base: "http://127.0.0.1:1", handle: handle}
}

func (s *rawService) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	s.serve(server)
	return client, nil
}

// take reads one whole request; false where there was none.
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
// there were. It is exact: whatever the client sent before is counted.
func (s *rawService) seen() (connections int, requests []rawRequest) {
	ours := 0
	if s.listener != nil {
		ours = s.drain()
		s.listener.Close()
	}
	s.handlers.Wait()
	return s.connections - ours, s.requests
}

// drain returns when every connection made before it was accepted, and how many
// it made itself: they are accepted in order, and a closed listener drops those
// that still wait.
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

// refusing returns the URL of a port that nobody listens on, nor can: a
// connection of ours has it.
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

// agentClient is a client with both keys.
func agentClient(t *testing.T, base string, change ...func(*Config)) *Client {
	t.Helper()
	cfg := Config{
		BaseURL: base, APIKey: StaticKey(testKey), WriteAPIKey: StaticKey(testWriteKey),
		Timeout: time.Minute, WriteTimeout: time.Minute,
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
