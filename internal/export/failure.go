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
	// maxStrange is how many answers in a row may be none of this API before it is
	// taken to be no answer of the service at all: a wrong base URL must not cost
	// the whole budget.
	maxStrange = 8
	// maxRefused is how many windows of a project that never gave one may be
	// refused in a row before the project is taken to be what is refused.
	maxRefused = 3
)

// health is what a run knows of the service.
type health struct {
	barred map[string]bool // projects the service refuses
	// answered: it gave a window, or a page of one, in this run.
	answered bool
	// streak, strange and refused count windows that failed, each in its way, since
	// the last that went well.
	streak, strange int
	refused         map[string]int
	// failing are the windows it failed for.
	failing []analytics.Aside
	// underWay counts the windows that are begun and have not ended.
	underWay int
}

func newHealth() health { return health{barred: map[string]bool{}, refused: map[string]int{}} }

// standing reports whether the service answered in this run, and whether any
// window is under way.
func (r *run) standing() (answered, underWay bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.health.answered, r.health.underWay > 0
}

// begun counts the windows under way.
func (r *run) begun(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.health.underWay += n
}

// wentWell notes an answer that is of use.
func (r *run) wentWell(project string) {
	r.mu.Lock()
	first := !r.health.answered
	r.health.answered = true
	r.health.streak, r.health.strange = 0, 0
	delete(r.health.refused, project)
	r.mu.Unlock()
	if first {
		r.order.notify()
	}
}

// isSuspect reports whether the window failed when it was last asked for.
func (r *run) isSuspect(k analytics.Key) bool {
	_, failed := r.work.Asides[k]
	return failed
}

// dropBarred takes the windows of barred projects out of what is left.
func (r *run) dropBarred() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.health.barred) == 0 {
		return
	}
	before := len(r.left)
	r.left = slices.DeleteFunc(r.left, func(item schedule.Item) bool { return r.health.barred[item.Project] })
	r.result.Left += before - len(r.left)
}

// classify decides what a window's failure means: nothing but a delay, a pause
// of that window alone, the end of its project's windows, or the end of the run.
func (r *run) classify(ctx, sending context.Context, item schedule.Item, err error) {
	r.count(func(res *Result) { res.Left++ })
	switch {
	case sending.Err() != nil || errors.Is(err, errStopped):
	case refused(err) || docsapi.IsThrottled(err):
		r.count(func(res *Result) { res.BudgetSpent, r.ended = true, true })
	case docsapi.IsUnauthorized(err):
		r.halt(err)
	case errors.Is(err, errRepeats):
		r.setAside(ctx, item, analytics.AsideRepeats, err)
	case docsapi.IsMalformed(err):
		r.setAside(ctx, item, analytics.AsideMalformed, err)
	case fromService(err):
		if r.failed(item, err) {
			r.setAside(ctx, item, analytics.AsideRefused, err)
		}
	default:
		r.halt(err)
	}
}

// failed notes a window that the service did not give: because it is down, is not
// this service, does not know the project, or refuses this window, which is then
// to be set aside.
func (r *run) failed(item schedule.Item, err error) (aside bool) {
	e, _ := errors.AsType[*docsapi.Error](err)
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &r.health
	said := false // by another window that was under way
	switch {
	case e.Outcome == docsapi.Transient:
		if item.Reason != schedule.ReasonOpen {
			h.failing = append(h.failing, r.aside(item.Key, analytics.AsideFailing, err))
		}
		switch {
		case !r.isSuspect(item.Key):
			h.streak++
			said = h.streak > maxFailures
			r.ended = r.ended || h.streak >= maxFailures
		case !h.answered: // there was nothing else to try
			r.ended = true
		}
	case e.Status == http.StatusOK:
		h.strange++
		said = h.strange > maxStrange
		r.ended = r.ended || h.strange >= maxStrange
	case e.Status == http.StatusNotFound || !e.FromAPI:
		said = h.barred[item.Project]
		h.barred[item.Project] = true
	case h.barred[item.Project]:
		said = true
	default:
		h.refused[item.Project]++
		h.barred[item.Project] = h.refused[item.Project] >= maxRefused && !r.work.Sizes.Knows(item.Project)
		return true
	}
	if !said {
		r.result.Errors = append(r.result.Errors, err)
	}
	return false
}

// setAside reports a window that failed by itself, and lets it rest. A running one,
// which is only shown, is asked for again in the next run.
func (r *run) setAside(ctx context.Context, item schedule.Item, reason analytics.AsideReason, err error) {
	r.count(func(res *Result) { res.Warnings = append(res.Warnings, err) })
	if item.Reason != schedule.ReasonOpen {
		r.keepAside(ctx, r.aside(item.Key, reason, err))
	}
}

// aside counts one more failure of a window, and how long it rests.
func (r *run) aside(k analytics.Key, reason analytics.AsideReason, err error) analytics.Aside {
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

// keepAside enters a window that rests. That it cannot is said and no failure:
// the window is due again in the next run.
func (r *run) keepAside(ctx context.Context, a analytics.Aside) {
	r.count(func(res *Result) { res.SetAside++ })
	if err := r.p.ledger.SetAside(ctx, a); err != nil && ctx.Err() == nil {
		r.log.Warn("window not set aside", "window", a.Key.String(), "error", err)
	}
}

// noteFailing enters the windows that the service failed for. Where it answered
// for others it is the window's fault, which then rests. Else the service was
// down: Until is Since, the window does not rest, and the failure only says that it
// is tried after others next time.
func (r *run) noteFailing(ctx context.Context) {
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
		r.keepAside(ctx, a)
	}
}

// refusal is an error of the budget below the source: nothing is sent until
// RetryAt, or, where that is the zero time, until someone mends the state.
type refusal interface {
	error
	RetryAt() time.Time
}

// refused reports whether the budget did not let a request through until a
// known time.
func refused(err error) bool {
	r, ok := errors.AsType[refusal](err)
	return ok && !r.RetryAt().IsZero()
}

// fromService reports whether the failure is the service's or the network's,
// rather than our own state's.
func fromService(err error) bool {
	_, ok := errors.AsType[*docsapi.Error](err)
	_, local := errors.AsType[refusal](err)
	return ok && !local
}
