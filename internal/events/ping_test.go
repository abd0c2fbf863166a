package events

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/config"
)

// monitored are settings with a monitor at a URL.
func monitored(url string) config.Config {
	return config.Config{PingURL: config.Secret(url), Build: config.Build{Version: "1"}}
}

func TestPing(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.RequestURI+" "+r.Header.Get("User-Agent"))
	}))
	defer server.Close()
	for _, at := range []string{"/uuid?rid=1", "/uuid/"} {
		for _, good := range []bool{true, false} {
			if err := Ping(t.Context(), monitored(server.URL+at), good); err != nil {
				t.Error(err)
			}
		}
	}
	want := []string{"GET /uuid?rid=1 docgauge/1", "GET /uuid/fail?rid=1 docgauge/1", "GET /uuid/ docgauge/1",
		"GET /uuid/fail docgauge/1"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestPingFails: a monitor that fails is asked twice, a redirect is not followed, and no
// error has the URL, which is a secret.
func TestPingFails(t *testing.T) {
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	closed.Close()
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"redirect": {http.RedirectHandler(other.URL, http.StatusFound).ServeHTTP, "HTTP 302"},
		"500": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			"HTTP 500"},
		"closed": {nil, "connection refused"},
	} {
		asked, at := 0, "http://"+address
		if tc.handler != nil {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
				r *http.Request) {
				asked++
				tc.handler(w, r)
			}))
			defer server.Close()
			at = server.URL
		}
		err = Ping(t.Context(), monitored(at+"/T0KEN?key=qu3ry"), false)
		if err == nil || !strings.Contains(err.Error(), tc.want) ||
			!strings.HasPrefix(err.Error(), "DOCGAUGE_PING_URL: 127.0.0.1:") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "T0KEN") || strings.Contains(err.Error(), "qu3ry")) {
			t.Errorf("%s: the secret is in %v", name, err)
		}
		if tc.handler != nil && asked != pingTries {
			t.Errorf("%s: asked %d times", name, asked)
		}
	}
	if elsewhere > 0 {
		t.Error("a redirect was followed")
	}
}

// TestPingIsShort: a monitor that does not answer holds up nothing for long.
func TestPingIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := ping(t.Context(), silent, monitored("https://hc.example.com/T0KEN"), true); err == nil ||
			time.Since(began) > 12*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
