package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docgauge/docgauge/internal/config"
)

func manualIn(t *testing.T) (*cobra.Command, string) {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "1790000000")
	a := newProgram(new(strings.Builder))
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
