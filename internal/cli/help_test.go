package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/config"
)

// TestHelpFits holds that the help of every command fits 80 columns, and is in our
// language.
func TestHelpFits(t *testing.T) {
	var out strings.Builder
	a := newProgram(&out)
	root := a.root()
	root.SetOut(&out)
	walk(root, func(cmd *cobra.Command) {
		out.Reset()
		cmd.InitDefaultHelpFlag()
		check(t, cmd.Help())
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > helpWidth {
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

// TestHelpOnConfiguration: docgauge help configuration has every variable, by group, and
// docgauge --help none.
func TestHelpOnConfiguration(t *testing.T) {
	var out strings.Builder
	if code := (Program{Out: &out, Err: &out}).Run(t.Context(), []string{"help", "configuration"}); code != exitDone {
		t.Fatalf("exit code %d: %s", code, out.String())
	}
	rest := out.String()
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
	(Program{Out: &out, Err: &out}).Run(t.Context(), []string{"--help"})
	if strings.Contains(out.String(), "DOCGAUGE_BUDGET") ||
		strings.Index(out.String(), "export ") > strings.Index(out.String(), "Flags:") {
		t.Errorf("commands come first, variables elsewhere:\n%s", out.String())
	}
}

// TestSettingsFit holds that the list of settings fits 80 columns, and that no value is cut.
func TestSettingsFit(t *testing.T) {
	long := strings.Repeat("x", 70)
	text := settingsText([]config.Setting{
		{Name: "DOCGAUGE_PROMPTS_ON_NEW_STATE", Group: "a", Value: "refuse", Source: "default"},
		{Name: "DOCGAUGE_STATE_DIR", Group: "b", Value: long, Source: "/etc/docgauge/docgauge.env", Line: 123},
	})
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > helpWidth {
			t.Errorf("too wide: %s", line)
		}
	}
	if !strings.Contains(text, long) || !strings.Contains(text, "docgauge.env:123") {
		t.Errorf("want all of it:\n%s", text)
	}
}
