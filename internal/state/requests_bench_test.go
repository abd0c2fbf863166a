package state_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/state"
)

// BenchmarkCharge charges and answers with so many entries in the log, all of
// them of the last hour. The disk's part is the same for all of them.
func BenchmarkCharge(b *testing.B) {
	for _, entries := range []int{0, 10_000, 100_000} {
		b.Run(fmt.Sprint(entries), func(b *testing.B) {
			dir := b.TempDir()
			db, err := state.Open(dir)
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			fill(b, dir, entries)
			at, answered := now, map[int64]time.Time{}
			for b.Loop() {
				at = at.Add(time.Millisecond)
				id, free, err := db.Charge(b.Context(), "b", 1_000_000, func() time.Time { return at }, span, unanswered, answered)
				if err != nil || !free.IsZero() {
					b.Fatal(free, err)
				}
				answered = map[int64]time.Time{id: at}
			}
		})
	}
}

// fill enters n requests of the last half hour, one in ten of them unanswered.
func fill(tb testing.TB, dir string, n int) {
	tb.Helper()
	_, err := raw(tb, dir).Exec(`
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		INSERT INTO requests (budget, sent_at, done_at)
		SELECT 'b', ?2 - i * ?3, iif(i % 10, ?2 - i * ?3 + 1000, NULL) FROM n WHERE i <= ?1 AND ?1 > 0`,
		n, now.UnixMicro(), (30*time.Minute).Microseconds()/int64(max(n, 1)))
	if err != nil {
		tb.Fatal(err)
	}
}
