package sandbox

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/site/api"
)

// every reports whether request number is an nth one; numbers begin at 1.
func every(n int, number int64) bool { return n > 0 && number > 0 && number%int64(n) == 0 }

// refuse returns the injected refusal of a request with a good key, if any.
func (s *Sandbox) refuse(c *api.Call) error {
	switch {
	case c.Method == http.MethodPost:
		return s.refusePost(c)
	case c.PathValue("id") == "":
		return s.refuseAnalytics(c)
	}
	return nil
}

// refuseAnalytics numbers an analytics request and returns its injected refusal, if any.
func (s *Sandbox) refuseAnalytics(c *api.Call) error {
	f := s.config.Faults
	c.Number = s.admitted.Add(1)
	_, report, _ := strings.Cut(strings.TrimPrefix(c.URL.Path, "/v1/analytics/"), "/")
	switch {
	case slices.Contains(f.Refused, c.PathValue("project")) || slices.Contains(f.Refused, report):
		return api.Fail(http.StatusForbidden, "this key has no access to %s of %s", report, c.PathValue("project"))
	case f.ThrottleAfter > 0 && c.Number > int64(f.ThrottleAfter):
		return f.tooMany("too many requests: none are answered after the first %d", f.ThrottleAfter)
	case !s.hour.take(c.Now):
		return f.tooMany("too many requests: want at most %d in an hour", f.RateLimit)
	case every(f.ErrorEvery, c.Number):
		return api.Fail(http.StatusInternalServerError, "internal error: every request number divisible by %d fails",
			f.ErrorEvery)
	}
	return nil
}

// refusePost numbers an agent POST and returns its injected refusal, if any. An unknown project
// has no limit: it is refused later.
func (s *Sandbox) refusePost(c *api.Call) error {
	f, p := s.config.Agent.Faults, s.projects[c.PathValue("project")]
	switch {
	case every(f.ThrottleEvery, s.admittedPosts.Add(1)):
		return s.config.Faults.tooMany("too many requests: every agent request divisible by %d is refused",
			f.ThrottleEvery)
	case p != nil && !p.postHour.take(c.Now):
		return s.config.Faults.tooMany("too many requests: want at most %d agent requests of a project in an hour",
			f.RateLimit)
	}
	return nil
}

func (f Faults) tooMany(format string, limit int) error {
	r := api.Fail(http.StatusTooManyRequests, format, limit)
	if f.RetryAfter > 0 {
		seconds := (f.RetryAfter + time.Second - 1) / time.Second
		return r.With("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	return r
}

// afterAccepting returns what the client of accepted POST number gets instead of its reply, if
// anything.
func (f AgentFaults) afterAccepting(c *api.Call, number int64) error {
	if f.StallEvery == 0 || every(f.StallEvery, number) {
		_ = clock.Sleep(c.Context(), f.Stall) // or until the client has gone
	}
	switch {
	case every(f.DropEvery, number):
		return api.ErrDropped
	case every(f.BadGatewayEvery, number):
		return api.Fail(http.StatusBadGateway,
			"bad gateway: every accepted agent request divisible by %d is answered with this", f.BadGatewayEvery)
	}
	return nil
}
