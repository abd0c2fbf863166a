package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	hello2 = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	budget = `{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"budget","arguments":{}}}`
)

// speak sends lines and the end of the input, and returns the answers by their ids.
func speak(t testing.TB, server *sdk.Server, in string) map[string]string {
	t.Helper()
	var out bytes.Buffer
	must(t, serve(t.Context(), strings.NewReader(in), &out, server))
	answers := map[string]string{}
	for line := range strings.Lines(out.String()) {
		var m struct{ ID json.RawMessage }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		answers[string(m.ID)] += line
	}
	return answers
}

// TestLines: a line that is not a message is answered, and ends nothing; questions before the end of
// the input are answered.
func TestLines(t *testing.T) {
	server := newServer(answers(t))
	strange := []string{
		"hello", "{", `"`, "42", "null", "[]", "[" + budget + "]", "{}", `{"jsonrpc":"2.0"}`,
		`{"jsonrpc":"1.0","id":7,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":7,"method":7}`, strings.Repeat("[", 5000),
		"\x00\xff",
		strings.Repeat("x", maxMessage+1), strings.Repeat(" ", maxMessage+1),
	}
	got := speak(t, server, strings.Join([]string{hello, hello2, strings.Join(strange, "\n"), "", "\r",
		budget + "\r"}, "\n"))
	if n := strings.Count(got["null"], "\n"); n != len(strange) || !strings.Contains(got["null"], "-32700") ||
		strings.Count(got["null"], "batches are not part") < 4 ||
		!strings.Contains(got["null"], "longer than 1048576 bytes") {
		t.Errorf("%d of %d refused:\n%s", n, len(strange), got["null"])
	}
	if !strings.Contains(got[`"b"`], `"available":90`) {
		t.Errorf("not answered: %v", got)
	}
	got = speak(t, server, strings.Join([]string{
		hello, hello2,
		`{"jsonrpc":"2.0","id":2,"method":"no/such"}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"no_such"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":[]}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":6,"result":{}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"budget","arguments":[1]}}`,
		`{"jsonrpc":"2.0","id":8,"method":"tools/list","params":{"cursor":"x"}}`,
		budget,
	}, "\n"))
	for _, id := range []string{"2", "3", "4", "5", "7", "8"} {
		if !strings.Contains(got[id], "rror") {
			t.Errorf("%s: %s", id, got[id])
		}
	}
	if !strings.Contains(got[`"b"`], `"available":90`) {
		t.Errorf("not answered: %v", got)
	}
}

// endless is a line that does not end for long.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	e.left -= len(p)
	return len(p), nil // of bytes that are 0
}

// TestLongLine: of a line that is too long no more is kept than a message may have.
func TestLongLine(t *testing.T) {
	r := bufio.NewReaderSize(&endless{64 * maxMessage}, 64<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readLine(r)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, errTooLong) || used > 10*maxMessage {
		t.Errorf("%v, %d bytes", err, used)
	}
}

// TestClientGone: a client that dies ends the server, in the middle of an answer too.
func TestClientGone(t *testing.T) {
	o := answers(t)
	in, ours := io.Pipe()
	theirs, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), in, out, o) }()
	fmt.Fprintln(ours, hello+"\n"+hello2)
	_, err := theirs.Read(make([]byte, 10))
	must(t, err)
	theirs.CloseWithError(errors.New("killed"))
	if err := <-done; err == nil || !strings.Contains(err.Error(), "the client has gone") {
		t.Error(err)
	}
	ours.Close()

	// A signal ends it although the client says nothing.
	ctx, stop := context.WithCancel(t.Context())
	in, ours = io.Pipe()
	defer ours.Close()
	go func() { done <- Serve(ctx, in, io.Discard, o) }()
	fmt.Fprintln(ours, hello)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// FuzzLines: whatever a client writes, the server lives until the end of its input, and each
