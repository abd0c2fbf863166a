package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// patience is how long something may take on a busy machine.
const patience = 2 * time.Minute

// machine is a directory that stands for one: dpkg installs below it, with
// maintainer scripts that leave this machine alone, and programs are run in it.
type machine struct {
	root, systemctl string // systemctl is the log of a program that stands for it
}

func newMachine(t *testing.T) machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to install files of other users and to run programs in another root directory")
	}
	m := machine{t.TempDir(), filepath.Join(t.TempDir(), "systemctl.log")}
	if err := os.Chmod(m.root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"tmp", "var/lib/dpkg/info", "var/lib/dpkg/updates", "run/systemd/system"} {
		if err := os.MkdirAll(filepath.Join(m.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(m.root, "tmp"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	m.write(t, "var/lib/dpkg/status", "Package: systemd\nStatus: install ok installed\nVersion: 252\nArchitecture: "+here.machine+"\nMaintainer: nobody\nDescription: there\n", 0o644)
	stub := fmt.Sprintf("#!/bin/sh\necho \"$*\" >>%s\n", m.systemctl)
	if err := os.WriteFile(filepath.Join(filepath.Dir(m.systemctl), "systemctl"), []byte(stub), 0o755); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m machine) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
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

// dpkg runs dpkg for the machine, and returns what it and systemctl were told.
func (m machine) dpkg(t *testing.T, args ...string) (said, systemctl string) {
	t.Helper()
	cmd, err := engines.Tool(t.Context(), "dpkg", append([]string{"--root=" + m.root, "--force-script-chrootless", "--log=/dev/null"}, args...)...)
	engines.Need(t, err)
	cmd.Env = []string{"PATH=" + filepath.Dir(m.systemctl) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive"}
	_ = os.Remove(m.systemctl)
	said = run(t, cmd)
	told, _ := os.ReadFile(m.systemctl) // absent if nothing was told
	return said, string(told)
}

// command runs a program in the machine as a user.
func (m machine) command(t *testing.T, uid, gid int, env []string, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Path, cmd.Err, cmd.Dir, cmd.Env = argv[0], nil, "/", env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: m.root, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return cmd
}

// user finds a user that was made in the machine.
func (m machine) user(t *testing.T, name string) (uid, gid int) {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + `:[^:]*:([0-9]+):([0-9]+):`).FindStringSubmatch(m.read(t, "etc/passwd"))
	if found == nil {
		t.Fatalf("no user %s", name)
	}
	uid, _ = strconv.Atoi(found[1])
	gid, _ = strconv.Atoi(found[2])
	return uid, gid
}

// unit does what systemd does for a unit of the machine: it makes the directories,
// passes on the credentials, and starts the program with the environment and the user.
func (m machine) unit(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	text := m.read(t, "usr/lib/systemd/system/"+name)
	all := func(setting string) (found []string) {
		for _, s := range regexp.MustCompile(`(?m)^`+setting+`=(.*)$`).FindAllStringSubmatch(text, -1) {
			found = append(found, s[1])
		}
		return found
	}
	uid, gid := m.user(t, all("User")[0])
	credentials := "/run/credentials/" + name
	dirs := []string{credentials}
	for _, dir := range strings.Fields(all("StateDirectory")[0]) {
		dirs = append(dirs, "/var/lib/"+dir)
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(m.root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chown(m.root+dir, uid, gid), os.Chmod(m.root+dir, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	for _, credential := range all("LoadCredential") {
		id, from, _ := strings.Cut(credential, ":")
		to := credentials + "/" + id
		_ = os.Remove(m.root + to)
		m.write(t, to, m.read(t, from), 0o400)
		if err := os.Chown(m.root+to, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	var env []string
	for _, e := range all("Environment") {
		env = append(env, strings.NewReplacer("%d", credentials, "%S", "/var/lib").Replace(e))
	}
	return m.command(t, uid, gid, env, strings.Fields(all("ExecStart")[0])...)
}

// daemon is docgauge serve on a machine.
type daemon struct {
	cmd *exec.Cmd
	url string
	log *bytes.Buffer
}

func startDaemon(t *testing.T, cmd *exec.Cmd, port int) *daemon {
	t.Helper()
	d := &daemon{cmd, fmt.Sprintf("http://127.0.0.1:%d", port), new(bytes.Buffer)}
	cmd.Stderr = d.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(d.log.String())
		}
	})
	d.await(t, "/healthz", "ok")
	return d
}

// await returns when a page has what is wanted.
func (d *daemon) await(t *testing.T, path, wanted string) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var text []byte
		response, err := http.Get(d.url + path)
		if err == nil {
			text, err = io.ReadAll(response.Body)
			response.Body.Close()
		}
		if err == nil && strings.Contains(string(text), wanted) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s never has %q: %s (%v)", path, wanted, text, err)
		}
	}
}

// scrape returns the samples of a metric.
func (d *daemon) scrape(t *testing.T, metric string) string {
	t.Helper()
	response, err := http.Get(d.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	found := regexp.MustCompile(`(?m)^`+metric+`[{ ].*$`).FindAllString(string(text), -1)
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s, %v, in\n%s", metric, err, text)
	}
	return strings.Join(found, "\n")
}

func (d *daemon) stop(t *testing.T) {
	t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("serve after SIGTERM: %v", err)
	}
}

// debOf makes the package of another version from an archive, without compiling: its
// settings have one more line.
func debOf(t *testing.T, root, version string, archive []byte) string {
	t.Helper()
	r := release{root: root, out: t.TempDir(), work: t.TempDir(), version: version, at: commitTime, log: t.Output()}
	p := part{target: here}
	for _, f := range unpack(t, archive) {
		_, name, _ := strings.Cut(f.Name, "/")
		if name == "deploy/systemd/docgauge.env" {
			f.data = append(f.data, "#DOCGAUGE_LOG_LEVEL=debug\n"...)
		}
		p.files = append(p.files, file{name: name, mode: f.Mode, data: f.data})
	}
	if err := r.packageOf(t.Context(), "deb", p); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(r.out, "*.deb"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	return found[0]
}

// checkDeb is an operator: installs the package, edits the settings, exports, starts
// the daemon, scrapes, reloads, upgrades below it, restarts, removes and purges.
func checkDeb(t *testing.T, root string, deb, archive []byte) {
	m := newMachine(t)
	file := filepath.Join(t.TempDir(), "docgauge.deb")
	if err := os.WriteFile(file, deb, 0o600); err != nil {
		t.Fatal(err)
	}
	said, told := m.dpkg(t, "--install", file)
	if told != "daemon-reload\n" || !strings.Contains(said, "edit /etc/docgauge/docgauge.env") {
		t.Errorf("installing told systemctl %q, and said\n%s", told, said)
	}
	m.checkFiles(t)

	// The settings.
	at, port := engines.Sandbox(t, filepath.Join(m.root, "usr/bin/docgauge")), engines.FreePort(t)
	const settings = "etc/docgauge/docgauge.env"
	edited := strings.NewReplacer("https://api.example.com", at["DOCGAUGE_BASE_URL"], "prj_a", at["DOCGAUGE_PROJECTS"]).Replace(m.read(t, settings)) +
		fmt.Sprintf("DOCGAUGE_BUDGET=0\nDOCGAUGE_SINCE=%s\nDOCGAUGE_LISTEN_ADDRESS=127.0.0.1:%d\n", time.Now().AddDate(0, 0, -3).UTC().Format(time.DateOnly), port)
	m.write(t, settings, edited, 0o640)
	m.write(t, "etc/docgauge/key", at["DOCGAUGE_API_KEY"]+"\n", 0o600)

	run(t, m.unit(t, "docgauge-export.service"))
	d := startDaemon(t, m.unit(t, "docgauge.service"), port)
	committed := d.scrape(t, "docgauge_windows_committed_total")

	// A reload takes the settings of the file.
	edited += "DOCGAUGE_API_KEY_EXPIRES=" + time.Now().AddDate(1, 0, 0).UTC().Format(time.DateOnly) + "\n"
	m.write(t, settings, edited, 0o640)
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil { // ExecReload
		t.Fatal(err)
	}
	d.await(t, "/metrics", "\ndocgauge_api_key_expiry_timestamp_seconds{")
	if got := d.scrape(t, "docgauge_config_last_reload_successful"); got != "docgauge_config_last_reload_successful 1" {
		t.Error(got)
	}

	// An upgrade does not disturb the process, the settings or the data.
	_, told = m.dpkg(t, "--force-confold", "--install", debOf(t, root, "v1.2.4", archive))
	if want := "daemon-reload\ntry-restart docgauge.service\n"; told != want {
		t.Errorf("upgrading told systemctl %q, want %q", told, want)
	}
	if now, _ := m.dpkg(t, "--status", "docgauge"); !strings.Contains(now, "\nVersion: 1.2.4-1\n") {
		t.Errorf("not upgraded:\n%s", now)
	}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", d.cmd.Process.Pid)); err != nil || !strings.HasSuffix(exe, "(deleted)") {
		t.Errorf("serve runs %s, %v: the upgrade replaced no file", exe, err)
	}
	if got := d.scrape(t, "docgauge_windows_committed_total"); got != committed {
		t.Errorf("below a running serve, the upgrade changed\n%s\nto\n%s", committed, got)
	}
	if m.read(t, settings) != edited || !m.has(settings+".dpkg-dist") {
		t.Error("the upgrade replaced the settings")
	}
	m.checkFiles(t)
	d.stop(t)
	d = startDaemon(t, m.unit(t, "docgauge.service"), port)
	if got := d.scrape(t, "docgauge_windows_committed_total"); got != committed {
		t.Errorf("after the restart\n%s\nwant\n%s", got, committed)
	}
	d.stop(t)
	m.checkRemoval(t)
}

// checkFiles looks at what the package installed.
func (m machine) checkFiles(t *testing.T) {
	t.Helper()
	_, gid := m.user(t, "docgauge")
	info, err := os.Stat(filepath.Join(m.root, "etc/docgauge/docgauge.env"))
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t); info.Mode() != 0o640 || int(owner.Gid) != gid || owner.Uid != 0 {
		t.Errorf("docgauge.env: %v of %d:%d, want 0640 of root and group %d", info.Mode(), owner.Uid, owner.Gid, gid)
	}
	for _, name := range []string{
		"usr/bin/docgauge", "usr/share/man/man1/docgauge-export.1.gz", "usr/share/bash-completion/completions/docgauge",
		"usr/share/zsh/vendor-completions/_docgauge", "usr/share/fish/vendor_completions.d/docgauge.fish",
		"usr/share/doc/docgauge/copyright", "usr/share/doc/docgauge/changelog.Debian.gz", "usr/share/doc/docgauge/THIRD_PARTY_LICENSES",
		"usr/share/docgauge/prometheus/alerts.yaml", "usr/share/docgauge/dashboards/json", "usr/lib/systemd/system/docgauge-export.timer",
		"usr/lib/sysusers.d/docgauge.conf", "var/lib/docgauge",
	} {
		if !m.has(name) {
			t.Errorf("no %s", name)
		}
	}
	if m.has("usr/local") {
		t.Error("a package installs nothing below /usr/local")
	}
	if said, _ := m.dpkg(t, "--audit", "docgauge"); said != "" {
		t.Errorf("dpkg --audit: %s", said)
	}
}

