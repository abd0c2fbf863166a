package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/view"
)

// jobClient is the service. Its errors come from package docsapi; after any other error it is unknown
// whether the service acted.
type jobClient interface {
	CreateJob(ctx context.Context, project, prompt, title string) (docsapi.Job, error)
	SendMessage(ctx context.Context, project, id, prompt string) (docsapi.Job, error)
	Job(ctx context.Context, project, id string) (docsapi.Job, error)
}

// jobStore stores the jobs (package state).
type jobStore interface {
	// Present returns an error if a write would be lost.
	Present() error
	// Jobs returns all jobs, oldest first, without their texts; Job one with them.
	Jobs(ctx context.Context) ([]journal.Job, error)
	Job(ctx context.Context, seq int64) (journal.Job, error)
	Queue(ctx context.Context) (journal.Queue, error)
	// PullStates returns the pull requests of the jobs; long fields can be missing.
	PullStates(ctx context.Context) ([]journal.PullRequest, error)
	// Recurring returns, for each prompt with a schedule, the time from which its firings
	// count. See sets it.
	Recurring(ctx context.Context) (map[string]journal.Recurring, error)
	See(ctx context.Context, prompt, schedule string, at time.Time) error
	// Apply makes all of the changes or none, durably, and returns the changed jobs.
	// After journal.ErrRaced, journal.ErrDuplicate and journal.TakenError nothing was
	// changed; after any other error the changes may have been made.
	Apply(ctx context.Context, changes ...journal.Change) ([]journal.Job, error)
}

// NewState is the reaction of the queue to prompts and a journal without any job.
type NewState string

// The values of DOCGAUGE_PROMPTS_ON_NEW_STATE.
const (
	Refuse NewState = "refuse" // nothing, until an operator decides
	Submit NewState = "submit" // send the prompts
	Skip   NewState = "skip"   // treat the prompts as done
)

// Options are the rules and dependencies of a queue. A cap of 0 is unlimited.
type Options struct {
	// MaxPerDay is how many jobs may be created in 24 hours, MaxActive how many may be
	// at work, MaxOpenPulls how many pull requests may be open, and MaxReviewAge what their
	// median age may be, when another job begins; all of them over all projects.
	MaxPerDay, MaxActive, MaxOpenPulls int
	MaxReviewAge                       time.Duration
	OnNewState                         NewState
	// JobCost is the estimated cost of a job, in the unit of the service's reports. MaxCostPerDay is
	// what the jobs that are created in 24 hours may cost; 0 is unlimited.
	JobCost, MaxCostPerDay float64
	// PollInterval is the time from the beginning of a job to its first read.
	PollInterval time.Duration
	// Numbers are for templates; may be nil.
	Numbers prompts.Numbers
	// Notify reports whether events are wanted.
	Notify bool
	Now    func() time.Time

	// The fields from here on are for New alone, which needs all of them.

	// KeyMark returns a text that changes with the keys and does not reveal them. It is
	// kept in the state.
	KeyMark func() string
	// RefuseKey notes that the service refuses the key that creates jobs, or the one that reads them.
	RefuseKey func(creates bool)
	// Changed is called after each change of the journal.
	Changed func()
	// Clock returns an error while this machine's clock is known to be wrong. Nothing is sent or
	// decided then.
	Clock func() error
	// Confirm asks the service whether this machine's clock is right, unless an answer has shown that
	// already. It is called before anything that a wrong clock could spoil. The error is the one that Clock returns.
	Confirm func(ctx context.Context) (confirmed bool, err error)
	// Mark records, outside the state, that a create or follow-up begins. Restored looks for
	// such marks before the first pass, and if the state turns out to come from an older
	// backup, enters that in the journal.
	Mark     func(ctx context.Context)
	Restored func(ctx context.Context) error
	// Jitter spreads retries and reads.
	Jitter func(time.Duration) time.Duration
	Logger *slog.Logger
}

// writeTimeout bounds a write to the journal, which outlives the context of its caller.
const writeTimeout = 15 * time.Second

// Queue sends prompts and follows their jobs. One process runs it at a time, and one
// goroutine in it.
type Queue struct {
	opt     Options
	client  jobClient
	journal jobStore
	scanner scanner
	// recovered: Recover is done. compared: Restored is done. warned: the warning that
	// OnNewState is still Submit was logged.
	recovered, compared, warned bool
	// unsaved writes the outcome of a POST that is not in the journal yet, or withdraws
	// an intent that may be there. Nothing is sent before it has succeeded.
	unsaved func(context.Context) error
	// probed is when the service was last asked whether it answers again.
	probed time.Time
}

// New returns the queue.
func New(o Options, client jobClient, j jobStore) *Queue {
	return &Queue{opt: o, client: client, journal: j}
}

// now is the time, as precise as the journal stores it.
func (q *Queue) now() time.Time { return q.opt.Now().UTC().Truncate(time.Microsecond) }

// apply makes changes durable, even if ctx ends.
func (q *Queue) apply(ctx context.Context, changes ...journal.Change) ([]journal.Job, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	jobs, err := q.journal.Apply(ctx, changes...)
	if err == nil {
		q.opt.Changed()
	}
	return jobs, err
}

// Flush writes the outcome that is not in the journal yet. After an error the process must keep the
// queue: only the queue knows the outcome of a POST. Run must have ended.
func (q *Queue) Flush(ctx context.Context) error {
	if q.unsaved == nil {
		return nil
	}
	err := q.unsaved(ctx)
	if err == nil {
		q.unsaved = nil
	}
	return err
}

// jobEvent is the event that a job came to its state; nil if people are not notified of it.
func (q *Queue) jobEvent(at time.Time, j journal.Job) *journal.Event {
	switch j.State {
	case journal.Completed, journal.Failed, journal.Archived, journal.Lost, journal.Rejected, journal.Unknown:
	default:
		return nil
	}
	text := "prompt " + j.Prompt + " is " + string(j.State)
	if why := cmp.Or(j.PRLink, j.Reason); why != "" {
		text += ": " + why
	}
	job := view.NewJob(j, nil, at)
	return q.event(view.Event{Event: string(j.State), At: at, Text: text, Job: &job})
}

func (q *Queue) event(e view.Event) *journal.Event {
	if !q.opt.Notify {
		return nil
	}
	body, err := json.Marshal(e)
	if err != nil {
		q.opt.Logger.Error("notification not written", "event", e.Event, "error", err)
		return nil
	}
	return &journal.Event{Kind: e.Event, At: e.At, Body: body}
}
