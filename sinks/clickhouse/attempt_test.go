package clickhouse

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAttemptsGrow takes ids by a clock that jumps, and now and then
// learns ids of others.
func TestAttemptsGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		a := attempts{now: func() time.Time { return clock }}
		var last uint64
		for range rapid.IntRange(1, 60).Draw(t, "ids") {
			clock = clock.Add(time.Duration(rapid.Int64Range(-int64(2*time.Hour), int64(2*time.Hour)).Draw(t, "clock")))
			if rapid.Bool().Draw(t, "told") {
				other := uint64(clock.Add(time.Hour).UnixMicro()) << randomBits
				a.past(other)
				last = max(last, other)
			}
			id := a.next()
			if id <= last {
				t.Fatalf("%d after %d", id, last)
			}
			last = id
		}
	})
}
