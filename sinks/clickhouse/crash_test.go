//go:build unix

package clickhouse

import (
	"strconv"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// steps are the points of a commit at which something dies, in order, and
// which revision readers see then.
var steps = []struct {
	name string
	nth  int
	sees int32
}{
	{"block sent", 1, 1}, {"block sent", 2, 1}, {"rows inserted", 1, 1}, {"rows verified", 1, 1},
	{"marker inserted", 1, 2},
}

// onStep calls f once, when a commit of s comes to a step for the nth time.
func onStep(s *Sink, name string, nth int, f func()) { s.step = sinktest.OnStep(name, nth, f) }

// TestCrashChild is not a test itself: TestCrash runs it as a process that
// kills itself while it commits a group.
func TestCrashChild(t *testing.T) {
	dsn, _, at := sinktest.InChild(t)
	s := openSmall(t, dsn)
	seen := map[string]int{}
	s.step = func(step string) {
		seen[step]++
		at(step + " " + strconv.Itoa(seen[step]))
	}
	for _, err := range replaceTogether(t, s, groupOf(2, twoBlocks)) {
		check(t, err)
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
					replace(t, s, w)
				}
				if !sinktest.Killed(t, sinktest.Child(dsn, at.name+" "+strconv.Itoa(at.nth), nil)) {
					t.Fatal("the child was not killed")
				}
				for _, w := range groupOf(1, 10) {
					sees(t, r, w.Rev.Key, at.sees)
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
	sees(t, r, w.Rev.Key, 3)
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
					t.Run(at.name+" "+strconv.Itoa(at.nth)+map[bool]string{true: " back at once"}[atOnce],
						func(t *testing.T) {
							serverKilled(t, server, at.name, at.nth, at.sees, atOnce)
						})
				}
			}
		})
	}
}

func serverKilled(t *testing.T, server killable, name string, nth int, want int32, atOnce bool) {
	dsn := server.DSN(database(t, server))
	s := openSmall(t, dsn)
	replace(t, s, windowOf(0, 1, 10))
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
		want = 2
	}
	if !atOnce && err == nil || atOnce && err != nil {
		t.Errorf("Replace = %v", err)
	}
	waitFor(t, server)
	r := newReader(t, dsn)
	sees(t, r, windowOf(0, 1, 0).Rev.Key, want)
	w := windowOf(0, 3, 20)
	if err := s.Replace(t.Context(), w); err != nil || r.shown(w.Rev.Key) != 3 {
		t.Errorf("the next Replace = %v, readers see revision %d", err, r.shown(w.Rev.Key))
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
