package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// oddPaths are possible links to the site. \xff is not UTF-8.
var oddPaths = []string{
	"/plain", "/", "/\"quoted\"", "/two\nlines", "/back\\slash", "/\\n", "/emoji-🙂-👩‍🚀", "/tab\there",
	"/bell\aesc\x1b[0m\x7f",
	"/\u2028\u0085", "/comma,{brace}=\"x\"", "/# HELP nothing", "/<script>alert(1)</script>",
	"/<img src=x onerror=alert(1)>",
	"/'\"--></textarea>", "/&lt;&amp;", "/%3Cscript%3E?a=1&b=2#c", "/{{.}}", "/\u202egnp.exe", "/not UTF-8 \xff",
	"/" + strings.Repeat("long/", 200) + "a", "/" + strings.Repeat("long/", 200) + "b",
}

// logOf writes an event log in which path n had n+1 visitors yesterday.
func logOf(t *testing.T, paths []string) (dir string) {
	t.Helper()
	testbed.NotAtMidnight()
	var log strings.Builder
	at := testbed.DaysAgo(1).Time().Add(12 * time.Hour).Format(time.RFC3339)
	for n, path := range paths {
		// Marshal would make valid UTF-8 of it.
		quoted, err := json.Marshal(path)
		check(t, err)
		text := strings.ReplaceAll(string(quoted), `\ufffd`, "\xff")
		for visitor := range n + 1 {
			fmt.Fprintf(&log, `{"time":%q,"visitor":"v%d","kind":"human","path":%s}`+"\n", at, visitor, text)
		}
	}
	dir = t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "events.ndjson"), []byte(log.String()), 0o600))
	return dir
}

// TestOddPaths: whatever a path is, it comes through an export to /metrics and to
// the page as the text it is.
func TestOddPaths(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{DataDir: logOf(t, oddPaths)})
	yesterday := analytics.Window{From: testbed.DaysAgo(1), To: testbed.DaysAgo(0)}
	_, rows, err := s.Visitors(sandbox.DefaultProject, yesterday)
	if err != nil || len(rows) != len(oddPaths) {
		t.Fatalf("the service has %d paths: %v", len(rows), err)
	}
	p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_SINCE="+yesterday.From.String(),
		"DOCGAUGE_WINDOWS=day", "DOCGAUGE_OPEN_WINDOWS=")
	daemon := p.serve(t, "--once-at-start")
	all := daemon.awaitRuns(t, export.Success, 1)
	want := testbed.Series{}
	for _, r := range rows {
		name := fmt.Sprintf(`docgauge_page_visitors_deduplicated{path="%s",project=%q,window="day"}`,
			escape.Replace(exporter.Label(r.Path)), sandbox.DefaultProject)
		want[name] = float64(r.Total)
	}
	got := all.Only(func(name string) bool { return strings.HasPrefix(name, "docgauge_page_visitors_deduplicated{") })
	if diff := cmp.Diff(want, got); diff != "" || len(want) != len(oddPaths) {
		t.Errorf("(-service +metrics):\n%s", diff)
	}
	checked(t, daemon.page(t, "/metrics"))
	t.Run("browser", func(t *testing.T) { inBrowser(t, daemon.URL, rows) })
}

// escape escapes a label value for the text format.
var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// checked lets promtool look at metrics.
func checked(t *testing.T, text string) {
	t.Helper()
	cmd, err := engines.Tool(t.Context(), "promtool", "check", "metrics", "--extended")
	engines.Need(t, err)
	cmd.Stdin = strings.NewReader(text)
	// Its standard output is the table of cardinalities, which --extended adds.
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if table, err := cmd.Output(); err != nil || stderr.Len() > 0 ||
		!strings.Contains(string(table), "docgauge_page_visitors ") {
		t.Errorf("%v: %s\n%s", err, stderr.String(), table)
	}
}

// inBrowser looks at the page: each path is text, and no script of any is run.
func inBrowser(t *testing.T, url string, rows []analytics.Row) {
	tab, err := engines.RunChromium(t).Open(t.Context(), url, engines.View{Width: 1200, Height: 900})
	check(t, err)
	var shown, want []string
	if err := tab.Eval(t.Context(),
		`Array.from(document.querySelectorAll(".pages bdi")).map(e => e.title || e.textContent)`, &shown); err != nil ||
		len(shown) == 0 {
		t.Fatalf("%d pages are shown: %v", len(shown), err)
	}
	for i, r := range rows {
		want = append(want, r.Path)
		// The page limits the length of a path.
		if start, cut := strings.CutSuffix(shown[min(i, len(shown)-1)], "…"); cut && len(start) > exporter.MaxLabel &&
			strings.HasPrefix(r.Path, start) {
			want[i] = start + "…"
		}
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("(-service +page):\n%s", diff)
	}
	var alien int
	if err := tab.Eval(t.Context(), `document.querySelectorAll("script, img, textarea").length - 1`, &alien); err != nil ||
		alien != 0 {
		t.Errorf("besides the one script of the page, %d elements are not ours: %v", alien, err)
	}
	if console := tab.Console(); len(console) > 0 {
		t.Errorf("the console says %q", console)
	}
}
