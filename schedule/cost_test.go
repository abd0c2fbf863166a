package schedule_test

import (
	"math"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/schedule"
)

func TestRequests(t *testing.T) {
	for rows, want := range map[int64]int{
		analytics.TotalsOnlyRows: 1, 0: 1, 1: 1, 250: 1, 251: 2, 500: 2, 501: 3, 25_000: 100,
	} {
		if got := schedule.Requests(rows, schedule.PageRows); got != want {
			t.Errorf("Requests(%d) = %d, want %d", rows, got, want)
		}
	}
	if got := schedule.Requests(math.MaxInt64, 1); got <= 0 {
		t.Errorf("Requests overflows: %d", got)
	}
}
