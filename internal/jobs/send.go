package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/journal"
)

// planAge is how long prompts are sent by one plan, at most.
const planAge = 5 * time.Second

// submit creates the jobs of the prompts that may go, one after the other. A plan admits prompts as if those
// before them had been accepted, so it holds for as long as they are, the queue is unchanged, and it is new:
// a plan for each prompt would cost the square of the folder. Whatever else an operator does at that time
// makes more prompts ready, or concerns the job that is entered, which the journal then refuses.
func (p *pass) submit(ctx context.Context) error {
	for ctx.Err() == nil {
		sent, err := p.submitPlanned(ctx)
		if err != nil {
			return err
		}
		if !sent {
			break
		}
	}
	return nil
}

// judgeForbidden decides, once nothing more can be sent, what the service refused with 403. It is a project, which
// waits by itself, if the service has accepted a create or a message with the same key. Otherwise it is the key:
// then the queue pauses, and the jobs wait for nothing else. A pass that a reload ends decides it too: the next one
// may have another key.
func (p *pass) judgeForbidden(ctx context.Context) error {
	queue := p.state.queue
	if p.forbidden == nil || queue.Paused != "" {
		return nil
	}
	var changes []journal.Change
	var last outcome
	for _, job := range p.state.jobs {
		o := p.forbidden[job.Seq]
		accepted := o.keyMark == queue.KeyMark && o.keyMark != ""
		if o.err != nil && !accepted && p.state.blocks(job) {
			last = o
			job.Next, job.Blocked, job.Refusals = time.Time{}, time.Time{}, 0
			changes = append(changes, journal.Change{Job: job, From: job.State})
		}
	}
	if last.err == nil {
		return nil
	}
	return p.applyAndReload(ctx, append(changes, p.q.pauseForKey(queue, last.keyMark, true, last.err))...)
}

// submitPlanned makes a plan and creates jobs by it for as long as it holds. It reports whether it did
// anything, so that another plan may differ.
func (p *pass) submitPlanned(ctx context.Context) (acted bool, err error) {
	for _, next := range p.state.plan(p.q.opt, p.found, p.unrendered) {
		if !next.Ready() || p.raced[next.ID] {
			continue
		}
		// By a clock that is ahead, the charges of today are old, and the caps have room. A service that
		// cannot be asked would hardly get the create; the answer to one that it does get decides the next.
		if _, err = p.q.opt.Confirm(ctx); err != nil || ctx.Err() != nil {
			break
		}
		if now := p.q.now(); acted && (now.Sub(p.state.now).Abs() >= planAge || expired(next.prompt, now)) {
			break
		}
		acted = true
		text, unrendered := next.render(ctx, p.q.opt, p.state.now)
		if unrendered != nil {
			p.unrendered[next.ID] = unrendered
			continue
		}
		// The operator may have paused the queue since the plan: the question and the template can take seconds.
		queue, failed := p.q.journal.Queue(ctx)
		if err = failed; err != nil || queue.Version != p.state.queue.Version {
			break
		}
		job, from := newJob(next.prompt, journal.Submitting), journal.State("")
		job.Firing = next.Firing
		// If the journal already has a pending job for this try, that one is sent.
		former := p.state.newest[next.ID]
		if former.State == journal.Pending && (former.Firing.Equal(next.Firing) || !next.prompt.Recurs()) {
			from = former.State
			job.Seq, job.Version, job.Refusals = former.Seq, former.Version, former.Refusals
			job.Firing, job.Try, job.RenamedFrom = former.Firing, former.Try, former.RenamedFrom
			job.Resubmit = job.Resubmit && former.Resubmit
		}
		job.Text, job.FollowUps, job.Messages = text.Text, text.FollowUps, len(text.FollowUps)
		job.Begun = p.q.now()
		job.Charged, job.Estimate = job.Begun, p.q.opt.JobCost
		var expected bool
		if expected, err = p.send(ctx, job, from, job.Text); err != nil || !expected {
			break
		}
	}
	if !acted {
		return false, err
	}
	return true, errors.Join(err, p.reload(ctx))
}

