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
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/docgauge/docgauge"
	root   = "../.."
)

// listed is what go list says of a package.
type listed struct {
	ImportPath, Name string
	Imports          []string
}

func TestImports(t *testing.T) {
	for _, pkg := range packages(t) {
		for _, problem := range slices.Concat(checkImports(pkg), checkName(pkg)) {
			t.Error(problem)
		}
	}
}

func TestGoModInstalls(t *testing.T) {
	var mod struct{ Replace, Exclude []any }
	if err := json.Unmarshal(run(t, "mod", "edit", "-json"), &mod); err != nil {
		t.Fatal(err)
	}
	if len(mod.Replace)+len(mod.Exclude) > 0 {
		t.Errorf("go.mod has replace %v and exclude %v: they break go install …@version for users; require versions that work together instead", mod.Replace, mod.Exclude)
	}
}

// TestChecks breaks each rule once.
func TestChecks(t *testing.T) {
	for _, tc := range []struct {
		path, name, imports string
		want                string // empty: allowed
	}{
		{"schedule", "schedule", module + "/internal/analytics", ""},
		{"schedule", "schedule", module + "/internal/state", "schedule imports internal/state"},
		{"sinks", "sinks", module + "/sinks/parquet", "sinks imports sinks/parquet"},
		{"internal/cli", "cli", module + "/internal/state", ""},
		{"cmd/docgauge", "main", "modernc.org/sqlite", "cmd/docgauge imports modernc.org/sqlite"},
		{"internal/state", "state", "modernc.org/sqlite/lib", ""},
		{"internal/deltalog", "deltalog", "github.com/apache/arrow-go/v18/parquet", ""},
		{"sinks/parquet", "parquet", "github.com/apache/arrow-go/v18/parquet", "which belongs to internal/archive and internal/deltalog alone"},
		{"internal/state", "state", "modernc.org/sqlitex", "internal/state imports modernc.org/sqlitex"},
		{"internal/budget", "budget", "golang.org/x/sync/errgroup", ""},
		{"internal/budget", "budget", "net/http", ""},
		{"internal/dev/bench", "main", "github.com/apache/arrow-go/v18/parquet", ""},
		{"internal/new", "new", "fmt", "internal/new is not in the import table"},
		{"sinks/parquet", "main", "fmt", "sinks/parquet is a main package"},
		{"schedule", "util", "fmt", "schedule is named util"},
		{"internal/util/schedule", "schedule", "", "internal/util/schedule is named util"},
	} {
		pkg := listed{ImportPath: module + "/" + tc.path, Name: tc.name, Imports: []string{tc.imports}}
		got := strings.Join(slices.Concat(checkImports(pkg), checkName(pkg)), "\n")
		if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s (%s) with %q: %q, want %q", tc.path, tc.name, tc.imports, got, tc.want)
		}
	}
}

// packages lists the packages of the module, those that do not compile included.
func packages(t *testing.T) []listed {
	t.Helper()
	watchTree()
	out := json.NewDecoder(bytes.NewReader(run(t, "list", "-e", "-deps=false", "-json=ImportPath,Name,Imports", "./...")))
	var all []listed
	for {
		var pkg listed
		err := out.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pkg)
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

// watchTree looks at every folder itself: go test reuses the last result unless
// something this process opened has changed, and it does not see what the go
// command opens. A folder that cannot be read is not watched.
func watchTree() {
	_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() && p != root && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		return nil
	})
}

// checkImports returns what is wrong with the imports of pkg.
func checkImports(pkg listed) []string {
	self := ours(pkg.ImportPath)
	if slices.Contains(free, self) {
		return nil
	}
	may, ok := allowed[self]
	if !ok {
		return []string{self + " is not in the import table: add it to allowed in internal/arch/table_test.go, with the packages of ours it needs"}
	}
	var problems []string
	for _, imported := range pkg.Imports {
		if problem := checkImport(self, may, imported); problem != "" {
			problems = append(problems, problem)
		}
	}
	return problems
}

func checkImport(self string, may []string, imported string) string {
	switch {
	case within(imported, module):
		return checkOurs(self, may, ours(imported))
	case standard(imported) || slices.ContainsFunc(shared, func(s string) bool { return within(imported, s) }):
		return ""
	}
	for library, only := range owner {
		switch {
		case !within(imported, library):
		case slices.Contains(only, self):
			return ""
		default:
			return fmt.Sprintf("%s imports %s, which belongs to %s alone: use what that package offers", self, imported, strings.Join(only, " and "))
		}
	}
	return fmt.Sprintf("%s imports %s, which has no owner: add it to owner in internal/arch/table_test.go, one package for one library", self, imported)
}

func checkOurs(self string, may []string, imported string) string {
	if slices.Contains(may, anything) || slices.Contains(may, imported) {
		return ""
	}
	return fmt.Sprintf("%s imports %s, and may import of ours only %v: put an interface beside its consumer, or change the import table with a reason", self, imported, may)
}

// checkName returns what is wrong with the name and place of pkg.
func checkName(pkg listed) []string {
	self := ours(pkg.ImportPath)
	var problems []string
	for _, name := range append(strings.Split(self, "/"), pkg.Name) {
		if slices.Contains(drawers, name) {
			problems = append(problems, fmt.Sprintf("%s is named %s: name it for what it does", self, name))
		}
	}
	if pkg.Name == "main" && path.Dir(self) != "cmd" && !slices.Contains(free, self) {
		problems = append(problems, self+" is a main package: commands live in cmd")
	}
	return problems
}

// ours returns the path of a package of ours inside the module.
func ours(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

// standard reports whether an import path belongs to the standard library.
func standard(importPath string) bool {
	host, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(host, ".")
}

// within reports whether an import path is root or below it.
func within(importPath, root string) bool {
	return importPath == root || strings.HasPrefix(importPath, root+"/")
}
