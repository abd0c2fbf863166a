package site

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/ingest"
	"github.com/docgauge/docgauge/internal/site/logs"
	"github.com/docgauge/docgauge/internal/site/serve"
	"github.com/docgauge/docgauge/internal/web/server"
)

// pollInterval is the pause between two looks at the logs.
const pollInterval = time.Second

func (a commands) serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "follow the access logs of a site and answer the API",
		Long: `serve follows the access logs of DOCGAUGE_SITE_LOGS while they grow and rotate,
and answers at DOCGAUGE_SITE_LISTEN_ADDRESS what the API of a documentation
platform answers: unique readers of the site and of each page, for days, weeks,
months and up to 29 days. docgauge export, serve, top and the others work with
it as with the platform; docgauge site keys add prints their settings.

Logs are read from their beginning, rotated ones first. What was read is kept in
DOCGAUGE_SITE_DIR for DOCGAUGE_SITE_RETENTION months: who read which page on
which day, without addresses, user agents and times of day. One process collects
into a directory.

Beyond loopback the API needs TLS, from DOCGAUGE_WEB_CONFIG_FILE, or stands
behind DOCGAUGE_SITE_TRUSTED_PROXIES, and then answers only them. Metrics and
the probes /-/healthy and /-/ready are at DOCGAUGE_SITE_METRICS_ADDRESS. Until
serve has read what the logs had at the start, it is not ready, and answers
questions with 503: incomplete numbers would be taken for settled ones. A log
that cannot be read makes the answers 503 that need its lines.

SIGTERM finishes the requests and the commit under way. docgauge site check
tries the settings.

Exit codes: 0 stopped by a signal; 1 failed; 2 bad usage or configuration,
nothing done; 3 another process collects into the directory.`,
		Example: `  DOCGAUGE_SITE_LOGS='/var/log/nginx/access.log*' docgauge site serve
  docgauge --env-file site.env site serve`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), cmd.InOrStdin()) },
	}
}

// settings is what the settings say of a site.
type settings struct {
	rules   *count.Rules
	sources []logs.Source
	peers   []netip.Prefix  // trusted proxies
	jobs    *serve.JobRules // nil: the site runs no agent jobs
	secrets ingest.Secrets  // of hosts that push lines
}

// readSettings reads the settings of a site. The error names every setting that is wrong.
func (a commands) readSettings(c config.Config) (s settings, err error) {
	var errs [5]error
	s.rules, errs[0] = count.ParseRules(ruleSettings(c), a.Now)
	if s.sources, errs[1] = logs.ParseSources(c.SiteLogs); errs[1] != nil {
		errs[1] = fmt.Errorf("DOCGAUGE_SITE_LOGS: %w", errs[1])
	}
	if s.peers, errs[2] = count.ParseNetworks(c.SiteTrustedProxies); errs[2] != nil {
		errs[2] = fmt.Errorf("DOCGAUGE_SITE_TRUSTED_PROXIES: %w", errs[2])
	}
	if s.secrets, errs[4] = ingest.ParseSecrets(string(c.SiteIngestSecret), s.sources); errs[4] != nil && errs[1] == nil {
		errs[4] = named("DOCGAUGE_SITE_INGEST_SECRET", errs[4])
	} else {
		errs[4] = nil
	}
	if errs[0] == nil && errs[1] == nil {
		s.jobs, errs[3] = serve.ParseJobs(jobSettings(c), s.rules.Projects(s.sources))
	}
	if err := errors.Join(errs[:]...); err != nil {
		return s, config.Problems(strings.Split(err.Error(), "\n"))
	}
	return s, nil
}

