package jobs

import (
	"context"
	"log/slog"
	"time"

	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// Client is the service. Its errors are those of package docsapi; any other is
// taken to leave it open whether the service acted.
type Client interface {
	CreateJob(ctx context.Context, project, prompt string) (docsapi.Job, error)
	SendMessage(ctx context.Context, project, id, prompt string) (docsapi.Job, error)
	Job(ctx context.Context, project, id string) (docsapi.Job, error)
}

// Journal keeps the jobs (package state).
type Journal interface {
	// Present returns an error where what is written would be lost.
	Present() error
	// Jobs returns all jobs without what is sent, Job one with it.
	Jobs(ctx context.Context) ([]journal.Job, error)
	Job(ctx context.Context, seq int64) (journal.Job, error)
	Queue(ctx context.Context) (journal.Queue, error)
	// Recurring returns since when the firings of each prompt with a schedule count,
	// See sets that.
	Recurring(ctx context.Context) (map[string]journal.Recurring, error)
	See(ctx context.Context, prompt, schedule string, at time.Time) error
	// Apply makes all of the changes or none, durably, and returns their jobs as they
	// are now. Errors: journal.ErrRaced, journal.ErrDuplicate and journal.TakenError,
	// which changed nothing, or others, after which the change may be there or not.
	Apply(ctx context.Context, changes ...journal.Change) ([]journal.Job, error)
}

// NewState is what a queue does that finds prompts and does not know the state.
type NewState string

// The values of DOCGAUGE_PROMPTS_ON_NEW_STATE.
const (
	Refuse NewState = "refuse" // nothing, until somebody says what
	Submit NewState = "submit" // what is there is sent
	Skip   NewState = "skip"   // what is there counts as done
)

// Config says how the queue goes.
type Config struct {
	// MaxPerDay is how many jobs may be created in 24 hours, MaxActive how many may be
	// at work; over all projects. 0 is unlimited.
	MaxPerDay, MaxActive int
	// PollInterval is from the beginning of a job to its first read.
	PollInterval time.Duration
	// ScanInterval is between two looks at the folder; 0 means 15 s.
	ScanInterval time.Duration
	OnNewState   NewState
	// Numbers are for templates; nil where there are none.
	Numbers prompts.Numbers
	// KeyMark returns a text that changes with the keys and tells nothing of them. It
	// is kept in the state. nil: a refused key is only tried again on release.
	KeyMark func() string
	// Notify reports whether notifications are wanted.
	Notify bool
	// Changed is told that the journal has changed, in the goroutine that did it; nil
	// means nobody is.
	Changed func()
	Now     func() time.Time
	Logger  *slog.Logger
}

const (
	defaultScanInterval = 15 * time.Second
	// lingering is how long a write to the journal may take, whatever ends meanwhile.
	lingering = 15 * time.Second
)

// Queue submits prompts and follows their jobs. One process runs it at a time,
// and one goroutine in it.
type Queue struct {
	cfg     Config
	client  Client
	journal Journal
	started bool
	// owed is what came of a call and is not in the journal yet. Nothing is sent
	// while there is any.
	owed func(context.Context) error
	// probed is when the service was last asked whether it answers again.
	probed time.Time
	jitter func(time.Duration) time.Duration
}

// New returns the queue.
func New(cfg Config, client Client, j Journal) *Queue {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	if cfg.KeyMark == nil {
		cfg.KeyMark = func() string { return "" }
	}
	if cfg.ScanInterval <= 0 {
		cfg.ScanInterval = defaultScanInterval
	}
	return &Queue{cfg: cfg, client: client, journal: j, jitter: jitter}
}

// now is the time as the journal keeps it.
func (q *Queue) now() time.Time { return q.cfg.Now().UTC().Truncate(time.Microsecond) }

// apply makes changes durable, whatever ends meanwhile.
func (q *Queue) apply(ctx context.Context, changes ...journal.Change) ([]journal.Job, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lingering)
	defer cancel()
	jobs, err := q.journal.Apply(ctx, changes...)
	if err == nil {
		q.cfg.Changed()
	}
	return jobs, err
}
