package cli

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/web/server"
)

// probed is bcrypt, cost 4, of let-me-in, for the user probe.
const probed = "basic_auth_users: {probe: $2a$04$/1KeK6hcXbYwA9IGA76BE.eZJZh0qUuzcTftY6r.EPV4I6tPpABnS}\n"

// withIPv6 skips the test where the machine has no loopback of it.
func withIPv6(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("NOT TESTED: no IPv6 on this machine: %v", err)
	}
	l.Close()
}

// listening serves the probes on the given host until the test ends, and points
// the environment at it.
func listening(t *testing.T, host, webConfig string, reasons ...string) {
	t.Helper()
	dir := t.TempDir()
	file := ""
	if webConfig != "" {
		engines.Certificate(t, dir)
		file = filepath.Join(dir, "web.yml")
		writeText(t, file, webConfig)
	}
	s, err := server.Listen(server.Options{Addresses: []string{net.JoinHostPort(host, "0")}, WebConfigFile: file,
		Ready: func() []string { return reasons }})
	check(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	port := s.URL()[strings.LastIndex(s.URL(), ":")+1:]
	t.Setenv("DOCGAUGE_LISTEN_ADDRESS", net.JoinHostPort(host, port))
	t.Setenv("DOCGAUGE_WEB_CONFIG_FILE", file)
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(text), 0o600))
}

// says runs healthcheck and compares its exit code and the one line it prints.
func says(t *testing.T, code int, want string, flags ...string) {
	t.Helper()
	var out, errors bytes.Buffer
	got := newProgram(&out, &errors, nil).Run(t.Context(),
		append([]string{"healthcheck", "--timeout", testbed.Patience.String()}, flags...))
	text := out.String() + errors.String()
	if got != code || !strings.Contains(text, want) || code != exitUsage && strings.Count(text, "\n") != 1 {
		t.Errorf("healthcheck %v: exit %d, %q; want exit %d and one line with %q", flags, got, text, code, want)
	}
}

func TestHealthcheck(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "0.0.0.0", "", "::"} {
		t.Run("host "+host, func(t *testing.T) {
			if host == "::" {
				withIPv6(t)
			}
			listening(t, host, "")
			t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
			says(t, exitDone, "ok\n")
			says(t, exitDone, "ready\n", "--ready")
		})
	}
	t.Run("not ready", func(t *testing.T) {
		listening(t, "127.0.0.1", "", "state: gone", "sink parquet: full")
		says(t, exitDone, "ok\n")
		says(t, exitFailed, "/readyz of 127.0.0.1:", "--ready")
		says(t, exitFailed, "503: state: gone; sink parquet: full\n", "--ready")
		listening(t, "127.0.0.1", "", "state: \x1b]0;gone\a")
		says(t, exitFailed, "503: state: \ufffd]0;gone\ufffd\n", "--ready")
	})
}

func TestHealthcheckWebConfig(t *testing.T) {
	const tls = "tls_server_config: {cert_file: tls.crt, key_file: tls.key"
	credentials := filepath.Join(t.TempDir(), "probe")
	writeText(t, credentials, "probe:let-me-in\n")
	wrong := filepath.Join(t.TempDir(), "wrong")
	writeText(t, wrong, "probe:let-me-out\n")
	t.Run("tls", func(t *testing.T) {
		listening(t, "127.0.0.1", tls+"}\n")
		says(t, exitDone, "ready\n", "--ready")
	})
	t.Run("client certificates", func(t *testing.T) {
		listening(t, "127.0.0.1", tls+", client_auth_type: RequireAnyClientCert}\n")
		says(t, exitDone, "alive; serve wants a client certificate\n")
		says(t, exitFailed, "certificate", "--ready")
	})
	for _, prefix := range []string{"", tls + "}\n"} {
		t.Run("users "+prefix, func(t *testing.T) {
			listening(t, "127.0.0.1", prefix+probed)
			says(t, exitDone, "alive; serve wants a user\n")
			says(t, exitFailed, "401: serve wants a user that it knows", "--ready")
			says(t, exitDone, "ready\n", "--ready", "--credentials", credentials)
			says(t, exitFailed, "401", "--credentials", wrong)
		})
	}
}

func TestHealthcheckNobody(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	t.Setenv("DOCGAUGE_LISTEN_ADDRESS", l.Addr().String())
	says(t, exitFailed, "deadline exceeded", "--timeout", "100ms")
	check(t, l.Close())
	says(t, exitFailed, "connection refused")
}

// TestHealthcheckElsewhere: a redirect is not followed to another place.
func TestHealthcheckElsewhere(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	check(t, err)
	stranger := &http.Server{Handler: http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound)}
	go func() { _ = stranger.Serve(l) }()
	t.Cleanup(func() { _ = stranger.Close() })
	t.Setenv("DOCGAUGE_LISTEN_ADDRESS", l.Addr().String())
	says(t, exitFailed, "302")
}

func TestHealthcheckUsage(t *testing.T) {
	t.Setenv("DOCGAUGE_LISTEN_ADDRESS", "127.0.0.1:0")
	says(t, exitUsage, "port 0 is any free port")
	t.Setenv("DOCGAUGE_LISTEN_ADDRESS", "127.0.0.1")
	says(t, exitUsage, "want host:port")
	t.Setenv("DOCGAUGE_LISTEN_ADDRESS", "127.0.0.1:9817")
	says(t, exitUsage, "want more than 0", "--timeout", "0s")
	says(t, exitUsage, "takes no arguments", "now")
	says(t, exitUsage, "no such file", "--credentials", "/does/not/exist")
	file := filepath.Join(t.TempDir(), "probe")
	writeText(t, file, "only-a-password\n")
	says(t, exitUsage, "want one line, user:password", "--credentials", file)
}