func jobSettings(c config.Config) serve.JobSettings {
	private := map[string]string{"DOCGAUGE_SITE_DIR": c.SiteDir, "DOCGAUGE_STATE_DIR": c.StateDir}
	for name, file := range c.SecretFiles {
		private[name+"_FILE"] = file
	}
	if c.File != "" {
		private["the settings file"] = c.File
	}
	return serve.JobSettings{Private: private, Repo: c.SiteRepo, Agent: c.SiteAgent, Command: c.SiteAgentCommand, Env: c.SiteAgentEnv,
		Variables: c.AgentVariables, Hosts: c.SiteAgentHosts, Tools: c.SiteAgentTools, URL: c.SiteAgentURL,
		CA: c.SiteAgentCA, Allow: c.SiteAgentAllow, Refuse: c.SiteAgentRefuse, Check: c.SiteCheckCommand,
		CheckTries: int(c.SiteCheckTries), Jail: c.SiteJail, CodeHost: c.SiteCodeHost, CodeHostURL: c.SiteCodeHostURL,
		Labels: c.SitePullLabels, Draft: c.SitePullDraft, HidePrompt: !c.SitePullPrompt,
		Timeout: time.Duration(c.SiteJobTimeout), Concurrency: int(c.SiteJobConcurrency), MaxDisk: int64(c.SiteJobDisk), Token: c.CodeHostToken()}
}

func (a commands) readConfig() (c config.Config, s settings, err error) {
	c, errSettings := a.Config(config.NeedSite)
	s, errSite := a.readSettings(c)
	var all config.Problems
	for _, err := range []error{errSettings, errSite, exposed(c)} {
		if problems, ok := errors.AsType[config.Problems](err); ok {
			all = append(all, problems...)
		} else if err != nil {
			all = append(all, err.Error())
		}
	}
	if len(all) > 0 {
		return c, s, all
	}
	return c, s, nil
}

// named puts the name of a setting before each line of an error.
func named(setting string, err error) error {
	return errors.New(setting + ": " + strings.ReplaceAll(err.Error(), "\n", "\n"+setting+": "))
}

