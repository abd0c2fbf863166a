package deploy

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
	"syscall"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
)

var services = []string{"docgauge.service", "docgauge-export.service"}

const siteUnit = "docgauge-site.service"

// instance is one of docgauge@.service; perInstance writes a text of the other units as that unit has it.
const instance = "acme"

var perInstance = strings.NewReplacer("docgauge.env", "%i.env", "docgauge/key", "docgauge/%i.key",
	"StateDirectory=docgauge docgauge/state docgauge/data",
	"StateDirectory=docgauge-%i docgauge-%i/state docgauge-%i/data", "%S/docgauge", "%S/docgauge-%i")

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

// settings are the values of a name in a unit, in order.
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
	succeed(t, exec.Command("install", "-D", "/bin/true",
		filepath.Join(root, strings.Fields(settings(t, "docgauge.service", "ExecReload")[0])[0])))
	for _, unit := range append(services, siteUnit, "docgauge-export.timer", "docgauge@"+instance+".service") {
		if out := succeed(t, tool(t, "systemd-analyze", "verify", "--man=no", "--root="+root,
			unit)); strings.Contains(out, unit) {
			t.Errorf("systemd-analyze verify %s: %s", unit, out)
		}
	}
	for _, unit := range append(services, siteUnit) {
		// 15 is 1.5 of 10 for exposed; 0 is safe.
		succeed(t, tool(t, "systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=15",
			"--root="+root, unit))
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

// TestJobsUnderSystemd: the drop-in of the docs fits the unit, and takes back what keeps bubblewrap from
// working.
func TestJobsUnderSystemd(t *testing.T) {
	t.Parallel()
	_, dropIn, _ := strings.Cut(read(t, "../docs/site-jobs.md"), "```ini\n")
	dropIn, _, found := strings.Cut(dropIn, "```")
	if !found {
		t.Fatal("docs/site-jobs.md has no drop-in")
	}
	for _, name := range []string{"RestrictNamespaces", "ProtectKernelTunables", "ProtectKernelLogs",
		"MemoryDenyWriteExecute"} {
		if got := settings(t, siteUnit, name); got[0] != "yes" || !strings.Contains(dropIn, "\n"+name+"=no\n") {
			t.Errorf("%s is %q in the unit; drop-in:\n%s", name, got, dropIn)
		}
	}
	root := install(t, t.TempDir(), "/bin/true")
	succeed(t, exec.Command("cp", "-R", "/lib/systemd/system", filepath.Join(root, "etc/systemd")))
	dir := filepath.Join(root, "etc/systemd/system", siteUnit+".d")
	must(t, os.Mkdir(dir, 0o755))
	write(t, filepath.Join(dir, "jobs.conf"), dropIn, 0o644)
	if out := succeed(t, tool(t, "systemd-analyze", "verify", "--man=no", "--root="+root, siteUnit)); strings.Contains(out,
		siteUnit) {
		t.Errorf("systemd-analyze verify: %s", out)
	}
}

// TestServicesAreConfinedAlike: the daemon and the single run differ only in the command.
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
	if _, got, _ := strings.Cut(read(t, "systemd/docgauge@.service"), "\nUser="); !strings.HasPrefix(got,
		perInstance.Replace(parts[0])) {
		t.Errorf("docgauge@.service:\n%s\nwant\n%s", got, perInstance.Replace(parts[0]))
	}
	_, rules, _ := strings.Cut(parts[0], "\nUMask=")
	if got := read(t, "systemd/"+siteUnit); !strings.Contains(got, "\nUMask="+rules+"\n") {
		t.Errorf("%s:\n%s\nwant\nUMask=%s", siteUnit, got, rules)
	}
}

// TestTemplate: docgauge init knows the files that are installed, and replaces them.
func TestTemplate(t *testing.T) {
	for name, copied := range map[string]string{"docgauge.env": "template.env", "docgauge-site.env": "site.env"} {
		if read(t, "systemd/"+name) != read(t, "../internal/cli/setup/"+copied) {
			t.Errorf("internal/cli/setup/%s differs from deploy/systemd/%s: copy it", copied, name)
		}
	}
}

// TestInstallAgain: an existing configuration stays.
func TestInstallAgain(t *testing.T) {
	root := install(t, t.TempDir(), "/bin/true")
	for _, name := range []string{"docgauge.env", "site.env"} {
		file, mine := filepath.Join(root, "etc/docgauge", name), "DOCGAUGE_PROJECTS=prj_mine\n"
		write(t, file, mine, 0o600)
		if install(t, root, "/bin/true"); read(t, file) != mine {
			t.Errorf("install.sh replaced %s", name)
		}
	}
}

