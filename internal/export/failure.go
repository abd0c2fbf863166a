package export

import (
	"context"
	"errors"
	"fmt"
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
	// maxRefused is the number of consecutive windows of a project that may be refused
	// before we assume that the service refuses the project, not these windows. It is
	// maxRefusedNew for a project of which no window was ever read.
	maxRefused    = 5
	maxRefusedNew = 3
)

// health is the knowledge of a run about the service.
type health struct {
	barred map[schedule.Source]bool // what the service refuses
	// answered: the service gave a window, or a page of one, in this run.
	answered bool
	// gave has the sources of these windows.
	gave map[schedule.Source]bool
	// unreached: the service could not be connected to.
	unreached bool
	// failures and unrecognized count the windows that failed, by kind, since the last useful
	// response.
	failures, unrecognized int
	// refused has, by source, the windows that were refused since its last useful response.
	refused map[schedule.Source][]failure
	// failing has the windows for which the service failed, atFault those that it refuses
	// although it serves others.
	failing, atFault []failure
	// lacking are the sources that the service does not have.
	lacking []schedule.Source
	// reported is the last failure that was reported.
	reported string
}

// failure is a window that failed for a reason that concerns only this window.
type failure struct {
	item   schedule.Item
	reason analytics.AsideReason
	err    error
}

// noteAnswer notes a useful answer.
func (r *run) noteAnswer(source schedule.Source) {
	r.mu.Lock()
	first := !r.health.gave[source]
	r.health.answered, r.health.gave[source] = true, true
	r.health.failures, r.health.unrecognized = 0, 0
	r.health.atFault = append(r.health.atFault, r.health.refused[source]...)
	delete(r.health.refused, source)
	r.mu.Unlock()
	if first {
		r.order.notify()
	}
}

// dropBarred removes the windows of barred sources from those that are pending: with visitors, all of
// the project.
func (r *run) dropBarred() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.health.barred) == 0 {
		return
	}
	before := len(r.pending)
	r.pending = slices.DeleteFunc(r.pending, func(item schedule.Item) bool {
		return r.health.barred[schedule.SourceOf(item.Key)] || r.health.barred[schedule.Source{Project: item.Project}]
	})
	r.e.count(func(s *Summary) { s.Left += before - len(r.pending) })
}

// drain lets the windows under way finish and starts no other.
func (r *run) drain(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.draining {
		r.draining = true
		r.e.count(func(s *Summary) { s.AddErrors(cause) })
	}
}

// abort ends the run at once: nothing more is sent. The first cause is reported.
func (r *run) abort(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.aborted {
		r.aborted = true
		r.e.count(func(s *Summary) { s.AddErrors(cause) })
		r.cut(errAborted)
	}
}

// classify decides the consequence of a window's failure: a delay, a pause of
// this window alone, the end of its project's windows, or the end of the run.
func (r *run) classify(ctx, sending context.Context, item schedule.Item, err error) {
	r.e.count(func(s *Summary) { s.Left++ })
	api, fromAPI := errors.AsType[*docsapi.Error](err)
	refusal, local := errors.AsType[refusal](err)
	wrong, isClock := errors.AsType[*docsapi.ClockError](err)
	switch {
	case sending.Err() != nil:
	case isClock:
		r.abort(wrong)
	case local && !refusal.RetryAt().IsZero() || docsapi.IsThrottled(err):
		r.locked(func() { r.draining = true })
		r.e.count(func(s *Summary) { s.BudgetSpent = true })
	case docsapi.IsUnauthorized(err):
		r.abort(err)
	case errors.Is(err, errRepeats):
		r.setAside(ctx, failure{item, analytics.AsideRepeats, err})
	case errors.Is(err, errNoRows):
		r.setAside(ctx, failure{item, analytics.AsideEmpty, err})
	case docsapi.IsMalformed(err):
		r.setAside(ctx, failure{item, analytics.AsideMalformed, err})
	case !fromAPI || local: // our own state's failure
		r.abort(err)
	default:
		r.noteFailure(item, api, err)
	}
}

// refusal is an error of the budget below the source: nothing is sent until
// RetryAt, or, where that is the zero time, until someone repairs the state.
type refusal interface {
	error
	RetryAt() time.Time
}

