package sinktest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/archive"
)

// Names of the variables that make a process a child of a test: where its sink is, the step at
// which it kills itself, and its window file.
const (
	ChildPlace  = "SINKTEST_PLACE"
	childStep   = "SINKTEST_STEP"
	childWindow = "SINKTEST_WINDOW"
)

// Child is TestCrashChild of this test binary as a process; w may be nil.
func Child(place, step string, w *archive.File) *exec.Cmd {
	child := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
	child.Env = append(os.Environ(), ChildPlace+"="+place, childStep+"="+step)
	if w != nil {
		child.Env = append(child.Env, childWindow+"="+w.Path())
	}
	return child
}

// InChild skips the test unless it is run by [Child]. It returns what Child was given, and a function that is called
// at each step, and kills the process at the step of Child.
func InChild(t *testing.T) (place string, w *archive.File, at func(step string)) {
	t.Helper()
	if place = os.Getenv(ChildPlace); place == "" {
		t.Skip("other tests run it as a child process")
	}
	if path := os.Getenv(childWindow); path != "" {
		var err error
		if w, err = archive.Open(path); err != nil {
			t.Fatal(err)
		}
	}
	return place, w, func(step string) {
		if step == os.Getenv(childStep) {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill()
			}
			select {}
		}
	}
}

// Killed runs a child, and reports whether it killed itself; otherwise it must end well.
func Killed(t *testing.T, child *exec.Cmd) bool {
	t.Helper()
	out, err := child.CombinedOutput()
	if err == nil {
		return false
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("child: %v\n%s", err, out)
	}
	return true
}

// OnStep returns a hook that calls f once, when a step is reached for the nth time.
func OnStep(name string, nth int, f func()) func(step string) {
	seen := 0
	return func(step string) {
		if step == name {
			if seen++; seen == nth {
				f()
			}
		}
	}
}

// DiskFull replaces a window while the disk at root is full, with 4 KiB more each time: until
// next fits, Replace is an error of the disk, and afterEach is called.
func DiskFull(t *testing.T, root string, replace func() error, afterEach func(first bool)) {
	t.Helper()
	ballast, err := os.Create(filepath.Join(root, "fill"))
	Check(t, err)
	defer ballast.Close()
	size := int64(0)
	for n := 0; err == nil; size += int64(n) {
		n, err = ballast.Write(make([]byte, 4096))
	}
	full := 0
	for err = replace(); err != nil; err = replace() {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		full++
		afterEach(full == 1)
		size -= 4096
		Check(t, ballast.Truncate(size))
	}
	if full == 0 {
		t.Error("the disk was never full")
	}
}

// testsAtOnce is the number of tests that run at the same time, on any machine: they share
// servers, and wait for them most of the time.
const testsAtOnce = "8"

// servers serve every test that stops none.
var servers struct {
	dir   string
	count atomic.Int64 // of names

	sync.Mutex
	stop []func() error
}

// Main is TestMain of a package whose tests share servers.
func Main(m *testing.M) int {
	if os.Getenv(ChildPlace) != "" { // it is killed, and would leave a directory behind
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "sinktest-")
	if err == nil {
		err = flag.Set("test.parallel", testsAtOnce)
	}
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	servers.dir = dir
	defer func() {
		for _, stop := range servers.stop {
			_ = stop()
		}
	}()
	return m.Run()
}

// Shared returns a function that returns a shared server, started at the first call in a
// new directory.
func Shared[S any](name string, start func(dir string) (S, error), stop func(S) error) func() (S, error) {
	return sync.OnceValues(func() (server S, err error) {
		dir := filepath.Join(servers.dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return server, err
		}
		if server, err = start(dir); err == nil {
			servers.Lock()
			defer servers.Unlock()
			servers.stop = append(servers.stop, func() error { return stop(server) })
		}
		return server, err
	})
}

// NewName returns a name that no other test on a shared server has.
func NewName() string { return fmt.Sprintf("t%d", servers.count.Add(1)) }

// Eventually waits until met returns true.
func Eventually(t testing.TB, what string, met func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if met() {
			return
		}
	}
	t.Fatalf("waited too long: %s", what)
}
