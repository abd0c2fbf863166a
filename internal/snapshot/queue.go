package snapshot

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	// shownJobs is how many jobs a snapshot has, and shownEnded for how long after
	// its end one is in it.
	shownJobs  = 200
	shownEnded = 30 * 24 * time.Hour
	// shownWaiting is how many prompts a snapshot has that are not jobs yet.
	shownWaiting = 50
)

// Prompts says where the prompts stand, as far as is known.
type Prompts struct {
	Planned []jobs.Planned
	// Problem is why the folder cannot be read, empty if it can.
	Problem string
}

// queue says where the prompt queue stands, if there is one.
func (r *Reader) queue(ctx context.Context, out *view.Snapshot) error {
	if r.Prompts == nil {
		return nil
	}
	now := r.Prompts(ctx)
	q, err := r.State.Queue(ctx)
	if err != nil {
		return err
	}
	all, err := r.State.Jobs(ctx)
	if err != nil {
		return err
	}
	known, err := r.State.PullStates(ctx)
	pulls := jobs.PullsByLink(all, known)
	charged, active := jobs.Usage(all, out.At)
	out.Queue = &view.Queue{
		Prompts: countPrompts(r.Config.Projects, now.Planned), Jobs: newestJobs(all, pulls, out.At),
		Waiting: waiting(now.Planned),
		Paused:  string(q.Paused), PausedSince: q.Since, Problem: now.Problem,
		Caps: []view.Cap{
			{Name: "day", Limit: int(r.Config.MaxJobsPerDay), Used: charged},
			{Name: "active", Limit: int(r.Config.MaxActiveJobs), Used: active},
			{Name: "open_pull_requests", Limit: int(r.Config.MaxOpenPulls), Used: jobs.OpenPulls(all, known, out.At)},
		},
	}
	out.Queue.Costs = r.Config.JobCost > 0
	r.reviews(pulls, out)
	for _, p := range now.Planned {
		if p.Why == jobs.WhyNewState {
			out.Queue.Paused = string(journal.PausedNewState)
		}
	}
	return err
}

// countPrompts counts the prompts by project and state. Prompts of no configured
// project, because their file is invalid, count for a project without a name.
func countPrompts(projects []string, planned []jobs.Planned) []view.Prompts {
	counts := map[view.Prompts]int{}
	for _, p := range planned {
		c := view.Prompts{Project: p.Project, State: string(p.State)}
		if !slices.Contains(projects, p.Project) {
			c.Project = ""
		}
		counts[c]++
	}
	var out []view.Prompts
	for _, project := range projects {
		for _, state := range journal.States() {
			p := view.Prompts{Project: project, State: string(state)}
			p.Count = counts[p]
			out = append(out, p)
		}
	}
	if n := counts[view.Prompts{State: string(journal.Invalid)}]; n > 0 {
		out = append(out, view.Prompts{State: string(journal.Invalid), Count: n})
	}
	return out
}

// waiting returns the prompts that wait to become a job, in their order, and after them
// those that cannot, because their file is invalid.
func waiting(planned []jobs.Planned) (out []view.Job) {
	for _, state := range []journal.State{journal.Pending, journal.Invalid} {
		for _, p := range planned {
			job := p.Job != nil && !p.Job.State.Ended() // newestJobs has it
			if p.State == state && !job && len(out) < shownWaiting {
				name := cmp.Or(p.ID, p.Path)
				out = append(out, view.Job{Project: p.Project, Prompt: name, Title: p.Title, State: string(p.State),
					Reason: p.Reason})
			}
		}
	}
	return out
}

// newestJobs returns the newest job of each prompt, newest first: a bounded number of
// jobs that go on or ended lately.
func newestJobs(all []journal.Job, pulls map[string]journal.PullRequest, now time.Time) []view.Job {
	var kept []journal.Job
	for _, j := range journal.Newest(all) {
		if !j.State.Ended() || now.Sub(j.Ended) < shownEnded {
			kept = append(kept, j)
		}
	}
	slices.SortFunc(kept, func(a, b journal.Job) int { return cmp.Compare(b.Seq, a.Seq) })
	var out []view.Job
	for _, j := range kept[:min(len(kept), shownJobs)] {
		out = append(out, view.NewJob(j, pulls, now))
	}
	return out
}

// reviews counts the pull requests of each project, and says what became of them. All of it
// follows from the pull requests as they are kept, so a kill counts none twice.
func (r *Reader) reviews(pulls map[string]journal.PullRequest, out *view.Snapshot) {
	counts := map[view.PullRequests]int{}
	reviews, merges := map[string]*view.Review{}, map[string]*view.Histogram{}
	took := map[string]time.Duration{} // a sum of floats would depend on the order, and fall
	for _, project := range r.Config.Projects {
		reviews[project] = &view.Review{Project: project}
		merges[project] = &view.Histogram{
			Name: "agent_pull_request_merge_seconds", Labels: []string{"project", project}, Buckets: map[int]uint64{},
		}
	}
	for _, p := range pulls {
		review := reviews[p.Project]
		if review == nil {
			continue
		}
		counts[view.PullRequests{Project: p.Project, State: string(p.State)}]++
		switch opened := p.Opened(); {
		case p.State == journal.PullMerged:
			review.Merged++
			// Once one of the two is so, its times stay as they are.
			if !opened.IsZero() && (!p.Ready.IsZero() || p.Final) {
				merges[p.Project].Buckets[view.Bucket(p.Merged.Sub(opened))]++
				took[p.Project] += max(0, p.Merged.Sub(opened))
			}
		case p.State == journal.PullClosed && p.Final:
			review.Closed++
		case p.State.Ended(), opened.IsZero():
		case review.OldestOpen.IsZero() || opened.Before(review.OldestOpen):
			review.OldestOpen = opened
		}
	}
	for _, project := range r.Config.Projects {
		for _, state := range journal.PullStates() {
			c := view.PullRequests{Project: project, State: string(state)}
			c.Count = counts[c]
			out.Queue.PullRequests = append(out.Queue.PullRequests, c)
		}
		out.Queue.Reviews = append(out.Queue.Reviews, *reviews[project])
		merges[project].Sum = took[project].Seconds()
		out.Histograms = append(out.Histograms, *merges[project])
	}
}
