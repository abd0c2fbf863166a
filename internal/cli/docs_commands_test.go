package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// TestDocumentedCommands holds that every docgauge command line of the
// documentation, executed or not, is one that docgauge takes: command, flags and
// their values, and the number of arguments.
func TestDocumentedCommands(t *testing.T) {
	seen := 0
	for page, text := range documentation(t) {
		for _, b := range docBlocks(page, text) {
			for _, args := range commandLines(b) {
				seen++
				if err := accepts(args, true); err != nil {
					t.Errorf("%s: docgauge %s: %v", b, strings.Join(args, " "), err)
				}
			}
		}
		for _, code := range inlineCode.FindAllStringSubmatch(withoutBlocks(text), -1) {
			for _, args := range invocations(code[1]) {
				seen++
				if err := accepts(args, false); err != nil {
					t.Errorf("%s: `%s`: %v", page, code[1], err)
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d command lines in the whole documentation: are they looked for in the right place?", seen)
	}
}

var (
	inlineCode = regexp.MustCompile("`([^`\n]+)`")
	fenced     = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
)

func withoutBlocks(text string) string { return fenced.ReplaceAllString(text, "") }

// commandLines returns the arguments of each docgauge in a block of commands; in
// a block with answers only lines after a prompt are commands.
func commandLines(b docBlock) (out [][]string) {
	if !slices.Contains([]string{"", "sh", "bash", "console", "cron"}, b.language()) {
		return nil
	}
	text := strings.ReplaceAll(b.text, "\\\n", " ")
	for line := range strings.Lines(text) {
		command, prompted := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if b.language() == "console" && !prompted {
			continue
		}
		out = append(out, invocations(command)...)
	}
	return out
}

// words splits a command line as a shell would: quotes, comments, redirections
// and operators.
var words = regexp.MustCompile(`'[^']*'|"[^"]*"|\s#.*|[0-9]*[<>]+\s*\S+|&&|\|\||[|;&()]|[^\s|;&()<>'"]+`)

var (
	operator    = regexp.MustCompile(`^(\s*#|[|;&()])`)
	redirection = regexp.MustCompile(`^[0-9]*[<>]`)
	program     = regexp.MustCompile(`^(\./|/usr/|/usr/local/)?(bin)?/docgauge$|^bin/docgauge(-demo)?$`)
	// ahead are the words that may come before a program's name: variables, words of the
	// shell, the times of cron.
	ahead = regexp.MustCompile(`^(\w+=.*|until|while|if|then|do|else|env|time|exec|!|[0-9*/,-]+)$`)
)

// invocations returns the arguments of each docgauge in a command line.
func invocations(line string) (out [][]string) {
	var args []string
	found, first, copied := false, true, false
	end := func() {
		if found {
			out = append(out, args)
		}
		args, found, first, copied = nil, false, true, false
	}
	for _, w := range words.FindAllString(line, -1) {
		switch {
		case operator.MatchString(w):
			end()
		case redirection.MatchString(w):
		case w == "install" && !found, copied:
			copied = true // a path is a file
		case program.MatchString(w), first && !found && w == "docgauge":
			args, found = nil, true // a path is one wherever it stands: docker exec it /docgauge
		case found:
			args = append(args, strings.Trim(w, `'"[]`))
		default:
			first = first && ahead.MatchString(w)
		}
	}
	end()
	return out
}

// accepts reports why docgauge would refuse the arguments. Where a line is not
// whole, as in running text, arguments may be missing.
func accepts(args []string, whole bool) error {
	if slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "…") }) {
		return nil // shortened
	}
	a := newProgram(io.Discard, io.Discard, nil)
	root := a.root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if err := parses(cmd, rest); err != nil {
		return err
	}
	rest = cmd.Flags().Args()
	if cmd.HasSubCommands() && len(rest) > 0 {
		return fmt.Errorf("%s has no command %s", cmd.CommandPath(), rest[0])
	}
	if !whole {
		return nil
	}
	return cmd.ValidateArgs(rest)
}

var placeholder = regexp.MustCompile(`\b[A-Z]{1,9}\b`)

// parses reports the problem of the flags. A word in capitals stands for a value.
func parses(cmd *cobra.Command, args []string) error {
	err := cmd.ParseFlags(args)
	if err != nil && strings.Contains(err.Error(), "invalid argument") &&
		placeholder.MatchString(strings.Join(args, " ")) {
		return nil
	}
	return err
}

// TestRefusedCommands: command lines that docgauge would refuse are found, so that the documentation has none.
func TestRefusedCommands(t *testing.T) {
	for _, line := range []string{
		"x && docgauge export --wiat", "17 * * * *  docgauge exprot", "X=1 docgauge jobs lst", "bin/docgauge plan x",
		"docgauge jobs show", "docgauge openmetrics --step 1x",
	} {
		if all := invocations(line); len(all) != 1 || accepts(all[0], true) == nil {
			t.Errorf("%s: found %v, and nothing wrong", line, all)
		}
	}
}

var variableName = regexp.MustCompile(`\bDOCGAUGE_[A-Z0-9_]*(…|\*)?`)

