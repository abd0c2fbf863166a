package parquet

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxy is between a sink and the S3 server, and does to each request what
// meddle says; a nil meddle passes everything on.
type proxy struct {
	*httptest.Server
	backend string // host:port

	mu          sync.Mutex
	meddle      meddler
	requests    []string // method and path
	connections int
}

// meddler handles the request or reports false.
type meddler func(p *proxy, w http.ResponseWriter, r *http.Request) bool

func newProxy(t *testing.T) *proxy {
	t.Helper()
	p := proxyTo(t)
	p.Start()
	return p
}

func proxyTo(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{backend: strings.TrimPrefix(s3server(t).Endpoint, "http://")}
	p.Server = httptest.NewUnstartedServer(p)
	p.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			p.mu.Lock()
			p.connections++
			p.mu.Unlock()
		}
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func (p *proxy) set(m meddler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.meddle, p.requests, p.connections = m, nil, 0
}

func (p *proxy) seen() (requests []string, connections int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests, p.connections
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	m := p.meddle
	p.requests = append(p.requests, r.Method+" "+r.URL.Path)
	p.mu.Unlock()
	if m == nil || !m(p, w, r) {
		p.pass(w, r, nil)
	}
}

// forward sends the request, with its signature, to the server.
func (p *proxy) forward(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", p.backend, ""
	return http.DefaultTransport.RoundTrip(out)
}

// pass gives the answer to w, its body changed by change.
func (p *proxy) pass(w http.ResponseWriter, r *http.Request, change func([]byte) []byte) {
	answer, err := p.forward(r)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	data, _ := io.ReadAll(answer.Body)
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(answer.StatusCode)
	if change != nil {
		data = change(data)
	}
	_, _ = w.Write(data)
}

// reset breaks the connection off.
func reset(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

func resetBefore(_ *proxy, w http.ResponseWriter, _ *http.Request) bool { reset(w); return true }

// resetMiddle lets half of the body come to the server and no more.
func resetMiddle(p *proxy, w http.ResponseWriter, r *http.Request) bool {
	if c, err := net.Dial("tcp", p.backend); err == nil {
		out := r.Clone(r.Context())
		out.URL.Host = r.Host
		out.Body = io.NopCloser(io.LimitReader(r.Body, r.ContentLength/2))
		_ = out.Write(c)
		_ = c.Close()
	}
	reset(w)
	return true
}

// resetAfter loses the answer of what the server has done.
func resetAfter(p *proxy, w http.ResponseWriter, r *http.Request) bool {
	if answer, err := p.forward(r); err == nil {
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
	reset(w)
	return true
}

// flipUpload damages the body on its way to the server.
func flipUpload(p *proxy, w http.ResponseWriter, r *http.Request) bool {
	data, _ := io.ReadAll(r.Body)
	if len(data) > 0 {
		data[len(data)/2] ^= 1
	}
	r.Body = io.NopCloser(strings.NewReader(string(data)))
	p.pass(w, r, nil)
	return true
}

func flipDownload(p *proxy, w http.ResponseWriter, r *http.Request) bool {
	p.pass(w, r, func(data []byte) []byte { data[len(data)/2] ^= 1; return data })
	return true
}

// cutDownload announces the whole body and sends half.
func cutDownload(p *proxy, w http.ResponseWriter, r *http.Request) bool {
	p.pass(w, r, func(data []byte) []byte { return data[:len(data)/2] })
	return true
}

// stall does not answer until the client goes away.
func stall(_ *proxy, _ http.ResponseWriter, r *http.Request) bool {
	_, _ = io.Copy(io.Discard, r.Body) // the client's leaving shows only then
	<-r.Context().Done()
	return true
}

// says answers with a status and an error of S3.
func says(status int, code, message string) meddler {
	return page(status, "application/xml", `<?xml version="1.0" encoding="UTF-8"?><Error><Code>`+code+`</Code><Message>`+message+`</Message></Error>`)
}

func page(status int, kind, body string) meddler {
	return func(_ *proxy, w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// when meddles with requests of a method and a part of the path, times times,
// or for ever with times < 0.
func when(method, in string, times int, m meddler) meddler {
	var mu sync.Mutex
	return func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
		if r.Method != method || !strings.Contains(r.URL.Path, in) {
			return false
		}
		mu.Lock()
		hit := times != 0
		if times > 0 {
			times--
		}
		mu.Unlock()
		return hit && m(p, w, r)
	}
}

// atOnce is longer than anything takes that waits for nothing, on a machine
// busy with other tests too, and shorter than the limits of an impatient sink.
const atOnce = time.Minute

// impatient makes s wait between its tries as little as a test wants to. The
// limits of single calls are for tests that lower them.
func impatient(s *Sink) *Sink {
	s.tree.(*bucket).limits = limits{
		transfer: 3 * atOnce, call: 3 * atOnce, answer: 2 * atOnce,
		credentials: 2 * atOnce, backoff: time.Millisecond,
	}
	return s
}
