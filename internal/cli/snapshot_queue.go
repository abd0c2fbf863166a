package cli

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

const (
	// shownJobs is how many jobs a snapshot has, and shownEnded for how long after
	// its end one is in it.
	shownJobs  = 200
	shownEnded = 30 * 24 * time.Hour
	// maxLink is the longest link to a pull request that is shown, in characters.
	maxLink = 300
)

// standing is how the prompts stand, as far as is known.
type standing struct {
	planned []jobs.Planned
	problem string // why the folder cannot be read
}

// lookAtPrompts is how they stand for a process that does not run the queue.
func (s *snapshots) lookAtPrompts(ctx context.Context) (out standing) {
	folder, err := prompts.Open(s.PromptsDir, s.rules())
	if err != nil {
		return standing{problem: err.Error()}
	}
	found, err := folder.Lint()
	if err == nil {
		out.planned, err = jobs.Plan(ctx, queueConfig(s.config, s.now, nil), s.db, found)
	}
	if err != nil {
		out.problem = err.Error()
	}
	return out
}

// queue says how the prompt queue stands, where there is one.
func (s *snapshots) queue(ctx context.Context, out *exporter.Snapshot) error {
	if s.PromptsDir == "" {
		return nil
	}
	look := s.lookAtPrompts
	if s.prompts != nil {
		look = func(context.Context) standing { return s.prompts() }
	}
	now := look(ctx)
	q, err := s.db.Queue(ctx)
	if err != nil {
		return err
	}
	all, err := s.db.Jobs(ctx)
	out.Queue = &exporter.Queue{Prompts: countPrompts(s.Projects, now.planned), Jobs: newestJobs(all, out.At), Paused: string(q.Paused), Problem: now.problem}
	out.Queue.Caps = s.caps(all, out.At)
	for _, p := range now.planned {
		if p.Why == jobs.WhyNewState {
			out.Queue.Paused = string(journal.PausedNewState)
		}
	}
	return err
}

func (s *snapshots) caps(all []journal.Job, now time.Time) []exporter.Cap {
	charged, active := jobs.Usage(all, now)
	return []exporter.Cap{
		{Name: "day", Limit: int(s.MaxJobsPerDay), Used: charged},
		{Name: "active", Limit: int(s.MaxActiveJobs), Used: active},
	}
}

// promptStates are the states that are counted, in the order they are shown in.
var promptStates = []journal.State{
	journal.Pending, journal.Submitting, journal.Active, journal.Unknown, journal.Held, journal.Invalid, journal.Rejected,
	journal.Failed, journal.Lost, journal.Archived, journal.Completed, journal.Cancelled, journal.Expired,
}

// countPrompts counts those that are of no configured project, because their file
// is wrong, as of a project without a name.
func countPrompts(projects []string, planned []jobs.Planned) []exporter.Prompts {
	counts := map[exporter.Prompts]int{}
	for _, p := range planned {
		c := exporter.Prompts{Project: p.Project, State: string(p.State)}
		if !slices.Contains(projects, p.Project) {
			c.Project = ""
		}
		counts[c]++
	}
	var out []exporter.Prompts
	for _, project := range projects {
		for _, state := range promptStates {
			p := exporter.Prompts{Project: project, State: string(state)}
			p.Count = counts[p]
			out = append(out, p)
		}
	}
	if n := counts[exporter.Prompts{State: string(journal.Invalid)}]; n > 0 {
		out = append(out, exporter.Prompts{State: string(journal.Invalid), Count: n})
	}
	return out
}

// newestJobs returns the newest job of each prompt, newest first: those that go
// on and those that ended lately, a bounded number.
func newestJobs(all []journal.Job, now time.Time) []exporter.Job {
	newest := map[string]journal.Job{}
	for _, j := range all {
		if other, ok := newest[j.Prompt]; !ok || j.Newer(other) {
			newest[j.Prompt] = j
		}
	}
	kept := make([]journal.Job, 0, len(newest))
	for _, j := range newest {
		if !j.State.Ended() || now.Sub(j.Ended) < shownEnded {
			kept = append(kept, j)
		}
	}
	slices.SortFunc(kept, func(a, b journal.Job) int { return cmp.Compare(b.Seq, a.Seq) })
	var out []exporter.Job
	for _, j := range kept[:min(len(kept), shownJobs)] {
		out = append(out, exporter.Job{
			Project: j.Project, Prompt: j.Prompt, Title: j.Title, State: string(j.State), Status: j.Status, ID: j.JobID, Reason: j.Reason,
			PRLink: shownLink(j.PRLink), Model: j.Model, Repository: j.Repository, Ref: j.Ref,
			Created: j.Created, Ended: j.Ended, Stalled: j.Stalled(now),
		})
	}
	return out
}

// shownLink returns a link that may be shown and followed: https, or of this
// machine, and not too long.
func shownLink(link string) string {
	u, err := url.Parse(link)
	if err != nil || len([]rune(link)) > maxLink {
		return ""
	}
	if u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()) {
		return link
	}
	return ""
}
