package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

var services = []string{"docgauge.service", "docgauge-export.service"}

// install runs install.sh and returns the root directory that it wrote.
func install(t *testing.T, root, program string) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("systemd is for Linux")
	}
	cmd := exec.Command("sh", "systemd/install.sh", program)
	cmd.Env = append(os.Environ(), "DESTDIR="+root)
	succeed(t, cmd)
	return root
}

// settings are those of a name in a unit, in order.
func settings(t *testing.T, unit, name string) (found []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^`+name+`=(.*)$`).FindAllStringSubmatch(read(t, "systemd/"+unit), -1) {
		found = append(found, m[1])
	}
	if len(found) == 0 {
		t.Fatalf("%s has no %s", unit, name)
	}
	return found
}

// TestUnits asks systemd: the units are valid, confined, and have their user, and
// the timer fires within the hour.
func TestUnits(t *testing.T) {
	t.Parallel()
	root := install(t, t.TempDir(), "/bin/true")
	succeed(t, exec.Command("cp", "-R", "/lib/systemd/system", filepath.Join(root, "etc/systemd")))
	for _, unit := range append(services, "docgauge-export.timer") {
		if out := succeed(t, tool(t, "systemd-analyze", "verify", "--man=no", "--root="+root, unit)); strings.Contains(out, unit) {
			t.Errorf("systemd-analyze verify %s: %s", unit, out)
		}
	}
	for _, unit := range services {
		// 15 is 1.5 of 10 for exposed; 0 is safe.
		succeed(t, tool(t, "systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=15", "--root="+root, unit))
	}
	spec := settings(t, "docgauge-export.timer", "OnCalendar")[0]
	out := succeed(t, tool(t, "systemd-analyze", "calendar", "--base-time=2026-11-21 14:00:00 UTC", spec))
	if !strings.Contains(out, "2026-11-21 14:17:00 UTC") {
		t.Errorf("OnCalendar=%s: %s", spec, out)
	}
	succeed(t, tool(t, "systemd-sysusers", "--root="+root, "docgauge.conf"))
	if users := read(t, root+"/etc/passwd"); !strings.HasPrefix(users, settings(t, services[0], "User")[0]+":") {
		t.Errorf("users:\n%s", users)
	}
}

// TestServicesAreConfinedAlike: the daemon and the single run differ only in what they run.
func TestServicesAreConfinedAlike(t *testing.T) {
	var parts []string
	for _, unit := range services {
		_, confined, _ := strings.Cut(read(t, "systemd/"+unit), "\nUser=")
		confined, _, _ = strings.Cut(confined, "\n[Install]")
		parts = append(parts, strings.TrimSpace(confined))
	}
	if parts[0] != parts[1] || parts[0] == "" {
		t.Errorf("%s:\n%s\n\n%s:\n%s", services[0], parts[0], services[1], parts[1])
	}
}

// TestInstallAgain: an existing configuration stays.
func TestInstallAgain(t *testing.T) {
	root := install(t, t.TempDir(), "/bin/true")
	file, mine := filepath.Join(root, "etc/docgauge/docgauge.env"), "DOCGAUGE_PROJECTS=prj_mine\n"
	write(t, file, mine, 0o600)
	if install(t, root, "/bin/true"); read(t, file) != mine {
		t.Error("install.sh replaced the configuration")
	}
}

// TestUnitsAreDocumented: the pages name every file that install.sh needs.
func TestUnitsAreDocumented(t *testing.T) {
	text := read(t, "../docs/cron.md") + read(t, "../docs/sidecar.md")
	for _, name := range append(services, "docgauge-export.timer", "install.sh", "docgauge.env") {
		if !strings.Contains(text, name) {
			t.Errorf("neither docs/cron.md nor docs/sidecar.md names %s", name)
		}
	}
}

// TestInstalled runs docgauge as install.sh puts it in place: with the environments
// of the units, and as the pages on cron and the daemon show it.
func TestInstalled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs docgauge")
	}
	root := install(t, t.TempDir(), engines.Docgauge(t))
	t.Run("environment", func(t *testing.T) { testEnvironment(t, root) })
	t.Run("documentation", func(t *testing.T) { testPages(t, root) })
}

// testEnvironment: docgauge understands what the units give it, and the settings
// that the example of a configuration has in comments.
func testEnvironment(t *testing.T, root string) {
	state, credentials := t.TempDir(), t.TempDir()
	write(t, filepath.Join(credentials, "api_key"), "adm_of-the-test\n", 0o600)
	for _, unit := range services {
		var env []string
		for _, m := range regexp.MustCompile(`(?m)^#?(DOCGAUGE_[A-Z_]+=.*)$`).FindAllStringSubmatch(read(t, "systemd/docgauge.env"), -1) {
			env = append(env, m[1])
		}
		for _, setting := range settings(t, unit, "Environment") {
			env = append(env, strings.NewReplacer("%d", credentials, "%S", state).Replace(setting))
		}
		argv := strings.Fields(settings(t, unit, "ExecStart")[0])
		docgauge := func(args ...string) *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), filepath.Join(root, argv[0]), args...)
			cmd.Env = env
			return cmd
		}
		succeed(t, docgauge("plan"))
		succeed(t, docgauge(append(argv[1:], "--help")...))
		// The default address may be in use on this machine.
		env = append(env, "DOCGAUGE_LISTEN_ADDRESS=127.0.0.1:"+strconv.Itoa(engines.FreePort(t)))
		if out, err := docgauge("healthcheck").CombinedOutput(); err == nil || err.Error() != "exit status 1" {
			t.Errorf("healthcheck of nothing: %v: %s", err, out)
		}
	}
}

