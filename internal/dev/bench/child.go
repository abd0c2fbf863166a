package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// roleVariable makes this program a child of the bench: a server, a plain or
// bare client, or what makes their data, with its arguments after the name.
const roleVariable = "BENCH_ROLE"

// The roles that serve: the API's pages, and metrics.
const (
	serverRole  = "server"
	metricsRole = "metrics"
)

// playRole runs the child's part, if this process is one.
func playRole() (is bool, err error) {
	args := os.Args[1:]
	switch role := os.Getenv(roleVariable); {
	case role == "":
		return false, nil
	case role == serverRole:
		return true, serve(os.Stdin, os.Stdout, newServer().handler())
	case role == metricsRole:
		return true, serve(os.Stdin, os.Stdout, metricsHandler())
	case role == "plain" && len(args) == 4:
		return true, plain(os.Stdout, args[0], args[1], args[2], args[3])
	case role == "seal" && len(args) == 3:
		return true, seal(args[0], args[1], args[2])
	case (role == bareClient || role == bareWindowsClient) && len(args) == 3:
		return true, bare(args[0], args[1], args[2], role == bareWindowsClient)
	}
	return true, fmt.Errorf("%s: not a role, or not its arguments: %q", roleVariable, args)
}

// self returns this program as a child in the given role.
func self(ctx context.Context, role string, args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(cleanEnv(), roleVariable+"="+role)
	return cmd, nil
}

// cleanEnv is the environment without what would configure docgauge.
func cleanEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "DOCGAUGE_") {
			env = append(env, kv)
		}
	}
	return env
}

// startChild starts a process that serves and returns its base URL. It ends with
// stop, or when this process ends.
func startChild(ctx context.Context, role string) (base string, stop func() error, err error) {
	cmd, err := self(ctx, role)
	if err != nil {
		return "", nil, err
	}
	cmd.Stderr = os.Stderr
	in, badIn := cmd.StdinPipe()
	out, badOut := cmd.StdoutPipe()
	if err := errors.Join(badIn, badOut); err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("bench %s: %w", role, err), stop())
	}
	return strings.TrimSpace(line), stop, nil
}

// cost is what one process took.
type cost struct {
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu_seconds"`
	// MaxRSS is in bytes. On Linux it begins at the resident size of the process
	// that starts the child, which is why the bench itself holds no data.
	MaxRSS int64 `json:"max_rss_bytes"`
}

// measure runs cmd to its end and returns its standard output.
func measure(cmd *exec.Cmd) (out []byte, c cost, err error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err = cmd.Run()
	c.Seconds = time.Since(start).Seconds()
	if err != nil {
		return nil, c, fmt.Errorf("%s: %w: %s%s", cmd.Path, err, stdout.Bytes(), stderr.Bytes())
	}
	c.CPUSeconds = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.MaxRSS = int64(used.Maxrss) * maxRSSUnit() //nolint:unconvert // an int32 on some systems
	}
	return stdout.Bytes(), c, nil
}

// maxRSSUnit is the unit in which the kernel counts ru_maxrss.
func maxRSSUnit() int64 {
	if runtime.GOOS == "darwin" {
		return 1
	}
	return 1 << 10
}
