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
	"github.com/docgauge/docgauge/internal/format"
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
	barred map[schedule.Source]bool // the sources that the service refuses
	// answered: the service gave a window, or a page of one, in this run.
	answered bool
	// gave has the sources of these windows.
	gave map[schedule.Source]bool
	// unreached: the service could not be connected to.
	unreached bool
	// failures counts the windows that failed since the last useful response; failed is the source of the
	// first of them, and several means that there are others.
	failures int
	failed   schedule.Source
	several  bool
	// unrecognized has the windows with unrecognized responses since the last useful one.
	unrecognized []failure
	// unauthorized has the first window of each source that was refused with 401 or 403.
	unauthorized []failure
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
func (r *run) noteAnswer(ctx context.Context, source schedule.Source) {
	r.mu.Lock()
	h := &r.health
	first := !h.gave[source]
	h.answered, h.gave[source] = true, true
	h.failures, h.several = 0, false
	h.atFault = append(append(h.atFault, h.refused[source]...), h.unrecognized...)
	h.unrecognized = nil
	delete(h.refused, source)
	r.mu.Unlock()
	if !first {
		return
	}
	r.order.notify()
	if series := (schedule.Series{Source: source}); r.learned(series, schedule.Refused).N > 0 {
		r.setLearned(ctx, series, schedule.Refused, 0)
	}
}

// sendingOf returns the context of the requests for a source, which ends with the first one that the service
// refuses (401, 403).
func (r *run) sendingOf(sending context.Context, source schedule.Source) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.sources[source]; !known {
		ctx, cut := context.WithCancelCause(sending)
		r.sources[source] = sourceContext{ctx, cut}
	}
	return r.sources[source].Context
}

// sourceContext is the context of the requests for a source.
type sourceContext struct {
	context.Context
	cut context.CancelCauseFunc
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
		r.noteUnauthorized(failure{item, analytics.AsideRefused, err})
	case errors.Is(err, errRepeats):
		r.setAside(ctx, failure{item, analytics.AsideRepeats, err})
	case errors.Is(err, errNoRows), errors.Is(err, errNoTotals):
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
	noPage := errors.Is(err, errNoPage)
	switch {
	case source.Report != analytics.VisitorsReport && !noPage && r.isLacking(source, api):
		if reported = h.barred[source]; !reported {
			h.barred[source], h.lacking = true, append(h.lacking, source)
		}
		err = errors.New(LackingText(source, api) + "; until then it is asked for once a day, and the other reports are " +
			"exported")
	case docsapi.IsNotSent(api): // the same for every window: none is at fault, no other is tried
		reported = h.unreached
		h.unreached, r.draining = true, true
	case api.Outcome == docsapi.Transient:
		h.failing = append(h.failing, failure{item, analytics.AsideFailing, err})
		_, suspect := r.work.Asides[item.Key]
		switch {
		case !suspect:
			if h.failures++; h.failures == 1 {
				h.failed = source
			}
			h.several = h.several || source != h.failed
			reported = h.failures > maxFailures
			switch {
			case h.failures < maxFailures:
			case h.several || !r.othersGave(source):
				r.draining = true
			default: // one project, or one report of it: the others are tried
				h.barred[source] = true
			}
		case !h.answered: // there was nothing else to try
			r.draining = true
		}
	case api.Status == http.StatusOK:
		h.unrecognized = append(h.unrecognized, failure{item, analytics.AsideMalformed, err})
		reported = true // when the run has ended
		r.draining = r.draining || len(h.unrecognized) >= maxUnrecognized
	case !noPage && (api.Status == http.StatusNotFound || !api.FromAPI):
		reported = h.barred[source]
		h.barred[source] = true
	case h.barred[source]:
		reported = true
	default:
		reported = !r.noteRefusal(failure{item, analytics.AsideRefused, err})
		remedy := "the next run tries the project again"
		if source.Report != analytics.VisitorsReport {
			remedy = "the next run tries the report again; without it, remove " + source.Report.String() +
				" from DOCGAUGE_REPORTS"
		}
		err = fmt.Errorf("%w (%d windows in a row were refused: %s)", err, len(h.refused[source]), remedy)
	}
	if !reported {
		r.report(failure{item: item, err: err}, api)
	}
}

// report adds the failure of a window to the summary; a text that comes again is not repeated. The caller holds mu.
func (r *run) report(f failure, api *docsapi.Error) {
	if r.health.reported == api.Error() {
		f.err = fmt.Errorf("export %s: the same failure", f.item.Key)
	}
	r.health.reported = api.Error()
	r.e.count(func(s *Summary) { s.AddErrors(f.err) })
}

