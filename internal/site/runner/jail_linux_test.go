package runner

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestJailKeeps: what a hostile command tries, and that it has come to nothing. A command tries a thing,
// and prints or writes what it got.
func TestJailKeeps(t *testing.T) {
	repo := engines.GitRepository(t)
	state := t.TempDir()
	jobs, other := filepath.Join(state, "worktrees"), filepath.Join(state, "worktrees", "job_other", "home")
	t.Setenv("MODEL_KEY", "sk-0123456789abcdef")
	t.Setenv("DOCGAUGE_SITE_TOKEN", "canary-push-token")
	t.Setenv("GITHUB_TOKEN", "canary-push-token")
	t.Setenv("SSH_AUTH_SOCK", filepath.Join(state, "agent.sock"))
	home := os.Getenv("HOME")
	write(t, filepath.Join(home, ".netrc"), "canary of the home")
	write(t, filepath.Join(other, "notes"), "canary of another job")
	write(t, filepath.Join(state, "keys"), "canary of the API")
	engines.Git(t, repo, "config", "remote.origin.url", "https://x:canary-push-token@example.com/")
	host, err := net.Listen("unix", filepath.Join(state, "host.sock"))
	check(t, err)
	defer host.Close()
	abstract, err := net.Listen("unix", fmt.Sprintf("@docgauge-test-%d", os.Getpid()))
	check(t, err)
	defer abstract.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(path.Clean(r.URL.Path)+"/", "/models/") {
			_, _ = io.WriteString(w, "canary of a service on this machine")
		}
	}))
	defer web.Close()
	gateway, err := ParseGateway(web.URL+"/models", "")
	check(t, err)
	webPort := web.URL[strings.LastIndex(web.URL, ":")+1:]
	jail := newJail(t, JailOptions{})
	before := untouched(t, repo)
	for name, try := range map[string]string{
		"the environment":      "env; cat /proc/*/environ | tr '\\0' '\\n'",
		"arguments":            "cat /proc/*/cmdline | tr '\\0' ' '",
		"processes of others":  "ls /proc | grep '^[0-9]' | wc -l | grep '...' && echo canary; kill -9 1; true",
		"keys of the API":      "cat " + state + "/keys; ls " + state,
		"another job":          "cat " + other + "/notes; ls " + jobs + " ../..",
		"the home of a person": "cat " + home + "/.netrc ~/.netrc; ls /root /home/*",
		"the repository":       "cat " + repo + "/.git/config; ls " + repo,
		"sockets":              "ls " + state + " /run /var/run; cat /proc/net/unix",
		"the disk":             "ls /mnt /srv /var /sys /boot; cat /etc/shadow /etc/ssl/private/*",
		"writing outside":      "touch /usr/leak /etc/leak /leak /dev/leak /run/leak; echo x >/proc/sysrq-trigger",
		"a service over HTTP":  "exec 3<>/dev/tcp/127.0.0.1/" + webPort + " && echo canary",
		"beside the gateway": "for at in / /../x /%2e%2e/x '/a/..;/x' " + web.URL + "/x; do exec 3<>/dev/tcp/127.0.0.1/4000; " +
			`printf "GET %s HTTP/1.0\r\n\r\n" $at >&3; cat <&3; done`,
		"names": "getent hosts example.com && echo canary",
		"more rights": "su -c 'echo canary'; unshare -Ur echo canary; mount -t tmpfs x /mnt && echo canary; " +
			"chroot / echo canary",
		"keeping memory":       "head -c 100000000 /dev/zero >/dev/shm/x && echo canary",
		"typing at a terminal": "tty && echo canary",
		"hooks and settings": "mkdir -p .git/hooks; printf '#!/bin/sh\\necho canary' >.git/hooks/pre-push; " +
			"git config core.pager canary",
		"history":              "git update-ref -d HEAD; rm -rf .git",
		"branches of others":   "git push -q . HEAD:refs/heads/main; git branch -f main",
		"files of other parts": "ls ..; cat ../index ../proxy.sock",
	} {
		t.Run(name, func(t *testing.T) {
			r := openRepo(t, RepoOptions{Path: repo, Jail: jail, Command: "exec 2>&1; bash <<'EOF'\n" + try + "\nEOF\ntrue",
				Env: variables("MODEL_KEY"), Gateway: gateway},
				in(filepath.Join(state, "jobs-of-"+strings.ReplaceAll(name, " ", "-"))))
			result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
			if err != nil || !result.Change.isEmpty() || strings.Contains(result.Output, "canary") {
				t.Errorf("%v, change %+v, output: %s", err, result.Change, result.Output)
			}
			for _, path := range []string{"/usr/leak", "/etc/leak", "/leak", "/run/leak"} {
				if _, err := os.Stat(path); err == nil {
					t.Errorf("%s is there", path)
				}
			}
			if after := untouched(t, repo); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

// init makes a command of the tests that makes the calls that a jail refuses.
func init() { //nolint:gochecknoinits // it runs before the tests would
	if os.Args[0] != "docgauge-calls" {
		return
	}
	for name, call := range map[string][4]uintptr{
		"keyctl":         {unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(2)}, // of the session
		"add_key":        {unix.SYS_ADD_KEY},
		"request_key":    {unix.SYS_REQUEST_KEY},
		"io_uring_setup": {unix.SYS_IO_URING_SETUP, 1},
		"AF_VSOCK":       {unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM},
	} {
		_, _, err := syscall.Syscall(call[0], call[1], call[2], call[3])
		fmt.Println(name, "reached the kernel:", err != unix.ENOSYS && err != unix.EAFNOSUPPORT, err)
	}
	err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	shown, getErr := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	fmt.Printf("shows its files: %d %v %v\n", shown, err, getErr)
	for _, family := range []int{unix.AF_UNIX, unix.AF_INET, unix.AF_NETLINK} {
		_, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
		fmt.Printf("family %d: %v\n", family, err)
	}
	_ = filepath.WalkDir("/proc", func(path string, d fs.DirEntry, err error) error {
		pid, notProcess := strconv.Atoi(filepath.Base(path))
		if err == nil && filepath.Dir(path) == "/proc" && notProcess == nil && pid != 1 {
			return fs.SkipDir // 1 is bubblewrap
		}
		if f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			fmt.Println("opened for writing:", path)
			_ = f.Close()
		}
		return nil
	})
	files, _ := filepath.Glob("/dev/*")
	for _, path := range append(files, "/proc/1/exe") {
		info, err := os.Stat(path)
		if err == nil && path != "/dev/ptmx" && (info.Mode()&fs.ModeCharDevice != 0 || info.Mode().IsRegular()) &&
			os.Chmod(path, info.Mode()) == nil {
			fmt.Println("opened for writing, by a new mode:", path)
		}
	}
	os.Exit(0)
}

// TestJailedCalls: system calls that no namespace confines do not reach the kernel, no file of /proc and /dev
// that is the machine's can be written or changed, nothing of the jail is in a command line or left open, there are
// no cores, and the jail is the first to end where memory ends.
func TestJailedCalls(t *testing.T) {
	self, err := os.Executable()
	check(t, err)
	r := openRepo(t, RepoOptions{Path: engines.GitRepository(t), Jail: newJail(t, JailOptions{
		Tools: []string{filepath.Dir(self)}, Hosts: []string{"example.com"}}),
		Command: "bash -c 'exec -a docgauge-calls " + self + "'; grep core /proc/self/limits; echo oom $(cat /proc/self/oom_score_adj); cat /proc/*/cmdline /proc/keys | tr '\\0' ' '; " +
			"ls /proc/self/fd"})
	result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
	out := result.Output
	if err != nil || strings.Contains(out, "opened for writing") ||
		strings.Count(out, "reached the kernel: false") != 5 || strings.Count(out, ": <nil>") != 3 ||
		strings.Contains(out, r.dir) || strings.Contains(out, "keyring") || !strings.Contains(out, "shows its files: 1 <nil> <nil>") || !strings.Contains(out, "oom 1000") ||
		!regexp.MustCompile(`core file size +[01] +[01] `).MatchString(out) || !strings.HasSuffix(out, "0\n1\n2\n3\n") {
		t.Errorf("%v, output %s", err, out)
	}
}

// TestJailLets: what an agent needs: its files, a home that stays for the next instruction, git, the
// variables that are named, and tools.
func TestJailLets(t *testing.T) {
	repo, tools := engines.GitRepository(t), t.TempDir()
	write(t, filepath.Join(tools, "tool"), "#!/bin/sh\necho tool\n")
	check(t, os.Chmod(filepath.Join(tools, "tool"), 0o755))
	t.Setenv("MODEL_KEY", "sk-0123456789abcdef")
	r := openRepo(t, RepoOptions{Path: repo, Jail: newJail(t, JailOptions{Tools: []string{tools}}),
		Env: variables("MODEL_KEY"), Check: `set -ex # what the agent left of its own is not here
			test -e new.md; test -z "$MODEL_KEY"; test -z "$(ls -A ~)"; test ! -e $TMPDIR/x
			test "$(git config left.by || echo none)" = none; git log --format=%s -1 | grep -qv own
			git status --porcelain | grep -q new.md`, Command: `set -e
			cat >>new.md; git config left.by agent; git log --format=%s -1
			echo session >>~/session; cat ~/session; ` + tools + `/tool; echo x >$TMPDIR/x; id -un; pwd
			test -n "$MODEL_KEY"; ls /etc/ssl/certs >/dev/null
			git add new.md; git -c user.name=x -c user.email=x@x commit -qm own`})
	var last Change
	for i, want := range []string{"session\n", "session\nsession\n"} {
		result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: fmt.Sprint("prompt ", i), Last: last})
		if err != nil || !strings.Contains(result.Output, want+"tool\nagent\n/workspace\n") {
			t.Fatalf("%v, output %s", err, result.Output)
		}
		last = result.Change
	}
	if got := strings.Join(last.Messages, ", "); got != "prompt 0, prompt 1" {
		t.Errorf("commits: %s", got)
	}
}