// TestDocumentedVariables holds that every variable the documentation names is one.
func TestDocumentedVariables(t *testing.T) {
	for page, text := range documentation(t) {
		for _, name := range variableName.FindAllString(text, -1) {
			if !isVariable(name) {
				t.Errorf("%s: there is no variable %s", page, name)
			}
		}
	}
}

// isVariable reports whether docgauge reads a variable; a name that ends with
// an underscore, an ellipsis or a star stands for all that begin so.
func isVariable(name string) bool {
	begin := strings.TrimRight(name, "…*")
	whole := begin == name && !strings.HasSuffix(name, "_")
	for _, v := range config.Variables() {
		if v.Name == name || !whole && strings.HasPrefix(v.Name, begin) {
			return true
		}
	}
	return begin == "DOCGAUGE_PORT" || begin == "DOCGAUGE_SERVICE_"
}

var pageLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestDocumentedLinks holds that what pages link to in the repository is there,
// headings included.
func TestDocumentedLinks(t *testing.T) {
	pages := documentation(t)
	for page, text := range pages {
		for _, m := range pageLink.FindAllStringSubmatch(withoutBlocks(text), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") {
				continue
			}
			path := filepath.Join(filepath.Dir(page), target)
			if target == "" {
				path = page
			}
			if _, err := os.Stat(filepath.Join(repository, path)); err != nil {
				t.Errorf("%s links to %s: there is no such file", page, m[1])
			}
			if other, ok := pages[path]; ok && anchor != "" && !slices.Contains(anchors(other), anchor) {
				t.Errorf("%s links to %s: there is no such heading", page, m[1])
			}
		}
	}
}

// TestDocumentationIndex holds that README.md stays short, that the index leads to what people ask for, that every
// page can be reached from it, and that only install.md speaks of what has been published.
func TestDocumentationIndex(t *testing.T) {
	pages := documentation(t)
	if words := len(strings.Fields(pages["README.md"])); words > 900 {
		t.Errorf("README.md has %d words: at most 900", words)
	}
	// What newcomers asked for and did not find.
	for _, word := range []string{
		"install", "upgrade", "GitHub Pages", "Netlify", "Vercel", "which assistant reads which page", "Cloudflare",
		"base URL", "BigQuery", "Snowflake", "Metabase", "Looker", "stored of persons", "two organisations", "pods",
		"GoAccess", "Matomo", "Plausible", "AI Crawl Control", "GitBook",
	} {
		if !strings.Contains(pages["docs/README.md"], word) {
			t.Errorf("docs/README.md does not lead to %q", word)
		}
	}
	reached := map[string]bool{}
	for todo := []string{"docs/README.md"}; len(todo) > 0; todo = todo[1:] {
		if text, ok := pages[todo[0]]; ok && !reached[todo[0]] {
			reached[todo[0]] = true
			for _, m := range pageLink.FindAllStringSubmatch(withoutBlocks(text), -1) {
				target, _, _ := strings.Cut(m[1], "#")
				if next := filepath.Join(filepath.Dir(todo[0]), target); next != "README.md" {
					todo = append(todo, next)
				}
			}
		}
	}
	for page, text := range pages {
		if page != "README.md" && !reached[page] {
			t.Errorf("%s cannot be reached from docs/README.md", page)
		}
		if page != "docs/install.md" && strings.Contains(strings.ToLower(text), "been published") {
			t.Errorf("%s: only docs/install.md says what has been published", page)
		}
	}
}

var (
	headingLine = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped     = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns those that GitHub gives to the headings of a page.
func anchors(text string) (out []string) {
	for _, m := range headingLine.FindAllStringSubmatch(withoutBlocks(text), -1) {
		out = append(out, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return out
}

var runHere = regexp.MustCompile(`^` + executedMark + ` TestDocumented\b`)

// TestDocumented runs the blocks that say so, the blocks of a page one after the other, in a directory with an
// export from a sandbox.
func TestDocumented(t *testing.T) {
	ran := 0
	for page, text := range documentation(t) {
		var script strings.Builder
		for _, b := range docBlocks(page, text) {
			if slices.ContainsFunc(b.notes, runHere.MatchString) {
				script.WriteString(asScript(b))
				ran++
			}
		}
		if script.Len() > 0 {
			t.Run(filepath.Base(page), func(t *testing.T) { runPage(t, script.String()) })
		}
	}
	if ran == 0 {
		t.Error("no block is executed here")
	}
}

// asScript returns the commands of a block.
func asScript(b docBlock) string {
	if b.language() != "console" {
		return b.text
	}
	var out strings.Builder
	for line := range strings.Lines(b.text) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			out.WriteString(command)
		}
	}
	return out.String()
}

// runPage runs the commands of a page; each must succeed.
func runPage(t *testing.T, script string) {
	s := testbed.NewService(t, sandbox.Config{Days: 60, Pages: 40})
	p := placeFor(t, s, []string{sandbox.DefaultProject})
	p.env = append(p.env, "DOCGAUGE_STATE_DIR="+filepath.Join(p.dir, "state"))
	p.shell(t, "set -ux; docgauge export\n"+script)
}
