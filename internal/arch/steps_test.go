package arch

import (
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
	const module = "github.com/docgauge/docgauge"
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

// TestEveryTestRuns: a test that the Makefile leaves out under the race detector is in a package that it also tests
// without.
func TestEveryTestRuns(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	variable := func(name string) (value string) {
		for _, m := range regexp.MustCompile(`(?m)^`+name+` *:= ((?:.*\\\n)*.*)$`).FindAllSubmatch(makefile, -1) {
			value = strings.ReplaceAll(string(m[1]), "$("+name+")", value)
		}
		return value
	}
	skipped := regexp.MustCompile(`(?m)^func (` + variable("UNRACEDRUNS") + `)`)
	too, found := strings.Fields(variable("UNRACEDTOO")), 0
	for _, pattern := range strings.Fields(strings.ReplaceAll(variable("RACED"), "\\\n", " ")) {
		dir, isTree := strings.CutSuffix(pattern, "/...")
		files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
		if below, _ := filepath.Glob(filepath.Join(root, dir, "*", "*_test.go")); isTree {
			files = append(files, below...)
		}
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no tests: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if in, err := filepath.Rel(root, filepath.Dir(file)); err != nil || slices.Contains(too, "./"+in) {
				found += len(skipped.FindAll(text, -1))
			} else if name := skipped.Find(text); name != nil {
				t.Errorf("%s: %s runs neither with the race detector nor without", file, name)
			}
		}
	}
	if found == 0 {
		t.Error("no such test was found")
	}
}