// TestJailedGit: no git outside the jail gets the files of an agent, whatever it does to keep docgauge from looking at
// them, and no filter of the machine or of the agent runs. Submodules stay what they were; what git cannot read
// fails the job.
func TestJailedGit(t *testing.T) {
	program, err := exec.LookPath("git")
	check(t, err)
	repo, outside := engines.GitRepository(t), t.TempDir()
	ran, seen := filepath.Join(outside, "ran"), filepath.Join(outside, "seen")
	theme := engines.Git(t, repo, "rev-parse", "HEAD")
	engines.Git(t, repo, "update-index", "--add", "--cacheinfo", "160000,"+theme+",themes/x")
	write(t, filepath.Join(repo, ".lfsconfig"), "[lfs]\n\turl = http://127.0.0.1:1/\n")
	write(t, filepath.Join(repo, ".gitattributes"), "*.bin filter=mark\n")
	write(t, filepath.Join(repo, "x.bin"), "pointer\n")
	engines.Git(t, repo, "add", ".lfsconfig", ".gitattributes", "x.bin")
	engines.Git(t, repo, "commit", "--quiet", "-m", "with a submodule and filtered files")
	write(t, filepath.Join(os.Getenv("HOME"), ".gitconfig"), "[filter \"mark\"]\n\tsmudge = \"touch "+ran+"; cat\"\n"+
		"\tclean = \"touch "+ran+"; cat\"\n\trequired = true\n")
	control := filepath.Join(outside, "control")
	engines.Git(t, ".", "clone", "--quiet", repo, control)
	write(t, filepath.Join(control, "new.bin"), "pointer\n")
	said, err := exec.Command(program, "-C", control, "add", ".").CombinedOutput()
	if err != nil || os.Remove(ran) != nil {
		t.Fatalf("a person's git does not run the filter: %v %s", err, said)
	}
	write(t, filepath.Join(outside, "git"), "#!/bin/sh\necho \"$PWD $GIT_WORK_TREE $*\" >>"+seen+"\nexec "+program+
		" \"$@\"\n")
	check(t, os.Chmod(filepath.Join(outside, "git"), 0o755))
	t.Setenv("PATH", outside+":"+os.Getenv("PATH"))
	jail := newJail(t, JailOptions{})
	const submodule = `cp -R .git themes/x/.git; cd themes/x; git config filter.mark.clean 'touch ` + "$RAN" + `; cat'
		git config core.bare false; git reset -q --hard HEAD~1; echo '* filter=mark' >.gitattributes
		printf '# Docs\n\nHullo.\n' >readme.md; touch -d 2001-01-01 readme.md; cd ../..; echo x >new.md; `
	const filtered, noJail = "echo '*.md filter=mark' >>.gitattributes; echo pointer >new.md", "filter without a jail"
	for name, tc := range map[string]struct{ command, err string }{
		"submodule":            {submodule, ""},
		"unreadable submodule": {submodule + "chmod 0300 themes/x", ""},
		"unreadable parent":    {submodule + "chmod 0300 themes", ""},
		"unreadable root":      {submodule + "chmod 0300 .", ""},
		"changed, unreadable":  {"mkdir a; echo x >a/b; chmod 0 a", ""},
		"file for a parent":    {"rm -r themes; echo x >themes", "themes/x"},
		"removed":              {"rm -r themes; echo x >new.md", ""},
		"submodule alone":      {"echo x >themes/x/new.css; exit", "changed only submodules (themes/x)"},
		"filter":               {filtered, ""},
		"filter of the base":   {"echo pointer 2 >x.bin; echo pointer >new.bin", ""},
		noJail:                 {filtered, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := openRepo(t, RepoOptions{Path: repo, Jail: jail,
				Command: strings.ReplaceAll(tc.command, "$RAN", ran) + "\ncat >>more.md"})
			if name == noJail {
				r.options.Jail = nil
			}
			result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("%v, want %q; output %s", err, tc.err, result.Output)
			}
			if err == nil {
				said := engines.Git(t, repo, "log", "-1", "--format=%B", result.Change.Head)
				if strings.Contains(said, "submodules (themes/x)") != strings.Contains(tc.command, "themes") {
					t.Errorf("the commit says: %s", said)
				}
				next, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x", Last: result.Change})
				if err != nil {
					t.Fatalf("follow-up: %v, output %s", err, next.Output)
				}
				if got := engines.Git(t, repo, "rev-parse", next.Change.Head+":themes/x"); got != theme {
					t.Errorf("the submodule is at %s, want %s", got, theme)
				}
				engines.Git(t, repo, "branch", "-D", "docgauge/job_1")
			}
			calls, err := os.ReadFile(seen)
			check(t, errors.Join(err, os.Remove(seen)))
			if strings.Contains(string(calls), "/tree") && name != noJail {
				t.Errorf("git outside the jail met the files of the job:\n%s", calls)
			}
			if os.Remove(ran) == nil {
				t.Error("a filter ran")
			}
		})
	}
}

