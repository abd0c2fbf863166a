package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// A lock that a killed process left to its child is free a moment later; that of
// a process at work is not.
func TestLockOfAChild(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for held, want := range map[time.Duration]error{lockPatience / 2: nil, 2 * lockPatience: ErrLocked} {
		synctest.Test(t, func(t *testing.T) {
			theirs, ours := create1(t, path), create1(t, path)
			defer ours.Close()
			if err := Lock(theirs); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(held, func() { theirs.Close() })
			if err := Lock(ours); !errors.Is(err, want) {
				t.Errorf("held for %v: %v", held, err)
			}
			time.Sleep(held)
		})
	}
}

func create1(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
