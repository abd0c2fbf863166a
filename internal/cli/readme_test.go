package cli

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/config"
)

var update = flag.Bool("update", false, "write the generated parts of the documentation")

// TestREADME compares the tables of variables in the documentation with the code, or with -update
// writes them.
func TestREADME(t *testing.T) {
	const path, begin, end = "../../docs/configuration.md", "<!-- variables -->\n", "<!-- /variables -->"
	text, err := os.ReadFile(path)
	check(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	have, after, ok2 := strings.Cut(rest, end)
	switch want := variableMarkdown(); {
	case !ok || !ok2:
		t.Fatalf("%s lacks %q and %q", path, begin, end)
	case have != want && *update:
		check(t, os.WriteFile(path, []byte(before+begin+want+end+after), 0o644))
	case have != want:
		t.Fatalf("the variables in %s are not those of the code: run `make docs`", path)
	}
}

// variableMarkdown has a table of variables for each group.
func variableMarkdown() string {
	var b strings.Builder
	group := ""
	for _, v := range config.Variables() {
		if v.Meaning == "" {
			continue
		}
		if v.Group != group {
			group = v.Group
			b.WriteString("\n### " + group + "\n\n| variable | default | meaning |\n|---|---|---|\n")
		}
		def := "—"
		if v.Default != "" {
			def = "`" + v.Default + "`"
		}
		b.WriteString("| `" + v.Name + "` | " + def + " | " +
			strings.ReplaceAll(v.Meaning, "<prefix>_<secret>", "`<prefix>_<secret>`") + " |\n")
	}
	return b.String() + "\n"
}
