package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/exporter/server"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/jobs/notify"
	"github.com/docgauge/docgauge/internal/secretfile"
)

const prefix = "DOCGAUGE"

// config is the configuration: one field per environment variable. The table in
// the README and in --help is made from it. A secret has a field of the same
// name ending in File.
type config struct {
	BaseURL           string     `envconfig:"BASE_URL" desc:"base URL of the service; https, http only for a loopback host"`
	APIKey            secret     `envconfig:"API_KEY" desc:"admin key, <prefix>_<secret>; or DOCGAUGE_API_KEY_FILE, a file that holds it"`
	APIKeyFile        string     `envconfig:"API_KEY_FILE" desc:"-"`
	WriteAPIKey       secret     `envconfig:"WRITE_API_KEY" desc:"key for agent jobs, where it is another; or DOCGAUGE_WRITE_API_KEY_FILE"`
	WriteAPIKeyFile   string     `envconfig:"WRITE_API_KEY_FILE" desc:"-"`
	APIKeyExpires     dateValue  `envconfig:"API_KEY_EXPIRES" desc:"date on which the key expires, YYYY-MM-DD"`
	Projects          projects   `envconfig:"PROJECTS" desc:"comma-separated project ids"`
	Windows           windows    `envconfig:"WINDOWS" default:"day,week,month,28d:totals" desc:"granularities to export: day, week (ISO, from Monday), month, Nd (rolling, N complete days); :totals reads site totals only"`
	OpenWindows       openSet    `envconfig:"OPEN_WINDOWS" default:"day" desc:"of day, week, month: whose running window is read for the gauges; empty = none"`
	Since             dateValue  `envconfig:"SINCE" desc:"windows that begin on or after this date are backfilled (default 30 days ago)"`
	Settle            period     `envconfig:"SETTLE" default:"72h" desc:"how long after its end a window can still change"`
	Budget            count      `envconfig:"BUDGET" default:"90" desc:"analytics requests per sliding hour, all projects together; 0 = unlimited"`
	AgentBudget       count      `envconfig:"AGENT_BUDGET" default:"90" desc:"prompts and follow-ups sent per sliding hour and project; 0 = unlimited"`
	MinInterval       period     `envconfig:"MIN_INTERVAL" default:"0s" desc:"least time between two requests"`
	Concurrency       count      `envconfig:"CONCURRENCY" default:"4" desc:"requests in flight"`
	Timeout           period     `envconfig:"TIMEOUT" default:"60s" desc:"one request"`
	Sinks             sinkNames  `envconfig:"SINKS" default:"parquet" desc:"where windows go: parquet, clickhouse, or both"`
	ParquetURL        string     `envconfig:"PARQUET_URL" default:"./data" desc:"directory, or s3://bucket/prefix[?region=&endpoint=&path_style=]; S3 credentials as the AWS CLI finds them"`
	ClickHouseDSN     secret     `envconfig:"CLICKHOUSE_DSN" desc:"clickhouse://[user:password@]host:9000/database[?secure=true] or https://…:8443/database; or DOCGAUGE_CLICKHOUSE_DSN_FILE"`
	ClickHouseDSNFile string     `envconfig:"CLICKHOUSE_DSN_FILE" desc:"-"`
	ClickHouseCluster string     `envconfig:"CLICKHOUSE_CLUSTER" desc:"cluster of the server's configuration: Replicated and Distributed tables"`
	Schedule          cronSpec   `envconfig:"SCHEDULE" default:"17 * * * *" desc:"when serve exports: cron, five fields, UTC"`
	RunTimeout        period     `envconfig:"RUN_TIMEOUT" default:"6h" desc:"serve ends an export that takes longer; the next one goes on"`
	ListenAddress     string     `envconfig:"LISTEN_ADDRESS" default:"127.0.0.1:9817" desc:"of serve; port 0 takes a free one"`
	WebConfigFile     string     `envconfig:"WEB_CONFIG_FILE" desc:"TLS and basic auth of serve, in the format of the Prometheus exporter-toolkit"`
	TopPages          count      `envconfig:"TOP_PAGES" default:"50" desc:"pages with the most visitors that have metrics, per project and window"`
	Textfile          string     `envconfig:"TEXTFILE" desc:"file ending in .prom that export writes for node_exporter's textfile collector"`
	PushgatewayURL    secret     `envconfig:"PUSHGATEWAY_URL" desc:"Pushgateway that export pushes to, http://host:9091[/metrics/job/NAME[/LABEL/VALUE…]]; or DOCGAUGE_PUSHGATEWAY_URL_FILE"`
	PushgatewayFile   string     `envconfig:"PUSHGATEWAY_URL_FILE" desc:"-"`
	PromptsDir        string     `envconfig:"PROMPTS_DIR" desc:"folder of prompt files, each of which becomes an agent job; unset = no queue"`
	PromptsOnNewState newState   `envconfig:"PROMPTS_ON_NEW_STATE" default:"refuse" desc:"what the queue does with prompts and a state directory without any job: refuse, submit, or skip (take them for done)"`
	MaxJobsPerDay     count      `envconfig:"MAX_JOBS_PER_DAY" default:"10" desc:"agent jobs begun within 24 hours, all projects together"`
	MaxActiveJobs     count      `envconfig:"MAX_ACTIVE_JOBS" default:"3" desc:"agent jobs at work at once, all projects together"`
	PollInterval      period     `envconfig:"POLL_INTERVAL" default:"15s" desc:"between two looks at an agent job; grows to 5 minutes"`
	JobPath           string     `envconfig:"JOB_PATH" default:"/v2/agent/{projectId}/job/{id}" desc:"where an agent job is read, which the service's specification leaves open"`
	NotifyURL         secret     `envconfig:"NOTIFY_URL" desc:"webhook that gets a POST for each agent job that ended or needs somebody; or DOCGAUGE_NOTIFY_URL_FILE"`
	NotifyURLFile     string     `envconfig:"NOTIFY_URL_FILE" desc:"-"`
	NotifySecret      secret     `envconfig:"NOTIFY_SECRET" desc:"key of the HMAC-SHA256 that signs those; or DOCGAUGE_NOTIFY_SECRET_FILE"`
	NotifySecretFile  string     `envconfig:"NOTIFY_SECRET_FILE" desc:"-"`
	StateDir          string     `envconfig:"STATE_DIR" default:"./state" desc:"ledger, budget and spool; mode 0700"`
	SpoolMax          byteSize   `envconfig:"SPOOL_MAX" default:"1GiB" desc:"spool size at which exporting pauses"`
	LogLevel          slog.Level `envconfig:"LOG_LEVEL" default:"info" desc:"debug, info, warn or error"`
	LogFormat         logFormat  `envconfig:"LOG_FORMAT" default:"text" desc:"text or json"`
}

