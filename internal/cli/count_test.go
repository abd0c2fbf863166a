package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
)

// TestOneCountMore builds docgauge with one more field in analytics.Totals, in one line, and follows the new count from
// the service to every place that has the others.
func TestOneCountMore(t *testing.T) {
	engines.Long(t)
	t.Parallel()
	testbed.NotAtMidnight()
	p := newChangedProgram(t, sessions, "internal/analytics/analytics.go", "\tTotal int64 `json:\"total\"",
		"\tSessions int64 `json:\"sessions\"`\n")
	day := testbed.DaysAgo(1)
	site, page := fmt.Sprint(siteSessions+day.Time().Day()), fmt.Sprint(pageSessions)
	p.run("", "export")
	p.has("ledger", p.run("", "status", "--json"), site)
	p.run("", "verify") // the ledger, and what each sink shows
	p.sql("SELECT max(sessions) FROM docgauge_visitors", page)
	p.sql(fmt.Sprintf("SELECT sessions FROM docgauge_totals WHERE window_start = '%s'", day), site)
	p.sql("UPDATE docgauge_visitors SET sessions = 1", "")
	p.damaged("postgres")
	p.sql("DROP TABLE docgauge_visitors, docgauge_totals, docgauge_migrations", "")
	p.run("", "load", "--sink", "postgres")
	p.sql("SELECT max(sessions) FROM docgauge_visitors", page)
	p.has("history", p.run("", "history", "--csv"), "sessions", site)
	p.has("top", p.run("", "top", "--window", "day", "--csv"), "sessions", page)
	p.has("table of history", p.run("", "history"), "sessions", site)
	p.has("table of top", p.run("", "top", "--window", "day"), "sessions", page)
	p.has("mcp", p.run(mcpCall("window", `"granularity":"day"`), "mcp"), "sessions", page)
	s := p.serve()
	for name, want := range map[string]int{
		`docgauge_site_visitors{audience="sessions",project="prj",window="day"}`:                    siteSessions + day.Time().Day(),
		`docgauge_page_visitors{audience="sessions",path="/quickstart",project="prj",window="day"}`: pageSessions,
	} {
		if got := s.metrics(t)[name]; got != float64(want) {
			t.Errorf("metrics: %s is %v, want %d", name, got, want)
		}
	}
	p.has("api", s.page(t, "/api/v1/windows"), `"sessions":`+site)
	p.has("api", s.page(t, "/api/v1/pages"), `"sessions":`+page)
	p.has("page", s.page(t, "/status"), site, page)
	p.has("page of a path", s.page(t, "/page?path=/quickstart"), page)
}

