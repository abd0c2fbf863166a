package cli

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// TestJobsUnreadable: another user's folder is not an empty one, and another user's
// file is reported.
func TestJobsUnreadable(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: needs root, to become another user")
	}
	p := oddPlace(t, &oddService{}, "a", "b")
	dir := filepath.Join(p.dir, "prompts")
	for above := p.dir; above != "/" && above != filepath.Clean(os.TempDir()); above = filepath.Dir(above) {
		check(t, os.Chmod(above, 0o755))
	}
	for _, tc := range []struct {
		path string
		mode os.FileMode
		code int
		want string
	}{
		{filepath.Join(dir, "b.md"), 0o644, exitFailed, "a.md: permission denied: let this user read it"},
		{dir, 0o700, exitUsage, "DOCGAUGE_PROMPTS_DIR: prompts: permission denied: let this user read and search it " +
			"(chmod u+rx)"},
	} {
		check(t, os.Chmod(tc.path, tc.mode))
		cmd := exec.Command("/proc/self/exe", "jobs", "lint")
		cmd.Args[0], cmd.Dir, cmd.Env = "docgauge", p.dir, p.env
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		stderr, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Skipf("NOT TESTED: this machine does not let the test: %v", err)
		}
		if code := cmd.ProcessState.ExitCode(); code != tc.code || !strings.Contains(string(stderr), tc.want) {
			t.Errorf("exit code %d, want %d and %s:\n%s", code, tc.code, tc.want, stderr)
		}
	}
}

