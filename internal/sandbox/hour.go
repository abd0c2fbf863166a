package sandbox

import (
	"sync"
	"time"
)

// slidingHour lets a number of requests pass in any span of 60 minutes.
type slidingHour struct {
	mu sync.Mutex
	// passed is a ring of the times of the last requests that passed; next is the oldest of
	// them, or a zero time.
	passed []time.Time
	next   int
	total  int64 // that ever passed
}

// newSlidingHour returns an hour that lets limit requests pass; 0 = all.
func newSlidingHour(limit int) *slidingHour { return &slidingHour{passed: make([]time.Time, limit)} }

// take reports whether a request at now may pass, and counts it if so.
func (h *slidingHour) take(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.passed) > 0 {
		if oldest := h.passed[h.next]; !oldest.IsZero() && now.Sub(oldest) < time.Hour {
			return false
		}
		h.passed[h.next] = now
		h.next = (h.next + 1) % len(h.passed)
	}
	h.total++
	return true
}

// use returns how many requests ever passed, and how many more may pass at now.
func (h *slidingHour) use(now time.Time) (total int64, left int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, passed := range h.passed {
		if passed.IsZero() || now.Sub(passed) >= time.Hour {
			left++
		}
	}
	return h.total, left
}
