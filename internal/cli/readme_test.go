package cli

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/config"
)

var update = flag.Bool("update", false, "write the generated parts of the documentation")

// TestREADME holds the tables of the documentation against the code.
func TestREADME(t *testing.T) {
	for _, part := range []struct{ path, name, want string }{
		{"../../docs/configuration.md", "variables", variableMarkdown()},
	} {
		generated(t, part.path, part.name, part.want)
	}
}

// generated compares the part of a file between two marks with its expected
// text, or with -update writes it.
func generated(t *testing.T, path, name, want string) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	have, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks %q and %q", path, begin, end)
	}
	if have == want {
		return
	}
	if !*update {
		t.Fatalf("the %s in %s are not those of the code: run `make docs`", name, path)
	}
	if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
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