// TestJobsDiskFull gives the state page after page of a full disk: where the intent
// cannot be made durable nothing is sent, and whatever write fails after it, the
// prompt is sent at most once, and if not, that is reported.
func TestJobsDiskFull(t *testing.T) {
	t.Parallel()
	s := &oddService{read: goodEnd, answers: map[string]oddAnswer{"a": {status: http.StatusCreated, body: goodJob}}}
	p := oddPlace(t, s, "a")
	disk := smallDisk(t, filepath.Join(p.dir, "state"))
	if code, _, stderr := p.try(t, "jobs", "release"); code != exitDone { // makes the database
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	filler := filepath.Join(disk, "filler")
	failed := map[string]int{}
	for size, begun := fillDisk(t, filler), false; !begun; size -= int64(os.Getpagesize()) {
		if err := os.Truncate(filler, size); err != nil {
			t.Fatalf("nothing was sent with all the room: %v, %v", failed, err)
		}
		code, out, stderr := p.try(t, "jobs", "run")
		if code != exitDone {
			failed[lastLine(stderr)]++
		}
		begun = len(s.created()) > 0 || strings.Contains(out, "docgauge jobs resolve 1")
		if code == exitDone && !begun {
			t.Fatalf("it is done with %d bytes of filler, and nothing was sent\n%s%s", size, out, stderr)
		}
	}
	if len(failed) == 0 {
		t.Error("the disk was never full")
	}
	t.Logf("sent %d times; what failed, and how often: %v", len(s.created()), failed)
	check(t, os.Remove(filler))
	if len(s.created()) == 0 {
		p.run(t, "jobs", "resolve", "1", "--resubmit")
	}
	_, out, stderr := p.try(t, "jobs", "run", "--wait")
	if len(s.created()) != 1 || !strings.Contains(out, "completed") && !strings.Contains(out, "unknown") {
		t.Fatalf("with room again: sent %d times\n%s%s", len(s.created()), out, stderr)
	}
}

// TestJobsAddFails: a file that cannot be written is not a mistake in the command
// line.
func TestJobsAddFails(t *testing.T) {
	t.Parallel()
	p := oddPlace(t, &oddService{}, "a")
	disk := smallDisk(t, filepath.Join(p.dir, "prompts"))
	filler := filepath.Join(disk, "filler")
	fillDisk(t, filler)
	adds := func(about, name string, want int, text string) {
		t.Helper()
		code, _, stderr := p.try(t, "jobs", "add", "--file", name, "Fix it.")
		if code != want || !strings.Contains(stderr, text) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", about, code, want, text, stderr)
		}
	}
	adds("full", "b.md", exitFailed, "prompt b.md: no space left on device")
	adds("full, and a wrong name", "../b.md", exitUsage, "want a path below the folder")
	check(t, os.Remove(filler))
	adds("room again", "b.md", exitDone, "")
	adds("the name is taken", "b.md", exitUsage, "choose another name")
	adds("no such folder", "none/c.md", exitUsage, "no such file or directory")
	check(t, syscall.Mount("none", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	adds("read-only", "c.md", exitFailed, "prompt c.md: read-only file system")
}

// TestExportDiskFull: wherever a run meets the end of the disk that has the state, no line says that twice, nor another line
// the same.
func TestExportDiskFull(t *testing.T) {
	t.Parallel()
	p := placeFor(t, testbed.NewService(t, sandbox.Config{}), []string{sandbox.DefaultProject}, "DOCGAUGE_WINDOWS=day",
		"DOCGAUGE_SINCE="+testbed.DaysAgo(9).String())
	disk := smallDisk(t, filepath.Join(p.dir, "state"))
	filler := filepath.Join(disk, "filler")
	for size := fillDisk(t, filler); size > 0; size -= 8 * int64(os.Getpagesize()) {
		check(t, os.Truncate(filler, size))
		code, out, stderr := p.try(t, "export")
		repeated, said := strings.Contains(stderr, "spool: spool: "), map[string]bool{}
		for line := range strings.Lines(stderr) {
			repeated = repeated || strings.Count(line, "the disk is full: ") > 1 || said[line]
			said[line] = true
		}
		if repeated {
			t.Fatalf("%d bytes of filler:\n%s%s", size, out, stderr)
		}
		if code == exitDone {
			return
		}
	}
}

// smallDisk mounts a file system of 1 MiB until the test ends.
func smallDisk(t *testing.T, at string) string {
	t.Helper()
	check(t, os.MkdirAll(at, 0o700))
	if err := syscall.Mount("none", at, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		t.Skipf("NOT TESTED: mounting a small file system: %v (needs root)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return at
}

// fillDisk makes a file of all the room there is, and returns its size.
func fillDisk(t *testing.T, name string) (size int64) {
	t.Helper()
	f, err := os.Create(name)
	check(t, err)
	for page := make([]byte, os.Getpagesize()); err == nil; {
		var n int
		n, err = f.Write(page)
		size += int64(n)
	}
	if cerr := f.Close(); cerr != nil || !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err, cerr)
	}
	return size
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// TestJobsEvilService: nothing that the service says is obeyed by the terminal.
func TestJobsEvilService(t *testing.T) {
	t.Parallel()
	const evil = `\u001b]0;gone\u0007\u001b[2J\u009b1A\r\n\u202e`
	s := &oddService{
		read: `{"id":"job_good","status":"` + evil + `","model":"` + evil + `","prLink":"https://example.com/` + evil +
			`","source":{"ref":"` + evil + `"}}`,
		answers: map[string]oddAnswer{
			"a-evil":    {status: http.StatusCreated, body: `{"id":"job_good","status":"act` + evil + `ive"}`},
			"b-refused": {status: http.StatusBadRequest, body: `{"error":"no ` + evil + `"}`},
			"c-odd":     {status: http.StatusCreated, body: `{"id":"` + evil + `"}`},
			"d-raw":     {status: http.StatusBadGateway, body: "\x1b[2J\x07\u009b"},
		},
	}
	p := oddPlace(t, s, "a-evil", "b-refused", "c-odd", "d-raw")
	terminal := p.onTerminal(t, 120, nil, "jobs", "run", "--wait")
	terminal.await("a-evil.md", "agent job sent")
	terminal.await("b-refused.md", "outcome=rejected")
	terminal.await("d-raw.md", "in doubt")
	terminal.press("\x03")
	terminal.ends(exitFailed) // reports unexpected output
	for _, args := range [][]string{
		{"jobs", "list"}, {"jobs", "plan"}, {"jobs", "show", "a-evil.md"},
		{"jobs", "show", "b-refused.md"},
	} {
		terminal := p.onTerminal(t, 120, nil, args...)
		terminal.ends(exitDone)
	}
}
