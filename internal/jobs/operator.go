package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// ErrRefused: the decision does not fit the state of the job.
var ErrRefused = errors.New("that is not possible now")

func refusef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// Operator makes the decisions of people. It sends nothing and needs no lock: it works
// while a queue runs, which follows the decisions.
type Operator struct {
	journal jobStore
	now     func() time.Time
}

// NewOperator returns the operator of a journal.
func NewOperator(j jobStore, now func() time.Time) *Operator {
	return &Operator{j, func() time.Time { return now().UTC().Truncate(time.Microsecond) }}
}

// Find returns the newest job of the prompt with the id ref, or else the job with that
// number ("12" or "#12"), or else the newest of the one prompt with that name: typos is
// typos.md, or guides/typos.md. If none exists, the error is journal.ErrNoJob.
func Find(ctx context.Context, j jobStore, ref string) (journal.Job, error) {
	_, job, err := lookUp(ctx, j, ref, prompts.Scanned{})
	return job, err
}

// lookUp is Find, and returns the id of the prompt for a name. A prompt of the folder has its
// name for itself, even before it has a job.
func lookUp(ctx context.Context, j jobStore, ref string, found prompts.Scanned) (string, journal.Job, error) {
	all, err := j.Jobs(ctx)
	if err != nil {
		return ref, journal.Job{}, err
	}
	newest := journal.Newest(all)
	job, ok := newest[ref]
	if seq, err := strconv.ParseInt(strings.TrimPrefix(ref, "#"), 10, 64); !ok && err == nil {
		job.Seq, ok = seq, true
	}
	hint := "docgauge jobs list"
	if _, exact := fileOf(ref, found); !ok && !exact {
		ids := slices.Collect(maps.Keys(newest))
		for _, p := range found.Prompts {
			ids = append(ids, p.ID)
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
		named := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
			whole := strings.TrimSuffix(id, path.Ext(id))
			return ref != whole && ref != path.Base(whole)
		})
		near := format.DidYouMean(ref, ids)
		switch {
		case len(named) == 1:
			ref = named[0]
			job, ok = newest[ref]
		case len(named) > 1:
			hint = "did you mean " + strings.Join(named, " or ") + "?"
		case strings.HasSuffix(near, "?"):
			hint = near
		}
	}
	if !ok {
		return ref, journal.Job{}, fmt.Errorf("prompt %s: %w (%s)", ref, journal.ErrNoJob, hint)
	}
	job, err = j.Job(ctx, job.Seq)
	return ref, job, err
}

// find returns the job that ref names. A prompt that looks renamed is held first if the next
// pass would hold it: people decide by the plan. If next is set, a prompt without a job, or
// a recurring one whose job has ended or missed its time, means the job of the next firing.
func (o *Operator) find(ctx context.Context, ref string, found prompts.Scanned, next bool) (journal.Job, error) {
	ref, job, err := lookUp(ctx, o.journal, ref, found)
	file, ok := fileOf(cmp.Or(job.Prompt, ref), found)
	if !ok || err != nil && !errors.Is(err, journal.ErrNoJob) {
		return job, err
	}
	s, readErr := readState(ctx, Options{Now: o.now}, o.journal, prompts.Scanned{})
	if readErr != nil {
		return job, readErr
	}
	newest := s.newest[file.ID]
	if from := s.renames(found).from(file, newest); from != "" && newest.Seq == job.Seq {
		return o.apply(ctx, holdRenamed(file, newest, from, s.now))
	}
	due, later := s.firing(file) // zero if it does not recur
	switch {
	case !next || ref != file.ID:
		return job, err
	case newest.State == journal.Pending && due.After(newest.Firing): // which the next pass would expire
		job.Firing, job.Try = due, 1
		return job, err
	case newest.Seq != 0 && (!file.Recurs() || !newest.State.Ended()):
		return job, err
	}
	job = newJob(file, journal.Pending)
	if job.Firing = due; due.IsZero() {
		job.Firing = later
	}
	return job, nil
}

func fileOf(id string, found prompts.Scanned) (prompts.Prompt, bool) {
	i := slices.IndexFunc(found.Prompts, func(p prompts.Prompt) bool { return p.ID == id })
	if i < 0 {
		return prompts.Prompt{}, false
	}
	return found.Prompts[i], true
}

// Answer is the operator's decision about a job in doubt: one of its fields.
type Answer struct {
	JobID    string // the service's id of the job: it was accepted
	Resubmit bool   // it was not accepted, and is sent again
	Drop     bool   // it is given up, accepted or not
}

