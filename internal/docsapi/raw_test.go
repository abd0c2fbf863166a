package docsapi

import (
	"bufio"
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

// rawService is a service made of bytes: each connection goes to one handler
// call, after its request was read if reads is set.
type rawService struct {
	base     string
	listener net.Listener
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
func serveRaw(t *testing.T, early bool, handle func(conn *net.TCPConn)) *rawService {
	t.Helper()
	return serveConnections(t, func(s *rawService, conn *net.TCPConn) {
		if early || s.take(conn) {
			handle(conn)
		}
	})
}

func serveConnections(t *testing.T, handle func(s *rawService, conn *net.TCPConn)) *rawService {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawService{base: "http://" + listener.Addr().String(), listener: listener}
	s.handlers.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.connections++
			s.mu.Unlock()
			s.handlers.Go(func() {
				defer conn.Close()
				handle(s, conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { listener.Close(); s.handlers.Wait() })
	return s
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
	s.listener.Close()
	s.handlers.Wait()
	return s.connections, s.requests
}

// replies writes an answer and hangs up.
func replies(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) { io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n")) }
}

// answers is a whole answer with a body.
func answers(status, body string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Type: application/json\r\n\r\n"+body)
	}
}

// stalls waits until the client hangs up.
func stalls(c *net.TCPConn) { io.Copy(io.Discard, c) }

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
