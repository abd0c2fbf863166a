package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func manualIn(t *testing.T) (*cobra.Command, string) {
	t.Helper()
	a := &Program{Out: io.Discard, Err: io.Discard, now: time.Now, logTo: &switchWriter{to: io.Discard}}
	root, dir := a.root(), filepath.Join(t.TempDir(), "man")
	if err := writeManual(root, dir); err != nil {
		t.Fatal(err)
	}
	return root, dir
}

// TestManual holds that every command and flag that people see is in the manual.
func TestManual(t *testing.T) {
	root, dir := manualIn(t)
	each(root, func(cmd *cobra.Command) {
		page, err := os.ReadFile(filepath.Join(dir, pageName(cmd)+".1"))
		if cmd.Hidden != os.IsNotExist(err) {
			t.Errorf("%s (hidden: %v): %v", cmd.CommandPath(), cmd.Hidden, err)
		}
		for line := range strings.Lines(cmd.NonInheritedFlags().FlagUsages()) {
			flag, _, _ := strings.Cut(strings.TrimSpace(line[strings.Index(line, "--"):]), " ")
			if !strings.Contains(string(page), roff(flag)+`"`) && flag != "--help" && !cmd.Hidden {
				t.Errorf("%s: %s is not on the page", cmd.CommandPath(), flag)
			}
		}
	})
	page, err := os.ReadFile(filepath.Join(dir, "docgauge.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variableTable() {
		if !strings.Contains(string(page), "\n.B "+v.name+"\n") {
			t.Errorf("docgauge.1 lacks %s", v.name)
		}
	}
}

// TestManualIsRoff lets groff warn of all it can.
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
	out, err := exec.Command(groff, append([]string{"-man", "-ww", "-Kutf8", "-Tutf8", "-z"}, pages...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}

// TestProse fills paragraphs and keeps what is indented.
func TestProse(t *testing.T) {
	got := prose("One\ntwo.\n\n  a -b\n    c\nThree.\n\n.four \\")
	want := "One\ntwo.\n.PP\n.PP\n.nf\n.RS\na \\-b\n  c\n.RE\n.fi\n.PP\nThree.\n.PP\n\\&.four \\e\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
