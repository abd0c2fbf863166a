// Package config reads the settings from the environment, checks them, and reports
// everything that is wrong with them at once. It opens and sends nothing.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/pulls/codehost"
	"github.com/docgauge/docgauge/internal/secretfile"
	"github.com/docgauge/docgauge/internal/web/server"
	"github.com/docgauge/docgauge/sinks/clickhouse"
	"github.com/docgauge/docgauge/sinks/delta"
	"github.com/docgauge/docgauge/sinks/parquet"
	"github.com/docgauge/docgauge/sinks/postgres"
)

const (
	prefix = "DOCGAUGE"
	// envFileVariable names a file of settings, as --env-file does.
	envFileVariable = prefix + "_ENV_FILE"
	// openWindowsVariable is the only variable whose empty value has a meaning.
	openWindowsVariable = prefix + "_OPEN_WINDOWS"
)

// MaxTopPages is how many pages of a newest window the state keeps, so that
// DOCGAUGE_TOP_PAGES can be raised up to it without reading anything again.
const MaxTopPages = 1000

// defaultDays is how many days are backfilled unless DOCGAUGE_SINCE is set: at least two
// whole months.
const defaultDays = 90

// Config holds the settings: one field per environment variable. The tables in the
// documentation and in --help are made from it. A secret has a second field, whose
// name ends in File, for the file that holds it. A group begins at the field that
// names it.
type Config struct {
	BaseURL           string       `group:"Platform" envconfig:"BASE_URL" desc:"base URL of the service; https, http only for a loopback host"`
	APIKey            Secret       `envconfig:"API_KEY" desc:"admin key, <prefix>_<secret>; or DOCGAUGE_API_KEY_FILE, a file that holds it"`
	APIKeyFile        string       `envconfig:"API_KEY_FILE" desc:"-"`
	APIKeyExpires     OptionalDate `envconfig:"API_KEY_EXPIRES" desc:"date on which the key expires, YYYY-MM-DD"`
	Projects          Projects     `envconfig:"PROJECTS" desc:"comma-separated project ids"`
	ProjectNames      ProjectNames `envconfig:"PROJECT_NAMES" desc:"display names of the projects: prj_a=Product docs,prj_b=…; never in paths or labels"`
	Windows           Windows      `group:"Windows and budget" envconfig:"WINDOWS" default:"day,week,month,28d:totals" desc:"granularities to export: day, week (ISO, from Monday), month, Nd (rolling, N complete days); :totals reads site totals only"`
	OpenWindows       OpenWindows  `envconfig:"OPEN_WINDOWS" default:"day" desc:"granularities (day, week, month) whose running window is read, for gauges; empty = none"`
	Since             OptionalDate `envconfig:"SINCE" desc:"first date to backfill (default 90 days ago); the newest two windows of each granularity are read even if they begin earlier"`
	Settle            Duration     `envconfig:"SETTLE" default:"72h" desc:"time after its end during which a window can change"`
	Budget            Count        `envconfig:"BUDGET" default:"90" desc:"analytics requests per sliding hour, all projects together; 0 = unlimited"`
	MinInterval       Duration     `envconfig:"MIN_INTERVAL" default:"0s" desc:"minimum time between two requests"`
	Concurrency       Count        `envconfig:"CONCURRENCY" default:"4" desc:"requests in flight"`
	Timeout           Duration     `envconfig:"TIMEOUT" default:"60s" desc:"time limit of one request"`
	Sinks             Sinks        `group:"Sinks" envconfig:"SINKS" default:"parquet" desc:"destinations of windows, one or several: parquet, delta, clickhouse, postgres"`
	ParquetURL        string       `envconfig:"PARQUET_URL" default:"./data" desc:"directory, or s3://bucket/prefix[?region=&endpoint=&path_style=]; S3 credentials as for the AWS CLI"`
	DeltaURL          string       `envconfig:"DELTA_URL" default:"./delta" desc:"root of the Delta Lake tables visitors and totals: a directory, or s3://bucket/prefix as for Parquet"`
	ClickHouseDSN     Secret       `envconfig:"CLICKHOUSE_DSN" desc:"clickhouse://[user:password@]host:9000/database[?secure=true] or https://…:8443/database; or DOCGAUGE_CLICKHOUSE_DSN_FILE"`
	ClickHouseDSNFile string       `envconfig:"CLICKHOUSE_DSN_FILE" desc:"-"`
	ClickHouseCluster string       `envconfig:"CLICKHOUSE_CLUSTER" desc:"ClickHouse cluster name; creates Replicated and Distributed tables"`
	PostgresDSN       Secret       `envconfig:"POSTGRES_DSN" desc:"postgres://[user:password@]host:5432/database[?sslmode=verify-full&search_path=schema]; or DOCGAUGE_POSTGRES_DSN_FILE"`
	PostgresDSNFile   string       `envconfig:"POSTGRES_DSN_FILE" desc:"-"`
	Schedule          Cron         `group:"Serve and metrics" envconfig:"SCHEDULE" default:"17 * * * *" desc:"schedule of exports under serve: cron, five fields, UTC"`
	RunTimeout        Duration     `envconfig:"RUN_TIMEOUT" default:"6h" desc:"time limit of one export under serve; the next one continues"`
	ListenAddress     Addresses    `envconfig:"LISTEN_ADDRESS" default:"127.0.0.1:9817" desc:"address serve listens on, or several, comma-separated; port 0 picks a free one"`
	AllowedHosts      Hosts        `envconfig:"ALLOWED_HOSTS" desc:"comma-separated host names, besides loopback names and IP addresses, under which pages, API, /mcp and /-/reload answer"`
	WebConfigFile     string       `envconfig:"WEB_CONFIG_FILE" desc:"TLS and basic auth of serve, in the format of the Prometheus exporter-toolkit"`
	TopPages          Count        `envconfig:"TOP_PAGES" default:"50" desc:"number of most visited pages with metrics, per project and window"`
	Textfile          string       `envconfig:"TEXTFILE" desc:"file ending in .prom that export writes for node_exporter's textfile collector"`
	PushgatewayURL    Secret       `envconfig:"PUSHGATEWAY_URL" desc:"Pushgateway that export pushes to, http://host:9091[/metrics/job/NAME[/LABEL/VALUE…]]; or DOCGAUGE_PUSHGATEWAY_URL_FILE"`
	PushgatewayFile   string       `envconfig:"PUSHGATEWAY_URL_FILE" desc:"-"`
	PromptsDir        string       `group:"Agent jobs" envconfig:"PROMPTS_DIR" desc:"folder of prompt files, each of which becomes an agent job; unset = no queue"`
	PromptsOnNewState NewState     `envconfig:"PROMPTS_ON_NEW_STATE" default:"refuse" desc:"action on prompt files if the state has no job history: refuse, submit (send them), skip (treat them as done)"`
	WriteAPIKey       Secret       `envconfig:"WRITE_API_KEY" desc:"separate key for agent jobs; or DOCGAUGE_WRITE_API_KEY_FILE"`
	WriteAPIKeyFile   string       `envconfig:"WRITE_API_KEY_FILE" desc:"-"`
	AgentBudget       Count        `envconfig:"AGENT_BUDGET" default:"90" desc:"prompts and follow-ups sent per sliding hour and project; 0 = unlimited"`
	MaxJobsPerDay     Count        `envconfig:"MAX_JOBS_PER_DAY" default:"10" desc:"maximum number of agent jobs begun within 24 hours, all projects together"`
	MaxActiveJobs     Count        `envconfig:"MAX_ACTIVE_JOBS" default:"3" desc:"maximum number of active agent jobs, all projects together"`
	PollInterval      Duration     `envconfig:"POLL_INTERVAL" default:"15s" desc:"time between two polls of an agent job; grows to 5 minutes"`
	JobPath           string       `envconfig:"JOB_PATH" default:"/v2/agent/{projectId}/job/{id}" desc:"path for fetching an agent job (not fixed by the API specification)"`
	GitHubToken       Secret       `group:"Pull requests" envconfig:"GITHUB_TOKEN" desc:"token that may read the pull requests of agent jobs at GitHub; or DOCGAUGE_GITHUB_TOKEN_FILE; unset = their state is unknown"`
	GitHubTokenFile   string       `envconfig:"GITHUB_TOKEN_FILE" desc:"-"`
	GitHubURL         string       `envconfig:"GITHUB_URL" default:"https://api.github.com" desc:"URL of GitHub's API; https://HOST/api/v3 for a server of your own; http only for a loopback host"`
	GitLabToken       Secret       `envconfig:"GITLAB_TOKEN" desc:"token that may read the merge requests of agent jobs at GitLab; or DOCGAUGE_GITLAB_TOKEN_FILE; unset = their state is unknown"`
	GitLabTokenFile   string       `envconfig:"GITLAB_TOKEN_FILE" desc:"-"`
	GitLabURL         string       `envconfig:"GITLAB_URL" default:"https://gitlab.com/api/v4" desc:"URL of GitLab's API; https://HOST/api/v4 for a server of your own; http only for a loopback host"`
	MaxOpenPulls      Count        `envconfig:"MAX_OPEN_PULL_REQUESTS" default:"0" desc:"pull requests that may be open, with the jobs at work that may open one, before another job begins, all projects together; 0 = no limit"`
	MaxReviewAge      Duration     `envconfig:"MAX_REVIEW_AGE" default:"0s" desc:"median age of the open pull requests above which no job begins, all projects together; 0s = no limit"`
	JobCost           Amount       `envconfig:"JOB_COST" default:"0" desc:"cost of one agent job, a number in a unit of your choice, counted for each job that is created; 0 = not counted"`
	NotifyURL         Secret       `group:"Notifications" envconfig:"NOTIFY_URL" desc:"webhook for notifications: failed exports, expiring keys, ended agent jobs and others; or DOCGAUGE_NOTIFY_URL_FILE"`
	NotifyURLFile     string       `envconfig:"NOTIFY_URL_FILE" desc:"-"`
	NotifySecret      Secret       `envconfig:"NOTIFY_SECRET" desc:"HMAC-SHA256 key that signs the notifications; or DOCGAUGE_NOTIFY_SECRET_FILE"`
	NotifySecretFile  string       `envconfig:"NOTIFY_SECRET_FILE" desc:"-"`
	NotifyFormat      NotifyFormat `envconfig:"NOTIFY_FORMAT" default:"json" desc:"format of notifications: json, or slack (an incoming webhook)"`
	Digest            Cron         `envconfig:"DIGEST" desc:"schedule of the digest of each project's newest week: cron, five fields, UTC; unset = never"`
	PingURL           Secret       `envconfig:"PING_URL" desc:"cron monitor that gets a GET after each successful export, with /fail after a failed one; or DOCGAUGE_PING_URL_FILE"`
	PingURLFile       string       `envconfig:"PING_URL_FILE" desc:"-"`
	StateDir          string       `group:"State and logs" envconfig:"STATE_DIR" default:"./state" desc:"ledger, budget and spool; mode 0700"`
	SpoolMax          Bytes        `envconfig:"SPOOL_MAX" default:"1GiB" desc:"spool size at which exporting pauses"`
	LogLevel          slog.Level   `envconfig:"LOG_LEVEL" default:"info" desc:"debug, info, warn or error"`
	LogFormat         LogFormat    `envconfig:"LOG_FORMAT" default:"text" desc:"text or json"`

	EnvFile string `envconfig:"ENV_FILE" desc:"file of settings, KEY=VALUE lines; as --env-file"`

	Build Build `ignored:"true" desc:"-"`
	// Warnings say what works and should not stay as it is.
	Warnings []string `ignored:"true" desc:"-"`
}

