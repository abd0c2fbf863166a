package config

import (
	"cmp"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/schedule"
)

const prefix = "DOCGAUGE_"

// Config holds the settings, one field per variable, on lines that are long because a tag cannot be wrapped. A secret
// NAME can also be given as a file, by NAME_FILE. Names are whole: given a prefix, envconfig would read GITHUB_TOKEN
// where DOCGAUGE_GITHUB_TOKEN is unset. It reads every field that is not ignored. Our further tags:
//   - group: the heading that this setting and those after it are listed under
//   - task: one of Tasks, for the few settings that most people need
//   - live: a running process reads the file of the secret again by itself
//   - fixed: serve cannot change the setting while it runs, because other processes depend on it
//   - range: the least and the greatest value
//   - empty: an empty value has a meaning; other empty values count as unset
type Config struct {
	BaseURL       string       `group:"Platform" envconfig:"DOCGAUGE_BASE_URL" task:"A documentation platform" desc:"base URL of the service; https, http only for a loopback host"`
	APIKey        Secret       `envconfig:"DOCGAUGE_API_KEY" task:"A documentation platform" live:"true" desc:"admin key, <prefix>_<secret>; or DOCGAUGE_API_KEY_FILE, a file that holds it"`
	APIKeyExpires OptionalDate `envconfig:"DOCGAUGE_API_KEY_EXPIRES" desc:"date on which the key expires, YYYY-MM-DD"`
	Projects      Projects     `envconfig:"DOCGAUGE_PROJECTS" task:"A documentation platform" desc:"comma-separated project ids"`
	ProjectNames  ProjectNames `envconfig:"DOCGAUGE_PROJECT_NAMES" desc:"display names of the projects: prj_a=Product docs,prj_b=…; never in paths or labels"`

	Windows     Windows      `group:"Windows and budget" envconfig:"DOCGAUGE_WINDOWS" default:"day,week,month,28d:totals" desc:"granularities to export: day, week (ISO, from Monday), month, Nd (rolling, N complete days); :totals reads site totals only"`
	Reports     Reports      `envconfig:"DOCGAUGE_REPORTS" task:"A documentation platform" default:"visitors" desc:"reports to export: visitors, or with it, where the service has them, {reports}"`
	OpenWindows OpenWindows  `envconfig:"DOCGAUGE_OPEN_WINDOWS" default:"day" empty:"none" desc:"granularities (day, week, month) whose running window is read, for gauges; empty = none"`
	Since       OptionalDate `envconfig:"DOCGAUGE_SINCE" task:"A documentation platform" desc:"first date to backfill (default 90 days ago); the newest two windows of each granularity are read even if they begin earlier, but not before the first day with data, where the service says it"`
	Settle      Duration     `envconfig:"DOCGAUGE_SETTLE" default:"72h" range:"0s,90d" desc:"time after its end during which a window can change"`
	Budget      Count        `envconfig:"DOCGAUGE_BUDGET" default:"90" desc:"analytics requests per sliding hour, all projects together; 0 = unlimited"`
	MinInterval Duration     `envconfig:"DOCGAUGE_MIN_INTERVAL" default:"0s" range:"0s,1h" desc:"minimum time between two requests"`
	Concurrency Count        `envconfig:"DOCGAUGE_CONCURRENCY" default:"4" range:"1,64" desc:"requests in flight"`
	Timeout     Duration     `envconfig:"DOCGAUGE_TIMEOUT" default:"60s" range:"1s,10m" desc:"time limit of one request"`

	Sinks             Sinks  `group:"Sinks" envconfig:"DOCGAUGE_SINKS" task:"A documentation platform" default:"parquet" desc:"destinations of windows, one or several: {sinks}"`
	ParquetURL        string `envconfig:"DOCGAUGE_PARQUET_URL" default:"./data" desc:"directory, or s3://bucket/prefix[?region=&endpoint=&path_style=]; S3 credentials as for the AWS CLI"`
	DeltaURL          string `envconfig:"DOCGAUGE_DELTA_URL" default:"./delta" desc:"root of the Delta Lake tables visitors and totals: a directory, or s3://bucket/prefix as for Parquet"`
	ClickHouseDSN     Secret `envconfig:"DOCGAUGE_CLICKHOUSE_DSN" desc:"clickhouse://[user:password@]host:9000/database[?secure=true] or https://…:8443/database; or DOCGAUGE_CLICKHOUSE_DSN_FILE"`
	ClickHouseCluster string `envconfig:"DOCGAUGE_CLICKHOUSE_CLUSTER" desc:"ClickHouse cluster name; creates Replicated and Distributed tables"`
	PostgresDSN       Secret `envconfig:"DOCGAUGE_POSTGRES_DSN" desc:"postgres://[user:password@]host:5432/database[?sslmode=verify-full&search_path=schema]; or DOCGAUGE_POSTGRES_DSN_FILE"`

	Schedule       schedule.Cron `group:"Serve and metrics" envconfig:"DOCGAUGE_SCHEDULE" default:"17 * * * *" desc:"schedule of exports under serve: cron, five fields, UTC"`
	RunTimeout     Duration      `envconfig:"DOCGAUGE_RUN_TIMEOUT" default:"6h" range:"1m,30d" desc:"time limit of one export under serve; the next one continues"`
	ListenAddress  Addresses     `envconfig:"DOCGAUGE_LISTEN_ADDRESS" task:"Serve" default:"127.0.0.1:9817" fixed:"true" desc:"address serve listens on, or several, comma-separated; port 0 picks a free one"`
	AllowedHosts   Hosts         `envconfig:"DOCGAUGE_ALLOWED_HOSTS" fixed:"true" desc:"comma-separated host names, besides loopback names and IP addresses, under which pages, API, /mcp and /-/reload answer"`
	WebConfigFile  string        `envconfig:"DOCGAUGE_WEB_CONFIG_FILE" fixed:"true" desc:"TLS and basic auth of serve, in the format of the Prometheus exporter-toolkit"`
	TopPages       Count         `envconfig:"DOCGAUGE_TOP_PAGES" default:"50" desc:"number of most visited pages with metrics, per project and window"`
	Textfile       string        `envconfig:"DOCGAUGE_TEXTFILE" desc:"file ending in .prom that export writes for node_exporter's textfile collector"`
	PushgatewayURL Secret        `envconfig:"DOCGAUGE_PUSHGATEWAY_URL" desc:"Pushgateway that export pushes to, http://host:9091[/metrics/job/NAME[/LABEL/VALUE…]]; or DOCGAUGE_PUSHGATEWAY_URL_FILE"`

	PromptsDir        string   `group:"Agent jobs" envconfig:"DOCGAUGE_PROMPTS_DIR" task:"Agent jobs" desc:"folder of prompt files, each of which becomes an agent job; unset = no queue"`
	PromptsOnNewState NewState `envconfig:"DOCGAUGE_PROMPTS_ON_NEW_STATE" default:"refuse" desc:"action on prompt files if the state has no job history: refuse, submit (send them), skip (treat them as done)"`
	WriteAPIKey       Secret   `envconfig:"DOCGAUGE_WRITE_API_KEY" task:"Agent jobs" live:"true" desc:"separate key for agent jobs; or DOCGAUGE_WRITE_API_KEY_FILE"`
	AgentBudget       Count    `envconfig:"DOCGAUGE_AGENT_BUDGET" default:"90" desc:"prompts and follow-ups sent per sliding hour and project; 0 = unlimited"`
	MaxJobsPerDay     Count    `envconfig:"DOCGAUGE_MAX_JOBS_PER_DAY" task:"Agent jobs" default:"10" desc:"maximum number of agent jobs begun within 24 hours, all projects together"`
	MaxCostPerDay     amount   `envconfig:"DOCGAUGE_MAX_COST_PER_DAY" desc:"maximum cost of the agent jobs begun within 24 hours, all projects together, in the unit of DOCGAUGE_JOB_COST, which it needs; unset or 0 = no limit"`
	MaxActiveJobs     Count    `envconfig:"DOCGAUGE_MAX_ACTIVE_JOBS" default:"3" desc:"maximum number of active agent jobs, all projects together"`
	PollInterval      Duration `envconfig:"DOCGAUGE_POLL_INTERVAL" default:"15s" range:"1s,1h" desc:"time between two polls of an agent job; grows to 5 minutes"`
	JobPath           string   `envconfig:"DOCGAUGE_JOB_PATH" default:"/v2/agent/{projectId}/job/{id}" desc:"path for fetching an agent job (not fixed by the API specification)"`

	GitHubToken  Secret   `group:"Pull requests" envconfig:"DOCGAUGE_GITHUB_TOKEN" live:"true" desc:"token that may read the pull requests of agent jobs at GitHub; or DOCGAUGE_GITHUB_TOKEN_FILE; unset = their state is unknown"`
	GitHubURL    string   `envconfig:"DOCGAUGE_GITHUB_URL" default:"https://api.github.com" desc:"URL of GitHub's API; https://HOST/api/v3 for a server of your own; http only for a loopback host"`
	GitLabToken  Secret   `envconfig:"DOCGAUGE_GITLAB_TOKEN" live:"true" desc:"token that may read the merge requests of agent jobs at GitLab; or DOCGAUGE_GITLAB_TOKEN_FILE; unset = their state is unknown"`
	GitLabURL    string   `envconfig:"DOCGAUGE_GITLAB_URL" default:"https://gitlab.com/api/v4" desc:"URL of GitLab's API; https://HOST/api/v4 for a server of your own; http only for a loopback host"`
	GiteaToken   Secret   `envconfig:"DOCGAUGE_GITEA_TOKEN" live:"true" desc:"token that may read the pull requests of agent jobs at Gitea or Forgejo; or DOCGAUGE_GITEA_TOKEN_FILE; unset = their state is unknown"`
	GiteaURL     string   `envconfig:"DOCGAUGE_GITEA_URL" default:"https://codeberg.org/api/v1" desc:"URL of Gitea's or Forgejo's API; https://HOST/api/v1 for a server of your own; http only for a loopback host"`
	MaxOpenPulls Count    `envconfig:"DOCGAUGE_MAX_OPEN_PULL_REQUESTS" default:"0" desc:"pull requests that may be open, with the jobs at work that may open one, before another job begins, all projects together; 0 = no limit"`
	MaxReviewAge Duration `envconfig:"DOCGAUGE_MAX_REVIEW_AGE" default:"0s" range:"0s,365d" desc:"median age of the open pull requests above which no job begins, all projects together; 0s = no limit"`
	JobCost      amount   `envconfig:"DOCGAUGE_JOB_COST" default:"0" desc:"estimated cost of one agent job, a number in the unit in which the service reports costs, or of your choice, for jobs whose cost it does not report; 0 = not counted"`

	NotifyURL    Secret        `group:"Notifications" envconfig:"DOCGAUGE_NOTIFY_URL" task:"Serve" desc:"webhook for notifications: failed exports, readers that changed, ended agent jobs and others; or DOCGAUGE_NOTIFY_URL_FILE"`
	NotifySecret Secret        `envconfig:"DOCGAUGE_NOTIFY_SECRET" desc:"HMAC-SHA256 key that signs the notifications; or DOCGAUGE_NOTIFY_SECRET_FILE"`
	NotifyFormat NotifyFormat  `envconfig:"DOCGAUGE_NOTIFY_FORMAT" default:"json" desc:"format of notifications: json, or slack (an incoming webhook)"`
	NotifyChange Change        `envconfig:"DOCGAUGE_NOTIFY_CHANGE" desc:"notify if a week's readers, AI share or a top-20 page changed by more than this: 30%, or 30%,5 (AI share by 5 points); unset = never"`
	Digest       schedule.Cron `envconfig:"DOCGAUGE_DIGEST" desc:"schedule of the digest of each project's newest week: cron, five fields, UTC; unset = never"`
	PingURL      Secret        `envconfig:"DOCGAUGE_PING_URL" desc:"cron monitor that gets a GET after each successful export, with /fail after a failed one; or DOCGAUGE_PING_URL_FILE"`

	StateDir  string     `group:"State and logs" envconfig:"DOCGAUGE_STATE_DIR" task:"Serve" default:"./state" fixed:"true" desc:"ledger, budget and spool; mode 0700"`
	SpoolMax  Bytes      `envconfig:"DOCGAUGE_SPOOL_MAX" default:"1GiB" desc:"spool size at which exporting pauses"`
	LogLevel  slog.Level `envconfig:"DOCGAUGE_LOG_LEVEL" default:"info" desc:"debug, info, warn or error"`
	LogFormat logFormat  `envconfig:"DOCGAUGE_LOG_FORMAT" default:"text" fixed:"true" desc:"text or json"`
	_         string     `envconfig:"DOCGAUGE_ENV_FILE" desc:"file of settings, KEY=VALUE lines; as --env-file"`

	SiteDir            string           `group:"A site of your own" envconfig:"DOCGAUGE_SITE_DIR" default:"./site" desc:"directory of site serve: who read what, answers and API keys; mode 0700"`
	SiteLogs           string           `envconfig:"DOCGAUGE_SITE_LOGS" task:"A site of your own" desc:"access logs that site serve follows, [project=]source, comma-separated: a file, a glob, - (standard input), s3://bucket/prefix, or http:NAME (pushed to /v1/ingest/NAME)"`
	SiteListenAddress  string           `envconfig:"DOCGAUGE_SITE_LISTEN_ADDRESS" default:"127.0.0.1:8788" desc:"address at which site serve answers the API; beyond loopback with TLS by DOCGAUGE_WEB_CONFIG_FILE or behind DOCGAUGE_SITE_TRUSTED_PROXIES"`
	SiteMetricsAddress string           `envconfig:"DOCGAUGE_SITE_METRICS_ADDRESS" default:"127.0.0.1:9818" empty:"none" desc:"address of metrics and probes of site serve; empty = none"`
	SiteTrustedProxies string           `envconfig:"DOCGAUGE_SITE_TRUSTED_PROXIES" desc:"networks of the proxies in front of site serve's API; every other peer is refused"`
	SiteIngestAddress  string           `envconfig:"DOCGAUGE_SITE_INGEST_ADDRESS" desc:"address at which site serve takes lines of sources http:NAME, and answers nothing else; unset = DOCGAUGE_SITE_LISTEN_ADDRESS"`
	SiteIngestSecret   Secret           `envconfig:"DOCGAUGE_SITE_INGEST_SECRET" desc:"what hosts need to push, comma-separated: NAME=SECRET (signs Vercel's drains), NAME:verify=TOKEN (x-vercel-verify), NAME:service=ID (of Fastly); or DOCGAUGE_SITE_INGEST_SECRET_FILE"`
	SiteRetention      Count            `envconfig:"DOCGAUGE_SITE_RETENTION" default:"25" range:"3,600" desc:"months after which site serve removes who read what, 3 to 600"`
	SiteLogFormat      string           `envconfig:"DOCGAUGE_SITE_LOG_FORMAT" default:"auto" desc:"format of the access logs: auto recognizes the formats in docs/site.md; other formats are described by json:time=KEY,client=KEY,path=KEY,… or nginx:LOG_FORMAT; haproxy:ZONE sets the time zone of lines without one"`
	SiteProjects       string           `envconfig:"DOCGAUGE_SITE_PROJECTS" desc:"projects by host and path prefix: prj_docs=docs.example.com,prj_api=example.com/api; empty = all lines are of one site"`
	SiteLogProxies     string           `envconfig:"DOCGAUGE_SITE_LOG_PROXIES" task:"A site of your own" desc:"networks of the CDN or proxy, or cloudflare, fastly, private, or a file of DOCGAUGE_SITE_RANGES_DIR: behind them the client is the right-most other address of X-Forwarded-For"`
	SiteExclude        string           `envconfig:"DOCGAUGE_SITE_EXCLUDE" desc:"what is not a reader: networks, paths (/internal/*), user agents (agent:TEXT)"`
	SiteAssets         string           `envconfig:"DOCGAUGE_SITE_ASSETS" desc:"extensions with their dot, folders with a slash at their end, and names of files that are no pages; unset = styles, scripts, images, media, fonts, feeds, data, downloads, files of docs tools"`
	SiteMarkdown       string           `envconfig:"DOCGAUGE_SITE_MARKDOWN" default:"agent" desc:"what a browser's request counts as whose path asks for Markdown: agent (AI), or browser (human, for sites whose own script fetches Markdown, such as Docsify)"`
	SiteHumans         analytics.Humans `envconfig:"DOCGAUGE_SITE_HUMANS" task:"A site of your own" default:"claimed" desc:"which readers that call themselves browsers count as human: claimed (all), or confirmed (those that also fetched what browsers fetch); see docs/site.md"`
	SiteHosts          Hosts            `envconfig:"DOCGAUGE_SITE_HOSTS" desc:"comma-separated host names of the site, besides those in DOCGAUGE_SITE_PROJECTS: visits that come from them come from the site itself"`
	SiteAgentsFile     string           `envconfig:"DOCGAUGE_SITE_AGENTS_FILE" desc:"file of agents that are added to the built-in table, or replace rows of it; in the format of docs/site-agents.md"`
	SiteRangesDir      string           `envconfig:"DOCGAUGE_SITE_RANGES_DIR" desc:"directory of the address ranges that operators of agents publish, a file each; unset = no claim is verified"`
	SiteRepo           string           `envconfig:"DOCGAUGE_SITE_REPO" desc:"git repositories that agent jobs edit, one a project, comma-separated: [project=]path or URL, with #branch; unset = no jobs"`
	SiteAgent          string           `envconfig:"DOCGAUGE_SITE_AGENT" desc:"agent that carries out jobs: claude, codex, gemini, or command (DOCGAUGE_SITE_AGENT_COMMAND); unset = no jobs"`
	SiteAgentCommand   string           `envconfig:"DOCGAUGE_SITE_AGENT_COMMAND" desc:"command that edits files in its working directory, run by sh -c with the prompt on standard input"`
	SiteAgentEnv       string           `envconfig:"DOCGAUGE_SITE_AGENT_ENV" desc:"names of variables that the agent gets, from the environment or the file of settings: NAME of a secret, such as its model's key (a change that contains it is refused), +NAME of a plain setting"`
	SiteAgentHosts     string           `envconfig:"DOCGAUGE_SITE_AGENT_HOSTS" desc:"hosts that the agent may connect to over TLS: api.example.com, *.example.com, models.example.com:8443; unset = the service of claude, codex or gemini, and for command no network"`
	SiteAgentURL       string           `envconfig:"DOCGAUGE_SITE_AGENT_URL" desc:"gateway to models that the agent is configured for: http or https, a name or an address, also on this machine, without /v1; nothing else there is reached"`
	SiteAgentCA        string           `envconfig:"DOCGAUGE_SITE_AGENT_CA" desc:"file of the authorities that vouch for DOCGAUGE_SITE_AGENT_URL; unset = the authorities of the system"`
	SiteAgentTools     string           `envconfig:"DOCGAUGE_SITE_AGENT_TOOLS" desc:"directories that the agent may read, besides the system's programs"`
	SiteAgentAllow     string           `envconfig:"DOCGAUGE_SITE_AGENT_ALLOW" desc:"changes that are refused otherwise: ci, hosts (that build sites), hooks (of git), editors (and agents of people)"`
	SiteAgentRefuse    string           `envconfig:"DOCGAUGE_SITE_AGENT_REFUSE" desc:"more files whose changes are refused: deploy.yml in any directory, ci/*.sh from the top, scripts/ with all below"`
	SiteJail           string           `envconfig:"DOCGAUGE_SITE_JAIL" default:"bubblewrap" desc:"confinement of agent and check: bubblewrap, or none (they can read and change what docgauge can)"`
	SiteCheckCommand   string           `envconfig:"DOCGAUGE_SITE_CHECK_COMMAND" desc:"command that a change must pass, run by sh -c where the agent worked; unset = every change passes"`
	SiteCheckTries     Count            `envconfig:"DOCGAUGE_SITE_CHECK_TRIES" default:"2" range:"0,10" desc:"how often the agent may correct a change that does not pass the check, in its session, within DOCGAUGE_SITE_JOB_TIMEOUT; 0 to 10"`
	SiteCodeHost       string           `envconfig:"DOCGAUGE_SITE_CODE_HOST" desc:"where pull requests are opened: github, gitlab, gitea (Forgejo too), or none (branches alone); unset = guessed for github.com, gitlab.com and codeberg.org"`
	SiteCodeHostURL    string           `envconfig:"DOCGAUGE_SITE_CODE_HOST_URL" desc:"URL of the code host's REST API: https://HOST/api/v3 for GitHub, /api/v4 for GitLab, /api/v1 for Gitea; unset = the API of github.com, gitlab.com or codeberg.org"`
	SiteToken          Secret           `envconfig:"DOCGAUGE_SITE_TOKEN" live:"true" desc:"token for the code host: reads the repository, pushes branches, opens pull requests; never reaches the agent; or DOCGAUGE_SITE_TOKEN_FILE"`
	SitePullLabels     string           `envconfig:"DOCGAUGE_SITE_PULL_REQUEST_LABELS" desc:"comma-separated labels of the pull requests that jobs open; GitLab and GitHub make those that are missing"`
	SitePullDraft      bool             `envconfig:"DOCGAUGE_SITE_PULL_REQUEST_DRAFT" default:"false" desc:"whether jobs open pull requests as drafts"`
	SitePullPrompt     bool             `envconfig:"DOCGAUGE_SITE_PULL_REQUEST_PROMPT" default:"true" desc:"whether pull requests have the job's prompt, folded; false = it is not published"`
	SiteJobTimeout     Duration         `envconfig:"DOCGAUGE_SITE_JOB_TIMEOUT" default:"30m" desc:"time limit of the agent, and of the check; 1s to 24h"`
	SiteJobConcurrency Count            `envconfig:"DOCGAUGE_SITE_JOB_CONCURRENCY" default:"2" desc:"jobs at work at once, 1 to 64"`
	SiteJobDisk        Bytes            `envconfig:"DOCGAUGE_SITE_JOB_DISK" default:"2GiB" desc:"size of a job's files at which it is stopped, and of all homes of a project's other jobs, the oldest of which are removed"`

	// AgentVariables are those that DOCGAUGE_SITE_AGENT_ENV names and that are set.
	AgentVariables map[string]string `ignored:"true"`
	// SecretFiles are the files that secrets were read from, by the variable of the secret.
	SecretFiles map[string]string `ignored:"true"`
	// File is the file of settings, which may have secrets; empty without one.
	File  string `ignored:"true"`
	Build Build  `ignored:"true"`
	// Warnings are about settings that work but should be changed.
	Warnings []string `ignored:"true"`
}

