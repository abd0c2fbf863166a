//go:build unix

package postgres

import (
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// steps are the points of a commit at which something dies, and which revision readers
// see then.
var steps = []struct {
	name string
	sees int32
}{{"begun", 1}, {"rows sent", 1}, {"committed", 2}}

// TestCrashChild is not a test itself: TestCrash runs it as a process that kills
// itself while it commits a window of each report.
func TestCrashChild(t *testing.T) {
	dsn, _, at := sinktest.InChild(t)
	s := open(t, dsn, analytics.Reports...)
	for _, report := range analytics.Reports {
		s.step = func(step string) { at(step + " " + report.String()) }
		replace(t, s, seal(2, cutRows).For(report))
	}
}

// TestCrash kills the process at each step of a commit.
func TestCrash(t *testing.T) {
	t.Parallel()
	for i, version := range versions() {
		for j, at := range steps {
			report := analytics.Reports[(i+j)%len(analytics.Reports)]
			t.Run(version+" "+at.name+" "+report.String(), func(t *testing.T) {
				t.Parallel()
				dsn, r := made(t, serverOf(t, version))
				s := open(t, dsn, report)
				shows(t, s, r, seal(1, 10).For(report))
				if !sinktest.Killed(t, sinktest.Child(dsn, at.name+" "+report.String(), nil)) {
					t.Fatal("the child was not killed")
				}
				sees(t, r, seal(1, 0).For(report).Rev.Key, at.sees)
				shows(t, s, r, seal(3, 20).For(report))
			})
		}
	}
}

// TestServerKilled kills the server at each step of a commit, and starts it again after
// the sink gave up, or at once.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	for i, version := range versions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			server := engines.RunPostgres(t, version)
			for j, at := range steps {
				for name, atOnce := range map[string]bool{"": false, " back at once": true} {
					if atOnce && version != debian {
						continue // a restart takes long, and the steps after it do not depend on the version
					}
					report := analytics.Reports[(i+j)%len(analytics.Reports)]
					t.Run(at.name+name, func(t *testing.T) {
						dsn, r := made(t, server)
						s := open(t, dsn, report)
						faults.Killing{
							Kill: server.Kill, Restart: server.Restart, Sink: s, Report: report, Rows: cutRows,
							On: func(f func()) { onStep(s, at.name, f) }, Sees: at.sees,
							Fails: !atOnce && at.name != "committed", AtOnce: atOnce,
							Reader: func() sinktest.Reader {
								r.Reset()
								return r
							},
						}.Run(t)
					})
				}
			}
		})
	}
}
