//go:build unix

package delta

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/s3test"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestCrashChild is not a test itself: TestCrash runs it as a process that kills
// itself in Replace.
func TestCrashChild(t *testing.T) {
	root, w, at := sinktest.InChild(t)
	replace(t, stepped(open(t, root), at), w)
}

func TestCrash(t *testing.T) {
	// The second entry of visitors is that which removes the file of a former revision.
	steps := []string{
		"before visitors file", "after visitors file", "before totals file", "after totals file",
		"before visitors entry", "after visitors entry", "before totals entry", "after totals entry",
	}
	crashes := func(t *testing.T, place func(t *testing.T) (url, root string)) {
		sinktest.Crashes(t, func(t *testing.T) sinktest.Crashed {
			url, root := place(t)
			return sinktest.Crashed{
				Sink: open(t, url), Reader: reader{root}, Entries: func() string { return entries(t, root) },
				Replaced: func(step string, w *archive.File) bool {
					return sinktest.Killed(t, sinktest.Child(url, step, w))
				},
			}
		}, steps, 8, 6, 80, 2)
	}
	t.Run("directory", func(t *testing.T) {
		crashes(t, func(t *testing.T) (url, root string) {
			root = filepath.Join(t.TempDir(), "data")
			return root, root
		})
	})
	t.Run("bucket", func(t *testing.T) {
		s3test.Server(t)
		t.Setenv("TMPDIR", t.TempDir()) // what dies leaves its staging files
		crashes(t, func(t *testing.T) (url, root string) {
			name := s3test.NewBucket(t)
			return s3test.URL(t, name, ""), filepath.Join(s3test.Dir(name), "docs", "gauge")
		})
	})
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
