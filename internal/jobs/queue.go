package jobs

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// Client is the service. Its errors are those of package docsapi; any other error
// leaves it open whether the service acted.
type Client interface {
	CreateJob(ctx context.Context, project, prompt string) (docsapi.Job, error)
	SendMessage(ctx context.Context, project, id, prompt string) (docsapi.Job, error)
	Job(ctx context.Context, project, id string) (docsapi.Job, error)
}

// Journal keeps the jobs (package state).
type Journal interface {
	// Present returns an error if what is written now would be lost.
	Present() error
	// Jobs returns all jobs, oldest first, without their texts; Job one with them.
	Jobs(ctx context.Context) ([]journal.Job, error)
	Job(ctx context.Context, seq int64) (journal.Job, error)
	Queue(ctx context.Context) (journal.Queue, error)
	// PullStates returns what is known of the pull requests of the jobs; what is long can be
	// missing.
	PullStates(ctx context.Context) ([]journal.PullRequest, error)
	// Recurring returns since when the firings of each prompt with a schedule count.
	// See sets that.
	Recurring(ctx context.Context) (map[string]journal.Recurring, error)
	See(ctx context.Context, prompt, schedule string, at time.Time) error
	// Apply makes all of the changes or none, durably, and returns their jobs as they
	// are now. After journal.ErrRaced, journal.ErrDuplicate and journal.TakenError
	// nothing was changed; after any other error the changes may have been made.
	Apply(ctx context.Context, changes ...journal.Change) ([]journal.Job, error)
}

// NewState is what the queue does with prompts and a journal without any job.
type NewState string

// The values of DOCGAUGE_PROMPTS_ON_NEW_STATE.
const (
	Refuse NewState = "refuse" // nothing, until an operator decides
	Submit NewState = "submit" // send the prompts
	Skip   NewState = "skip"   // treat the prompts as done
)

// Config are the settings of the queue.
type Config struct {
	// MaxPerDay is how many jobs may be created in 24 hours, MaxActive how many may be
	// at work; over all projects. 0 is unlimited.
	MaxPerDay, MaxActive int
	// MaxOpenPulls is how many pull requests may be open, MaxReviewAge what their median
	// age may be, when another job begins; over all projects. 0 is unlimited.
	MaxOpenPulls int
	MaxReviewAge time.Duration
	// JobCost is what a job costs, in any unit.
	JobCost float64
	// PollInterval is the time from the beginning of a job to its first read.
	PollInterval time.Duration
	// ScanInterval is the time between two scans of the folder; 0 means 15 s.
	ScanInterval time.Duration
	OnNewState   NewState
	// Numbers are for templates; nil if there are none.
	Numbers prompts.Numbers
	// KeyMark returns a text that changes with the keys and does not reveal them. It is
	// kept in the state. nil: a refused key is tried again only after a release.
	KeyMark func() string
	// Notify reports whether notifications are wanted.
	Notify bool
	// Changed is called after each change of the journal, by the goroutine that made
	// it; it may be nil.
	Changed func()
	// Clock returns an error as long as this machine's clock is known to be wrong: nothing is
	// decided by it. nil: it never is.
	Clock func() error
	// Restored looks, before the first pass, for what outlives the state and shows that it comes
	// from an older backup, and enters that in the journal. nil: nothing outlives it.
	Restored func(ctx context.Context) error
	// Mark enters in what outlives the state that a create or follow-up begins; may be nil.
	Mark func(ctx context.Context)
	// Jitter spreads retries and reads; nil means clock.Jitter.
	Jitter func(time.Duration) time.Duration
	Now    func() time.Time
	Logger *slog.Logger
}

const (
	defaultScanInterval = 15 * time.Second
	// writeTimeout bounds a write to the journal, which outlives the context of its caller.
	writeTimeout = 15 * time.Second
)

// Queue sends prompts and follows their jobs. One process runs it at a time, and one
// goroutine in it.
type Queue struct {
	cfg       Config
	client    Client
	journal   Journal
	recovered bool
	// compared: Restored has looked.
	compared bool
	// warned: it was said that OnNewState is still Submit.
	warned bool
	scans  *scanner // nil before the first Run
	// unsaved writes the outcome of a POST that is not in the journal yet, or withdraws
	// an intent that may be there. Nothing is sent before it has succeeded.
	unsaved func(context.Context) error
	// probed is when the service was last asked whether it answers again.
	probed time.Time
}

