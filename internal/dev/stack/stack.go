// Command stack runs the whole of docgauge on loopback until it is interrupted, without
// containers: the sandbox with a git repository that its agent jobs edit,
// ClickHouse, `docgauge serve` with both sinks and a prompt queue, a web server whose log `docgauge site serve` counts,
// another serve that exports that, `docgauge site serve` with jailed agent jobs on a code host of each kind,
// Prometheus with the history of the archive, the rules of deploy/prometheus and a scrape of all, and Alertmanager. It
// serves `make stack`, and its tests run every query of the dashboards and rules. "stack with COMMAND"
// runs a command beside the servers that its sinks need.
//
// It hides the order in which these start and how each learns of the others.
// Its invariant: everything is in the one directory it was given, listens on
// 127.0.0.1 only, and is gone after stop, or when this process ends. An engine
// that is not installed is left out and reported; the rest still runs.
//
// It neither builds docgauge nor installs anything, and does not know what the
// queries should return, except that there is data.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/must"
	"github.com/docgauge/docgauge/internal/dev/testbed"
)

// projects are the two projects of the sandbox.
var projects = []string{"prj_docs", "prj_api"}

// options say what to start.
type options struct {
	Binary string   // of docgauge
	Dir    string   // for everything; made if it is absent
	Rules  []string // files of rules for Prometheus; see RuleFiles
	// Say gets a line for each step and each alert; nil discards them. It may be
	// called from several goroutines at once.
	Say func(text string)
}

// stack is a running stack. An engine that is not installed is nil, and listed
// in Missing.
type stack struct {
	API          string // base URL of the sandbox
	URL          string // of serve, without a path
	Site         string // of the metrics of site serve, without a path
	Readers      string // of the serve that exports from site serve, without a path
	Web          *engines.WebServer
	ClickHouse   *engines.ClickHouse
	Alertmanager *engines.Alertmanager
	Prometheus   *engines.Prometheus
	SiteJobs     []siteJob
	Missing      []engines.Missing

	options     options
	serve       *engines.Command
	environment []string       // of docgauge
	repository  string         // that agent jobs edit; empty if they only pretend to
	stops       []func() error // in the order of starting
}

// start starts everything, exports the past two months and this one into the
// sinks, and gives that history to Prometheus. It returns when serve runs and
// has its prompts; awaitFirstRun waits until serve has done everything once. After an
// error nothing runs. If ctx ends, the error is its cause, without the errors of the
// step that was interrupted.
func start(ctx context.Context, o options) (*stack, error) {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	s := &stack{options: o}
	err := s.start(ctx)
	if err != nil && ctx.Err() != nil {
		if err := s.stop(); err != nil {
			return nil, fmt.Errorf("stack in %s: stop: %w", o.Dir, err)
		}
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("stack in %s: %w", o.Dir, err), s.stop())
	}
	return s, nil
}

func (s *stack) start(ctx context.Context) (err error) {
	defer must.Catch(&err)
	s.options.Dir, s.options.Binary = must.Get(filepath.Abs(s.options.Dir)), must.Get(filepath.Abs(s.options.Binary))
	must.Do(os.MkdirAll(s.options.Dir, 0o700))
	s.URL = freeURL() // Prometheus must know it before serve runs
	for _, step := range []struct {
		say string
		do  func(context.Context)
	}{
		{"a documentation site in git", s.writeSite},
		{"sandbox", s.startSandbox},
		{"clickhouse", s.startClickHouse},
		{"an agent job of the past, whose pull request was merged", s.firstJob},
		{"export of the past days", s.export},
		{"a web server, with readers of the past days", s.startWebServer},
		{"a site of one's own, from the web server's log, and its export", s.startSite},
		{"jailed agent jobs of the site, on a code host of each kind", s.runSiteJobs},
		{"alertmanager", s.startAlertmanager},
		{"prometheus, with the history", s.startPrometheus},
		{"serve", func(context.Context) {
			s.serve = s.startCommand("serve", s.URL+"/healthz", []string{"serve", "--once-at-start"}) // it exports at once
		}},
		{"prompts for agent jobs", s.writePrompts},
	} {
		s.options.Say(step.say)
		err := must.Try(func() { step.do(ctx) })
		if missing, ok := errors.AsType[engines.Missing](err); ok {
			s.Missing = append(s.Missing, missing)
			s.options.Say(missing.Error() + "; going on without it")
		} else if err != nil {
			return fmt.Errorf("%s: %w", step.say, err)
		}
	}
	return nil
}

// stop ends everything, last started first. The directory stays.
func (s *stack) stop() error {
	var errs []error
	for i := len(s.stops) - 1; i >= 0; i-- {
		errs = append(errs, s.stops[i]())
	}
	s.stops = nil
	return errors.Join(errs...)
}

