package exporter_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/view"
)

// pushed returns our series as the gateway shows them, without the labels of the group.
func pushed(t *testing.T, address string) map[string]float64 {
	t.Helper()
	answer, err := http.Get(address + "/metrics")
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return parse(t, own(string(text)), "job", "instance")
}

// TestPushgateway: the group shows the newest push alone, and the last success as long as no
// newer one is known.
func TestPushgateway(t *testing.T) {
	gateway := engines.RunPushgateway(t)
	later := rich()
	later.Projects, later.Windows, later.Open, later.Due = later.Projects[:1], later.Windows[1:2], nil, nil
	later.Finish, later.LastSuccess = time.Time{}, time.Time{}
	const success = "docgauge_export_last_success_timestamp_seconds"
	for i, s := range []view.Snapshot{oddPages(), later} {
		must(t, exporter.Push(t.Context(), gateway.URL+"/"[:i], s))
		want := map[string]float64{success: metrics(t, rich())[success]}
		for name, value := range metrics(t, s) {
			if strings.HasPrefix(name, "docgauge_") {
				want[name] = value
			}
		}
		if diff := cmp.Diff(want, pushed(t, gateway.URL)); diff != "" {
			t.Error(diff)
		}
	}
}

// recorded is a request to a gateway.
type recorded struct {
	method, path, user, password string
}

// gateway answers every push with status and text.
func gateway(t *testing.T, status int, text string) (*url.URL, *recorded) {
	t.Helper()
	var got recorded
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.method, got.path = r.Method, r.URL.EscapedPath()
		got.user, got.password, _ = r.BasicAuth()
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	must(t, err)
	return u, &got
}

func TestPushGroup(t *testing.T) {
	for path, want := range map[string]string{
		"":                                 "/metrics/job/docgauge",
		"/":                                "/metrics/job/docgauge",
		"/below/it/":                       "/below/it/metrics/job/docgauge",
		"/metrics/job/docs":                "/metrics/job/docs",
		"/metrics/job/docs/instance/a%2Fb": "/metrics/job/docs/instance/a%2Fb",
		"/x/metrics/job@base64/ZG9jcw":     "/x/metrics/job@base64/ZG9jcw",
	} {
		u, got := gateway(t, http.StatusAccepted, "")
		u.User = url.UserPassword("me", "p@ss:w/rd")
		if err := exporter.Push(t.Context(), u.String()+path, rich()); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(recorded{http.MethodPost, want, "me", "p@ss:w/rd"}, *got,
			cmp.AllowUnexported(recorded{})); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

// No failure tells the password, however the gateway quotes it, and each says
// where it was and what to do.
func TestPushErrors(t *testing.T) {
	for status, remedy := range map[int]string{
		http.StatusMovedPermanently:    "redirects are not followed",
		http.StatusBadRequest:          "must accept the group",
		http.StatusUnauthorized:        "must accept the credentials",
		http.StatusForbidden:           "must accept the credentials",
		http.StatusNotFound:            "must lead to a Pushgateway",
		http.StatusInternalServerError: "see its log",
	} {
		u, got := gateway(t, status, "you sent s3cret%2F, s3cret/ and bWU6czNjcmV0Lw==\n"+strings.Repeat("long ", 1000))
		u.User = url.UserPassword("me", "s3cret/")
		err := exporter.Push(t.Context(), u.String(), rich())
		if err == nil {
			t.Fatalf("status %d is not an error", status)
		}
		text := err.Error()
		for _, part := range []string{"push to " + u.Host + ": HTTP ", http.StatusText(status), "you sent …, … and …",
			remedy} {
			if !strings.Contains(text, part) {
				t.Errorf("%q is not in %s", part, text)
			}
		}
		if strings.Contains(text, "s3cret") || strings.Contains(text, "bWU6") || len(text) > 600 ||
			strings.Contains(text, "\n") {
			t.Error(text)
		}
		if got.path == "/elsewhere" {
			t.Error("the redirect was followed")
		}
	}
}

func TestPushNobodyThere(t *testing.T) {
	u, _ := gateway(t, http.StatusOK, "")
	u.User, u.Host = url.UserPassword("somebody", "s3cret"), "127.0.0.1:1"
	err := exporter.Push(t.Context(), u.String(), rich())
	if err == nil || !strings.HasPrefix(err.Error(), "push to 127.0.0.1:1: ") ||
		!strings.Contains(err.Error(), "is it running") ||
		strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "somebody") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := exporter.Push(ctx, u.String(), rich()); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
}

func TestParsePushURL(t *testing.T) {
	for _, good := range []string{
		"http://gw:9091", "https://gw/", "http://user:p%40ss@[::1]:9091/prefix",
		"http://gw/metrics/job/a", "http://gw/metrics/job/a/instance/b/team/c",
		"http://gw/metrics/job@base64/YQ/dir@base64/L2E",
	} {
		if err := exporter.ParsePushURL(good); err != nil {
			t.Error(err)
		}
	}
	for bad, says := range map[string]string{
		"":                                    "scheme and host",
		"gw:9091":                             "scheme and host",
		"ftp://me:s3cret@gw":                  "want https:// or http://",
		"http://":                             "scheme and host",
		"http://me:s3cret@:9091":              "scheme and host",
		"http://me:s3cret":                    "scheme and host",
		"http://me:s3cret%@gw":                "% as %25",
		"http://me:s3 cret@gw":                "scheme and host",
		"http://gw\x00":                       "scheme and host",
		"http://me:s3cret@gw?x=s3cret":        "query",
		"http://me:s3cret@gw#x":               "fragment",
		"http://me:s3cret@gw/metrics/job":     "must name a job",
		"http://me:s3cret@gw/metrics/job/":    "must name a job",
		"http://gw/metrics/job//instance/a":   "must name a job",
		"http://gw/metrics/job/a/instance":    "each label must have a value",
		"http://gw/metrics/job/a/in-stance/b": `"in-stance" cannot be a label`,
		"http://gw/metrics/job/a/job/b":       `"job" cannot be a label`,
		"http://gw/metrics/job/a/project/b":   `"project" cannot be a label of the group, metrics have it`,
		"http://gw/metrics/job/a/le/b":        `"le" cannot be a label`,
	} {
		err := exporter.ParsePushURL(bad)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

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
	if err := exporter.CheckPushgateway(t.Context(),
		"http://bob:hunter22@"+host+"/gw/metrics/job/docs/org/acme"); err != nil {
		t.Error(err)
	}
	if len(asked) != 1 || asked[0] != "GET /gw/-/ready bob:hunter22" {
		t.Errorf("asked %q", asked)
	}
	err := exporter.CheckPushgateway(t.Context(), "http://bob:hunter22@"+host)
	if err == nil || !strings.Contains(err.Error(), "HTTP 503") || !strings.Contains(err.Error(), host) ||
		strings.Contains(err.Error(), "hunter22") {
		t.Errorf("a gateway that is not ready: %v", err)
	}
}
