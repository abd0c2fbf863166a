package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/docgauge/docgauge"
	root   = "../.."
)

// A rule lists imports that are forbidden to the packages at or below from: every package at or
// below one of never, unless it is at or below one of but. "…" stands for every package of ours.
type rule struct {
	why              string
	from, never, but []string
}

const all = "…"

// The rooms that rules speak of together.
var (
	stores = []string{
		"internal/archive", "internal/filestore", "internal/deltalog", "internal/spool", "internal/durable",
		"internal/sqlite", "internal/state", "internal/budget", "internal/docsapi", "internal/codehost", "sinks",
	}
	useCases = []string{
		"internal/export", "internal/jobs", "internal/pulls", "internal/outcomes", "internal/prompts",
		"internal/coverage", "internal/verify", "internal/query", "internal/events", "internal/redirects",
	}
	consumers   = []string{"exporter", "internal/web", "internal/mcp"}
	composition = []string{"internal/cli", "internal/daemon"}
	// commandRooms are what the commands share.
	commandRooms = []string{"internal/cli/console", "internal/cli/input", "internal/cli/render", "internal/cli/setup"}
	backends     = sinkPackages()
)

var rules = append(aloneRules(), []rule{
	{"everybody speaks these words, so they need nothing else", []string{"internal/analytics", "internal/journal"},
		[]string{all}, nil},
	{"what opens a database knows nothing of what it holds", []string{"internal/sqlite"}, []string{all}, nil},
	{"what runs git does not know what is committed", []string{"internal/git"}, []string{all},
		[]string{"internal/analytics"}},
	{"following a pull request and estimating its effect share no code", []string{"internal/pulls"},
		[]string{"internal/outcomes"}, nil},
	{"an estimate sends no request and changes nothing", []string{"internal/outcomes"},
		[]string{"internal/pulls", "internal/codehost", "internal/docsapi", "internal/budget", "internal/state"}, nil},
	{"the contracts know the vocabulary only", []string{"schedule"}, []string{all}, []string{"internal/analytics"}},
	{"a store knows neither who uses it nor who is shown what it holds", stores,
		slices.Concat(useCases, consumers, composition,
			[]string{"internal/app", "internal/config", "internal/view"}), nil},
	{"a use case does not know how it is started or shown", useCases,
		slices.Concat(composition, []string{"internal/web", "internal/mcp"}), nil},
	{"only config and app know which sinks there are", slices.Concat(useCases, consumers, composition), backends, nil},
	{"metrics, pages and MCP are three readers of view", []string{"exporter"}, consumers, []string{"exporter"}},
	{"metrics, pages and MCP are three readers of view", []string{"internal/web"}, consumers, []string{"internal/web"}},
	{"metrics, pages and MCP are three readers of view", []string{"internal/mcp"}, consumers, []string{"internal/mcp"}},
	{"a scrape or a page never causes work", []string{"exporter", "internal/web"},
		[]string{"internal/docsapi", "internal/budget", "internal/export", "internal/jobs"}, nil},
	{"agent jobs and the export are started by the same programs and share no code",
		[]string{"internal/export"}, []string{"internal/jobs"}, nil},
	{"agent jobs and the export are started by the same programs and share no code", []string{"internal/jobs"},
		[]string{"internal/export"}, nil},
	{"the sandbox stands in for the service and uses nothing of its client's", []string{"internal/sandbox"},
		[]string{all},
		[]string{"internal/sandbox", "internal/site/api", "internal/site/runner", "internal/site/agents",
			"internal/site/facts", "internal/site/logs", "internal/codehost/fake", "internal/analytics", "internal/clock",
			"internal/format"}},
	{"made-up readers know nothing of requests, keys and jobs", []string{"internal/sandbox/traffic"}, []string{all},
		[]string{"internal/sandbox/traffic", "internal/site/agents", "internal/site/facts", "internal/site/logs",
			"internal/analytics"}},
	{"only the command starts a sandbox", slices.Concat(stores, useCases, consumers,
		[]string{"internal/app", "internal/config", "internal/daemon"}), []string{"internal/sandbox"}, nil},
	{"a site is a service, and uses nothing of its client's", []string{"internal/site"}, []string{all},
		[]string{"internal/site", "internal/analytics", "internal/codehost", "internal/durable", "internal/clock",
			"internal/format", "internal/filestore", "internal/sqlite", "internal/git"}},
	{"only logs come from a bucket: the service keeps its facts in a directory",
		[]string{"internal/site/agents", "internal/site/facts", "internal/site/runner"},
		[]string{"internal/filestore"}, nil},
	{"agent jobs know nothing of readers", []string{"internal/site/runner"}, []string{"internal/site"},
		[]string{"internal/site/runner"}},
	{"the API, what is behind it, and what makes a line a view know nothing of one another", []string{"internal/site/api"},
		[]string{"internal/site"}, []string{"internal/site/api"}},
	{"a line becomes a view in the same way for a report and for a service", []string{"internal/site/count"},
		[]string{"internal/site"}, []string{"internal/site/count", "internal/site/agents", "internal/site/facts",
			"internal/site/logs"}},
	{"only serve puts the parts of a site together", []string{"internal/site/facts", "internal/site/logs",
		"internal/site/agents"}, []string{"internal/site/api", "internal/site/count", "internal/site/serve"}, nil},
	{"whoever only exports never meets site", slices.Concat(stores, useCases, consumers,
		[]string{"internal/app", "internal/config", "internal/daemon"}), []string{"internal/site"}, nil},
	{"main is signals, an exit code and the helper of agent jobs", []string{"cmd"}, []string{all},
		[]string{"internal/cli", "internal/site/runner"}},
	{"what developers run is not shipped", []string{"cmd", "exporter", "sinks", "schedule", "internal"},
		[]string{"internal/dev"}, nil},
	{"what commands share knows no command", commandRooms, []string{"internal/cli"}, commandRooms},
	{"a folder of commands uses what commands share, and no other command", []string{"internal/cli/site"},
		[]string{"internal/cli"}, append([]string{"internal/cli/site"}, commandRooms...)},
	{"a folder of commands uses what commands share, and no other command", []string{"internal/cli/jobs"},
		[]string{"internal/cli"}, append([]string{"internal/cli/jobs"}, commandRooms...)},
	{"the commands of a site never meet the pipeline", []string{"internal/cli/site"},
		slices.Concat(useCases, []string{"internal/app", "internal/daemon", "internal/docsapi", "internal/state"}), nil},
	{"the other commands reach a site through its folder; the runner's options are flags of sandbox",
		append([]string{"internal/cli/jobs", "internal/cli/."}, commandRooms...), []string{"internal/site"},
		[]string{"internal/site/runner"}},
}...)

