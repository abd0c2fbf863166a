package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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
	"github.com/docgauge/docgauge/internal/dev/must"
)

// roleVariable makes this program a child process of the bench. Its argument is an order as JSON.
const roleVariable = "BENCH_ROLE"

// The roles that are not clients.
const (
	serverRole  = "server"
	checkRole   = "check"
	siteLogRole = "site log"
	pushLogRole = "push log"
)

// roles are the tasks of children, which print what they return as JSON.
var roles = map[string]func(order) any{
	serverRole: func(o order) any {
		srv := &http.Server{Addr: o.Base, Handler: new(server).handler(), ReadHeaderTimeout: time.Minute}
		must.Do(srv.ListenAndServe()) // until the process is killed
		return nil
	},
	checkRole:         check,
	siteLogRole:       writeSiteLog,
	pushLogRole:       pushSiteLog,
	plainClient:       plain,
	goParquetClient:   readIntoParquet,
	bareClient:        func(o order) any { return bare(o, 1) },
	bareWindowsClient: func(o order) any { return bare(o, bareInFlight) },
	clickHouseClient:  countWithClickHouse,
}

// order is the work of a child. Clients export the windows of Work, from First on, from Base
// into Dir. The server listens at Base.
type order struct {
	Base     string
	Work     workload
	InFlight int
	Dir      string
	First    time.Time

	Due   bool   // docgauge: export the due windows from First on, instead of the windows by their dates
	Again bool   // docgauge: read windows again that an earlier run with the same dates has read
	DSN   string // bare: load the archive in Dir here
	Key   string // push log: of the source at Base
	Log   siteLog
}

// project is the id that makes the server serve Work: the server keeps no data.
func (o order) project() string {
	return fmt.Sprintf("%drows_%dms", o.Work.Rows, o.Work.Latency.Milliseconds())
}

// runChild plays the role of this process, if it has one.
func runChild() (isChild bool, err error) {
	name := os.Getenv(roleVariable)
	if name == "" {
		return false, nil
	}
	defer must.Catch(&err)
	var o order
	role, ok := roles[name]
	if !ok || len(os.Args) != 2 {
		return true, fmt.Errorf("%s: unknown role %q, or wrong arguments", roleVariable, name)
	}
	must.Do(json.Unmarshal([]byte(os.Args[1]), &o))
	if result := role(o); result != nil {
		must.Do(json.NewEncoder(os.Stdout).Encode(result))
	}
	return true, nil
}

// child returns a command that runs this program in a role.
func child(ctx context.Context, role string, o order) *exec.Cmd {
	cmd := exec.CommandContext(ctx, must.Get(os.Executable()), string(must.Get(json.Marshal(o))))
	cmd.Env = append(cleanEnv(), roleVariable+"="+role)
	return cmd
}

// cleanEnv is the environment without settings of docgauge.
func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "DOCGAUGE_") })
}

// docgauge returns a command of docgauge, or of the former one, that keeps its state and files in dir.
func (l *lab) docgauge(ctx context.Context, name, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, l.binaries[name], args...)
	cmd.Env = append(cleanEnv(), "DOCGAUGE_BASE_URL="+l.server, "DOCGAUGE_API_KEY="+benchKey, "DOCGAUGE_WINDOWS=day",
		"DOCGAUGE_OPEN_WINDOWS=", "DOCGAUGE_BUDGET=0", "DOCGAUGE_STATE_DIR="+filepath.Join(dir, "state"),
		"DOCGAUGE_PARQUET_URL="+filepath.Join(dir, "data"), "DOCGAUGE_LOG_LEVEL=error")
	return cmd
}

// startServer starts the server in a child. It ends with stop, or when this process ends.
func (l *lab) startServer(ctx context.Context) (stop func() error) {
	address := freeAddress()
	l.server = "http://" + address
	cmd := child(ctx, serverRole, order{Base: address})
	return must.Get(engines.StartCommand(filepath.Join(l.dir, "server"), "server", cmd.Args, cmd.Env,
		func(context.Context) bool { return isUp(l.server + "/requests") })).Stop
}

func freeAddress() string { return "127.0.0.1:" + strconv.Itoa(must.Get(engines.Port())) }

// measure runs cmd to its end and returns its standard output, and what it used.
func measure(cmd *exec.Cmd) (out []byte, v values) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	seconds := time.Since(start).Seconds()
	if err != nil {
		must.Do(fmt.Errorf("%s: %w: %s%s", cmd, err, stdout.Bytes(), stderr.Bytes()))
	}
	return stdout.Bytes(), usedBy(cmd, seconds)
}

// usedBy is what a process that has ended has used. On Linux its peak memory starts at the resident size of the
// process that started it, which is why the bench itself holds no data.
func usedBy(cmd *exec.Cmd, seconds float64) values {
	peak := float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
	if runtime.GOOS != "darwin" {
		peak *= 1 << 10 // the others count in KiB
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return values{"seconds": seconds, "CPU s": cpu.Seconds(), "peak RSS": peak / (1 << 20)}
}

// milliseconds does something many times and returns the median duration.
func milliseconds(times int, do func()) float64 {
	var took []float64
	for range times {
		start := time.Now()
		do()
		took = append(took, 1000*time.Since(start).Seconds())
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// newDir makes a directory that stays until the end: a file system that has just removed many files creates new
// ones more slowly.
func (l *lab) newDir() string { return must.Get(os.MkdirTemp(l.dir, "run-")) }

// describeMachine returns the line above the tables: the machine that the numbers depend on. Model and load are
// known on Linux only. The flush is one small durable write to the disk of dir; each window needs several.
func describeMachine(dir string) string {
	file := must.Get(os.Create(filepath.Join(dir, "flush")))
	defer file.Close()
	flush := milliseconds(21, func() {
		must.Get(file.Write(make([]byte, 4096)))
		must.Do(file.Sync())
	})
	parts := []string{runtime.GOOS + "/" + runtime.GOARCH, fmt.Sprintf("%d cores", runtime.GOMAXPROCS(0))}
	info, _ := os.ReadFile("/proc/cpuinfo")
	if _, rest, ok := strings.Cut(string(info), "model name"); ok {
		model, _, _ := strings.Cut(strings.TrimLeft(rest, "\t :"), "\n")
		parts = append(parts, model)
	}
	parts = append(parts, runtime.Version(), fmt.Sprintf("%.1f ms for a flush to disk", flush))
	load, _ := os.ReadFile("/proc/loadavg")
	if first, _, ok := strings.Cut(string(load), " "); ok {
		parts = append(parts, "load "+first)
	}
	return strings.Join(append(parts, time.Now().UTC().Format(time.RFC3339)), ", ")
}
