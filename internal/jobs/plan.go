package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// Why is the reason why a prompt waits, for programs. Planned.Reason is the text for people.
type Why string

// The reasons why a prompt waits.
const (
	whyNext        Why = ""                   // nothing: it is sent by the next pass, or was sent
	whyInvalid     Why = "invalid"            // its file breaks a rule
	WhyChanging    Why = "settling"           // its file has just changed
	whyGone        Why = "gone"               // its file is gone
	whyNotBefore   Why = "not_before"         // that time
	whyFiring      Why = "firing"             // the next firing of its schedule
	whyRetry       Why = "retry"              // the time of the next try
	whyDependency  Why = "depends_on"         // a prompt that is not completed
	whyConcurrency Why = "concurrency"        // a job of the same concurrency key
	whyProject     Why = "project"            // the service, or the budget, accepts nothing of its project for a time
	whyForbidden   Why = "forbidden"          // the service refuses its project with this key
	whyPerDay      Why = "per_day"            // the cap on jobs per day
	whyCost        Why = "cost_per_day"       // the cap on the cost of a day
	whyActive      Why = "active"             // the cap on active jobs
	whyOpenPulls   Why = "open_pull_requests" // the cap on open pull requests
	whyReviewAge   Why = "review_age"         // the cap on their age
	whyPaused      Why = "paused"             // the end of the queue's pause
	whyNewState    Why = "new_state"          // the operator: the state has no job
	whyRender      Why = "template"           // its template cannot be filled in
	whyOperator    Why = "operator"           // the operator
)

// passes reports whether the wait ends soon without a person.
func (w Why) passes() bool {
	switch w {
	case whyNext, WhyChanging, whyRetry, whyProject, whyPerDay, whyCost:
		return true
	}
	return false
}

// Planned is the state of a prompt: its file and its newest job.
type Planned struct {
	ID      string        `json:"id"`
	Path    string        `json:"path"`
	Project string        `json:"project"`
	Title   string        `json:"title,omitempty"`
	State   journal.State `json:"state"`
	// Why is the reason why it waits. Reason is the reason and the remedy, for people. Until
	// is the end of the wait, if known.
	Why    Why       `json:"why,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"`
	// Place is its place among those that wait to be submitted, from 1.
	Place int `json:"place,omitempty"`
	// Firing is the firing of the next job of a recurring prompt.
	Firing time.Time `json:"firing,omitzero"`
	// Drifted: the file was edited since it was sent. Gone: it no longer exists.
	Drifted bool `json:"drifted,omitempty"`
	Gone    bool `json:"gone,omitempty"`
	// Text and FollowUps are the texts to send, Unrendered is the reason why they are unknown.
	// Only Plan sets them, for pending prompts.
	Text       string   `json:"text,omitempty"`
	FollowUps  []string `json:"follow_ups,omitempty"`
	Unrendered string   `json:"template_error,omitempty"`
	// Job is the newest job, nil before the first.
	Job *journal.Job `json:"job,omitempty"`

	prompt prompts.Prompt
}

// Ready reports whether it would be submitted now.
func (p Planned) Ready() bool { return p.Place > 0 && p.Why == whyNext }

func (p *Planned) wait(b blocker) { p.Why, p.Reason, p.Until = b.why, b.reason, b.ends }

// Plan returns every prompt with its state, the reason why it waits and, if it is pending,
// the text to send. It changes nothing.
func Plan(ctx context.Context, o Options, j jobStore, found prompts.Scanned) ([]Planned, error) {
	s, err := readState(ctx, o, j, found)
	if err != nil {
		return nil, err
	}
	texts, unrendered := map[string]prompts.Rendered{}, map[string]error{}
	for _, p := range s.plan(o, found, nil) {
		if p.prompt.ID == "" || p.State != journal.Pending {
			continue
		}
		if texts[p.ID], err = p.render(ctx, o, s.now); err != nil {
			unrendered[p.ID] = err
		}
	}
	all := s.plan(o, found, unrendered)
	for i := range all {
		p := &all[i]
		p.Text, p.FollowUps = texts[p.ID].Text, texts[p.ID].FollowUps
		if err := unrendered[p.ID]; err != nil {
			p.Unrendered = err.Error()
		}
	}
	return all, nil
}

// render returns the texts to send: for a recurring prompt, as of its firing.
func (p Planned) render(ctx context.Context, o Options, now time.Time) (prompts.Rendered, error) {
	if !p.Firing.IsZero() {
		now = p.Firing
	}
	return prompts.Render(ctx, p.prompt, now, o.Numbers)
}