// TestInstalled runs docgauge as install.sh puts it in place: with the environments
// of the units, and as the pages on cron and the daemon show it.
func TestInstalled(t *testing.T) {
	t.Parallel()
	engines.Long(t)
	root := install(t, t.TempDir(), engines.Docgauge(t))
	t.Run("environment", func(t *testing.T) { testEnvironment(t, root) })
	t.Run("documentation", func(t *testing.T) { testPages(t, root) })
	t.Run("instances", func(t *testing.T) { testInstances(t, root) })
	t.Run("site", func(t *testing.T) { testSite(t, root) })
}

// testSite runs docgauge-site.service with its environment, and with all settings of its file.
func testSite(t *testing.T, root string) {
	state, log := t.TempDir(), filepath.Join(t.TempDir(), "access.log")
	write(t, log, "docs.example.com:443 192.0.2.1 - - [01/Oct/2026:10:00:00 +0000] "+
		`"GET /a HTTP/1.1" 200 9 "-" "Mozilla/5.0 Firefox/140.0"`+"\n", 0o640)
	file := filepath.Join(root, "etc/docgauge/site.env")
	all := regexp.MustCompile(`(?m)^#(DOCGAUGE_)`).ReplaceAllString(read(t, file), "$1")
	write(t, file, strings.NewReplacer("/var/log/nginx/access.log*", log).Replace(all)+
		"DOCGAUGE_SITE_LISTEN_ADDRESS=127.0.0.1:0\nDOCGAUGE_SITE_METRICS_ADDRESS=\n", 0o640)
	argv := strings.Fields(settings(t, siteUnit, "ExecStart")[0])
	site := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, argv[0]), args...)
		for _, setting := range settings(t, siteUnit, "Environment") {
			cmd.Env = append(cmd.Env, strings.NewReplacer("%S", state, "/etc/", root+"/etc/").Replace(setting))
		}
		return cmd
	}
	if out := succeed(t, site("site", "check")); !strings.Contains(out, "1 of 1 lines that were tried follow the format") {
		t.Errorf("site check:\n%s", out)
	}
	serve := site(argv[1:]...)
	var said strings.Builder
	serve.Stderr = &said
	must(t, serve.Start())
	err := testbed.Poll("a key of the site", func() (bool, error) {
		_, err := os.Stat(filepath.Join(state, "docgauge-site/site.db"))
		return err == nil, nil
	})
	if err == nil {
		succeed(t, site("site", "keys", "add", "--project", "prj_docs"))
	}
	if err := errors.Join(err, serve.Process.Signal(syscall.SIGTERM), serve.Wait()); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
}

// testInstances runs docgauge@.service twice at once, each with a separate environment and state.
func testInstances(t *testing.T, root string) {
	states, credentials := t.TempDir(), t.TempDir()
	write(t, filepath.Join(credentials, "key"), "adm_of-the-test\n", 0o400)
	argv := strings.Fields(settings(t, "docgauge@.service", "ExecStart")[0])
	for _, name := range []string{"one", "two"} {
		port := strconv.Itoa(engines.FreePort(t))
		write(t, filepath.Join(root, "etc/docgauge", name+".env"), "DOCGAUGE_BASE_URL=http://127.0.0.1:9\n"+
			"DOCGAUGE_PROJECTS=prj_"+name+"\nDOCGAUGE_LISTEN_ADDRESS=127.0.0.1:"+port+"\n", 0o640)
		var env []string
		for _, setting := range settings(t, "docgauge@.service", "Environment") {
			env = append(env, strings.NewReplacer("%i", name, "%d", credentials, "%S", states,
				"/etc/", root+"/etc/").Replace(setting))
		}
		serve := exec.CommandContext(t.Context(), filepath.Join(root, argv[0]), argv[1:]...)
		serve.Env = env
		var log strings.Builder
		serve.Stderr = &log
		must(t, serve.Start())
		defer func() {
			if err := errors.Join(serve.Process.Signal(os.Interrupt), serve.Wait()); err != nil {
				t.Errorf("%s: %v: %s", name, err, log.String())
			}
			if _, err := os.Stat(filepath.Join(states, "docgauge-"+name, "state/docgauge.db")); err != nil {
				t.Error(err)
			}
		}()
		err := testbed.Poll("docgauge of "+name, func() (bool, error) {
			check := exec.CommandContext(t.Context(), filepath.Join(root, argv[0]), "healthcheck")
			check.Env = env
			return check.Run() == nil, nil
		})
		if err != nil {
			t.Fatalf("%v: %s", err, log.String())
		}
	}
}

