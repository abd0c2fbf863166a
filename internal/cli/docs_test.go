package cli

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/config"
)

// A block of the documentation that a reader could copy says, in a comment right
// before it, what became of it:
//
//	<!-- executed: TestName, name.txtar -->   the test or script runs it, or the like of it
//	<!-- executed: TestDocumented -->         it is run here, as it stands, against a sandbox
//	<!-- not executed: why -->
//
// A comment "all blocks executed: …" speaks for a whole page; a block whose info
// string has not-run is not. Further marks belong to other tests.
const (
	executedMark    = "executed:"
	allExecutedMark = "all blocks executed:"
	notExecutedMark = "not executed"
)

// copyable are the languages of blocks that people copy.
var copyable = []string{"sh", "bash", "console", "cron", "ini", "yaml", "promql", "sql", "python"}

// ownMarks begin marks of other tests, which find their blocks by them: the tests of deploy, of sinks/clickhouse
// and dashboards, and of internal/site/logs.
var ownMarks = []string{"values:", "grants to", "logs:"}

// docBlock is a fenced block of a page.
type docBlock struct {
	page  string // path from the top of the repository
	line  int
	info  []string // words of the info string, the language first
	notes []string // comments right before it
	text  string
}

func (b docBlock) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

func (b docBlock) language() string {
	if len(b.info) == 0 {
		return ""
	}
	return b.info[0]
}

const repository = "../.."

// documentation returns the text of each page of README and docs.
func documentation(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, root := range []string{"README.md", "docs"} {
		err := filepath.WalkDir(filepath.Join(repository, root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(repository, path)
			pages[name] = string(text)
			return err
		})
		check(t, err)
	}
	return pages
}

// docBlocks returns the blocks of a page, with the comments before each.
func docBlocks(page, text string) (out []docBlock) {
	var notes []string
	var open *docBlock
	comment := ""
	n := 0
	for line := range strings.Lines(text) {
		n++
		bare := strings.TrimSpace(line)
		switch {
		case open != nil && bare == "```":
			out, open, notes = append(out, *open), nil, nil
		case open != nil:
			open.text += line
		case strings.HasPrefix(bare, "```"):
			open = &docBlock{page: page, line: n, info: strings.Fields(bare[3:]), notes: notes}
		case comment != "" || strings.HasPrefix(bare, "<!--"):
			if comment += bare + " "; strings.Contains(bare, "-->") {
				notes = append(notes, inside(comment))
				comment = ""
			}
		case bare != "":
			notes = nil
		}
	}
	return out
}

// inside returns the text of a comment.
func inside(comment string) string {
	text, _, _ := strings.Cut(strings.TrimPrefix(comment, "<!--"), "-->")
	return strings.TrimSpace(text)
}

var testingRow = regexp.MustCompile("(?m)^\\| `(.*)` \\| (.*) \\|$")

// listedMarks returns the marks of blocks of the README by their first lines: its
// readers are spared the comments.
func listedMarks(testing string) map[string]string {
	out := map[string]string{}
	for _, row := range testingRow.FindAllStringSubmatch(testing, -1) {
		out[row[1]] = row[2]
	}
	return out
}

var allExecuted = regexp.MustCompile("<!-- " + allExecutedMark + " ([^>]*) -->")

// TestDocumentationMarks holds that each block says what became of it, and that
// the tests it names are there.
func TestDocumentationMarks(t *testing.T) {
	known := testNames(t)
	pages := documentation(t)
	listed := listedMarks(pages["docs/dev/testing.md"])
	for page, text := range pages {
		all := allExecuted.FindStringSubmatch(text)
		if all != nil {
			if problem := unknownTests(all[1], known); problem != "" {
				t.Errorf("%s: %s", page, problem)
			}
		}
		for _, b := range docBlocks(page, text) {
			if !slices.Contains(copyable, b.language()) || all != nil && len(b.notes) == 0 {
				continue
			}
			if first, _, _ := strings.Cut(b.text, "\n"); page == "README.md" {
				b.notes = append(b.notes, listed[first])
			}
			if problem := checkMarks(b, known); problem != "" {
				t.Errorf("%s: %s", b, problem)
			}
		}
	}
}

// checkMarks returns the problem of the marks of a block.
func checkMarks(b docBlock, known map[string]bool) string {
	if slices.Contains(b.info, "not-run") {
		return ""
	}
	for _, note := range b.notes {
		if slices.ContainsFunc(ownMarks, func(mark string) bool { return strings.HasPrefix(note, mark) }) {
			return ""
		}
		if text, ok := strings.CutPrefix(note, notExecutedMark); ok {
			if _, why, _ := strings.Cut(text, ":"); strings.TrimSpace(why) == "" {
				return "does not say why it is not executed: <!-- not executed: why -->"
			}
			return ""
		}
		if names, ok := strings.CutPrefix(note, executedMark); ok {
			return unknownTests(names, known)
		}
	}
	return "say who runs this block, in a line before it: <!-- executed: TestName --> or <!-- not executed: why -->; " +
		"for the README in docs/dev/testing.md"
}

var testName = regexp.MustCompile(`\bTest\w+|\b[\w-]+\.txtar\b`)

// unknownTests returns the problem of a list of tests and scripts.
func unknownTests(names string, known map[string]bool) string {
	found := testName.FindAllString(names, -1)
	if len(found) == 0 {
		return fmt.Sprintf("%q names no test, TestName, and no script, name.txtar", names)
	}
	for _, name := range found {
		if !known[name] {
			return "there is no " + name
		}
	}
	return ""
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testNames returns the names of all tests and scripts of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != repository && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case filepath.Ext(path) == ".txtar":
			known[d.Name()] = true
		case strings.HasSuffix(path, "_test.go"):
			text, err := os.ReadFile(path)
			for _, m := range testFunction.FindAllSubmatch(text, -1) {
				known[string(m[1])] = true
			}
			return err
		}
		return nil
	})
	check(t, err)
	return known
}

// TestQuickstart holds that quickstart.txtar runs the commands of the page as they
// stand. The script has other commands for docgauge's servers.
func TestQuickstart(t *testing.T) {
	const page = "docs/quickstart.md"
	script, err := os.ReadFile("testdata/script/quickstart.txtar")
	check(t, err)
	commands := 0
	for _, b := range docBlocks(page, documentation(t)[page]) {
		if !slices.Contains(b.notes, "executed: quickstart.txtar") {
			continue
		}
		for line := range strings.Lines(b.text) {
			command, shown := strings.CutPrefix(line, "$ ")
			if b.language() == "console" && !shown {
				continue
			}
			command, _, _ = strings.Cut(command, "  #")
			command = strings.TrimSpace(command)
			commands++
			if !strings.Contains(string(script), command+"\n") &&
				!strings.Contains(string(script), "\n"+strings.TrimPrefix(command, "docgauge ")+"\n") {
				t.Errorf("%s: %s is not in the script", b, command)
			}
		}
	}
	if commands < 10 {
		t.Errorf("%d commands", commands)
	}
}

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
		t.Fatalf("the variables in %s are not as in the code: run `make docs`", path)
	}
}

// variableMarkdown has a table of the variables that most people need, and one for each group.
func variableMarkdown() string {
	var b strings.Builder
	b.WriteString("\n### What most people need\n\n| for | variables |\n|---|---|\n")
	for _, task := range config.Tasks {
		var names []string
		for _, v := range config.Common() {
			if v.Task == task {
				names = append(names, "`"+v.Name+"`")
			}
		}
		b.WriteString("| " + task + " | " + strings.Join(names, ", ") + " |\n")
	}
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
