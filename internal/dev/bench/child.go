package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// roleVariable makes this program a child process of the bench. Its argument is an order as JSON.
const roleVariable = "BENCH_ROLE"

// The roles that are not clients.
const (
	serverRole  = "server"
	checkRole   = "check"
	archiveRole = "archive"
	siteLogRole = "site log"
	siteSQLRole = "site SQL"
)

// roles are the tasks of children.
var roles = map[string]func(o order, out io.Writer) error{
	serverRole:      serve,
	checkRole:       check,
	archiveRole:     writeArchive,
	siteLogRole:     writeSiteLog,
	siteSQLRole:     countWithSQL,
	plainClient:     plain,
	goParquetClient: readIntoParquet,
	bareClient:      bare,
}

// order is the work of a child. Clients export the windows of Work, from First on, from Base
// into Dir. The server listens at Base.
type order struct {
	Base     string
	Work     workload
	InFlight int
	Dir      string
	First    time.Time

	Due      bool   // docgauge: export the due windows from First on, instead of the windows by their dates
	Again    bool   // docgauge: read windows again that an earlier run with the same dates has read
	Sink     string // bare: clickhouse or postgres; site SQL: a counter
	DSN      string // bare: load the archive in Dir here
	ByWindow bool   // bare: window by window, several at once
	Log      siteLog
}

// project is the id that makes the server serve Work: the server keeps no data.
func (o order) project() string {
	return fmt.Sprintf("%drows_%dms", o.Work.Rows, o.Work.ms())
}

// runChild plays the role of this process, if it has one.
func runChild() (isChild bool, err error) {
	name := os.Getenv(roleVariable)
	if name == "" {
		return false, nil
	}
	var o order
	role, ok := roles[name]
	if !ok || len(os.Args) != 2 {
		return true, fmt.Errorf("%s: unknown role %q, or wrong arguments", roleVariable, name)
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &o); err != nil {
		return true, err
	}
	return true, role(o, os.Stdout)
}

// child returns a command that runs this program in a role.
func child(ctx context.Context, role string, o order) (*exec.Cmd, error) {
	path, pathErr := os.Executable()
	text, err := json.Marshal(o)
	cmd := exec.CommandContext(ctx, path, string(text))
	cmd.Env = append(cleanEnv(), roleVariable+"="+role)
	return cmd, errors.Join(pathErr, err)
}

// cleanEnv is the environment without settings of docgauge.
func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "DOCGAUGE_") })
}

// startServer starts the server in a child. It ends with stop, or when this process ends.
func (l *lab) startServer(ctx context.Context) (stop func() error, err error) {
	port, err := engines.Port()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	l.server = "http://" + address
	cmd, err := child(ctx, serverRole, order{Base: address})
	if err != nil {
		return nil, err
	}
	server, err := engines.StartCommand(filepath.Join(l.dir, "server"), "server", cmd.Args, cmd.Env,
		func(context.Context) bool {
			_, err := countRequests(l.server)
			return err == nil
		})
	return server.Stop, err
}

// cost is the resource usage of one process.
type cost struct {
	seconds    float64
	cpuSeconds float64
	// maxRSS is in bytes. On Linux it starts at the resident size of the process that starts the child, which is
	// why the bench itself holds no data.
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
	return stdout.Bytes(), usedBy(cmd, c.seconds), nil
}

// usedBy is what a process that has ended has used.
func usedBy(cmd *exec.Cmd, seconds float64) (c cost) {
	c.seconds = seconds
	c.cpuSeconds = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.maxRSS = int64(used.Maxrss) //nolint:unconvert // an int32 on some systems
		if runtime.GOOS != "darwin" {
			c.maxRSS *= 1 << 10 // the others count in KiB
		}
	}
	return c
}

// median returns the element with the median duration.
func median[T any](all []T, seconds func(T) float64) T {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b T) int { return cmp.Compare(seconds(a), seconds(b)) })
	return sorted[len(sorted)/2]
}

// newDir makes a directory that stays until the end: a file system that has just removed many files creates new
// ones more slowly.
func (l *lab) newDir() (string, error) { return os.MkdirTemp(l.dir, "run-") }

// describeMachine returns the line above the tables: what the numbers depend on. Model and load are known on
// Linux only. The flush is one small durable write to the disk of dir; each window needs several.
func describeMachine(dir string) (string, error) {
	file, err := os.Create(filepath.Join(dir, "flush"))
	if err != nil {
		return "", err
	}
	var took []float64
	for range 21 {
		start := time.Now()
		_, err := file.Write(make([]byte, 4096))
		if err := errors.Join(err, file.Sync()); err != nil {
			return "", errors.Join(err, file.Close())
		}
		took = append(took, 1000*time.Since(start).Seconds())
	}
	parts := []string{runtime.GOOS + "/" + runtime.GOARCH, fmt.Sprintf("%d cores", runtime.GOMAXPROCS(0))}
	info, _ := os.ReadFile("/proc/cpuinfo")
	if _, rest, ok := strings.Cut(string(info), "model name"); ok {
		model, _, _ := strings.Cut(strings.TrimLeft(rest, "\t :"), "\n")
		parts = append(parts, model)
	}
	flush := median(took, func(ms float64) float64 { return ms })
	parts = append(parts, runtime.Version(), fmt.Sprintf("%.1f ms for a flush to disk", flush))
	load, _ := os.ReadFile("/proc/loadavg")
	if first, _, ok := strings.Cut(string(load), " "); ok {
		parts = append(parts, "load "+first)
	}
	return strings.Join(append(parts, time.Now().UTC().Format(time.RFC3339)), ", "), file.Close()
}
