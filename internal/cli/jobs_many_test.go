package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/testbed"
)

// TestTenThousandPrompts has jobs lint and jobs plan read a folder of 10,000 files,
// one of them wrong. Each gives one answer that a person can read: a line for each
// prompt or finding, in order, and how many there are.
func TestTenThousandPrompts(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 10,000 files")
	}
	t.Parallel()
	const n = 10_000
	dir := t.TempDir()
	for i := range n {
		writePrompt(t, filepath.Join(dir, "prompts", fmt.Sprintf("%02d", i%20), fmt.Sprintf("%05d.md", i)),
			fmt.Sprintf("---\nid: p-%d\ntitle: Page %d\n---\nUpdate page %d.\n", i, i, i))
	}
	writePrompt(t, filepath.Join(dir, "prompts", "wrong.md"), "---\ntilte: x\n---\nText.\n")

	lint := bounded(t, dir, exitFailed, "jobs", "lint")
	if want := `^wrong\.md:2: .*tilte.*\n10,001 prompts, 1 invalid\n$`; !regexp.MustCompile(want).Match(lint) {
		t.Errorf("lint says %.500q, want %s", lint, want)
	}
	plan := bounded(t, dir, exitDone, "jobs", "plan")
	lines := strings.Split(strings.TrimRight(string(plan), "\n"), "\n")
	if len(lines) != n+2 {
		t.Fatalf("plan says %d lines: %.500q", len(lines), plan)
	}
	for i, want := range map[int]string{
		0:     `^ *# +prompt +state +why`,
		1:     `^ *1 +p-0 +pending +goes with the next pass`,
		10:    `^ *10 +p-180 +pending +goes with the next pass`,
		11:    `^ *11 +p-200 +pending +10 jobs in 24 h \(DOCGAUGE_MAX_JOBS_PER_DAY is 10\)`,
		n:     `^ *10000 +p-9999 +pending +10 jobs in 24 h`,
		n + 1: `^ *- +wrong\.md +invalid +wrong\.md:2: tilte`,
	} {
		if !regexp.MustCompile(want).MatchString(lines[i]) {
			t.Errorf("line %d of plan is %q, want %s", i+1, lines[i], want)
		}
	}
}

// most is the memory that such a command may take at the most.
const most = 300 << 20

// bounded runs a command that must end with code, and returns its output.
func bounded(t *testing.T, dir string, code int, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testbed.Patience)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "docgauge", args...)
	cmd.Dir, cmd.Stderr = dir, &stderr
	cmd.Env = append(os.Environ(), "DOCGAUGE_PROJECTS=prj", "DOCGAUGE_PROMPTS_DIR=prompts",
		"DOCGAUGE_PROMPTS_ON_NEW_STATE=submit", "DOCGAUGE_MAX_ACTIVE_JOBS=0")
	began := time.Now()
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != code {
		t.Fatalf("docgauge %s: %v\n%.2000s%.2000s", strings.Join(args, " "), err, out, stderr.String())
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if ok && runtime.GOOS == "linux" && usage.Maxrss<<10 > most {
		t.Errorf("docgauge %s took %d MiB", strings.Join(args, " "), usage.Maxrss>>10)
	}
	t.Logf("docgauge %s: %v, %d MiB, %d bytes", strings.Join(args, " "), time.Since(began).Round(time.Millisecond),
		usage.Maxrss>>10, len(out))
	return out
}
