package server

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// hash is bcrypt, cost 4, of password.
const (
	password = "let-me-in"
	hash     = "$2a$04$/1KeK6hcXbYwA9IGA76BE.eZJZh0qUuzcTftY6r.EPV4I6tPpABnS"
	users    = "basic_auth_users:\n  prometheus: " + hash + "\n"
	withTLS  = "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n"
)

// webConfig writes a web configuration, with a certificate and its key beside it.
func webConfig(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	engines.Certificate(t, dir)
	file := filepath.Join(dir, "web.yml")
	write(t, file, text)
	return file
}

func write(t *testing.T, file, text string) { must(t, os.WriteFile(file, []byte(text), 0o600)) }

func TestBadWebConfig(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"not yaml":                 {"tls_server_config: [", "yaml:"},
		"unknown key":              {"tls_sever_config: {}\n", "field tls_sever_config not found"},
		"no certificate":           {"tls_server_config:\n  key_file: tls.key\n", "missing one of cert or cert_file"},
		"certificate is not there": {strings.Replace(withTLS, "tls.crt", "other.crt", 1), "other.crt): open "},
		"key is not a key":         {strings.Replace(withTLS, "tls.key", "tls.crt", 1), "rather than a key"},
		"plain password":           {"basic_auth_users:\n  prometheus: hunter2\n", "not a bcrypt hash"},
		"short password": {
			"basic_auth_users:\n  prometheus: " + strings.Repeat("hunter2", 9) + "\n", "not a bcrypt hash",
		},
		"password at the wrong place": {"basic_auth_users: hunter2\n", "cannot unmarshal !!str [redacted] into"},
		"password with the quote":     {"basic_auth_users: \"`hunter2\"\n", "cannot unmarshal !!str [redacted] into"},
		"header":                      {"http_server_config:\n  headers:\n    X-Mine: 1\n", "can not be configured"},
		// The toolkit would read all of it.
		"too large": {"#" + strings.Repeat("hunter2", 10<<10), "larger than 64 KiB"},
		"no file":   {"", "no such file"},
		"a folder":  {"", "is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			file := webConfig(t, tc.text)
			switch name {
			case "no file":
				must(t, os.Remove(file))
			case "a folder":
				file = filepath.Dir(file)
			}
			_, err := Listen(Options{Addresses: []string{"127.0.0.1:0"}, WebConfigFile: file})
			if !isConfig(err, "DOCGAUGE_WEB_CONFIG_FILE", file, tc.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%v, want a ConfigError on one line that says %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "hunter") {
				t.Errorf("%v prints a password", err)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	answer := large[:1<<20] // many TLS records
	for name, tc := range map[string]struct {
		text  string
		proto int
	}{"http/2": {withTLS, 2}, "http/1.1": {withTLS + "http_server_config:\n  http2: false\n", 1}} {
		t.Run(name, func(t *testing.T) {
			file := webConfig(t, tc.text)
			r := start(t, Options{WebConfigFile: file, Addresses: []string{":0"}, Handlers: map[string]http.Handler{
				"/metrics": says(answer),
			}})
			if !strings.HasPrefix(r.URL(), "https://127.0.0.1:") {
				t.Errorf("URL is %s", r.URL())
			}
			trust(t, r, file)
			resp, body := r.do(t, "GET", "/metrics")
			if resp.StatusCode != http.StatusOK || body != answer || resp.ProtoMajor != tc.proto {
				t.Errorf("%d with %d bytes by %s", resp.StatusCode, len(body), resp.Proto)
			}
			wantHeaders(t, "over TLS", resp)
			wantQuiet(t, r)
		})
	}
}

// trust makes the client accept the certificate of the server and no other.
func trust(t *testing.T, r *running, file string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(file), "tls.crt"))
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	r.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool}
	r.client.CloseIdleConnections()
}

func TestCertificateIsReloaded(t *testing.T) {
	file := webConfig(t, withTLS)
	r := start(t, Options{WebConfigFile: file})
	r.do(t, "GET", "/healthz")
	engines.Certificate(t, filepath.Dir(file))
	trust(t, r, file)
	r.do(t, "GET", "/healthz") // on a new connection, with the new certificate
	wantQuiet(t, r)
}

