//go:build unix

package clickhouse

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/faults"
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
	s := openSmall(t, dsn, analytics.Reports...)
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
							dsn := server.DSN(database(t, server))
							s := openSmall(t, dsn, turn(t, i))
							faults.Killing{
								Kill: server.Kill, Restart: server.Restart, Sink: s, Report: turn(t, i), Rows: twoBlocks,
								On: func(f func()) { onStep(s, at.name, at.nth, f) }, Sees: at.sees, Fails: !atOnce, AtOnce: atOnce,
								Reader: func() sinktest.Reader {
									waitFor(t, server)
									return newReader(t, dsn)
								},
							}.Run(t)
							attemptsAreApart(t, s)
						})
				}
			}
		})
	}
}

// waitFor waits until the server answers queries.
func waitFor(t *testing.T, e engine) {
	t.Helper()
	sinktest.Eventually(t, "the server", func() bool {
		_, err := e.Exec(t.Context(), "SELECT 1")
		return err == nil
	})
}