// sendFollowUps sends the next follow-up of each job that was just read as completed.
// One that cannot be sent now is sent when its job is read again.
func (p *pass) sendFollowUps(ctx context.Context) error {
	for _, seq := range p.completed {
		if ctx.Err() != nil || p.state.queue.Paused != "" || p.state.queue.Restored || p.q.opt.Clock() != nil {
			return nil //nolint:nilerr // a stop is not an error
		}
		job, err := p.q.journal.Job(ctx, seq)
		if err != nil {
			return err
		}
		blocks := func(other journal.Job) bool { return other.Project == job.Project && p.state.blocks(other) }
		if job.State != journal.Active || job.Sent >= len(job.FollowUps) || slices.ContainsFunc(p.state.jobs, blocks) {
			continue
		}
		text := job.FollowUps[job.Sent]
		job.Sending, job.Text, job.FollowUps = true, "", nil
		_, err = p.send(ctx, job, job.State, text)
		if err := errors.Join(err, p.reload(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// send makes one create or one follow-up: intent, POST, outcome, each durable before the next
// begins, because neither call is idempotent. job is as the intent leaves it, from the state
// it is in: submitting for a create; active and Sending for a follow-up. expected reports whether it was
// accepted, and counts against the caps as was planned.
func (p *pass) send(
	ctx context.Context, job journal.Job, from journal.State, text string,
) (expected bool, err error) {
	q, what, cause := p.q, "create", "the request is being sent"
	if job.Sending {
		what = followUpName(job)
		cause = what + " is being sent"
	}

	// Step 1: the intent becomes durable.
	// CRASH before: nothing happened.
	// CRASH from here on, until the outcome is durable: Recover finds an intent without an
	// outcome, and the job is unknown. It is not sent again, because it may have been sent.
	entered, err := q.apply(ctx, journal.Change{Job: job, From: from, At: q.now(), Cause: cause})
	if isRaced(err) {
		p.raced[job.Prompt] = true // an operator was faster: nothing is sent in this pass
		return false, nil
	}
	if err != nil {
		// Nothing was sent, but the intent may be in the journal: it is withdrawn as soon
		// as the journal can be written, and nothing else is sent before that.
		q.unsaved = func(ctx context.Context) error { return q.withdraw(ctx, job) }
		return false, err
	}
	job = entered[0]

	// Step 2: a mark outside the state records that something was sent.
	// CRASH before: the journal has the intent, and the next mark counts it too. The mark
	// matters once an older state is restored.
	q.opt.Mark(context.WithoutCancel(ctx))

	// Step 3: one POST. The client finishes it when ctx ends.
	// CRASH: as after step 1. The service has it or not, and cannot be asked.
	o := outcome{keyMark: q.opt.KeyMark()}
	if job.Sending {
		o.got, o.err = q.client.SendMessage(ctx, job.Project, job.JobID, text)
		if o.err == nil && o.got.ID != job.JobID {
			o.err = fmt.Errorf("the message was for job %s, and the service answered with job %s", job.JobID, o.got.ID)
		}
	} else {
		o.got, o.err = q.client.CreateJob(ctx, job.Project, text, job.Title)
	}
	o.stopped = ctx.Err() != nil && !isAnswered(o.err)
	log := q.opt.Logger.With("prompt", job.Prompt, "project", job.Project, "job", job.Seq, "try", job.Try, "what", what)
	if o.err == nil {
		log.Info("agent job sent", "job_id", o.got.ID)
	} else {
		log.Warn("agent job not sent", "outcome", string(judge(o.err)), "reason", o.err)
	}

	// Step 4: the outcome becomes durable, prepared from the current job and queue.
	// While the journal cannot be written the process keeps it, and sends nothing else.
	// CRASH before: as after step 1.
	// CRASH after: the job is followed, or sent again when its time has come.
	var maybe []journal.Job // as failed writes would have left the job: they may have succeeded
	q.unsaved = func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		defer cancel()
		before := job
		var raced error
		for range maxRaces {
			queue, err := q.journal.Queue(ctx)
			if err != nil {
				return err
			}
			changes := q.changesOf(o, before, queue)
			_, err = q.apply(ctx, changes...)
			switch taken := takenBy(err); {
			case err == nil:
				return nil
			case taken != nil:
				// Only the transaction of the journal shows that the id belongs to another job.
				o.err = fmt.Errorf("the service accepted it, but %w: it may have made another job or not", taken)
				log.Warn("agent job in doubt", "reason", o.err)
				continue
			case !errors.Is(err, journal.ErrRaced):
				maybe = append(maybe, changes[0].Job)
				return err
			}
			raced = err
			if before, err = q.journal.Job(ctx, job.Seq); err != nil {
				return err
			}
			if slices.ContainsFunc(maybe, func(written journal.Job) bool {
				written.Version++
				written.Text, written.FollowUps = before.Text, before.FollowUps
				return reflect.DeepEqual(written, before)
			}) {
				return nil // a write that seemed to fail has succeeded
			}
			// The operator changed the job or the queue: the outcome is prepared anew. Only
			// the intent knows which follow-ups the service has.
			before.Sending, before.Sent = job.Sending, job.Sent
		}
		return raced
	}
	if judge(o.err) == forbidden {
		if p.forbidden == nil {
			p.forbidden = map[int64]outcome{}
		}
		p.forbidden[job.Seq] = o
	}
	if err = q.Flush(ctx); err != nil {
		log.Error("outcome not entered: docgauge must keep running until the journal can be written",
			"job_id", o.got.ID, "error", err)
	}

	// Step 4 may have put an accepted create in doubt.
	switch {
	case o.err != nil:
	case job.Sending:
		p.result.Messages++
	default:
		p.result.Created++
	}
	planned := o.got.Cost.Amount == nil || p.q.opt.MaxCostPerDay <= 0
	return o.err == nil && planned, err
}

// maxRaces is how often a change is prepared anew because the job or the queue was changed
// at the same time.
const maxRaces = 5

// isRaced reports whether a change was not made because the operator was faster.
func isRaced(err error) bool {
	return errors.Is(err, journal.ErrRaced) || errors.Is(err, journal.ErrDuplicate)
}

// takenBy returns the *journal.TakenError in err, or nil.
func takenBy(err error) *journal.TakenError {
	taken, _ := errors.AsType[*journal.TakenError](err)
	return taken
}

// followUpName names the follow-up that is next.
func followUpName(job journal.Job) string {
	return fmt.Sprintf("follow-up %d of %d", job.Sent+1, job.Messages)
}

// withdraw takes back an intent that may be in the journal or not. Nothing was sent.
func (q *Queue) withdraw(ctx context.Context, intent journal.Job) error {
	all, err := q.journal.Jobs(ctx)
	if err != nil {
		return err
	}
	const reason = "the journal could not be written: nothing was sent"
	for _, job := range all {
		from := job.State
		switch {
		case job.Prompt != intent.Prompt || job.Try != intent.Try || !job.Firing.Equal(intent.Firing):
			continue
		case job.State == journal.Submitting:
			job.State, job.Reason, job.Begun, job.Charged = journal.Pending, reason, time.Time{}, time.Time{}
		case job.State == journal.Active && job.Sending:
			job.Sending = false
		default:
			continue
		}
		_, err := q.apply(ctx, journal.Change{Job: job, From: from, At: q.now(), Cause: reason})
		return err
	}
	return nil
}

// outcome is the outcome of a create or a follow-up.
type outcome struct {
	got docsapi.Job
	err error
	// stopped: docgauge was stopped before the service said anything.
	stopped bool
	// keyMark marks the keys that were sent.
	keyMark string
}

// changesOf returns the changes of the job and the queue after an outcome: the rows from
// submitting and sending of the table of states.
func (q *Queue) changesOf(o outcome, job journal.Job, queue journal.Queue) []journal.Change {
	now, v, followUp, before, cause := q.now(), judge(o.err), job.Sending, job, ""
	job.Next, job.Blocked = time.Time{}, time.Time{}
	switch v {
	case accepted:
		if followUp {
			cause = followUpName(job) + " accepted"
			job.Sending, job.Sent = false, job.Sent+1
		} else {
			cause = "accepted as job " + o.got.ID
			job.State, job.JobID, job.Charged = journal.Active, o.got.ID, now
		}
		describe(&job, o.got)
		if job.Created.IsZero() {
			job.Created = now
		}
		job.Reason, job.Accepted, job.Next = "", now, now.Add(q.pollIn(0, nil))
		job.Refusals, job.Polls, job.Missing, job.SeenDone = 0, 0, time.Time{}, 0
		job.SeenActive = followUp && !o.got.Ended() && o.got.Status != ""
	case inDoubt:
		job.State, job.InDoubt = journal.Unknown, true
		if followUp {
			job.Reason = fmt.Sprintf("%s: %v", followUpName(job), o.err)
		} else {
			job.Reason, job.Charged = o.err.Error(), now
			// If the service accepted it, under whatever id, it would do so again.
			job.Resubmit = job.Resubmit && takenBy(o.err) == nil
		}
	case rejected:
		job.Ended = now
		if followUp { // the job itself is completed, and its work stands
			job.Reason = fmt.Sprintf("%s was rejected, so no further one was sent: %v", followUpName(job), o.err)
			job.State, job.Sending = journal.Completed, false
		} else {
			job.State, job.Reason = journal.Rejected, o.err.Error()
			job.Begun, job.Charged = time.Time{}, time.Time{}
		}
	case postponed, unauthorized, forbidden:
		why := o.err.Error()
		if v == forbidden {
			why = forbiddenText(job, o.err)
		}
		if followUp {
			job.Reason = fmt.Sprintf("%s was not accepted: %s", followUpName(job), why)
			job.Sending = false
		} else {
			job.State, job.Reason = journal.Pending, why
			job.Begun, job.Charged = time.Time{}, time.Time{}
		}
		switch {
		case o.stopped:
			job.Reason = "docgauge was stopped before it was sent"
		case v == postponed:
			job.Refusals++
			wait := q.backoff(firstRetry, maxBackoff, retryGrowth, job.Refusals, o.err)
			job.Next = now.Add(wait).Truncate(time.Microsecond)
			job.Blocked = job.Next
		case v == forbidden:
			job.Refusals++
			wait := q.backoff(firstForbidden, maxForbidden, retryGrowth, job.Refusals, o.err)
			job.Blocked = now.Add(wait).Truncate(time.Microsecond)
			if followUp {
				job.Next = job.Blocked
			}
		} // else the pause of the queue holds it
	}
	change := journal.Change{Job: job, From: before.State, At: now, Cause: cmp.Or(cause, job.Reason)}
	if before.State.Ended() {
		// The operator ended the job while it was being sent. The job stays ended, and the
		// outcome at the service is entered beside it.
		change.Cause = fmt.Sprintf("%s; it was %s before that was known", change.Cause, before.State)
		change.Job.State, change.Job.Reason, change.Job.Ended = before.State, before.Reason, before.Ended
		change.Job.Next, change.Job.Blocked, change.Job.Sending = time.Time{}, time.Time{}, false
	} else {
		change.Event = q.jobEvent(now, job)
	}
	switch {
	case v == inDoubt:
		return []journal.Change{change, q.countUnknown(queue, now, 1)}
	case v == unauthorized && queue.Paused == "":
		queue.Unknowns, queue.KeyMark = 0, o.keyMark
		return []journal.Change{change, q.pause(queue, journal.PausedUnauthorized, now, keyRefused(o.err))}
	}
	former := queue
	if isAnswered(o.err) {
		queue.Unknowns = 0
	}
	if v == accepted && queue.Paused == "" {
		queue.KeyMark = o.keyMark
	}
	if queue != former {
		change.Queue = &queue
	}
	return []journal.Change{change}
}

// describe copies the service's description of a job, except its pull request, which only a read
// copies. Missing values stay unchanged.
func describe(job *journal.Job, got docsapi.Job) {
	job.Status = cmp.Or(got.Status, job.Status)
	job.Repository = cmp.Or(analytics.RedactUser(got.Repository), job.Repository)
	job.Ref = cmp.Or(got.Ref, job.Ref)
	job.Model = cmp.Or(got.Model, job.Model)
	// The newest cost counts, also if it is unknown: the former one lacks what was done since.
	job.Cost, job.CostUnit, job.Tokens = got.Cost.Amount, got.Cost.Unit, got.Cost.Tokens
	if !got.CreatedAt.IsZero() {
		job.Created = got.CreatedAt.UTC().Truncate(time.Microsecond)
	}
}

// verdict is the outcome of a create or a follow-up.
type verdict string

const (
	accepted     verdict = "accepted"
	postponed    verdict = "postponed"    // not accepted; later it may be
	rejected     verdict = "rejected"     // not accepted, and it never will be
	unauthorized verdict = "unauthorized" // not accepted, and nothing will be with this key
	forbidden    verdict = "forbidden"    // not accepted, and nothing of its project will be for a while
	inDoubt      verdict = "in doubt"     // it may have been accepted
)

// judge returns the verdict for the error of a create or a follow-up. Any uncertain outcome is in
// doubt.
func judge(err error) verdict {
	e, ours := errors.AsType[*docsapi.Error](err)
	switch {
	case err == nil:
		return accepted
	case !ours:
		return inDoubt
	case docsapi.IsNotSent(err):
		return postponed
	case docsapi.IsInDoubt(err):
		return inDoubt
	case e.Status == http.StatusForbidden:
		return forbidden
	case docsapi.IsUnauthorized(err):
		return unauthorized
	case e.Outcome == docsapi.Transient:
		return postponed
	}
	switch e.Status {
	case http.StatusPaymentRequired, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired:
		// Any prompt would be refused: another URL, a paid account or a proxy's password
		// is needed, and then it can be sent.
		return postponed
	}
	return rejected
}

// isAnswered reports whether the service itself answered: it is known to work.
func isAnswered(err error) bool {
	e, ours := errors.AsType[*docsapi.Error](err)
	return err == nil || ours && e.Status != 0 && !docsapi.IsInDoubt(err)
}

const (
	firstRetry  = 10 * time.Second
	retryGrowth = 2
	pollGrowth  = 1.5
	maxBackoff  = 5 * time.Minute
	// A project that the service refuses waits for firstForbidden, and for maxForbidden at most: jitter keeps that
	// below maxWait.
	firstForbidden, maxForbidden = 10 * time.Minute, 12 * time.Hour
)

// forbiddenText says that the service refuses the project of a job.
func forbiddenText(job journal.Job, err error) string {
	says := ""
	if e, ours := errors.AsType[*docsapi.Error](err); ours && e.Says != "" {
		says = ": " + e.Says
	}
	return fmt.Sprintf("the service refuses agent jobs of project %s (HTTP 403%s): give the key access to it; docgauge "+
		"jobs release %s asks at once", job.Project, says, job.Prompt)
}

// pollIn returns how long to wait after a number of reads that found a job at work.
func (q *Queue) pollIn(polls int, err error) time.Duration {
	return q.backoff(max(q.opt.PollInterval, time.Millisecond), maxBackoff, pollGrowth, polls+1, err)
}

// backoff returns clock.Backoff with jitter, or longer if the service demands it.
func (q *Queue) backoff(first, most time.Duration, growth float64, times int, err error) time.Duration {
	wait := q.opt.Jitter(clock.Backoff(first, most, growth, times)).Round(time.Millisecond)
	if e, ours := errors.AsType[*docsapi.Error](err); ours {
		wait = max(wait, e.RetryAfter)
	}
	return wait
}
