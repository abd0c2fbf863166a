package remotewrite_test

import (
	"cmp"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/exporter/remotewrite"
)

// configured writes the files of a configuration and returns the path of http.yml.
func configured(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "http.yml")
}

// send sends one sample, by protocol 1.0 unless c has another.
func send(t *testing.T, c remotewrite.Receiver) (remotewrite.Summary, error) {
	t.Helper()
	c.Protocol = cmp.Or(c.Protocol, "1.0")
	w, err := remotewrite.New(c)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(w.Add(t.Context(), exporter.Sample{Labels: []string{"__name__", "x"}}), w.Close(t.Context()))
	return w.Summary(), err
}

// TestCredentials: the credentials of the file are sent, over TLS with its issuer.
func TestCredentials(t *testing.T) {
	var got http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	t.Cleanup(server.Close)
	issuer := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	const tls = "tls_config: {ca_file: ca.pem}\n"
	for yaml, want := range map[string]string{
		"basic_auth: {username: me, password_file: secret}\n":                         "Basic bWU6czNjcmV0Lw==",
		"authorization: {credentials_file: secret}\n":                                 "Bearer s3cret/",
		"bearer_token_file: secret\n":                                                 "Bearer s3cret/",
		"http_headers: {X-Scope-OrgID: {values: [docs]}, X-Key: {files: [secret]}}\n": "",
	} {
		file := configured(t, map[string]string{"http.yml": yaml + tls, "ca.pem": issuer, "secret": "s3cret/\n"})
		if _, err := send(t, remotewrite.Receiver{URL: server.URL + "/write", File: file}); err != nil ||
			got.Get("Authorization") != want {
			t.Errorf("%s: %v, %v", yaml, err, got)
		}
	}
	if got.Get("User-Agent") != "docgauge" || got.Get("X-Prometheus-Remote-Write-Version") != "0.1.0" {
		t.Error(got)
	}
	// Another issuer, which no retry mends.
	s, err := send(t, remotewrite.Receiver{URL: server.URL + "/write"})
	if err == nil || s.Requests != 1 || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%+v: %v", s, err)
	}
}

// TestProtocols: each protocol identifies itself, and a receiver that silently ignores
// 2.0 is detected.
func TestProtocols(t *testing.T) {
	var got http.Header
	written := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		if written != "" {
			w.Header().Set("X-Prometheus-Remote-Write-Samples-Written", written)
		}
	}))
	t.Cleanup(server.Close)
	for _, tc := range []struct{ protocol, written, version, kind, says string }{
		{"1.0", "", "0.1.0", "application/x-protobuf", ""},
		{"2.0", "1", "2.0.0", "application/x-protobuf;proto=io.prometheus.write.v2.Request", ""},
		{"2.0", "", "2.0.0", "application/x-protobuf;proto=io.prometheus.write.v2.Request",
			"does not receive protocol 2.0; use 1.0"},
	} {
		written = tc.written
		s, err := send(t, remotewrite.Receiver{URL: server.URL + "/write", Protocol: tc.protocol})
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) || s.Requests != 1 {
			t.Errorf("%+v: %+v, %v", tc, s, err)
		}
		if got.Get("X-Prometheus-Remote-Write-Version") != tc.version || got.Get("Content-Type") != tc.kind ||
			got.Get("Content-Encoding") != "snappy" {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

// TestFinalAnswers are not tried again; no error tells a secret, however the receiver
// quotes it, and each says where it was and what to do.
func TestFinalAnswers(t *testing.T) {
	for status, remedy := range map[int]string{
		http.StatusFound:                 "redirects are not followed",
		http.StatusTemporaryRedirect:     "redirects are not followed",
		http.StatusBadRequest:            "must accept the samples",
		http.StatusUnauthorized:          "must accept the credentials",
		http.StatusForbidden:             "must accept the credentials",
		http.StatusNotFound:              "--web.enable-remote-write-receiver",
		http.StatusRequestEntityTooLarge: "must accept the samples",
		http.StatusUnsupportedMediaType:  "--remote-write.protocol",
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			w.Write([]byte("you sent s3cret%2F, s3cret/ and bWU6czNjcmV0Lw==\n\x1b[31m, k3y " +
				strings.Repeat("long ", 100_000)))
		}))
		t.Cleanup(server.Close)
		file := configured(t, map[string]string{"http.yml": "basic_auth: {username: me, password: " +
			"s3cret/}\nhttp_headers: {X-Key: {secrets: [hid3k3y]}}"})
		_, err := send(t, remotewrite.Receiver{URL: server.URL + "/write", File: file})
		if err == nil || asked != 1 {
			t.Fatalf("%d: %v after %d requests", status, err, asked)
		}
		text := err.Error()
		if !strings.Contains(text, remedy) || !strings.Contains(text, "you sent …, … and …") ||
			!strings.HasPrefix(text, "remote write to "+strings.TrimPrefix(server.URL, "http://")+": HTTP ") {
			t.Error(text)
		}
		if strings.Contains(text, "s3cret") || strings.Contains(text, "bWU6") || len(text) > 600 ||
			strings.ContainsAny(text, "\n\x1b") {
			t.Error(text)
		}
	}
}

