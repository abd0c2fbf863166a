package jobs

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// fault is what goes wrong with one call that leaves the process.
type fault string

const (
	noFault      fault = ""
	notSentAtAll fault = "not sent"      // fails, has no effect, and says so
	requestLost  fault = "request lost"  // fails and has no effect
	replyLost    fault = "reply lost"    // has its effect and fails
	killedBefore fault = "killed before" // the process dies before the call has its effect
	killedAfter  fault = "killed after"  // or after it
)

// The calls, as faults name them.
const (
	callCreate    = "create"
	callMessage   = "message"
	callRead      = "read"
	callApply     = "apply"
	callJobs      = "jobs"
	callJob       = "job"
	callQueue     = "queue"
	callRecurring = "recurring"
	callPulls     = "pulls"
	callSee       = "see"
)

var errKilled = errors.New("killed")

// process is one process in the world. Once it is killed nothing it does has any effect.
type process struct {
	*world
	mu    sync.Mutex
	calls map[string]int
	dead  bool
}

func (p *process) killed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *process) strike(call string) (fault, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return noFault, errKilled
	}
	p.calls[call]++
	if p.faults == nil {
		return noFault, nil
	}
	return p.faults(call, p.calls[call]), nil
}

// call makes one call. failed is its error if the call is lost.
func call[T any](p *process, name string, failed func() error, effect func() (T, error)) (out T, err error) {
	f, err := p.strike(name)
	if err != nil {
		return out, err
	}
	switch f {
	case notSentAtAll:
		return out, notSentError()
	case requestLost:
		return out, failed()
	case killedBefore:
		return out, p.kill()
	}
	got, err := effect()
	switch f {
	case replyLost:
		return out, failed()
	case killedAfter:
		return out, p.kill()
	}
	return got, err
}

func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	return errKilled
}

func diskError() error { return errors.New("state: the disk is full") }

// wire is the client of a process.
type wire struct{ *process }

func (w wire) CreateJob(ctx context.Context, project, prompt string) (docsapi.Job, error) {
	return call(w.process, callCreate, lostError, func() (docsapi.Job, error) { return w.service.CreateJob(ctx, project, prompt) })
}

func (w wire) SendMessage(ctx context.Context, project, id, prompt string) (docsapi.Job, error) {
	return call(w.process, callMessage, lostError, func() (docsapi.Job, error) { return w.service.SendMessage(ctx, project, id, prompt) })
}

// Job answers as the client does: a read that is lost can be repeated.
func (w wire) Job(ctx context.Context, project, id string) (docsapi.Job, error) {
	unanswered := func() error { return &docsapi.Error{Op: "read a job", Outcome: docsapi.Transient} }
	return call(w.process, callRead, unanswered, func() (docsapi.Job, error) { return w.service.Job(ctx, project, id) })
}

// wiredJournal is the journal of a process.
type wiredJournal struct{ *process }

func (w wiredJournal) Present() error { return w.journal.Present() }

func (w wiredJournal) Jobs(ctx context.Context) ([]journal.Job, error) {
	return call(w.process, callJobs, diskError, func() ([]journal.Job, error) { return w.journal.Jobs(ctx) })
}

func (w wiredJournal) Job(ctx context.Context, seq int64) (journal.Job, error) {
	return call(w.process, callJob, diskError, func() (journal.Job, error) { return w.journal.Job(ctx, seq) })
}

func (w wiredJournal) Queue(ctx context.Context) (journal.Queue, error) {
	return call(w.process, callQueue, diskError, func() (journal.Queue, error) { return w.journal.Queue(ctx) })
}

func (w wiredJournal) Recurring(ctx context.Context) (map[string]journal.Recurring, error) {
	return call(w.process, callRecurring, diskError, func() (map[string]journal.Recurring, error) { return w.journal.Recurring(ctx) })
}

func (w wiredJournal) PullStates(ctx context.Context) ([]journal.PullRequest, error) {
	return call(w.process, callPulls, diskError, func() ([]journal.PullRequest, error) { return w.journal.PullStates(ctx) })
}

func (w wiredJournal) See(ctx context.Context, prompt, schedule string, at time.Time) error {
	_, err := call(w.process, callSee, diskError, func() (any, error) { return nil, w.journal.See(ctx, prompt, schedule, at) })
	return err
}

func (w wiredJournal) Apply(ctx context.Context, changes ...journal.Change) ([]journal.Job, error) {
	return call(w.process, callApply, diskError, func() ([]journal.Job, error) {
		jobs, err := w.journal.Apply(ctx, changes...)
		for range len(w.memory.events[1]) - len(w.applied) {
			w.applied = append(w.applied, w.calls[callApply])
		}
		return jobs, err
	})
}
