package ingest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/docgauge/docgauge/internal/site/logs"
)

const key = "dgs_ingest"

// testHost is a host, and what it has brought.
type testHost struct {
	*Handler
	t     *testing.T
	taken []string
	log   bytes.Buffer
}

func newTestHost(t *testing.T) *testHost {
	h := &testHost{t: t}
	sources, err := logs.ParseSources("prj_a=http:edge,prj_b=http:other,http:both,access.log")
	check(t, err)
	secrets, err := ParseSecrets("edge=vercel-secret, edge:verify=vercel-token, both:service=SU1, other:service=SU2",
		sources)
	check(t, err)
	keys := map[string]Credential{key: {"ingest", "prj_a", ""}, "dgs_read": {"read", "prj_a", ""},
		"dgs_admin": {"admin", "prj_a", ""}, "dgs_both": {"ingest", "", "both"}, "dgs_gone": {"ingest", "prj_a", "gone"}}
	h.Handler = NewHandler(Options{Sources: sources, Projects: []string{"prj_a", "prj_b"}, Secrets: secrets,
		Logger: slog.New(slog.NewTextHandler(&h.log, nil)),
		FindKey: func(_ context.Context, digest [sha256.Size]byte) (Credential, bool, error) {
			for secret, c := range keys {
				if sha256.Sum256([]byte(secret)) == digest {
					return c, true, nil
				}
			}
			return Credential{}, false, nil
		},
		Take: func(_ context.Context, b *Body) (Taken, error) {
			text, err := io.ReadAll(b.Reader())
			h.taken = append(h.taken, fmt.Sprint(b.Source, " ", string(text)))
			return Taken{Lines: 1}, err
		}})
	return h
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// post answers a body, with headers as name: value.
func (h *testHost) post(path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// gzipped packs a text so many times, one member after the other.
func gzipped(t *testing.T, text string, times int) string {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := io.WriteString(z, text)
	check(t, err)
	check(t, z.Close())
	return strings.Repeat(packed.String(), times)
}

// zstandard is gzipped with frames of zstd.
func zstandard(t *testing.T, text string, times int, o ...zstd.EOption) string {
	z, err := zstd.NewWriter(nil, append(o, zstd.WithEncoderConcurrency(1))...)
	check(t, err)
	return strings.Repeat(string(z.EncodeAll([]byte(text), nil)), times)
}

// TestBodies: what each form of a body brings.
func TestBodies(t *testing.T) {
	const one, two = `{"a":1}`, `{"a":"}{\\\"","b":{"c":[2]}}`
	lines := one + "\n" + two + "\n"
	for _, tc := range []struct{ name, body, headers, want string }{
		{"NDJSON", lines, "", lines},
		{"without the last line's end", one + "\n" + two, "Content-Type: application/x-ndjson", one + "\n" + two},
		{"array", " [" + one + ",\n " + two + "]\n", "Content-Type: application/json", lines},
		{"array after a byte order mark", "\ufeff[" + one + "]", "", one + "\n"},
		{"gzip", gzipped(t, lines, 1), "Content-Encoding: gzip", lines},
		{"array in gzip", gzipped(t, "["+one+","+two+"]", 1), "Content-Encoding: GZIP", lines},
		{"zstd", zstandard(t, lines, 1), "Content-Encoding: zstd", lines},
		{"gzip that is not named", gzipped(t, lines, 1), "", lines},
		{"identity", lines, "Content-Encoding: identity", lines},
		{"plain lines", "1.2.3.4 - - [x]\n", "Content-Type: text/plain; charset=utf-8", "1.2.3.4 - - [x]\n"},
		{"several blocks", strings.Repeat(lines, 20_000), "", strings.Repeat(lines, 20_000)},
	} {
		h := newTestHost(t)
		w := h.post("/v1/ingest/edge", tc.body, "Authorization: Bearer "+key, tc.headers)
		if got := strings.Join(h.taken, "|"); w.Code != http.StatusOK || got != "0 "+tc.want {
			t.Errorf("%s: %d %s, %.100q", tc.name, w.Code, w.Body, got)
		}
		if n := h.memory.taken.Load(); n != 0 {
			t.Errorf("%s: %d bytes are not free", tc.name, n)
		}
	}
}

// TestHostileBodies: each hostile request has its refusal, and has taken no more memory than a line and a block.
func TestHostileBodies(t *testing.T) {
	const bearer = "Authorization: Bearer " + key
	deep := func(open string, n int) string { return `{"a":` + strings.Repeat(open, n) }
	long := strings.Repeat("a", maxLine+1)
	zeros := strings.Repeat("a", 1<<20)
	cut := func(text string) string { return text[:len(text)-4] }
	for _, tc := range []struct {
		name, body, headers string
		want                int
	}{
		{"too long as sent", strings.Repeat("x\n", maxPacked/2+1), "", 413},
		{"a line of 1 GiB in gzip", gzipped(t, zeros, 1024), "Content-Encoding: gzip", 413},
		{"a line of 1 GiB in zstd", zstandard(t, zeros, 1024), "Content-Encoding: zstd", 413},
		{"1 GiB of empty lines in gzip", gzipped(t, strings.Repeat("\n", 1<<20), 1024), "Content-Encoding: gzip", 413},
		{"1 GiB of spaces in an array", gzipped(t, `[{"a":1}`+strings.Repeat(" ", 1<<20), 1024), "Content-Encoding: gzip",
			413},
		{"1 GiB of small lines", gzipped(t, strings.Repeat(`{"a":1}`+"\n", 1<<17), 1024), "Content-Encoding: gzip", 413},
		{"gzip in gzip", gzipped(t, gzipped(t, zeros, 64), 1), "Content-Encoding: gzip", 200}, // a line that is unparsed
		{"zstd with a large window", zstandard(t, strings.Repeat(zeros, 20), 1, zstd.WithWindowSize(64<<20)),
			"Content-Encoding: zstd", 400},
		{"a long line", long, "", 413},
		{"a long line in an array", `[{"a":"` + long + `"}]`, "", 413},
		{"a long line at the end", "x\n" + long, "", 413},
		{"deep arrays", deep("[", maxDepth+1), "", 400},
		{"deep objects", deep(`{"a":`, maxDepth), "", 400},
		{"deep in an array", "[" + deep("[", maxDepth+1) + strings.Repeat("]", maxDepth+1) + "}]", "", 400},
		{"a million brackets", deep("[", 1<<19), "", 400},
		{"brackets in a text", `{"a":"` + strings.Repeat("[", 1000) + `"}`, "", 200},
		{"brackets after a quoted quote", `{"a":"\"` + strings.Repeat("[", 1000) + `"}`, "", 200},
		{"many shallow values", `{"a":[` + strings.Repeat("[],", 1000) + `[]]}`, "", 200},
		{"no gzip", "x\n", "Content-Encoding: gzip", 400},
		{"no zstd", "x\n", "Content-Encoding: zstd", 400},
		{"cut gzip", cut(gzipped(t, "x\n", 1)), "Content-Encoding: gzip", 400},
		{"cut zstd", cut(zstandard(t, "x\n", 1)), "Content-Encoding: zstd", 400},
		{"gzip and more", gzipped(t, "x\n", 1) + "more", "Content-Encoding: gzip", 400},
		{"empty gzip", "", "Content-Encoding: gzip", 400},
		{"brotli", "x\n", "Content-Encoding: br", 415},
		{"deflate", "x\n", "Content-Encoding: deflate", 415},
		{"gzip twice", "x\n", "Content-Encoding: gzip, gzip", 415},
		{"xz", "\xfd7zXZ\x00", "", 415},
		{"bzip2", "BZh91AY", "", 415},
		{"lz4", "\x04\x22\x4d\x18xx", "", 415},
		{"multipart", "x", "Content-Type: multipart/form-data; boundary=x", 415},
		{"an XML file", "<a/>", "Content-Type: text/xml", 415},
		{"HTML", "<p>", "Content-Type: text/html", 415},
		{"an image", "x", "Content-Type: image/png", 415},
		{"no media type", "x", "Content-Type: ;;", 415},
		{"a slash more", "x", "PATH: /v1/ingest/edge/x", 404},
		{"no name", "x", "PATH: /v1/ingest/", 404},
		{"no such source", "x", "PATH: /v1/ingest/none", 404},
		{"a source of another project", "x", "PATH: /v1/ingest/other", 404},
		{"a source of several projects", "x", "PATH: /v1/ingest/both", 404},
		{"a file", "x", "PATH: /v1/ingest/access.log", 404},
		{"no key", "x", "KEY: ", 401},
		{"no scheme", "x", "KEY: Authorization: " + "x", 401},
		{"no such key", "x", "KEY: Authorization: Bearer dgs_none", 401},
		{"two keys", "x", "X-Docgauge-Key: " + key, 401},
		{"a key of scope read", "x", "KEY: Authorization: Bearer dgs_read", 403},
		{"a key of scope admin", "x", "KEY: Authorization: Bearer dgs_admin", 403},
		{"a key of another source", "x", "KEY: Authorization: Bearer dgs_both", 404},
		{"a key of a source that is gone", "x", "KEY: Authorization: Bearer dgs_gone", 404},
		{"a signature for a source without a secret", "x", "KEY: X-Vercel-Signature: 00", 401},
	} {
		h := newTestHost(t)
		path, headers := "/v1/ingest/edge", []string{bearer, tc.headers}
		if p, ok := strings.CutPrefix(tc.headers, "PATH: "); ok {
			path, headers = p, headers[:1]
		}
		if k, ok := strings.CutPrefix(tc.headers, "KEY: "); ok {
			headers = []string{k}
			if strings.HasPrefix(k, "X-Vercel") {
				path = "/v1/ingest/both"
			}
		}
		w := h.post(path, tc.body, headers...)
		var refused struct{ Error string }
		if w.Code != tc.want || json.Unmarshal(w.Body.Bytes(), &refused) != nil || (refused.Error == "") != (tc.want == 200) {
			t.Errorf("%s: %d %s, want %d", tc.name, w.Code, w.Body, tc.want)
		}
		if tc.want != 200 && len(h.taken) > 0 || h.memory.taken.Load() != 0 {
			t.Errorf("%s: %d bodies are taken, %d bytes", tc.name, len(h.taken), h.memory.taken.Load())
		}
		if strings.Contains(w.Body.String(), key) || h.log.Len() > 0 {
			t.Errorf("%s: %s, %s", tc.name, w.Body, h.log.String())
		}
	}
	for name, packed := range map[string]string{"gzip": gzipped(t, zeros, 1024), "zstd": zstandard(t, zeros, 1024)} {
		b := &Body{memory: &memory{}}
		if err := b.read(strings.NewReader(packed), name); !errors.Is(err, errLongLine) || b.size > maxLine+blockSize {
			t.Errorf("%s: %v after %d bytes", name, err, b.size)
		}
	}
	h := newTestHost(t)
	r := httptest.NewRequest(http.MethodPut, "/v1/ingest/other", nil)
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
		t.Errorf("PUT: %d", w.Code)
	}
}

// TestKeys: the headers that have a key, and what it opens.
func TestKeys(t *testing.T) {
	for _, tc := range []struct{ path, header, want string }{
		{"edge", "Authorization: Bearer " + key, "0 x"},
		{"edge", "Authorization: bearer " + key, "0 x"},
		{"edge", "X-Docgauge-Key: " + key, "0 x"},
		{"edge", "Authorization: Basic dXNlcjpkZ3NfaW5nZXN0", "0 x"}, // user:dgs_ingest
		{"edge", "Authorization: " + key, "0 x"},
		{"both", "Authorization: Bearer dgs_both", "2 x"},
	} {
		h := newTestHost(t)
		w := h.post("/v1/ingest/"+tc.path, "x", tc.header)
		if got := strings.Join(h.taken, "|"); w.Code != http.StatusOK || got != tc.want {
			t.Errorf("%s: %d %s, %q", tc.header, w.Code, w.Body, got)
		}
	}
}

// TestHandshakes: what hosts ask before they send lines, and Vercel's signature.
func TestHandshakes(t *testing.T) {
	h := newTestHost(t)
	sign := func(body string) string {
		mac := hmac.New(sha1.New, []byte("vercel-secret"))
		mac.Write([]byte(body))
		return "X-Vercel-Signature: " + hex.EncodeToString(mac.Sum(nil))
	}
	packed := gzipped(t, "x", 1)
	for _, tc := range []struct {
		name, body string
		headers    []string
		want, n    int
	}{
		{"a signed body", "x", []string{sign("x")}, 200, 1},
		{"a signed body in gzip", packed, []string{sign(packed), "Content-Encoding: gzip"}, 200, 2},
		{"the signature of another body", "x", []string{sign("y")}, 403, 2},
		{"no signature", "x", []string{"X-Vercel-Signature: zz"}, 403, 2},
		{"Vercel's first request", "", nil, 200, 2},
		{"lines without a key", "x", nil, 401, 2},
		{"Logpush's test", gzipped(t, `{"content":"tests"}`+"\n", 1),
			[]string{"Content-Encoding: gzip", "X-Docgauge-Key: " + key}, 200, 2},
		{"Logpush's test without a key", gzipped(t, `{"content":"tests"}`, 1), []string{"Content-Encoding: gzip"}, 401, 2},
	} {
		w := h.post("/v1/ingest/edge", tc.body, tc.headers...)
		if w.Code != tc.want || len(h.taken) != tc.n || w.Header().Get("X-Vercel-Verify") != "vercel-token" {
			t.Errorf("%s: %d %s, %d taken, %v", tc.name, w.Code, w.Body, len(h.taken), w.Header())
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/.well-known/fastly/logging/challenge", nil))
	// sha256sum of SU2 and SU1
	want := fmt.Sprintf("%x\n%x\n", sha256.Sum256([]byte("SU2")), sha256.Sum256([]byte("SU1")))
	if w.Code != http.StatusOK || w.Body.String() != want {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	for _, bad := range []string{"edge", "edge=", "none=x", "edge:what=x", "access.log=x"} {
		sources := h.Sources
		if _, err := ParseSecrets(bad, sources); err == nil || strings.Contains(err.Error(), "=x") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if none := NewHandler(Options{Sources: h.Sources[3:]}); none != nil {
		t.Error("a site without a source http:NAME takes lines")
	}
}

// TestConnections: bodies of wrong lengths are refused, also by an answer to who sends the whole body first, and senders
// that stop in the middle hold up neither other senders nor what else is answered at the address.
func TestConnections(t *testing.T) {
	h := newTestHost(t)
	server := httptest.NewServer(Before(h, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "API")
	})))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	send := func(text string) net.Conn {
		c, err := net.Dial("tcp", address)
		check(t, err)
		_, err = io.WriteString(c, "POST /v1/ingest/edge HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+key+"\r\n"+text)
		check(t, err)
		return c
	}
	for name, text := range map[string]string{
		"shorter than its length":  "Content-Length: 100\r\n\r\nx\n",
		"no chunk":                 "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
		"a chunk that is cut":      "Transfer-Encoding: chunked\r\n\r\n10\r\nx\n",
		"no number as its length":  "Content-Length: x\r\n\r\n",
		"a length below zero":      "Content-Length: -1\r\n\r\n",
		"two lengths":              "Content-Length: 2\r\nContent-Length: 3\r\n\r\nx\n",
		"an unknown transfer code": "Transfer-Encoding: gzip\r\n\r\nx\n",
		"too long":                 "Content-Length: 33554432\r\n\r\n" + strings.Repeat("x\n", 16<<20),
		"a line that is too long":  "Content-Length: 16777216\r\n\r\n" + strings.Repeat("x", 16<<20),
	} {
		c := send(text)
		check(t, c.(*net.TCPConn).CloseWrite())
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || answer.StatusCode < 400 || answer.StatusCode > 501 {
			t.Errorf("%s: %v, %v", name, answer, err)
		}
		check(t, c.Close())
	}
	if len(h.taken) > 0 {
		t.Fatalf("taken: %q", h.taken)
	}
	var slow []net.Conn
	for range 100 {
		slow = append(slow, send("Content-Length: 100\r\n\r\nx\n"))
	}
	for len(h.inFlight) < 100 { // they are being read
		answer, err := http.Get(server.URL + "/v1/analytics")
		check(t, err)
		text, err := io.ReadAll(answer.Body)
		if check(t, err); string(text) != "API" {
			t.Fatalf("%s", text)
		}
	}
	r, err := http.NewRequest(http.MethodPost, server.URL+"/v1/ingest/edge", strings.NewReader("y\n"))
	check(t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	answer, err := http.DefaultClient.Do(r)
	if check(t, err); answer.StatusCode != http.StatusOK || len(h.taken) != 1 {
		t.Errorf("%v, %q", answer, h.taken)
	}
	for range maxInFlight - 100 {
		h.inFlight <- struct{}{}
	}
	w := h.post("/v1/ingest/edge", "x", "Authorization: Bearer "+key)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("one too many: %d", w.Code)
	}
	for range maxInFlight - 100 {
		<-h.inFlight
	}
	h.memory.taken.Add(maxMemory)
	if w := h.post("/v1/ingest/edge", "x", "Authorization: Bearer "+key); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without memory: %d", w.Code)
	}
	for _, c := range slow {
		check(t, c.Close())
	}
}