// plan returns the state of every prompt: first those that wait to be submitted, in
// their order, then the others by path. unrendered has the prompts, by id, whose template
// cannot be filled in now.
func (s *queueState) plan(o Options, found prompts.Scanned, unrendered map[string]error) []Planned {
	const justChanged = "its file has just changed: it counts once two scans saw it unchanged"
	var all []Planned
	known, renames := map[string]bool{}, s.renames(found)
	for _, p := range found.Prompts {
		known[p.ID] = true
		all = append(all, s.planPrompt(p, renames, unrendered[p.ID]))
	}
	for _, p := range found.Invalid {
		known[p.ID] = true
		finding, _ := found.Finding(p.Path)
		out := Planned{ID: p.ID, Path: p.Path, Project: p.Project, Title: p.Title,
			State: journal.Invalid, Why: whyInvalid, Reason: finding.String()}
		if job, ok := s.newest[p.ID]; ok {
			out.Job = &job
			if job.State != journal.Pending {
				out.State, out.Why = job.State, whyNext
				out.addRemedy(job)
			}
		}
		all = append(all, out)
	}
	changing := map[string]bool{}
	for _, path := range found.Changing {
		changing[path] = true
	}
	for id, job := range s.newest {
		isChanging := changing[job.Path]
		ofInterest := !job.State.Ended() && (job.State != journal.Held || job.RenamedFrom == "")
		if known[id] || !ofInterest && !isChanging {
			continue
		}
		delete(changing, job.Path)
		out := Planned{ID: id, Path: job.Path, Project: job.Project, Title: job.Title, Job: &job,
			State: job.State, Reason: job.Reason, Gone: !isChanging}
		switch {
		case isChanging:
			out.Why, out.Reason = WhyChanging, justChanged
		case job.State == journal.Pending || job.State == journal.Held:
			out.Why, out.Reason = whyGone, "its file is gone: put it back, or docgauge jobs cancel "+id
		default:
			out.addRemedy(job)
		}
		all = append(all, out)
	}
	for path := range changing {
		all = append(all, Planned{ID: path, Path: path, State: journal.Pending, Why: WhyChanging, Reason: justChanged})
	}

	// The prompts that wait to be submitted get their places, and as many are let through as
	// their dependencies, the caps and the service allow.
	var waiting []*Planned
	states := make(map[string]journal.State, len(all))
	for i := range all {
		p := &all[i]
		states[p.ID] = p.State
		if p.Why == whyNext && p.State == journal.Pending {
			waiting = append(waiting, p)
		}
	}
	a := s.admission(o)
	for i, p := range s.inOrder(waiting) {
		p.Place = i + 1
		b := s.dependency(p, states)
		if b.why == whyNext {
			b = a.admit(p)
		}
		p.wait(b)
	}
	slices.SortFunc(all, func(a, b Planned) int {
		if a.Place > 0 && b.Place > 0 {
			return a.Place - b.Place
		}
		return cmp.Or(b.Place-a.Place, strings.Compare(a.Path, b.Path)) // no place is 0
	})
	return all
}

// planPrompt returns the state of a prompt without regard to others.
func (s *queueState) planPrompt(p prompts.Prompt, renames renames, unrendered error) Planned {
	out := Planned{ID: p.ID, Path: p.Path, Project: p.Project, Title: p.Title, State: journal.Pending, prompt: p}
	job, begun := s.newest[p.ID]
	if begun {
		out.Job = &job
		out.Drifted = !p.Recurs() && job.Digest != "" && job.Digest != p.Digest &&
			job.State != journal.Pending && job.State != journal.Held
	}
	if waits := job.State == journal.Pending || p.Recurs() && job.State.Ended(); begun && !waits {
		out.State, out.Reason = job.State, job.Reason
		if resubmits(p, job) {
			out.Why, out.Reason = whyRetry, out.Reason+"; it is sent again (on_unknown: resubmit)"
			return out
		}
		out.addRemedy(job)
		return out
	}
	if from := renames.from(p, job); from != "" {
		held := holdRenamed(p, job, from, s.now).Job
		out.State, out.Reason = held.State, held.Reason
		out.addRemedy(held)
		return out
	}
	if p.Recurs() {
		due, next := s.firing(p)
		if job.State == journal.Pending && due.IsZero() {
			due = job.Firing // it waits for another try, or for its time
		}
		if out.Firing = due; due.IsZero() {
			out.Firing = next
		}
	}
	switch retries := job.State == journal.Pending && job.Firing.Equal(out.Firing); {
	case expired(p, s.now) || p.Recurs() && out.Firing.IsZero():
		out.State, out.Reason, out.Firing = journal.Expired, "its time was over at "+format.Time(p.Expires), time.Time{}
	case p.NotBefore.After(s.now):
		out.wait(blocker{whyNotBefore, "not before " + format.Time(p.NotBefore), p.NotBefore})
	case out.Firing.After(s.now):
		out.wait(blocker{whyFiring, "next firing at " + format.Time(out.Firing), out.Firing})
	case retries && s.isAhead(job.Next):
		out.wait(blocker{whyRetry, job.Reason + "; next try at " + format.Time(job.Next), job.Next})
	case unrendered != nil:
		out.wait(because(whyRender, "%v", unrendered))
	}
	return out
}

