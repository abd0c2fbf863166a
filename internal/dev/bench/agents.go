package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/site"
)

// The site whose report of agents is measured. Each page is read by some of its agents.
const (
	agentPages   = 5_000
	agentsOfSite = 40
	agentsOfPage = 8
	agentDays    = 90
	agentLooks   = 31 // times that a page or command is timed: the median counts
)

const ofTheSameSite = "CPU s per million rows, of the same site"

// compared is a number of a site with windows of visitors alone, and the same of windows of agents.
type compared struct{ visitors, agents float64 }

// The two sites of the service. The large one has as many pages as the other has rows of agents.
const (
	siteOfAgents = "prj_site"
	largeSite    = "prj_large"
)

// agentSite answers both reports, the same on every day.
func agentSite(pages int) http.Handler {
	totals := analytics.Totals{Human: 9000, AI: 9000, Total: 9000}
	var visitors []analytics.Row
	var total, agents []analytics.AgentRow
	row := func(path string, agent int, readers int64) analytics.AgentRow {
		return analytics.AgentRow{Path: path, Agent: fmt.Sprintf("Assistant-%02d", agent), Class: "answers",
			Audience: analytics.AI, Found: true, Visitors: readers, Requests: 3 * readers}
	}
	for agent := range agentsOfSite {
		total = append(total, row("", agent, 9000-int64(agent)))
	}
	for page := range pages * agentsOfPage {
		human, ai, total := counts(uint32(page)*mixer, 0)
		path := string(appendPath(nil, uint32(page)*mixer))
		visitors = append(visitors, analytics.Row{Path: path, Human: human, AI: ai + 1, Total: max(total, ai+1)})
		for i := range agentsOfPage {
			if page >= pages {
				break
			}
			agents = append(agents, row(path, (page+5*i)%agentsOfSite, ai+1))
		}
	}
	slices.SortFunc(agents, analytics.AgentRow.Compare)
	answer := func(w http.ResponseWriter, r *http.Request, page func(limit, offset int) any) {
		limit, _ := strconv.Atoi(r.FormValue("limit")) // docgauge's own request
		offset, _ := strconv.Atoi(r.FormValue("offset"))
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(page(limit, offset)) // fails only if the client has closed the connection
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/analytics/{project}/visitors", func(w http.ResponseWriter, r *http.Request) {
		rows := visitors
		if r.PathValue("project") == siteOfAgents {
			rows = visitors[:pages]
		}
		answer(w, r, func(limit, offset int) any { return site.NewPage(totals, rows, limit, offset) })
	})
	mux.HandleFunc("GET /v1/analytics/{project}/agents", func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, func(limit, offset int) any { return site.NewAgentsPage(total, agents, limit, offset) })
	})
	return mux
}

// agentsAll exports the windows of visitors of a site, then those of agents, and the windows of visitors of a site
// with as many rows. It compares the cost of a row, and what the windows of agents cost those who look.
func (l *lab) agentsAll(ctx context.Context) (all []result, err error) {
	pages, days := agentPages, agentDays
	if l.short {
		pages, days = 100, 3
	}
	srv := httptest.NewServer(agentSite(pages))
	defer srv.Close()
	dir, err := l.newDir()
	if err != nil {
		return nil, err
	}
	env := append(cleanEnv(), "DOCGAUGE_BASE_URL="+srv.URL, "DOCGAUGE_API_KEY="+benchKey, "DOCGAUGE_WINDOWS=day",
		"DOCGAUGE_OPEN_WINDOWS=", "DOCGAUGE_BUDGET=0", "DOCGAUGE_SCHEDULE=0 0 1 1 *", "DOCGAUGE_LOG_LEVEL=error",
		"DOCGAUGE_SINCE="+time.Now().UTC().AddDate(0, 0, -days).Format(time.DateOnly),
		"DOCGAUGE_STATE_DIR="+filepath.Join(dir, "state"), "DOCGAUGE_PARQUET_URL="+filepath.Join(dir, "data"))
	run := func(args ...string) (out []byte, c cost, err error) {
		cmd := exec.CommandContext(ctx, l.binaries[docgaugeClient], args...)
		cmd.Env = env
		return measure(cmd)
	}
	add := func(name string, visitors, agents float64) {
		all = append(all, result{table: agentsTable, scenario: name, client: client{name: docgaugeClient},
			compared: compared{visitors, agents}})
	}
	var looked [2][]float64
	var cpu, peak [3]float64
	for i, step := range []struct {
		project, reports, metric string
		top                      []string
		rows                     int
	}{
		{siteOfAgents, "visitors", "docgauge_site_visitors{", []string{"top", "--window=day"}, pages},
		{siteOfAgents, "visitors,agents", "docgauge_site_agent_visitors{", []string{"top", "--window=day", "--by=agent"},
			pages * agentsOfPage},
		{largeSite, "visitors", "", nil, pages * agentsOfPage},
	} {
		env = append(env, "DOCGAUGE_PROJECTS="+step.project, "DOCGAUGE_REPORTS="+step.reports)
		out, spent, err := run("export", "--json") // the windows of visitors are there when those of agents are read
		var exported struct{ Rows int }
		if err == nil {
			err = json.Unmarshal(out, &exported)
		}
		if want := step.rows * days; err != nil || exported.Rows != want {
			return nil, fmt.Errorf("%+v: exported %d rows, want %d: %w", step, exported.Rows, want, err)
		}
		cpu[i], peak[i] = spent.cpuSeconds/float64(exported.Rows)*1e6, maxMiB(result{cost: spent})
		if step.top == nil {
			continue
		}
		looked[i], err = l.look(ctx, env, step.metric, func() error {
			_, _, err := run(step.top...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	add(ofTheSameSite, cpu[0], cpu[1])
	add("CPU s per million rows, of windows of the same size", cpu[2], cpu[1])
	add("peak RSS of that export, MiB", peak[2], peak[1])
	for i, name := range []string{"docgauge top, ms", "status page, ms", "scrape, ms"} {
		add(name, looked[0][i], looked[1][i])
	}
	return all, nil
}

// look returns the milliseconds of a command, and of the status page and a scrape of serve once it shows a metric.
func (l *lab) look(ctx context.Context, env []string, metric string, command func() error) (took []float64, err error) {
	port, err := engines.Port()
	if err != nil {
		return nil, err
	}
	dir, err := l.newDir()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	serve, err := engines.StartCommand(dir, "serve", []string{l.binaries[docgaugeClient], "serve"},
		append(env, "DOCGAUGE_LISTEN_ADDRESS="+address), func(context.Context) bool {
			text, err := get("http://"+address+"/metrics", "")
			return err == nil && strings.Contains(string(text), metric)
		})
	if err != nil {
		return nil, err
	}
	open := func(path string) func() error {
		return func() error {
			_, err := get("http://"+address+path, "")
			return err
		}
	}
	looks := agentLooks
	if l.short {
		looks = 3
	}
	for _, look := range []func() error{command, open("/"), open("/metrics")} {
		var all []float64
		for range looks {
			start := time.Now()
			if err := look(); err != nil {
				_ = serve.Stop()
				return nil, err
			}
			all = append(all, 1000*time.Since(start).Seconds())
		}
		took = append(took, median(all, func(ms float64) float64 { return ms }))
	}
	return took, serve.Stop()
}
