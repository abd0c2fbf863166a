package worktree

import (
	"strings"
	"sync"
)

// tail is a writer that takes everything and keeps the end.
type tail struct {
	max int

	mu   sync.Mutex
	kept []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p[max(0, len(p)-t.max):]...)
	if n := len(t.kept) - t.max; n > 0 || len(p) > t.max {
		t.cut = true
		t.kept = append(t.kept[:0], t.kept[max(0, n):]...)
	}
	return len(p), nil
}

// String returns the end as valid UTF-8, with … where something is left out.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := strings.ToValidUTF8(string(t.kept), "�")
	if t.cut {
		return "…" + s
	}
	return s
}
