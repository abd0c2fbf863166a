package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// Result counts the actions of a pass, and has the state of the queue after it.
type Result struct {
	// Created and Messages count the creates and follow-ups that the service accepted,
	// Ended the jobs that ended.
	Created, Messages, Ended int

	Planned []Planned
	Queue   journal.Queue
	// Following counts the jobs at work. Next is when one of them is read next.
	Following int
	Next      time.Time
}

// isIdle reports whether nothing more happens soon without a person: no job is at work, and
// every waiting prompt waits for a person, for another such prompt, or for its time.
func (r Result) isIdle() bool {
	for _, p := range r.Planned {
		waits := p.State == journal.Pending || p.State == journal.Unknown && r.Queue.Paused == ""
		if waits && p.Why.passes() {
			return false
		}
	}
	return r.Following == 0
}

// plus adds the counts of a later pass, whose state of the queue it takes.
func (r Result) plus(later Result) Result {
	later.Created += r.Created
	later.Messages += r.Messages
	later.Ended += r.Ended
	return later
}

// pass is one pass over the prompts and their jobs.
type pass struct {
	q      *Queue
	state  *queueState // as the last step left the journal
	found  prompts.Scanned
	result Result
	// unrendered are prompts, by id, whose template cannot be filled in now.
	unrendered map[string]error
	// raced are prompts, by id, that an operator changed while they were to be sent.
	raced map[string]bool
	// forbidden has the creates and messages that the service refused with 403, by the number of the job.
	forbidden map[int64]outcome
	// answered: the service answered a read.
	answered bool
	// links are the links of pull requests in the spelling of the journal, by key; nil until
	// one is needed.
	links map[string]string
	// completed are jobs, by number, that are completed and have follow-ups left.
	completed []int64
}

// pass makes one pass: it reads jobs, sends the follow-ups of completed jobs, and submits the prompts that may go.
// After the end of ctx a call under way is finished, and nothing new begins. The error is ErrNewState, or an error
// of the journal; then nothing was sent without an intent in the journal.
func (q *Queue) pass(ctx context.Context, found prompts.Scanned) (Result, error) {
	p := &pass{q: q, found: found, unrendered: map[string]error{}, raced: map[string]bool{}}
	err := p.run(ctx)
	if p.state == nil {
		return p.result, err
	}
	p.result.Planned, p.result.Queue = p.state.plan(q.opt, found, p.unrendered), p.state.queue
	for _, job := range p.state.jobs {
		if job.State != journal.Active && job.State != journal.Submitting {
			continue
		}
		p.result.Following++
		if next := p.result.Next; job.State == journal.Active && (next.IsZero() || job.Next.Before(next)) {
			p.result.Next = job.Next
		}
	}
	return p.result, err
}

