package exporter

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckPushgateway(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		asked = append(asked, r.Method+" "+r.URL.Path+" "+user+":"+password)
		if !strings.HasPrefix(r.URL.Path, "/gw") {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	if err := CheckPushgateway(t.Context(), "http://bob:hunter22@"+host+"/gw/metrics/job/docs/org/acme"); err != nil {
		t.Error(err)
	}
	if len(asked) != 1 || asked[0] != "GET /gw/-/ready bob:hunter22" {
		t.Errorf("asked %q", asked)
	}
	err := CheckPushgateway(t.Context(), "http://bob:hunter22@"+host)
	if err == nil || !strings.Contains(err.Error(), "HTTP 503") || !strings.Contains(err.Error(), host) || strings.Contains(err.Error(), "hunter22") {
		t.Errorf("a gateway that is not ready: %v", err)
	}
}

func TestTryTextfile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.prom")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := TryTextfile(path); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if text, _ := os.ReadFile(path); err != nil || len(left) != 1 || string(text) != "before" {
		t.Errorf("left %v, %q, %v", left, text, err)
	}
	if err := TryTextfile(filepath.Join(dir, "no", "x.prom")); err == nil || !strings.Contains(err.Error(), "must exist") {
		t.Errorf("no directory: %v", err)
	}
}