// TestJailEnds: no process of a jailed command outlives it.
func TestJailEnds(t *testing.T) {
	jail := newJail(t, JailOptions{Hosts: []string{"example.com"}})
	for name, command := range map[string]string{
		"ends":      "setsid $LEFT & echo x >new.md",
		"times out": "echo x >new.md; setsid $LEFT & sleep 1000",
	} {
		marker := "docgauge-left-" + rand.Text() // in the arguments of the process that must not stay
		command = strings.ReplaceAll(command, "$LEFT", "sh -c 'sleep 1000; : "+marker+"'")
		r := openRepo(t, RepoOptions{Path: engines.GitRepository(t), Jail: jail, Command: command,
			Timeout: time.Second})
		began := time.Now()
		result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
		for result.Change.isEmpty() && r.options.Timeout < time.Minute {
			r.options.Timeout *= 2 // a busy machine did not come to the command in time
			result, err = r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
		}
		if err != nil || result.Change.isEmpty() {
			t.Errorf("%s: %v, output %s", name, err, result.Output)
		}
		stats, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, stat := range stats {
			if text, _ := os.ReadFile(stat); strings.Contains(string(text), r.dir) ||
				strings.Contains(string(text), marker) {
				t.Errorf("%s: still runs after %s: %q", name, time.Since(began), text)
			}
		}
	}
}

