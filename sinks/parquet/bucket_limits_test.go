package parquet

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHealingIsAlone keeps a repair and Replace apart: what a repair has seen
// would be another window's file by the time it removes it.
func TestHealingIsAlone(t *testing.T) {
	died := map[string]func(s *Sink) error{
		"before the removal": func(s *Sink) error {
			replace(t, s, sealTotals(t, 2))
			name, _ := place(visitorsTable, sealTotals(t, 2).Revision().Key)
			return s.store.Publish(t.Context(), copyOf(t, seal(t, 1, 3).Path()), name)
		},
		"before the totals": func(s *Sink) error {
			replace(t, s, seal(t, 1, 3))
			name, _ := place(totalsTable, seal(t, 1, 3).Revision().Key)
			return s.store.Remove(t.Context(), name)
		},
	}
	for name, leave := range died {
		t.Run(name, func(t *testing.T) {
			s, changes := newSink(t, t.TempDir()), 0
			check(t, leave(s))
			tree := s.store
			s.store = stepping{tree, func(string) {
				changes++
				if s.healing.TryRLock() {
					s.healing.RUnlock()
					t.Error("Replace could begin within a repair")
				}
			}}
			agreed(t, s, revOf(seal(t, 1, 3)), revOf(sealTotals(t, 2)))
			s.store = stepping{tree, func(string) {
				changes++
				if s.healing.TryLock() {
					s.healing.Unlock()
					t.Error("a repair could begin within Replace")
				}
			}}
			replace(t, s, seal(t, 3, 3))
			if changes != 6 {
				t.Errorf("%d times before or after a change, want 6", changes)
			}
		})
	}
}

func copyOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	staged := filepath.Join(t.TempDir(), "copy")
	check(t, os.WriteFile(staged, data, 0o600))
	return staged
}
