package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

var dist = flag.String("dist", "", "directory of a release that TestDist checks, as make release does")

// TestDist checks a release that was made: it installs, runs, upgrades and removes the
// package of this machine, runs its image, renders its chart, and looks into the rest.
func TestDist(t *testing.T) {
	if *dist == "" {
		t.Skip("checks a release: run make release")
	}
	sums := exec.Command("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	sums.Dir = *dist
	run(t, sums)
	images, err := filepath.Glob(*dist + "/docgauge_*_image.tar")
	if err != nil || len(images) != 1 {
		t.Fatal(images, err)
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(images[0]), "docgauge_"), "_image.tar")
	entries, err := os.ReadDir(*dist)
	if err != nil || len(entries) != 19 { // 5 archives and SBOMs, 4 packages, image, chart, 2 recipes, sums
		t.Errorf("%d files, %v", len(entries), err)
	}
	name := fmt.Sprintf("%s/docgauge_%s_linux_%s", *dist, version, runtime.GOARCH)
	t.Run("archives", func(t *testing.T) { checkArchives(t, version) })
	t.Run("deb", func(t *testing.T) { checkDeb(t, name+".deb") })
	t.Run("rpm", func(t *testing.T) { checkRPM(t, name+".rpm") })
	t.Run("chart", func(t *testing.T) { checkChart(t, fmt.Sprintf("%s/docgauge-%s.tgz", *dist, version), version) })
	t.Run("image", func(t *testing.T) { runImage(t, images[0]) })
}

// checkArchives: each has its program and the same other files, and nothing of this machine.
func checkArchives(t *testing.T, version string) {
	others := ""
	for _, system := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"} {
		list := run(t, exec.Command("tar", "--utc", "-tvzf",
			fmt.Sprintf("%s/docgauge_%s_%s.tar.gz", *dist, version, system)))
		list = strings.ReplaceAll(list, system, "SYSTEM")
		program := regexp.MustCompile(`(?m)^-rwxr-xr-x root/root .*/docgauge\n`).FindString(list)
		list = strings.Replace(list, program, "", 1)
		if others == "" {
			others = list
		}
		if program == "" || list != others || regexp.MustCompile(`\.go$|testdata|/tests/`).MatchString(list) {
			t.Errorf("%s has\n%s%s, others\n%s", system, program, list, others)
		}
	}
	for _, want := range []string{
		"/LICENSE", "/docs/prometheus.md", "/docs/images/report.png", "/man/man1/docgauge-jobs-resolve.1",
		"/mixin/mixin.libsonnet",
		"/dashboards/json/docgauge-readers.json", "/dashboards/import/docgauge-readers.json", "/completions/_docgauge",
		"/deploy/systemd/docgauge.service", "/deploy/prometheus/alerts.yaml", "/THIRD_PARTY_LICENSES",
	} {
		if !strings.Contains(others, want+"\n") {
			t.Errorf("the archives lack %s:\n%s", want, others)
		}
	}
}

// machine is a directory that stands for one: dpkg installs below it, with maintainer
// scripts that leave this machine alone, and programs are run in it.
type machine struct {
	root, bin string // bin has a systemctl that keeps a log
}