// problems is a bad configuration: every problem, one a line.
type problems []string

func (p problems) Error() string {
	return "configuration:\n  " + strings.Join(p, "\n  ")
}

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// join adds every line of an error.
func (p *problems) join(err error) {
	if err != nil {
		*p = append(*p, strings.Split(err.Error(), "\n")...)
	}
}

// need says what a command cannot do without.
type need int

const (
	needProjects need = 1 << iota
	needAPI           // BASE_URL and API_KEY
	needServer        // what serve listens with
	needPrompts       // PROMPTS_DIR
	needNothing  need = 0
)

// loadConfig reads the environment. The error is of type problems.
func loadConfig(n need, now time.Time) (config, error) {
	var c config
	var p problems
	checkNames(&p)
	dropEmpty()
	process(&c, &p)
	c.readSecrets(&p)
	c.require(n, &p)
	c.validate(now, &p)
	if n&needServer != 0 {
		p.join(server.Check(c.server()))
	}
	if len(p) > 0 {
		return c, p
	}
	return c, nil
}

// process lets envconfig fill c. It stops at the first value that does not
// parse, so that value is noted, taken out of the environment, and it is asked
// again. Its own error would print the value, which may be a secret.
func process(c *config, p *problems) {
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

// variables returns the names envconfig knows, without the prefix.
func variables() []string {
	t := reflect.TypeFor[config]()
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Tag.Get("envconfig")
	}
	return names
}

