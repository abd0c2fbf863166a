package prompts

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMain lets tests run a scan in a process of another user or another view of
// the file systems.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PROMPTS_TEST_SCAN"); dir != "" {
		scanElsewhere(dir)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func scanElsewhere(dir string) {
	f, err := Open(dir, Rules{})
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		return
	}
	s, err := f.Lint()
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
	}
	for _, p := range s.Prompts {
		os.Stdout.WriteString(p.Path + " is fine\n")
	}
	for _, finding := range s.Findings {
		os.Stdout.WriteString(finding.String() + "\n")
	}
}

// elsewhere runs scanElsewhere and returns its lines.
func elsewhere(t *testing.T, dir string, prepare func(*exec.Cmd)) []string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "PROMPTS_TEST_SCAN="+dir)
	prepare(cmd)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("this machine does not let the test: %v", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	must(t, os.Chmod(path, mode))
}

const anybody = "anyone can write to it, and so spend the agents' budget: run chmod o-w on it"

func TestWritableByAll(t *testing.T) {
	f, dir := folder(t, Rules{},
		map[string]string{"a.md": "body", "b.md": "body", "sub/c.md": "body", "open/d.md": "body"})
	chmod(t, filepath.Join(dir, "b.md"), 0o666)
	chmod(t, filepath.Join(dir, "open"), 0o777)
	s := lint(t, f)
	if diff := cmp.Diff([]string{"b.md: " + anybody, "open: " + anybody}, texts(s.Findings)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a.md", "sub/c.md"}, paths(s.Prompts)); diff != "" {
		t.Error(diff)
	}
	for _, mode := range []os.FileMode{0o777, 0o777 | os.ModeSticky, 0o722} {
		chmod(t, dir, mode)
		_, err := Open(dir, Rules{})
		_, scanErr := f.Scan(nil)
		for _, err := range []error{err, scanErr} {
			if want := "DOCGAUGE_PROMPTS_DIR: " + dir + ": " + anybody; err == nil || err.Error() != want {
				t.Errorf("mode %v: %v", mode, err)
			}
		}
	}
}

// TestReadOnlyMount: Kubernetes mounts ConfigMaps with mode 0777, read-only.
func TestReadOnlyMount(t *testing.T) {
	_, dir := folder(t, Rules{}, map[string]string{"..1/a.md": "body"})
	for link, to := range map[string]string{"..data": "..1", "a.md": "..data/a.md"} {
		must(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	chmod(t, dir, 0o777)
	self, err := os.Executable()
	must(t, err)
	mounts := func(script string) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) {
			env := cmd.Env
			*cmd = *exec.Command("unshare", "--user", "--map-root-user", "--mount",
				"sh", "-ec", script+` && exec "$2"`, "sh", dir, self)
			cmd.Env = env
		}
	}
	got := elsewhere(t, dir, mounts(`mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"`))
	if diff := cmp.Diff([]string{"a.md is fine"}, got); diff != "" {
		t.Errorf("read-only: %s", diff)
	}
	got = elsewhere(t, dir, mounts(`mount --bind "$1" "$1"`))
	if diff := cmp.Diff([]string{"DOCGAUGE_PROMPTS_DIR: " + dir + ": " + anybody}, got); diff != "" {
		t.Errorf("writable: %s", diff)
	}
}

func TestUnreadable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	_, dir := folder(t, Rules{}, map[string]string{"a.md": "body", "b.md": "body", "sub/c.md": "body"})
	for p := dir; p != "/" && p != os.TempDir(); p = filepath.Dir(p) {
		chmod(t, p, 0o755)
	}
	chmod(t, filepath.Join(dir, "a.md"), 0o644)
	chmod(t, filepath.Join(dir, "b.md"), 0)
	chmod(t, filepath.Join(dir, "sub"), 0)
	nobody := func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	got := elsewhere(t, dir, nobody)
	want := []string{
		"a.md is fine",
		"b.md: permission denied: let this user read it",
		"sub: permission denied: let this user read it",
	}
	if !slices.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	chmod(t, dir, 0o700)
	const denied = ": permission denied: let this user read and search it (chmod u+rx)"
	if got = elsewhere(t, dir, nobody); got[0] != "DOCGAUGE_PROMPTS_DIR: "+dir+denied {
		t.Error(got)
	}
}
