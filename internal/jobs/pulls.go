package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// readPulls reads the pull requests, where what may be sent depends on them.
func (v *view) readPulls(ctx context.Context, c Config, j Journal, found prompts.Scanned) error {
	waits := func(p prompts.Prompt) bool { return len(p.Merged) > 0 }
	if c.MaxOpenPulls == 0 && c.MaxReviewAge == 0 && !slices.ContainsFunc(found.Prompts, waits) {
		return nil
	}
	known, err := j.PullStates(ctx)
	v.pulls = PullsByLink(v.jobs, known)
	return err
}

// PullsByLink returns the pull requests by link: what is known, and those of jobs of which
// nothing is known yet.
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

// goneAfter is how long the host must have said that there is no such pull request until it
// waits for nobody any more: its repository was deleted, or is hidden from the token.
const goneAfter = 30 * 24 * time.Hour

// reviews is what waits for people. A pull request whose state nobody knows counts as open:
// the caps must hold without a token too.
type reviews struct {
	open, unknown int             // unknown are some of open
	ages          []time.Duration // of open, the youngest first
	coming        int             // jobs that may be at work and have no pull request yet
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
		opened := p.Opened()
		if opened.IsZero() {
			opened = begun[p.Link]
		}
		if opened.IsZero() {
			opened = now
		}
		r.ages = append(r.ages, now.Sub(opened))
	}
	slices.Sort(r.ages)
	return r
}

// used counts against the cap on open pull requests. A job at work counts as well: it may
// open one at any time, and nothing could stop it then.
func (r reviews) used() int { return r.open + r.coming }

// median is the median age of the open ones, 0 if there is none.
func (r reviews) median() time.Duration {
	n := len(r.ages)
	if n == 0 {
		return 0
	}
	lower, upper := r.ages[(n-1)/2], r.ages[n/2]
	return lower + (upper-lower)/2
}

// String says what counts.
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

// OpenPulls returns how many pull requests count against the cap on open ones.
func OpenPulls(all []journal.Job, known []journal.PullRequest, now time.Time) int {
	return reviewsOf(all, PullsByLink(all, known), now).used()
}

// dependency is the first prompt that must be completed, or merged, before p and is not.
func (v *view) dependency(p *Planned, states map[string]journal.State) blocker {
	for _, id := range p.prompt.DependsOn {
		job, ok := v.newest[id]
		merged := slices.Contains(p.prompt.Merged, id)
		switch {
		case merged && ok && job.State.Ended():
			if b := v.merge(id, job); b.why != WhyNext {
				return b
			}
		case merged:
			return because(WhyDependency, "waits for the pull request of %s to be merged: the job is %s", id,
				states[id])
		case ok && job.State == journal.Completed:
		case ok && job.State.Ended():
			return because(WhyDependency, "waits for %s to be completed, and that is %s: docgauge jobs retry %s",
				id, job.State, id)
		default:
			return because(WhyDependency, "waits for %s to be completed: it is %s", id, states[id])
		}
	}
	return blocker{}
}

// merge is what there is to wait for until the pull request of a job that has ended is
// merged. One that was closed instead never is: without the change that a prompt builds on,
// it must not begin.
func (v *view) merge(id string, job journal.Job) blocker {
	pull := v.pulls[job.PRLink]
	switch {
	case job.PRLink == "":
		return because(WhyDependency, "waits for the pull request of %s to be merged, and that is %s without one: "+
			"docgauge jobs retry %s, or remove when: merged", id, job.State, id)
	case pull.State == journal.PullMerged:
		return blocker{}
	case pull.State == journal.PullClosed:
		return because(WhyDependency,
			"waits for the pull request of %s to be merged, and it was closed without that (%s): "+
				"docgauge jobs retry %s, or remove when: merged", id, job.PRLink, id)
	case pull.Problem != "":
		return because(WhyDependency, "waits for the pull request of %s to be merged (%s): it is %s, %s", id,
			job.PRLink, pull.State, pull.Problem)
	}
	return because(WhyDependency, "waits for the pull request of %s to be merged (%s): it is %s", id, job.PRLink,
		pull.State)
}
