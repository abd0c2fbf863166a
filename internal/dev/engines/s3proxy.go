package engines

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

// S3Proxy is between a store and the S3 server, and does to each request what the
// [Meddler] says that was set; without one it passes everything on.
type S3Proxy struct {
	*httptest.Server
	backend string // host:port

	mu          sync.Mutex
	meddle      Meddler
	requests    []string // method and path
	connections int
}

// Meddler handles the request or reports false.
type Meddler func(p *S3Proxy, w http.ResponseWriter, r *http.Request) bool

// NewS3Proxy is in front of the server of [SharedS3].
func NewS3Proxy(t *testing.T) *S3Proxy {
	t.Helper()
	p := NewUnstartedS3Proxy(t)
	p.Start()
	return p
}

// NewUnstartedS3Proxy is [NewS3Proxy] without its start.
func NewUnstartedS3Proxy(t *testing.T) *S3Proxy {
	t.Helper()
	p := &S3Proxy{backend: strings.TrimPrefix(SharedS3(t).Endpoint, "http://")}
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

// Set changes the fault, and forgets the requests that were seen.
func (p *S3Proxy) Set(m Meddler) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.meddle, p.requests, p.connections = m, nil, 0
}

// Seen returns the requests since Set, and how many connections carried them.
func (p *S3Proxy) Seen() (requests []string, connections int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests, p.connections
}

func (p *S3Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	m := p.meddle
	p.requests = append(p.requests, r.Method+" "+r.URL.Path)
	p.mu.Unlock()
	if m == nil || !m(p, w, r) {
		p.Pass(w, r, nil)
	}
}

// forward sends the request, with its signature, to the server.
func (p *S3Proxy) forward(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", p.backend, ""
	return http.DefaultTransport.RoundTrip(out)
}

// Pass gives the answer to w, its body changed by change.
func (p *S3Proxy) Pass(w http.ResponseWriter, r *http.Request, change func([]byte) []byte) {
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

// ResetBefore breaks the connection off at once.
func ResetBefore(_ *S3Proxy, w http.ResponseWriter, _ *http.Request) bool {
	reset(w)
	return true
}

// ResetMiddle lets half of the body come to the server and no more.
func ResetMiddle(p *S3Proxy, w http.ResponseWriter, r *http.Request) bool {
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

// LoseAnswer has the server carry out the request, and loses its answer.
func LoseAnswer(p *S3Proxy, w http.ResponseWriter, r *http.Request) bool {
	if answer, err := p.forward(r); err == nil {
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
	reset(w)
	return true
}

// FlipUpload damages the body on its way to the server.
func FlipUpload(p *S3Proxy, w http.ResponseWriter, r *http.Request) bool {
	data, _ := io.ReadAll(r.Body)
	if len(data) > 0 {
		data[len(data)/2] ^= 1
	}
	r.Body = io.NopCloser(strings.NewReader(string(data)))
	p.Pass(w, r, nil)
	return true
}

// HarmDownload changes the body on its way back.
func HarmDownload(change func(body []byte) []byte) Meddler {
	return func(p *S3Proxy, w http.ResponseWriter, r *http.Request) bool {
		p.Pass(w, r, change)
		return true
	}
}

// Stall does not answer until the client goes away.
func Stall(_ *S3Proxy, _ http.ResponseWriter, r *http.Request) bool {
	_, _ = io.Copy(io.Discard, r.Body) // the client's leaving shows only then
	<-r.Context().Done()
	return true
}

// S3Says answers with a status and an error of S3.
func S3Says(status int, code, message string) Meddler {
	return S3Page(status, "application/xml", `<?xml version="1.0" encoding="UTF-8"?><Error><Code>`+code+
		`</Code><Message>`+message+`</Message></Error>`)
}

// S3Page answers with a status and a body.
func S3Page(status int, kind, body string) Meddler {
	return func(_ *S3Proxy, w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// When meddles with requests of a method and a part of the path, times times,
// or for ever with times < 0.
func When(method, in string, times int, m Meddler) Meddler {
	var mu sync.Mutex
	return func(p *S3Proxy, w http.ResponseWriter, r *http.Request) bool {
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

// AtOnce is longer than anything takes that waits for nothing, on a machine
// busy with other tests too, and shorter than the limits of an impatient sink.
const AtOnce = time.Minute
