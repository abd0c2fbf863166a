// Package git runs git: without questions to a person, without the configuration of the machine where that could name
// programs or proxies, and reaches remotes from repositories made for one call. It does not know what is committed.
package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	// Timeout is for one git command, longTimeout for one whose work grows with the history.
	Timeout     = 2 * time.Minute
	longTimeout = 30 * time.Minute
	// Grace is the time that git has to remove its lock files when it is stopped.
	Grace = 5 * time.Second
	// MaxMessage is the maximum length of git's messages in an error.
	MaxMessage = 500
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
	"-c", "log.showSignature=false", // it runs gpg.program, and its lines are among the output
	"-c", "core.filesRefLockTimeout=5000",
	"-c", "core.packedRefsTimeout=5000",
	"-c", "core.fsync=committed", // after a power cut the commits are there that the journal names; git 2.36
	"-c", "protocol.version=2",
	"-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=120", // a remote that stands still
	"-c", "maintenance.auto=false",
	"-c", "advice.addEmbeddedRepo=false",
	"--no-pager", "--literal-pathspecs",
}

// Ordinary are the names of the variables without secrets that every program may need;
// network are the names of those that git also needs to reach a remote.
var (
	Ordinary = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL",
		"LC_CTYPE", "TZ", "TERM", "TMPDIR",
		"XDG_CONFIG_HOME", "XDG_CACHE_HOME"}
	network = []string{"SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "HTTPS_PROXY",
		"no_proxy", "NO_PROXY"}
)

// Variables keep git from asking a person, and its messages in English.
var Variables = []string{"GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "SSH_ASKPASS_REQUIRE=never", "GCM_INTERACTIVE=never"}

// Clean returns the environment of a git in the repository dir without configuration of the machine and of its user.
func Clean(dir string) []string {
	return append([]string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_SYSTEM=" + os.DevNull, "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1", "GIT_DIR=" + dir},
		Variables...)
}

// TrustOwners writes a configuration for git with Clean, and returns the variable that names it: it may read the
// directories of other users that docgauge's settings name. The user's safe.directory does not reach it.
func TrustOwners(name string) (variable string, err error) {
	return "GIT_CONFIG_GLOBAL=" + name, os.WriteFile(name, []byte("[safe]\n\tdirectory = *\n"), 0o600)
}

// Environment returns the variables of this process with one of the names.
func Environment(names ...[]string) []string {
	wanted := slices.Concat(names...)
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return !slices.Contains(wanted, name)
	})
}

// Client runs the program git in Dir.
type Client struct {
	Program, Dir string
	Env          []string
	Lock         *os.File // stays locked until git has ended, should this process be killed; nil = none
}

// With returns g with more environment.
func (g Client) With(env ...string) Client {
	g.Env = slices.Concat(g.Env, env)
	return g
}

// Run returns what git printed, without the newline at its end.
func (g Client) Run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	err := g.Stream(ctx, &out, "", args...)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// Stream runs git with stdin and writes its output to out.
func (g Client) Stream(ctx context.Context, out io.Writer, stdin string, args ...string) error {
	return g.Pipe(ctx, out, strings.NewReader(stdin), args...)
}

// Pipe runs git from in to out.
func (g Client) Pipe(ctx context.Context, out io.Writer, in io.Reader, args ...string) error {
	command, timeout := commandOf(args)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, g.Program, slices.Concat(settings, args)...)
	messages := &Tail{Max: MaxMessage}
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = g.Dir, g.Env, in, out, messages
	cmd.SysProcAttr = attributes()
	if g.Lock != nil && runtime.GOOS != "windows" { // it gives programs no files
		cmd.ExtraFiles = []*os.File{g.Lock}
	}
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, Grace
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	case errors.Is(err, fs.ErrNotExist): // it names the program, even if the directory is missing
		if _, missing := os.Stat(cmp.Or(g.Dir, ".")); missing != nil {
			err = missing
		}
	}
	return Error{err, analytics.RedactUsers(strings.TrimSpace(messages.String())), command}
}

// commandOf returns the command after its options, and its timeout.
func commandOf(args []string) (command string, timeout time.Duration) {
	for i := 0; i < len(args) && command == ""; i++ {
		if args[i] == "-c" {
			i++ // its value
		} else if !strings.HasPrefix(args[i], "-") {
			command = args[i]
		}
	}
	switch command {
	case "fetch", "push", "log":
		return command, longTimeout
	}
	return command, Timeout
}

// AuthorName and AuthorEmail are the author and the committer of every commit that docgauge makes.
const (
	AuthorName  = "docgauge"
	AuthorEmail = "agent-jobs@docgauge.invalid"
)

// Commit makes a commit of a tree, which no branch has yet.
func (g Client) Commit(ctx context.Context, message, tree string, parents ...string) (commit string, err error) {
	args := []string{"commit-tree", "-F", "-"}
	for _, parent := range parents {
		args = append(args, "-p", parent)
	}
	author := g.With("GIT_AUTHOR_NAME="+AuthorName, "GIT_AUTHOR_EMAIL="+AuthorEmail,
		"GIT_COMMITTER_NAME="+AuthorName, "GIT_COMMITTER_EMAIL="+AuthorEmail)
	var out bytes.Buffer
	err = author.Stream(ctx, &out, message, append(args, tree)...)
	return strings.TrimSpace(out.String()), err
}

// Error is a git command that failed, with the end of what git said, without users and passwords of URLs.
type Error struct {
	error
	Message, command string
}

func (e Error) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("git %s: %v: %s", e.command, e.error, e.Message), ": ")
}
func (e Error) Unwrap() error { return e.error }

// ExitCode returns the exit code git ended with, -1 if it did not get that far.
func ExitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}

// Tail is a writer that takes everything and keeps the last Max bytes.
type Tail struct {
	Max int
	// Full is called when more than Limit bytes were written; nil = never.
	Limit int
	Full  func()

	mu      sync.Mutex
	kept    []byte
	cut     bool
	written int
}

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.written += len(p); t.Full != nil && t.written > t.Limit {
		t.Full()
	}
	t.kept = append(t.kept, p[max(0, len(p)-t.Max):]...)
	if n := len(t.kept) - t.Max; n > 0 || len(p) > t.Max {
		t.cut = true
		t.kept = append(t.kept[:0], t.kept[max(0, n):]...)
	}
	return len(p), nil
}

// String returns the end as valid UTF-8, with … if something is left out.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := strings.ToValidUTF8(string(t.kept), "�")
	if t.cut {
		return "…" + s
	}
	return s
}
