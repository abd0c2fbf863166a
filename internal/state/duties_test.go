package state

import (
	"testing"
	"time"
)

func TestDuties(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if at, err := db.LastDone(t.Context(), "collect"); err != nil || !at.IsZero() {
		t.Errorf("LastDone of what was never done = %v, %v", at, err)
	}
	first := time.Date(2026, 11, 1, 2, 3, 4, 5000, time.UTC)
	for _, at := range []time.Time{first, first.Add(time.Hour)} {
		if err := db.SetDone(t.Context(), "collect", at); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.SetDone(t.Context(), "other", first); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if at, err := db.LastDone(t.Context(), "collect"); err != nil || !at.Equal(first.Add(time.Hour)) {
		t.Errorf("LastDone = %v, %v", at, err)
	}
}