// exposed returns an error if others could read the keys of the API, or of hosts that push, on their way, or if the web
// configuration takes their place.
func exposed(c config.Config) error {
	tls, err := server.UsesTLS(c.WebConfigFile)
	if err != nil {
		return nil //nolint:nilerr // config says it
	}
	if users, err := server.HasUsers(c.WebConfigFile); err == nil && users {
		return fmt.Errorf("DOCGAUGE_WEB_CONFIG_FILE %s: has basic_auth_users, which need the header Authorization that has the "+
			"API key: use a file without them for site serve", c.WebConfigFile)
	}
	var problems config.Problems
	for _, o := range []server.Options{c.SiteServer(), c.SiteIngest()} {
		for _, address := range o.Addresses {
			_, _, bad := net.SplitHostPort(address) // config says it
			if !tls && c.SiteTrustedProxies == "" && bad == nil && !server.IsLoopback(address) {
				problems = append(problems, fmt.Sprintf("%s %s: other machines could reach it, and API keys would go over the "+
					"network in the clear: give TLS by DOCGAUGE_WEB_CONFIG_FILE, name the proxies in "+
					"DOCGAUGE_SITE_TRUSTED_PROXIES, or listen on 127.0.0.1", o.Setting, address))
			}
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return problems
}

func (a commands) serve(ctx context.Context, stdin io.Reader) (err error) {
	console.SurviveClosedPipes()
	c, s, err := a.readConfig()
	if err != nil {
		return err
	}
	log := a.Logger(c)
	defer tuneCollector()()
	store, err := facts.Open(c.SiteDir)
	if err != nil {
		return fmt.Errorf("DOCGAUGE_SITE_DIR: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	projects := s.rules.Projects(s.sources)
	collect := serve.CollectOptions{Now: a.Now, Logger: log, Every: pollInterval, Retention: int(c.SiteRetention),
		Humans: c.SiteHumans, Stdin: stdin}
	collector, answers := serve.NewCollector(s.rules, s.sources, store, collect), serve.NewAnswers(store, collect)
	exposition := serve.NewExposition(collector, answers, s.rules)
	options := api.Options{Now: a.Now, Logger: log}
	if log.Enabled(ctx, slog.LevelInfo) {
		options.RequestLog = log.Handler()
	}
	if s.jobs != nil {
		jobs, openErr := serve.OpenJobs(ctx, s.jobs, store.Dir(), a.Now, collector.ClockHeld, log)
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, jobs.Close()) }()
		options.Jobs = jobs
		if refused := jobs.Refused(); refused != nil {
			log.Error("agent jobs are refused", "error", refused)
		} else {
			log.Log(ctx, s.jobs.Level(), "agent jobs: "+s.jobs.Jailed())
		}
	}
	service, ingesting := c.SiteServer(), c.SiteIngest()
	service.Handler = exposition.Count(answers.NewService(projects, collector.Lacks, options).Handler())
	pushed := ingest.NewHandler(ingest.Options{Sources: s.sources, Projects: projects, Secrets: s.secrets,
		FindKey: findIngestKey(store), Take: collector.Take, Logger: log})
	ingesting.Handler = exposition.CountIngest(pushed)
	isApart := pushed != nil && len(ingesting.Addresses) > 0
	if pushed != nil && !isApart {
		service.Handler = ingest.Before(ingesting.Handler, service.Handler)
	}
	service.Peers, service.Logger = s.peers, log
	api, err := server.Listen(service)
	if err != nil {
		return err
	}
	servers, metricsURL, ingestURL := []*server.Server{api}, "", api.URL()
	if isApart {
		ingesting.Peers, ingesting.Logger = s.peers, log
		one, err := server.Listen(ingesting)
		if err != nil {
			return errors.Join(err, api.Close())
		}
		servers, ingestURL = append(servers, one), one.URL()
	}
	if pushed == nil {
		ingestURL = ""
	}
	if metrics := c.SiteMetrics(); len(metrics.Addresses) > 0 {
		metrics.Handlers = map[string]http.Handler{"/metrics": exposition.Handler(), "/": exposition.Page(a.Now)}
		metrics.Ready, metrics.Logger = exposition.Ready, log
		m, err := server.Listen(metrics)
		if err != nil {
			for _, one := range servers {
				err = errors.Join(err, one.Close())
			}
			return err
		}
		servers, metricsURL = append(servers, m), m.URL()+"/metrics"
	}
	if err := a.announce(ctx, c, s, store, projects, [...]string{api.URL(), metricsURL, ingestURL}); err != nil {
		return err
	}
	log.Info("site serve started", "url", api.URL(), "metrics", metricsURL, "ingest", ingestURL, "directory", store.Dir(),
		"projects", projects, "version", c.Build.Version)
	group, ctx := errgroup.WithContext(ctx)
	for _, one := range servers {
		group.Go(func() error { return one.Serve(ctx) })
	}
	group.Go(func() error { return collector.Run(ctx) })
	group.Go(func() error {
		exposition.Watch(ctx, store)
		return nil
	})
	err = group.Wait()
	log.Info("site serve stopped")
	return err
}

// findIngestKey looks up keys for hosts that push lines.
func findIngestKey(store *facts.Store) func(context.Context, [sha256.Size]byte) (ingest.Credential, bool, error) {
	return func(ctx context.Context, digest [sha256.Size]byte) (ingest.Credential, bool, error) {
		k, found, err := store.FindAPIKey(ctx, digest)
		return ingest.Credential{Scope: k.Scope, Project: k.Project, Source: k.Source}, found, err
	}
}

// announce tells a person what is served, and what to do next.
func (a commands) announce(
	ctx context.Context, c config.Config, s settings, store *facts.Store, projects []string, urls [3]string,
) error {
	url, metricsURL, ingestURL := urls[0], urls[1], urls[2]
	dir, err := filepath.Abs(store.Dir())
	if err != nil {
		return err
	}
	keys, err := store.APIKeys(ctx)
	if err != nil {
		return err
	}
	a.Note("API at %s for %s; stop with Ctrl-C", url, strings.Join(projects, ", "))
	if metricsURL != "" {
		a.Note("metrics at %s", metricsURL)
	}
	a.Note("reads %s", c.SiteLogs)
	for _, source := range s.sources {
		if name, ok := source.Pushed(); ok {
			a.Note("takes lines at %s%s%s", ingestURL, ingest.Prefix, name)
		}
	}
	a.Note("keeps who read what for %s in %s", format.Plural(int(c.SiteRetention), "month"), dir)
	if len(keys) == 0 {
		a.Note("next: docgauge site keys add (makes a key, prints settings of export)")
	} else {
		a.Note("%s: docgauge site keys list", format.Plural(len(keys), "API key"))
	}
	return nil
}
