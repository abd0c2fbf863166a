package steps_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// printing is a step that prints what go test prints, and fails.
func printing(flags, text string) string {
	return "printf '" + text + "'; : go test" + flags + " .; exit 1"
}

// TestSteps: every step runs, whatever fails before, and the last lines say how to run
// what failed.
func TestSteps(t *testing.T) {
	const module = "github.com/docgauge/docgauge"
	steps := []string{
		"echo one",
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
			cmd := exec.Command("sh", "steps.sh")
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