// TestJailedNetwork: the hosts that are named can be reached, through the proxy, and nothing else.
func TestJailedNetwork(t *testing.T) {
	repo := engines.GitRepository(t)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "reached")
	}))
	defer server.Close()
	u, err := url.Parse(server.URL)
	check(t, err)
	jail := newJail(t, JailOptions{Hosts: []string{"localhost:" + u.Port()}})
	for target, want := range map[string]string{
		"localhost:" + u.Port(): "200", "LOCALHOST.:" + u.Port(): "200", "127.0.0.1:" + u.Port(): "403",
		"localhost:1": "403", "example.com:443": "403", "[::1]:" + u.Port(): "403", "localhost": "403",
	} {
		command := `bash -c 'exec 3<>/dev/tcp/127.0.0.1/${https_proxy##*:}; printf "CONNECT ` + target +
			` HTTP/1.1\r\nHost: x\r\n\r\n" >&3; read -r line <&3; echo "$line"'; exit 3`
		r := openRepo(t, RepoOptions{Path: repo, Jail: jail, Command: command})
		result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
		if err == nil || !strings.HasPrefix(result.Output, "HTTP/1.1 "+want) ||
			strings.Contains(err.Error(), target) != (want == "403") {
			t.Errorf("%s: %v, output %q, want %s", target, err, result.Output, want)
		}
	}
	r := openRepo(t, RepoOptions{Path: repo, Jail: jail, Command: `bash -c 'exec 3<>/dev/tcp/127.0.0.1/${http_proxy##*:}
		printf "GET http://localhost:` + u.Port() + `/ HTTP/1.1\r\nHost: x\r\n\r\n" >&3; read -r line <&3; echo "$line"'`})
	if result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"}); err != nil ||
		!strings.HasPrefix(result.Output, "HTTP/1.1 405") {
		t.Errorf("plain HTTP: %v %q", err, result.Output)
	}
}

