package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// roleVariable makes this program a child of the bench: a server, a client, or
// the one that writes the data of others. Its arguments follow the name.
const roleVariable = "BENCH_ROLE"

// The roles that serve, the API's pages and metrics, and the one that compares rows.
const (
	serverRole  = "server"
	metricsRole = "metrics"
	checkRole   = "check"
)

// runChild plays the role of this process, if it has one.
func runChild() (isChild bool, err error) {
	args := os.Args[1:]
	switch role := os.Getenv(roleVariable); {
	case role == "":
		return false, nil
	case role == serverRole:
		return true, serve(os.Stdin, os.Stdout, newServer().handler())
	case role == metricsRole:
		return true, serve(os.Stdin, os.Stdout, metricsHandler())
	case role == plainClient || role == goParquetClient:
		o, err := parseOrder(args)
		if err != nil {
			return true, err
		}
		if role == plainClient {
			return true, plain(os.Stdout, o)
		}
		return true, readIntoParquet(os.Stdout, o)
	case role == checkRole && len(args) == 4:
		return true, check(os.Stdout, args[0], args[1], args[2], args[3])
	case role == "archive" && len(args) == 3:
		return true, writeArchive(args[0], args[1], args[2])
	case (role == bareCopyRole || role == bareCopiesRole) && len(args) == 2:
		return true, bareCopy(args[0], args[1], role == bareCopiesRole)
	case (role == bareClient || role == bareWindowsClient) && len(args) == 3:
		return true, bare(args[0], args[1], args[2], role == bareWindowsClient)
	}
	return true, fmt.Errorf("%s: not a role, or wrong arguments: %q", roleVariable, args)
}

// child returns a command that runs this program in a role.
func child(ctx context.Context, role string, args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(cleanEnv(), roleVariable+"="+role)
	return cmd, nil
}

// cleanEnv is the environment without settings of docgauge.
func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "DOCGAUGE_") })
}

// startChild starts a child that serves and returns its base URL. It ends with
// stop, or when this process ends.
func startChild(ctx context.Context, role string) (base string, stop func() error, err error) {
	cmd, err := child(ctx, role)
	if err != nil {
		return "", nil, err
	}
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("bench %s: %w", role, err), stop())
	}
	return strings.TrimSpace(url), stop, nil
}

// cost is what one process used.
type cost struct {
	seconds    float64
	cpuSeconds float64
	// maxRSS is in bytes. On Linux it begins at the resident size of the process
	// that starts the child, which is why the bench itself holds no data.
	maxRSS int64
}

// measure runs cmd to its end and returns its standard output.
func measure(cmd *exec.Cmd) (out []byte, c cost, err error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err = cmd.Run()
	c.seconds = time.Since(start).Seconds()
	if err != nil {
		return nil, c, fmt.Errorf("%s: %w: %s%s", cmd.Path, err, stdout.Bytes(), stderr.Bytes())
	}
	c.cpuSeconds = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.maxRSS = int64(used.Maxrss) //nolint:unconvert // an int32 on some systems
		if runtime.GOOS != "darwin" {
			c.maxRSS *= 1 << 10 // the others count in KiB
		}
	}
	return stdout.Bytes(), c, nil
}

// median returns the element of median duration.
func median[T any](all []T, seconds func(T) float64) T {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b T) int { return cmp.Compare(seconds(a), seconds(b)) })
	return sorted[len(sorted)/2]
}

// inDir calls f with a new directory, which stays until the end: a file system that has just
// removed many files makes new ones more slowly, for whoever comes next.
func (l *lab) inDir(f func(dir string) error) error {
	dir, err := os.MkdirTemp(l.dir, "run-")
	if err != nil {
		return err
	}
	return f(dir)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

// describeMachine returns the line above the tables: what the numbers depend on.
// Model and load are known on Linux only. The flush is one small durable write
// to the disk of dir, of which each window needs several.
func describeMachine(dir string) (string, error) {
	file, err := os.Create(filepath.Join(dir, "flush"))
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	var took []float64
	for range 21 {
		start := time.Now()
		_, err := file.Write(make([]byte, 4096))
		if err := errors.Join(err, file.Sync()); err != nil {
			return "", errors.Join(err, file.Close())
		}
		took = append(took, time.Since(start).Seconds())
	}
	flush := median(took, func(s float64) float64 { return s })
	parts := []string{runtime.GOOS + "/" + runtime.GOARCH, fmt.Sprintf("%d cores", runtime.GOMAXPROCS(0))}
	info, _ := os.ReadFile("/proc/cpuinfo")
	if _, rest, ok := strings.Cut(string(info), "model name"); ok {
		_, rest, _ = strings.Cut(rest, ":")
		model, _, _ := strings.Cut(rest, "\n")
		parts = append(parts, strings.TrimSpace(model))
	}
	parts = append(parts, runtime.Version(), fmt.Sprintf("%.1f ms for a flush to disk", 1000*flush))
	load, _ := os.ReadFile("/proc/loadavg")
	if first, _, ok := strings.Cut(string(load), " "); ok {
		parts = append(parts, "load "+first)
	}
	return strings.Join(append(parts, time.Now().UTC().Format(time.RFC3339)), ", "), file.Close()
}
