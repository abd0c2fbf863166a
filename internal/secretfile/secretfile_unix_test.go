//go:build unix

package secretfile

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestBecomesAPipe: a pipe that takes the place of a checked file is refused without a wait.
func TestBecomesAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	check(t, syscall.Mkfifo(pipe, 0o600))
	if _, err := readNow(pipe); err == nil || !strings.Contains(err.Error(), "is a named pipe") {
		t.Error(err)
	}
}

func TestSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") //nolint:usetesting // short enough for a socket's path
	check(t, err)
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	check(t, err)
	defer l.Close()
	refused(t, filepath.Join(dir, "s"), "is a socket")
}