// isLacking reports whether a refusal means that the service lacks the report: it knows the project by visitors.
// Where it had the report before, a bad request is the window's fault. The caller holds mu.
func (r *run) isLacking(source schedule.Source, api *docsapi.Error) bool {
	visitors := schedule.Source{Project: source.Project}
	if !r.health.gave[visitors] && !r.work.Sizes.Knows(visitors) {
		return false
	}
	switch api.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return api.Outcome == docsapi.Permanent && api.Status/100 == 4 && !r.health.gave[source] &&
		!r.work.Sizes.Knows(source)
}

// othersGave reports whether the service gave a page of another source that it has not refused since. The caller
// holds mu.
func (r *run) othersGave(source schedule.Source) bool {
	for other := range r.health.gave {
		if other != source && !r.health.barred[other] && !r.health.barred[schedule.Source{Project: other.Project}] {
			return true
		}
	}
	return false
}

// noteUnauthorized ends the requests for a source that the service refuses with 401 or 403. Whether it refuses
// the key, or only the source, its answers to the others tell. If it refused the key in the run before, one
// refusal is enough.
func (r *run) noteUnauthorized(f failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, source := &r.health, schedule.SourceOf(f.item.Key)
	if !h.barred[source] {
		h.barred[source], h.unauthorized = true, append(h.unauthorized, f)
		r.sources[source].cut(errAborted)
	}
	r.draining = r.draining || r.work.KeyRefused && !h.answered
}

// judgeUnauthorized decides, when the last window has ended, what the service refused with 401 and 403. It is a
// project or a report, which then waits for a while, if the service answered for another one in this run and did
// not refuse that later, or if an earlier run with the same key found that. Otherwise it is the key.
func (r *run) judgeUnauthorized(ctx context.Context) {
	h := &r.health
	var key error
	for _, f := range h.unauthorized {
		source := schedule.SourceOf(f.item.Key)
		series := schedule.Series{Source: source}
		before := r.learned(series, schedule.Refused)
		if before.N == 0 && !r.othersGave(source) {
			if key == nil {
				key = f.err
			}
			continue
		}
		r.setLearned(ctx, series, schedule.Refused, before.N+1)
		_, until := r.work.Learned.Refused(source)
		r.e.count(func(s *Summary) { s.AddErrors(refusalOf(source, f.err, until)) })
	}
	if key == nil {
		return
	}
	r.e.count(func(s *Summary) {
		s.KeyRefused = true
		s.AddErrors(key)
	})
	if r.e.app.API != nil {
		r.e.app.API.RefuseKey()
	}
}

// refusalOf is the refusal of a source, with its consequence.
func refusalOf(source schedule.Source, err error, until time.Time) error {
	others := "projects"
	if source.Report != analytics.VisitorsReport {
		others = "reports"
	}
	return &sourceError{err, fmt.Sprintf("%s; it is asked for again after %s, or by docgauge check, and other %s are "+
		"exported", RefusedText(source, err), format.Time(until), others)}
}

// RefusedText says that the service refuses a source (401, 403) with a key that it accepts for others.
func RefusedText(source schedule.Source, err error) string {
	what, remedy := "project "+source.Project, "give the key access to it, or remove it from DOCGAUGE_PROJECTS"
	if source.Report != analytics.VisitorsReport {
		what = fmt.Sprintf("the report %s of project %s", source.Report, source.Project)
		remedy = fmt.Sprintf("remove %s from DOCGAUGE_REPORTS, or give the key access to it", source.Report)
	}
	why := err.Error()
	if api, ok := errors.AsType[*docsapi.Error](err); ok {
		why = fmt.Sprintf("HTTP %d", api.Status)
		if api.Says != "" {
			why += ": " + api.Says
		}
	}
	return fmt.Sprintf("the service refuses %s (%s), but accepts the key otherwise: %s", what, why, remedy)
}

// LackingText says that the service does not have a report of a project of which it has visitors.
func LackingText(source schedule.Source, err *docsapi.Error) string {
	return fmt.Sprintf("the service does not have the report %s of project %s (%s): remove %[1]s from DOCGAUGE_REPORTS",
		source.Report, source.Project, err.Short())
}

// sourceError is the refusal of a source under another text.
type sourceError struct {
	err  error
	text string
}

func (e *sourceError) Error() string { return e.text }
func (e *sourceError) Unwrap() error { return e.err }

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
	r.judgeUnauthorized(ctx)
	for _, f := range h.unrecognized {
		// The service, or the base URL, is wrong if nothing else came, or if these were too many.
		_, suspect := r.work.Asides[f.item.Key]
		if len(h.unrecognized) < maxUnrecognized && (h.answered || suspect) {
			h.atFault = append(h.atFault, f)
		} else if api, ok := errors.AsType[*docsapi.Error](f.err); ok {
			r.locked(func() { r.report(f, api) })
		}
	}
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