// sinkPackages lists the packages of the sinks.
func sinkPackages() (paths []string) {
	entries, err := os.ReadDir(root + "/sinks")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "sinktest" {
			paths = append(paths, "sinks/"+e.Name())
		}
	}
	return paths
}

func aloneRules() (rules []rule) {
	for _, path := range backends {
		rules = append(rules, rule{"one sink never needs another", []string{path}, backends, []string{path}})
	}
	return rules
}

// TestSinksKeepTheContract: the tests of each sink run the contract.
func TestSinksKeepTheContract(t *testing.T) {
	for _, path := range backends {
		tests, err := filepath.Glob(root + "/" + path + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		runs := slices.ContainsFunc(tests, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && bytes.Contains(text, []byte("sinktest.Run"))
		})
		if !runs {
			t.Errorf("no test of %s calls sinktest.Run", path)
		}
	}
}

// owner names, by the beginning of its import paths, the one package that may import a
// third-party library. arrow-go has two: window files and Delta checkpoints share nothing; so have compressed
// checkpoints and compressed logs.
// Prometheus' libraries have one half that shows metrics and one that sends them; a site has separate metrics, and
// nothing of view's.
var owner = map[string][]string{
	"github.com/ClickHouse/clickhouse-go":    {"sinks/clickhouse"},
	"github.com/aws":                         {"internal/filestore"},
	"github.com/apache/arrow-go":             {"internal/archive", "internal/deltalog"},
	"github.com/dchest/siphash":              {"internal/site/facts"},
	"github.com/go-json-experiment/json":     {"internal/docsapi"},
	"github.com/google/go-cmp":               {"sinks/sinktest"},
	"github.com/google/jsonschema-go":        {"internal/mcp"},
	"github.com/jackc":                       {"sinks/postgres"},
	"github.com/klauspost/compress":          {"internal/deltalog", "internal/site/logs"},
	"github.com/kelseyhightower/envconfig":   {"internal/config"},
	"github.com/mattn/go-runewidth":          {"internal/cli/render"},
	"github.com/modelcontextprotocol":        {"internal/mcp"},
	"github.com/prometheus/client_golang":    {"exporter", "internal/site/serve"},
	"github.com/prometheus/client_model":     {"exporter"},
	"github.com/prometheus/common":           {"cmd/docgauge", "exporter"},
	"github.com/prometheus/exporter-toolkit": {"internal/web"},
	"github.com/robfig/cron":                 {"schedule"},
	"github.com/schollz/progressbar":         {"internal/cli/render"},
	"github.com/spf13":                       {"internal/cli"},
	"go.yaml.in/yaml":                        {"internal/prompts"},
	"google.golang.org/protobuf":             {"exporter/remotewrite"},
	"modernc.org/sqlite":                     {"internal/sqlite"},
	"pgregory.net/rapid":                     {"sinks/sinktest"},
}

