package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// ErrNewState: there are prompts, and a state without any job. Was it lost, all
// of them would be sent a second time.
var ErrNewState = errors.New("there are prompts, but this state has no job")

var errNewState = fmt.Errorf("%w: if the state was lost they were sent before; set DOCGAUGE_PROMPTS_ON_NEW_STATE once, to submit (send them) or to skip (they count as done)", ErrNewState)

// adopt makes sure that the queue knows its state. Without prompts there is
// nothing to decide.
func (q *Queue) adopt(ctx context.Context, v *view, found prompts.Scanned) (err error) {
	prompts := slices.Concat(found.Prompts, found.Invalid)
	if v.queue.Adopted || len(prompts) == 0 {
		return nil
	}
	queue := v.queue
	queue.Adopted = true
	changes := []journal.Change{{At: v.at, Queue: &queue}}
	switch {
	case q.cfg.OnNewState == Submit:
		changes[0].Cause = "new state: its prompts are sent"
	case q.cfg.OnNewState != Skip:
		return errNewState
	case len(found.Changing) > 0:
		return fmt.Errorf("%w: %d files have just changed; they count as done with the others once they settle", ErrNewState, len(found.Changing))
	default:
		changes[0].Cause = fmt.Sprintf("new state: %d prompts count as done", len(prompts))
		changes = append(changes, v.done(prompts)...)
	}
	if _, err := q.apply(ctx, changes...); err != nil {
		return err
	}
	q.cfg.Logger.Info("new state adopted", "policy", q.cfg.OnNewState, "prompts", len(prompts))
	next, err := q.load(ctx)
	if err == nil {
		*v = *next
	}
	return err
}

// done makes prompts count as completed that were never sent. Those that recur go
// on with their next firing.
func (v *view) done(all []prompts.Prompt) []journal.Change {
	var out []journal.Change
	entered := map[string]bool{} // an invalid id can come twice
	for _, p := range all {
		if _, known := v.of(p.ID); known || p.Recurs() || entered[p.ID] {
			continue
		}
		entered[p.ID] = true
		job := newJob(p, journal.Completed)
		job.Reason, job.Ended = "it counted as done when this state was new; it was not sent", v.at
		out = append(out, journal.Change{Job: job, At: v.at, Cause: job.Reason})
	}
	return out
}

// newJob is the first job of a prompt.
func newJob(p prompts.Prompt, state journal.State) journal.Job {
	return journal.Job{Prompt: p.ID, Attempt: 1, Project: p.Project, Title: p.Title, Path: p.Path, Digest: p.Digest,
		ConcurrencyKey: p.ConcurrencyKey, Resubmit: p.OnUnknown == prompts.Resubmit, State: state}
}