// path is a path below the directory of the stack.
func (s *stack) path(elements ...string) string {
	return filepath.Join(append([]string{s.options.Dir}, elements...)...)
}

// done are counters of serve that are positive once it has done everything.
var done = []string{
	`docgauge_export_runs_total{outcome="success"}`,
	`docgauge_agent_jobs_finished_total{project="prj_docs",result="pr"}`,
	`docgauge_agent_jobs_finished_total{project="prj_api",result="pr"}`,
	`docgauge_agent_jobs_finished_total{project="prj_docs",result="no_pr"}`,
	`docgauge_agent_jobs_finished_total{project="prj_docs",result="failed"}`,
	`docgauge_agent_pull_requests_merged_total{project="prj_docs"}`,
}

// awaitFirstRun returns when serve has exported, and agent jobs have ended with a pull
// request, without one, and as failed, and a pull request was merged. If serve or ctx ends first, it returns an
// error that names what is lacking.
func (s *stack) awaitFirstRun(ctx context.Context) (err error) {
	defer must.Catch(&err)
	s.await(ctx, func(ctx context.Context) string {
		text, err := get(ctx, s.URL+"/metrics")
		if err != nil {
			return err.Error()
		}
		for _, name := range done {
			found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindStringSubmatch(text)
			if found == nil {
				return name
			}
			if n, err := strconv.ParseFloat(found[1], 64); err != nil || n < 1 {
				return name
			}
		}
		return ""
	})
	return nil
}

// await returns when lacking returns nothing any more.
func (s *stack) await(ctx context.Context, lacking func(context.Context) string) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		what := lacking(ctx)
		if what == "" {
			return
		}
		select {
		case <-tick.C:
		case <-s.serve.Ended():
			must.Do(fmt.Errorf("serve ended:\n%s", s.serve.Tail()))
		case <-ctx.Done():
			must.Do(fmt.Errorf("still waiting for %s: %w\n%s", what, ctx.Err(), s.serve.Tail()))
		}
	}
}

// get reads a page; an answer other than 200 is an error.
func get(ctx context.Context, url string) (string, error) {
	status, text, err := testbed.Fetch(ctx, url)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("GET %s: status %d: %s", url, status, strings.TrimSpace(text))
	}
	return text, err
}

// sight is something to look at.
type sight struct{ Name, Where string }

// places lists what a person can look at. It writes a report first.
func (s *stack) places(ctx context.Context) (places []sight, err error) {
	defer must.Catch(&err)
	places = []sight{{"readers", s.URL + "/"}, {"status page", s.URL + "/status"}, {"metrics", s.URL + "/metrics"}}
	if s.Site != "" {
		places = append(places, sight{"site serve", s.Site + "/"}, sight{"its readers", s.Readers + "/"})
	}
	if s.Web != nil {
		places = append(places, sight{"web server", "http://" + s.Web.Addr + "/"})
	}
	if s.Prometheus != nil {
		alerts := s.Prometheus.URL + "/alerts"
		if _, err := get(ctx, alerts); err != nil { // Debian's has the classic pages only
			alerts = s.Prometheus.URL + "/classic/alerts"
		}
		places = append(places, sight{"Prometheus", s.Prometheus.URL + "/"}, sight{"alerts", alerts})
	}
	if s.Alertmanager != nil {
		places = append(places, sight{"Alertmanager", s.Alertmanager.URL + "/"})
	}
	if s.ClickHouse != nil {
		places = append(places, sight{"ClickHouse",
			s.ClickHouse.DSN("default") + " and http://" + s.ClickHouse.HTTPAddr() + "/"})
	}
	text := must.Get(s.docgauge(ctx, nil, "jobs", "list", "--json"))
	var list struct {
		Jobs []struct {
			Prompt string `json:"prompt"`
			PRLink string `json:"pr_link"`
			Pull   struct {
				State string `json:"state"`
			} `json:"pull_request"`
		} `json:"jobs"`
	}
	must.Do(json.Unmarshal(text, &list))
	for _, job := range list.Jobs {
		if job.PRLink != "" {
			places = append(places, sight{"pull request",
				job.PRLink + " (" + job.Prompt + ", " + cmp.Or(job.Pull.State, "not read yet") + ")"})
		}
	}
	must.Get(s.docgauge(ctx, nil, "report", "--output="+s.path("report.html")))
	return append(places,
		sight{"report", s.path("report.html")},
		sight{"sandbox", s.API},
		sight{"prompts", s.path("prompts")},
		sight{"Parquet files", s.path("data")}), nil
}
