// Package config reads the settings: it decodes and checks them, and reports everything that is
// wrong with them at once. It opens and sends nothing.
package config

import (
	_ "embed"
	"encoding"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/secretfile"
	"github.com/docgauge/docgauge/internal/web/server"
	"github.com/docgauge/docgauge/schedule"
)

const prefix = "DOCGAUGE_"

// Config holds the settings: one field per variable. settings.txt has their groups, defaults and
// meanings. A secret NAME can also be given as a file, by NAME_FILE. A running process reads the
// file of a live secret again by itself.
type Config struct {
	BaseURL       string       `env:"BASE_URL"`
	APIKey        Secret       `env:"API_KEY" live:"true"`
	APIKeyExpires OptionalDate `env:"API_KEY_EXPIRES"`
	Projects      Projects     `env:"PROJECTS"`
	ProjectNames  ProjectNames `env:"PROJECT_NAMES"`

	Windows     Windows      `env:"WINDOWS"`
	Reports     Reports      `env:"REPORTS"`
	OpenWindows OpenWindows  `env:"OPEN_WINDOWS"`
	Since       OptionalDate `env:"SINCE"`
	Settle      Duration     `env:"SETTLE"`
	Budget      Count        `env:"BUDGET"`
	MinInterval Duration     `env:"MIN_INTERVAL"`
	Concurrency Count        `env:"CONCURRENCY"`
	Timeout     Duration     `env:"TIMEOUT"`

	Sinks             Sinks  `env:"SINKS"`
	ParquetURL        string `env:"PARQUET_URL"`
	DeltaURL          string `env:"DELTA_URL"`
	ClickHouseDSN     Secret `env:"CLICKHOUSE_DSN"`
	ClickHouseCluster string `env:"CLICKHOUSE_CLUSTER"`
	PostgresDSN       Secret `env:"POSTGRES_DSN"`

	Schedule       schedule.Cron `env:"SCHEDULE"`
	RunTimeout     Duration      `env:"RUN_TIMEOUT"`
	ListenAddress  Addresses     `env:"LISTEN_ADDRESS"`
	AllowedHosts   hosts         `env:"ALLOWED_HOSTS"`
	WebConfigFile  string        `env:"WEB_CONFIG_FILE"`
	TopPages       Count         `env:"TOP_PAGES"`
	Textfile       string        `env:"TEXTFILE"`
	PushgatewayURL Secret        `env:"PUSHGATEWAY_URL"`

	PromptsDir        string   `env:"PROMPTS_DIR"`
	PromptsOnNewState NewState `env:"PROMPTS_ON_NEW_STATE"`
	WriteAPIKey       Secret   `env:"WRITE_API_KEY" live:"true"`
	AgentBudget       Count    `env:"AGENT_BUDGET"`
	MaxJobsPerDay     Count    `env:"MAX_JOBS_PER_DAY"`
	MaxCostPerDay     amount   `env:"MAX_COST_PER_DAY"`
	MaxActiveJobs     Count    `env:"MAX_ACTIVE_JOBS"`
	PollInterval      Duration `env:"POLL_INTERVAL"`
	JobPath           string   `env:"JOB_PATH"`

	GitHubToken  Secret   `env:"GITHUB_TOKEN" live:"true"`
	GitHubURL    string   `env:"GITHUB_URL"`
	GitLabToken  Secret   `env:"GITLAB_TOKEN" live:"true"`
	GitLabURL    string   `env:"GITLAB_URL"`
	GiteaToken   Secret   `env:"GITEA_TOKEN" live:"true"`
	GiteaURL     string   `env:"GITEA_URL"`
	MaxOpenPulls Count    `env:"MAX_OPEN_PULL_REQUESTS"`
	MaxReviewAge Duration `env:"MAX_REVIEW_AGE"`
	JobCost      amount   `env:"JOB_COST"`

	NotifyURL    Secret        `env:"NOTIFY_URL"`
	NotifySecret Secret        `env:"NOTIFY_SECRET"`
	NotifyFormat NotifyFormat  `env:"NOTIFY_FORMAT"`
	NotifyChange Percent       `env:"NOTIFY_CHANGE"`
	Digest       schedule.Cron `env:"DIGEST"`
	PingURL      Secret        `env:"PING_URL"`

	StateDir  string     `env:"STATE_DIR"`
	SpoolMax  Bytes      `env:"SPOOL_MAX"`
	LogLevel  slog.Level `env:"LOG_LEVEL"`
	LogFormat logFormat  `env:"LOG_FORMAT"`

	SiteDir            string `env:"SITE_DIR"`
	SiteLogs           string `env:"SITE_LOGS"`
	SiteListenAddress  string `env:"SITE_LISTEN_ADDRESS"`
	SiteMetricsAddress string `env:"SITE_METRICS_ADDRESS"`
	SiteTrustedProxies string `env:"SITE_TRUSTED_PROXIES"`
	SiteRetention      Count  `env:"SITE_RETENTION"`

	SiteLogFormat  string `env:"SITE_LOG_FORMAT"`
	SiteProjects   string `env:"SITE_PROJECTS"`
	SiteLogProxies string `env:"SITE_LOG_PROXIES"`
	SiteExclude    string `env:"SITE_EXCLUDE"`
	SiteAssets     string `env:"SITE_ASSETS"`
	SiteAgentsFile string `env:"SITE_AGENTS_FILE"`
	SiteRangesDir  string `env:"SITE_RANGES_DIR"`

	SiteRepo           string   `env:"SITE_REPO"`
	SiteAgent          string   `env:"SITE_AGENT"`
	SiteAgentCommand   string   `env:"SITE_AGENT_COMMAND"`
	SiteAgentEnv       string   `env:"SITE_AGENT_ENV"`
	SiteAgentHosts     string   `env:"SITE_AGENT_HOSTS"`
	SiteAgentTools     string   `env:"SITE_AGENT_TOOLS"`
	SiteAgentAllow     string   `env:"SITE_AGENT_ALLOW"`
	SiteAgentRefuse    string   `env:"SITE_AGENT_REFUSE"`
	SiteJail           string   `env:"SITE_JAIL"`
	SiteCheckCommand   string   `env:"SITE_CHECK_COMMAND"`
	SiteCodeHost       string   `env:"SITE_CODE_HOST"`
	SiteCodeHostURL    string   `env:"SITE_CODE_HOST_URL"`
	SiteToken          Secret   `env:"SITE_TOKEN" live:"true"`
	SiteJobTimeout     Duration `env:"SITE_JOB_TIMEOUT"`
	SiteJobConcurrency Count    `env:"SITE_JOB_CONCURRENCY"`
	SiteJobDisk        Bytes    `env:"SITE_JOB_DISK"`

	// SecretFiles are the files that secrets were read from, by the variable of the secret.
	SecretFiles map[string]string
	Build       Build
	// Warnings are about settings that work but should be changed.
	Warnings []string
}

