package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/must"
)

// startSandbox starts the service and makes the environment of docgauge. Every
// sixtieth request adds a visitor of yesterday, so that numbers change after
// they were read. Of the pull requests the first and the third are merged at once,
// and dated five weeks back, so that their outcomes are final; the second stays open. Pages do not
// move by themselves in the scenario steady.
func (s *stack) startSandbox(context.Context) {
	args := []string{s.options.Binary, "sandbox", "--listen=127.0.0.1:0", "--data=" + s.path("service"),
		"--project=" + strings.Join(projects, ","), "--scenario=steady", "--pages=150", "--drift-every=60",
		"--agent-duration=1s",
		"--seed=1", "--merge-share=0.6", "--merge-delay=0s", "--merged-days-ago=35", "--merge-effect=+30%"}
	if s.repository != "" {
		args = append(args, "--repo="+s.repository, "--agent-cmd=sh "+s.path("agent.sh"))
	}
	must.Do(os.MkdirAll(s.path("service"), 0o700))
	sandbox, settings, err := engines.StartSandbox(s.path("sandbox"), args...)
	must.Do(err)
	s.stops = append(s.stops, sandbox.Stop)
	// Settings of the person do not apply to the stack; an empty variable is an unset one.
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "DOCGAUGE_") {
			s.environment = append(s.environment, name+"=")
		}
	}
	for name, value := range settings {
		s.environment = append(s.environment, name+"="+value)
	}
	s.API = settings["DOCGAUGE_BASE_URL"]
	now := time.Now().UTC()
	// The last three complete months: outcomes compare the day windows of three.
	since := time.Date(now.Year(), now.Month()-3, 1, 0, 0, 0, 0, time.UTC)
	s.environment = append(s.environment,
		"DOCGAUGE_LISTEN_ADDRESS="+strings.TrimPrefix(s.URL, "http://"),
		"DOCGAUGE_STATE_DIR="+s.path("state"),
		"DOCGAUGE_PARQUET_URL="+s.path("data"),
		"DOCGAUGE_SINKS=parquet",
		"DOCGAUGE_REPORTS=visitors,views,agents,sources",
		"DOCGAUGE_SINCE="+since.Format(time.DateOnly),
		"DOCGAUGE_BUDGET=5000",
		"DOCGAUGE_OPEN_WINDOWS=day,week,month",
		"DOCGAUGE_API_KEY_EXPIRES="+now.AddDate(0, 0, 60).Format(time.DateOnly),
		"DOCGAUGE_SCHEDULE=* * * * *",
		"DOCGAUGE_POLL_INTERVAL=1s",
		"DOCGAUGE_PROMPTS_DIR="+s.path(promptFiles),
		"DOCGAUGE_PROMPTS_ON_NEW_STATE=submit",
		"DOCGAUGE_JOB_COST=0.5",
	)
}

// startClickHouse adds it to docgauge's sinks.
func (s *stack) startClickHouse(context.Context) {
	server := must.Get(engines.StartClickHouse(s.path("clickhouse")))
	s.ClickHouse = server
	s.stops = append(s.stops, server.Stop)
	s.environment = append(s.environment, "DOCGAUGE_SINKS=parquet,clickhouse",
		"DOCGAUGE_CLICKHOUSE_DSN="+server.DSN("default"))
}

// export fills the sinks, and then reads yesterday again, which has more visitors by then. Its DOCGAUGE_SETTLE is
// longer than the one of serve, so that serve finds windows to read again, as it would after some days.
func (s *stack) export(ctx context.Context) {
	settle := []string{"DOCGAUGE_SETTLE=192h"}
	must.Get(s.docgauge(ctx, settle, "export"))
	today := time.Now().UTC()
	must.Get(s.docgauge(ctx, settle, "export", "--again",
		"--from="+today.AddDate(0, 0, -1).Format(time.DateOnly), "--to="+today.Format(time.DateOnly)))
}