// resubmits reports whether a job in doubt is sent again automatically: once, and only if the
// text is the same.
func resubmits(p prompts.Prompt, job journal.Job) bool {
	return job.State == journal.Unknown && job.Resubmit && p.Resubmit && job.Digest == p.Digest
}

// addRemedy adds the remedy for a job that does not wait to be submitted.
func (p *Planned) addRemedy(job journal.Job) {
	remedy := Remedy(job)
	switch {
	case remedy != "":
		p.Why = whyOperator
	case job.State == journal.Held:
		p.Why, remedy = whyOperator, "docgauge jobs release "+job.Prompt+" lets it continue"
	case p.Drifted:
		remedy = "its file was edited since: docgauge jobs retry " + job.Prompt + " sends it as it is now"
	default:
		return
	}
	if p.Reason != "" {
		p.Reason += "; "
	}
	p.Reason += remedy
}

// Remedy returns the commands that resolve a job that is unknown, or held because it
// looks renamed. It is empty for any other job.
func Remedy(j journal.Job) string {
	switch {
	case j.State == journal.Held && j.RenamedFrom != "":
		return fmt.Sprintf("docgauge jobs release %s sends it, docgauge jobs resolve %[1]s --drop counts it as done",
			j.Prompt)
	case j.State == journal.Unknown && j.Sending:
		return fmt.Sprintf("look for the message in job %s, then: docgauge jobs resolve %d --job-id %[1]s (it is "+
			"there), --resubmit (it is not: send it again) or --drop (continue without it)", j.JobID, j.Seq)
	case j.State == journal.Unknown:
		return fmt.Sprintf("look for it at the service, then: docgauge jobs resolve %d --job-id ID (it is there), "+
			"--resubmit (it is not: send it again) or --drop (give it up)", j.Seq)
	}
	return ""
}

// inOrder takes the projects in turn, beginning with the project after the last job's. Within a project prompts that
// do not recur come first, by path, then the oldest firing.
func (s *queueState) inOrder(waiting []*Planned) []*Planned {
	slices.SortFunc(waiting, func(a, b *Planned) int {
		return cmp.Or(strings.Compare(a.Project, b.Project), a.Firing.Compare(b.Firing),
			strings.Compare(a.Path, b.Path))
	})
	rank := make(map[*Planned]int, len(waiting)) // within its project
	for i, p := range waiting {
		if i > 0 && waiting[i-1].Project == p.Project {
			rank[p] = rank[waiting[i-1]] + 1
		}
	}
	last := s.lastBegun().Project
	slices.SortStableFunc(waiting, func(a, b *Planned) int {
		if before := a.Project > last; rank[a] == rank[b] && before != (b.Project > last) {
			if before {
				return -1
			}
			return 1
		}
		return rank[a] - rank[b]
	})
	return waiting
}

// dependency is the first prompt that must be completed, or merged, before p and is not.
func (s *queueState) dependency(p *Planned, states map[string]journal.State) blocker {
	for _, id := range p.prompt.DependsOn {
		job, ok := s.newest[id]
		ended := ok && job.State.Ended()
		if !slices.Contains(p.prompt.Merged, id) {
			switch {
			case ended && job.State == journal.Completed:
				continue
			case ended:
				return because(whyDependency, "waits for %s to be completed, and that is %s: docgauge jobs retry %s",
					id, job.State, id)
			}
			return because(whyDependency, "waits for %s to be completed: it is %s", id, states[id])
		}
		// A pull request that was closed instead of merged holds the prompt: without the change
		// that it builds on it must not begin.
		wait := "waits for the pull request of " + id + " to be merged"
		switch pull := s.pulls[job.PRLink]; {
		case !ended:
			return because(whyDependency, "%s: the job is %s", wait, states[id])
		case job.PRLink == "":
			return because(whyDependency,
				"%s, and that is %s without one: docgauge jobs retry %s, or remove when: merged", wait, job.State, id)
		case pull.State == journal.PullMerged:
		case pull.State == journal.PullClosed:
			return because(whyDependency,
				"%s, and it was closed without that (%s): docgauge jobs retry %s, or remove when: merged",
				wait, job.PRLink, id)
		case pull.Problem != "":
			return because(whyDependency, "%s (%s): it is %s, %s", wait, job.PRLink, pull.State, pull.Problem)
		default:
			return because(whyDependency, "%s (%s): it is %s", wait, job.PRLink, pull.State)
		}
	}
	return blocker{}
}

// named names a job in a sentence.
func named(j journal.Job) string {
	if j.Seq == 0 {
		return "prompt " + j.Prompt // it has no job yet
	}
	return fmt.Sprintf("job %d of prompt %s", j.Seq, j.Prompt)
}