// Build identifies the program.
type Build struct{ Version, Revision string }

// Variable is an environment variable, as the documentation lists it. A secret's NAME_FILE has no
// meaning.
type Variable struct {
	Name, Default, Meaning string
	// Group is the heading that the variable is listed under. A group is contiguous.
	Group string
	// Task is one of Tasks if most people need the variable for it.
	Task string
	// Secret reports whether the value is never shown.
	Secret bool

	tag   reflect.StructTag
	field int // the index in Config
}

// Variables returns all variables.
var Variables = sync.OnceValue(func() (out []Variable) {
	group := ""
	for i := range reflect.TypeFor[Config]().NumField() {
		field := reflect.TypeFor[Config]().Field(i)
		group = cmp.Or(field.Tag.Get("group"), group)
		name := field.Tag.Get("envconfig")
		if name == "" {
			continue
		}
		secret := field.Type == reflect.TypeFor[Secret]()
		out = append(out, Variable{name, field.Tag.Get("default"), description(field.Tag), group, field.Tag.Get("task"),
			secret, field.Tag, i})
		if secret {
			out = append(out, Variable{Name: name + "_FILE", Group: group})
		}
	}
	return out
})

// Tasks are the headings of the settings that most people need, in their order.
var Tasks = []string{"A documentation platform", "A site of your own", "Serve", "Agent jobs"}

