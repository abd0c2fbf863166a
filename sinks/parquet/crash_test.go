//go:build unix

package parquet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/s3test"
	"github.com/docgauge/docgauge/internal/filestore"
)

const (
	childRoot   = "PARQUET_TEST_ROOT"
	childWindow = "PARQUET_TEST_WINDOW"
	childStep   = "PARQUET_TEST_STEP"
)

// steps are the points at which Replace is killed, in order.
var steps = []string{"copying", "before visitors", "after visitors", "before totals", "after totals", "after removal"}

// stepping is a tree that says which step Replace has come to.
type stepping struct {
	filestore.Store
	at func(step string)
}

func (s stepping) Publish(ctx context.Context, staged, name string) error {
	s.at("before " + tableOf(name))
	err := s.Store.Publish(ctx, staged, name)
	s.at("after " + tableOf(name))
	return err
}

func (s stepping) Remove(ctx context.Context, name string) error {
	s.at("before removal")
	err := s.Store.Remove(ctx, name)
	s.at("after removal")
	return err
}

// copying is a context that says when the second chunk of a file is copied.
type copying struct {
	context.Context
	asked int
	at    func(step string)
}

func (c *copying) Err() error {
	if c.asked++; c.asked == 2 {
		c.at("copying")
	}
	return c.Context.Err()
}

// TestCrashChild is not a test of its own: TestCrash runs it as a process that
// kills itself in Replace.
func TestCrashChild(t *testing.T) {
	root := os.Getenv(childRoot)
	if root == "" {
		t.Skip("run by TestCrash as a child process")
	}
	at := func(step string) {
		if step == os.Getenv(childStep) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	w, err := archive.Open(os.Getenv(childWindow))
	if err != nil {
		t.Fatal(err)
	}
	s := newSink(t, root)
	s.store = stepping{s.store, at}
	if err := s.Replace(&copying{Context: t.Context(), at: at}, w); err != nil {
		t.Fatal(err)
	}
}

// killed runs Replace of w in a child process that dies at the step, and
// reports whether it came to it.
func killed(t *testing.T, root, step string, w *archive.File) bool {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
	child.Env = append(os.Environ(), childRoot+"="+root, childWindow+"="+w.Path(), childStep+"="+step)
	out, err := child.CombinedOutput()
	if err == nil {
		return false
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("child: %v\n%s", err, out)
	}
	return true
}

// TestCrash kills a process at each step of Replace. Then readers see whole files, and
// Revisions, or else the next Replace, heals.
func TestCrash(t *testing.T) {
	t.Run("directory", func(t *testing.T) {
		crashes(t, func(t *testing.T) (*Sink, string) {
			root := filepath.Join(t.TempDir(), "data")
			return newSink(t, root), root
		})
	})
	t.Run("bucket", func(t *testing.T) {
		server := s3test.Server(t)
		t.Setenv("TMPDIR", t.TempDir()) // what dies leaves its staging files
		crashes(t, func(t *testing.T) (*Sink, string) {
			s, bucket := newBucketSink(t, "")
			return s, fmt.Sprintf("s3://%s/docs/gauge?endpoint=%s", bucket, server.Endpoint)
		})
	})
}

func crashes(t *testing.T, open func(t *testing.T) (s *Sink, root string)) {
	const long = 40_000 // rows whose file takes more than one chunk to copy
	for name, tc := range map[string]struct {
		former, next *archive.File
		reached      int // how many of the steps next comes to
	}{
		"first":                 {nil, seal(t, 2, long), 5},
		"over rows":             {seal(t, 1, 50), seal(t, 2, long), 5},
		"over totals only":      {sealTotals(t, 1), seal(t, 2, long), 5},
		"totals only over rows": {seal(t, 1, 50), sealTotals(t, 2), 3},
	} {
		t.Run(name, func(t *testing.T) {
			reached := 0
			for _, step := range steps {
				s, root := open(t)
				if tc.former != nil {
					replace(t, s, tc.former)
				}
				if !killed(t, root, step, tc.next) {
					continue
				}
				reached++
				t.Run(step, func(t *testing.T) {
					former, next := revOf(tc.former), tc.next.Revision()
					left := whole(t, s, former, next)
					want := former
					if left[visitorsTable] == next.Number || left[totalsTable] == next.Number {
						want = next
					}
					if len(left) > 0 {
						agreed(t, s, want)
					}
					replace(t, s, tc.next)
					agreed(t, s, next)
				})
			}
			if reached != tc.reached {
				t.Errorf("died at %d steps, want %d", reached, tc.reached)
			}
		})
	}
}
