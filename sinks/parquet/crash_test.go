//go:build unix

package parquet

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/s3test"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

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

// TestCrashChild is not a test itself: others run it as a process that kills itself in
// Replace.
func TestCrashChild(t *testing.T) {
	root, w, at := sinktest.InChild(t)
	s := newSink(t, root)
	s.store = stepping{s.store, at}
	check(t, s.Replace(&copying{Context: t.Context(), at: at}, w))
}

// killed runs Replace of w in a child process that dies at the step, and
// reports whether it came to it.
func killed(t *testing.T, root, step string, w *archive.File) bool {
	t.Helper()
	return sinktest.Killed(t, sinktest.Child(root, step, w))
}

func TestCrash(t *testing.T) {
	steps := []string{"copying", "before visitors", "after visitors", "before totals", "after totals", "after removal"}
	const rows = 40_000 // whose file takes more than one chunk to copy
	crashes := func(t *testing.T, open func(t *testing.T) (*Sink, string)) {
		sinktest.Crashes(t, func(t *testing.T) sinktest.Crashed {
			s, root := open(t)
			return sinktest.Crashed{Sink: s, Reader: reader{t, s}, Replaced: func(step string, w *archive.File) bool {
				return killed(t, root, step, w)
			}}
		}, steps, 5, 3, rows, 0)
	}
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