func newMachine(t *testing.T) machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to install files of other users and to run programs in another root directory")
	}
	m := machine{t.TempDir(), t.TempDir()}
	err := os.Chmod(m.root, 0o755)
	for _, dir := range []string{"tmp", "etc", "var/lib/dpkg/info", "var/lib/dpkg/updates", "run/systemd/system"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(m.root, dir), 0o755))
	}
	const status = "Package: systemd\nStatus: install ok installed\nVersion: 252\nArchitecture: %s\nMaintainer: " +
		"nobody\nDescription: there\n"
	stub := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>%s/log\n", m.bin)
	err = errors.Join(err, os.Chmod(m.root+"/tmp", 0o777|os.ModeSticky),
		os.WriteFile(m.bin+"/systemctl", []byte(stub), 0o755),
		os.WriteFile(m.root+"/var/lib/dpkg/status", fmt.Appendf(nil, status, runtime.GOARCH), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (m machine) write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(m.root, name), []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func (m machine) has(name string) bool {
	_, err := os.Lstat(filepath.Join(m.root, name))
	return err == nil
}

// dpkg runs dpkg for the machine and returns its output and the arguments of systemctl.
func (m machine) dpkg(t *testing.T, args ...string) (said, systemctl string) {
	t.Helper()
	cmd, err := engines.Tool(t.Context(), "dpkg",
		append([]string{"--root=" + m.root, "--force-script-chrootless", "--log=/dev/null"}, args...)...)
	engines.Need(t, err)
	cmd.Env = []string{"PATH=" + m.bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"DEBIAN_FRONTEND=noninteractive"}
	_ = os.Remove(m.bin + "/log")
	said = run(t, cmd)
	log, _ := os.ReadFile(m.bin + "/log") // absent if it was not called
	return said, string(log)
}

// command runs a program in the machine as a user.
func (m machine) command(uid, gid int, env []string, argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Path, cmd.Err, cmd.Dir, cmd.Env = argv[0], nil, "/", env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: m.root,
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return cmd
}

// user returns the ids of the services' user.
func (m machine) user(t *testing.T) (uid, gid int) {
	t.Helper()
	user := regexp.MustCompile(`(?m)^docgauge:[^:]*:([0-9]+):([0-9]+):`).FindStringSubmatch(read(t, m.root+"/etc/passwd"))
	if user == nil {
		t.Fatal("no user docgauge")
	}
	uid, _ = strconv.Atoi(user[1])
	gid, _ = strconv.Atoi(user[2])
	return uid, gid
}

// unit does what systemd does for a unit of the machine: it makes the directories,
// passes on the credentials, and starts the program with the environment and the user.
func (m machine) unit(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	template, instance, _ := strings.Cut(strings.TrimSuffix(name, ".service"), "@")
	if instance != "" {
		template += "@"
	}
	text := strings.ReplaceAll(read(t, m.root+"/usr/lib/systemd/system/"+template+".service"), "%i", instance)
	all := func(setting string) (found []string) {
		for _, s := range regexp.MustCompile(`(?m)^`+setting+`=(.*)$`).FindAllStringSubmatch(text, -1) {
			found = append(found, s[1])
		}
		return found
	}
	if user := all("User")[0]; user != "docgauge" {
		t.Fatalf("user %s", user)
	}
	uid, gid := m.user(t)
	credentials := "/run/credentials/" + name
	dirs := []string{credentials}
	for _, dir := range strings.Fields(all("StateDirectory")[0]) {
		dirs = append(dirs, "/var/lib/"+dir)
	}
	for _, dir := range dirs {
		dir = m.root + dir
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chown(dir, uid, gid), os.Chmod(dir, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	for _, credential := range all("LoadCredential") {
		id, from, _ := strings.Cut(credential, ":")
		to := credentials + "/" + id
		_ = os.Remove(m.root + to)
		m.write(t, to, read(t, m.root+from), 0o400)
		if err := os.Chown(m.root+to, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	var env []string
	for _, e := range all("Environment") {
		env = append(env, strings.NewReplacer("%d", credentials, "%S", "/var/lib").Replace(e))
	}
	return m.command(uid, gid, env, strings.Fields(all("ExecStart")[0])...)
}

// startDaemon starts docgauge serve and waits until its metrics have the wanted ones. The
// function that it returns waits for that again.
func startDaemon(t *testing.T, cmd *exec.Cmd, port int, wanted string) (await func(wanted string)) {
	t.Helper()
	log := new(bytes.Buffer)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("serve after SIGTERM: %v\n%s", err, log)
		}
	})
	await = func(wanted string) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			var text []byte
			response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
			if err == nil {
				text, err = io.ReadAll(response.Body)
				response.Body.Close()
			}
			if err == nil && regexp.MustCompile(wanted).Match(text) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("never %q: %s (%v)", wanted, text, err)
			}
		}
	}
	await(wanted)
	return await
}