// Build is what the program says of itself.
type Build struct{ Version, Revision string }

// Problems is a bad configuration, with one line for each problem.
type Problems []string

// Error lists all of them.
func (p Problems) Error() string {
	return "configuration:\n  " + strings.Join(p, "\n  ")
}

func (p *Problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// join adds every line of an error.
func (p *Problems) join(err error) {
	if err != nil {
		*p = append(*p, strings.Split(err.Error(), "\n")...)
	}
}

// Need says which settings a command requires.
type Need int

// The needs; they can be combined.
const (
	NeedProjects Need = 1 << iota
	NeedAPI           // BASE_URL and API_KEY
	NeedServer        // the listener of serve
	NeedPrompts       // PROMPTS_DIR
	NeedNothing  Need = 0
)

// Load reads the environment. The error is of type [Problems].
func Load(n Need, now time.Time) (Config, error) { return new(EnvFile).Load(n, now) }

// Load reads the environment, which has the variables of the file after Apply. The error
// is of type [Problems], has those of the file too, and names the line of each value.
func (f *EnvFile) Load(n Need, now time.Time) (Config, error) {
	c := Config{Warnings: slices.Clone(f.Warnings)}
	p := slices.Clone(f.Problems)
	checkNames(&p)
	dropEmpty()
	process(&c, &p)
	c.readSecrets(&p)
	c.require(n, &p)
	c.validate(now, &p)
	if n&NeedServer != 0 {
		p.join(server.Check(c.Server()))
	}
	f.locate(p)
	if len(p) > 0 {
		return c, p
	}
	return c, nil
}

// process lets envconfig fill c. It stops at the first value that does not parse:
// that value is reported, removed from the environment, and the rest is processed
// again. The error of envconfig itself would print the value, which may be a secret.
func process(c *Config, p *Problems) {
	for {
		err := envconfig.Process(prefix, c)
		if err == nil {
			return
		}
		bad, ok := errors.AsType[*envconfig.ParseError](err)
		if !ok || os.Unsetenv(bad.KeyName) != nil {
			p.add("%s: cannot be read", prefix)
			return
		}
		p.add("%s: %v", bad.KeyName, bad.Err)
	}
}

// Server is the listener's configuration, without handlers.
func (c Config) Server() server.Options {
	return server.Options{Addresses: c.ListenAddress, WebConfigFile: c.WebConfigFile, AllowedHosts: c.AllowedHosts}
}

// Variable is an environment variable, as the documentation lists it. A variable
// that ends in _FILE and holds a secret's file has no meaning of its own.
type Variable struct {
	Name, Default, Meaning string
	// Group is the heading that the variable is listed under. Those of one group are
	// next to each other.
	Group string
	// Secret reports whether the value is never shown.
	Secret bool
}

// Variables returns all variables.
func Variables() []Variable {
	t := reflect.TypeFor[Config]()
	var out []Variable
	group := ""
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		group = cmp.Or(tag.Get("group"), group)
		if name := tag.Get("envconfig"); name != "" {
			out = append(out, Variable{
				prefix + "_" + name, tag.Get("default"), strings.TrimPrefix(tag.Get("desc"), "-"), group,
				t.Field(i).Type == reflect.TypeFor[Secret](),
			})
		}
	}
	return out
}

