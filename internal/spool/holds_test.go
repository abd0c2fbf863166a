package spool

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestHolds: a revision is in the spool as a sealed file or as its page log, whole, or it is
// not there.
func TestHolds(t *testing.T) {
	dir := t.TempDir()
	holds := func(want bool, change string) {
		t.Helper()
		rev := revisionOf(key, 1)
		rev.Rows = 10
		if got, err := Holds(dir, rev); got != want || err != nil {
			t.Errorf("%s: Holds = %t, %v, want %t", change, got, err, want)
		}
	}
	holds(false, "no spool")
	s := openSpool(t, dir)
	holds(false, "empty")
	log := begin(t, s)
	holds(false, "no page")
	check(t, log.Append(page(0, 7)))
	holds(false, "some of the rows")
	check(t, log.Append(page(1, 3)))
	holds(true, "page log")
	w, err := s.Seal(context.Background(), log, revisionOf(key, 1))
	check(t, err)
	check(t, log.Discard())
	holds(true, "sealed")
	for change, other := range map[string]func() bool{
		"another number": func() bool { rev := w.Revision(); rev.Number = 2; got, _ := Holds(dir, rev); return got },
		"another reading": func() bool {
			rev := w.Revision()
			rev.ExportedAt = rev.ExportedAt.Add(time.Second)
			got, _ := Holds(dir, rev)
			return got
		},
	} {
		if other() {
			t.Errorf("%s is taken for the one in the spool", change)
		}
	}
	flip(t, w.Path())
	holds(false, "damaged")
	if got := files(t, filepath.Dir(w.Path())); len(got) != 1 {
		t.Errorf("files: %v", got)
	}
	check(t, os.Remove(w.Path()))
	holds(false, "removed")
	check(t, os.Mkdir(w.Path(), 0o700))
	rev := w.Revision()
	if got, err := Holds(dir, rev); got || err == nil {
		t.Errorf("a file that cannot be read: %t, %v", got, err)
	}

	totals := revisionOf(key, 2)
	totals.Rows = -1
	log, err = s.Begin(key, 2, now, time.Time{})
	check(t, err)
	check(t, log.Append(page(0, 1)))
	if got, err := Holds(dir, totals); !got || err != nil {
		t.Errorf("page log of totals: %t, %v", got, err)
	}
	check(t, log.Discard())
}
