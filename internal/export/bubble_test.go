package export

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
)

// bubbleVariable has the name of the test that a child process runs in a bubble.
const bubbleVariable = "EXPORT_TEST_BUBBLE"

// bubble runs f with a fake clock in a child process: the pools of the compression
// library outlive a bubble, and their contents must not be used outside it.
func bubble(t *testing.T, f func(*testing.T)) {
	if os.Getenv(bubbleVariable) == t.Name() {
		synctest.Test(t, f)
		return
	}
	parts := strings.Split(t.Name(), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	args := []string{"-test.run=" + strings.Join(parts, "/"), "-test.v", "-test.timeout=30m"}
	if *long {
		args = append(args, "-long")
	}
	if *economyTable {
		args = append(args, "-economy")
	}
	child := exec.CommandContext(t.Context(), os.Args[0], args...)
	child.Env = append(os.Environ(), bubbleVariable+"="+t.Name())
	out, err := child.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Errorf("the test did not run in its process:\n%s", out)
	default:
		t.Logf("%s", out)
	}
}