// checkNames finds DOCGAUGE_ variables that nothing reads. Kubernetes sets some for
// a Service called docgauge, which are not ours.
func checkNames(p *Problems) {
	known := Variables()
	for _, pair := range os.Environ() {
		full, _, _ := strings.Cut(pair, "=")
		name, ours := strings.CutPrefix(full, prefix+"_")
		switch {
		case !ours, slices.ContainsFunc(known, func(v Variable) bool { return v.Name == full }), strings.HasPrefix(name, "PORT"), strings.HasPrefix(name, "SERVICE_"):
		default:
			p.add("%s: unknown variable%s", full, didYouMean(full, known))
		}
	}
}

// dropEmpty unsets empty variables, so that their defaults apply. Only an empty
// OPEN_WINDOWS has a meaning.
func dropEmpty() {
	for _, v := range Variables() {
		if text, set := os.LookupEnv(v.Name); set && text == "" && v.Name != openWindowsVariable {
			os.Unsetenv(v.Name)
		}
	}
}

// readSecrets reads the secrets that are given as files.
func (c *Config) readSecrets(p *Problems) {
	c.readSecret(p, "DOCGAUGE_API_KEY", &c.APIKey, c.APIKeyFile)
	c.readSecret(p, "DOCGAUGE_CLICKHOUSE_DSN", &c.ClickHouseDSN, c.ClickHouseDSNFile)
	c.readSecret(p, "DOCGAUGE_POSTGRES_DSN", &c.PostgresDSN, c.PostgresDSNFile)
	c.readSecret(p, "DOCGAUGE_WRITE_API_KEY", &c.WriteAPIKey, c.WriteAPIKeyFile)
	c.readSecret(p, "DOCGAUGE_GITHUB_TOKEN", &c.GitHubToken, c.GitHubTokenFile)
	c.readSecret(p, "DOCGAUGE_GITLAB_TOKEN", &c.GitLabToken, c.GitLabTokenFile)
	c.readSecret(p, "DOCGAUGE_NOTIFY_URL", &c.NotifyURL, c.NotifyURLFile)
	c.readSecret(p, "DOCGAUGE_NOTIFY_SECRET", &c.NotifySecret, c.NotifySecretFile)
	c.readSecret(p, "DOCGAUGE_PING_URL", &c.PingURL, c.PingURLFile)
	c.readSecret(p, "DOCGAUGE_PUSHGATEWAY_URL", &c.PushgatewayURL, c.PushgatewayFile)
}

