package engines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hostVariable makes the test binary the host of TestEngineDiesWithItsHost.
const hostVariable = "ENGINES_TEST_HOST"

func TestMain(m *testing.M) {
	if dir := os.Getenv(hostVariable); dir != "" {
		host(dir)
	}
	os.Exit(ShareChromium(m))
}

// host starts a server, writes its process id to the file "pid" and waits to be killed.
func host(dir string) {
	server, err := StartClickHouse(dir)
	if err != nil {
		os.Exit(1)
	}
	if err := os.WriteFile(filepath.Join(dir, "pid"), []byte(strconv.Itoa(server.cmd.Process.Pid)), 0o600); err != nil {
		os.Exit(1)
	}
	select {}
}

func TestEngineDiesWithItsHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no parent-death signal here")
	}
	_, err := program("clickhouse-server")
	Need(t, err)
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hostVariable+"="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	until(t, "the server runs", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "pid"))
		pid, _ = strconv.Atoi(string(text))
		return pid != 0
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	until(t, "the server is gone", func() bool { return !alive(pid) })
}

func TestEndLeavesNoProcess(t *testing.T) {
	server := RunClickHouse(t)
	for _, end := range []func() error{server.Kill, server.Stop} {
		pid := server.cmd.Process.Pid
		if err := errors.Join(end(), end()); err != nil {
			t.Error(err)
		}
		if alive(pid) {
			t.Errorf("process %d is still there", pid)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := server.Exec(t.Context(), "SELECT * FROM nowhere"); err == nil ||
		!strings.Contains(err.Error(), "nowhere doesn't exist") {
		t.Errorf("Exec: %v, want the server's message", err)
	}
	if err := server.Restart(); err == nil {
		t.Error("Restart of a running server: no error")
	}
}

func TestStopKillsWhatIgnoresIt(t *testing.T) {
	dir := t.TempDir()
	p := &process{name: "deaf", dir: dir, stopTimeout: 50 * time.Millisecond,
		argv: []string{"/bin/sh", "-c", "trap '' TERM; echo deaf >up; while :; do sleep 1; done"},
		ready: func(context.Context) bool {
			text, _ := os.ReadFile(filepath.Join(dir, "up"))
			return len(text) > 0
		}}
	if err := p.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil || alive(p.cmd.Process.Pid) {
		t.Errorf("Stop: %v, alive %v", err, alive(p.cmd.Process.Pid))
	}
}

// TestTakenPort: each engine notices that another program has its port.
func TestTakenPort(t *testing.T) {
	for name, prepare := range map[string]func(dir string, ports []int) (engine, error){
		"clickhouse": func(dir string, ports []int) (engine, error) {
			return newClickHouse(dir, append(ports, FreePort(t), FreePort(t)))
		},
		"zookeeper": func(dir string, ports []int) (engine, error) { return newZooKeeper(dir, ports) },
		"s3":        func(dir string, ports []int) (engine, error) { return newS3(dir, ports) },
		"postgres":  func(dir string, ports []int) (engine, error) { return newPostgres(dir, "15", ports, nil) },
		"prometheus": func(dir string, ports []int) (engine, error) {
			return newPrometheus(dir, ports, PrometheusConfig{})
		},
		"pushgateway":   func(dir string, ports []int) (engine, error) { return newPushgateway(dir, ports) },
		"node_exporter": func(dir string, ports []int) (engine, error) { return newNodeExporter(dir, ports) },
	} {
		t.Run(name, func(t *testing.T) {
			other, err := net.Listen("tcp4", loopback(0))
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			engine, err := prepare(t.TempDir(), []int{other.Addr().(*net.TCPAddr).Port})
			Need(t, err)
			if err := engine.Restart(); !errors.Is(err, errPortTaken) {
				t.Errorf("start on a taken port: %v, want %v", err, errPortTaken)
			}
		})
	}
}

// unlucky is an engine whose ports are taken in the first attempts.
type unlucky struct{ failures *int }

func (u *unlucky) Restart() error {
	if *u.failures--; *u.failures >= 0 {
		return errPortTaken
	}
	return nil
}
func (*unlucky) Kill() error  { return nil }
func (*unlucky) Tail() string { return "" }

func TestStartTriesOtherPorts(t *testing.T) {
	for failures, want := range map[int]error{0: nil, 1: nil, portAttempts - 1: nil, portAttempts: errPortTaken} {
		seen := map[int]bool{}
		left := failures
		_, err := start(t.TempDir(), 2, func(_ string, ports []int) (*unlucky, error) {
			seen[ports[0]], seen[ports[1]] = true, true
			return &unlucky{&left}, nil
		})
		if attempts := min(failures+1, portAttempts); !errors.Is(err, want) || len(seen) != 2*attempts {
			t.Errorf("%d failures: %v after the ports %v, want %v after %d attempts", failures, err, seen, want,
				attempts)
		}
	}
}

// TestPortsAreKept: a port that one process got is given to no other, neither by
// this package nor by the system.
func TestPortsAreKept(t *testing.T) {
	const lowest = 32_768 // of those that Linux hands out by default
	for range 20 {
		port := FreePort(t)
		if reserve(port) {
			t.Errorf("port %d was given and can be given again", port)
		}
		if port < firstPort || port >= lowest {
			t.Errorf("port %d may be handed out by the system", port)
		}
	}
}

func TestFailureShowsTheLog(t *testing.T) {
	_, err := StartClickHouse(t.TempDir(), WithConfig("<mark_cache_size>many</mark_cache_size>"))
	if errors.As(err, new(Missing)) {
		Need(t, err)
	}
	if err == nil || !strings.Contains(err.Error(), "mark_cache_size") && !strings.Contains(err.Error(), "many") {
		t.Errorf("StartClickHouse with a bad setting: %v, want the server's reason", err)
	}
}

func TestCommand(t *testing.T) {
	t.Setenv("GREETING", "old")
	c := run(t, func(dir string) (*Command, error) {
		return StartCommand(dir+"/new", "greeter", []string{"sh", "-c", "echo $GREETING; exec sleep 60"},
			[]string{"GREETING=hello"}, nil)
	})
	until(t, "it has greeted", func() bool {
		text, _ := os.ReadFile(c.Output())
		return string(text) == "hello\n"
	})
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	<-c.Ended()
}

func TestCommandThatEnds(t *testing.T) {
	_, err := StartCommand(t.TempDir(), "short", []string{"sh", "-c", "echo I cannot"}, nil,
		func(context.Context) bool { return false })
	if err == nil || !strings.Contains(err.Error(), "ended before it answered") ||
		!strings.Contains(err.Error(), "I cannot") {
		t.Errorf("%v, want that it ended and what it said", err)
	}
}

// verdict records how Need ended a test.
type verdict struct {
	testing.TB
	how, text string
}

func (*verdict) Helper()             {}
func (v *verdict) Skip(args ...any)  { v.how, v.text = "skip", fmt.Sprint(args...) }
func (v *verdict) Fatal(args ...any) { v.how, v.text = "fatal", fmt.Sprint(args...) }

func TestNeed(t *testing.T) {
	_, err := program("no-such-engine")
	missing := fmt.Errorf("start: %w", err)
	for _, tc := range []struct {
		err  error
		ci   string
		want string
	}{
		{nil, "", ""},
		{nil, "true", ""},
		{missing, "", "skip"},
		{missing, "true", "fatal"},
		{errors.New("broken"), "", "fatal"},
	} {
		t.Setenv("CI", tc.ci)
		var got verdict
		Need(&got, tc.err)
		if got.how != tc.want {
			t.Errorf("Need(%v) with CI=%q: %q, want %q", tc.err, tc.ci, got.how, tc.want)
		}
		if tc.want == "skip" && !strings.Contains(got.text, "no-such-engine is not installed: run make engines") {
			t.Errorf("Need: %q does not say what to install and how", got.text)
		}
	}
}

// TestLong: a long test is skipped if and only if the tests run with -short.
func TestLong(t *testing.T) {
	var got verdict
	Long(&got)
	if skipped := got.how == "skip"; skipped != testing.Short() {
		t.Errorf("skipped: %v, -short: %v", skipped, testing.Short())
	}
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(pollInterval) {
		if holds() {
			return
		}
	}
	t.Fatalf("waited too long until %s", what)
}
