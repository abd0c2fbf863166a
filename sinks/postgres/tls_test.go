package postgres

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// encrypt lets a server speak TLS, with a certificate for 127.0.0.1 that is its own CA,
// whose file it returns.
func encrypt(t *testing.T, e *engines.Postgres) (ca string) {
	t.Helper()
	ca, key := sinktest.Certificate(t)
	for from, to := range map[string]string{ca: "server.crt", key: "server.key"} {
		data, err := os.ReadFile(from)
		path := filepath.Join(e.Data(), to)
		check(t, errors.Join(err, os.WriteFile(path, data, 0o600), e.Give(path)))
	}
	c := connect(t, e.DSN("postgres"))
	c.must("ALTER SYSTEM SET ssl = on")
	c.must("SELECT pg_reload_conf()")
	c.until("SELECT setting = 'on' FROM pg_settings WHERE name = 'ssl'")
	return ca
}

// TestTLS has a server with a self-signed certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	e := engines.RunPostgres(t, debian)
	plain := e.DSN("postgres")
	with := func(parameters string) string { return strings.Replace(plain, "sslmode=disable", parameters, 1) }
	refused(t, with("sslmode=require"), "does not speak TLS", "sslmode")
	ca := encrypt(t, e)
	other := filepath.Join(t.TempDir(), "other.pem")
	check(t, os.WriteFile(other, []byte("no certificate"), 0o600))
	r := reader{connect(t, plain)}
	for i, tc := range []struct {
		parameters string
		encrypted  bool
	}{
		{"sslmode=disable", false}, {"sslmode=allow", false}, {"sslmode=prefer", true}, {"sslmode=require", true},
		{"connect_timeout=10", true},
		{"sslmode=verify-ca&sslrootcert=" + ca, true}, {"sslmode=verify-full&sslrootcert=" + ca, true},
	} {
		s := open(t, with(tc.parameters)+"&application_name=tls")
		shows(t, s, r, windowOf(i, 1, 30))
		if got := value[bool](r.client, "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE "+
			"application_name = 'tls'"); got != tc.encrypted {
			t.Errorf("%q: encrypted %t", tc.parameters, got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		r.until("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'tls'")
	}
	refused(t, with("sslmode=verify-full"), "certificate is not trusted", "sslrootcert")
	refused(t, strings.Replace(with("sslmode=verify-full&sslrootcert="+ca), "127.0.0.1", "localhost", 1),
		"not for this host", "sslrootcert")
	if _, err := New(Options{DSN: with("sslmode=verify-full&sslrootcert=" + other), Now: time.Now}); err == nil ||
		!strings.Contains(err.Error(), "sslrootcert") {
		t.Errorf("a file without a certificate: %v", err)
	}
}