func (c *Config) readSecret(p *Problems, name string, value *Secret, file string) {
	if file == "" {
		return
	}
	if *value != "" {
		p.add("%s and %s_FILE: set one of them", name, name)
		return
	}
	held, err := secretfile.ReadFile(file)
	if err != nil {
		p.add("%s_FILE: %v", name, err)
		return
	}
	// Whose file it is not, in a container say, cannot change the mode.
	if held.Open() && held.Own {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s_FILE: everybody on this machine can read the file (mode %04o): chmod 600 %s", name, held.Mode, file))
	}
	if *value = Secret(strings.TrimSpace(held.Text)); *value == "" {
		p.add("%s_FILE: the file is empty", name)
	}
}

// ReadSecret reads a secret from a file, without the white space around it.
func ReadSecret(file string) (Secret, error) {
	text, err := secretfile.Read(file)
	return Secret(text), err
}

func (c *Config) require(n Need, p *Problems) {
	if n&NeedAPI != 0 {
		if c.BaseURL == "" {
			p.add("DOCGAUGE_BASE_URL: missing; the service's base URL, like https://api.example.com")
		}
		if c.APIKey == "" && c.APIKeyFile == "" {
			p.add("DOCGAUGE_API_KEY: missing; an admin key from the API keys page of the dashboard (or DOCGAUGE_API_KEY_FILE)")
		}
	}
	if n&NeedPrompts != 0 && c.PromptsDir == "" {
		p.add("DOCGAUGE_PROMPTS_DIR: missing; the folder of prompt files")
	}
	if n&NeedProjects != 0 && len(c.Projects) == 0 && !problemWith(*p, "DOCGAUGE_PROJECTS") {
		p.add("DOCGAUGE_PROJECTS: missing; comma-separated project ids from the API keys page of the dashboard")
	}
}