func TestFailedHandshakes(t *testing.T) {
	file := webConfig(t, withTLS)
	r := start(t, Options{WebConfigFile: file})
	resp, err := http.Get("http://" + r.listeners[0].Addr().String() + "/healthz")
	must(t, err)
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "HTTPS server") {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	until(t, "the handshake is logged", func() bool {
		return strings.Contains(r.log.String(), "tls handshake broken off")
	})
	wantQuiet(t, r) // a client's fault

	write(t, filepath.Join(filepath.Dir(file), "tls.key"), "half a ke")
	if resp, err := r.client.Get(r.URL() + "/healthz"); err == nil {
		resp.Body.Close()
		t.Error("served with a broken key")
	}
	until(t, "our own fault is logged", func() bool {
		log := r.log.String()
		return strings.Contains(log, `level=ERROR msg="no tls connection possible"`) && strings.Contains(log, file)
	})
}

func TestBasicAuth(t *testing.T) {
	file := webConfig(t, users)
	r := start(t, Options{WebConfigFile: file, Addresses: []string{":0"}, Handlers: map[string]http.Handler{
		"/metrics": says("metrics"),
	}})
	as := func(user, pass string) func(*http.Request) {
		return func(req *http.Request) { req.SetBasicAuth(user, pass) }
	}
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/nothing"} {
		for _, login := range []func(*http.Request){
			func(*http.Request) {}, as("prometheus", "wrong"), as("root", password),
		} {
			resp, body := r.do(t, "GET", path, login)
			if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: %d %q, want 401", path, resp.StatusCode, body)
			}
			wantHeaders(t, "401 of "+path, resp)
		}
	}
	resp, body := r.do(t, "GET", "/metrics", as("prometheus", password))
	if resp.StatusCode != http.StatusOK || body != "metrics" {
		t.Errorf("%d %q with the password", resp.StatusCode, body)
	}
	wantQuiet(t, r)
}

func TestUsersAreReloaded(t *testing.T) {
	file := webConfig(t, users)
	r := start(t, Options{WebConfigFile: file})
	write(t, file, "basic_auth_users: hunter2\n")
	resp, body := r.do(t, "GET", "/healthz")
	if resp.StatusCode != http.StatusInternalServerError || strings.Contains(body, "hunter") {
		t.Errorf("%d %q with a broken file, want 500", resp.StatusCode, body)
	}
	log := r.log.String()
	if !strings.Contains(log, `level=ERROR msg="unable to parse configuration"`) ||
		!strings.Contains(log, "[redacted]") || strings.Contains(log, "hunter") {
		t.Errorf("want the broken file in the log, without its values:\n%s", log)
	}
	write(t, file, "{}\n")
	if resp, _ := r.do(t, "GET", "/healthz"); resp.StatusCode != http.StatusOK {
		t.Errorf("%d without users, want 200", resp.StatusCode)
	}
}

func TestUsesTLS(t *testing.T) {
	for text, want := range map[string]bool{withTLS: true, users: false, withTLS + users: true, "": false} {
		if got, err := UsesTLS(webConfig(t, text)); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if got, err := UsesTLS(""); got || err != nil {
		t.Errorf("no file: %v, %v", got, err)
	}
}

func TestIsLoopback(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true,
		"127.9.9.9:0": true, ":1": false, "0.0.0.0:1": false, "[::]:1": false, "192.0.2.1:1": false, "docs:1": false} {
		if IsLoopback(address) != want {
			t.Errorf("%s: %v", address, !want)
		}
	}
}

// TestCredentials: the credentials of a request are checked against the present content of the file.
func TestCredentials(t *testing.T) {
	file := webConfig(t, users)
	proves, err := Credentials(file)
	must(t, err)
	named := &http.Request{Header: http.Header{}}
	named.SetBasicAuth("prometheus", password)
	byCertificate := &http.Request{TLS: &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{}}}}
	for text, want := range map[string]bool{
		users: true, withTLS + users: true, "basic_auth_users: {}\n": false, "basic_auth_users:\n": false, "{}": false,
		"http_server_config: {http2: false}\n": false, withTLS: false, "basic_auth_users: hunter2\n": false,
		"{basic_auth_users: {prometheus: " + hash + "}}": true,
	} {
		write(t, file, text)
		if got := proves(named); got != want {
			t.Errorf("%q: a request with a name: %t, want %t", text, got, want)
		}
		if proves(&http.Request{TLS: &tls.ConnectionState{}}) || !proves(byCertificate) {
			t.Errorf("%q: without a name, or by certificate", text)
		}
	}
	if proves, err := Credentials(""); err != nil || proves(named) || proves(&http.Request{}) {
		t.Errorf("no file: %v", err)
	}
}
