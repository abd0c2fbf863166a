package engines

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hostVariable tells the test binary to be the host of TestEngineDiesWithItsHost.
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
}

func TestStopKillsWhatIgnoresIt(t *testing.T) {
	dir := t.TempDir()
	p := &process{name: "deaf", dir: dir, stopTimeout: 50 * time.Millisecond,
		argv: []string{"/bin/sh", "-c", "trap '' TERM; echo deaf >up; while :; do sleep 1; done"}}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	until(t, "it is deaf", func() bool { return tail(filepath.Join(dir, "up")) != "" })
	if err := p.Stop(); err != nil || alive(p.cmd.Process.Pid) {
		t.Errorf("Stop: %v, alive %v", err, alive(p.cmd.Process.Pid))
	}
}

func TestTakenPort(t *testing.T) {
	for name, start := range map[string]func(dir string, port int) (interface{ Restart() error }, error){
		"clickhouse": func(dir string, port int) (interface{ Restart() error }, error) {
			ports, err := freePorts(portsPerServer)
			ports[0] = port
			server, missing := newClickHouse(dir, ports)
			return server, errors.Join(err, missing)
		},
		"zookeeper": func(dir string, port int) (interface{ Restart() error }, error) { return newZooKeeper(dir, port) },
		"s3":        func(dir string, port int) (interface{ Restart() error }, error) { return newS3(dir, port) },
		"prometheus": func(dir string, port int) (interface{ Restart() error }, error) {
			return newPrometheus(dir, port, PrometheusConfig{})
		},
		"pushgateway":   func(dir string, port int) (interface{ Restart() error }, error) { return newPushgateway(dir, port) },
		"node_exporter": func(dir string, port int) (interface{ Restart() error }, error) { return newNodeExporter(dir, port) },
	} {
		t.Run(name, func(t *testing.T) {
			other, err := net.Listen("tcp4", loopback(0))
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			engine, err := start(t.TempDir(), other.Addr().(*net.TCPAddr).Port)
			Need(t, err)
			if err := engine.Restart(); !errors.Is(err, errPortTaken) {
				t.Errorf("start on a taken port: %v, want %v", err, errPortTaken)
			}
		})
	}
}

func TestWithPortsTriesOthers(t *testing.T) {
	seen := map[int]bool{}
	err := withPorts(2, func(ports []int) error {
		seen[ports[0]], seen[ports[1]] = true, true
		if len(seen) == 2 {
			return errPortTaken
		}
		return nil
	})
	if err != nil || len(seen) < 3 {
		t.Errorf("withPorts: %v after the ports %v, want others in a second try", err, seen)
	}
	tries := 0
	err = withPorts(1, func([]int) error { tries++; return errPortTaken })
	if !errors.Is(err, errPortTaken) || tries != portAttempts {
		t.Errorf("withPorts: %v after %d tries, want %v after %d", err, tries, errPortTaken, portAttempts)
	}
}

// TestPortsAreKept: what one process was given no other gets, be it of this
// package or one that asks the system for any port.
func TestPortsAreKept(t *testing.T) {
	ports, err := freePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	const lowest = 32_768 // of those that Linux hands out, unless it is told otherwise
	for _, port := range ports {
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

// alive says whether a process exists that has not ended. One that has ended
// stays until it is waited for, which the first process of a container may never do.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		_, state, _ := strings.Cut(string(stat), ") ")
		return !strings.HasPrefix(state, "Z")
	}
	return syscall.Kill(pid, 0) == nil
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(pollInterval) {
		if holds() {
			return
		}
	}
	t.Fatalf("waited in vain: %s", what)
}
