package arch

// anything marks a package that may import every package of ours.
const anything = "*"

// free lists packages that no rule on imports binds: they measure, build or serve tests, they are not shipped.
var free = []string{"internal/dev/bench", "internal/dev/engines/chdb", "internal/dev/engines/with", "internal/dev/release", "internal/dev/stack/up"}

// allowed says which packages of ours each package of ours may import, from the words
// that everybody uses up to the program. A package without an entry is an error.
var allowed = map[string][]string{
	// Words and small tools: nothing of ours.
	"internal/analytics":    {},
	"internal/clock":        {},
	"internal/durable":      {},
	"internal/effect":       {"internal/analytics"},
	"internal/format":       {},
	"internal/jobs/journal": {},
	"internal/secretfile":   {},

	// Contracts.
	"schedule": {"internal/analytics"},

	"sinks": {"internal/analytics"},

	// What is stored, and where.
	"internal/archive": {"internal/analytics"},

	"internal/filestore": {"internal/durable"},

	"internal/deltalog": {"internal/clock"},

	"internal/deltalog/memfiles": {"internal/deltalog"},

	"internal/spool": {"internal/analytics", "internal/archive", "internal/clock", "internal/durable"},

	"internal/state": {"internal/analytics", "internal/clock", "internal/durable", "internal/jobs/journal"},

	"sinks/clickhouse": {"internal/analytics", "internal/archive", "internal/clock", "sinks"},

	"sinks/delta": {"internal/analytics", "internal/archive", "internal/clock", "internal/deltalog", "internal/durable", "internal/filestore", "sinks"},

	"sinks/memsink": {"internal/analytics", "internal/archive", "sinks"},

	"sinks/parquet": {"internal/analytics", "internal/archive", "internal/filestore", "sinks"},

	"sinks/postgres": {"internal/analytics", "internal/archive", "internal/clock", "sinks"},

	"sinks/sinktest": {"internal/analytics", "internal/archive", "sinks"},

	// The service, and our copy of it.
	"internal/budget": {"internal/analytics", "internal/clock"},

	"internal/docsapi": {"internal/analytics", "internal/clock", "internal/format"},

	"internal/codehost": {"internal/analytics", "internal/clock", "internal/jobs/journal"},

	"internal/sandbox": {
		"internal/analytics", "internal/clock", "internal/format",
		"internal/sandbox/agent", "internal/sandbox/codehost", "internal/sandbox/githubapi", "internal/sandbox/web", "internal/sandbox/worktree",
	},

	"internal/sandbox/agent": {"internal/clock", "internal/durable"},

	"internal/sandbox/codehost": {"internal/durable", "internal/sandbox/agent"},

	// GitHub's API about the pull requests of the sandbox.
	"internal/sandbox/githubapi": {"internal/sandbox/codehost"},
	"internal/sandbox/web":       {"internal/format", "internal/htmlview", "internal/sandbox/agent", "internal/sandbox/codehost"},

	"internal/sandbox/worktree": {"internal/sandbox/agent"},

	// What people and Prometheus see.
	"exporter": {"internal/analytics", "internal/durable", "internal/effect"},

	"exporter/api": {"exporter", "internal/analytics"},

	"exporter/history": {"exporter", "internal/analytics"},

	"exporter/page": {"exporter", "internal/analytics", "internal/effect", "internal/format", "internal/htmlview", "internal/merges"},

	"exporter/remotewrite": {"internal/analytics", "internal/secretfile"},

	"exporter/server": {"internal/secretfile"},

	"internal/htmlview": {"exporter", "internal/analytics", "internal/effect", "internal/format"},

	// Use cases.
	"internal/coverage": {
		"internal/analytics", "internal/budget", "internal/clock", "internal/config", "internal/format", "internal/spool", "internal/state", "schedule", "sinks",
	},

	"internal/events": {
		"internal/analytics", "internal/app", "internal/clock", "internal/coverage", "internal/docsapi", "internal/format", "internal/htmlview",
		"internal/jobs/journal", "internal/state", "schedule",
	},

	"internal/export": {
		"exporter", "internal/analytics", "internal/app", "internal/clock", "internal/config", "internal/coverage", "internal/docsapi",
		"internal/durable", "internal/spool", "internal/state", "internal/verify", "schedule", "sinks",
	},

	"internal/jobs": {"internal/analytics", "internal/clock", "internal/docsapi", "internal/format", "internal/jobs/journal", "internal/prompts", "schedule"},

	"internal/notify": {"internal/analytics", "internal/clock", "internal/format", "internal/jobs/journal"},

	"internal/load": {"internal/analytics", "sinks"},

	"internal/outcome": {"internal/analytics", "internal/effect", "internal/query", "sinks"},

	"internal/merges": {"internal/analytics", "internal/format", "internal/jobs/journal", "internal/outcome", "sinks"},

	"internal/pulls": {"internal/clock", "internal/codehost", "internal/jobs/journal", "internal/outcome"},

	"internal/prompts": {"internal/analytics", "internal/clock", "internal/durable", "internal/outcome", "schedule"},

	"internal/query": {"internal/analytics", "internal/durable", "internal/format", "schedule", "sinks"},

	"internal/mcp": {
		"internal/analytics", "internal/app", "internal/config", "internal/coverage", "internal/format", "internal/jobs", "internal/jobs/journal",
		"internal/merges", "internal/outcome", "internal/prompts", "internal/query", "internal/snapshot", "internal/state", "sinks",
	},

	"internal/report": {"exporter", "internal/analytics", "internal/format", "internal/htmlview", "internal/merges", "internal/outcome", "internal/query", "schedule", "sinks"},

	"internal/snapshot": {
		"exporter", "internal/analytics", "internal/app", "internal/clock", "internal/config", "internal/coverage", "internal/docsapi",
		"internal/jobs", "internal/jobs/journal", "internal/state", "schedule", "sinks",
	},

	"internal/verify": {"internal/analytics", "internal/archive", "sinks"},

	// What holds it together: only config and app know every sink.
	"internal/config": {
		"exporter", "exporter/server", "internal/analytics", "internal/codehost", "internal/docsapi", "internal/jobs", "internal/notify",
		"internal/secretfile", "schedule", "sinks", "sinks/clickhouse", "sinks/delta", "sinks/parquet", "sinks/postgres",
	},

	"internal/app": {
		"internal/analytics", "internal/budget", "internal/codehost", "internal/config", "internal/coverage", "internal/docsapi", "internal/durable",
		"internal/clock", "internal/filestore", "internal/jobs", "internal/merges", "internal/notify", "internal/outcome", "internal/prompts", "internal/pulls", "internal/spool", "internal/state", "internal/verify",
		"schedule", "sinks", "sinks/clickhouse", "sinks/delta", "sinks/parquet", "sinks/postgres", "exporter",
	},

	"internal/daemon": {
		"exporter", "exporter/api", "exporter/page", "exporter/server", "internal/app", "internal/clock", "internal/config", "internal/coverage",
		"internal/events", "internal/export", "internal/jobs", "internal/jobs/journal", "internal/mcp", "internal/merges", "internal/notify", "internal/outcome",
		"internal/prompts", "internal/report", "internal/snapshot", "internal/state", "schedule", "sinks",
	},

	"internal/cli": {
		"exporter", "exporter/history", "exporter/remotewrite", "internal/analytics", "internal/app", "internal/cli/render", "internal/clock", "internal/config", "internal/coverage",
		"internal/daemon", "internal/docsapi", "internal/durable", "internal/events", "internal/export", "internal/format", "internal/htmlview", "internal/jobs",
		"internal/jobs/journal", "internal/mcp", "internal/merges", "internal/notify", "internal/load", "internal/outcome", "internal/prompts", "internal/query", "internal/report", "internal/sandbox",
		"internal/sandbox/agent", "internal/sandbox/codehost", "internal/sandbox/githubapi", "internal/sandbox/worktree", "internal/secretfile", "internal/snapshot",
		"internal/state", "internal/verify", "schedule", "sinks",
	},

	"internal/cli/render": {"internal/export", "internal/format"},

	"cmd/docgauge": {"internal/cli"},

	// What only developers run.
	"dashboards": {},

	"deploy": {},

	"internal/arch": {},

	"internal/dev/engines": {},

	"internal/dev/faults": {},

	"internal/dev/s3test": {"internal/dev/engines"},

	"internal/dev/stack": {"internal/dev/engines"},
	"internal/dev/steps": {},

	"internal/dev/testbed": {"internal/analytics", "internal/sandbox"},

	"internal/dev/warehouse": {},

	"internal/dev/webtest": {"exporter", "internal/analytics", "internal/dev/engines", "internal/outcome"},
}