// Libraries that any package may import: they extend the standard library, or are one pure function.
var shared = []string{"github.com/agext/levenshtein", "github.com/dustin/go-humanize", "golang.org/x"}

// Names that say nothing about what a package is for.
var drawers = []string{"pkg", "util", "common", "types", "models"}

// listed is the output of go list for a package.
type listed struct {
	ImportPath, Name string
	Imports          []string
}

func TestImports(t *testing.T) {
	for _, pkg := range packages(t) {
		for _, problem := range check(pkg) {
			t.Error(problem)
		}
	}
}

// TestDocumentedNames: the files, packages and tests that the pages for developers name are there.
func TestDocumentedNames(t *testing.T) {
	var files, tests []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		files = append(files, strings.TrimPrefix(path, root))
		if err == nil && strings.HasSuffix(path, "_test.go") {
			var text []byte
			text, err = os.ReadFile(path)
			tests = append(tests, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	code := strings.Join(tests, "\n")
	pages, _ := filepath.Glob(root + "/docs/dev/*.md")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range documented.FindAllStringSubmatch(string(text), -1) {
			file, test := strings.TrimSuffix(found[1], "/"), found[2]
			if file != "" && !slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(f, "/"+file) }) ||
				test != "" && !strings.Contains(code, "func "+test+"(") {
				t.Errorf("%s: %s is not there", page, found[0])
			}
		}
	}
}

// documented is a path below one of our directories, a file of Go, or a test.
var documented = regexp.MustCompile("`(?:((?:cmd|deploy|docs|exporter|internal|schedule|sinks)/[\\w./-]*|[\\w/-]+\\.go)|(Test\\w+))`")