// TestHumans follows the mode of counting people from the service to every place that has its totals, and over its
// change: the two modes are told apart, and not compared.
func TestHumans(t *testing.T) {
	t.Parallel()
	testbed.NotAtMidnight()
	var confirmed atomic.Bool
	p := programFor(t, engines.Docgauge(t), func(w http.ResponseWriter, r *http.Request) {
		people(w, r, confirmed.Load())
	})
	p.env = append(p.env, "DOCGAUGE_REPORTS=visitors,agents", "DOCGAUGE_SINCE="+testbed.DaysAgo(8).String(),
		"DOCGAUGE_SETTLE=0s", "DOCGAUGE_TOP_PAGES=5")
	day := testbed.DaysAgo(1)
	at := fmt.Sprintf(" WHERE window_start = '%s'", day)
	p.run("", "export")
	p.run("", "verify")
	p.sql("SELECT humans, human FROM docgauge_totals"+at, "claimed\t4500")
	p.sql("SELECT DISTINCT humans FROM docgauge_agents_windows", "claimed")
	p.sql("UPDATE docgauge_totals SET humans = 'confirmed'", "")
	p.damaged("postgres")
	p.sql("DROP TABLE docgauge_visitors, docgauge_totals, docgauge_migrations", "")
	p.run("", "load", "--sink", "postgres")
	p.run("", "verify")
	p.sql("SELECT DISTINCT humans FROM docgauge_totals", "claimed")

	confirmed.Store(true)
	if text, _ := p.try("", "check"); !strings.Contains(text, "people are counted as confirmed") { // it warns of the dates
		t.Errorf("check: %s", text)
	}
	p.has("export", p.run("", "export", "--from", testbed.DaysAgo(3).String(), "--to", testbed.DaysAgo(0).String()),
		"people of prj are counted as confirmed now as claimed before")
	p.run("", "verify")
	p.sql("SELECT humans, human FROM docgauge_totals"+at, "confirmed\t300")
	const interval = "people 300 (confirmed) to 4500 (claimed)"
	p.has("status", p.run("", "status", "--json"), `"humans": "confirmed"`)
	p.has("top", p.run("", "top", "--window", "day"), interval, "counts people as claimed")
	if text, err := p.try("", "top", "--window", "day", "--falling"); err == nil || !strings.Contains(text, "compared") {
		t.Errorf("pages that fall between two modes: %s", text)
	}
	p.has("top --by agent", p.run("", "top", "--window", "day", "--by", "agent"), interval)
	p.has("history", p.run("", "history"), "settled people confirmed", "People are counted as confirmed from", "4500")
	p.has("history --csv", p.run("", "history", "--csv"), "humans", "claimed", "people_confirmed")
	p.has("mcp", p.run(mcpCall("window", `"granularity":"day"`), "mcp"), `"humans":"confirmed"`,
		`"humans_before":"claimed"`, `\"people\":{\"claimed\":4500\"confirmed\":300}`)
	p.run("", "report", "-o", "report.html")
	text, err := os.ReadFile(filepath.Join(p.dir, "report.html"))
	check(t, err)
	p.has("report", string(text), "300 confirmed to 4500 claimed", "People are counted as confirmed from",
		"rising and falling pages are not known")
	if samples := p.run("", "openmetrics"); strings.Contains(samples, "docgauge_previous_site_visitors{") {
		t.Error("openmetrics: a window is compared with one of another mode")
	}
	s := p.serve()
	metrics := s.metrics(t)
	for name, want := range map[string]int{
		`docgauge_site_agent_visitors{agent="browser",audience="human",class="human",project="prj",window="day"}`:       300,
		`docgauge_site_agent_visitors{agent="unconfirmed",audience="neither",class="human",project="prj",window="day"}`: 4200,
	} {
		if got := metrics[name]; got != float64(want) {
			t.Errorf("metrics: %s is %v, want %d", name, got, want)
		}
	}
	if _, compared := metrics[`docgauge_previous_site_visitors{audience="human",project="prj",window="day"}`]; compared {
		t.Error("metrics: a window is compared with one of another mode")
	}
	p.has("api", s.page(t, "/api/v1/windows"), `"humans":"confirmed"`, `"humans":"claimed"`)
	p.has("page", s.page(t, "/status"), interval, "counts people as claimed")
	p.has("page of a path", s.page(t, "/page?path=/quickstart&window=day"), interval, "People are counted as confirmed")
}