// checkDeb is an operator: installs the package, edits the settings, exports, starts
// the daemon, reloads, upgrades below it, removes and purges.
func checkDeb(t *testing.T, deb string) {
	m := newMachine(t)
	said, log := m.dpkg(t, "--install", deb)
	if log != "daemon-reload\n" || !strings.Contains(said,
		"docgauge init --env-file /etc/docgauge/docgauge.env --api-key-file ") {
		t.Errorf("installing called systemctl %q, and said\n%s", log, said)
	}
	at, port := engines.Sandbox(t, m.root+"/usr/bin/docgauge"), engines.FreePort(t)
	const settings = "etc/docgauge/docgauge.env"
	edited := strings.NewReplacer("https://api.example.com", at["DOCGAUGE_BASE_URL"], "prj_a",
		at["DOCGAUGE_PROJECTS"]).Replace(read(t, m.root+"/"+settings)) +
		fmt.Sprintf("DOCGAUGE_BUDGET=0\nDOCGAUGE_SINCE=%s\nDOCGAUGE_LISTEN_ADDRESS=127.0.0.1:%d\n",
			time.Now().AddDate(0, 0, -3).UTC().Format(time.DateOnly), port)
	m.write(t, settings, edited, 0o640)
	uid, gid := m.user(t)
	secret := func(name, text string) { // as `install -m 0640 -g docgauge`
		m.write(t, "etc/docgauge/"+name, text, 0o640)
		if err := os.Chown(m.root+"/etc/docgauge/"+name, 0, gid); err != nil {
			t.Fatal(err)
		}
	}
	secret("key", at["DOCGAUGE_API_KEY"]+"\n")
	run(t, m.unit(t, "docgauge-export.service"))
	asService := func(args ...string) string { // as `sudo -u docgauge docgauge`
		return run(t, m.command(uid, gid, nil, append([]string{"/usr/bin/docgauge"}, args...)...))
	}
	out := asService("--env-file", "/"+settings, "status")
	if !regexp.MustCompile(`(?m)^day +[0-9]+ [A-Z]`).MatchString(out) {
		t.Errorf("status in a shell does not show the service's export:\n%s", out)
	}
	asService("--env-file", "/"+settings, "check")
	// A second organisation, whose daemon runs beside the first one.
	secret("acme.key", at["DOCGAUGE_API_KEY"]+"\n")
	secret("acme.env", read(t, m.root+"/usr/share/docgauge/docgauge.env"))
	out = run(t, m.command(0, 0, nil, "/usr/bin/docgauge", "init", "--env-file", "/etc/docgauge/acme.env", "--base-url",
		at["DOCGAUGE_BASE_URL"], "--projects", at["DOCGAUGE_PROJECTS"], "--api-key-file", "/etc/docgauge/acme.key"))
	if !strings.Contains(out, "enable --now docgauge@acme.service") {
		t.Errorf("init of a second organisation:\n%s", out)
	}
	second := engines.FreePort(t)
	secret("acme.env", read(t, m.root+"/etc/docgauge/acme.env")+
		fmt.Sprintf("DOCGAUGE_LISTEN_ADDRESS=127.0.0.1:%d\nDOCGAUGE_SCHEDULE=0 0 1 1 *\n", second))
	t.Run("serve", func(t *testing.T) {
		cmd := m.unit(t, "docgauge.service")
		await := startDaemon(t, cmd, port, `\ndocgauge_windows_committed_total`)
		startDaemon(t, m.unit(t, "docgauge@acme.service"), second, `\ndocgauge_build_info`)
		edited += "DOCGAUGE_API_KEY_EXPIRES=" + time.Now().AddDate(1, 0, 0).UTC().Format(time.DateOnly) + "\n"
		m.write(t, settings, edited, 0o640)
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil { // ExecReload
			t.Fatal(err)
		}
		await(`\ndocgauge_api_key_expiry_timestamp_seconds{`)
		if _, log = m.dpkg(t, "--force-confold", "--install",
			deb); log != "daemon-reload\ntry-restart docgauge-site.service docgauge.service docgauge@*.service\n" {
			t.Errorf("upgrading called systemctl %q", log)
		}
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid)); err != nil ||
			!strings.HasSuffix(exe, "(deleted)") {
			t.Errorf("serve runs %s, %v: the upgrade replaced no file", exe, err)
		}
	})
	m.checkInstalled(t, settings, edited)
	m.dpkg(t, "--remove", "docgauge")
	if m.has("usr/bin/docgauge") || !m.has(settings) {
		t.Error("removing left the program, or took the settings")
	}
	m.dpkg(t, "--purge", "docgauge")
	data, err := filepath.Glob(m.root + "/var/lib/docgauge/data/visitors/v1/*/*/*/*.parquet")
	if err != nil || len(data) == 0 || !m.has("var/lib/docgauge/state/docgauge.db") || m.has(settings) ||
		!m.has("etc/docgauge/key") || !m.has("var/lib/docgauge-acme/state/docgauge.db") {
		t.Errorf("%d Parquet files, %v: purging took data, ledger or key, or left the settings", len(data), err)
	}
}

