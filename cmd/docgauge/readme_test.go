package main

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of the README")

// TestREADME holds the README's table of variables against the code.
func TestREADME(t *testing.T) {
	const path, begin, end = "../../README.md", "<!-- variables -->\n", "<!-- /variables -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("README.md lacks %q and %q", begin, end)
	}
	want := variableMarkdown()
	if table == want {
		return
	}
	if !*update {
		t.Fatal("the README's variables are not those of the code: run `make docs`")
	}
	if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// variableMarkdown is the README's table.
func variableMarkdown() string {
	var b strings.Builder
	b.WriteString("| variable | default | meaning |\n|---|---|---|\n")
	for _, v := range variableTable() {
		def := "—"
		if v.standard != "" {
			def = "`" + v.standard + "`"
		}
		b.WriteString("| `" + v.name + "` | " + def + " | " + strings.ReplaceAll(v.meaning, "<prefix>_<secret>", "`<prefix>_<secret>`") + " |\n")
	}
	return b.String()
}
