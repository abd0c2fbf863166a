//go:build unix

package clickhouse

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
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
// kills itself while it commits a group of a report.
func TestCrashChild(t *testing.T) {
	dsn, _, at := sinktest.InChild(t)
	s := openSmall(t, dsn, analytics.AgentsReport)
	for _, report := range analytics.Reports {
		seen := map[string]int{}
		s.step = func(step string) {
			seen[step]++
			at(fmt.Sprintf("%s %d %s", step, seen[step], report))
		}
		for _, err := range replaceTogether(t, s, ofReport(report, groupOf(2, twoBlocks))) {
			check(t, err)
		}
	}
}

// TestCrash kills the process at each step of a commit.
func TestCrash(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		for i, at := range steps {
			report := turn(t, i)
			step := fmt.Sprintf("%s %d %s", at.name, at.nth, report)
			t.Run(step, func(t *testing.T) {
				t.Parallel()
				dsn := e.DSN(database(t, e))
				s, r := open(t, dsn, report), newReader(t, dsn)
				former := ofReport(report, groupOf(1, 10))
				for _, w := range former {
					replace(t, s, w)
				}
				if !sinktest.Killed(t, sinktest.Child(dsn, step, nil)) {
					t.Fatal("the child was not killed")
				}
				for _, w := range former {
					sees(t, r, w.Rev.Key, at.sees)
				}
				shows(t, open(t, dsn, report), r, windowOf(0, 3, 20).For(report))
				attemptsAreApart(t, s)
			})
		}
	})
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
							serverKilled(t, server, turn(t, i), at.name, at.nth, at.sees, atOnce)
						})
				}
			}
		})
	}
}

func serverKilled(
	t *testing.T, server killable, report analytics.Report, name string, nth int, want int32, atOnce bool,
) {
	dsn := server.DSN(database(t, server))
	s := openSmall(t, dsn, report)
	replace(t, s, windowOf(0, 1, 10).For(report))
	onStep(s, name, nth, func() {
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
		if atOnce {
			restart(t, server)
		}
	})
	err := s.Replace(t.Context(), windowOf(0, 2, twoBlocks).For(report))
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
	sees(t, r, windowOf(0, 1, 0).For(report).Rev.Key, want)
	w := windowOf(0, 3, 20).For(report)
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