// TestLoginPage: an HTML page cannot be the answer of a receiver, whatever its status.
func TestLoginPage(t *testing.T) {
	for _, kind := range []string{"text/html; charset=utf-8", ""} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.Header()["Content-Type"] = slices.DeleteFunc([]string{kind}, func(s string) bool { return s == "" })
			w.Write([]byte("<!doctype html><title>Sign in</title>"))
		}))
		t.Cleanup(server.Close)
		_, err := send(t, remotewrite.Receiver{URL: server.URL + "/write"})
		if err == nil || asked != 1 || !strings.Contains(err.Error(), "HTML page") {
			t.Errorf("%q: %v after %d requests", kind, err, asked)
		}
	}
}

// TestEndlessAnswer is read for as long as it can matter.
func TestEndlessAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	if s, err := send(t, remotewrite.Receiver{URL: server.URL + "/write"}); err == nil || s.Requests != 1 ||
		!strings.Contains(err.Error(), "HTTP 400") {
		t.Errorf("%+v: %v", s, err)
	}
}

func TestMistakes(t *testing.T) {
	file := configured(t, map[string]string{"http.yml": "basic_auth: {username: me, password: s3cret}"})
	for _, tc := range []struct{ url, yaml, says string }{
		{"store:9090", "", "--remote-write: want a URL with scheme"},
		{"ftp://store/write", "", "want https:// or http://"},
		{"http://me:s3cret@store/write", "", "must not contain user or password"},
		{"http://me:s3 cret@store/write", "", "want a URL"},
		{"http://store:9090", "", "has no path; Prometheus receives at /api/v1/write"},
		{"http://store:9090/write#s3cret", "", "fragment"},
		{"http://store:9090/write", "basic_auth: {username: me, password: s3cret}", "in the clear to store; use https"},
		{"http://store:9090/write", "authorization: {credentials: s3cret}", "in the clear"},
		{"http://store:9090/write", "http_headers: {X-Key: {secrets: [s3cret]}}", "in the clear"},
		{"http://store:9090/write", "basic_auth: s3cret", "want the fields of remote_write"},
		{"http://store:9090/write", "basic_auth: {passwrod: s3cret}", "passwrod"},
		{"http://store:9090/write", "a: [s3cret", "http.yml"},
		{"https://store:9090/write", "basic_auth: {username: me, password_file: nowhere}", "nowhere: no such file"},
		{"https://store:9090/write", "basic_auth: {username: me, password_file: .}", "is a directory"},
		{"https://store:9090/write", "tls_config: {ca_file: nowhere}", "nowhere: no such file"},
		{"https://store:9090/write", "tls_config: {ca_file: http.yml}", "--remote-write.config.file: "},
		{"https://store:9090/write", "basic_auth: {username: a}\nauthorization: {credentials: s3cret}",
			"at most one of"},
	} {
		c := remotewrite.Receiver{URL: tc.url, Protocol: "1.0"}
		if tc.yaml != "" {
			c.File = configured(t, map[string]string{"http.yml": tc.yaml})
		}
		if _, err := remotewrite.New(c); err == nil || !strings.Contains(err.Error(), tc.says) ||
			strings.Contains(err.Error(), "3cret") {
			t.Errorf("%s with %s: %v, want %s", tc.url, tc.yaml, err, tc.says)
		}
	}
	for _, c := range []remotewrite.Receiver{
		{URL: "http://127.0.0.1:9090/write", File: file, Protocol: "2.0"},
		{URL: "http://[::1]/write", File: file, Protocol: "1.0"},
		{URL: "http://store/write?tenant=a", Protocol: "1.0"},
	} {
		if _, err := remotewrite.New(c); err != nil {
			t.Error(err)
		}
	}
	if _, err := remotewrite.New(remotewrite.Receiver{URL: "http://store/write", Protocol: "3"}); err == nil ||
		!strings.Contains(err.Error(), "want 1.0 or 2.0") {
		t.Error(err)
	}
	if _, err := remotewrite.New(remotewrite.Receiver{URL: "http://store/write", Protocol: "1.0",
		File: "nowhere.yml"}); err == nil || !strings.Contains(err.Error(), "nowhere.yml: no such file") {
		t.Error(err)
	}
}