const (
	released = "released by the operator"
	dropped  = "dropped by the operator; the service may have accepted it"
)

// Resolve moves on a job in doubt, or a prompt that is held because it looks renamed,
// and returns it. A prompt without a job is looked up in found.
func (o *Operator) Resolve(ctx context.Context, ref string, a Answer, found prompts.Scanned) (journal.Job, error) {
	job, err := o.find(ctx, ref, found, false)
	if err != nil {
		return job, err
	}
	renamed := job.State == journal.Held && job.RenamedFrom != ""
	switch {
	case job.State != journal.Unknown && !renamed:
		return job, refusef("%s is %s: only one that is unknown, or held because it looks renamed, can be resolved",
			named(job), job.State)
	case renamed && a.JobID != "":
		return job, refusef("%s was not sent under this name: say --drop (it counts as done) or --resubmit (send it)",
			named(job))
	case renamed && a.Resubmit:
		return o.move(ctx, job, journal.Pending, released)
	case renamed && a.Drop:
		return o.move(ctx, job, journal.Completed,
			"the operator says that it counts as done: its text was sent as "+job.RenamedFrom)
	case a.JobID != "":
		return o.identify(ctx, job, a.JobID)
	case a.Resubmit:
		return o.apply(ctx, tryAgain(job, o.now(), "resolved by the operator: it was not accepted", false)...)
	case a.Drop && job.Sending:
		job.State, job.Sending, job.Sent, job.Reason, job.Next = journal.Active, false, job.Sent+1, "", time.Time{}
		return o.apply(ctx, journal.Change{Job: job, From: journal.Unknown,
			Cause: "resolved by the operator: it continues without the message"})
	case a.Drop:
		return o.move(ctx, job, journal.Cancelled, dropped)
	}
	return job, refusef("say --job-id ID, --resubmit or --drop")
}

// identify follows a job in doubt that the service has under an id.
func (o *Operator) identify(ctx context.Context, job journal.Job, id string) (journal.Job, error) {
	if id != strings.TrimSpace(id) || strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return job, refusef("%q is not the id of a job", id)
	}
	if job.Sending && id != job.JobID {
		return job, refusef("the message is for job %s: give that id if it is there", job.JobID)
	}
	if job.Sending {
		job.Sending, job.Sent = false, job.Sent+1
	}
	if job.Created.IsZero() {
		job.Created = job.Begun
	}
	job.JobID, job.State, job.InDoubt, job.Reason = id, journal.Active, false, ""
	job.Accepted, job.Next, job.Missing = o.now(), time.Time{}, time.Time{}
	job.Polls, job.SeenActive, job.SeenDone = 0, false, 0
	return o.apply(ctx, journal.Change{Job: job, From: journal.Unknown,
		Cause: "resolved by the operator: it is job " + id})
}

// Cancel gives up a prompt before it is sent, or a job that has not ended. The service
// continues a job that it has; the queue no longer follows it.
func (o *Operator) Cancel(ctx context.Context, ref string, found prompts.Scanned) (journal.Job, error) {
	job, err := o.find(ctx, ref, found, true)
	switch {
	case err != nil:
		return job, err
	case job.State == journal.Pending, job.State == journal.Held:
		return o.move(ctx, job, journal.Cancelled, "cancelled by the operator before it was sent")
	case job.State == journal.Unknown:
		return o.move(ctx, job, journal.Cancelled, dropped)
	case job.State == journal.Active && !job.Sending:
		return o.move(ctx, job, journal.Cancelled,
			"given up by the operator: the service may continue it, and it is no longer followed")
	case job.State.Ended():
		return job, refusef("%s is %s already", named(job), job.State)
	}
	return job, beingSent(job)
}

// Hold keeps a prompt from being sent until it is released.
func (o *Operator) Hold(ctx context.Context, ref string, found prompts.Scanned) (journal.Job, error) {
	job, err := o.find(ctx, ref, found, true)
	switch {
	case err != nil:
		return job, err
	case job.State == journal.Submitting:
		return job, beingSent(job)
	case job.State != journal.Pending:
		return job, refusef("%s is %s: only one that waits can be held", named(job), job.State)
	}
	return o.move(ctx, job, journal.Held, "held by the operator")
}

func beingSent(job journal.Job) error {
	return refusef("%s is being sent just now: try again in a minute", named(job))
}