// Build identifies the program.
type Build struct{ Version, Revision string }

// Variable is an environment variable, as the documentation lists it. A secret's NAME_FILE has no
// meaning.
type Variable struct {
	Name, Default, Meaning string
	// Group is the heading that the variable is listed under. A group is contiguous.
	Group string
	// Secret reports whether the value is never shown.
	Secret bool
	// field is the index in Config, -1 for none.
	field int
}

//go:embed settings.txt
var settingsText string

// Variables returns all variables.
var Variables = sync.OnceValue(func() (out []Variable) {
	group := ""
	lines := strings.Split(strings.TrimSpace(settingsText), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if strings.HasPrefix(line, "[") {
			group = strings.Trim(line, "[]")
		} else if line != "" {
			name, value, _ := strings.Cut(line, " = ")
			i++ // the meaning follows
			meaning := strings.TrimSpace(lines[i])
			v := Variable{Name: prefix + name, Default: value, Meaning: meaning, Group: group, field: -1}
			t := reflect.TypeFor[Config]()
			for n := range t.NumField() {
				if t.Field(n).Tag.Get("env") == name {
					v.field, v.Secret = n, t.Field(n).Type == reflect.TypeFor[Secret]()
				}
			}
			if out = append(out, v); v.Secret {
				out = append(out, Variable{Name: v.Name + "_FILE", Group: group, field: -1})
			}
		}
	}
	return out
})