func TestGoModInstalls(t *testing.T) {
	var mod struct{ Replace, Exclude []any }
	if err := json.Unmarshal(run(t, "mod", "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	if len(mod.Replace)+len(mod.Exclude) > 0 {
		t.Errorf("go.mod has replace %v and exclude %v: they break go install …@version for users; require "+
			"versions that work together instead",
			mod.Replace, mod.Exclude)
	}
}

// TestRules breaks each rule once.
func TestRules(t *testing.T) {
	for _, r := range rules {
		broken := r.never[0]
		if broken == all {
			broken = "internal/state"
		} else if slices.Contains(r.but, broken) {
			broken = r.never[1]
		}
		if got := check(listed{ImportPath: module + "/" + r.from[0], Name: "x",
			Imports: []string{module + "/" + broken}}); len(got) == 0 {
			t.Errorf("%s imports %s, and nothing says that %s", r.from[0], broken, r.why)
		}
		for _, b := range r.but {
			for _, got := range check(listed{ImportPath: module + "/" + r.from[0], Name: "x",
				Imports: []string{module + "/" + b}}) {
				if strings.Contains(got, r.why) {
					t.Errorf("%s may import %s: %s", r.from[0], b, got)
				}
			}
		}
	}
	for _, tc := range []struct {
		path, name, imports string
		want                string // empty: allowed
	}{
		{"internal/cli", "cli", module + "/internal/state", ""},
		{"cmd/docgauge", "main", "modernc.org/sqlite", "belongs to internal/sqlite"},
		{"internal/sqlite", "sqlite", "modernc.org/sqlite/lib", ""},
		{"sinks/parquet", "parquet", "github.com/apache/arrow-go/v18/parquet",
			"belongs to internal/archive and internal/deltalog"},
		{"internal/state", "state", "modernc.org/sqlitex", "no owner"},
		{"internal/budget", "budget", "golang.org/x/sync/errgroup", ""},
		{"internal/budget", "budget", "net/http", ""},
		{"internal/dev/bench", "main", "github.com/apache/arrow-go/v18/parquet", ""},
		{"sinks/parquet", "main", "fmt", "is a main package"},
		{"internal/util/schedule", "schedule", "", "is named util"},
		{"schedule", "util", "", "is named util"},
	} {
		got := strings.Join(check(listed{ImportPath: module + "/" + tc.path, Name: tc.name,
			Imports: []string{tc.imports}}), "\n")
		if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s (%s) with %q: %q, want %q", tc.path, tc.name, tc.imports, got, tc.want)
		}
	}
}

// check returns the violations in the imports, the name and the place of pkg.
func check(pkg listed) (problems []string) {
	self := ours(pkg.ImportPath)
	for _, name := range append(strings.Split(self, "/"), pkg.Name) {
		if slices.Contains(drawers, name) {
			problems = append(problems, fmt.Sprintf("%s is named %s: name it for what it does", self, name))
		}
	}
	if within(self, []string{"internal/dev"}) || within(self, []string{"deploy"}) {
		return problems
	}
	if pkg.Name == "main" && !within(self, []string{"cmd"}) {
		problems = append(problems, self+" is a main package: commands live in cmd")
	}
	for _, imported := range pkg.Imports {
		if within(imported, []string{module}) {
			problems = append(problems, broken(self, ours(imported))...)
		} else if problem := foreign(self, imported); problem != "" {
			problems = append(problems, problem)
		}
	}
	return problems
}

func broken(self, imported string) (problems []string) {
	for _, r := range rules {
		if within(self, r.from) && (r.never[0] == all || within(imported, r.never)) && !within(imported, r.but) {
			problems = append(problems, fmt.Sprintf("%s imports %s: %s", self, imported, r.why))
		}
	}
	return problems
}

func foreign(self, imported string) string {
	host, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(host, ".") || within(imported, shared) {
		return ""
	}
	for library, owners := range owner {
		if !within(imported, []string{library}) {
			continue
		}
		if within(self, owners) {
			return ""
		}
		return fmt.Sprintf("%s imports %s, which belongs to %s: use what that package offers", self, imported,
			strings.Join(owners, " and "))
	}
	return fmt.Sprintf("%s imports %s, which has no owner: add it to owner in internal/arch, one package for "+
		"one library", self, imported)
}

// packages lists the packages of the module, those that do not compile included.
func packages(t *testing.T) (list []listed) {
	t.Helper()
	// go test reuses its last result unless a file that this process opened has changed,
	// and it does not see the files that the go command opens.
	_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() && p != root && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		return nil
	})
	out := json.NewDecoder(bytes.NewReader(run(t, "list", "-e", "-deps=false", "-json=ImportPath,Name,Imports",
		"./...")))
	for {
		var pkg listed
		err := out.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, pkg)
	}
}

func run(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// ours returns the path of a package of ours inside the module.
func ours(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

// within reports whether an import path is one of roots or below it; a root that ends in /. is itself alone.
func within(importPath string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool {
		return importPath == strings.TrimSuffix(r, "/.") || strings.HasPrefix(importPath, r+"/")
	})
}
