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

// room returns nil if another pull request may be read now.
func (h *server) room() error {
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

// learn keeps the quota in a response.
func (h *server) learn(resp *http.Response) {
	number := func(name string) int64 {
		n, err := strconv.ParseInt(resp.Header.Get(h.quota+name), 10, 64)
		if err != nil {
			return -1
		}
		return n
	}
	limit, left, reset := number("Limit"), number("Remaining"), number("Reset")
	if left < 0 || left > limit/paceShare || reset <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pace.reserved = earlier(h.local(resp, time.Unix(reset, 0)), h.now().Add(longestWait))
}