// secretSetting is a secret in effect.
type secretSetting struct {
	// Variable is the name without _FILE.
	Variable string
	Value    Secret
	// File is where the value was read, empty for the environment.
	File string
	// Live reports whether a running process reads the file again by itself.
	Live bool
}

// Secrets returns all secrets.
func (c *Config) Secrets() (out []secretSetting) {
	for _, v := range Variables() {
		if v.Secret {
			live := reflect.TypeFor[Config]().Field(v.field).Tag.Get("live") != ""
			out = append(out, secretSetting{v.Name, *v.in(c).(*Secret), c.SecretFiles[v.Name], live})
		}
	}
	return out
}

// in returns a pointer to the variable's field of c.
func (v Variable) in(c *Config) any {
	return reflect.ValueOf(c).Elem().Field(v.field).Addr().Interface()
}

// decoder is implemented by the types of settings that read their text themselves.
type decoder interface{ decode(text string) error }

// decode sets the variable's field of c.
func (v Variable) decode(c *Config, text string) error {
	switch to := v.in(c).(type) {
	case *string:
		*to = text
	case *Secret:
		*to = Secret(text)
	case decoder:
		return to.decode(text)
	case encoding.TextUnmarshaler:
		return to.UnmarshalText([]byte(text))
	}
	return nil
}

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
	NeedSite          // SITE_LOGS, and the listeners of site serve
	NeedNothing  Need = 0
)

// Load returns the settings; it changes nothing. The error is of type [Problems], and names the
// file and line, or the flag, of each value.
func (s *Source) Load(n Need, now time.Time) (Config, error) {
	c := Config{Warnings: slices.Clone(s.Warnings), SecretFiles: map[string]string{}}
	p := slices.Clone(s.Problems)
	s.checkNames(&p)
	for _, v := range Variables() {
		if v.field < 0 {
			continue
		}
		text, set := s.Lookup(v.Name)
		if set {
			err := v.decode(&c, text)
			if err != nil {
				p.add("%s: %v", v.Name, err)
			}
			set = err == nil
		}
		if !set && v.Default != "" {
			p.join(v.decode(&c, v.Default))
		}
	}
	for _, secret := range c.Secrets() {
		if file, ok := s.Lookup(secret.Variable + "_FILE"); ok {
			// The key of a site does not exist before one of the commands that do not need it has made it.
			spare := secret.Variable == "DOCGAUGE_API_KEY" && n&NeedAPI == 0
			c.readSecret(secret, file, spare, &p)
		}
	}
	c.require(n, &p)
	c.validate(now, &p)
	if n&NeedServer != 0 {
		p.join(server.Check(c.Server()))
	}
	if n&NeedSite != 0 {
		p.join(server.Check(c.SiteServer()))
		if metrics := c.SiteMetrics(); len(metrics.Addresses) > 0 {
			metrics.WebConfigFile = "" // that is checked
			p.join(server.Check(metrics))
		}
	}
	s.locate(p)
	if len(p) > 0 {
		return c, p
	}
	return c, nil
}

// readSecret reads a secret that is given as a file. A spare one can be missing.
func (c *Config) readSecret(secret secretSetting, path string, spare bool, p *Problems) {
	c.SecretFiles[secret.Variable] = path
	if secret.Value != "" {
		p.add("%[1]s and %[1]s_FILE: set one of them", secret.Variable)
		return
	}
	file, err := secretfile.ReadFile(path)
	text := strings.TrimSpace(file.Text)
	switch {
	case spare && (errors.Is(err, fs.ErrNotExist) || err == nil && text == ""):
		return
	case err != nil:
		p.add("%s_FILE: %v", secret.Variable, err)
		return
	case text == "":
		p.add("%s_FILE: the file is empty", secret.Variable)
	}
	// In a container the file may belong to another user, so that its mode cannot be changed.
	if file.WorldReadable() && file.Own {
		c.Warnings = append(c.Warnings, fmt.Sprintf(
			"%s_FILE: every user of this machine can read the file (mode %04o): chmod 600 %s",
			secret.Variable, file.Mode, path))
	}
	i := slices.IndexFunc(Variables(), func(v Variable) bool { return v.Name == secret.Variable })
	*Variables()[i].in(c).(*Secret) = Secret(text)
}