// docgauge runs a command to its end and returns its standard output.
func (s *stack) docgauge(ctx context.Context, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.options.Binary, args...)
	cmd.Dir, cmd.Env = s.options.Dir, append(append(os.Environ(), s.environment...), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("docgauge %s: %w: %s", args[0], err, stderr.String())
	}
	return out, nil
}

// startAlertmanager starts it with a webhook that passes each alert to Say.
func (s *stack) startAlertmanager(context.Context) {
	listener := must.Get(net.Listen("tcp4", "127.0.0.1:0"))
	webhook := &http.Server{ReadTimeout: time.Minute,
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var message struct {
				Alerts []struct {
					Status              string
					Labels, Annotations map[string]string
				}
			}
			if json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&message) != nil {
				return
			}
			for _, alert := range message.Alerts {
				s.options.Say("alert " + alert.Status + ": " + alert.Labels["alertname"] + ": " +
					alert.Annotations["summary"])
			}
		})}
	ended := make(chan struct{})
	go func() {
		_ = webhook.Serve(listener) // it ends with Close
		close(ended)
	}()
	s.stops = append(s.stops, func() error {
		err := webhook.Close()
		<-ended
		return err
	})
	server := must.Get(engines.StartAlertmanager(s.path("alertmanager"), "http://"+listener.Addr().String()+"/"))
	s.Alertmanager = server
	s.stops = append(s.stops, server.Stop)
}

// startSite starts site serve over the log of the web server, with published addresses of one agent, and a serve of
// its own that exports what it counts.
func (s *stack) startSite(ctx context.Context) {
	now := time.Now().UTC()
	ranges := s.path("web", "ranges")
	must.Do(os.MkdirAll(ranges, 0o700))
	must.Do(os.WriteFile(filepath.Join(ranges, "gptbot.json"), fmt.Appendf(nil,
		`{"creationTime": %q, "prefixes": [{"ipv4Prefix": "192.0.2.0/24"}]}`, now.Format(time.RFC3339)), 0o600))
	api, metrics := s.serveSite("web", "DOCGAUGE_SITE_RANGES_DIR="+ranges)
	s.Site = metrics
	key := s.siteKey(ctx, "web", "read")
	s.Readers = freeURL()
	s.startCommand("readers", s.Readers+"/healthz", []string{"serve", "--once-at-start"},
		"DOCGAUGE_BASE_URL="+api, "DOCGAUGE_API_KEY="+key, "DOCGAUGE_PROJECTS="+siteProject,
		"DOCGAUGE_LISTEN_ADDRESS="+strings.TrimPrefix(s.Readers, "http://"),
		"DOCGAUGE_STATE_DIR="+s.path("readers", "state"), "DOCGAUGE_PARQUET_URL="+s.path("readers", "data"),
		"DOCGAUGE_SINKS=parquet", "DOCGAUGE_PROMPTS_DIR=", "DOCGAUGE_API_KEY_EXPIRES=", "DOCGAUGE_OPEN_WINDOWS=",
		"DOCGAUGE_WINDOWS=day,week,month,28d", "DOCGAUGE_SINCE="+monthBefore(now).Format(time.DateOnly))
}

func freeURL() string { return "http://127.0.0.1:" + strconv.Itoa(must.Get(engines.Port())) }

// siteProject is the name that site serve gives a log without a project.
const siteProject = "prj_site"

// serveSite starts site serve over the log, with its files in a directory of the stack. It returns the
// URLs of its API and of its metrics, without a path.
func (s *stack) serveSite(dir string, env ...string) (api, metrics string) {
	api, metrics = freeURL(), freeURL()
	s.startCommand(dir, metrics+"/readyz", []string{"site", "serve"}, append(env,
		"DOCGAUGE_SITE_DIR="+s.path(dir, "facts"),
		"DOCGAUGE_SITE_LISTEN_ADDRESS="+strings.TrimPrefix(api, "http://"),
		"DOCGAUGE_SITE_METRICS_ADDRESS="+strings.TrimPrefix(metrics, "http://"))...)
	return api, metrics
}

