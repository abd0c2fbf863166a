package systemd

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

var units = []string{"docgauge.service", "docgauge-export.service", "docgauge-export.timer"}

// exposure is what systemd-analyze may find at most, in tenths: 0 is safe, 100
// is not.
const exposure = "15"

// TestInstalled runs docgauge as install.sh puts it in place.
func TestInstalled(t *testing.T) {
	if testing.Short() {
		t.Skip("builds docgauge")
	}
	root := t.TempDir()
	install(t, root, engines.Docgauge(t))
	t.Run("environment", func(t *testing.T) { testEnvironment(t, root) })
	t.Run("documentation", func(t *testing.T) { testDocumentation(t, root) })
}

// installed is a root directory in which install.sh has run, with a program that
// does nothing.
func installed(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	install(t, root, "/bin/true")
	return root
}

func install(t *testing.T, root, program string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("systemd is for Linux")
	}
	cmd := exec.Command("sh", "install.sh", program)
	cmd.Env = append(os.Environ(), "DESTDIR="+root)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("install.sh: %v: %s", err, out)
	}
}

// systemd runs a command of systemd and returns what it says.
func systemd(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	cmd, err := engines.Tool(t.Context(), name, args...)
	engines.Need(t, err)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestVerify(t *testing.T) {
	root := installed(t)
	own := "/lib/systemd/system"
	if out, err := exec.Command("cp", "-R", own, filepath.Join(root, "etc/systemd")).CombinedOutput(); err != nil {
		t.Skipf("systemd's own units: %v: %s", err, out)
	}
	for _, unit := range units {
		if out, err := systemd(t, "systemd-analyze", "verify", "--man=no", "--root="+root, unit); err != nil || strings.Contains(out, unit) {
			t.Errorf("systemd-analyze verify %s: %v: %s", unit, err, out)
		}
	}
}

func TestSecurity(t *testing.T) {
	root := installed(t)
	for _, unit := range units[:2] {
		out, err := systemd(t, "systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold="+exposure, "--root="+root, unit)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if err != nil {
			t.Errorf("%s: %v: %s", unit, err, out)
		}
		t.Log(lines[len(lines)-1])
	}
}

// TestTimer: the timer's calendar is one, and fires within the hour.
func TestTimer(t *testing.T) {
	spec := value(t, "docgauge-export.timer", "OnCalendar")
	out, err := systemd(t, "systemd-analyze", "calendar", "--base-time=2026-11-21 14:00:00 UTC", spec)
	if err != nil || !strings.Contains(out, "2026-11-21 14:17:00 UTC") {
		t.Errorf("OnCalendar=%s: %v: %s", spec, err, out)
	}
}

// TestUser: the user of the units is made.
func TestUser(t *testing.T) {
	root := installed(t)
	if out, err := systemd(t, "systemd-sysusers", "--root="+root, "docgauge.conf"); err != nil {
		t.Fatalf("systemd-sysusers: %v: %s", err, out)
	}
	users, err := os.ReadFile(filepath.Join(root, "etc/passwd"))
	if user := value(t, "docgauge.service", "User"); err != nil || !strings.HasPrefix(string(users), user+":") {
		t.Errorf("%v, users:\n%s", err, users)
	}
}

// TestSame: both services are confined alike.
func TestSame(t *testing.T) {
	var parts []string
	for _, unit := range units[:2] {
		_, confined, found := strings.Cut(read(t, unit), "# One directory is writable")
		confined, _, _ = strings.Cut(confined, "\n[Install]")
		if !found {
			t.Fatalf("%s: no such part", unit)
		}
		parts = append(parts, strings.TrimSpace(confined))
	}
	if parts[0] != parts[1] {
		t.Errorf("docgauge.service:\n%s\n\ndocgauge-export.service:\n%s", parts[0], parts[1])
	}
}

// TestInstallAgain: what somebody configured stays.
func TestInstallAgain(t *testing.T) {
	root := installed(t)
	file := filepath.Join(root, "etc/docgauge/docgauge.env")
	if err := os.WriteFile(file, []byte("DOCGAUGE_PROJECTS=prj_mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	install(t, root, "/bin/true")
	if text, err := os.ReadFile(file); err != nil || string(text) != "DOCGAUGE_PROJECTS=prj_mine\n" {
		t.Errorf("%v: %s", err, text)
	}
}

// testEnvironment: docgauge understands what the units give it, also what the
// example of a configuration has in comments.
func testEnvironment(t *testing.T, root string) {
	binary := filepath.Join(root, strings.Fields(value(t, "docgauge.service", "ExecStart"))[0])
	state, credentials := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(credentials, "api_key"), []byte("adm_of-the-test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile(`(?m)^#?(DOCGAUGE_[A-Z_]+=.*)$`).FindAllStringSubmatch(read(t, "docgauge.env"), -1)
	for _, unit := range units[:2] {
		var env []string
		for _, found := range example {
			env = append(env, found[1])
		}
		for _, setting := range values(t, unit, "Environment") {
			env = append(env, strings.NewReplacer("%d", credentials, "%S", state).Replace(setting))
		}
		docgauge(t, binary, env, 0, "plan")
		// Nobody serves there, as somebody on this machine may at the default address.
		docgauge(t, binary, append(env, "DOCGAUGE_LISTEN_ADDRESS=127.0.0.1:"+strconv.Itoa(engines.FreePort(t))), 1, "healthcheck")
	}
	for _, unit := range units[:2] {
		docgauge(t, binary, nil, 0, append(strings.Fields(value(t, unit, "ExecStart"))[1:], "--help")...)
	}
}

func docgauge(t *testing.T, binary string, env []string, want int, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	}
	if code != want {
		t.Errorf("docgauge %s: exit %d, want %d: %s", args[0], code, want, out)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// values are those of a setting of a unit, in order.
func values(t *testing.T, unit, name string) (found []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^`+name+`=(.*)$`).FindAllStringSubmatch(read(t, unit), -1) {
		found = append(found, m[1])
	}
	return found
}

// value is the only one.
func value(t *testing.T, unit, name string) string {
	t.Helper()
	found := values(t, unit, name)
	if len(found) != 1 {
		t.Fatalf("%s: %s is there %d times", unit, name, len(found))
	}
	return found[0]
}

// TestRecipes: the documentation names what is here.
func TestRecipes(t *testing.T) {
	text := read(t, "../../docs/cron.md") + read(t, "../../docs/sidecar.md")
	for _, name := range append(slices.Clone(units), "install.sh", "docgauge.env") {
		if !strings.Contains(text, name) {
			t.Errorf("neither docs/cron.md nor docs/sidecar.md names %s", name)
		}
	}
}
