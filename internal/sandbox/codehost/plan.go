package codehost

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// maxDaysAgo limits Plan.DaysAgo.
const maxDaysAgo = 3660

// Plan decides about pull requests when they are opened: the same number has the same fate
// with the same seed. The zero value leaves all of them open. Any action by hand ends the plan
// of that pull request.
type Plan struct {
	Seed uint64
	// MergeShare and CloseShare, from 0 to 1, are the shares of pull requests that are
	// merged and closed, EndAfter after they are ready for review or, if later, reviewed.
	MergeShare, CloseShare float64
	EndAfter               time.Duration
	DraftFor               time.Duration // time that pull requests are drafts
	// ReviewAfter is the time from ready to reviewed: those that will be merged are approved,
	// changes are requested of the rest. 0 = no reviews.
	ReviewAfter time.Duration
	DaysAgo     int // days by which merges, also by hand, are dated back
}

// Check lists the problems of the shares and DaysAgo. Durations must not be negative either.
func (p Plan) Check() (err error) {
	m, c := p.MergeShare, p.CloseShare
	if !(m >= 0 && c >= 0 && m+c <= 1) { // also not a number
		err = fmt.Errorf("merge share and close share: want 0 to 1, also together, got %g and %g", m, c)
	}
	if p.DaysAgo < 0 || p.DaysAgo > maxDaysAgo {
		err = errors.Join(err, fmt.Errorf("merged days ago: want 0 to %d, got %d", maxDaysAgo, p.DaysAgo))
	}
	return err
}

// events returns the events of a pull request that is opened now, by time.
func (p Plan) events(number int, opened time.Time) []Event {
	luck := rand.New(rand.NewPCG(p.Seed, uint64(number))).Float64()
	merged, closed := luck < p.MergeShare, luck >= p.MergeShare && luck < p.MergeShare+p.CloseShare
	events := []Event{{At: opened, Action: PassChecks}}
	ready := opened.Add(p.DraftFor)
	if p.DraftFor > 0 {
		events = append(events, Event{At: opened, Action: Draft}, Event{At: ready, Action: Ready})
	}
	if p.ReviewAfter > 0 {
		review := RequestChanges
		if merged {
			review = Approve
		}
		events = append(events, Event{At: ready.Add(p.ReviewAfter), Action: review})
	}
	end := ready.Add(max(p.EndAfter, p.ReviewAfter))
	switch {
	case merged:
		events = append(events, Event{At: end, Action: Merge, DaysAgo: p.DaysAgo})
	case closed:
		events = append(events, Event{At: end, Action: Close})
	}
	return events
}