// owner names, by the beginning of its import paths, the one package that may
// import a third-party library. Two packages share one where its halves have nothing
// in common: arrow-go writes the window files of archive and the checkpoints of deltalog,
// whose columns are nested. Prometheus' libraries have one half that shows metrics and one
// that sends them, modules of their own.
var owner = map[string][]string{
	"github.com/ClickHouse/clickhouse-go":    {"sinks/clickhouse"},
	"github.com/CycloneDX":                   {"internal/dev/release"},
	"github.com/aws":                         {"internal/filestore"},
	"github.com/apache/arrow-go":             {"internal/archive", "internal/deltalog"},
	"github.com/chromedp":                    {"internal/dev/engines"},
	"github.com/go-json-experiment/json":     {"internal/docsapi"},
	"github.com/google/go-github":            {"internal/codehost"},
	"github.com/google/go-cmp":               {"sinks/sinktest"},
	"github.com/google/jsonschema-go":        {"internal/mcp"},
	"github.com/jackc":                       {"sinks/postgres"},
	"github.com/kelseyhightower/envconfig":   {"internal/config"},
	"github.com/klauspost/compress":          {"internal/deltalog"},
	"github.com/mattn/go-runewidth":          {"internal/cli/render"},
	"github.com/prometheus/client_golang":    {"exporter", "exporter/remotewrite"},
	"github.com/modelcontextprotocol":        {"internal/mcp"},
	"github.com/prometheus/client_model":     {"exporter"},
	"github.com/prometheus/common":           {"cmd/docgauge", "exporter", "exporter/remotewrite"},
	"github.com/prometheus/exporter-toolkit": {"exporter/server"},
	"github.com/robfig/cron":                 {"schedule"},
	"github.com/schollz/progressbar":         {"internal/cli/render"},
	"github.com/spf13/cobra":                 {"internal/cli"},
	"github.com/spf13/pflag":                 {"internal/cli"},
	"go.yaml.in/yaml":                        {"internal/prompts"},
	"google.golang.org/protobuf":             {"exporter/remotewrite"},
	"modernc.org/sqlite":                     {"internal/state"},
	"pgregory.net/rapid":                     {"sinks/sinktest"},
}

// shared lists libraries that any package may import: they extend the standard library, or are one pure function.
var shared = []string{"github.com/agext/levenshtein", "github.com/dustin/go-humanize", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/term"}

// drawers are names that say nothing about what a package is for.
var drawers = []string{"pkg", "util", "common", "types", "models"}
