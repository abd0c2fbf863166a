package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/must"
)

// agentsAll exports the windows of visitors of a site, then its windows of agents, and the windows of visitors of a
// site with as many rows. It compares the cost of a row, and the latency of top, /status and /metrics with the
// windows of agents.
func (l *lab) agentsAll(ctx context.Context) (all []result) {
	days, looks := 90, 31
	if l.short {
		days, looks = 3, 3
	}
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -days)
	site := order{Work: workload{days, agentPages, 0}, InFlight: 4, Dir: l.newDir(), First: first, Due: true}
	large := site
	large.Work.Rows *= agentsOfPage
	run := func(o order, reports string, rows int) (v values, cmd *exec.Cmd) {
		cmd = l.exportCommand(ctx, client{name: docgaugeClient}, o)
		cmd.Env = append(cmd.Env, "DOCGAUGE_REPORTS="+reports, "DOCGAUGE_SCHEDULE=0 0 1 1 *")
		out, v := measure(cmd)
		var done tally
		must.Do(json.Unmarshal(out, &done))
		if done.Rows != int64(rows) {
			must.Do(fmt.Errorf("%s: exported %d rows, want %d", reports, done.Rows, rows))
		}
		v["CPU s/Mrow"] = v["CPU s"] / float64(rows) * 1e6
		return v, cmd
	}
	visitors, cmd := run(site, "visitors", days*agentPages)
	l.addViews(ctx, cmd.Env, looks, visitors, "docgauge_site_visitors{", "top", "--window=day")
	// The windows of visitors are there.
	agents, cmd := run(site, "visitors,agents", days*agentPages*agentsOfPage)
	l.addViews(ctx, cmd.Env, looks, agents, "docgauge_site_agent_visitors{", "top", "--window=day", "--by=agent")
	same, _ := run(large, "visitors", days*agentPages*agentsOfPage)
	for _, row := range []struct {
		name    string
		without values
		column  string
	}{
		{"CPU s per million rows, of the same site", visitors, "CPU s/Mrow"}, {"CPU s per million rows, of windows of the same size", same, "CPU s/Mrow"},
		{"peak RSS of that export, MiB", same, "peak RSS"}, {"docgauge top, ms", visitors, "top"},
		{"status page, ms", visitors, "/status"}, {"scrape, ms", visitors, "/metrics"},
	} {
		without, with := row.without[row.column], agents[row.column]
		all = append(all, l.show(result{agentsTable, row.name, client{name: docgaugeClient}, workload{},
			values{"visitors": without, "and agents": with, "ratio": with / without}}))
	}
	return all
}

// addViews adds the milliseconds of a command, and of the status page and a scrape of serve once it shows a metric.
func (l *lab) addViews(ctx context.Context, env []string, looks int, v values, metric string, args ...string) {
	address := freeAddress()
	serve := must.Get(engines.StartCommand(l.newDir(), "serve", []string{l.binaries[docgaugeClient], "serve"},
		append(env, "DOCGAUGE_LISTEN_ADDRESS="+address), func(context.Context) bool {
			return isUp("http://"+address+"/metrics") && strings.Contains(get("http://"+address+"/metrics"), metric)
		}))
	defer func() { must.Do(serve.Stop()) }()
	v["top"] = milliseconds(looks, func() {
		cmd := exec.CommandContext(ctx, l.binaries[docgaugeClient], args...)
		cmd.Env = env
		measure(cmd)
	})
	for _, path := range []string{"/status", "/metrics"} {
		v[path] = milliseconds(looks, func() { get("http://" + address + path) })
	}
}