// New returns the queue.
func New(cfg Config, client Client, j Journal) *Queue {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	if cfg.Clock == nil {
		cfg.Clock = func() error { return nil }
	}
	if cfg.Restored == nil {
		cfg.Restored = func(context.Context) error { return nil }
	}
	if cfg.Mark == nil {
		cfg.Mark = func(context.Context) {}
	}
	if cfg.KeyMark == nil {
		cfg.KeyMark = func() string { return "" }
	}
	if cfg.Jitter == nil {
		cfg.Jitter = clock.Jitter
	}
	if cfg.ScanInterval <= 0 {
		cfg.ScanInterval = defaultScanInterval
	}
	return &Queue{cfg: cfg, client: client, journal: j}
}

// now is the time, as precise as the journal keeps it.
func (q *Queue) now() time.Time { return q.cfg.Now().UTC().Truncate(time.Microsecond) }

// apply makes changes durable, even if ctx ends meanwhile.
func (q *Queue) apply(ctx context.Context, changes ...journal.Change) ([]journal.Job, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	jobs, err := q.journal.Apply(ctx, changes...)
	if err == nil {
		q.cfg.Changed()
	}
	return jobs, err
}

// Flush writes what is not in the journal yet. After an error the queue must not be given up:
// it alone knows what became of a POST. Run has ended.
func (q *Queue) Flush(ctx context.Context) error { return q.save(ctx) }

// save writes what is unsaved, if anything is.
func (q *Queue) save(ctx context.Context) error {
	if q.unsaved == nil {
		return nil
	}
	if err := q.unsaved(ctx); err != nil {
		return err
	}
	q.unsaved = nil
	return nil
}

// notePaused is the kind of the note about a pause; the kind of any other is the
// state of its job.
const notePaused = "paused"

// notice is the body of a notification. It has a Job or a Queue.
type notice struct {
	Event string       `json:"event"`
	At    time.Time    `json:"at"`
	Text  string       `json:"text"` // for people, in one line
	Job   *noticeJob   `json:"job,omitempty"`
	Queue *noticeQueue `json:"queue,omitempty"`
}

type noticeJob struct {
	Seq        int64         `json:"seq"`
	Prompt     string        `json:"prompt"`
	Path       string        `json:"path"`
	Project    string        `json:"project"`
	Title      string        `json:"title,omitempty"`
	Firing     time.Time     `json:"firing,omitzero"`
	Try        int           `json:"attempt"`
	State      journal.State `json:"state"`
	Result     string        `json:"result,omitempty"`
	Reason     string        `json:"reason,omitempty"`
	JobID      string        `json:"job_id,omitempty"`
	PRLink     string        `json:"pr_link,omitempty"`
	Repository string        `json:"repository,omitempty"`
	Ref        string        `json:"ref,omitempty"`
	Model      string        `json:"model,omitempty"`
	Created    time.Time     `json:"created_at,omitzero"`
	Ended      time.Time     `json:"ended_at,omitzero"`
}

type noticeQueue struct {
	Paused journal.Pause `json:"paused"`
	Since  time.Time     `json:"since"`
	Detail string        `json:"detail"`
}

// noteJob is the note about a job that came to the state it is in; nil if that state
// is not notified.
func (q *Queue) noteJob(at time.Time, j journal.Job) *journal.Event {
	switch j.State {
	case journal.Completed, journal.Failed, journal.Archived, journal.Lost, journal.Rejected, journal.Unknown:
	default:
		return nil
	}
	text := "prompt " + j.Prompt + " is " + string(j.State)
	switch {
	case j.PRLink != "":
		text += ": " + j.PRLink
	case j.Reason != "":
		text += ": " + j.Reason
	}
	return q.note(notice{Event: string(j.State), At: at, Text: text, Job: &noticeJob{
		Seq: j.Seq, Prompt: j.Prompt, Path: j.Path, Project: j.Project, Title: j.Title, Firing: j.Firing, Try: j.Try,
		State: j.State, Result: j.Result(), Reason: j.Reason, JobID: j.JobID, PRLink: j.PRLink,
		Repository: j.Repository, Ref: j.Ref, Model: j.Model, Created: j.Created, Ended: j.Ended,
	}})
}

func (q *Queue) note(n notice) *journal.Event {
	if !q.cfg.Notify {
		return nil
	}
	body, err := json.Marshal(n)
	if err != nil {
		q.cfg.Logger.Error("notification not written", "event", n.Event, "error", err)
		return nil
	}
	return &journal.Event{Kind: n.Event, At: n.At, Body: body}
}
