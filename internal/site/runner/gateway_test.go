package runner

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestParseGateway(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	write(t, ca, "no certificate")
	for _, tc := range []struct{ url, ca, want string }{
		{"http://10.0.0.5:4000", "", ""}, {"http://127.0.0.1:4000/", "", ""}, {"https://models.example/llm", "", ""},
		{"http://[::1]:4000", "", ""}, {"http://localhost:4000", "", ""},
		{"10.0.0.5:4000", "", "want a URL"}, {"http://169.254.169.254", "", "link-local"},
		{"http://[fe80::1%25eth0]:4000", "", "link-local"}, {"https://x:secret@models.example", "", "AGENT_ENV"},
		{"https://models.example/v1/", "", "leave /v1 out"}, {"https://models.example/a/../b", "", "without .."},
		{"https://models.example?key=1", "", "query"}, {"ftp://models.example", "", "http"},
		{"http://10.0.0.5:4000", ca, "DOCGAUGE_SITE_AGENT_CA: has no effect"},
		{"https://models.example", ca, "want certificates"}, {"https://models.example", ca + "x", "no such file"},
	} {
		_, err := ParseGateway(tc.url, tc.ca)
		if (err != nil) != (tc.want != "") || err != nil && (!strings.Contains(err.Error(), tc.want) ||
			strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s %s: %v, want %q", tc.url, tc.ca, err, tc.want)
		}
	}
}

// serveGateway serves the gateway at a path of a server, and returns its address, and the requests that the server got
// since the last call.
func serveGateway(t *testing.T, path string, answer http.HandlerFunc) (address string, reached func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		all = append(all, r.Method+" "+r.Host+" "+r.RequestURI+" "+r.Header.Get("Upgrade")+r.Header.Get("X-Original-Url")+
			r.Header.Get("X-Forwarded-For"))
		mu.Unlock()
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(server.Close)
	g, err := ParseGateway(server.URL+path, "")
	check(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	end, err := g.serve(ln, slog.New(slog.DiscardHandler))
	check(t, err)
	t.Cleanup(end)
	return ln.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		got := all
		all = nil
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], server.Listener.Addr().String(), "HOST")
		}
		return got
	}
}

// ask sends a request as it is written, and returns the status of the answer, 0 without one, and its body.
func ask(t *testing.T, address, request, headers string) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	check(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n", request, headers)
	check(t, err)
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, ""
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	check(t, err)
	return r.StatusCode, string(text)
}

// TestGatewayPaths: whatever a request asks for, the server sees paths below the gateway's, under its name.
func TestGatewayPaths(t *testing.T) {
	address, reached := serveGateway(t, "/llm", nil)
	for request, want := range map[string]string{
		"GET /v1/models": "GET HOST /llm/v1/models ",
		"POST /v1beta/models/g-2.5:stream?alt=sse": "POST HOST /llm/v1beta/models/g-2.5:stream?alt=sse ",
		"GET /": "GET HOST /llm/ ",
		"GET http://169.254.169.254/latest/meta-data": "GET HOST /llm/latest/meta-data ",
		"GET //example.com/x":                         "GET HOST /llm//example.com/x ",
		"GET /a%20b":                                  "GET HOST /llm/a%20b ",
		"GET /..":                                     "", "GET /../x": "", "GET /a/../../x": "", "GET /%2e%2e/x": "", "GET /..%2fx": "",
		"GET /%252e%252e/x": "", "GET /..%5cx": "", "GET /a/..;/x": "", "GET /..%00/x": "", "GET /%c0%ae%c0%ae/x": "",
		"GET /a\\..\\x": "", "OPTIONS *": "", "CONNECT HOST:80": "", "GET /%2e%2e": "", "GET ../x": "", "GET x": "",
	} {
		status, _ := ask(t, address, request, "")
		got := strings.Join(reached(), ", ")
		if got != want || (status == 200) != (want != "") {
			t.Errorf("%s: %d, reached %q, want %q", request, status, got, want)
		}
	}
	// Nothing else leads anywhere: neither another protocol, nor a header that some servers take for the path.
	status, _ := ask(t, address, "GET /x", "Connection: Upgrade\r\nUpgrade: h2c\r\nX-Original-URL: /admin\r\n"+
		"X-Forwarded-For: 10.0.0.1\r\n")
	if got := reached(); status != 200 || !slices.Equal(got, []string{"GET HOST /llm/x "}) {
		t.Errorf("headers: %d %q", status, got)
	}
}

// TestGatewayAnswers: redirects are not followed and not passed on, events arrive when they are sent, and an answer may
// begin before the end of the request.
func TestGatewayAnswers(t *testing.T) {
	next := make(chan struct{})
	address, reached := serveGateway(t, "", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/secret", http.StatusTemporaryRedirect)
		case "/events":
			_, _ = io.WriteString(w, "data: 1\n\n")
			w.(http.Flusher).Flush()
			<-next
		case "/echo":
			_ = http.NewResponseController(w).EnableFullDuplex()
			w.(http.Flusher).Flush()
			_, _ = io.Copy(w, r.Body)
		}
	})
	if status, body := ask(t, address, "GET /redirect", ""); status != 502 || !strings.Contains(body, "not followed") ||
		len(reached()) != 1 {
		t.Errorf("redirect: %d %s", status, body)
	}
	r, err := http.Get("http://" + address + "/events")
	check(t, err)
	line, err := bufio.NewReader(r.Body).ReadString('\n')
	if err != nil || line != "data: 1\n" {
		t.Errorf("events: %q %v", line, err)
	}
	close(next)
	check(t, r.Body.Close())

	conn, err := net.Dial("tcp", address)
	check(t, err)
	defer conn.Close()
	check(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf, ")
	check(t, err)
	r, err = http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("before the end of the request: %v", err)
	}
	_, err = io.WriteString(conn, "half")
	check(t, err)
	if text, err := io.ReadAll(r.Body); err != nil || string(text) != "half, half" {
		t.Errorf("before the end of the request: %q %v", text, err)
	}
}

// TestGatewayTLS: the certificate must be one of the authorities.
func TestGatewayTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	write(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for file, want := range map[string]string{ca: "", "": "certificate"} {
		g, err := ParseGateway(server.URL, file)
		check(t, err)
		if err := g.Try(t.Context()); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("authorities %q: %v", file, err)
		}
	}
}
