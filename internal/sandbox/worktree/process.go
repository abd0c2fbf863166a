package worktree

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
)

// terminate asks a process to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// killGroup ends every process of the group p leads.
func killGroup(p *os.Process) error {
	err := syscall.Kill(-p.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// ordinary are the variables without secrets that every program may need;
// network are those git needs besides to reach a remote.
var (
	ordinary = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"}
	network  = []string{"SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "http_proxy", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"}
)

// environment returns the variables of this process with one of the names.
func environment(names ...[]string) []string {
	wanted := slices.Concat(names...)
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return !slices.Contains(wanted, name)
	})
}
