package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/schedule"
)

// maxFailures is how many windows may fail in a row, each after its retries,
// before the service is taken to be down and the run ends.
const maxFailures = 2

// maxNonsense is how many windows may be answered with nonsense in a row before
// it is taken to be no answer of the service at all: a wrong base URL must not
// cost the whole budget.
const maxNonsense = 8

// sort decides what a window's failure means for the run: nothing but a delay,
// the end of its project's windows, or the end of the run.
func (r *run) sort(sending context.Context, item schedule.Item, err error) {
	switch {
	case sending.Err() != nil || errors.Is(err, errStopped):
		r.count(func(res *Result) { res.Left++ })
	case refused(err) || docsapi.IsThrottled(err):
		r.count(func(res *Result) { res.Left++; res.BudgetSpent = true; r.ended = true })
	case docsapi.IsUnauthorized(err):
		r.count(func(res *Result) { res.Left++ })
		r.halt(err)
	case fromService(err) || nonsense(err):
		r.failed(item, err)
	default:
		r.count(func(res *Result) { res.Left++ })
		r.halt(err)
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

// failed notes a window the service did not give. A refusal of the project's
// request (4xx) bars the project; two windows in a row that failed after their
// retries mean that the service is down. A window the service answers with
// nonsense fails alone, but many in a row end the run too.
func (r *run) failed(item schedule.Item, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Left++
	said := false // by another window that was under way
	switch {
	case docsapi.OutcomeOf(err) == docsapi.Transient:
		r.streak++
		said = r.streak > maxFailures
		r.ended = r.ended || r.streak >= maxFailures
	case nonsense(err):
		r.nonsense++
		said = r.nonsense > maxNonsense
		r.ended = r.ended || r.nonsense >= maxNonsense
	default:
		said = r.barred[item.Project]
		r.barred[item.Project] = true
	}
	if !said {
		r.result.Errors = append(r.result.Errors, err)
	}
}
