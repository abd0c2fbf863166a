package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/config"
)

// TestHelpFits holds that the help of every command fits 80 columns, and is in our
// language.
func TestHelpFits(t *testing.T) {
	var out strings.Builder
	a := newProgram(&out, &out, nil)
	root := a.root()
	root.SetOut(&out)
	walk(root, func(cmd *cobra.Command) {
		out.Reset()
		cmd.InitDefaultHelpFlag()
		check(t, cmd.Help())
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > console.HelpWidth {
				t.Errorf("%s --help: %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		if first := cmd.Short[:1]; first != strings.ToLower(first) {
			t.Errorf("%s: %q begins with a capital", cmd.CommandPath(), cmd.Short)
		}
		if cmd.HasParent() && !cmd.Parent().HasParent() && cmd.GroupID == "" && cmd.IsAvailableCommand() {
			t.Errorf("%s is in no group of docgauge --help", cmd.CommandPath())
		}
	})
}

// TestHelpOnConfiguration: docgauge help configuration has a dozen variables, by task, with --all every one, by
// group, and docgauge --help none.
func TestHelpOnConfiguration(t *testing.T) {
	var out strings.Builder
	help := func(args ...string) string {
		out.Reset()
		if code := newProgram(&out, &out, nil).Run(t.Context(), append([]string{"help"}, args...)); code != exitDone {
			t.Fatalf("%v: exit code %d: %s", args, code, out.String())
		}
		return out.String()
	}
	rest := help("configuration")
	if n := strings.Count(rest, "\n  DOCGAUGE_"); n < 10 || n > 15 {
		t.Errorf("%d variables, want 10 to 15", n)
	}
	for _, task := range config.Tasks {
		_, after, ok := strings.Cut(rest, "\n"+task+":\n  DOCGAUGE_")
		if !ok {
			t.Fatalf("%q does not follow in\n%s", task, out.String())
		}
		rest = after
	}
	rest = help("configuration", "--all")
	group := ""
	for _, v := range config.Variables() {
		if v.Meaning == "" {
			continue
		}
		want := "  " + v.Name + "\n"
		if v.Group != group {
			group = v.Group
			want = "\n" + group + ":\n" + want
		}
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("%q does not follow in\n%s", want, out.String())
		}
		rest = after
	}
	out.Reset()
	newProgram(&out, &out, nil).Run(t.Context(), []string{"--help"})
	if strings.Contains(out.String(), "DOCGAUGE_BUDGET") ||
		strings.Index(out.String(), "export ") > strings.Index(out.String(), "Flags:") {
		t.Errorf("commands come first, variables elsewhere:\n%s", out.String())
	}
}

// TestSettingsFit holds that the list of settings fits 80 columns, and a terminal of fewer, and that no value is cut.
func TestSettingsFit(t *testing.T) {
	long := strings.Repeat("x", 70)
	for columns, most := range map[string]int{"": console.HelpWidth, "40": 40} {
		t.Setenv("COLUMNS", columns)
		var text strings.Builder
		check(t, printSettings(&text, []config.Setting{
			{Name: "DOCGAUGE_PROMPTS_ON_NEW_STATE", Group: "a", Value: "refuse", Source: "default"},
			{Name: "DOCGAUGE_STATE_DIR", Group: "b", Value: long, Source: "/etc/docgauge/docgauge.env", Line: 123},
		}))
		for line := range strings.Lines(text.String()) {
			if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > most {
				t.Errorf("too wide for %d columns: %s", most, line)
			}
		}
		whole := strings.Join(strings.Fields(text.String()), "")
		if !strings.Contains(whole, long) || !strings.Contains(whole, "docgauge.env:123") {
			t.Errorf("want all of it:\n%s", text.String())
		}
	}
}

func manualIn(t *testing.T) (*cobra.Command, string) {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "1790000000")
	a := newProgram(io.Discard, io.Discard, nil)
	root, dir := a.root(), filepath.Join(t.TempDir(), "man")
	check(t, a.writeManual(root, dir))
	return root, dir
}

// TestManual: every command, flag and variable that people see is in the manual.
func TestManual(t *testing.T) {
	root, dir := manualIn(t)
	walk(root, func(cmd *cobra.Command) {
		text, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if cmd.IsAvailableCommand() == os.IsNotExist(err) && cmd.HasParent() {
			t.Errorf("%s: %v", cmd.CommandPath(), err)
		}
		page := strings.ReplaceAll(string(text), `\-`, "-")
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if cmd.IsAvailableCommand() && !f.Hidden && !strings.Contains(page, "--"+f.Name) {
				t.Errorf("%s: --%s is not on the page", cmd.CommandPath(), f.Name)
			}
		})
		if cmd.HasParent() {
			return
		}
		for _, v := range config.Variables() {
			if !strings.Contains(page, v.Name) {
				t.Errorf("%s lacks %s", cmd.CommandPath(), v.Name)
			}
		}
	})
}

// TestManualIsRoff has groff warn about everything it can.
func TestManualIsRoff(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed: apt-get install groff-base")
	}
	_, dir := manualIn(t)
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < 20 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	out, err := exec.Command(groff, append([]string{"-man", "-ww", "-Kutf8", "-Tutf8", "-z"},
		pages...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}
