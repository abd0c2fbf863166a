package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/state"
)

// withJobs makes a state directory whose journal has two jobs.
func withJobs(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	db, err := state.Open(dir)
	check(t, err)
	for _, prompt := range []string{"typos", "guides/links"} {
		job := journal.Job{Prompt: prompt, Project: "prj_a", State: journal.Held, Try: 1, Begun: time.Unix(1, 0)}
		if _, err := db.Apply(t.Context(), journal.Change{Job: job}); err != nil {
			t.Fatal(err)
		}
	}
	check(t, db.Close())
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

// TestCompletion completes lines in bash itself, with the settings of the environment or of the
// file that the line or the environment names. It makes no state.
func TestCompletion(t *testing.T) {
	stateDir, none := withJobs(t), filepath.Join(t.TempDir(), "state")
	file := filepath.Join(t.TempDir(), "x.env")
	writeText(t, file, "DOCGAUGE_PROJECTS=prj_x,prj_y\nDOCGAUGE_STATE_DIR="+stateDir+"\n")
	fromEnvironment := []string{"DOCGAUGE_PROJECTS=prj_a,prj_b", "DOCGAUGE_WINDOWS=day,28d:totals",
		"DOCGAUGE_STATE_DIR=" + stateDir}
	fromFile, fromNowhere := []string{"DOCGAUGE_ENV_FILE=" + file}, []string{"DOCGAUGE_STATE_DIR=" + none}
	for _, tc := range []struct {
		line string
		env  []string
		want []string
	}{
		{"docgauge exp", fromEnvironment, []string{"export"}},
		{"docgauge sinks ", fromEnvironment, []string{"gc"}},
		{"docgauge export --wi", fromEnvironment, []string{"--windows"}},
		{"docgauge export --project ", fromEnvironment, []string{"prj_a", "prj_b"}},
		{"docgauge export --project prj_b,", fromEnvironment, []string{"prj_b,prj_a"}},
		{"docgauge plan --windows ", fromEnvironment, []string{"day", "28d"}},
		{"docgauge top --window ", fromEnvironment, []string{"day", "28d"}},
		{"docgauge top --by h", fromEnvironment, []string{"human"}},
		{"docgauge top --by ", fromEnvironment, []string{"total", "human", "ai", "change", "agent", "source", "views"}},
		{"docgauge history --by ", fromEnvironment, []string{"views"}},
		{"docgauge site count --by ", fromEnvironment, []string{"page", "agent", "source", "user-agent", "day"}},
		{"docgauge load --sink ", fromEnvironment, []string{"clickhouse", "delta", "parquet", "postgres"}},
		{"docgauge load --archive ", fromEnvironment, []string{"<files -d>", "<files>"}},
		{"docgauge sandbox --scenario ", fromEnvironment, []string{"growth", "steady"}},
		{"docgauge sandbox --request-log ", fromEnvironment, []string{"<files>"}},
		{"docgauge export --from ", fromEnvironment, nil},
		{"docgauge status ", fromEnvironment, nil},
		{"docgauge jobs show ", fromEnvironment, []string{"2  (guides/links, held)", "1  (typos, held)"}},
		{"docgauge jobs cancel ty", fromEnvironment, []string{"typos"}},
		{"docgauge jobs release 2", fromEnvironment, []string{"2"}},
		{"docgauge jobs retry 1 ", fromEnvironment, nil},
		{"docgauge --env-file " + file + " plan --project ", nil, []string{"prj_x", "prj_y"}},
		{"docgauge plan --project ", fromFile, []string{"prj_x", "prj_y"}},
		{"docgauge jobs cancel ty", fromFile, []string{"typos"}},
		{"docgauge --env-file ", nil, []string{"<files>"}},
		{"docgauge help sin", nil, []string{"sinks"}},
		{"docgauge jobs show ", fromNowhere, nil},
	} {
		if diff := cmp.Diff(tc.want, completed(t, tc.line, tc.env...)); diff != "" {
			t.Errorf("%q (-want +got)\n%s", tc.line, diff)
		}
	}
	if _, err := os.Stat(none); !os.IsNotExist(err) {
		t.Errorf("%s: %v, want it not to be there", none, err)
	}
}
