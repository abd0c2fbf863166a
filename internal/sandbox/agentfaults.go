package sandbox

import (
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/docgauge/docgauge/internal/clock"
)

// errDropped has the connection closed instead of an answer.
var errDropped = errors.New("reply dropped")

// posts counts agent POSTs.
type posts struct {
	admitted, accepted atomic.Int64
	hours              map[string]*slidingHour // by project
}

func newPostHours(c Config) map[string]*slidingHour {
	hours := map[string]*slidingHour{}
	for _, name := range c.Projects {
		hours[name] = newSlidingHour(c.Agent.Faults.RateLimit)
	}
	return hours
}

// refusePost counts c and refuses it with 429 if it is its turn. A project that
// is not served has no limit: it is refused later.
func (s *Sandbox) refusePost(c *call) error {
	faults, number := s.config.Agent.Faults, s.posts.admitted.Add(1)
	if every(faults.ThrottleEvery, number) {
		return s.config.Faults.tooMany("too many requests: every agent request divisible by %d is refused", faults.ThrottleEvery)
	}
	hour, ok := s.posts.hours[c.params["projectId"]]
	if ok && !hour.take(c.now) {
		return s.config.Faults.tooMany("too many requests: want at most %d agent requests of a project in an hour", faults.RateLimit)
	}
	return nil
}

// afterAccepting returns what the client of accepted POST number gets instead
// of its reply, if it is its turn.
func (f AgentFaults) afterAccepting(c *call, number int64) error {
	if f.StallEvery == 0 || every(f.StallEvery, number) {
		_ = clock.Sleep(c.Context(), f.Stall) // or until nobody waits for the answer
	}
	switch {
	case every(f.DropEvery, number):
		return errDropped
	case every(f.BadGatewayEvery, number):
		return fail(http.StatusBadGateway, "bad gateway: every accepted agent request divisible by %d is answered with this", f.BadGatewayEvery)
	}
	return nil
}
