//go:build unix

package delta

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/s3test"
)

const (
	childWindow = "DELTA_TEST_WINDOW"
	childStep   = "DELTA_TEST_STEP"
)

// steps are the points at which Replace is killed. The second entry of visitors is that
// which removes the file of a former revision.
var steps = []string{
	"before visitors file", "after visitors file", "before totals file", "after totals file",
	"before visitors entry", "after visitors entry", "before totals entry", "after totals entry",
}

// TestCrashChild is not a test of its own: TestCrash runs it as a process that kills
// itself in Replace.
func TestCrashChild(t *testing.T) {
	root := os.Getenv(childRoot)
	if root == "" {
		t.Skip("run by TestCrash as a child process")
	}
	w, err := archive.Open(os.Getenv(childWindow))
	check(t, err)
	s := stepped(open(t, root), func(step string) {
		if step == os.Getenv(childStep) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	replace(t, s, w)
}

// killed runs Replace of w in a child process that dies at the step, and reports whether
// it came to it.
func killed(t *testing.T, url, step string, w *archive.File) bool {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
	child.Env = append(os.Environ(), childRoot+"="+url, childWindow+"="+w.Path(), childStep+"="+step)
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

// TestCrash kills a process at each step of Replace. Then each table shows one whole
// revision, and Revisions, or else the next Replace, heals.
func TestCrash(t *testing.T) {
	t.Run("directory", func(t *testing.T) {
		crashes(t, func(t *testing.T) (s *Sink, url, root string) {
			root = filepath.Join(t.TempDir(), "data")
			return open(t, root), root, root
		})
	})
	t.Run("bucket", func(t *testing.T) {
		s3test.Server(t)
		t.Setenv("TMPDIR", t.TempDir()) // what dies leaves its staging files
		crashes(t, func(t *testing.T) (s *Sink, url, root string) {
			name := s3test.NewBucket(t)
			url = s3test.URL(t, name, "")
			return open(t, url), url, filepath.Join(s3test.Dir(name), "docs", "gauge")
		})
	})
}

func crashes(t *testing.T, open func(t *testing.T) (s *Sink, url, root string)) {
	for name, tc := range map[string]struct {
		former, next *archive.File
		reached      int // how many of the steps next comes to
		healed       int // after how many of them Revisions has something to heal
	}{
		"first":                 {nil, seal(t, 2, 80), 8, 2},
		"over rows":             {seal(t, 1, 50), seal(t, 2, 80), 8, 2},
		"over totals only":      {sealTotals(t, 1), seal(t, 2, 80), 8, 2},
		"totals only over rows": {seal(t, 1, 50), sealTotals(t, 2), 6, 2},
	} {
		t.Run(name, func(t *testing.T) {
			reached, healed := 0, 0
			for _, step := range steps {
				s, url, root := open(t)
				if tc.former != nil {
					replace(t, s, tc.former)
				}
				if !killed(t, url, step, tc.next) {
					continue
				}
				reached++
				t.Run(step, func(t *testing.T) {
					former, next := revOf(tc.former), tc.next.Revision()
					left := whole(t, root, former, next)
					want := former
					if left[visitorsTable] == next.Number || left[totalsTable] == next.Number {
						want = next
					}
					if len(left) > 0 {
						before := entries(t, root)
						agreed(t, s, root, want)
						if entries(t, root) != before {
							healed++
						}
					}
					replace(t, s, tc.next)
					agreed(t, s, root, next)
				})
			}
			if reached != tc.reached || healed != tc.healed {
				t.Errorf("died at %d steps, healed after %d of them; want %d and %d", reached, healed, tc.reached, tc.healed)
			}
		})
	}
}

// entries counts the log entries of both tables, as text.
func entries(t *testing.T, root string) string {
	t.Helper()
	var all []int
	for _, table := range []string{visitorsTable, totalsTable} {
		version, _, err := replay(root, table)
		check(t, err)
		all = append(all, version+1)
	}
	return fmt.Sprint(all)
}
