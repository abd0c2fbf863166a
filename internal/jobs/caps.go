package jobs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/view"
)

// blocker is why a prompt waits, and until when as far as that is known.
type blocker struct {
	why    Why
	reason string
	ends   time.Time
}

func because(why Why, reason string, args ...any) blocker {
	return blocker{why: why, reason: fmt.Sprintf(reason, args...)}
}

// admission counts down the caps, the concurrency keys and the projects that are left for
// further jobs.
type admission struct {
	opt     Options
	now     time.Time
	queue   blocker
	keys    map[string]string  // the holder of each concurrency key
	blocked map[string]blocker // by project
	active  int
	charged []journal.Job
	spent   costs   // of charged
	dear    blocker // once another job would be beyond the cap on cost
	pulls   reviews
}

func (s *queueState) admission(o Options) *admission {
	a := &admission{opt: o, now: s.now, charged: charges(s.jobs, s.now), pulls: reviewsOf(s.jobs, s.pulls, s.now)}
	a.spent = costsOf(a.charged, o.JobCost)
	a.keys, a.blocked = map[string]string{}, map[string]blocker{}
	for _, job := range s.jobs {
		if job.State.Occupies() {
			a.active++
			a.keys[job.ConcurrencyKey] = named(job) + ", which is " + string(job.State)
		}
		if s.blocks(job) && job.Blocked.After(a.blocked[job.Project].ends) {
			why := whyProject
			if job.State == journal.Pending && job.Next.IsZero() {
				why = whyForbidden // the job itself waits for nothing else
			}
			b := because(why, "nothing of project %s is accepted: %s; next try at %s",
				job.Project, job.Reason, format.Time(job.Blocked))
			b.ends = job.Blocked
			a.blocked[job.Project] = b
		}
	}
	switch q := s.queue; {
	case !q.Adopted && o.OnNewState == Skip:
		a.queue = because(whyNewState, "the state is new or restored: what is in the folder now counts as done "+
			"(DOCGAUGE_PROMPTS_ON_NEW_STATE=skip)")
	case !q.Adopted && o.OnNewState != Submit:
		a.queue = because(whyNewState, "%v", refusal(q))
	case q.Paused != "":
		a.queue = because(whyPaused, "the queue is paused since %s (%s): %s", format.Time(q.Since), q.Paused, q.Detail)
	}
	return a
}

// blocks reports whether the service, or the budget, refused a job for a time: others
// of its project would be refused too.
func (s *queueState) blocks(job journal.Job) bool {
	return !job.State.Ended() && s.isAhead(job.Blocked)
}

// admit admits p, or returns the reason why not.
func (a *admission) admit(p *Planned) blocker {
	key := p.prompt.ConcurrencyKey
	owner, occupied := a.keys[key]
	dear, full := a.tooDear(), a.pulls.full(a.opt)
	switch {
	case key != "" && occupied:
		return because(whyConcurrency, "concurrency_key %s is taken by %s", key, owner)
	case a.blocked[p.Project].why != whyNext:
		return a.blocked[p.Project]
	case a.opt.MaxPerDay > 0 && len(a.charged) >= a.opt.MaxPerDay:
		until := a.charged[len(a.charged)-a.opt.MaxPerDay].Charged.Add(day)
		b := because(whyPerDay, "%d jobs in 24 h (DOCGAUGE_MAX_JOBS_PER_DAY is %d); room at %s",
			len(a.charged), a.opt.MaxPerDay, format.Time(until))
		b.ends = until
		return b
	case dear.why != whyNext:
		return dear
	case a.opt.MaxActive > 0 && a.active >= a.opt.MaxActive:
		return because(whyActive, "%d jobs may be at work (DOCGAUGE_MAX_ACTIVE_JOBS is %d)", a.active, a.opt.MaxActive)
	case full.why != whyNext:
		return full
	case a.queue.why != whyNext:
		return a.queue
	}
	a.active++
	a.pulls.coming++
	a.charged = append(a.charged, journal.Job{Charged: a.now})
	estimate := millionths(a.opt.JobCost) // in any unit
	a.spent.each, a.spent.sum = append(a.spent.each, estimate), a.spent.sum+estimate
	a.keys[key] = "prompt " + p.ID + ", which is before it"
	return blocker{}
}