func problemWith(p Problems, name string) bool {
	return slices.ContainsFunc(p, func(s string) bool { return strings.HasPrefix(s, name+":") })
}

func (c *Config) validate(now time.Time, p *Problems) {
	today := analytics.DateOf(now)
	if !c.Since.Set {
		c.Since = OptionalDate{today - defaultDays, true}
	}
	if c.Since.Date > today {
		p.add("DOCGAUGE_SINCE: %s is after today, %s (UTC): there would be nothing to export; is the clock right?", c.Since.Date, today)
	}
	c.validateAPI(p)
	within(p, "DOCGAUGE_CONCURRENCY", int(c.Concurrency), 1, 64)
	within(p, "DOCGAUGE_TIMEOUT", time.Duration(c.Timeout), time.Second, 10*time.Minute)
	within(p, "DOCGAUGE_SETTLE", time.Duration(c.Settle), 0, 90*24*time.Hour)
	within(p, "DOCGAUGE_MIN_INTERVAL", time.Duration(c.MinInterval), 0, time.Hour)
	within(p, "DOCGAUGE_RUN_TIMEOUT", time.Duration(c.RunTimeout), time.Minute, 30*24*time.Hour)
	within(p, "DOCGAUGE_TOP_PAGES", int(c.TopPages), 0, MaxTopPages)
	c.validateSinks(p)
	c.validateMetrics(p)
	c.validateNotifications(p)
	c.validateQueue(p)
	c.validatePulls(p)
}

