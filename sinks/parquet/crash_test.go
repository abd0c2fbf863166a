//go:build unix

package parquet

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
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
	tree
	at func(step string)
}

func (s stepping) publish(ctx context.Context, staged, name string) error {
	s.at("before " + tableOf(name))
	err := s.tree.publish(ctx, staged, name)
	s.at("after " + tableOf(name))
	return err
}

func (s stepping) remove(ctx context.Context, name string) error {
	s.at("before removal")
	err := s.tree.remove(ctx, name)
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
	s.tree = stepping{s.tree, at}
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

func TestCrash(t *testing.T) {
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
			t.Parallel()
			reached := 0
			for _, step := range steps {
				root := filepath.Join(t.TempDir(), "data")
				if tc.former != nil {
					replace(t, newSink(t, root), tc.former)
				}
				if !killed(t, root, step, tc.next) {
					continue
				}
				reached++
				t.Run(step, func(t *testing.T) { afterCrash(t, root, tc.former, tc.next) })
			}
			if reached != tc.reached {
				t.Errorf("died at %d steps, want %d", reached, tc.reached)
			}
		})
	}
}

// afterCrash looks with a reader's eyes first, then heals in both ways.
func afterCrash(t *testing.T, root string, former, next *archive.File) {
	key := next.Revision().Key
	r := reader{root: root, scratch: t.TempDir()}
	for _, path := range published(root) {
		if data, err := os.Open(path); err != nil {
			t.Error(err)
		} else if info, err := data.Stat(); err != nil {
			t.Error(err)
		} else if _, err := archive.ReadRevision(data, info.Size()); err != nil {
			t.Errorf("%s does not read: %v", path, err)
		}
	}
	rows, carried, err := r.Visitors(key)
	if err != nil || len(carried) > 1 {
		t.Fatalf("readers see revisions %v, %v", carried, err)
	}
	for _, rev := range carried {
		if !isOneOf(rev, former, next) || int64(len(rows)) != rev.Rows {
			t.Errorf("readers see %d rows of %+v", len(rows), rev)
		}
	}
	totals, err := r.Totals(key)
	if err != nil || len(totals) > 1 || len(totals) == 1 && !isOneOf(totals[0], former, next) {
		t.Errorf("readers see totals %v, %v", totals, err)
	}
	if len(published(root)) > 0 {
		want := former
		if len(totals) == 1 && totals[0].Number == next.Revision().Number || len(carried) == 1 && carried[0].Number == next.Revision().Number {
			want = next
		}
		agrees(t, newSink(t, root), want.Revision().Number)
	}
	s := newSink(t, root)
	replace(t, s, next)
	agrees(t, s, next.Revision().Number)
}

func isOneOf(rev analytics.Revision, windows ...*archive.File) bool {
	for _, w := range windows {
		if w != nil && same(rev, w.Revision()) {
			return true
		}
	}
	return false
}
