package prompts

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/schedule"
)

// documented returns the first cells of a table in docs/agent-jobs.md, without quotes.
func documented(t *testing.T, table string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/agent-jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- "+table+" -->\n")
	rows, _, ok := strings.Cut(rest, "<!-- /"+table+" -->\n")
	if !ok {
		t.Fatalf("docs/agent-jobs.md has no table %s", table)
	}
	var cells []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(.*?)` \\| [^|\n]").FindAllStringSubmatch(rows, -1) {
		cells = append(cells, row[1])
	}
	return cells
}

// TestDocumentation: the tables list all keys, variables and functions, and each
// example works as it is written.
func TestDocumentation(t *testing.T) {
	if diff := cmp.Diff(keys, documented(t, "keys")); diff != "" {
		t.Errorf("keys: %s", diff)
	}
	weekly, err := schedule.ParseCron("@weekly")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, example := range documented(t, "template") {
		name, _, _ := strings.Cut(strings.TrimPrefix(example, "."), " ")
		names = append(names, name)
		p := Prompt{ID: "id", Path: "a.md", Project: "prj_a", Title: "A title", Schedule: weekly, Template: true, Body: "[[ " + example + " ]]"}
		got, err := Render(t.Context(), p, sampleTime, sampleNumbers{sampleEnd})
		if err != nil || strings.Contains(got.Text, "no value") {
			t.Errorf("%s: %q, %v", example, got.Text, err)
		}
	}
	want := append(sortedFunctionNames(), variableNames...)
	slices.Sort(want)
	slices.Sort(names)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("variables and functions: %s", diff)
	}
}

// TestOtherFunctions: the template language's other functions are not offered.
func TestOtherFunctions(t *testing.T) {
	for _, builtin := range []string{`printf "%9999999d" 1`, `print 1`, `println 1`, `html "a"`, `js "a"`, `urlquery "a"`, `call .date`, `index .title 0`, `slice .title 1`} {
		if _, findings := compile("[[ "+builtin+" ]]", 1, true); len(findings) != 1 || !strings.Contains(findings[0].Text, "not defined: want one of addDays, and,") {
			t.Errorf("%s: %v", builtin, findings)
		}
	}
}