// Release lets a prompt continue that is held, or that waits for its next try. A prompt
// without a job is looked up in found.
func (o *Operator) Release(ctx context.Context, ref string, found prompts.Scanned) (journal.Job, error) {
	job, err := o.find(ctx, ref, found, false)
	if err != nil {
		return job, err
	}
	if job.State != journal.Held && job.State != journal.Pending {
		return job, refusef("%s is %s: only one that is held can be released", named(job), job.State)
	}
	return o.move(ctx, job, journal.Pending, released)
}

// Retry sends a prompt once more whose job has ended, or is in doubt.
func (o *Operator) Retry(ctx context.Context, ref string, found prompts.Scanned) (journal.Job, error) {
	job, err := Find(ctx, o.journal, ref)
	if err != nil {
		return job, err
	}
	file, ok := fileOf(job.Prompt, found)
	newest, err := Find(ctx, o.journal, job.Prompt)
	switch {
	case err != nil:
		return job, err
	case !ok:
		return job, refusef("prompt %s has no valid file: there is nothing to send (docgauge jobs lint)", job.Prompt)
	case newest.Seq != job.Seq:
		return job, refusef("%s is not its newest: that is job %d, which is %s", named(job), newest.Seq, newest.State)
	case !job.State.Ended() && job.State != journal.Unknown:
		return job, refusef("%s is %s: it has not ended", named(job), job.State)
	case job.State == journal.Unknown && job.Sending:
		return job, refusef("a message of %s is in doubt, the job itself is not: %s", named(job), Remedy(job))
	}
	return o.apply(ctx, tryAgain(job, o.now(), "retried by the operator", file.Resubmit)...)
}

// PauseQueue stops the whole queue until ReleaseQueue.
func (o *Operator) PauseQueue(ctx context.Context) (journal.Queue, error) {
	return o.changeQueue(ctx, true)
}

// ReleaseQueue lets the queue continue; if it is paused for jobs in doubt, once the
// service answers a read.
func (o *Operator) ReleaseQueue(ctx context.Context) (journal.Queue, error) {
	return o.changeQueue(ctx, false)
}

func (o *Operator) changeQueue(ctx context.Context, pause bool) (queue journal.Queue, err error) {
	for range maxRaces {
		if queue, err = o.journal.Queue(ctx); err != nil {
			return queue, err
		}
		now, from, cause := o.now(), queue.Paused, released
		switch {
		case pause && from == journal.PausedOperator, !pause && from == "":
			return queue, nil
		case pause:
			queue.Paused, queue.Since, queue.Detail = journal.PausedOperator, now, "docgauge jobs release continues it"
			cause = "paused by the operator"
		case queue.Unknowns >= unknownsInARow:
			if from != journal.PausedUnknown {
				queue.Paused, queue.Since, queue.Detail = journal.PausedUnknown, now, "creates or messages are in doubt"
			}
			queue.Released = now
			cause = "released by the operator: it continues once the service answers"
		default:
			queue.Paused, queue.Since, queue.Detail, queue.KeyMark, queue.Released = "", time.Time{}, "", "", now
		}
		_, err = o.journal.Apply(ctx, journal.Change{Queue: &queue, From: journal.State(from), At: now, Cause: cause})
		if !errors.Is(err, journal.ErrRaced) {
			return queue, err
		}
	}
	return journal.Queue{}, err
}

// move moves a job, or a prompt that has none, to a state in which it waits for no next try.
func (o *Operator) move(ctx context.Context, job journal.Job, to journal.State, reason string) (journal.Job, error) {
	from := job.State
	if job.Seq == 0 {
		from = ""
	}
	job.State, job.Reason, job.Next = to, reason, time.Time{}
	if to.Ended() {
		job.Ended = o.now()
	} else {
		job.Blocked, job.Refusals = time.Time{}, 0
	}
	return o.apply(ctx, journal.Change{Job: job, From: from, Cause: reason})
}

// apply makes the changes and returns the job of the last.
func (o *Operator) apply(ctx context.Context, changes ...journal.Change) (journal.Job, error) {
	for i := range changes {
		if changes[i].At.IsZero() {
			changes[i].At = o.now()
		}
	}
	jobs, err := o.journal.Apply(ctx, changes...)
	switch other := takenBy(err); {
	case other != nil:
		return journal.Job{}, fmt.Errorf("%w: %w", ErrRefused, other)
	case isRaced(err):
		prompt := changes[0].Job.Prompt
		return journal.Job{}, fmt.Errorf("%w: %w (docgauge jobs show %s, and try again)", ErrRefused, err, prompt)
	case err != nil:
		return journal.Job{}, err
	}
	return jobs[len(jobs)-1], nil
}
