package page

import (
	"testing"
	"time"
)

func TestDaysLeft(t *testing.T) {
	for d, want := range map[time.Duration]string{-time.Second: "expired", 23 * time.Hour: "less than a day left", 47 * time.Hour: "1 day left"} {
		if got := daysLeft(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}