// charges returns the jobs that count against the caps per day, the first that was charged first.
func charges(all []journal.Job, now time.Time) []journal.Job {
	var out []journal.Job
	for _, job := range all {
		if job.Charged.After(now.Add(-day)) {
			out = append(out, job)
		}
	}
	slices.SortStableFunc(out, func(a, b journal.Job) int { return a.Charged.Compare(b.Charged) })
	return out
}

// costs are the costs of the jobs of a day in millionths, in their order, and the sum, in one unit.
type costs struct {
	each []int64
	sum  int64
	unit string
}

func millionths(cost float64) int64 { return int64(math.Round(cost * 1e6)) }

// costsOf returns what the jobs of a day count as against the cap on cost: what they cost, and jobCost
// while that is not final, or more if they have cost more so far. Units are never added up: of
// several, the one counts that has the largest sum, with jobCost for the jobs of the others.
func costsOf(charged []journal.Job, jobCost float64) (most costs) {
	var units []string
	for _, job := range charged {
		if job.Cost != nil {
			units = append(units, job.CostUnit)
		}
	}
	if units == nil {
		units = []string{""} // the unit of the estimate
	}
	slices.Sort(units)
	for i, unit := range slices.Compact(units) {
		in := costs{unit: unit}
		for _, job := range charged {
			cost := millionths(jobCost)
			if job.Cost != nil && job.CostUnit == unit {
				soFar := millionths(*job.Cost)
				if cost = max(cost, soFar); journal.IsPriced(job.Result()) {
					cost = soFar
				}
			}
			in.each, in.sum = append(in.each, cost), in.sum+cost
		}
		if i == 0 || in.sum > most.sum {
			most = in
		}
	}
	return most
}

// fits reports whether another job may begin under the cap on cost.
func (c costs) fits(o Options) bool {
	return o.MaxCostPerDay <= 0 || c.sum+millionths(o.JobCost) <= millionths(o.MaxCostPerDay)
}

// tooDear returns why another job would be beyond the cap on cost; none if it is not.
func (a *admission) tooDear() blocker {
	if a.dear.why != whyNext || a.spent.fits(a.opt) {
		return a.dear
	}
	var until time.Time
	for left, i := a.spent, 0; i < len(a.charged) && !left.fits(a.opt); i++ {
		left.sum -= a.spent.each[i]
		until = a.charged[i].Charged.Add(day)
	}
	a.dear = because(whyCost,
		"%s in 24 h cost %s, and another counts as %s (DOCGAUGE_MAX_COST_PER_DAY is %s); room at %s",
		format.Plural(len(a.charged), "job"), a.spent, view.AmountText(a.opt.JobCost),
		view.AmountText(a.opt.MaxCostPerDay), format.Time(until))
	a.dear.ends = until
	return a.dear
}

// String writes the sum.
func (c costs) String() string {
	return strings.TrimSpace(view.AmountText(float64(c.sum)/1e6) + " " + c.unit)
}

// CostOfDay returns what the jobs of 24 hours count as against the cap on cost, and in which unit.
func CostOfDay(all []journal.Job, jobCost float64, now time.Time) (cost float64, unit string) {
	c := costsOf(charges(all, now), jobCost)
	return float64(c.sum) / 1e6, c.unit
}

// Usage returns how many jobs count against the caps: those begun within 24 hours,
// and those at work.
func Usage(all []journal.Job, now time.Time) (perDay, active int) {
	for _, job := range all {
		if job.State.Occupies() {
			active++
		}
	}
	return len(charges(all, now)), active
}