// testPages runs the blocks of the pages in the directory and with the
// configuration that the first of them make; the line of a crontab without either,
// as cron does. The paths are those below root, and the service is a sandbox.
func testPages(t *testing.T, root string) {
	names := strings.NewReplacer("/etc/", root+"/etc/", "/var/lib/", root+"/var/lib/",
		"https://api.example.com", sandbox(t)["DOCGAUGE_BASE_URL"], "prj_a", "prj_sandbox",
		"http://pushgateway:9091", engines.RunPushgateway(t).URL, "sudo -u docgauge ", "")
	for _, dir := range []string{"var/lib/prometheus/node-exporter", "etc/docgauge/prompts"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{
		"PATH=" + filepath.Join(root, "usr/local/bin") + ":" + os.Getenv("PATH"), "HOME=" + root,
		"KEY=sbx_local-trial-key", "DOCGAUGE_LISTEN_ADDRESS=127.0.0.1:" + strconv.Itoa(engines.FreePort(t)),
	}
	crontab := regexp.MustCompile(`(?m)^[0-9*/]+ \S+ \S+ \S+ \S+  (.*)$`)
	for _, page := range []string{"../docs/cron.md", "../docs/sidecar.md"} {
		for _, b := range blocksOf(t, page) {
			if !strings.HasPrefix(b.mark, "executed: TestInstalled") {
				continue
			}
			script := "if [ -d /var/lib/docgauge ]; then set -a; . /etc/docgauge/docgauge.env; set +a; cd /var/lib/docgauge; fi\n" + b.text
			if b.language == "cron" {
				script = crontab.FindStringSubmatch(b.text)[1]
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", names.Replace(script))
			cmd.Dir, cmd.Env = root, env
			succeed(t, cmd)
		}
	}
	for _, path := range []string{
		"var/lib/docgauge/data/totals/v1/p=prj_sandbox", "var/lib/docgauge/export.log",
		"var/lib/docgauge/jobs.log", "var/lib/prometheus/node-exporter/docgauge.prom",
	} {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(filepath.Join(root, "etc/docgauge/api_key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v, want mode 0600", info, err)
	}
}
