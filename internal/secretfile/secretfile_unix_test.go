//go:build unix

package secretfile

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain reads one file in a process whose memory is bounded, where a test asks
// for that.
func TestMain(m *testing.M) {
	if path := os.Getenv("SECRETFILE_TEST_READ"); path != "" {
		if _, err := Read(path); err != nil {
			os.Stdout.WriteString("refused: " + err.Error())
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestEndless: an endless device uses up neither memory nor time.
func TestEndless(t *testing.T) {
	cmd := exec.Command("sh", "-c", `ulimit -v 4194304; exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), "SECRETFILE_TEST_READ=/dev/zero")
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "ThreadSanitizer") {
		t.Skip("the race detector wants more memory than this test allows")
	}
	text := string(out)
	if err != nil || !strings.HasPrefix(text, "refused: /dev/zero") || !strings.Contains(text, "is a device") {
		t.Errorf("%v: %.200s", err, text)
	}
}

// TestPipe: without a writer, a blocking open would never return.
func TestPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		refused(t, pipe, "is a named pipe", "regular file")
	}()
	select {
	case <-done:
		return
	case <-time.After(20 * time.Second):
		t.Error("it waits for a writer")
	}
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // let it end
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	<-done
}

// TestBecomesAPipe: a pipe that takes the place of a checked file is refused without a wait.
func TestBecomesAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readNow(pipe); err == nil || !strings.Contains(err.Error(), "is a named pipe") {
		t.Error(err)
	}
}

func TestSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") //nolint:usetesting // short enough for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	refused(t, filepath.Join(dir, "s"), "is a socket")
}