// PullsByLink returns the pull requests by link: the known ones, and unknown ones for the
// links of jobs that were not read yet.
func PullsByLink(all []journal.Job, known []journal.PullRequest) map[string]journal.PullRequest {
	out := make(map[string]journal.PullRequest, len(known))
	for _, p := range known {
		out[p.Link] = p
	}
	for _, job := range all {
		if _, ok := out[job.PRLink]; job.PRLink != "" && !ok {
			out[job.PRLink] = journal.PullRequest{Link: job.PRLink, Project: job.Project, State: journal.PullUnknown,
				Problem: "it was not read yet"}
		}
	}
	return out
}

// goneAfter is how long the host must have reported a pull request as not found until it no
// longer waits for a review: its repository was deleted, or is hidden from the token.
const goneAfter = 30 * 24 * time.Hour

// reviews are the pull requests that wait for people. One in an unknown state counts as open:
// the caps must hold without a token too.
type reviews struct {
	open, unknown int             // unknown are some of open
	ages          []time.Duration // of open, the youngest first
	// coming are jobs that may be at work and have no pull request yet. They count against the
	// cap: each may open one at any time, and could not be stopped then.
	coming int
}

func reviewsOf(all []journal.Job, pulls map[string]journal.PullRequest, now time.Time) reviews {
	var r reviews
	begun := map[string]time.Time{}
	for _, job := range all {
		if job.State.Occupies() && job.PRLink == "" {
			r.coming++
		}
		if job.PRLink != "" && begun[job.PRLink].IsZero() {
			begun[job.PRLink] = job.Created
		}
	}
	for _, p := range pulls {
		if gone := !p.Missing.IsZero() && now.Sub(p.Missing) >= goneAfter; gone || p.State.Ended() {
			continue
		}
		r.open++
		if p.State == journal.PullUnknown {
			r.unknown++
		}
		age := time.Duration(0)
		if opened := p.Opened(); !opened.IsZero() {
			age = now.Sub(opened)
		} else if !begun[p.Link].IsZero() {
			age = now.Sub(begun[p.Link])
		}
		r.ages = append(r.ages, age)
	}
	slices.Sort(r.ages)
	return r
}

// full returns which cap on pull requests is reached; none if neither is.
func (r reviews) full(o Options) (b blocker) {
	switch {
	case o.MaxOpenPulls > 0 && r.used() >= o.MaxOpenPulls:
		b = because(whyOpenPulls, "%s (DOCGAUGE_MAX_OPEN_PULL_REQUESTS is %d); room once one is merged or closed",
			r, o.MaxOpenPulls)
	case o.MaxReviewAge > 0 && r.median() > o.MaxReviewAge:
		b = because(whyReviewAge,
			"%s, for %s in the median (DOCGAUGE_MAX_REVIEW_AGE is %s); room once the oldest are merged or closed",
			r, format.Duration(r.median()), format.Duration(o.MaxReviewAge))
	}
	return b
}

// CheckReviews returns an error if a cap on pull requests is reached, as the journal knows them.
func CheckReviews(ctx context.Context, o Options, j jobStore) error {
	s, err := readState(ctx, o, j, prompts.Scanned{})
	if err != nil {
		return err
	}
	if b := reviewsOf(s.jobs, s.pulls, s.now).full(o); b.why != whyNext {
		return errors.New(b.reason)
	}
	return nil
}

func (r reviews) used() int { return r.open + r.coming }

// median returns the median age of the open pull requests, or 0.
func (r reviews) median() time.Duration {
	n := len(r.ages)
	if n == 0 {
		return 0
	}
	lower, upper := r.ages[(n-1)/2], r.ages[n/2]
	return lower + (upper-lower)/2
}

// String describes the counted pull requests.
func (r reviews) String() string {
	text := format.Plural(r.open, "pull request") + " open"
	if r.unknown > 0 {
		text += fmt.Sprintf(", %d of them counted as open because their state is unknown", r.unknown)
	}
	if r.coming > 0 {
		text += fmt.Sprintf(", and %s at work that may open another", format.Plural(r.coming, "job"))
	}
	return text
}
