package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	// gitTimeout is for one git command, a push included.
	gitTimeout = 2 * time.Minute
	// minGitTime is the least time that git has for the files of a job.
	minGitTime = 10 * time.Second
	// gitGrace is the time that git has to remove its lock files when it is stopped.
	gitGrace = 5 * time.Second
	// maxMessage is the maximum length of git's messages in an error.
	maxMessage = 500
)

// settings override the configuration of the repository and the user.
var settings = []string{
	"-c", "core.hooksPath=/dev/null",
	"-c", "core.fsmonitor=false",
	"-c", "core.askPass=",
	"-c", "core.editor=false",
	"-c", "commit.gpgSign=false",
	"-c", "commit.cleanup=whitespace",
	"-c", "push.gpgSign=false",
	"-c", "gc.auto=0",
	"-c", "core.sparseCheckout=false",
	"-c", "core.filesRefLockTimeout=5000",
	"-c", "core.packedRefsTimeout=5000",
	"-c", "core.fsync=committed", // after a power cut the commits are there that the journal names; git 2.36
	"-c", "protocol.version=2",
	"-c", "maintenance.auto=false",
	"-c", "advice.addEmbeddedRepo=false",
	"--no-pager", "--literal-pathspecs",
}

// ordinary are the variables without secrets that every program may need;
// network are those that git also needs to reach a remote.
var (
	ordinary = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL",
		"LC_CTYPE", "TZ", "TERM", "TMPDIR",
		"XDG_CONFIG_HOME", "XDG_CACHE_HOME"}
	network = []string{"SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "HTTPS_PROXY",
		"no_proxy", "NO_PROXY"}
)

// gitVariables keep git from asking a person, and its messages in English.
var gitVariables = []string{"GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "SSH_ASKPASS_REQUIRE=never", "GCM_INTERACTIVE=never"}

// cleanGit is the environment of a git in dir without configuration of the machine and of its user.
func cleanGit(dir string) []string {
	return append([]string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_SYSTEM=" + os.DevNull, "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1", "GIT_DIR=" + dir},
		gitVariables...)
}

// environment returns the variables of this process with one of the names.
func environment(names ...[]string) []string {
	wanted := slices.Concat(names...)
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return !slices.Contains(wanted, name)
	})
}

// git runs git in dir.
type git struct {
	program, dir string
	env          []string
	lock         *os.File // stays locked until git has ended, should this process be killed; nil = none
}

// with returns g with more environment.
func (g git) with(env ...string) git {
	g.env = slices.Concat(g.env, env)
	return g
}

// run returns what git printed, without the newline at its end.
func (g git) run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	err := g.stream(ctx, &out, "", args...)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// stream runs git with stdin and writes its output to out.
func (g git) stream(ctx context.Context, out io.Writer, stdin string, args ...string) error {
	return g.pipe(ctx, out, strings.NewReader(stdin), args...)
}

// pipe runs git from in to out.
func (g git) pipe(ctx context.Context, out io.Writer, in io.Reader, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, g.program, slices.Concat(settings, args)...)
	messages := &tail{max: maxMessage}
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = g.dir, g.env, in, out, messages
	cmd.SysProcAttr = gitAttributes()
	if g.lock != nil && runtime.GOOS != "windows" { // it gives programs no files
		cmd.ExtraFiles = []*os.File{g.lock}
	}
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, gitGrace
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	if len(args) > 2 && args[0] == "-c" {
		args = args[2:]
	}
	return gitError{err, analytics.RedactUsers(strings.TrimSpace(messages.String())), args[0]}
}

// gitError is a git command that failed and its message.
type gitError struct {
	error
	message, command string
}

func (e gitError) Error() string { return fmt.Sprintf("git %s: %v: %s", e.command, e.error, e.message) }
func (e gitError) Unwrap() error { return e.error }

// exitCode returns the exit code git ended with, -1 if it did not get that far.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}

// head is a writer that takes everything and keeps the beginning.
type head struct {
	max  int
	kept strings.Builder
	cut  bool
}

func (h *head) Write(p []byte) (int, error) {
	left := h.max - h.kept.Len()
	h.cut = h.cut || len(p) > left
	h.kept.Write(p[:min(left, len(p))])
	return len(p), nil
}

// String returns the beginning as valid UTF-8, cut at the end of a line.
func (h *head) String() string {
	s := strings.ToValidUTF8(h.kept.String(), "�")
	if !h.cut {
		return s
	}
	return s[:strings.LastIndexByte(s, '\n')+1] + "\\ The diff is longer than what is shown.\n"
}

// tail is a writer that takes everything and keeps the end.
type tail struct {
	max int
	// full is called once more than limit bytes were written; nil = never.
	limit int
	full  func()

	mu      sync.Mutex
	kept    []byte
	cut     bool
	written int
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.written += len(p); t.full != nil && t.written > t.limit {
		t.full()
	}
	t.kept = append(t.kept, p[max(0, len(p)-t.max):]...)
	if n := len(t.kept) - t.max; n > 0 || len(p) > t.max {
		t.cut = true
		t.kept = append(t.kept[:0], t.kept[max(0, n):]...)
	}
	return len(p), nil
}

// String returns the end as valid UTF-8, with … if something is left out.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := strings.ToValidUTF8(string(t.kept), "�")
	if t.cut {
		return "…" + s
	}
	return s
}