// people answers as a site of its owner's, most of whose readers that call themselves browsers show no evidence.
func people(w http.ResponseWriter, r *http.Request, confirmed bool) {
	report, ok := strings.CutPrefix(r.URL.Path, "/v1/analytics/prj/")
	type object = map[string]any
	human, mode, audience := 4500, "claimed", "human"
	if confirmed {
		human, mode, audience = 300, "confirmed", "neither"
	}
	totals, page := object{"human": human, "ai": 20, "total": human + 20}, object{"path": "/quickstart", "human": human,
		"ai": 20, "total": human + 20}
	agents := func(of object) (rows []any) {
		for i, name := range []string{"Claude-User", "browser", "unconfirmed"} {
			row := object{"agent": name, "class": []string{"answers", "human", "human"}[i],
				"audience": []string{"ai", "human", audience}[i], "visitors": []int{20, 300, 4200}[i], "requests": 5000,
				"markdown": 0, "bytes": -1}
			maps.Copy(row, of)
			rows = append(rows, row)
		}
		if of == nil { // more agents than metrics have, each with more readers than people
			for i := range 45 {
				rows = append(rows, object{"agent": fmt.Sprintf("bot-%02d", i), "class": "other", "audience": "neither",
					"visitors": 4900, "requests": 5000, "markdown": 0, "bytes": 5})
			}
		}
		return rows
	}
	answer := object{"hasMore": false, "humans": mode, "totals": totals, "visitors": []any{page}}
	switch report {
	case "visitors":
	case "agents":
		answer["totals"], answer[report] = agents(nil), agents(object{"path": "/quickstart", "found": true})
	default:
		ok = false
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// TestOneReportMore builds docgauge with two more reports, each a value and a row type, and follows their numbers from
// the service to every place that shows numbers of agents or visitors. The first report has rows of the site, keyed by a
// name, with one count more than visitors; the second has totals beside rows of pages.
func TestOneReportMore(t *testing.T) {
	engines.Long(t)
	t.Parallel()
	testbed.NotAtMidnight()
	p := newChangedProgram(t, moreReports, "internal/analytics/report.go", "var shapes = [...]*Shape{", `
	4: newShape(Shape{Name: "clients", row: reflect.TypeFor[struct {
		Path     string `+"`json:\"path\"`"+`
		Client   string `+"`json:\"client\"`"+`
		Kind     string `+"`json:\"kind\"`"+`
		Visitors int64  `+"`json:\"visitors\"`"+`
		Requests int64  `+"`json:\"requests\"`"+`
		Sent     int64  `+"`json:\"sent\"`"+`
		Kept     int64  `+"`json:\"kept\"`"+`
	}](), About: "readers of each client", Order: []string{"client"}, Site: true}),
	5: newShape(Shape{Name: "downloads", row: reflect.TypeFor[Row](), About: "downloads of each page",
		AboutSite: "downloads of the site"}),
`)
	p.env = append(p.env, "DOCGAUGE_REPORTS=visitors,clients,downloads")
	day := testbed.DaysAgo(1)
	number := func(n int) string { return fmt.Sprint(n + day.Time().Day()) }
	kept, keptOfPage := number(siteKept), number(pageKept)
	downloads, ofQuickstart := number(siteDownloads), number(pageDownloads)
	p.has("help", p.run("", "help", "configuration"), "clients", "downloads")
	p.has("check", p.run("", "check"), "clients", "downloads")
	p.has("plan", p.run("", "plan"), "clients", "downloads")
	p.run("", "export")
	p.has("status", p.run("", "status"), "clients", "downloads")
	p.has("ledger", p.run("", "status", "--json"), "clients", downloads)
	p.run("", "verify") // the ledger, and what each sink shows
	at := fmt.Sprintf(" WHERE window_start = '%s'", day)
	p.sql("SELECT kept FROM docgauge_clients"+at+" AND path = ''", kept)
	p.sql("SELECT kept FROM docgauge_clients"+at+" AND path <> ''", keptOfPage)
	p.sql("SELECT total FROM docgauge_downloads"+at, ofQuickstart)
	p.sql("SELECT total FROM docgauge_downloads_totals"+at, downloads)
	p.sql("SELECT total FROM docgauge_totals"+at, "45")
	for _, table := range []string{"clients SET kept = 1", "downloads SET total = 1", "downloads_totals SET total = 1"} {
		p.sql("UPDATE docgauge_"+table, "")
		p.damaged("postgres")
		p.run("", "verify", "--repair")
	}
	p.sql("DROP TABLE docgauge_clients, docgauge_downloads, docgauge_downloads_totals, docgauge_clients_windows, "+
		"docgauge_clients_migrations, docgauge_downloads_migrations", "")
	p.run("", "load", "--sink", "postgres")
	p.sql("SELECT kept FROM docgauge_clients"+at+" AND path = ''", kept)
	p.sql("SELECT total FROM docgauge_downloads_totals"+at, downloads)
	p.has("top", p.run("", "top", "--by", "client", "--window", "day"), "kept", kept)
	p.has("top --csv", p.run("", "top", "--by", "client", "--window", "day", "--csv"), "kept", kept)
	p.has("top --json", p.run("", "top", "--by", "client", "--window", "day", "--json"), `"kept": `+kept)
	p.has("top --client", p.run("", "top", "--client", "reader", "--window", "day"), "/quickstart", keptOfPage)
	p.has("top", p.run("", "top", "--by", "downloads", "--window", "day"), "/quickstart", ofQuickstart)
	p.has("history", p.run("", "history", "--client", "reader"), "kept", kept)
	p.has("history", p.run("", "history", "--client", "reader", "--page", "/quickstart", "--csv"), "kept", keptOfPage)
	p.has("history", p.run("", "history", "--by", "downloads"), downloads)
	p.has("mcp", p.run(mcpCall("rows", `"report":"clients","granularity":"day"`), "mcp"), "kept", kept)
	p.has("mcp", p.run(mcpCall("rows", `"report":"downloads","granularity":"day"`), "mcp"), ofQuickstart)
	p.run("", "report", "-o", "report.html")
	text, err := os.ReadFile(filepath.Join(p.dir, "report.html"))
	check(t, err)
	p.has("report", string(text), "reader", kept, ofQuickstart)
	metrics := map[string]int{
		`docgauge_site_client_visitors{client="reader",kind="app",project="prj",window="day"}`: 9,
		`docgauge_site_client_kept{client="reader",kind="app",project="prj",window="day"}`:     siteKept + day.Time().Day(),
		`docgauge_site_downloads{audience="ai",project="prj",window="day"}`:                    siteDownloads + day.Time().Day(),
		`docgauge_windows_due{project="prj",reason="missing",report="clients",window="day"}`:   0,
	}
	samples := p.run("", "openmetrics")
	for name, n := range map[string]int{"docgauge_site_client_kept{": siteKept, "docgauge_site_downloads{": siteDownloads} {
		p.has("openmetrics", samples, name, fmt.Sprint(n+testbed.DaysAgo(2).Time().Day())) // samples end before today
	}
	s := p.serve()
	for name, want := range metrics {
		if got := s.metrics(t)[name]; got != float64(want) {
			t.Errorf("metrics: %s is %v, want %d", name, got, want)
		}
	}
	p.has("api", s.page(t, "/api/v1/"), "/api/v1/clients", "/api/v1/downloads")
	p.has("api", s.page(t, "/api/v1/clients"), `"kept":`+kept)
	p.has("api", s.page(t, "/api/v1/clients?path=/quickstart"), `"kept":`+keptOfPage)
	p.has("api", s.page(t, "/api/v1/clients?format=csv"), "kept", kept)
	p.has("api", s.page(t, "/api/v1/clients_history?client=reader"), `"kept":`+kept)
	p.has("api", s.page(t, "/api/v1/downloads"), `"total":`+ofQuickstart)
	p.has("api", s.page(t, "/api/v1/downloads_history"), `"total":`+downloads)
	p.has("page", s.page(t, "/status"), "reader", kept, downloads)
	p.has("page of a path", s.page(t, "/page?path=/quickstart"), keptOfPage, ofQuickstart)
}

// The numbers of the two more reports, to which the day of the month is added.
const siteKept, pageKept, siteDownloads, pageDownloads = 5_000_070, 4_701_233, 8_000_050, 7_700_033

// moreReports answers as a service with two more reports.
func moreReports(w http.ResponseWriter, r *http.Request) {
	from, err := analytics.ParseDate(r.URL.Query().Get("dateFrom"))
	report, ok := strings.CutPrefix(r.URL.Path, "/v1/analytics/prj/")
	if err != nil || !ok {
		http.NotFound(w, r)
		return
	}
	day := from.Time().Day()
	type object = map[string]any
	counts := func(n int) object { return object{"human": n, "ai": 20, "total": n + 15} }
	downloads := func(n int) object { return object{"human": 0, "ai": n + day, "total": n + day} }
	page := func(counts object) []any {
		counts["path"] = "/quickstart"
		return []any{counts}
	}
	client := func(n int) object {
		return object{"client": "reader", "kind": "app", "visitors": 9, "requests": 12, "sent": 3, "kept": n + day}
	}
	answer := object{"hasMore": false}
	switch report {
	case "visitors":
		answer["totals"], answer[report] = counts(30), page(counts(30))
	case "clients":
		answer["totals"], answer[report] = []any{client(siteKept)}, page(client(pageKept))
	case "downloads":
		answer["totals"], answer[report] = downloads(siteDownloads), page(downloads(pageDownloads))
	default:
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
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

// changedProgram is a binary with its settings, a service and the engines that it writes to.
type changedProgram struct {
	t           *testing.T
	binary, dir string
	env         []string
	postgres    string
}

// newChangedProgram builds docgauge as [builtWith] does, for a service.
func newChangedProgram(t *testing.T, service http.HandlerFunc, file, after, line string) *changedProgram {
	t.Helper()
	return programFor(t, builtWith(t, file, after, line), service)
}

// programFor is a binary with a service.
func programFor(t *testing.T, binary string, service http.HandlerFunc) *changedProgram {
	t.Helper()
	api := httptest.NewServer(service)
	t.Cleanup(api.Close)
	postgres, clickhouse, dir := engines.RunPostgres(t, "15"), engines.RunEngine26(t), t.TempDir()
	return &changedProgram{t, binary, dir, append(os.Environ(), "DOCGAUGE_BASE_URL="+api.URL,
		"DOCGAUGE_API_KEY=key_secret", "DOCGAUGE_PROJECTS=prj", "DOCGAUGE_BUDGET=0",
		"DOCGAUGE_SINCE="+testbed.DaysAgo(3).String(), "DOCGAUGE_WINDOWS=day",
		"DOCGAUGE_SINKS=parquet,delta,postgres,clickhouse", "DOCGAUGE_POSTGRES_DSN="+postgres.DSN("postgres"),
		"DOCGAUGE_CLICKHOUSE_DSN="+clickhouse.DSN("default"), "DOCGAUGE_DELTA_URL="+filepath.Join(dir, "delta")),
		postgres.DSN("postgres")}
}

// run returns the output of a command; what failed is an error of the test.
func (p *changedProgram) run(input string, args ...string) string {
	p.t.Helper()
	out, err := p.try(input, args...)
	if err != nil {
		p.t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// try returns the output of a command, with standard error where it fails.
func (p *changedProgram) try(input string, args ...string) (string, error) {
	cmd := exec.CommandContext(p.t.Context(), p.binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = p.dir, p.env, strings.NewReader(input)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out) + stderr.String(), err
	}
	return string(out), nil
}

// has finds numbers and words in a text.
func (p *changedProgram) has(what, text string, wanted ...string) {
	p.t.Helper()
	for _, n := range wanted {
		if !strings.Contains(strings.ReplaceAll(text, ",", ""), n) {
			p.t.Errorf("%s: no %s in\n%.4000s", what, n, text)
		}
	}
}

// sql asks PostgreSQL.
func (p *changedProgram) sql(sql, want string) {
	p.t.Helper()
	got, err := askPostgres(p.t.Context(), p.postgres, sql)
	if err != nil || strings.TrimSpace(got) != want {
		p.t.Errorf("%s: %q, %v, want %q", sql, got, err, want)
	}
}

// damaged reports what verify says of a sink whose numbers were changed.
func (p *changedProgram) damaged(sink string) {
	p.t.Helper()
	if text, err := p.try("", "verify"); err == nil || !strings.Contains(text, sink) {
		p.t.Errorf("verify does not see other counts: %v\n%s", err, text)
	}
}

// serve starts the server.
func (p *changedProgram) serve() *sidecar {
	p.t.Helper()
	s, err := startProgram(p.binary, p.dir, filepath.Join(p.dir, "serve.log"), p.env)
	check(p.t, err)
	p.t.Cleanup(s.kill)
	return s
}

// mcpCall calls a tool.
func mcpCall(tool, arguments string) string {
	return strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
			`"clientInfo":{"name":"test","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"%s","arguments":{%s}}}`, tool,
			arguments),
	}, "\n") + "\n"
}
