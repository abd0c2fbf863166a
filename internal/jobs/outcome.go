package jobs

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/docgauge/docgauge/internal/docsapi"
)

// verdict is what has become of a create or a message.
type verdict string

const (
	accepted     verdict = "accepted"
	waits        verdict = "waits"        // it was not taken; later it may be
	rejected     verdict = "rejected"     // it was not taken, and never will be
	unauthorized verdict = "unauthorized" // it was not taken, and nothing will be with this key
	inDoubt      verdict = "in doubt"     // nobody knows
)

// notAboutThePrompt are refusals that any prompt would have met: another URL, a
// paid account or a proxy's password is needed, and then it goes.
var notAboutThePrompt = map[int]bool{
	http.StatusPaymentRequired: true, http.StatusNotFound: true, http.StatusMethodNotAllowed: true, http.StatusProxyAuthRequired: true,
}

// judge tells a create's or message's outcome from its error. What cannot be told
// is in doubt.
func judge(err error) verdict {
	e, ours := errors.AsType[*docsapi.Error](err)
	switch {
	case err == nil:
		return accepted
	case !ours:
		return inDoubt
	case docsapi.IsNotSent(err):
		return waits
	case docsapi.IsInDoubt(err):
		return inDoubt
	case docsapi.IsUnauthorized(err):
		return unauthorized
	case e.Outcome == docsapi.Transient, notAboutThePrompt[e.Status]:
		return waits
	}
	return rejected
}

// answered reports whether the service itself said something: the next create is
// no shot in the dark.
func answered(err error) bool {
	e, ours := errors.AsType[*docsapi.Error](err)
	return err == nil || ours && e.Status != 0 && !docsapi.IsInDoubt(err)
}

const (
	firstRetry = 10 * time.Second
	lastRetry  = 5 * time.Minute
)

// retryIn is how long to wait after so many tries that were not taken.
func (q *Queue) retryIn(tries int, err error) time.Duration {
	wait := q.jitter(min(firstRetry<<min(tries-1, 10), lastRetry)).Round(time.Millisecond)
	if e, ours := errors.AsType[*docsapi.Error](err); ours {
		wait = max(wait, e.RetryAfter)
	}
	return wait
}

const (
	pollGrowth = 1.5
	lastPoll   = 5 * time.Minute
)

// pollIn is how long to wait after so many reads that found a job at work.
func (q *Queue) pollIn(polls int, err error) time.Duration {
	wait := max(q.cfg.PollInterval, time.Millisecond)
	for range polls {
		if wait >= lastPoll {
			break
		}
		wait = min(time.Duration(float64(wait)*pollGrowth), lastPoll)
	}
	wait = q.jitter(wait).Round(time.Millisecond)
	if e, ours := errors.AsType[*docsapi.Error](err); ours {
		wait = max(wait, e.RetryAfter)
	}
	return wait
}

// jitter returns d, a fifth more or less.
func jitter(d time.Duration) time.Duration {
	return d*4/5 + rand.N(d*2/5+1)
}
