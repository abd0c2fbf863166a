//go:build unix

package delta

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/deltalog"
)

// TestTableEmptied: the directory of one table, or of both, is emptied under a sink. The
// next Replace says so, and the one after it makes the table.
func TestTableEmptied(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	replace(t, s, sealDay(t, 1, 1, 5))
	replace(t, s, seal(t, 1, 3))
	check(t, os.RemoveAll(filepath.Join(root, visitorsTable)))
	if err := s.Replace(t.Context(), seal(t, 2, 3)); !errors.Is(err, deltalog.ErrGone) {
		t.Errorf("Replace = %v", err)
	}
	// Of the window that is only in totals now, visitors are lost.
	lost := 0
	replace(t, s, seal(t, 2, 3))
	if len(s.unfinished) > 0 {
		t.Errorf("files of a change that was made are kept for its next try: %v", s.unfinished)
	}
	for rev, err := range s.Revisions(t.Context()) {
		switch day := revOf(sealDay(t, 1, 1, 5)).Key; {
		case err != nil && strings.Contains(err.Error(), day.String()) &&
			strings.Contains(err.Error(), "export the window again"):
			lost++
		case err != nil || !rev.Same(revOf(seal(t, 2, 3))):
			t.Errorf("Revisions yields %+v, %v", rev, err)
		}
	}
	if lost != 1 {
		t.Errorf("%d windows are lost, want 1", lost)
	}
	replace(t, s, sealDay(t, 1, 1, 5))
	for rev, err := range s.Revisions(t.Context()) {
		if err != nil {
			t.Errorf("Revisions yields %+v, %v", rev, err)
		}
	}
}
