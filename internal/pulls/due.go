package pulls

import (
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

// The pauses.
const (
	// beat is between two passes at least.
	beat = 30 * time.Second
	// pauseStore is after an error of the store.
	pauseStore = time.Minute
	// pauseToken is where there is no token, or the host refuses it: nobody replaces it
	// sooner, and a host that is asked with a wrong one often shuts us out.
	pauseToken = 10 * time.Minute
	// pauseFailure is after the first failure of a host; it doubles up to longestFailure.
	pauseFailure   = time.Minute
	longestFailure = hour
	// longestPause is longer than any between two reads.
	longestPause = day + hour

	// afterEnd is from the end to the last read: what was merged by mistake is reopened or
	// reverted by then.
	afterEnd = day
	// missingFor is how long a pull request may be hidden until its state is unknown.
	missingFor = hour
	// pauseMissing is between two reads in that time.
	pauseMissing = 10 * time.Minute
	// patience is how long after its end a last read is tried.
	patience = 7 * day
)

// interval is between two reads of a pull request that has not ended.
func interval(p journal.PullRequest, now time.Time) time.Duration {
	began := clock.Later(clock.Later(p.Created, p.Ready), p.Reopened)
	if began.IsZero() {
		return 2 * time.Minute
	}
	switch age := now.Sub(began); {
	case age < hour:
		return 2 * time.Minute
	case age < day:
		return 10 * time.Minute
	case age < 30*day:
		return hour
	}
	return day
}

func due(p journal.PullRequest, now time.Time) bool { return !p.Next.IsZero() && !p.Next.After(now) }

// answered decides when to read p after its host told all of it.
func answered(p *journal.PullRequest, former journal.PullRequest, now time.Time) {
	p.Problem, p.Missing = "", time.Time{}
	if !p.State.Ended() {
		p.Next = now.Add(interval(*p, now))
		return
	}
	// One that was seen before its end is read a day after the end was seen: once more at
	// least, whatever the two clocks say.
	end := p.Ended()
	if !former.State.Ended() && !former.Answered.IsZero() || end.After(now) {
		end = now
	}
	p.Next = end.Add(afterEnd)
	if !p.Next.After(now) {
		p.Next, p.Final = time.Time{}, true
	}
}

// refused decides when to read p after its host said that there is none, or not for us.
func refused(p *journal.PullRequest, problem string, now time.Time) {
	p.Problem, p.Next = problem, now.Add(pauseMissing)
	if p.Missing.IsZero() {
		p.Missing = now
	}
	if now.Sub(p.Missing) >= missingFor {
		forget(p, problem)
		p.Next = now.Add(day)
	}
	giveUp(p, now)
}

// failed decides when to read p after its host answered in part or not at all.
func failed(p *journal.PullRequest, problem string, now time.Time) {
	p.Problem, p.Next = problem, now.Add(interval(*p, now))
	giveUp(p, now)
}

// giveUp ends the last reads of what cannot be read.
func giveUp(p *journal.PullRequest, now time.Time) {
	if p.State.Ended() && now.Sub(p.Ended()) > patience {
		p.Next, p.Final = time.Time{}, true
	}
}
