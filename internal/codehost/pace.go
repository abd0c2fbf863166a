package codehost

import (
	"net/http"
	"strconv"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

// Our own limit at each host: the least quota is GitHub's, 5000 requests an hour, and it
// belongs to the owner of the token, who has other uses for it.
const (
	paceGap   = time.Second // between two requests on average
	paceBurst = 60 * paceGap
	// paceShare: one in paceShare requests of the quota is left to others.
	paceShare = 10
)

// pace is how far the requests of a host are ahead of one each paceGap, and until when
// the rest of its quota is left to others.
type pace struct{ ahead, reserved time.Time }

// admit returns nil if another pull request may be read now.
func (h *server) admit() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	until := h.pace.reserved
	// A clock that was set back must not stop the reading.
	if h.pace.ahead.Sub(now) > 2*paceBurst {
		h.pace.ahead = now
	}
	if h.pace.ahead.Sub(now) >= paceBurst {
		until = clock.Later(until, h.pace.ahead.Add(-paceBurst/2))
	}
	if !until.After(now) || until.After(now.Add(longestWait)) {
		return nil
	}
	e := h.failed(Paced, "is asked again later, to stay within its limits", nil)
	e.Until = until
	return e
}

// quotaOf returns the quota in a response, and when it is renewed by our clock: -1 and the zero time are absent.
func (h *server) quotaOf(resp *http.Response) (limit, left int64, reset time.Time) {
	number := func(name string) int64 {
		n, err := strconv.ParseInt(resp.Header.Get(h.quota+name), 10, 64)
		if err != nil {
			return -1
		}
		return n
	}
	if at := number("Reset"); at > 0 {
		reset = h.local(resp, time.Unix(at, 0))
	}
	return number("Limit"), number("Remaining"), reset
}

// learn keeps the quota in a response.
func (h *server) learn(resp *http.Response) {
	limit, left, reset := h.quotaOf(resp)
	if left < 0 || left > limit/paceShare || reset.IsZero() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pace.reserved = earlier(reset, h.now().Add(longestWait))
}
