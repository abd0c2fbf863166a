package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/state"
)

// withJobs makes a state directory whose journal has two jobs.
func withJobs(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	db, err := state.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, prompt := range []string{"typos", "guides/links"} {
		job := journal.Job{Prompt: prompt, Project: "prj_a", State: journal.Held, Try: 1, Begun: time.Unix(1, 0)}
		if _, err := db.Apply(t.Context(), journal.Change{Job: job}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// bashAsks completes its argument with the script that docgauge prints. The
// functions before that come from the package bash-completion.
const bashAsks = `
_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${words[cword]}; prev=${words[cword-1]}; }
__ltrim_colon_completions() { :; }
compopt() { [[ $* == '+o default' ]] && files=; }
type() { echo builtin; }
_filedir() { echo "<files $*>"; }
files='<files>'
source <(docgauge completion bash) || exit 1
COMP_WORDS=($1); [[ $1 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE=$1; COMP_POINT=${#1}; COMP_TYPE=63 COLUMNS=80
__start_docgauge
printf '%s\n' "${COMPREPLY[@]}"
[[ ${#COMPREPLY[@]} != 0 ]] || echo "$files"
`

// completed returns what bash offers after the second Tab, with descriptions.
func completed(t *testing.T, line string, env ...string) []string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed: apt-get install bash")
	}
	cmd := exec.Command(bash, "--norc", "-c", bashAsks, "bash", line)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	var words []string
	for w := range strings.Lines(string(out)) {
		if w = strings.TrimSpace(strings.ReplaceAll(w, `\`, "")); w != "" {
			words = append(words, w)
		}
	}
	return words
}

// TestCompletion completes lines in bash itself.
func TestCompletion(t *testing.T) {
	stateDir := withJobs(t)
	for _, tc := range []struct {
		line string
		want []string
	}{
		{"docgauge exp", []string{"export"}},
		{"docgauge sinks ", []string{"gc"}},
		{"docgauge export --wi", []string{"--windows"}},
		{"docgauge export --project ", []string{"prj_a", "prj_b"}},
		{"docgauge export --project prj_b,", []string{"prj_b,prj_a"}},
		{"docgauge plan --windows ", []string{"day", "28d"}},
		{"docgauge top --window ", []string{"day", "28d"}},
		{"docgauge top --by h", []string{"human"}},
		{"docgauge history --project ", []string{"prj_a", "prj_b"}},
		{"docgauge load --sink ", []string{"clickhouse", "delta", "parquet", "postgres"}},
		{"docgauge load --archive ", []string{"<files -d>", "<files>"}},
		{"docgauge sandbox --scenario ", []string{"growth", "steady"}},
		{"docgauge sandbox --request-log ", []string{"<files>"}},
		{"docgauge export --from ", nil},
		{"docgauge status ", nil},
		{"docgauge jobs show ", []string{"2  (guides/links, held)", "1  (typos, held)"}},
		{"docgauge jobs cancel ty", []string{"typos"}},
		{"docgauge jobs release 2", []string{"2"}},
		{"docgauge jobs retry 1 ", nil},
	} {
		got := completed(t, tc.line, "DOCGAUGE_PROJECTS=prj_a,prj_b", "DOCGAUGE_WINDOWS=day,28d:totals",
			"DOCGAUGE_STATE_DIR="+stateDir)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%q (-want +got)\n%s", tc.line, diff)
		}
	}
}

// TestCompletionReadsTheEnvFile: the one that the line names, or the environment.
func TestCompletionReadsTheEnvFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.env")
	if err := os.WriteFile(file, []byte("DOCGAUGE_PROJECTS=prj_x,prj_y\nDOCGAUGE_STATE_DIR="+withJobs(t)+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		line, env string
		want      []string
	}{
		{"docgauge --env-file " + file + " plan --project ", "", []string{"prj_x", "prj_y"}},
		{"docgauge plan --project ", file, []string{"prj_x", "prj_y"}},
		{"docgauge jobs cancel ty", file, []string{"typos"}},
		{"docgauge --env-file ", "", []string{"<files>"}},
		{"docgauge help sin", "", []string{"sinks"}},
	} {
		if diff := cmp.Diff(tc.want, completed(t, tc.line, "DOCGAUGE_ENV_FILE="+tc.env)); diff != "" {
			t.Errorf("%q (-want +got)\n%s", tc.line, diff)
		}
	}
}

// TestCompletionMakesNothing holds that pressing Tab leaves no state behind.
func TestCompletionMakesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if got := completed(t, "docgauge jobs show ", "DOCGAUGE_STATE_DIR="+dir); got != nil {
		t.Errorf("completed %q from no state", got)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s: %v, want it not to be there", dir, err)
	}
}

// TestCompletionScripts holds that the shells take their scripts, where they are installed.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, err := exec.Command("docgauge", "completion", shell).Output()
		if err != nil || !strings.Contains(string(script), "__complete") {
			t.Errorf("%s: %v, %d bytes", shell, err, len(script))
		}
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		file := filepath.Join(t.TempDir(), "docgauge")
		if err := os.WriteFile(file, script, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(shell, "-n", file).CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v\n%s", shell, err, out)
		}
	}
}
