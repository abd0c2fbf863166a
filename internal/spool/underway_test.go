package spool

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestListUnderWay: who only looks sees the windows whose reading was begun, up to
// what a killed process left whole, and changes nothing.
func TestListUnderWay(t *testing.T) {
	dir := t.TempDir()
	if found, err := ListUnderWay(dir); err != nil || len(found) != 0 {
		t.Errorf("nothing there: %v, %v", found, err)
	}
	s, err := Open(dir, now)
	check(t, err)
	f, err := s.Begin(key, 3, now, time.Time{})
	check(t, err)
	if found, err := ListUnderWay(dir); err != nil || len(found) != 0 {
		t.Errorf("no page yet: %v, %v", found, err)
	}
	check(t, f.Append(page(0, 250)))
	check(t, f.Restart(now))
	for n := range 3 {
		check(t, f.Append(page(n, 250)))
	}
	check(t, f.Close())
	path := filepath.Join(dir, "spool", "fetching", name(key)+".pages")
	whole, err := os.ReadFile(path)
	check(t, err)
	for _, tc := range []struct{ cut, pages int }{{0, 3}, {1, 2}, {len(whole) / 2, 1}} {
		check(t, os.WriteFile(path, whole[:len(whole)-tc.cut], 0o600))
		found, err := ListUnderWay(dir)
		check(t, err)
		if len(found) != 1 {
			t.Fatalf("%d bytes cut off: %v", tc.cut, found)
		}
		u := found[0]
		if u.Key != key.String() || u.Revision != 3 || u.Reading != 2 || u.Pages != tc.pages || !u.Started.Equal(now.Truncate(time.Microsecond)) {
			t.Errorf("%d bytes cut off: %+v", tc.cut, u)
		}
	}
	for _, damaged := range [][]byte{nil, []byte("x"), append(make([]byte, 8), whole[8:]...)} {
		check(t, os.WriteFile(path, damaged, 0o600))
		if found, err := ListUnderWay(dir); err != nil || len(found) != 0 {
			t.Errorf("damaged: %v, %v", found, err)
		}
	}
}
