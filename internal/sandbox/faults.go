package sandbox

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// every reports whether request number is an nth one; numbers begin at 1.
func every(n int, number int64) bool { return n > 0 && number > 0 && number%int64(n) == 0 }

// refuseNone is for what has no limits: polling a job.
func refuseNone(*call) error { return nil }

// refuseAnalytics gives c its number and refuses it if it is its turn.
func (s *Sandbox) refuseAnalytics(c *call) error {
	c.number = s.admitted.Add(1)
	return s.config.Faults.refuse(c, s.hour)
}

// refuse returns the injected refusal of c, if it is its turn.
func (f Faults) refuse(c *call, hour *slidingHour) error {
	switch {
	case f.ThrottleAfter > 0 && c.number > int64(f.ThrottleAfter):
		return f.tooMany("too many requests: none are answered after the first %d", f.ThrottleAfter)
	case !hour.take(c.now):
		return f.tooMany("too many requests: want at most %d in an hour", f.RateLimit)
	case every(f.ErrorEvery, c.number):
		return fail(http.StatusInternalServerError, "internal error: every request number divisible by %d fails", f.ErrorEvery)
	}
	return nil
}

func (f Faults) tooMany(format string, limit int) error {
	r := fail(http.StatusTooManyRequests, format, limit)
	if f.RetryAfter > 0 {
		seconds := (f.RetryAfter + time.Second - 1) / time.Second
		return r.with("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	return r
}

// slidingHour lets a number of requests pass in any span of 60 minutes.
type slidingHour struct {
	mu sync.Mutex
	// passed is a ring of the times of the last requests that passed; next is
	// the oldest of them, or a zero time.
	passed []time.Time
	next   int
}

// newSlidingHour returns an hour that lets limit requests pass; 0 = all.
func newSlidingHour(limit int) *slidingHour { return &slidingHour{passed: make([]time.Time, limit)} }

// take reports whether a request at now may pass, and counts it if so.
func (h *slidingHour) take(now time.Time) bool {
	if len(h.passed) == 0 {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if oldest := h.passed[h.next]; !oldest.IsZero() && now.Sub(oldest) < time.Hour {
		return false
	}
	h.passed[h.next] = now
	h.next = (h.next + 1) % len(h.passed)
	return true
}
