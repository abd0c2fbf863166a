package cli

import (
	"crypto/tls"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestSiteServeBeyondLoopback: with TLS it may listen on every address; behind proxies nobody else gets
// a byte.
func TestSiteServeBeyondLoopback(t *testing.T) {
	t.Parallel()
	withTLS := "DOCGAUGE_WEB_CONFIG_FILE=web.yml"
	for name, tc := range map[string]struct {
		env    []string
		scheme string
		want   int // status; 0: no answer
	}{
		"tls":             {[]string{withTLS}, "https://", http.StatusUnauthorized},
		"proxy":           {[]string{"DOCGAUGE_SITE_TRUSTED_PROXIES=127.0.0.0/8"}, "http://", http.StatusUnauthorized},
		"stranger":        {[]string{"DOCGAUGE_SITE_TRUSTED_PROXIES=192.0.2.0/24,::1"}, "http://", 0},
		"stranger by tls": {[]string{"DOCGAUGE_SITE_TRUSTED_PROXIES=192.0.2.0/24", withTLS}, "https://", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			engines.Certificate(t, dir)
			writeText(t, filepath.Join(dir, "web.yml"), "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n")
			env := append([]string{"DOCGAUGE_SITE_LISTEN_ADDRESS=0.0.0.0:0", "DOCGAUGE_SITE_LOGS=access.log"}, tc.env...)
			s, err := startSidecar(dir, filepath.Join(dir, "serve.log"), env, "site", "serve")
			check(t, err)
			defer s.kill()
			client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
				TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			answer, err := client.Get(s.URL + "/v1/analytics/prj_site/visitors")
			status := 0
			if err == nil {
				status = answer.StatusCode
				check(t, answer.Body.Close())
			}
			if status != tc.want || !strings.HasPrefix(s.URL, tc.scheme) {
				t.Errorf("%s: status %d, %v, want %d", s.URL, status, err, tc.want)
			}
		})
	}
}
