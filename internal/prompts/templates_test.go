package prompts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTemplateRules: what each mistake in a template is told as, and that templates
// without one are taken. Most are found before there are numbers.
func TestTemplateRules(t *testing.T) {
	var out strings.Builder
	for _, text := range []string{
		"fine [[ .id ]]",
		"fine\n[[ range top_pages \"week\" 10 ]]\n[[ .path ]] [[ $.id ]] [[ break ]]\n[[ end ]]",
		"[[ if have \"28d\" ]]fine[[ end ]]",
		"[[ with .title ]][[ . ]][[ else ]]fine[[ end ]]",
		"a line\n\n[[ .titel ]] [[ $.project.x ]] [[ $.nix ]]",
		"[[ .id.x ]]",
		"[[ .firing ]]",
		"[[ .date.Year ]]",
		"line\n[[ site_visitors \"week\" | title ]]",
		"[[ printf \"%0999999999d\" 1 ]]",
		"[[ index .title 1 ]]",
		"[[",
		"[[ if ]]",
		"[[ if .id ]]",
		"[[ .id",
		"[[ end ]]",
		"[[ \"unfinished ]]",
		"[[ $x ]]",
		"line\n[[ range 1000000000 ]][[ end ]]",
		"[[ range .title ]][[ end ]]",
		"[[ $n := 1000000000 ]][[ range $n ]][[ end ]]",
		"[[ range 5 | top_pages \"week\" ]][[ end ]]",
		"[[ range top_pages \"week\" 5 | len ]][[ end ]]",
		"[[ range top_pages \"week\" 5 ]]\n[[ if .total ]][[ range rising_pages \"week\" 5 ]][[ end ]][[ end ]][[ end ]]",
		"[[ range top_pages \"week\" 5 ]][[ .nix ]][[ end ]]",
		"[[ define \"x\" ]][[ template \"x\" ]][[ end ]][[ template \"x\" ]]",
		"[[ define \"prompt\" ]][[ template \"prompt\" ]][[ end ]]",
		"[[ define \"prompt\" ]]text[[ end ]]",
		"[[ define \"x\" ]]text[[ end ]]text",
		"[[ block \"x\" . ]]text[[ end ]]",
		"[[ template \"nix\" ]]",
		"[[ top_pages \"weak\" 5 ]]",
		"[[ top_pages \"week\" ]]",
		"[[ top_pages \"week\" 0 ]]",
		"[[ top_pages \"week\" 101 ]]",
		"[[ top_pages \"week\" \"ten\" ]]",
		"[[ top_pages \"week\" 5 \"robots\" ]]",
		"[[ rising_pages \"week\" 5 \"ai\" \"human\" ]]",
		"[[ have \"fortnight\" ]]",
		"[[ date \"2026-02-30\" ]]",
		"[[ addDays 50000 .date ]]",
		"[[ format .date \"2006\" ]]",
		"[[ format \"2006\" .id ]]",
		"[[ lt .date 5 ]]",
		"[[ \"\\x07\" ]]",
		"[[ \"\\xff\" ]]",
		"[[ \"\" ]]",
		"[[ if not (have \"week\") ]]" + strings.Repeat("[[ .nix2 ]]", 2) + "[[ end ]]",
		"[[ if not (have \"week\") ]][[ addDays 50000 .date ]][[ end ]]",
		strings.Repeat("[[ top_pages \"week\" 100 ]]", 20),
		strings.Repeat("[[ (", 1) + strings.Repeat("(", 20000) + "1" + strings.Repeat(")", 20000) + " ]]",
		"[[ .\x7f ]]",
		"[[ $x := \"\u202e\" ]][[ .y ]]",
	} {
		_, findings := parseFile("f.md", []byte("---\ntemplate: true\n---\n"+text), Rules{})
		if len(text) > 200 {
			text = text[:50] + "…"
		}
		fmt.Fprintf(&out, "# %s\n", strings.ReplaceAll(text, "\n", `\n`))
		for _, f := range findings {
			fmt.Fprintln(&out, f)
		}
	}
	golden(t, "templates.golden", out.String())
}

// TestFollowUpTemplates: follow-ups are templates too, and are checked.
func TestFollowUpTemplates(t *testing.T) {
	_, findings := parseFile("f.md", []byte(`---
template: true
follow_ups:
  - fine [[ .id ]]
  - "[[ wrong ]]"
  - [[ list ]]
  - |

    text
    [[ .nix ]]
---

fine
[[ .nix ]]`), Rules{})
	want := []string{
		`f.md:5: template: function "wrong" not defined: want one of ` + strings.Join(sortedFunctionNames(), ", "),
		"f.md:6: follow_ups: want text, got a list",
		"f.md:10: template: .nix is unknown: want one of .id, .project, .title, .date, .firing",
		"f.md:14: template: .nix is unknown: want one of .id, .project, .title, .date, .firing",
	}
	if diff := cmp.Diff(want, texts(findings)); diff != "" {
		t.Error(diff)
	}
}
