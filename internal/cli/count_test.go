package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
)

// TestOneCountMore builds docgauge with one more field in analytics.Totals, in one line, and follows the new count from
// the service to every place that has the others.
func TestOneCountMore(t *testing.T) {
	t.Parallel()
	testbed.NotAtMidnight()
	binary := builtWith(t, "internal/analytics/analytics.go", "\tTotal int64 `json:\"total\"",
		"\tSessions int64 `json:\"sessions\"`\n")
	service := httptest.NewServer(http.HandlerFunc(sessions))
	t.Cleanup(service.Close)
	postgres, clickhouse := engines.RunPostgres(t, "15"), engines.RunEngine26(t)
	dir := t.TempDir()
	env := append(os.Environ(), "DOCGAUGE_BASE_URL="+service.URL, "DOCGAUGE_API_KEY=key_secret", "DOCGAUGE_PROJECTS=prj",
		"DOCGAUGE_BUDGET=0", "DOCGAUGE_SINCE="+testbed.DaysAgo(3).String(), "DOCGAUGE_WINDOWS=day",
		"DOCGAUGE_SINKS=parquet,delta,postgres,clickhouse", "DOCGAUGE_POSTGRES_DSN="+postgres.DSN("postgres"),
		"DOCGAUGE_CLICKHOUSE_DSN="+clickhouse.DSN("default"), "DOCGAUGE_DELTA_URL="+filepath.Join(dir, "delta"))
	run := func(input string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Dir, cmd.Env, cmd.Stdin = dir, env, strings.NewReader(input)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
		}
		return string(out)
	}
	day := testbed.DaysAgo(1)
	site := fmt.Sprint(siteSessions + day.Time().Day())
	has := func(what, text string, numbers ...string) {
		t.Helper()
		for _, n := range numbers {
			if !strings.Contains(strings.ReplaceAll(text, ",", ""), n) {
				t.Errorf("%s: no %s in\n%.4000s", what, n, text)
			}
		}
	}
	run("", "export")
	has("ledger", run("", "status", "--json"), site)
	run("", "verify") // the ledger, and what each sink shows
	answer := func(sql, want string) {
		t.Helper()
		got, err := askPostgres(t.Context(), postgres.DSN("postgres"), sql)
		if check(t, err); strings.TrimSpace(got) != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
	answer("SELECT max(sessions) FROM docgauge_visitors", fmt.Sprint(pageSessions))
	answer(fmt.Sprintf("SELECT sessions FROM docgauge_totals WHERE window_start = '%s'", day), site)
	answer("UPDATE docgauge_visitors SET sessions = 1", "")
	cmd := exec.CommandContext(t.Context(), binary, "verify")
	cmd.Dir, cmd.Env = dir, env
	if text, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(text), "postgres") {
		t.Errorf("verify does not see other counts: %v\n%s", err, text)
	}
	answer("DROP TABLE docgauge_visitors, docgauge_totals, docgauge_migrations", "")
	run("", "load", "--sink", "postgres")
	answer("SELECT max(sessions) FROM docgauge_visitors", fmt.Sprint(pageSessions))
	has("history", run("", "history", "--csv"), "sessions", site)
	has("top", run("", "top", "--window", "day", "--csv"), "sessions", fmt.Sprint(pageSessions))
	has("mcp", run(mcpCall, "mcp"), "sessions", fmt.Sprint(pageSessions))
	log := filepath.Join(dir, "serve.log")
	s, err := startProgram(binary, dir, log, env)
	check(t, err)
	t.Cleanup(s.kill)
	for name, want := range map[string]int{
		`docgauge_site_visitors{audience="sessions",project="prj",window="day"}`:                    siteSessions + day.Time().Day(),
		`docgauge_page_visitors{audience="sessions",path="/quickstart",project="prj",window="day"}`: pageSessions,
	} {
		if got := s.metrics(t)[name]; got != float64(want) {
			t.Errorf("metrics: %s is %v, want %d", name, got, want)
		}
	}
	has("api", s.page(t, "/api/v1/windows"), `"sessions":`+site)
	has("api", s.page(t, "/api/v1/pages"), fmt.Sprintf(`"sessions":%d`, pageSessions))
	has("page", s.page(t, "/"), site, fmt.Sprint(pageSessions))
	has("page of a path", s.page(t, "/page?path=/quickstart"), fmt.Sprint(pageSessions))
}

// siteSessions and the day of the month are the sessions of the site, pageSessions of its page.
const siteSessions, pageSessions = 1_000_070, 701_233

// sessions answers as a service with one more count.
func sessions(w http.ResponseWriter, r *http.Request) {
	from, err := analytics.ParseDate(r.URL.Query().Get("dateFrom"))
	if err != nil || r.URL.Path != "/v1/analytics/prj/visitors" {
		http.NotFound(w, r)
		return
	}
	counts := func(n int) map[string]any {
		return map[string]any{"human": 30, "ai": 20, "total": 45, "sessions": n}
	}
	page := counts(pageSessions)
	page["path"] = "/quickstart"
	_ = json.NewEncoder(w).Encode(map[string]any{"hasMore": false, "visitors": []any{page},
		"totals": counts(siteSessions + from.Time().Day())})
}

// builtWith builds docgauge with a line more in a file of the repository, after the line that begins so.
func builtWith(t *testing.T, file, after, line string) (binary string) {
	t.Helper()
	return builtFrom(t, map[string]string{file: withLine(t, file, after, line)})
}

// withLine returns the text of a file of the repository with a line more, after the line that begins so.
func withLine(t *testing.T, file, after, line string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", file))
	check(t, err)
	lines := strings.SplitAfter(string(text), "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, after) })
	if i < 0 {
		t.Fatalf("%s: no line begins with %q", file, after)
	}
	return strings.Join(slices.Insert(lines, i+1, line), "")
}

// builtFrom builds docgauge with other texts of files of the repository, or with files that it lacks.
func builtFrom(t *testing.T, texts map[string]string) (binary string) {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	check(t, err)
	replace := map[string]string{}
	for file, text := range texts {
		changed := filepath.Join(dir, fmt.Sprint(len(replace))+".go")
		check(t, os.WriteFile(changed, []byte(text), 0o600))
		replace[filepath.Join(root, file)] = changed
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	binary = filepath.Join(dir, "docgauge")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary,
		"./cmd/docgauge")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// mcpCall asks for the pages of the newest day.
var mcpCall = strings.Join([]string{
	`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
		`"clientInfo":{"name":"test","version":"1"}}}`,
	`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
	`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"window","arguments":{"granularity":"day"}}}`,
}, "\n") + "\n"