// noteFailure notes that the service did not give a window: because it is down, is not
// this service, does not know the project, or refuses the window.
func (r *run) noteFailure(item schedule.Item, api *docsapi.Error, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, source := &r.health, schedule.SourceOf(item.Key)
	reported := false // by another window that was under way
	switch {
	case docsapi.IsNotSent(api): // the same for every window: none is at fault, no other is tried
		reported = h.unreached
		h.unreached, r.draining = true, true
	case api.Outcome == docsapi.Transient:
		h.failing = append(h.failing, failure{item, analytics.AsideFailing, err})
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
	case api.Status == http.StatusNotFound && r.isLacking(source):
		if reported = h.barred[source]; !reported {
			h.barred[source], h.lacking = true, append(h.lacking, source)
		}
		err = fmt.Errorf("the service does not have the report %s of project %s (%d): remove it from DOCGAUGE_REPORTS; "+
			"until then it is asked for once a day, and the other reports are exported", source.Report, source.Project,
			api.Status)
	case api.Status == http.StatusNotFound || !api.FromAPI:
		reported = h.barred[source]
		h.barred[source] = true
	case h.barred[source]:
		reported = true
	default:
		reported = !r.noteRefusal(failure{item, analytics.AsideRefused, err})
		err = fmt.Errorf("%w (%d windows in a row were refused: the next run tries the project again)", err,
			len(h.refused[source]))
	}
	if !reported {
		if h.reported == api.Error() {
			err = fmt.Errorf("export %s: the same failure", item.Key)
		}
		h.reported = api.Error()
		r.e.count(func(s *Summary) { s.AddErrors(err) })
	}
}

// isLacking reports whether a 404 means that the service lacks the report: it knows the project by
// another one. The caller holds mu.
func (r *run) isLacking(source schedule.Source) bool {
	visitors := schedule.Source{Project: source.Project}
	return source != visitors && (r.health.gave[visitors] || r.work.Sizes.Knows(visitors))
}

// noteRefusal notes a window that the service refuses, and reports whether that ends the
// windows of its source: after so many consecutive refusals we assume that the project is
// refused, not the windows. The caller holds mu.
func (r *run) noteRefusal(f failure) (ends bool) {
	h, source := &r.health, schedule.SourceOf(f.item.Key)
	if _, suspect := r.work.Asides[f.item.Key]; suspect && h.gave[source] {
		h.atFault = append(h.atFault, f)
		return false
	}
	h.refused[source] = append(h.refused[source], f)
	most := maxRefused
	if !r.work.Sizes.Knows(source) {
		most = maxRefusedNew
	}
	h.barred[source] = len(h.refused[source]) >= most
	return h.barred[source]
}

// setAside reports a window that failed, and pauses it.
func (r *run) setAside(ctx context.Context, f failure) {
	r.e.count(func(s *Summary) { s.Warnings = append(s.Warnings, f.err) })
	r.noteAside(ctx, f, false)
}

// noteAside enters in the ledger that a window failed, and the length of its pause. In an outage
// the pause is 0; the entry only makes the next run try other windows first. A running window,
// which is only displayed, is requested again in any case. If the entry cannot be written, the
// window is due again in the next run.
func (r *run) noteAside(ctx context.Context, f failure, outage bool) {
	if f.item.Reason == schedule.ReasonOpen {
		return
	}
	now := r.e.app.Now().UTC().Truncate(time.Microsecond)
	a, again := r.work.Asides[f.item.Key]
	if !again {
		a = analytics.Aside{Key: f.item.Key, Since: now}
	}
	err := f.err
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // without the window's name
	}
	afterOutage := again && a.Until.Equal(a.Since)
	a.Reason, a.Detail = f.reason, err.Error()
	a.Failures++
	switch {
	case outage:
		a.Until = a.Since
	case afterOutage:
		a.Failures = 1
		fallthrough
	default:
		a.Until = now.Add(schedule.Rest(a))
		r.e.count(func(s *Summary) { s.SetAside++ })
	}
	if err := r.e.ledger.SetAside(ctx, a); err != nil && ctx.Err() == nil {
		r.log.With(a.Key.Attrs()).Warn("window not set aside", "error", err)
	}
}

// keepFailures keeps the windows that failed, when the last of the run has ended. Where the
// service answered for others, they are at fault; otherwise it was down, or refused the
// project.
func (r *run) keepFailures(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	h := &r.health
	for _, source := range h.lacking {
		r.setLearned(ctx, schedule.Series{Source: source}, schedule.Lacking, 1)
	}
	for source, refused := range h.refused {
		if !h.barred[source] {
			h.atFault = append(h.atFault, refused...)
			continue
		}
		for _, f := range refused {
			r.noteAside(ctx, f, true)
		}
	}
	for _, f := range h.atFault {
		r.setAside(ctx, f)
	}
	for _, f := range h.failing {
		r.noteAside(ctx, f, !h.answered)
	}
}
