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
	callSee       = "see"
)

var errKilled = errors.New("killed")

// power is one process as it stands on the world: once it is killed nothing it
// does has any effect.
type power struct {
	*world
	mu    sync.Mutex
	calls map[string]int
	dead  bool
}

func (p *power) killed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *power) strike(call string) (fault, error) {
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

// do is one call. failed is what it returns where the call is lost.
func (p *power) do(call string, failed func() error, effect func() error) error {
	f, err := p.strike(call)
	if err != nil {
		return err
	}
	switch f {
	case notSentAtAll:
		return notSentError()
	case requestLost:
		return failed()
	case killedBefore:
		return p.kill()
	}
	err = effect()
	switch f {
	case replyLost:
		return failed()
	case killedAfter:
		return p.kill()
	}
	return err
}

func (p *power) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	return errKilled
}

func diskError() error { return errors.New("state: the disk is full") }

// wire is the client and the journal behind a power.
type wire struct{ *power }

func (w wire) CreateJob(ctx context.Context, project, prompt string) (job docsapi.Job, err error) {
	err = w.do(callCreate, lostError, func() (err error) {
		job, err = w.service.CreateJob(ctx, project, prompt)
		return err
	})
	return job, err
}

func (w wire) SendMessage(ctx context.Context, project, id, prompt string) (job docsapi.Job, err error) {
	err = w.do(callMessage, lostError, func() (err error) {
		job, err = w.service.SendMessage(ctx, project, id, prompt)
		return err
	})
	return job, err
}

// Job answers as the client does: a read that is lost can be made again.
func (w wire) Job(ctx context.Context, project, id string) (job docsapi.Job, err error) {
	unanswered := func() error { return &docsapi.Error{Op: "read a job", Outcome: docsapi.Transient} }
	err = w.do(callRead, unanswered, func() (err error) {
		job, err = w.service.Job(ctx, project, id)
		return err
	})
	return job, err
}

// wiredJournal is a Journal behind a power.
type wiredJournal struct{ *power }

func (w wiredJournal) Present() error { return w.journal.Present() }

func (w wiredJournal) Jobs(ctx context.Context) (jobs []journal.Job, err error) {
	err = w.do(callJobs, diskError, func() (err error) {
		jobs, err = w.journal.Jobs(ctx)
		return err
	})
	return jobs, err
}

func (w wiredJournal) Job(ctx context.Context, seq int64) (job journal.Job, err error) {
	err = w.do(callJob, diskError, func() (err error) {
		job, err = w.journal.Job(ctx, seq)
		return err
	})
	return job, err
}

func (w wiredJournal) Queue(ctx context.Context) (queue journal.Queue, err error) {
	err = w.do(callQueue, diskError, func() (err error) {
		queue, err = w.journal.Queue(ctx)
		return err
	})
	return queue, err
}

func (w wiredJournal) Recurring(ctx context.Context) (all map[string]journal.Recurring, err error) {
	err = w.do(callRecurring, diskError, func() (err error) {
		all, err = w.journal.Recurring(ctx)
		return err
	})
	return all, err
}

func (w wiredJournal) See(ctx context.Context, prompt, schedule string, at time.Time) error {
	return w.do(callSee, diskError, func() error { return w.journal.See(ctx, prompt, schedule, at) })
}

func (w wiredJournal) Apply(ctx context.Context, changes ...journal.Change) (jobs []journal.Job, err error) {
	err = w.do(callApply, diskError, func() (err error) {
		jobs, err = w.journal.Apply(ctx, changes...)
		for range len(w.memory.events[1]) - len(w.applied) {
			w.applied = append(w.applied, w.calls[callApply])
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return jobs, nil
}
