//go:build unix

package clickhouse

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

const (
	childDSN  = "CLICKHOUSE_TEST_DSN"
	childStep = "CLICKHOUSE_TEST_STEP"
)

// steps are the points of a commit at which something dies, in order, and
// which revision readers see then.
var steps = []struct {
	name string
	nth  int
	sees int32
}{
	{"block sent", 1, 1}, {"block sent", 2, 1}, {"rows inserted", 1, 1}, {"rows verified", 1, 1}, {"marker inserted", 1, 2},
}

// onStep calls f once, when a commit of s comes to a step for the nth time.
func onStep(s *Sink, name string, nth int, f func()) {
	seen := 0
	s.step = func(reached string) {
		if reached == name {
			if seen++; seen == nth {
				f()
			}
		}
	}
}

// TestCrashChild is not a test of its own: TestCrash runs it as a process that
// kills itself while it commits a group.
func TestCrashChild(t *testing.T) {
	dsn := os.Getenv(childDSN)
	if dsn == "" {
		t.Skip("run by TestCrash as a child process")
	}
	name, nth, _ := strings.Cut(os.Getenv(childStep), "/")
	n, _ := strconv.Atoi(nth)
	s := openSmall(t, dsn)
	onStep(s, name, n, func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	})
	for _, err := range replaceTogether(t, s, groupOf(2, twoBlocks)) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestCrash kills the process at each step of a commit.
func TestCrash(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		for _, at := range steps {
			t.Run(at.name+" "+strconv.Itoa(at.nth), func(t *testing.T) {
				t.Parallel()
				dsn := e.DSN(database(t, e))
				s, r := open(t, dsn), newReader(t, dsn)
				for _, w := range groupOf(1, 10) {
					if err := s.Replace(t.Context(), w); err != nil {
						t.Fatal(err)
					}
				}
				child := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
				child.Env = append(os.Environ(), childDSN+"="+dsn, childStep+"="+at.name+"/"+strconv.Itoa(at.nth))
				out, err := child.CombinedOutput()
				exit, ok := errors.AsType[*exec.ExitError](err)
				if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("child: %v\n%s", err, out)
				}
				for _, w := range groupOf(1, 10) {
					if got := r.shown(w.rev.Key); got != at.sees {
						t.Errorf("%s: readers see revision %d, want %d", w.rev.Key, got, at.sees)
					}
				}
				heals(t, dsn, r)
				attemptsAreApart(t, s)
			})
		}
	})
}

// heals expects a new process to commit the window as revision 3.
func heals(t *testing.T, dsn string, r reader) {
	t.Helper()
	w := windowOf(0, 3, 20)
	if err := open(t, dsn).Replace(t.Context(), w); err != nil {
		t.Errorf("the next Replace = %v", err)
	}
	if got := r.shown(w.rev.Key); got != 3 {
		t.Errorf("after the next Replace readers see revision %d", got)
	}
}

// killable is a server that a test may kill.
type killable interface {
	engine
	Kill() error
	Restart() error
}

// TestServerKilled kills the server at each step of a commit, and starts it
// again after the sink gave up, or at once.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) killable{
		"18.16": func(t *testing.T) killable { return engines.RunClickHouse(t) },
		"26":    func(t *testing.T) killable { return engines.RunEngine26(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			for i, at := range steps {
				for _, atOnce := range []bool{false, true} {
					if atOnce && i%2 == 1 {
						continue
					}
					t.Run(at.name+" "+strconv.Itoa(at.nth)+map[bool]string{true: " back at once"}[atOnce], func(t *testing.T) {
						serverKilled(t, server, at.name, at.nth, at.sees, atOnce)
					})
				}
			}
		})
	}
}

func serverKilled(t *testing.T, server killable, name string, nth int, sees int32, atOnce bool) {
	dsn := server.DSN(database(t, server))
	s := openSmall(t, dsn)
	if err := s.Replace(t.Context(), windowOf(0, 1, 10)); err != nil {
		t.Fatal(err)
	}
	onStep(s, name, nth, func() {
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
		if atOnce {
			restart(t, server)
		}
	})
	err := s.Replace(t.Context(), windowOf(0, 2, twoBlocks))
	s.step = nil
	if !atOnce {
		restart(t, server)
	}
	if err == nil {
		sees = 2
	}
	if !atOnce && err == nil || atOnce && err != nil {
		t.Errorf("Replace = %v", err)
	}
	waitFor(t, server)
	r := newReader(t, dsn)
	if got := r.shown(windowOf(0, 1, 0).rev.Key); got != sees {
		t.Errorf("readers see revision %d, want %d; Replace = %v", got, sees, err)
	}
	w := windowOf(0, 3, 20)
	if err := s.Replace(t.Context(), w); err != nil || r.shown(w.rev.Key) != 3 {
		t.Errorf("the next Replace = %v, readers see revision %d", err, r.shown(w.rev.Key))
	}
	attemptsAreApart(t, s)
}

func restart(t *testing.T, server killable) {
	t.Helper()
	if err := server.Restart(); err != nil {
		t.Error(err)
	}
}

// waitFor waits until the server answers queries.
func waitFor(t *testing.T, e engine) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err := e.Exec(t.Context(), "SELECT 1"); err == nil {
			return
		}
	}
	t.Fatal("the server does not come back")
}