func (p *pass) run(ctx context.Context) error {
	q := p.q
	if err := q.Recover(ctx); err != nil {
		return err
	}
	if err := q.Flush(ctx); err != nil {
		return err
	}
	if err := q.journal.Present(); err != nil {
		return err
	}
	if !q.compared {
		if err := q.opt.Restored(ctx); err != nil {
			return err
		}
		q.compared = true
	}
	if err := p.reload(ctx); err != nil {
		return err
	}
	steps := []func(context.Context) error{p.correctTimes, p.poll, p.resume, p.sendFollowUps, p.adopt, p.tidy, p.submit}
	for _, step := range steps {
		if ctx.Err() != nil {
			break
		}
		if q.opt.Clock() != nil { // it may be right by now, and without a read nothing else shows that
			if _, err := q.opt.Confirm(ctx); err != nil {
				return err
			}
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return p.judgeForbidden(context.WithoutCancel(ctx))
}

// reload reads the journal again, even after the end of ctx.
func (p *pass) reload(ctx context.Context) error {
	s, err := readState(context.WithoutCancel(ctx), p.q.opt, p.q.journal, p.found)
	if err == nil {
		p.state = s
	}
	return err
}

// apply makes changes, unless the operator was faster. The next pass then prepares them anew.
func (p *pass) apply(ctx context.Context, changes ...journal.Change) (made bool, err error) {
	if len(changes) == 0 {
		return true, nil
	}
	_, err = p.q.apply(ctx, changes...)
	if isRaced(err) {
		return false, nil
	}
	return err == nil, err
}

func (p *pass) applyAndReload(ctx context.Context, changes ...journal.Change) error {
	if _, err := p.apply(ctx, changes...); err != nil {
		return err
	}
	return p.reload(ctx)
}

// correctTimes moves times of the future to now: the clock was set back. They would count against the cap
// per day, or keep a pause or a release, for as long as the clock was wrong. A clock that is behind now shows
// right times as future ones, and would empty the caps: nothing changes before the service confirms the clock.
func (p *pass) correctTimes(ctx context.Context) error {
	at := p.state.now
	var changes []journal.Change
	for _, job := range p.state.jobs {
		if job.Charged.After(at) {
			job.Charged = at
			changes = append(changes, journal.Change{Job: job, From: job.State})
		}
	}
	queue := p.state.queue
	// A later pause must not count as released or answered before it began.
	for _, t := range []*time.Time{&queue.Answered, &queue.Released} {
		switch {
		case !t.After(at):
		case queue.Paused == "" || t.Before(queue.Since):
			*t = time.Time{}
		default:
			*t = at
		}
	}
	if queue.Since.After(at) {
		queue.Since = at
	}
	if queue != p.state.queue {
		changes = append(changes, journal.Change{Queue: &queue})
	}
	if len(changes) == 0 {
		return nil
	}
	if confirmed, err := p.q.opt.Confirm(ctx); !confirmed {
		return err
	}
	p.q.opt.Logger.Warn("the clock was ahead until it was set back: times of the queue in the future count as now")
	return p.applyAndReload(ctx, changes...)
}

const newStateChoices = "set DOCGAUGE_PROMPTS_ON_NEW_STATE=submit once to send them, " +
	"or =skip if they were sent before (they then count as done)"

// ErrNewState: there are prompts, and a journal without any job. If the state was lost
// all of them would be sent a second time.
var ErrNewState error = newStateError("prompt files exist, but this state has no job history: " + newStateChoices)

// errRestored is an ErrNewState too.
var errRestored error = newStateError("this state comes from an older backup: prompts were sent that it does " +
	"not know of. For those that it takes for unsent, " + newStateChoices + "; then set it back to refuse")

type newStateError string

func (e newStateError) Error() string { return string(e) }

func (newStateError) Is(target error) bool { return target == ErrNewState }

// refusal is why nothing is sent while the queue is not adopted.
func refusal(q journal.Queue) error {
	if q.Restored {
		return errRestored
	}
	return ErrNewState
}

// adopt makes sure that the queue knows its state. Without prompts it decides nothing.
func (p *pass) adopt(ctx context.Context) error {
	s, q := p.state, p.q
	all := slices.Concat(p.found.Prompts, p.found.Invalid)
	if s.queue.Adopted || len(all) == 0 {
		if q.opt.OnNewState == Submit && len(s.jobs) > 0 && !q.warned {
			q.warned = true
			q.opt.Logger.Warn("DOCGAUGE_PROMPTS_ON_NEW_STATE=submit is still set: if the state is lost or restored, " +
				"every prompt is sent again without a question; set it back to refuse")
		}
		return nil
	}
	queue, restored := s.queue, s.queue.Restored
	queue.Adopted, queue.Restored = true, false
	changes := []journal.Change{{At: s.now, Queue: &queue}}
	switch {
	case q.opt.OnNewState == Submit:
		changes[0].Cause = "new state: its prompts are sent"
	case q.opt.OnNewState != Skip:
		return refusal(s.queue)
	case len(p.found.Changing) > 0:
		return newStateError(fmt.Sprintf("prompt files exist, but this state has no job history: %d files have just "+
			"changed; they count as done with the others once they stay unchanged", len(p.found.Changing)))
	default:
		changes[0].Cause = fmt.Sprintf("new state: %d prompts count as done", len(all))
		done := map[string]bool{} // an invalid id can come twice
		for _, file := range all {
			// One that recurs continues with its next firing.
			former, known := s.newest[file.ID]
			if !restored && (known || file.Recurs()) || done[file.ID] {
				continue
			}
			done[file.ID] = true
			job, from := newJob(file, journal.Completed), journal.State("")
			job.Reason, job.Ended = "it counted as done when this state was new; it was not sent", s.now
			switch {
			case former.State == journal.Pending:
				from = former.State
				job.Seq, job.Version, job.Firing, job.Try = former.Seq, former.Version, former.Firing, former.Try
			case file.Recurs():
				if job.Firing, _ = s.firing(file); job.Firing.IsZero() {
					continue
				}
			case known:
				continue
			}
			changes = append(changes, journal.Change{Job: job, From: from, At: s.now, Cause: job.Reason})
		}
		for _, job := range s.jobs {
			if restored && job.State == journal.Active && !job.Sending && job.Sent < job.Messages {
				job.Sent = job.Messages
				changes = append(changes, journal.Change{Job: job, From: job.State, At: s.now,
					Cause: "its follow-ups count as sent: the state was restored"})
			}
		}
	}
	if _, err := q.apply(ctx, changes...); err != nil {
		return err
	}
	q.opt.Logger.Info("new state adopted", "policy", q.opt.OnNewState, "prompts", len(all))
	return p.reload(ctx)
}

// tidy makes the transitions that need no call of the service: recurring prompts are
// recorded, renamed ones held, jobs whose time is over expire, and those in doubt whose
// prompts ask for it get another try.
func (p *pass) tidy(ctx context.Context) error {
	s := p.state
	if !s.queue.Adopted {
		return nil
	}
	changed, renames := false, s.renames(p.found)
	for _, file := range p.found.Prompts {
		if file.Recurs() {
			known, ok := s.recurring[file.ID]
			if spec := file.Schedule.String(); !ok || known.Schedule != spec || known.Since.After(s.now) {
				if confirmed, err := p.q.opt.Confirm(ctx); !confirmed {
					return err
				}
				changed = true
				if err := p.q.journal.See(ctx, file.ID, spec, s.now); err != nil {
					return err
				}
			}
		}
		changes := p.transitions(renames, file)
		if len(changes) > 0 {
			if confirmed, err := p.q.opt.Confirm(ctx); !confirmed {
				return err
			}
		}
		changed = changed || len(changes) > 0
		if _, err := p.apply(ctx, changes...); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	return p.reload(ctx)
}

// transitions returns the transitions of the newest job of a prompt that need no call.
func (p *pass) transitions(renames renames, file prompts.Prompt) []journal.Change {
	s := p.state
	job, ok := s.newest[file.ID]
	if from := renames.from(file, job); from != "" {
		held := holdRenamed(file, job, from, s.now)
		p.q.opt.Logger.Warn("prompt held: it looks renamed", "prompt", file.ID, "renamed_from", from, "remedy",
			Remedy(held.Job))
		return []journal.Change{held}
	}
	expiry := ""
	switch {
	case !ok:
		return nil
	case job.State == journal.Pending && expired(file, s.now):
		expiry = "its time was over at " + format.Time(file.Expires)
	case job.State == journal.Pending && file.Recurs():
		if due, _ := s.firing(file); !due.IsZero() && due.After(job.Firing) {
			expiry = "its firing was missed: the firing of " + format.Time(due) + " takes its place"
		}
	case resubmits(file, job) && s.queue.Paused == "":
		return tryAgain(job, s.now, "on_unknown: resubmit", false)
	}
	if expiry == "" {
		return nil
	}
	job.State, job.Reason, job.Ended = journal.Expired, expiry, s.now
	return []journal.Change{{Job: job, From: journal.Pending, At: s.now, Cause: expiry}}
}

// tryAgain gives a job that has ended, or is in doubt, another try; or sends a
// follow-up in doubt again. resubmit allows one more automatic try.
func tryAgain(job journal.Job, now time.Time, cause string, resubmit bool) []journal.Change {
	if job.State == journal.Unknown && job.Sending {
		job.State, job.Sending, job.InDoubt, job.Resubmit = journal.Active, false, false, resubmit
		job.Reason, job.Next = cause+": "+followUpName(job)+" is sent again", time.Time{}
		return []journal.Change{{Job: job, From: journal.Unknown, At: now, Cause: job.Reason}}
	}
	var changes []journal.Change
	if job.State == journal.Unknown {
		old := job
		old.State, old.Ended = journal.Cancelled, now
		old.Reason = fmt.Sprintf("%s: try %d takes its place; the service may have accepted this one", cause, job.Try+1)
		changes = append(changes, journal.Change{Job: old, From: journal.Unknown, At: now, Cause: old.Reason})
	}
	next := journal.Job{
		Prompt: job.Prompt, Firing: job.Firing, Try: job.Try + 1, Project: job.Project, Title: job.Title,
		Path: job.Path, Digest: job.Digest, ConcurrencyKey: job.ConcurrencyKey, Resubmit: resubmit,
		Pages: job.Pages, State: journal.Pending, Reason: cause,
	}
	return append(changes, journal.Change{Job: next, At: now, Cause: fmt.Sprintf("try %d: %s", next.Try, cause)})
}