// siteKey makes a key of the site in a directory of the stack.
func (s *stack) siteKey(ctx context.Context, dir, scope string) string {
	return strings.TrimSpace(string(must.Get(s.docgauge(ctx, []string{"DOCGAUGE_SITE_DIR=" + s.path(dir, "facts")},
		"site", "keys", "add", "--scope="+scope))))
}

// startCommand starts a command of docgauge in a directory of the stack, and returns when the probe says that it is
// ready.
func (s *stack) startCommand(dir, probe string, args []string, env ...string) *engines.Command {
	started := must.Get(engines.StartCommand(s.path(dir), args[0], append([]string{s.options.Binary}, args...),
		slices.Concat(s.environment, env), func(ctx context.Context) bool {
			_, err := get(ctx, probe)
			return err == nil
		}))
	s.stops = append(s.stops, started.Stop)
	return started
}

// startPrometheus fills a database with the history in the archive, and starts
// a server over it that scrapes serve and evaluates the rules.
func (s *stack) startPrometheus(ctx context.Context) {
	data := s.path("prometheus", "data")
	s.backfill(ctx, data)
	config := engines.PrometheusConfig{
		Scrapes: []engines.Scrape{
			{URL: s.URL + "/metrics", Interval: time.Second},
			{Job: "docgauge-readers", URL: s.Readers + "/metrics", Interval: time.Second},
			{Job: "docgauge-site", URL: s.Site + "/metrics", Interval: time.Second},
		},
		Data:     data,
		Evaluate: 2 * time.Second,
	}
	if s.Alertmanager != nil {
		config.Alertmanagers = []string{strings.TrimPrefix(s.Alertmanager.URL, "http://")}
	}
	// The server reads copies of the rules without the intervals of groups, so
	// that tests do not have to wait a minute.
	for _, path := range s.options.Rules {
		text := must.Get(os.ReadFile(path))
		own := s.path("prometheus", filepath.Base(path))
		must.Do(os.WriteFile(own, groupInterval.ReplaceAll(text, nil), 0o600))
		config.Rules = append(config.Rules, own)
	}
	server := must.Get(engines.StartPrometheus(s.path("prometheus"), config))
	s.Prometheus = server
	s.stops = append(s.stops, server.Stop)
}

// backfill makes blocks of the history up to now, with the labels of the scrape.
func (s *stack) backfill(ctx context.Context, data string) {
	tomorrow := time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	text := must.Get(s.docgauge(ctx, nil, "openmetrics", "--to="+tomorrow, "--pages=5",
		"--label=job=docgauge", "--label=instance="+strings.TrimPrefix(s.URL, "http://")))
	history := s.path("history.om")
	must.Do(os.WriteFile(history, text, 0o600))
	must.Do(os.MkdirAll(data, 0o700))
	run(must.Get(engines.Tool(ctx, "promtool", "tsdb", "create-blocks-from", "openmetrics",
		"--max-block-duration=744h", history, data)))
}

// run runs a program to its end.
func run(cmd *exec.Cmd) {
	if out, err := cmd.CombinedOutput(); err != nil {
		must.Do(fmt.Errorf("%s: %w: %s", cmd, err, out))
	}
}

var (
	ruleGroups    = regexp.MustCompile(`(?m)^groups:`)
	groupInterval = regexp.MustCompile(`(?m)^\s+interval:.*\n`)
)

// ruleFiles returns the files of a directory that have rules, not tests of
// rules or a server's configuration. A missing directory has none.
func ruleFiles(dir string) (rules []string, err error) {
	defer must.Catch(&err)
	for _, path := range must.Get(filepath.Glob(filepath.Join(dir, "*.y*ml"))) {
		if ruleGroups.Match(must.Get(os.ReadFile(path))) {
			rules = append(rules, path)
		}
	}
	return rules, nil
}