// TestJailedGateway: the agent reaches the gateway, and the check does not.
func TestJailedGateway(t *testing.T) {
	repo := engines.GitRepository(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintln(w, "reached "+r.URL.String())
	}))
	defer server.Close()
	gateway, err := ParseGateway(server.URL, "")
	check(t, err)
	const get = `bash -c 'exec 3<>/dev/tcp/127.0.0.1/4000; printf "GET /v1/models?x=1 HTTP/1.0\r\n\r\n" >&3; cat <&3'`
	r := openRepo(t, RepoOptions{Path: repo, Jail: newJail(t, JailOptions{}), Gateway: gateway,
		Command: "echo $AGENT_URL; " + get + " >new.md; cat new.md", Check: `[ -z "$AGENT_URL" ] && ! ` + get})
	result, err := r.Edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
	if err != nil || !strings.HasPrefix(result.Output, "http://127.0.0.1:4000\nHTTP/1.0 200") ||
		!strings.HasSuffix(result.Output, "reached /v1/models?x=1\n") {
		t.Errorf("%v, output %s", err, result.Output)
	}
	r = openRepo(t, RepoOptions{Path: repo, Gateway: gateway, Command: "echo $AGENT_URL"})
	if result, err := r.Edit(t.Context(), Task{Job: "job_2", Prompt: "x"}); err != nil || result.Output != server.URL+"\n" {
		t.Errorf("without a jail: %v, output %s", err, result.Output)
	}
}

// TestNoJail: without bubblewrap, or where it or git in it does not work, there is an error that says so.
func TestNoJail(t *testing.T) {
	newJail(t, JailOptions{}) // where it works
	program, err := exec.LookPath("bwrap")
	check(t, err)
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	options := JailOptions{Dir: filepath.Join(t.TempDir(), "jail"), Logger: slog.New(slog.DiscardHandler)}
	check(t, os.Symlink(program, filepath.Join(dir, "bwrap")))
	write(t, filepath.Join(dir, "git"), "#!/bin/sh\necho git version 2.39.5\n")
	check(t, os.Chmod(filepath.Join(dir, "git"), 0o755))
	if _, err := NewJail(t.Context(), options); err == nil || !strings.Contains(err.Error(), "AGENT_TOOLS") {
		t.Errorf("git outside /usr: %v", err)
	}
	options.Tools = []string{dir}
	if _, err := NewJail(t.Context(), options); err != nil {
		t.Errorf("git in a directory for tools: %v", err)
	}
	check(t, os.Remove(filepath.Join(dir, "bwrap")))
	if _, err := NewJail(t.Context(), options); err == nil || !strings.Contains(err.Error(), "install bubblewrap") {
		t.Errorf("none: %v", err)
	}
	for script, want := range map[string]string{
		"case $1 in --help) echo --disable-userns; exit 0;; esac; echo 'No permissions to create new namespace' >&2; exit 1": "No permissions",
		"case $1 in --help) echo --disable-userns; exit 0;; esac; echo open":                                                 "does not work here",
		"exit 1": "bubblewrap", "exit 0": "0.8 or newer",
	} {
		write(t, filepath.Join(dir, "bwrap"), "#!/bin/sh\n"+script+"\n")
		check(t, os.Chmod(filepath.Join(dir, "bwrap"), 0o755))
		if _, err := NewJail(t.Context(), options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
	}
}
