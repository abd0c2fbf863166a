package codehost

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// maxDaysAgo limits Plan.DaysAgo.
const maxDaysAgo = 3660

// Plan decides what becomes of a pull request when it is opened: the same number has
// the same fate with the same seed. The zero value leaves all of them open. Whatever
// somebody does by hand ends the plan of that pull request.
type Plan struct {
	Seed uint64
	// MergeShare and CloseShare, from 0 to 1, are the shares of pull requests that are
	// merged and closed, EndAfter they are ready for review, or when they were reviewed.
	MergeShare, CloseShare float64
	EndAfter               time.Duration
	// DraftFor is how long pull requests are drafts.
	DraftFor time.Duration
	// ReviewAfter they are ready, people review: they approve what will be merged and
	// request changes of the rest. 0 = nobody reviews.
	ReviewAfter time.Duration
	// DaysAgo dates back what is merged, also by hand, by so many days.
	DaysAgo int
}

// Check lists every problem of p.
func (p Plan) Check() error {
	var problems []error
	for _, share := range []struct {
		name  string
		value float64
	}{{"merge share", p.MergeShare}, {"close share", p.CloseShare}, {"merge share and close share together", p.MergeShare + p.CloseShare}} {
		if !(share.value >= 0 && share.value <= 1) { // also not a number
			problems = append(problems, fmt.Errorf("%s: want 0 to 1, got %g", share.name, share.value))
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"merge delay", p.EndAfter}, {"draft delay", p.DraftFor}, {"review delay", p.ReviewAfter}} {
		if d.value < 0 {
			problems = append(problems, fmt.Errorf("%s: must not be negative; 0 switches it off", d.name))
		}
	}
	if p.DaysAgo < 0 || p.DaysAgo > maxDaysAgo {
		problems = append(problems, fmt.Errorf("merged days ago: want 0 to %d, got %d", maxDaysAgo, p.DaysAgo))
	}
	return errors.Join(problems...)
}

// events returns what happens to a pull request that is opened now, by time.
func (p Plan) events(number int, opened time.Time) []Event {
	luck := rand.New(rand.NewPCG(p.Seed, uint64(number))).Float64()
	merged, closed := luck < p.MergeShare, luck >= p.MergeShare && luck < p.MergeShare+p.CloseShare
	events := []Event{{At: opened, Action: PassChecks}}
	ready := opened.Add(p.DraftFor)
	if p.DraftFor > 0 {
		events = append(events, Event{At: opened, Action: Draft}, Event{At: ready, Action: Ready})
	}
	end := ready.Add(max(p.EndAfter, p.ReviewAfter))
	if p.ReviewAfter > 0 {
		review := RequestChanges
		if merged {
			review = Approve
		}
		events = append(events, Event{At: ready.Add(p.ReviewAfter), Action: review})
	}
	switch {
	case merged:
		events = append(events, Event{At: end, Action: Merge, DaysAgo: p.DaysAgo})
	case closed:
		events = append(events, Event{At: end, Action: Close})
	}
	return events
}
