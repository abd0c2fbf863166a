package arch

// anything marks a package that may import every package of ours.
const anything = "*"

// free lists packages that no rule on imports binds: they measure, build or serve tests, they are not shipped.
var free = []string{"deploy/prometheus", "internal/bench", "internal/engines/chdb", "internal/engines/with", "internal/release", "internal/stack/up"}

// allowed says which packages of ours each package of ours may import. Entries
// of packages that do not exist yet do no harm.
var allowed = map[string][]string{
	"cmd/docgauge": {anything},

	"internal/analytics":  {},
	"internal/arch":       {},
	"internal/archive":    {"internal/analytics"},
	"internal/budget":     {"internal/analytics"},
	"internal/docsapi":    {"internal/analytics"},
	"internal/durable":    {},
	"internal/journal":    {},
	"internal/look":       {"internal/analytics"},
	"internal/report":     {"internal/analytics", "internal/look"},
	"internal/load":       {"internal/analytics", "sinks"},
	"internal/engines":    {},
	"internal/prompts":    {"internal/analytics", "internal/durable", "internal/spelling", "schedule"},
	"internal/sandbox":    {"internal/analytics", "internal/sandbox/agent", "internal/sandbox/codehost", "internal/sandbox/worktree"},
	"internal/secretfile": {},
	"internal/spelling":   {},
	"internal/stack":      {"internal/engines"},
	"internal/spool":      {"internal/analytics", "internal/archive", "internal/durable"},
	"internal/state":      {"internal/analytics", "internal/journal"},
	"internal/verify":     {"internal/analytics", "internal/archive", "sinks"},
	"internal/warehouse":  {},

	"deploy/compose": {},
	"deploy/docker":  {},
	"deploy/helm":    {},
	"deploy/systemd": {},

	"internal/sandbox/agent":    {},
	"internal/sandbox/codehost": {"internal/durable", "internal/sandbox/agent"},
	"internal/sandbox/worktree": {"internal/sandbox/agent"},

	"internal/jobs":        {"internal/analytics", "internal/docsapi", "internal/journal", "internal/prompts", "schedule"},
	"internal/jobs/notify": {"internal/journal"},
	"internal/pipeline":    {"internal/analytics", "internal/docsapi", "internal/spool", "schedule", "sinks"},

	"dashboards":         {"dashboards/grafana", "exporter"},
	"dashboards/grafana": {},

	"exporter":         {"internal/analytics", "internal/durable"},
	"exporter/history": {"exporter", "internal/analytics"},
	"exporter/page":    {"exporter", "internal/analytics", "internal/look"},
	"exporter/server":  {"internal/secretfile"},

	"schedule": {"internal/analytics"},

	"sinks":            {"internal/analytics"},
	"sinks/clickhouse": {"internal/analytics", "internal/archive", "sinks"},
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
	"github.com/dustin/go-humanize":          "cmd/docgauge",
	"github.com/go-json-experiment/json":     "internal/docsapi",
	"github.com/google/go-cmp":               "sinks/sinktest",
	"github.com/kelseyhightower/envconfig":   "cmd/docgauge",
	"github.com/olekukonko/tablewriter":      "cmd/docgauge",
	"github.com/prometheus/client_golang":    "exporter",
	"github.com/prometheus/client_model":     "exporter",
	"github.com/prometheus/common":           "exporter",
	"github.com/prometheus/exporter-toolkit": "exporter/server",
	"github.com/robfig/cron":                 "schedule",
	"github.com/schollz/progressbar":         "cmd/docgauge",
	"github.com/spf13/cobra":                 "cmd/docgauge",
	"github.com/spf13/pflag":                 "cmd/docgauge",
	"go.yaml.in/yaml":                        "internal/prompts",
	"golang.org/x/term":                      "cmd/docgauge",
	"modernc.org/sqlite":                     "internal/state",
	"pgregory.net/rapid":                     "sinks/sinktest",
}

// shared lists libraries that extend the standard library: any package may import them.
var shared = []string{"golang.org/x/sync", "golang.org/x/sys"}

// drawers are names that say nothing about what a package is for.
var drawers = []string{"pkg", "util", "common", "types", "models"}