// validateNotifications checks where notifications go, by their form: nothing is sent.
func (c *Config) validateNotifications(p *Problems) {
	told := c.NotifyURL != "" || c.NotifyURLFile != ""
	if c.NotifyURL != "" {
		_, err := ParseHookURL("DOCGAUGE_NOTIFY_URL", c.NotifyURL)
		p.join(err)
	}
	if c.NotifySecret != "" && !told {
		p.add("DOCGAUGE_NOTIFY_SECRET: without DOCGAUGE_NOTIFY_URL it has no effect")
	}
	if c.PingURL != "" {
		_, err := ParseHookURL("DOCGAUGE_PING_URL", c.PingURL)
		p.join(err)
	}
	digest := c.Digest.String()
	switch {
	case digest == "":
	case !told:
		p.add("DOCGAUGE_DIGEST: without DOCGAUGE_NOTIFY_URL it has no effect")
	case strings.HasPrefix(digest, "@every"):
		p.add("DOCGAUGE_DIGEST: @every counts from the start of the process: want five fields, like 0 7 * * 1")
	case !slices.ContainsFunc(c.Windows, func(s analytics.Spec) bool { return s.Granularity == analytics.Week }):
		p.add("DOCGAUGE_DIGEST: it is about weeks: add week to DOCGAUGE_WINDOWS")
	}
}

// validateQueue checks the settings of the prompt queue.
func (c *Config) validateQueue(p *Problems) {
	within(p, "DOCGAUGE_POLL_INTERVAL", time.Duration(c.PollInterval), time.Second, time.Hour)
	p.join(docsapi.CheckJobPath(c.JobPath))
	if c.WriteAPIKey != "" {
		if err := docsapi.CheckKey(string(c.WriteAPIKey)); err != nil {
			p.add("DOCGAUGE_WRITE_API_KEY: want <prefix>_<secret>, printable ASCII without spaces, as the API keys page of the dashboard shows it")
		}
	}
}

// validatePulls checks the settings of pull requests, by their form: nothing is sent.
func (c *Config) validatePulls(p *Problems) {
	_, err := codehost.New(codehost.Config{GitHubURL: c.GitHubURL, GitLabURL: c.GitLabURL})
	p.join(err)
	within(p, "DOCGAUGE_MAX_REVIEW_AGE", time.Duration(c.MaxReviewAge), 0, 365*24*time.Hour)
	for name, token := range map[string]Secret{"DOCGAUGE_GITHUB_TOKEN": c.GitHubToken, "DOCGAUGE_GITLAB_TOKEN": c.GitLabToken} {
		if token != "" && !IsToken(string(token)) {
			p.add("%s: want one token, printable ASCII without spaces", name)
		}
	}
	capped := c.MaxOpenPulls > 0 || c.MaxReviewAge > 0
	if capped && c.PromptsDir != "" && c.GitHubToken == "" && c.GitLabToken == "" {
		c.Warnings = append(c.Warnings, "DOCGAUGE_MAX_OPEN_PULL_REQUESTS, DOCGAUGE_MAX_REVIEW_AGE: without DOCGAUGE_GITHUB_TOKEN or "+
			"DOCGAUGE_GITLAB_TOKEN every pull request counts as open, for ever")
	}
}

// IsToken reports whether a text can be a token of GitHub or GitLab.
func IsToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' })
}