// checkNames finds DOCGAUGE_ variables that nothing reads. Those Kubernetes
// makes for a Service called docgauge are not ours.
func checkNames(p *problems) {
	known := variables()
	for _, pair := range os.Environ() {
		full, _, _ := strings.Cut(pair, "=")
		name, ours := strings.CutPrefix(full, prefix+"_")
		switch {
		case !ours, slices.Contains(known, name), strings.HasPrefix(name, "PORT"), strings.HasPrefix(name, "SERVICE_"):
		default:
			p.add("%s: unknown variable%s", full, didYouMean(name, known))
		}
	}
}

// dropEmpty takes empty variables for unset ones, so that their default counts;
// only an empty OPEN_WINDOWS means something.
func dropEmpty() {
	for _, name := range variables() {
		full := prefix + "_" + name
		if v, set := os.LookupEnv(full); set && v == "" && name != "OPEN_WINDOWS" {
			os.Unsetenv(full)
		}
	}
}

// readSecrets reads the secrets that are given as files.
func (c *config) readSecrets(p *problems) {
	readSecret(p, "DOCGAUGE_API_KEY", &c.APIKey, c.APIKeyFile)
	readSecret(p, "DOCGAUGE_CLICKHOUSE_DSN", &c.ClickHouseDSN, c.ClickHouseDSNFile)
	readSecret(p, "DOCGAUGE_WRITE_API_KEY", &c.WriteAPIKey, c.WriteAPIKeyFile)
	readSecret(p, "DOCGAUGE_NOTIFY_URL", &c.NotifyURL, c.NotifyURLFile)
	readSecret(p, "DOCGAUGE_NOTIFY_SECRET", &c.NotifySecret, c.NotifySecretFile)
	readSecret(p, "DOCGAUGE_PUSHGATEWAY_URL", &c.PushgatewayURL, c.PushgatewayFile)
}

func readSecret(p *problems, name string, value *secret, file string) {
	if file == "" {
		return
	}
	if *value != "" {
		p.add("%s and %s_FILE: set one of them", name, name)
		return
	}
	held, err := secretIn(file)
	if err != nil {
		p.add("%s_FILE: %v", name, err)
		return
	}
	if *value = held; held == "" {
		p.add("%s_FILE: the file is empty", name)
	}
}

// secretIn reads a secret, without the space and the lines around it.
func secretIn(file string) (secret, error) {
	text, err := secretfile.Read(file)
	return secret(text), err
}

func pathError(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", pe.Path, pe.Err)
	}
	return err
}

func (c *config) require(n need, p *problems) {
	if n&needAPI != 0 {
		if c.BaseURL == "" {
			p.add("DOCGAUGE_BASE_URL: missing; the service's base URL, like https://api.example.com")
		}
		if c.APIKey == "" && c.APIKeyFile == "" {
			p.add("DOCGAUGE_API_KEY: missing; an admin key from the API keys page of the dashboard (or DOCGAUGE_API_KEY_FILE)")
		}
	}
	if n&needPrompts != 0 && c.PromptsDir == "" {
		p.add("DOCGAUGE_PROMPTS_DIR: missing; the folder of prompt files")
	}
	if n&needProjects != 0 && len(c.Projects) == 0 && !problemWith(*p, "DOCGAUGE_PROJECTS") {
		p.add("DOCGAUGE_PROJECTS: missing; comma-separated project ids from the API keys page of the dashboard")
	}
}

func problemWith(p problems, name string) bool {
	return slices.ContainsFunc(p, func(s string) bool { return strings.HasPrefix(s, name+":") })
}