// Common returns the settings that most people need, by task.
func Common() (out []Variable) {
	for _, task := range Tasks {
		for _, v := range Variables() {
			if v.Task == task {
				out = append(out, v)
			}
		}
	}
	return out
}

// variable returns the variable of this name.
func variable(name string) (v Variable, is bool) {
	i := slices.IndexFunc(Variables(), func(v Variable) bool { return v.Name == name })
	if is = i >= 0; is {
		v = Variables()[i]
	}
	return v, is
}

// in returns the variable's field of c.
func (v Variable) in(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().Field(v.field) }

// RestartSecrets returns the secrets, by variable, whose files a running process does not read again by itself.
func (c *Config) RestartSecrets() map[string]Secret {
	out := map[string]Secret{}
	for _, v := range Variables() {
		if v.Secret && v.tag.Get("live") == "" && c.SecretFiles[v.Name] != "" {
			out[v.Name] = Secret(v.in(c).String())
		}
	}
	return out
}

// description is the text of a setting, with the sinks, and the reports besides visitors, in their places.
func description(tag reflect.StructTag) string {
	var reports []string
	for _, r := range analytics.Reports[1:] {
		reports = append(reports, r.String()+" ("+r.Shape().About+")")
	}
	return strings.NewReplacer("{reports}", strings.Join(reports, ", "), "{sinks}", strings.Join(SinkNames(), ", ")).
		Replace(tag.Get("desc"))
}
