package arch

// anything marks a package that may import every package of ours.
const anything = "*"

// free lists packages that no rule on imports binds: they measure, build or serve tests, they are not shipped.
var free = []string{"deploy/prometheus", "internal/dev/bench", "internal/dev/engines/chdb", "internal/dev/engines/with", "internal/dev/release", "internal/dev/stack/up"}

// allowed says which packages of ours each package of ours may import. Entries
// of packages that do not exist yet do no harm.
var allowed = map[string][]string{
	"cmd/docgauge": {"internal/cli"},
	"internal/cli": {anything},

	"internal/analytics":     {},
	"internal/arch":          {},
	"internal/archive":       {"internal/analytics"},
	"internal/budget":        {"internal/analytics", "internal/clock"},
	"internal/clock":         {},
	"internal/docsapi":       {"internal/analytics", "internal/clock"},
	"internal/durable":       {},
	"internal/jobs/journal":  {},
	"internal/htmlview":      {"internal/analytics"},
	"internal/report":        {"internal/analytics", "internal/htmlview"},
	"internal/load":          {"internal/analytics", "sinks"},
	"internal/dev/engines":   {},
	"internal/prompts":       {"internal/analytics", "internal/clock", "internal/durable", "schedule"},
	"internal/sandbox":       {"internal/analytics", "internal/clock", "internal/sandbox/agent", "internal/sandbox/codehost", "internal/sandbox/worktree"},
	"internal/secretfile":    {},
	"internal/dev/stack":     {"internal/dev/engines"},
	"internal/spool":         {"internal/analytics", "internal/archive", "internal/durable"},
	"internal/state":         {"internal/analytics", "internal/jobs/journal"},
	"internal/verify":        {"internal/analytics", "internal/archive", "sinks"},
	"internal/dev/warehouse": {},

	"deploy/compose": {},
	"deploy/docker":  {},
	"deploy/helm":    {},
	"deploy/systemd": {},

	"internal/sandbox/agent":    {"internal/clock"},
	"internal/sandbox/codehost": {"internal/durable", "internal/sandbox/agent"},
	"internal/sandbox/worktree": {"internal/sandbox/agent"},

	"internal/jobs":        {"internal/analytics", "internal/clock", "internal/docsapi", "internal/jobs/journal", "internal/prompts", "schedule"},
	"internal/jobs/notify": {"internal/clock", "internal/jobs/journal"},
	"internal/export":      {"internal/analytics", "internal/clock", "internal/docsapi", "internal/spool", "schedule", "sinks"},

	"dashboards":         {"dashboards/grafana", "exporter"},
	"dashboards/grafana": {},

	"exporter":         {"internal/analytics", "internal/durable"},
	"exporter/history": {"exporter", "internal/analytics"},
	"exporter/page":    {"exporter", "internal/analytics", "internal/htmlview"},
	"exporter/server":  {"internal/secretfile"},

	"schedule": {"internal/analytics"},

	"sinks":            {"internal/analytics"},
	"sinks/clickhouse": {"internal/analytics", "internal/archive", "internal/clock", "sinks"},
	"sinks/memsink":    {"internal/analytics", "internal/archive", "sinks"},
	"sinks/parquet":    {"internal/analytics", "internal/archive", "internal/durable", "sinks"},
	"sinks/sinktest":   {"internal/analytics", "internal/archive", "sinks"},
}

// owner names, by the beginning of its import paths, the one package that may
// import a third-party library.
var owner = map[string]string{
	"github.com/ClickHouse/clickhouse-go":    "sinks/clickhouse",
	"github.com/aws":                         "sinks/parquet",
	"github.com/apache/arrow-go":             "internal/archive",
	"github.com/dustin/go-humanize":          "internal/cli",
	"github.com/go-json-experiment/json":     "internal/docsapi",
	"github.com/google/go-cmp":               "sinks/sinktest",
	"github.com/kelseyhightower/envconfig":   "internal/cli",
	"github.com/olekukonko/tablewriter":      "internal/cli",
	"github.com/prometheus/client_golang":    "exporter",
	"github.com/prometheus/client_model":     "exporter",
	"github.com/prometheus/common":           "exporter",
	"github.com/prometheus/exporter-toolkit": "exporter/server",
	"github.com/robfig/cron":                 "schedule",
	"github.com/schollz/progressbar":         "internal/cli",
	"github.com/spf13/cobra":                 "internal/cli",
	"github.com/spf13/pflag":                 "internal/cli",
	"go.yaml.in/yaml":                        "internal/prompts",
	"golang.org/x/term":                      "internal/cli",
	"modernc.org/sqlite":                     "internal/state",
	"pgregory.net/rapid":                     "sinks/sinktest",
}

// shared lists libraries that any package may import: they extend the standard library, or are one pure function.
var shared = []string{"github.com/agext/levenshtein", "golang.org/x/sync", "golang.org/x/sys"}

// drawers are names that say nothing about what a package is for.
var drawers = []string{"pkg", "util", "common", "types", "models"}
