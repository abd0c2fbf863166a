package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/docgauge/docgauge/internal/git"
)

// Jail confines commands with bubblewrap: they see the system's programs, the files of their job and
// nothing else of the machine, and reach the network only through our proxy. It says nothing about the
// time and the memory that they take.
type Jail struct {
	program, self string   // bubblewrap, and this program
	args          []string // the same for all commands
	filter        []byte   // of system calls
	hosts         []hostPattern
	options       JailOptions
}

// Places in a jail.
const (
	insideWork = "/workspace"
	insideHome = "/home/agent"
	insideGit  = "/git" // others see its objects alone
	// insideSelf is the path of this program in a jail, socket and gatewaySocket the paths of the proxy and of the
	// gateway outside.
	insideSelf    = "/run/docgauge"
	socket        = "/run/docgauge-proxy"
	gatewaySocket = "/run/docgauge-gateway"
)

// insideEtc are the files of a jail's /etc that are not the machine's.
var insideEtc = map[string]string{
	"passwd":        "agent:x:1000:1000::" + insideHome + ":/bin/sh\n",
	"group":         "agent:x:1000:\n",
	"hosts":         "127.0.0.1 localhost\n::1 localhost\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}

// systemEtc is what programs may read of the machine's /etc. /etc/ssl has private keys too.
var systemEtc = []string{"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem", "/etc/pki/tls/certs",
	"/etc/pki/ca-trust/extracted", "/etc/ca-certificates", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf",
	"/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types"}

const probeTimeout = 20 * time.Second

// NewJail returns a jail that was tried. The error says what is missing.
func NewJail(ctx context.Context, o JailOptions) (j *Jail, err error) {
	j = &Jail{options: o}
	if !isHelper {
		return nil, errNoHelper
	}
	if j.hosts, err = ParseHosts(o.Hosts); err != nil {
		return nil, err
	}
	if j.program, err = exec.LookPath("bwrap"); err != nil {
		return nil, fmt.Errorf("needs bubblewrap in PATH; install it (apt-get install bubblewrap): %w", err)
	}
	if j.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if j.filter, err = systemCalls(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	for name, text := range insideEtc {
		if err := os.WriteFile(filepath.Join(o.Dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	if err := j.arguments(ctx); err != nil {
		return nil, err
	}
	return j, j.probe(ctx)
}

// arguments makes the arguments that are the same for all commands.
func (j *Jail) arguments(ctx context.Context) error {
	help, err := exec.CommandContext(ctx, j.program, "--help").CombinedOutput()
	if err != nil {
		return fmt.Errorf("bubblewrap: %w", err)
	}
	if !strings.Contains(string(help), "--disable-userns") {
		return errors.New("needs bubblewrap 0.8 or newer")
	}
	j.args = []string{"--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--hostname", "docgauge",
		"--die-with-parent", "--new-session", "--cap-drop", "ALL", "--disable-userns"}
	add := func(args ...string) { j.args = append(j.args, args...) }
	add("--ro-bind", "/usr", "/usr")
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		info, err := os.Lstat(dir)
		switch {
		case err != nil:
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(dir)
			if err != nil {
				return err
			}
			add("--symlink", target, dir)
		default:
			add("--ro-bind", dir, dir)
		}
	}
	for name := range insideEtc {
		add("--ro-bind", filepath.Join(j.options.Dir, name), "/etc/"+name)
	}
	for _, path := range systemEtc {
		add("--ro-bind-try", path, path)
	}
	for _, dir := range j.options.Tools {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || !filepath.IsAbs(dir) || filepath.Clean(dir) == "/" {
			return fmt.Errorf("DOCGAUGE_SITE_AGENT_TOOLS %s: want the absolute path of a directory", dir)
		}
	}
	add("--proc", "/proc", "--dev", "/dev", "--size", "67108864", "--tmpfs", "/dev/shm", "--remount-ro", "/dev")
	return nil
}

// closeProc returns arguments that close what /proc has of the machine, and not of a process in the jail: the kernel
// lets root write there without capabilities, and so an agent of a docgauge that runs as root. What root alone may
// read is hidden, and so are the directories but for the settings of the kernel, which many programs read. Process 1
// is bubblewrap, whose /proc/1/exe is a way to the machine's file.
func closeProc() (args []string, err error) {
	const settings = "/proc/sys"
	hide := func(dir string) { args = append(args, "--tmpfs", dir, "--remount-ro", dir) }
	entries, err := os.ReadDir("/proc")
	for _, entry := range entries {
		path := "/proc/" + entry.Name()
		info, err := entry.Info()
		if _, notProcess := strconv.Atoi(entry.Name()); err != nil || notProcess == nil {
			continue // a process, or it has just gone
		}
		switch {
		case path == settings:
			args = append(args, "--ro-bind", path, path)
		case info.IsDir():
			hide(path)
		case info.Mode().IsRegular() && (info.Mode()&0o004 == 0 || entry.Name() == "keys"):
			args = append(args, "--ro-bind", "/dev/null", path)
		case info.Mode().IsRegular() && info.Mode()&0o222 != 0:
			args = append(args, "--ro-bind", path, path)
		}
	}
	const formats = settings + "/fs/binfmt_misc" // a file system of the machine, mounted when it is used
	if _, missing := os.Lstat(formats); missing == nil {
		hide(formats)
	}
	hide("/proc/1")
	return args, err
}

// confine makes cmd, the command of s before its start, run in the jail with the environment env.
// After it has ended, refused returns hosts that it asked for and may not reach, and end must be called.
func (j *Jail) confine(cmd *exec.Cmd, w *workplace, s step, env []string) (refused func() []string,
	end func(), err error) {
	closed, err := closeProc()
	if err != nil {
		return nil, nil, err
	}
	args := slices.Concat(j.args, closed)
	env = append(env, "USER=agent", "LOGNAME=agent", "SHELL=/bin/sh", "TMPDIR=/tmp", "PWD="+insideWork)
	if s.git {
		bind := "--bind"
		if s.readOnly {
			bind = "--ro-bind"
		}
		args = append(args, "--size", "16777216", "--tmpfs", "/tmp", "--bind", w.gitDir(), insideGit,
			bind, w.tree(), insideWork)
		env = append(append(env, git.Clean(insideGit)...), "GIT_WORK_TREE="+insideWork)
	} else {
		args = append(args, "--bind", w.tmp(), "/tmp", "--bind", s.home, insideHome, "--bind", w.tree(), insideWork,
			"--ro-bind-try", filepath.Join(w.gitDir(), "objects"), insideGit+"/objects") // of the start commit
		env = append(env, "HOME="+insideHome, "XDG_CONFIG_HOME="+insideHome+"/.config",
			"XDG_CACHE_HOME="+insideHome+"/.cache")
	}
	for _, dir := range j.options.Tools {
		args = append(args, "--ro-bind", dir, dir)
	}
	inside := cmd.Args
	refused, end = func() []string { return nil }, func() {}
	if (len(j.hosts) > 0 || s.gateway != nil) && !s.git {
		ln, err := listenIn(w.dir, proxyName)
		if err != nil {
			return nil, nil, err
		}
		p := serveProxy(ln, j.hosts, j.options.Logger)
		refused, end = p.refusedHosts, p.end
		args = append(args, "--ro-bind", j.self, insideSelf, "--bind", filepath.Join(w.dir, proxyName), socket)
		inside = append([]string{insideSelf, helperCommand, bridge}, inside...)
	}
	if s.gateway != nil {
		ln, err := listenIn(w.dir, gatewayName)
		var endGateway func()
		if err == nil {
			endGateway, err = s.gateway.serve(ln, j.options.Logger)
		}
		if err != nil {
			end()
			return nil, nil, err
		}
		endHosts := end
		end = func() {
			endGateway()
			endHosts()
		}
		args = append(args, "--bind", filepath.Join(w.dir, gatewayName), gatewaySocket)
		env = append(env, gatewayVariable+"=http://"+gatewayAddress)
	}
	args = append(args, "--remount-ro", "/", "--chdir", insideWork, "--seccomp", "4")
	// In files, so that the command line, which all users of the machine can read, has no paths of ours.
	var files []*os.File
	endProxy := end
	end = func() {
		endProxy()
		for _, f := range files {
			_ = f.Close()
		}
	}
	for _, text := range []string{strings.Join(args, "\x00"), string(j.filter)} {
		f, err := inMemory(text)
		if files = append(files, f); err != nil {
			end()
			return nil, nil, err
		}
	}
	cmd.ExtraFiles = files // 3 and 4
	cmd.Path, cmd.Args, cmd.Dir = j.program, append([]string{j.program, "--args", "3", "--"}, inside...), w.dir
	cmd.Env = env
	return refused, end, nil
}

// inMemory returns a file without a name, at its beginning.
func inMemory(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("docgauge", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "in memory") //nolint:gosec // it is not negative
	if _, err = f.WriteString(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return f, err
}

const (
	proxyName   = "proxy.sock"
	gatewayName = "gateway.sock"
)

// listenIn returns a listener on a socket in dir, whose path may be longer than a socket's.
func listenIn(dir, name string) (net.Listener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // it was only read
	_ = os.Remove(filepath.Join(dir, name))
	ln, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name))
	if err == nil {
		ln.(*net.UnixListener).SetUnlinkOnClose(false) // the path does not outlive d; clear removes the file
	}
	return ln, err
}

// probe runs commands in the jail.
func (j *Jail) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	dir, err := os.MkdirTemp(j.options.Dir, "probe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is empty
	w := &workplace{dir: dir}
	if err := w.make(true); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `: >here &&
		{ [ ! -e "$1" ] || { echo "$2"; exit 1; }; } && echo confined && git --version`, "sh",
		dir, "the files of docgauge's jobs are below /usr or DOCGAUGE_SITE_AGENT_TOOLS")
	_, end, err := j.confine(cmd, w, step{home: w.home()}, git.Environment(git.Ordinary))
	if err != nil {
		return err
	}
	defer end()
	out := &git.Tail{Max: git.MaxMessage}
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	said, confined := strings.CutPrefix(out.String(), "confined\n")
	switch failed := errors.Join(err, errors.New(strings.TrimSpace(said))); {
	case !confined:
		return fmt.Errorf("bubblewrap does not work here (it needs user namespaces, which many containers forbid): %w",
			failed)
	case err != nil:
		return fmt.Errorf("git does not run in the jail, which has only the programs of /usr; install git there, or name "+
			"the directories that it needs in DOCGAUGE_SITE_AGENT_TOOLS: %w", failed)
	}
	return nil
}

// runBridge runs a command in a jail that has a proxy at 127.0.0.1, and the gateway if there is one, and returns its
// exit code. What it leaves behind ends with the jail.
func runBridge(command []string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, "jail:", err)
		return 126
	}
	ln, err := bridgeTo(socket, "127.0.0.1:0")
	if err != nil {
		return fail(err)
	}
	if _, missing := os.Lstat(gatewaySocket); missing == nil {
		if _, err := bridgeTo(gatewaySocket, gatewayAddress); err != nil {
			return fail(err)
		}
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return fail(err)
	}
	url := "http://" + ln.Addr().String()
	cmd := &exec.Cmd{Path: program, Args: command, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	cmd.Env = append(os.Environ(), "https_proxy="+url, "HTTPS_PROXY="+url, "http_proxy="+url, "HTTP_PROXY="+url,
		"no_proxy=localhost,127.0.0.1,::1", "NO_PROXY=localhost,127.0.0.1,::1",
		"NODE_USE_ENV_PROXY=1") // Node reads the others only then
	err = cmd.Run()
	if cmd.ProcessState == nil {
		return fail(err)
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	return 137
}

// bridgeTo leads from an address in the jail to a socket.
func bridgeTo(socket, address string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close() //nolint:errcheck // the other side has gone
				if out, err := net.Dial("unix", socket); err == nil {
					defer out.Close() //nolint:errcheck // as above
					join(in, out)
				}
			}()
		}
	}()
	return ln, nil
}