// checkInstalled looks at what the package installed and kept.
func (m machine) checkInstalled(t *testing.T, settings, edited string) {
	t.Helper()
	info, err := os.Stat(m.root + "/" + settings)
	if err != nil {
		t.Fatal(err)
	}
	group := fmt.Sprintf(":%d:", info.Sys().(*syscall.Stat_t).Gid)
	if info.Mode() != 0o640 || !regexp.MustCompile(`(?m)^docgauge:.*`+group).MatchString(read(t, m.root+"/etc/group")) {
		t.Errorf("docgauge.env: %v of group %s", info.Mode(), group)
	}
	if read(t, m.root+"/"+settings) != edited {
		t.Error("the upgrade replaced the settings")
	}
	for _, name := range []string{
		"usr/share/man/man1/docgauge-export.1.gz", "usr/share/bash-completion/completions/docgauge",
		"usr/share/zsh/vendor-completions/_docgauge", "usr/share/fish/vendor_completions.d/docgauge.fish",
		"usr/share/doc/docgauge/copyright", "usr/share/doc/docgauge/changelog.Debian.gz",
		"usr/share/doc/docgauge/docs/prometheus.md",
		"usr/share/docgauge/prometheus/alerts.yaml", "usr/share/docgauge/dashboards/json/docgauge-readers.json",
		"usr/lib/systemd/system/docgauge-export.timer", "usr/lib/sysusers.d/docgauge.conf",
		"var/lib/docgauge", "var/lib/docgauge-site",
	} {
		if !m.has(name) {
			t.Errorf("no %s", name)
		}
	}
	if said, _ := m.dpkg(t, "--audit", "docgauge"); said != "" || m.has("usr/local") {
		t.Errorf("dpkg --audit: %s; /usr/local: %v", said, m.has("usr/local"))
	}
}

// checkRPM asks rpm what a package has.
func checkRPM(t *testing.T, file string) {
	rpm := func(args ...string) string {
		cmd, err := engines.Tool(t.Context(), "rpm",
			append([]string{"--dbpath", t.TempDir(), "-qp"}, append(args, file)...)...)
		engines.Need(t, err)
		return run(t, cmd)
	}
	all := rpm("--qf", "%{NAME} %{LICENSE} %{BUILDHOST}\n[%{FILENAMES} %{FILEMODES:perms} "+
		"%{FILEUSERNAME}:%{FILEGROUPNAME} %{FILEFLAGS:fflags}\n]") +
		rpm("--scripts") + rpm("--requires")
	for _, want := range []string{
		"docgauge Apache-2.0 docgauge\n", "/usr/bin/docgauge -rwxr-xr-x root:root ",
		"/etc/docgauge/docgauge.env -rw-r----- root:docgauge cn",
		"/etc/docgauge/site.env -rw-r----- root:docgauge cn",
		"/usr/lib/systemd/system/docgauge.service -rw-r--r-- root:root ",
		"/usr/lib/systemd/system/docgauge@.service -rw-r--r-- root:root ",
		"/usr/share/zsh/site-functions/_docgauge -rw-r--r-- root:root ",
		"\n/usr/bin/systemd-sysusers\n", "is left",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("the package lacks %q:\n%s", want, all)
		}
	}
}

// checkChart renders the chart.
func checkChart(t *testing.T, chart, version string) {
	helm, err := engines.Tool(t.Context(), "helm", "template", "acme", chart, "--kube-version", "1.31.0", "--set",
		"baseURL=https://api.example.com,projects={prj_a},secrets.existingSecret=acme,"+
			"metrics.rules.enabled=true,metrics.dashboards.enabled=true")
	engines.Need(t, err)
	rendered := run(t, helm)
	for _, want := range []string{"image: \"ghcr.io/docgauge/docgauge:" + version,
		"helm.sh/chart: docgauge-" + version, "alert: DocgaugeDown"} {
		if !strings.Contains(rendered, want) {
			t.Errorf("the chart renders no %s", want)
		}
	}
}

// runImage does what a container engine does: as the image's user and with its
// environment, below a root directory that has its files and nothing else.
func runImage(t *testing.T, file string) {
	m, dir := newMachine(t), t.TempDir()
	if err := errors.Join(os.RemoveAll(m.root), os.Mkdir(m.root, 0o755)); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	extract(t, archive, dir)
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	image := imageFor(t, taggedIndex(t, all), runtime.GOARCH)
	files := mutate.Extract(image)
	defer files.Close()
	extract(t, files, m.root)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	at, port := engines.Sandbox(t, m.root+"/docgauge"), engines.FreePort(t)
	env := append(c.Env, fmt.Sprintf("DOCGAUGE_LISTEN_ADDRESS=0.0.0.0:%d", port), "TZ=Asia/Kolkata",
		"DOCGAUGE_SINCE="+time.Now().AddDate(0, 0, -3).UTC().Format(time.DateOnly))
	for name, value := range at {
		env = append(env, name+"="+value)
	}
	inside := func(argv ...string) *exec.Cmd { return m.command(nonroot, nonroot, env, argv...) }
	argv := append(append(c.Entrypoint, c.Cmd...), "--once-at-start")
	startDaemon(t, inside(argv...), port, `\ndocgauge_windows_committed_total{[^}]*sink="parquet"`)
	run(t, inside(c.Healthcheck.Test[1:]...))
}
