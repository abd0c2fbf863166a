package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/journal"
)

func faultsOf(call string) []faults.Fault {
	if call == callCreate || call == callMessage {
		return append(slices.Clip(faults.OfCalls), faults.NotSent)
	}
	return faults.OfCalls
}

// everyFault runs a test with each fault of each call, but of each only the first ones.
func everyFault(
	t *testing.T, calls map[string]int, most int, run func(t *testing.T, call string, nth int, f faults.Fault),
) {
	for _, call := range slices.Sorted(maps.Keys(calls)) {
		for nth := range min(calls[call], most) {
			for _, f := range faultsOf(call) {
				t.Run(fmt.Sprintf("%s %d/%s", call, nth+1, f), func(t *testing.T) { run(t, call, nth+1, f) })
			}
		}
	}
}

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

// process is one process in the world.
type process struct {
	*world
	*faults.Process
}

// call makes one call. failed is its error if the call is lost.
func call[T any](p *process, name string, failed func() error, effect func() (T, error)) (out T, err error) {
	lost := func(f faults.Fault) error {
		if f == faults.NotSent {
			return notSentError()
		}
		return failed()
	}
	var none T
	if err = p.Do(name, lost, func() (err error) { out, err = effect(); return err }); err != nil {
		return none, err
	}
	return out, nil
}

// wire is the client of a process.
type wire struct{ *process }

func (w wire) CreateJob(ctx context.Context, project, prompt, title string) (docsapi.Job, error) {
	return call(w.process, callCreate, lostError, func() (docsapi.Job, error) {
		return w.service.CreateJob(ctx, project, prompt, title)
	})
}

func (w wire) SendMessage(ctx context.Context, project, id, prompt string) (docsapi.Job, error) {
	return call(w.process, callMessage, lostError, func() (docsapi.Job, error) {
		return w.service.SendMessage(ctx, project, id, prompt)
	})
}

// Job answers as the client does: a read that is lost can be repeated.
func (w wire) Job(ctx context.Context, project, id string) (docsapi.Job, error) {
	unanswered := func() error { return &docsapi.Error{Op: "read a job", Outcome: docsapi.Transient} }
	return call(w.process, callRead, unanswered, func() (docsapi.Job, error) { return w.service.Job(ctx, project, id) })
}

// wiredJournal is the journal of a process.
type wiredJournal struct{ *process }

func onDisk[T any](w wiredJournal, name string, effect func() (T, error)) (T, error) {
	return call(w.process, name, func() error { return errors.New("state: the disk is full") }, effect)
}

func (w wiredJournal) Present() error { return w.journal.Present() }

func (w wiredJournal) Jobs(ctx context.Context) ([]journal.Job, error) {
	return onDisk(w, callJobs, func() ([]journal.Job, error) { return w.journal.Jobs(ctx) })
}

func (w wiredJournal) Job(ctx context.Context, seq int64) (journal.Job, error) {
	return onDisk(w, callJob, func() (journal.Job, error) { return w.journal.Job(ctx, seq) })
}

func (w wiredJournal) Queue(ctx context.Context) (journal.Queue, error) {
	return onDisk(w, callQueue, func() (journal.Queue, error) { return w.journal.Queue(ctx) })
}

func (w wiredJournal) Recurring(ctx context.Context) (map[string]journal.Recurring, error) {
	return onDisk(w, callRecurring, func() (map[string]journal.Recurring, error) { return w.journal.Recurring(ctx) })
}

func (w wiredJournal) PullStates(ctx context.Context) ([]journal.PullRequest, error) {
	return onDisk(w, callPulls, func() ([]journal.PullRequest, error) { return w.journal.PullStates(ctx) })
}

func (w wiredJournal) See(ctx context.Context, prompt, schedule string, at time.Time) error {
	_, err := onDisk(w, callSee, func() (any, error) { return nil, w.journal.See(ctx, prompt, schedule, at) })
	return err
}

func (w wiredJournal) Apply(ctx context.Context, changes ...journal.Change) ([]journal.Job, error) {
	return onDisk(w, callApply, func() ([]journal.Job, error) { return w.journal.Apply(ctx, changes...) })
}
