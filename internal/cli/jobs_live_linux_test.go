package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// TestLiveTable watches a run on a terminal from its beginning to its end: the
// table stays in its place, and nothing of it is left.
func TestLiveTable(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Agent: sandbox.Agent{After: 10 * time.Millisecond}})
	all := map[string]string{"slow.md": "Slow. [sandbox:slow=1h]", "fails.md": "Fails. [sandbox:fail]", "wrong.md": "---\ntilte: x\n---\nText"}
	for i := range 20 {
		all[fmt.Sprintf("waits/%02d.md", i)] = "---\ndepends_on: [slow.md]\n---\nText"
	}
	p := queuePlace(t, s, all, "DOCGAUGE_MAX_JOBS_PER_DAY=5")
	var out bytes.Buffer
	terminal := p.onTerminal(t, 70, 12, &out, "jobs", "run", "--wait")
	terminal.await("prompt", "project", "state", "age", "why")
	terminal.await("slow.md", "prj_sandbox", "active", "job_")
	terminal.await("fails.md", "failed")
	terminal.await("23 prompts: 20 pending", "1 invalid", "1 failed")
	terminal.await("at work 1 of 3", "begun in 24 h 2 of 5", "agent budget: 88 of 90 left")
	terminal.await("… and ")
	if table := tableOf(terminal.shows()); len(table) > 11 {
		t.Errorf("a table of %d lines on a terminal of 12:\n%s", len(table), strings.Join(table, "\n"))
	}
	terminal.resize(40, 8)
	testbed.Await(t, "a table that fits", terminal.fits)
	if lines := terminal.shows(); len(lines) > 7 {
		t.Errorf("%d lines on a terminal of 8:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	if err := terminal.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if code := terminal.ends(); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if left := tableOf(terminal.shows()); len(left) > 0 {
		t.Errorf("left on the terminal:\n%s", strings.Join(left, "\n"))
	}
	if text := out.String(); !strings.Contains(text, "2 jobs created") || strings.Contains(text, "\x1b") {
		t.Errorf("standard output: %s", text)
	}
}

// tableOf are the lines of what a terminal shows that are no log lines.
func tableOf(lines []string) []string {
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "prompt ") })
	if at < 0 {
		return nil
	}
	return lines[at:]
}

// TestLiveInterrupt: Ctrl-C ends the run once what is being sent is answered, and
// leaves the terminal as it was.
func TestLiveInterrupt(t *testing.T) {
	t.Parallel()
	s := &oddService{read: goodJob, answers: map[string]oddAnswer{"a": {status: http.StatusCreated, body: goodJob}}, held: make(chan struct{})}
	p := oddPlace(t, s, "a", "b")
	terminal := p.onTerminal(t, 100, 24, nil, "jobs", "run", "--wait")
	terminal.await("a.md", "submitting", "is being sent")
	if _, err := terminal.control.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	terminal.await("stopping once what is being sent is answered")
	close(s.held)
	if code := terminal.ends(); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	list := string(p.run(t, "jobs", "list"))
	if !strings.Contains(list, "a.md") || !strings.Contains(list, "active") || strings.Contains(list, "b.md") || len(s.created()) != 1 {
		t.Errorf("want a.md sent and followed, and b.md not begun:\n%s", list)
	}
}