// checkRemoval: the program goes, settings go with a purge, and data stays.
func (m machine) checkRemoval(t *testing.T) {
	t.Helper()
	_, told := m.dpkg(t, "--remove", "docgauge")
	if want := "disable --now docgauge.service docgauge-export.timer docgauge-export.service\ndaemon-reload\n"; told != want {
		t.Errorf("removing told systemctl %q, want %q", told, want)
	}
	if m.has("usr/bin/docgauge") || !m.has("etc/docgauge/docgauge.env") {
		t.Error("removing left the program, or took the settings")
	}
	said, _ := m.dpkg(t, "--purge", "docgauge")
	if !strings.Contains(said, "/var/lib/docgauge is left") || m.has("etc/docgauge/docgauge.env") || !m.has("etc/docgauge/key") {
		t.Errorf("purging took the key, left the settings, or does not say what is left:\n%s", said)
	}
	data, err := filepath.Glob(filepath.Join(m.root, "var/lib/docgauge/data/visitors/v1/*/*/*/*.parquet"))
	if err != nil || len(data) == 0 || !m.has("var/lib/docgauge/state/docgauge.db") {
		t.Errorf("%d Parquet files, %v: removing took data or ledger", len(data), err)
	}
}

// checkRPM asks rpm what a package has.
func checkRPM(t *testing.T, data []byte) {
	file := filepath.Join(t.TempDir(), "docgauge.rpm")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	rpm := func(args ...string) string {
		cmd, err := engines.Tool(t.Context(), "rpm", append([]string{"--dbpath", t.TempDir(), "-qp"}, append(args, file)...)...)
		engines.Need(t, err)
		return run(t, cmd)
	}
	if got, want := rpm("--qf", "%{NAME} %{VERSION}-%{RELEASE} %{LICENSE} %{BUILDHOST} %{BUILDTIME}"),
		fmt.Sprintf("docgauge 1.2.3~rc.1-1 Apache-2.0 docgauge %d", commitTime.Unix()); !strings.HasSuffix(got, want) {
		t.Errorf("the package is %q, want %q", got, want)
	}
	files := strings.Split(rpm("--qf", "[%{FILENAMES} %{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILEFLAGS:fflags}\n]"), "\n")
	for _, want := range []string{
		"/usr/bin/docgauge -rwxr-xr-x root:root ", "/etc/docgauge/docgauge.env -rw-r----- root:docgauge cn",
		"/usr/lib/systemd/system/docgauge.service -rw-r--r-- root:root ", "/usr/share/zsh/site-functions/_docgauge -rw-r--r-- root:root ",
	} {
		if !slices.Contains(files, want) {
			t.Errorf("the package lacks %q:\n%s", want, strings.Join(files, "\n"))
		}
	}
	if scripts := rpm("--scripts"); !strings.Contains(scripts, "systemd-sysusers") || !strings.Contains(scripts, "is left") {
		t.Errorf("scripts:\n%s", scripts)
	}
	if needs := rpm("--requires"); !strings.Contains(needs, "/usr/bin/systemd-sysusers") {
		t.Errorf("requires:\n%s", needs)
	}
}
