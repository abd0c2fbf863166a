package runner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestRealAgents: jobs of the real programs, jailed, with a gateway that pretends to be their models: a change that the
// check fails, a message after it in the same session, a limit, a dropped stream and a wrong key.
func TestRealAgents(t *testing.T) {
	if os.Getenv("TEST_AGENTS") == "" {
		t.Skip("make check runs it")
	}
	dir, err := engines.AgentDir()
	if err != nil {
		t.Skip(err)
	}
	t.Setenv("PATH", filepath.Join(dir, ".bin")+":"+os.Getenv("PATH"))
	// The agents' own tries, and a model that chooses the model, would take minutes.
	env := []Variable{{Name: "CLAUDE_CODE_MAX_RETRIES", Value: "0", Plain: true},
		{Name: "GEMINI_MODEL", Value: "gemini-2.5-flash", Plain: true}}
	for _, p := range presets {
		env = append(env, Variable{Name: p.keys[0], Value: "sk-fake-0123456789"})
	}
	jail, models := newJail(t, JailOptions{Tools: []string{filepath.Dir(dir)}}), engines.Models(t)
	repo := engines.GitRepository(t)
	write(t, filepath.Join(repo, ".gemini", "settings.json"), `{"general": {"maxAttempts": 1}}`)
	engines.Git(t, repo, "add", ".")
	engines.Git(t, repo, "commit", "--quiet", "-m", "settings")
	for _, preset := range Presets() {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			gateway, err := ParseGateway(models, "")
			check(t, err)
			r := openRepo(t, RepoOptions{Path: repo, Preset: preset, Jail: jail, Gateway: gateway,
				Env: env, Check: "[ ! -e broken.md ]", Timeout: 5 * time.Minute})
			task := Task{Job: "job_" + preset, Prompt: "Write the word broken"}
			result, err := r.Edit(t.Context(), task)
			if err == nil || !strings.Contains(err.Error(), "CHECK_COMMAND") || result.Report == nil ||
				result.Report.Session == nil {
				t.Fatalf("check: %v, output %s", err, result.Output)
			}
			task.Prompt, task.Session = "Write the word better", result.Report.Session
			result, err = r.Edit(t.Context(), task)
			t.Logf("message: %s", result.Output)
			if err != nil || !strings.Contains(result.Output, "I wrote broken, better.") || result.Report.Tokens == nil ||
				(result.Report.Cost != nil) != (preset == "claude") {
				t.Errorf("message: %v, %+v, output %s", err, result.Report, result.Output)
			} else if got := engines.Git(t, repo, "diff", "--name-only", "main", result.Change.Head); got != "better.md" {
				t.Errorf("message: changed %s", got)
			}
			for word, want := range map[string]error{"limit": errLimit, "drop": errPasses, "key": errReported} {
				begun := time.Now()
				result, err := r.Edit(t.Context(), Task{Job: "job_" + preset + word, Prompt: "Write the word " + word})
				t.Logf("%s: %s, %v, %s", word, time.Since(begun), err, result.Output)
				if err == nil || !errors.Is(err, want) || !result.Change.isEmpty() {
					t.Errorf("%s: %v, want %v, output %s", word, err, want, result.Output)
				}
			}
		})
	}
}
