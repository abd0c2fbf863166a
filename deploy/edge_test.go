package deploy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// TestEdge runs each snippet in its runtime, with a site serve that has no time at first: every page is served, the
// lines come in one body, which is sent again until it is taken, and have what is counted and nothing else.
func TestEdge(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("node is not installed")
	}
	for _, tc := range []struct {
		snippet  string
		isWorker bool
		bytes    int64
	}{{"cloudflare-worker.js", true, 8}, {"vercel-middleware.js", false, 0}, {"netlify-edge-function.js", false, 8}} {
		t.Run(tc.snippet, func(t *testing.T) {
			var locked sync.Mutex
			var bodies []string
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				locked.Lock()
				defer locked.Unlock()
				text, err := io.ReadAll(r.Body)
				if err != nil || r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer dgs_edge" {
					t.Errorf("%s %v, %v", r.Method, r.Header, err)
				}
				if bodies = append(bodies, string(text)); len(bodies) == 1 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}))
			defer site.Close()
			text, err := os.ReadFile(filepath.Join("edge", tc.snippet))
			check(t, err)
			if n := bytes.Count(text, []byte("\n")); n > 40 {
				t.Errorf("%d lines, want at most 40", n)
			}
			// Node takes a file of this name for a module.
			snippet := filepath.Join(t.TempDir(), strings.TrimSuffix(tc.snippet, ".js")+".mjs")
			check(t, os.WriteFile(snippet, text, 0o600))
			args := []string{"testdata/edge.mjs", snippet, site.URL}
			if tc.isWorker {
				dir, err := engines.NodeModule("miniflare")
				engines.Need(t, err)
				args = append(args, dir)
			}
			out, err := exec.CommandContext(t.Context(), node, args...).CombinedOutput()
			if err != nil || strings.Count(string(out), "the page\n") != 3 {
				t.Fatalf("%v: %s", err, out)
			}
			locked.Lock()
			defer locked.Unlock()
			if len(bodies) != 2 || bodies[0] != bodies[1] {
				t.Fatalf("%q", bodies)
			}
			checkEdgeLines(t, bodies[0], tc.bytes)
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkEdgeLines checks three lines of a snippet.
func checkEdgeLines(t *testing.T, body string, size int64) {
	format, err := logs.ParseFormat("auto")
	check(t, err)
	parser, ids := format.Parser(), map[string]bool{}
	lines := strings.Split(body, "\n")
	if len(lines) != 3 {
		t.Fatalf("%q", lines)
	}
	for i, line := range lines {
		var l logs.Line
		if ok, err := parser.Parse([]byte(line), &l); !ok || err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		ids[string(l.ID)] = len(l.ID) > 20
		got := fmt.Sprintf("%s %s %s %d %s %s %s %s %s %d", l.Host, l.Method, l.Target, l.Status, l.Client, l.UserAgent,
			l.Accept, l.Referrer, l.FetchMode, l.Bytes)
		want := fmt.Sprintf("docs.example.com GET /guide/%d?utm_source=mail 200 192.0.2.%[1]d Mozilla/5.0 Firefox/140.0 "+
			"text/html https://chatgpt.com/ navigate %d", i+1, size)
		if got != want || l.Time == 0 {
			t.Errorf("%s\n%s, want %s", line, got, want)
		}
		members := map[string]any{}
		check(t, json.Unmarshal([]byte(line), &members))
		var names []string
		for name := range members {
			if name != "bytes" {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if diff := gocmp.Diff([]string{"accept", "client_ip", "host", "method", "path", "referer", "request_id",
			"sec_fetch_mode", "status", "time", "user_agent"}, names); diff != "" {
			t.Error(diff)
		}
	}
	if len(ids) != 3 {
		t.Errorf("ids: %v", ids)
	}
}