// validateMetrics checks where a run's metrics go.
func (c *Config) validateMetrics(p *Problems) {
	if c.Textfile != "" && filepath.Ext(c.Textfile) != ".prom" {
		p.add("DOCGAUGE_TEXTFILE: %s: node_exporter reads only files whose name ends in .prom", c.Textfile)
	}
	if c.PushgatewayURL != "" {
		if err := exporter.ParsePushURL(string(c.PushgatewayURL)); err != nil {
			p.add("DOCGAUGE_PUSHGATEWAY_URL: %v", err)
		}
	}
}

// validateSinks lets each sink check its settings, even one that exports do not
// use: load can fill it.
func (c *Config) validateSinks(p *Problems) {
	if strings.Contains(c.ParquetURL, "://") {
		if _, err := parquet.New(c.ParquetURL); err != nil {
			p.add("DOCGAUGE_PARQUET_URL: %v", err)
		}
	}
	if strings.Contains(c.DeltaURL, "://") {
		if _, err := delta.New(delta.Options{URL: c.DeltaURL}); err != nil {
			p.add("DOCGAUGE_DELTA_URL: %v", err)
		}
	}
	// The files of one would be strays in the other.
	if slices.Contains(c.Sinks, SinkDelta) && parquet.SamePlace(c.DeltaURL, c.ParquetURL) {
		p.add("DOCGAUGE_DELTA_URL: is the same place as DOCGAUGE_PARQUET_URL: name another one")
	}
	if c.PostgresDSN != "" {
		if _, err := postgres.New(postgres.Options{DSN: string(c.PostgresDSN)}); err != nil {
			p.add("DOCGAUGE_POSTGRES_DSN: %v", err)
		}
	}
	for _, name := range c.Sinks {
		p.join(c.CheckSinkIsSet(name))
	}
	switch {
	case c.ClickHouseDSN != "":
		if _, err := clickhouse.New(clickhouse.Options{DSN: string(c.ClickHouseDSN), Cluster: c.ClickHouseCluster}); err != nil {
			p.add("DOCGAUGE_CLICKHOUSE_DSN, DOCGAUGE_CLICKHOUSE_CLUSTER: %v", err)
		}
	case c.ClickHouseCluster != "" && !slices.Contains(c.Sinks, SinkClickHouse):
		p.add("DOCGAUGE_CLICKHOUSE_CLUSTER: without DOCGAUGE_CLICKHOUSE_DSN it has no effect")
	}
}

// CheckSinkIsSet returns an error if nothing says where the sink of this name writes.
func (c *Config) CheckSinkIsSet(name string) error {
	switch {
	case name == SinkClickHouse && c.ClickHouseDSN == "" && c.ClickHouseDSNFile == "":
		return errors.New("DOCGAUGE_CLICKHOUSE_DSN: missing; where the sink clickhouse writes, like clickhouse://localhost:9000/default (or DOCGAUGE_CLICKHOUSE_DSN_FILE)")
	case name == SinkPostgres && c.PostgresDSN == "" && c.PostgresDSNFile == "":
		return errors.New("DOCGAUGE_POSTGRES_DSN: missing; where the sink postgres writes, like postgres://localhost:5432/analytics (or DOCGAUGE_POSTGRES_DSN_FILE)")
	}
	return nil
}

// unsetKey stands for a key that is not given.
const unsetKey = "unset_unset"

// validateAPI lets the client check its settings.
func (c *Config) validateAPI(p *Problems) {
	if c.BaseURL == "" && c.APIKey == "" {
		return
	}
	url, key := cmp.Or(c.BaseURL, "https://unset.invalid"), cmp.Or(string(c.APIKey), unsetKey)
	_, err := docsapi.New(docsapi.Config{BaseURL: url, APIKey: docsapi.StaticKey(key)})
	p.join(err)
}

// CheckBaseURL reports why a URL cannot be that of the service, or nil.
func CheckBaseURL(raw string) error {
	_, err := docsapi.New(docsapi.Config{BaseURL: raw, APIKey: docsapi.StaticKey(unsetKey)})
	return err
}

func within[T int | time.Duration](p *Problems, name string, v, least, most T) {
	if v < least || v > most {
		p.add("%s: %v is not from %v to %v", name, v, least, most)
	}
}
