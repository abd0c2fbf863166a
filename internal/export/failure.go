package export

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/schedule"
)

const (
	// maxFailures is how many windows may fail in a row, each after its retries,
	// before the service is taken to be down and the run ends.
	maxFailures = 2
	// maxUnrecognized is the number of consecutive unrecognized responses after which we
	// assume the base URL is wrong: that must not cost the whole budget.
	maxUnrecognized = 8
	// maxRefused is how many windows of a project that never gave one may be refused in
	// a row before the service is taken to refuse the project.
	maxRefused = 3
)

// health is what a run knows about the service.
type health struct {
	barred map[string]bool // projects that the service refuses
	// answered: the service gave a window, or a page of one, in this run.
	answered bool
	// gave are the projects of which it did.
	gave map[string]bool
	// failures, unrecognized and refused (by project) count, each for its kind, the
	// windows that failed since the last useful answer.
	failures, unrecognized int
	refused                map[string]int
	// failing are the windows for which the service failed.
	failing []analytics.Aside
}

func newHealth() health {
	return health{barred: map[string]bool{}, gave: map[string]bool{}, refused: map[string]int{}}
}

// noteAnswer notes a useful answer.
func (r *run) noteAnswer(project string) {
	r.mu.Lock()
	first := !r.health.gave[project]
	r.health.answered, r.health.gave[project] = true, true
	r.health.failures, r.health.unrecognized = 0, 0
	delete(r.health.refused, project)
	r.mu.Unlock()
	if first {
		r.order.notify()
	}
}

// dropBarred removes the windows of barred projects from those that are pending.
func (r *run) dropBarred() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.health.barred) == 0 {
		return
	}
	before := len(r.pending)
	r.pending = slices.DeleteFunc(r.pending, func(item schedule.Item) bool { return r.health.barred[item.Project] })
	r.result.Left += before - len(r.pending)
}

// drain lets the windows under way finish and starts no other.
func (r *run) drain(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.draining {
		r.draining = true
		r.result.Errors = append(r.result.Errors, cause)
	}
}

// abort ends the run at once: nothing more is sent. The first cause is reported.
func (r *run) abort(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.aborted {
		r.aborted = true
		r.result.Errors = append(r.result.Errors, cause)
		r.cut(errAborted)
	}
}

// classify decides what a window's failure means: only a delay, a pause
// of that window alone, the end of its project's windows, or the end of the run.
func (r *run) classify(ctx, sending context.Context, item schedule.Item, err error) {
	r.locked(func() { r.result.Left++ })
	api, fromAPI := errors.AsType[*docsapi.Error](err)
	refusal, local := errors.AsType[refusal](err)
	switch {
	case sending.Err() != nil:
	case local && !refusal.RetryAt().IsZero() || docsapi.IsThrottled(err):
		r.locked(func() { r.result.BudgetSpent, r.draining = true, true })
	case docsapi.IsUnauthorized(err):
		r.abort(err)
	case errors.Is(err, errRepeats):
		r.setAside(ctx, item, analytics.AsideRepeats, err)
	case docsapi.IsMalformed(err):
		r.setAside(ctx, item, analytics.AsideMalformed, err)
	case !fromAPI || local: // our own state's failure
		r.abort(err)
	case r.isWindowAtFault(item, api, err):
		r.setAside(ctx, item, analytics.AsideRefused, err)
	}
}

// refusal is an error of the budget below the source: nothing is sent until
// RetryAt, or, where that is the zero time, until someone repairs the state.
type refusal interface {
	error
	RetryAt() time.Time
}

// isWindowAtFault notes that the service did not give a window: because it is down, is
// not this service, does not know the project, or refuses this window alone, which is then
// to be set aside.
func (r *run) isWindowAtFault(item schedule.Item, api *docsapi.Error, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &r.health
	reported := false // by another window that was under way
	switch {
	case api.Outcome == docsapi.Transient:
		if item.Reason != schedule.ReasonOpen {
			h.failing = append(h.failing, r.nextAside(item.Key, analytics.AsideFailing, err))
		}
		_, suspect := r.work.Asides[item.Key]
		switch {
		case !suspect:
			h.failures++
			reported = h.failures > maxFailures
			r.draining = r.draining || h.failures >= maxFailures
		case !h.answered: // there was nothing else to try
			r.draining = true
		}
	case api.Status == http.StatusOK:
		h.unrecognized++
		reported = h.unrecognized > maxUnrecognized
		r.draining = r.draining || h.unrecognized >= maxUnrecognized
	case api.Status == http.StatusNotFound || !api.FromAPI:
		reported = h.barred[item.Project]
		h.barred[item.Project] = true
	case h.barred[item.Project]:
		reported = true
	default:
		h.refused[item.Project]++
		h.barred[item.Project] = h.refused[item.Project] >= maxRefused && !r.work.Sizes.Knows(item.Project)
		return true
	}
	if !reported {
		r.result.Errors = append(r.result.Errors, err)
	}
	return false
}

// setAside reports a window that failed by itself and lets it rest. A running window,
// which is only displayed, is requested again in the next run.
func (r *run) setAside(ctx context.Context, item schedule.Item, reason analytics.AsideReason, err error) {
	r.locked(func() { r.result.Warnings = append(r.result.Warnings, err) })
	if item.Reason != schedule.ReasonOpen {
		r.saveAside(ctx, r.nextAside(item.Key, reason, err))
	}
}

// nextAside counts one more failure of a window, which decides how long it rests.
func (r *run) nextAside(k analytics.Key, reason analytics.AsideReason, err error) analytics.Aside {
	now := r.p.cfg.Now().UTC().Truncate(time.Microsecond)
	a, again := r.work.Asides[k]
	if !again {
		a = analytics.Aside{Key: k, Since: now}
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // without the window's name
	}
	a.Reason, a.Detail = reason, err.Error()
	a.Failures++
	a.Until = now.Add(schedule.Pause(a.Failures))
	return a
}

// saveAside keeps a window that rests. If that fails, the window is due again in the next
// run.
func (r *run) saveAside(ctx context.Context, a analytics.Aside) {
	r.locked(func() { r.result.SetAside++ })
	if err := r.p.ledger.SetAside(ctx, a); err != nil && ctx.Err() == nil {
		r.log.With(a.Key.Attrs()).Warn("window not set aside", "error", err)
	}
}

// saveFailing keeps the windows for which the service failed. Where it answered
// for others, the window is at fault and rests. Otherwise the service was
// down: Until is Since, so that the window does not rest, and its failure only says that
// others are tried before it next time.
func (r *run) saveFailing(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	for _, a := range r.health.failing {
		if before, again := r.work.Asides[a.Key]; again && r.health.answered && before.Until.Equal(before.Since) {
			a.Failures = 1
			a.Until = r.p.cfg.Now().UTC().Truncate(time.Microsecond).Add(schedule.Pause(1))
		}
		if !r.health.answered {
			a.Until = a.Since
		}
		r.saveAside(ctx, a)
	}
}
