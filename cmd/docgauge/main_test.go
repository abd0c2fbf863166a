package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestWatch: what hangs ends at a second signal, or stopLimit after the first.
func TestWatch(t *testing.T) {
	for repeated, want := range map[bool]time.Duration{true: time.Second, false: stopLimit} {
		synctest.Test(t, func(t *testing.T) {
			signals, ended := make(chan os.Signal, 2), make(chan time.Time)
			go watch(signals, func(string) { ended <- time.Now() })
			first := time.Now()
			signals <- os.Interrupt
			if repeated {
				time.Sleep(time.Second)
				signals <- os.Interrupt
			}
			if took := (<-ended).Sub(first); took != want {
				t.Errorf("second signal %v: ended after %v, want %v", repeated, took, want)
			}
		})
	}
}

// asMain makes the test binary run main instead of tests.
const asMain = "DOCGAUGE_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asMain) != "" {
		_ = os.Unsetenv(asMain) // it is no setting
		main()
	}
	os.Exit(m.Run())
}

// TestHelper: the helper of agent jobs begins, whatever the settings are.
func TestHelper(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "agent-helper", "reaper", "1000", "0", "/bin/sh", "sh", "-c",
		"echo run; exit 7")
	cmd.Env = []string{asMain + "=1", "DOCGAUGE_PROJECT=x", "DOCGAUGE_ENV_FILE=/missing"}
	if out, _ := cmd.CombinedOutput(); string(out) != "run\n" || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("exit code %d: %s", cmd.ProcessState.ExitCode(), out)
	}
}

// TestForeignLog: what net/http says about a connection, which quotes the service, is not on standard error.
func TestForeignLog(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for requests := bufio.NewReader(conn); ; {
					if _, err := http.ReadRequest(requests); err != nil {
						return
					}
					body := `{"totals":{"human":0,"ai":0,"total":0},"visitors":[],"hasMore":false}`
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s{\"more\":1}", len(body), body)
				}
			}()
		}
	}()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "export")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{asMain + "=1", "DOCGAUGE_BASE_URL=http://" + listener.Addr().String(), "DOCGAUGE_API_KEY=x_y",
		"DOCGAUGE_PROJECTS=prj_a", "DOCGAUGE_WINDOWS=day", "DOCGAUGE_LOG_FORMAT=json"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	_ = cmd.Run()
	for line := range strings.Lines(stderr.String()) {
		if !strings.HasPrefix(line, "{") {
			t.Fatalf("not JSON: %s", line)
		}
	}
}

// TestSecondSignal: a process whose read never returns exits with code 1 at the second signal.
func TestSecondSignal(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], "sandbox", "--agent-script", pipe)
	cmd.Env, cmd.Stderr = append(os.Environ(), asMain+"=1"), &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns once the process reads
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(out.String(), "ended before it was done: a second signal") {
		t.Errorf("%v: %s", err, &out)
	}
}