// testEnvironment: docgauge understands what the units give it, and the settings
// that the example of a configuration has in comments.
func testEnvironment(t *testing.T, root string) {
	state, credentials := t.TempDir(), t.TempDir()
	all := regexp.MustCompile(`(?m)^#(DOCGAUGE_)`).ReplaceAllString(read(t, root+"/etc/docgauge/docgauge.env"), "$1")
	write(t, root+"/etc/docgauge/docgauge.env", all, 0o640)
	write(t, filepath.Join(credentials, "key"), "adm_of-the-test\n", 0o400)
	for _, unit := range services {
		if got := settings(t, unit, "LoadCredential"); !slices.Equal(got, []string{"key:/etc/docgauge/key"}) {
			t.Errorf("%s: credentials %v", unit, got)
		}
		var env []string
		for _, setting := range settings(t, unit, "Environment") {
			env = append(env, strings.NewReplacer("%d", credentials, "%S", state, "/etc/",
				root+"/etc/").Replace(setting))
		}
		argv := strings.Fields(settings(t, unit, "ExecStart")[0])
		docgauge := func(args ...string) *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), filepath.Join(root, argv[0]), args...)
			cmd.Env = env
			return cmd
		}
		if out := succeed(t, docgauge("plan")); strings.Contains(out, "WARN") {
			t.Errorf("%s: %s", unit, out)
		}
		fromFile := regexp.MustCompile(`DOCGAUGE_SCHEDULE +17 \* \* \* \* +docgauge.env:\d+`)
		if out := succeed(t, docgauge("config")); !fromFile.MatchString(out) {
			t.Errorf("%s: %s", unit, out)
		}
		succeed(t, docgauge(append(argv[1:], "--help")...))
		// The default address may be in use on this machine.
		env = append(env, "DOCGAUGE_LISTEN_ADDRESS=127.0.0.1:"+strconv.Itoa(engines.FreePort(t)))
		if out, err := docgauge("healthcheck").CombinedOutput(); err == nil || err.Error() != "exit status 1" {
			t.Errorf("healthcheck of nothing: %v: %s", err, out)
		}
	}
}

// testPages runs the blocks of the pages, with the configuration that the first of them makes: the lines of a
// crontab, and commands for other users without any other variable. The paths are below root, and the service is a
// sandbox.
func testPages(t *testing.T, root string) {
	at := engines.Sandbox(t, engines.Docgauge(t))
	names := below(root, at["DOCGAUGE_BASE_URL"], "http://pushgateway:9091", engines.RunPushgateway(t).URL,
		"sudo -u docgauge ", "", "sudo ", "", " -g docgauge", "")
	for _, dir := range []string{"var/lib/prometheus/node-exporter", "etc/docgauge/prompts"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	env := []string{
		"PATH=" + filepath.Join(root, "usr/local/bin") + ":" + os.Getenv("PATH"), "HOME=" + root,
		"KEY=" + at["DOCGAUGE_API_KEY"], "DOCGAUGE_LISTEN_ADDRESS=127.0.0.1:" + strconv.Itoa(engines.FreePort(t)),
	}
	for _, page := range []string{"../docs/cron.md", "../docs/sidecar.md"} {
		for _, b := range blocksOf(t, page) {
			if !strings.HasPrefix(b.mark, "executed: TestInstalled") {
				continue
			}
			if file := "etc/docgauge/docgauge.env"; strings.Contains(b.text, "init --env-file /"+file) {
				write(t, filepath.Join(root, file), read(t, "systemd/docgauge.env"), 0o640) // as after the installation
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", names.Replace(b.text))
			cmd.Dir, cmd.Env = root, env
			switch {
			case b.language == "cron":
				cmd.Args[2] = crontab.FindStringSubmatch(names.Replace(b.text))[1]
				if strings.Contains(b.text, "%") {
					t.Errorf("cron ends the command at a %%: %s", b.text)
				}
				cmd.Env = []string{"HOME=" + root, "LOGNAME=docgauge", "SHELL=/bin/sh", "PATH=/usr/bin:/bin"}
			case strings.HasSuffix(page, "sidecar.md"):
				cmd.Env = append(env, "DOCGAUGE_ENV_FILE="+filepath.Join(root, "etc/docgauge/docgauge.env"))
			}
			if out := succeed(t, cmd); b.language == "cron" && out != "" {
				t.Errorf("cron would mail %s", out)
			}
		}
	}
	for _, path := range []string{"var/lib/docgauge/data/totals/v1/p=prj_sandbox",
		"var/lib/prometheus/node-exporter/docgauge.prom"} {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"key", "docgauge.env", "acme.key", "acme.env"} {
		info, err := os.Stat(filepath.Join(root, "etc/docgauge", name))
		if err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v, %v, want mode 0640", name, info, err)
		}
	}
}

// crontab finds the command of a line of a crontab.
var crontab = regexp.MustCompile(`(?m)^[0-9*/]+ \S+ \S+ \S+ \S+  (.*)$`)

// below moves the paths of the pages below root, and replaces their service with the service of a test.
func below(root, url string, more ...string) *strings.Replacer {
	for _, dir := range []string{"/etc/docgauge", "/var/lib/", "/usr/share/docgauge", "/usr/local/bin/"} {
		more = append(more, dir, root+dir)
	}
	return strings.NewReplacer(append(more, "https://api.example.com", url, "prj_a", "prj_sandbox")...)
}
