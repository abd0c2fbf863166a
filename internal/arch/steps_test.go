package arch

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// printing is a step that prints what go test prints, and fails.
func printing(flags, text string) string {
	return "printf '" + text + "'; : go test" + flags + " .; exit 1"
}

// TestSteps: every step runs, whatever fails before, one that ends in & beside those after it, and the last lines say
// how to run what failed.
func TestSteps(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	beside := "until rm " + file + " 2>/dev/null; do sleep .01; done; exit 4"
	steps := []string{
		beside + " &",
		"echo one",
		": >" + file,
		"wait",
		"test ! -e " + file,
		"exit 3",
		printing("", `ok  \t`+module+`/a\t1s\n--- FAIL: TestA (0.1s)\n    a_test.go:1: no\nFAIL\nFAIL\t`+module+
			`/b\t1s\n`+
			`--- FAIL: TestT (2s)\n    --- FAIL: TestT/x (1s)\n    --- FAIL: TestT/y (1s)\n        --- FAIL: `+
			`TestT/y/z (1s)\nFAIL\nFAIL\t`+module+`/c/d\t1s\nFAIL\n`),
		printing(" -race", `FAIL\t`+module+`/e [build failed]\npanic: test timed out\nFAIL\t`+module+`\t9s\n`),
		"echo last; cat",
	}
	for name, tc := range map[string]struct {
		steps, want []string
	}{
		"failing": {steps, []string{
			"FAIL " + beside,
			"FAIL exit 3",
			"FAIL ./b TestA: go test ./b -run '^TestA$'",
			"FAIL ./c/d TestT/x: go test ./c/d -run '^TestT$'",
			"FAIL ./c/d TestT/y/z: go test ./c/d -run '^TestT$'",
			"FAIL ./e: CGO_ENABLED=1 go test -race ./e",
			"FAIL .: CGO_ENABLED=1 go test -race .",
		}},
		"passing": {[]string{"echo one", "echo last"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sh", "../dev/steps/steps.sh")
			cmd.Stdin = strings.NewReader(strings.Join(tc.steps, "\n") + "\n")
			out, err := cmd.CombinedOutput()
			if (err != nil) != (tc.want != nil) {
				t.Errorf("ended with %v", err)
			}
			printed, summary, last := strings.Cut(string(out), "\nlast\n")
			if !last || !strings.Contains(printed, "\none\n") {
				t.Errorf("not every step ran:\n%s", out)
			}
			if diff := cmp.Diff(strings.Join(tc.want, "\n"), strings.TrimSpace(summary)); diff != "" {
				t.Errorf("last lines (-want +got):\n%s", diff)
			}
		})
	}
}

// testStep is a step of `make check` that tests packages.
type testStep struct {
	packages  []string // directories
	run, skip []*regexp.Regexp
	short     bool
}

// lines are what a program prints at the top of the repository.
func lines(t *testing.T, name string, args ...string) []string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(name, args, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// packageDirs are the directories of packages.
func packageDirs(t *testing.T, patterns ...string) []string {
	t.Helper()
	all := lines(t, "go", append([]string{"list", "-find"}, patterns...)...)
	for i := range all {
		all[i] = strings.TrimPrefix(all[i], module+"/")
	}
	return all
}

// testSteps has the shell print the arguments of go test instead of running it.
func testSteps(t *testing.T) (all []testStep) {
	t.Helper()
	for _, line := range lines(t, "make", "-s", "--no-print-directory", "steps") {
		command := strings.Replace(strings.TrimSuffix(line, " &"), "go test", `printf '%s\n'`, 1)
		if !strings.Contains(command, "printf") {
			continue
		}
		var s testStep
		var patterns []string
		args := lines(t, "sh", "-c", command)
		for i, arg := range args {
			switch {
			case arg == "-short":
				s.short = true
			case arg == "-run":
				s.run = wholeTests(args[i+1])
			case arg == "-skip":
				s.skip = wholeTests(args[i+1])
			case strings.HasPrefix(arg, "./"), strings.HasPrefix(arg, module):
				patterns = append(patterns, arg)
			}
		}
		s.packages = packageDirs(t, patterns...)
		all = append(all, s)
	}
	return all
}

// wholeTests are the alternatives of a pattern of go test that are about tests with all their subtests.
func wholeTests(pattern string) (all []*regexp.Regexp) {
	depth := 0
	for part := range strings.FieldsFuncSeq(pattern, func(r rune) bool {
		depth += strings.Count("(", string(r)) - strings.Count(")", string(r))
		return depth == 0 && r == '|'
	}) {
		if !strings.Contains(part, "/") {
			all = append(all, regexp.MustCompile(part))
		}
	}
	return all
}

// runs says whether the step runs a test of a package, with all that it has.
func (s testStep) runs(dir, name string, long bool) bool {
	matches := func(r *regexp.Regexp) bool { return r.MatchString(name) }
	return slices.Contains(s.packages, dir) && (s.run == nil || slices.ContainsFunc(s.run, matches)) &&
		!slices.ContainsFunc(s.skip, matches) && (!long || !s.short)
}

// longFunctions returns every top-level function of the tests in dir, and whether -short leaves out a part of it: it,
// or a function that it calls, calls engines.Long or testing.Short.
func longFunctions(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range regexp.MustCompile(`(?ms)^func (\w+)(\(.*?^\})$`).FindAllStringSubmatch(string(text), -1) {
			bodies[f[1]] = f[2]
		}
	}
	is := map[string]bool{}
	calls := regexp.MustCompile(`\b(?:engines\.Long|testing\.Short)\(`)
	for before := -1; before != len(is); {
		before = len(is)
		called := `\b(?:` + strings.Join(slices.Collect(maps.Keys(is)), "|") + `)\b`
		for name, body := range bodies {
			if calls.MatchString(body) || before > 0 && regexp.MustCompile(called).MatchString(body) {
				is[name] = true
			}
		}
	}
	all := map[string]bool{}
	for name := range bodies {
		all[name] = is[name]
	}
	return all
}

// TestEveryTestRuns: a step of `make check` runs each test: a long one without -short.
func TestEveryTestRuns(t *testing.T) {
	steps, tests, long := testSteps(t), 0, 0
	for _, dir := range packageDirs(t, "./...") {
		for name, isLong := range longFunctions(t, dir) {
			if !strings.HasPrefix(name, "Test") || name == "TestMain" {
				continue
			}
			tests++
			if isLong {
				long++
			}
			if !slices.ContainsFunc(steps, func(s testStep) bool { return s.runs(dir, name, isLong) }) {
				t.Errorf("./%s: no step of make check runs %s (long: %v)", dir, name, isLong)
			}
		}
	}
	if tests < 1000 || long == 0 {
		t.Errorf("%d tests, %d long ones", tests, long)
	}
}
