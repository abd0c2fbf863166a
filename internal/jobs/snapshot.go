package jobs

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	// maxShown is the maximum number of jobs in a snapshot, maxWaiting the maximum number of prompts that are not jobs
	// yet.
	maxShown, maxWaiting = 200, 50
	// shownAfterEnd is how long a job is shown after its end.
	shownAfterEnd = 30 * 24 * time.Hour
)

// Prompts is the known state of the prompts in the folder.
type Prompts struct {
	Planned []Planned
	// Problem is why the folder cannot be read, empty if it can.
	Problem string
}

// Show adds the queue of projects to a snapshot, with the jobs and pull requests of the journal.
func Show(
	ctx context.Context, o Options, j jobStore, projects []string, prompts Prompts, out *view.Snapshot,
) error {
	queue, err := j.Queue(ctx)
	if err != nil {
		return err
	}
	all, err := j.Jobs(ctx)
	if err != nil {
		return err
	}
	known, err := j.PullStates(ctx)
	pulls := PullsByLink(all, known)
	perDay, active := Usage(all, out.At)
	cost := view.Cap{Name: "cost", Limit: o.MaxCostPerDay}
	if spent := costsOf(charges(all, out.At), o.JobCost); spent.fits(o) {
		cost.Used = float64(spent.sum) / 1e6
	} else {
		cost.Used = max(float64(spent.sum)/1e6, cost.Limit)
	}
	out.Queue = &view.Queue{
		Prompts: countPrompts(projects, prompts.Planned), Jobs: newestJobs(all, pulls, out.At),
		Waiting: waiting(prompts.Planned), Costs: o.JobCost > 0,
		Paused: string(queue.Paused), PausedSince: queue.Since, Problem: prompts.Problem,
		Caps: []view.Cap{
			{Name: "day", Limit: float64(o.MaxPerDay), Used: float64(perDay)},
			{Name: "active", Limit: float64(o.MaxActive), Used: float64(active)},
			{Name: "open_pull_requests", Limit: float64(o.MaxOpenPulls),
				Used: float64(reviewsOf(all, pulls, out.At).used())},
			cost,
		},
	}
	for _, p := range prompts.Planned {
		if p.Why == whyForbidden && !slices.Contains(out.Queue.Refused, p.Project) {
			out.Queue.Refused = append(out.Queue.Refused, p.Project)
		}
	}
	isNew := func(p Planned) bool { return p.Why == whyNewState }
	if slices.ContainsFunc(prompts.Planned, isNew) {
		out.Queue.Paused = string(journal.PausedNewState)
	}
	for _, project := range projects {
		showPulls(project, pulls, out)
	}
	return err
}

// countPrompts counts the prompts by project and state. Invalid files of no configured project count
// for a project without a name.
func countPrompts(projects []string, planned []Planned) []view.StateCount {
	counts := map[view.StateCount]int{}
	for _, p := range planned {
		c := view.StateCount{Project: p.Project, State: string(p.State)}
		if !slices.Contains(projects, p.Project) {
			c.Project = ""
		}
		counts[c]++
	}
	var out []view.StateCount
	for _, project := range projects {
		for _, state := range journal.States() {
			p := view.StateCount{Project: project, State: string(state)}
			p.Count = counts[p]
			out = append(out, p)
		}
	}
	nameless := view.StateCount{State: string(journal.Invalid)}
	if nameless.Count = counts[nameless]; nameless.Count > 0 {
		out = append(out, nameless)
	}
	return out
}

// waiting returns the prompts that are not jobs yet: those that wait, in their order, then those
// whose file is invalid.
func waiting(planned []Planned) (out []view.Job) {
	for _, state := range []journal.State{journal.Pending, journal.Invalid} {
		for _, p := range planned {
			isJob := p.Job != nil && !p.Job.State.Ended()
			if p.State == state && !isJob && len(out) < maxWaiting {
				out = append(out, view.Job{Project: p.Project, Prompt: cmp.Or(p.ID, p.Path), Title: p.Title,
					State: string(p.State), Reason: p.Reason})
			}
		}
	}
	return out
}

// newestJobs returns the newest job of each prompt unless it ended long ago, newest first. If there are more than
// maxShown, the oldest ended jobs are left out first.
func newestJobs(all []journal.Job, pulls map[string]journal.PullRequest, now time.Time) (out []view.Job) {
	var recent []journal.Job
	for _, j := range journal.Newest(all) {
		if !j.State.Ended() || now.Sub(j.Ended) < shownAfterEnd {
			recent = append(recent, j)
		}
	}
	slices.SortFunc(recent, func(a, b journal.Job) int { return cmp.Compare(a.Seq, b.Seq) })
	tooMany := len(recent) - maxShown
	recent = slices.DeleteFunc(recent, func(j journal.Job) bool {
		drop := tooMany > 0 && j.State.Ended()
		if drop {
			tooMany--
		}
		return drop
	})
	slices.Reverse(recent)
	for _, j := range recent[:min(len(recent), maxShown)] {
		out = append(out, view.NewJob(j, pulls, now))
	}
	return out
}

// showPulls adds the pull requests of a project and their results. All of it is derived from the
// pull requests themselves, so a crash counts none twice.
func showPulls(project string, pulls map[string]journal.PullRequest, out *view.Snapshot) {
	counts, review := map[journal.PullState]int{}, view.Review{Project: project}
	merges := view.Histogram{
		Name: "agent_pull_request_merge_seconds", Labels: []string{"project", project}, Buckets: map[int]uint64{},
	}
	var took time.Duration // a sum of floats would depend on the order, and could fall
	for _, p := range pulls {
		if p.Project != project {
			continue
		}
		counts[p.State]++
		switch opened := p.Opened(); {
		case p.State == journal.PullMerged:
			review.Merged++
			// Its times can still change until it is final or has the time it was ready.
			if !opened.IsZero() && (!p.Ready.IsZero() || p.Final) {
				merges.Buckets[view.Bucket(p.Merged.Sub(opened))]++
				took += max(0, p.Merged.Sub(opened))
			}
		case p.State == journal.PullClosed && p.Final:
			review.Closed++
		case p.State.Ended(), opened.IsZero():
		case review.OldestOpen.IsZero() || opened.Before(review.OldestOpen):
			review.OldestOpen = opened
		}
	}
	for _, state := range journal.PullStates() {
		out.Queue.PullRequests = append(out.Queue.PullRequests,
			view.StateCount{Project: project, State: string(state), Count: counts[state]})
	}
	merges.Sum = took.Seconds()
	out.Queue.Reviews = append(out.Queue.Reviews, review)
	out.Histograms = append(out.Histograms, merges)
}
