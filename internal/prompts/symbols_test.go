package prompts

import (
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/schedule"
)

// TestSymbols: what the documentation lists works as it is listed, and nothing
// else does.
func TestSymbols(t *testing.T) {
	weekly, err := schedule.ParseCron("@weekly")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		p := Prompt{ID: "id", Path: "a.md", Project: "prj_a", Title: "A title", Schedule: weekly, Template: true, Body: "[[ " + s.use + " ]]"}
		got, err := Render(t.Context(), p, sampleTime, sample{sampleEnd})
		if err != nil || strings.Contains(got.Text, "no value") {
			t.Errorf("%s: %q, %v", s.use, got.Text, err)
		}
		if strings.ContainsAny(s.gives, "|\n") || s.gives == "" {
			t.Errorf("%s: %q does not fit a table", s.use, s.gives)
		}
	}
	for _, builtin := range []string{`printf "%9999999d" 1`, `print 1`, `println 1`, `html "a"`, `js "a"`, `urlquery "a"`, `call .date`, `index .title 0`, `slice .title 1`} {
		if _, wrong := compile("[[ "+builtin+" ]]", 1, true); len(wrong) != 1 || !strings.Contains(wrong[0].Text, "not defined: want one of addDays, and,") {
			t.Errorf("%s: %v", builtin, wrong)
		}
	}
}

func TestMarkdown(t *testing.T) {
	for _, table := range []string{KeysMarkdown(), TemplateMarkdown()} {
		columns := 0
		for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
			n := strings.Count(line, "|")
			if i == 0 {
				columns = n
			}
			if n != columns {
				t.Errorf("%d columns, not %d: %s", n, columns, line)
			}
		}
	}
	for _, k := range keys {
		if !strings.Contains(KeysMarkdown(), "| `"+k.name+"` |") {
			t.Errorf("%s is not in the table", k.name)
		}
	}
	if !slices.IsSorted(functionNames()) {
		t.Error(functionNames())
	}
}