func (c *config) validate(now time.Time, p *problems) {
	today := analytics.DateOf(now)
	if !c.Since.set {
		c.Since = dateValue{today - 30, true}
	}
	if c.Since.date > today {
		p.add("DOCGAUGE_SINCE: %s is after today, %s (UTC): there would be nothing to export; is the clock right?", c.Since.date, today)
	}
	c.validateAPI(p)
	within(p, "DOCGAUGE_CONCURRENCY", int(c.Concurrency), 1, 64)
	within(p, "DOCGAUGE_TIMEOUT", time.Duration(c.Timeout), time.Second, 10*time.Minute)
	within(p, "DOCGAUGE_SETTLE", time.Duration(c.Settle), 0, 90*24*time.Hour)
	within(p, "DOCGAUGE_MIN_INTERVAL", time.Duration(c.MinInterval), 0, time.Hour)
	within(p, "DOCGAUGE_RUN_TIMEOUT", time.Duration(c.RunTimeout), time.Minute, 30*24*time.Hour)
	within(p, "DOCGAUGE_TOP_PAGES", int(c.TopPages), 0, keptPages)
	c.validateSinks(p)
	c.validateMetrics(p)
	c.validateQueue(p)
}

// validateQueue checks what the prompt queue is given.
func (c *config) validateQueue(p *problems) {
	within(p, "DOCGAUGE_POLL_INTERVAL", time.Duration(c.PollInterval), time.Second, time.Hour)
	if c.NotifyURL != "" {
		p.join(notify.CheckURL(string(c.NotifyURL)))
	}
	if c.NotifySecret != "" && c.NotifyURL == "" && c.NotifyURLFile == "" {
		p.add("DOCGAUGE_NOTIFY_SECRET: without DOCGAUGE_NOTIFY_URL it has no effect")
	}
	p.join(docsapi.CheckJobPath(c.JobPath))
	if c.WriteAPIKey != "" {
		if err := docsapi.CheckKey(string(c.WriteAPIKey)); err != nil {
			p.add("DOCGAUGE_WRITE_API_KEY: want <prefix>_<secret>, printable ASCII without spaces, as the API keys page of the dashboard shows it")
		}
	}
}

// validateMetrics checks where a run's metrics go.
func (c *config) validateMetrics(p *problems) {
	if c.Textfile != "" && filepath.Ext(c.Textfile) != ".prom" {
		p.add("DOCGAUGE_TEXTFILE: %s: node_exporter reads only files whose name ends in .prom", c.Textfile)
	}
	if c.PushgatewayURL != "" {
		if err := exporter.ParsePushURL(string(c.PushgatewayURL)); err != nil {
			p.add("DOCGAUGE_PUSHGATEWAY_URL: %v", err)
		}
	}
}

// validateSinks lets each sink check what it will be given, also one that is
// not in use: load can fill it.
func (c *config) validateSinks(p *problems) {
	if strings.Contains(c.ParquetURL, "://") {
		if _, err := newStore(*c, sinkParquet); err != nil {
			p.add("DOCGAUGE_PARQUET_URL: %v", err)
		}
	}
	switch {
	case c.ClickHouseDSN != "":
		if _, err := newStore(*c, sinkClickHouse); err != nil {
			p.add("DOCGAUGE_CLICKHOUSE_DSN, DOCGAUGE_CLICKHOUSE_CLUSTER: %v", err)
		}
	case slices.Contains(c.Sinks, sinkClickHouse) && c.ClickHouseDSNFile == "":
		p.add("DOCGAUGE_CLICKHOUSE_DSN: missing; where the sink clickhouse writes, like clickhouse://localhost:9000/default (or DOCGAUGE_CLICKHOUSE_DSN_FILE)")
	case c.ClickHouseCluster != "":
		p.add("DOCGAUGE_CLICKHOUSE_CLUSTER: without DOCGAUGE_CLICKHOUSE_DSN it has no effect")
	}
}

// validateAPI lets the client check what it will be given.
func (c *config) validateAPI(p *problems) {
	if c.BaseURL == "" && c.APIKey == "" {
		return
	}
	url, key := cmp.Or(c.BaseURL, "https://unset.invalid"), cmp.Or(string(c.APIKey), "unset_unset")
	_, err := docsapi.New(docsapi.Config{BaseURL: url, APIKey: docsapi.StaticKey(key)})
	p.join(err)
}

func within[T int | time.Duration](p *problems, name string, v, least, most T) {
	if v < least || v > most {
		p.add("%s: %v is not from %v to %v", name, v, least, most)
	}
}
