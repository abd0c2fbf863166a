package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// longName is the name of a project, 64 columns wide.
var longName = strings.Repeat("製品ドキュメント", 4)

// longPlace has two projects, one with the longest id and one with a long name in wide
// characters, and prompts in deep folders.
func longPlace(t *testing.T) place {
	t.Helper()
	long := "prj_" + strings.Repeat("long", 31)
	s := testbed.NewService(t, sandbox.Config{Projects: []string{long, "prj_b"},
		Agent: sandbox.Agent{After: 10 * time.Millisecond}})
	p := placeFor(t, s, []string{long, "prj_b"}, "DOCGAUGE_BUDGET=60",
		"DOCGAUGE_SINCE="+testbed.DaysAgo(30).String(), "COLUMNS=",
		"DOCGAUGE_PROJECT_NAMES=prj_b="+longName, "DOCGAUGE_PARQUET_URL="+strings.Repeat("deep/", 30)+"data",
		"DOCGAUGE_PROMPTS_DIR=prompts", "DOCGAUGE_PROMPTS_ON_NEW_STATE=submit", "DOCGAUGE_POLL_INTERVAL=1s")
	check(t, os.MkdirAll(filepath.Join(p.dir, strings.Repeat("deep/", 30)), 0o755))
	folder := "prompts/" + strings.Repeat("a-folder-with-a-name/", 4)
	for name, text := range map[string]string{
		"good.md": "Fix it.",
		"目次と索引の間違いを直す.md": "Fix it. [sandbox:no-change]", "bad.md": "Fix it. [sandbox:fail]",
		"waits.md": "---\nnot_before: 2999-01-01\n---\nText", "wrong.md": "---\ntilte: x\n---\nText",
	} {
		if !strings.HasPrefix(text, "---\n") {
			text = "---\nproject: " + long + "\n---\n" + text
		} else {
			text = strings.Replace(text, "---\n", "---\nproject: prj_b\n", 1)
		}
		writePrompt(t, filepath.Join(p.dir, folder, name), text)
	}
	return p
}

// TestFitsTheTerminal: no command writes a line that is wider than the terminal, a
// progress bar included, whatever projects, prompts and places are called.
func TestFitsTheTerminal(t *testing.T) {
	t.Parallel()
	p := longPlace(t)
	p.try(t, "jobs", "run", "--wait")
	for _, width := range []int{80, 120} {
		for _, command := range []string{
			"check", "plan", "plan --all", "export", "status", "plan", "check", "verify", "jobs plan", "jobs list",
			"jobs show 1", "jobs show 2",
			"load --sink parquet --archive other --dry-run",
		} {
			if other := filepath.Join(p.dir, "other"); strings.HasPrefix(command, "load") && width == 80 {
				data := filepath.Join(p.dir, strings.Repeat("deep/", 30)+"data")
				check(t, os.CopyFS(other, os.DirFS(data)))
			}
			s := p.onTerminal(t, width, nil, strings.Fields(command)...)
			s.ends(exitDone, exitFailed)
			if n := columnsOf(s.widest); n > width {
				t.Errorf("docgauge %s writes %d columns on a terminal of %d: %q", command, n, width, s.widest)
			}
			if lines := s.shows(); len(lines) < 2 {
				t.Errorf("docgauge %s says nothing on a terminal of %d columns", command, width)
			}
		}
	}
}

// TestPlanInGroups: a person who plans three months sees their cost, not two hundred
// lines, in a pipe too; --all lists them.
func TestPlanInGroups(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{})
	p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_SINCE="+testbed.DaysAgo(60).String(),
		"DOCGAUGE_WINDOWS=day,28d:totals", "COLUMNS=")
	p.try(t, "check")
	terminal := p.onTerminal(t, 80, nil, "plan")
	terminal.ends(exitDone)
	terminal.await("day  ", " 60  missing", "120+")
	terminal.await("28d (totals)", " 33  missing", "33")
	if n := len(terminal.shows()); n > 12 {
		t.Errorf("%d lines", n)
	}
	all := p.onTerminal(t, 80, nil, "plan", "--all")
	all.ends(exitDone)
	_, piped, _ := p.try(t, "plan")
	if n, m := len(all.shows()), strings.Count(piped, "\n"); n < 90 || m > 12 {
		t.Errorf("%d lines with --all, %d in a pipe: want every window, and groups", n, m)
	}
}

// TestExportOnTerminal: a terminal shows a bar, the result and the ledger
// afterwards. Without one there is the result alone; the level debug has a line for each window.
func TestExportOnTerminal(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{})
	p := placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_SINCE="+testbed.DaysAgo(3).String(),
		"DOCGAUGE_WINDOWS=day", "COLUMNS=")
	terminal := p.onTerminal(t, 80, nil, "export")
	terminal.ends(exitDone)
	terminal.await("success: 3 windows")
	terminal.await("window", "newest", "known")
	terminal.await("day", "3 provisional")
	if text := strings.Join(terminal.shows(), "\n"); strings.Contains(text, "window exported") ||
		!strings.Contains(terminal.all.String(), "/4)") {
		t.Errorf("want a bar and no log lines:\n%s", terminal.all.String())
	}
	for _, level := range []string{"info", "debug"} {
		lines := map[string]int{"debug": 3}[level]
		p.env = append(p.env, "DOCGAUGE_LOG_LEVEL="+level)
		code, out, stderr := p.try(t, "export", "--again", "--from", testbed.DaysAgo(3).String(), "--to",
			testbed.DaysAgo(0).String())
		if code != exitDone || strings.Count(stderr, "window exported") != lines || strings.Contains(out, "newest") ||
			lines == 0 && (stderr != "" || !strings.HasPrefix(out, "success: 3 windows")) {
			t.Errorf("%s: exit code %d, standard output %s\nlog %s", level, code, out, stderr)
		}
	}
}

// TestDemoKeepsItsLabel: the bar of the export does not take the word before the result
// with it.
func TestDemoKeepsItsLabel(t *testing.T) {
	t.Parallel()
	p := place{t.TempDir(), append(os.Environ(), "COLUMNS=")}
	terminal := p.onTerminal(t, 120, nil, "demo", "--dir", "d")
	terminal.ends(exitDone)
	terminal.await("export   success: ")
}

// TestPipesAreNotCut: output that another program reads is whole, unless COLUMNS limits its
// width.
func TestPipesAreNotCut(t *testing.T) {
	t.Parallel()
	p := longPlace(t)
	_, out, _ := p.try(t, "plan", "--all")
	if !strings.Contains(out, longName) {
		t.Errorf("a name is cut:\n%s", out)
	}
	p.env = append(p.env, "COLUMNS=90")
	_, out, _ = p.try(t, "plan", "--all")
	for line := range strings.Lines(out) {
		if n := columnsOf(strings.TrimSuffix(line, "\n")); n > 90 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if lines := strings.Count(out, "\n"); lines < 60 {
		t.Errorf("%d lines: --all has every window", lines)
	}
}

// columnsOf is the number of columns of a terminal that a line of these tests takes.
func columnsOf(line string) (n int) {
	for _, r := range line {
		if n++; r >= 0x2e80 {
			n++
		}
	}
	return n
}
