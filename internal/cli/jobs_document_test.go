package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

var (
	jobID  = regexp.MustCompile(`"job":"(job_[^"]+)"`)
	digits = regexp.MustCompile(`[0-9]+`)
)

// TestJobsDocument runs what docs/agent-jobs.md shows, against a sandbox that works
// for the commands and loses every answer for the transcripts.
func TestJobsDocument(t *testing.T) {
	t.Parallel()
	const page = "docs/agent-jobs.md"
	executed := 0
	for _, b := range docBlocks(page, documentation(t)[page]) {
		if len(b.notes) == 0 {
			t.Errorf("%s: no comment says who executes it", b)
			continue
		}
		if !strings.HasPrefix(b.notes[0], executedMark) {
			continue
		}
		executed++
		switch b.language() {
		case "sh":
			documentCommands(t, b.text)
		case "markdown":
			queuePlace(t, &testbed.Service{URL: "http://127.0.0.1:1"},
				map[string]string{"example.md": b.text}).run(t, "jobs", "lint")
		case "console":
			documentTranscript(t, b.text)
		default:
			t.Errorf("%s: no test can execute a block of %s", b, b.language())
		}
	}
	if executed < 3 {
		t.Errorf("%d blocks are executed", executed)
	}
	text, err := os.ReadFile(filepath.Join(repository, "deploy", "prompts", "weekly-misses.md"))
	check(t, err)
	queuePlace(t, &testbed.Service{URL: "http://127.0.0.1:1"}, map[string]string{"example.md": string(text)}).
		run(t, "jobs", "lint")
}

func documentCommands(t *testing.T, body string) {
	t.Helper()
	s := testbed.NewService(t, sandbox.Config{Agent: sandbox.Agent{After: 10 * time.Millisecond}})
	p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_POLL_INTERVAL=1s")
	out := p.shell(t, body)
	if !strings.Contains(out, "1 job created, 0 follow-ups sent, 1 ended, 0 at work") ||
		!strings.Contains(out, s.URL+"/docgauge/sandbox/pull/1") {
		t.Errorf("%s", out)
	}
}

// documentTranscript runs the commands of a transcript and finds its lines, in their
// order, in their text. Numbers may differ; … stands for any lines.
func documentTranscript(t *testing.T, body string) {
	t.Helper()
	data := t.TempDir()
	s := testbed.NewService(t, sandbox.Config{DataDir: data,
		Agent: sandbox.Agent{After: 10 * time.Millisecond, Faults: sandbox.AgentFaults{DropEvery: 1}}})
	p := queuePlace(t, s, map[string]string{"typos.md": "---\nid: typos\n---\nFix all typos."})
	for _, step := range strings.Split("\n"+body, "\n$ ")[1:] {
		command, want, _ := strings.Cut(step, "\n")
		if strings.Contains(command, "job_abc") {
			kept, err := os.ReadFile(filepath.Join(data, "jobs.ndjson"))
			found := jobID.FindSubmatch(kept)
			if err != nil || found == nil {
				t.Fatalf("the sandbox has no job: %v\n%s", err, kept)
			}
			command = strings.ReplaceAll(command, "job_abc", string(found[1]))
		}
		rest := alike(p.shell(t, command))
		for line := range strings.Lines(want) {
			line = alike(strings.TrimRight(line, "\n"))
			if line == "" || line == "…" {
				continue
			}
			_, after, ok := strings.Cut(rest, line)
			if !ok {
				t.Fatalf("%s does not say %q, or not there:\n%s", command, line, rest)
			}
			rest = after
		}
	}
}

// alike removes from text the parts that differ from run to run.
func alike(text string) string {
	lines := strings.Split(digits.ReplaceAllString(text, "0"), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}

// shell runs a script that must succeed, and returns its output.
func (p place) shell(t *testing.T, script string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir, cmd.Env, cmd.Stderr = p.dir, p.env, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", script, err, out, stderr.String())
	}
	return string(out)
}