// line that it writes is a message.
func FuzzLines(f *testing.F) {
	server := newServer(answers(f))
	f.Add(budget)
	f.Add("{}\n[]\n" + budget)
	f.Add(budget + "\n" + budget)
	f.Add(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":7}}`)
	f.Add(`{"jsonrpc":"2.0","id":null,"method":"ping"}`)
	const request = `{"jsonrpc":"2.0","id":2,"method":"%s","params":{"name":"%s",%s}}`
	f.Add(fmt.Sprintf(request, "prompts/get", "weekly_review", `"arguments":{"project":"x y"}`))
	f.Add(fmt.Sprintf(request, "tools/call", "window", `"_meta":{"progressToken":[]},"arguments":{"limit":-1}`))
	f.Fuzz(func(t *testing.T, in string) {
		got := speak(t, server, hello+"\n"+hello2+"\n"+in+"\n"+`{"jsonrpc":"2.0","id":"last","method":"tools/list"}`)
		// An error is an answer too: the input may have cancelled the initialization.
		if got[`"last"`] == "" && !strings.Contains(in, `"last"`) {
			t.Fatalf("%q ended the server: %v", in, got)
		}
	})
}

// post sends a message to a handler, as a connection to an address of this machine.
func post(h http.Handler, local, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:9817/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, f := range change {
		f(r)
	}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey,
		&net.TCPAddr{IP: net.ParseIP(local), Port: 9817}))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

// TestHTTP: connections and requests that are answered, and those that are refused.
func TestHTTP(t *testing.T) {
	open, guarded := Handler(answers(t), nil), Handler(answers(t), func(r *http.Request) bool {
		return r.Header.Get("Authorization") != ""
	})
	credentials := func(r *http.Request) { r.SetBasicAuth("a", "b") }
	for name, tc := range map[string]struct {
		h      http.Handler
		local  string
		body   string
		change []func(*http.Request)
		code   int
		want   string
	}{
		"a program here":       {open, "127.0.0.1", budget, nil, 200, `"available":90`},
		"a program here, IPv6": {open, "::1", budget, nil, 200, `"available":90`},
		"from the network": {open, "192.0.2.7", budget, []func(*http.Request){host("192.0.2.7:9817")}, 403,
			"DOCGAUGE_WEB_CONFIG_FILE"},
		"from the network, with credentials": {guarded, "192.0.2.7", budget,
			[]func(*http.Request){host("docs.example"), credentials}, 200, `"available":90`},
		"from the network, without": {guarded, "192.0.2.7", budget, nil, 403, "basic_auth_users"},
		"too long": {open, "127.0.0.1", `{"x":"` + strings.Repeat("x", maxMessage) + `"}`, nil, 413,
			""},
		"nothing":    {open, "127.0.0.1", "", nil, 400, ""},
		"no JSON":    {open, "127.0.0.1", "hello", nil, 400, ""},
		"no message": {open, "127.0.0.1", "{}", nil, 400, ""},
		"a form": {open, "127.0.0.1", "a=b",
			[]func(*http.Request){func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }}, 415, ""},
	} {
		if w := post(tc.h, tc.local, tc.body, tc.change...); w.Code != tc.code ||
			!strings.Contains(w.Body.String(), tc.want) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestBusy: beyond so many requests at once others are refused, not kept.
func TestBusy(t *testing.T) {
	h := Handler(answers(t), nil).(*handler)
	for range maxRequests {
		h.places <- struct{}{}
	}
	if w := post(h, "127.0.0.1", budget); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// FuzzHTTP: a request of any shape has an answer.
func FuzzHTTP(f *testing.F) {
	h := Handler(answers(f), nil)
	f.Add(budget, "2025-06-18", "application/json")
	f.Add(hello, "2026-07-28", "application/json")
	f.Add("["+budget+","+budget+"]", "", "application/json")
	f.Fuzz(func(t *testing.T, body, version, kind string) {
		began := time.Now()
		w := post(h, "127.0.0.1", body, func(r *http.Request) {
			r.Header["Mcp-Protocol-Version"], r.Header["Content-Type"] = []string{version}, []string{kind}
		})
		if w.Code >= 500 || time.Since(began) > answerTimeout {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}
