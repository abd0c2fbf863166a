package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// On a full disk nothing is accepted, and nothing of it is left in the journal:
// it continues as soon as there is space.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("SKIPPED: needs root to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	room := filepath.Join(dir, "room")
	check(t, os.WriteFile(room, make([]byte, 128<<10), 0o600))
	s := open(t, Options{Dir: dir})
	create(t, s, "a job that is worked on [sandbox:slow]")
	untilStarted(t, dir) // from now on only this test writes
	prompt := "[sandbox:slow] " + strings.Repeat("x", 10_000)
	var full error
	for i := 0; full == nil && i < 1000; i++ {
		_, full = s.Create("p", fmt.Sprint(i, prompt), "")
	}
	if !errors.Is(full, syscall.ENOSPC) {
		t.Fatalf("no end of room: %v", full)
	}
	if text := journalText(t, dir); strings.Count(text, prompt) != len(s.All())-1 || !strings.HasSuffix(text, "}\n") {
		t.Errorf("%d jobs, %d in the journal, which ends %q", len(s.All()),
			strings.Count(text, prompt), text[len(text)-20:])
	}
	check(t, os.Remove(room))
	create(t, s, "room again [sandbox:slow]")
	before := len(s.All())
	closeQueue(t, s)
	s = open(t, Options{Dir: dir})
	if got := len(s.All()); got != before {
		t.Errorf("%d jobs after a restart, want %d", got, before)
	}
	closeQueue(t, s)
}
