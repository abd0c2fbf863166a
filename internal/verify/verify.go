// Package verify compares what the ledger says with what readers of each sink see, window by
// window, and with the rules of the domain, without a request to the service.
// [Verifier.Verify] reports, [Verifier.Repair] mends from another sink what Verify finds, and
// [Verifier.Compare] is the cheap comparison that an export makes once a day.
//
// Verify changes nothing and needs no lock: it inspects a window that seems wrong again, and
// does not report what was committed in between. Memory grows with the number of windows, not
// with their rows.
//
// The package does not know what is due: it marks a window that no sink holds whole as lost,
// and the plan then finds that it must be read again.
package verify

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

// Ledger is the record of commits: *state.DB, or a test's.
type Ledger interface {
	// Entries returns the newest revision of every window.
	Entries(ctx context.Context) ([]state.Entry, error)
	// Amend makes e what the ledger says of its window; without a sink, it is due again.
	Amend(ctx context.Context, e state.Entry) error
	// Committed records and counts that a sink has a revision.
	Committed(ctx context.Context, rev analytics.Revision, sink string, at time.Time) error
}

// has reports whether the ledger says that the sink has the revision.
func has(e state.Entry, sink string) bool { return !e.Sinks[sink].IsZero() }

// owes reports whether the ledger says that the sink will be given the revision.
func owes(e state.Entry, sink string) bool {
	at, there := e.Sinks[sink]
	return there && at.IsZero()
}

// Verifier compares and repairs.
type Verifier struct {
	Ledger Ledger
	// Sinks are all that are configured; Only, if not empty, is the one to verify.
	Sinks []sinks.Sink
	Only  string
	Scope sinks.Scope
	// AllUnreadable also reports unreadable windows of projects outside Scope, since one of
	// them makes a query over all files fail.
	AllUnreadable bool
	// Archive, if not nil, is no sink, but may have what a sink lacks.
	Archive sinks.Sink
	// InSpool reports whether the spool has the revision, whole.
	InSpool func(analytics.Revision) (bool, error)
	// Planned reports whether a window is configured, and whether the plan contains it
	// if the ledger has never known it. Compare does not need it.
	Planned func(analytics.Key) (configured, due bool)
	// Dir is a directory for files of windows that are copied. Verify does not need it, nor
	// Now and Log.
	Dir string
	Now func() time.Time
	Log *slog.Logger
}

// maxInspections is how often a window is inspected that is written at the same time.
const maxInspections = 4

// Verify compares, without changing anything.
func (v *Verifier) Verify(ctx context.Context) (Report, error) {
	report, err := v.verify(ctx, v.Scope)
	if err != nil || !v.AllUnreadable || len(v.Scope.Projects) == 0 {
		return report, err
	}
	others := sinks.Scope{Except: v.Scope.Projects, Within: v.Scope.Within}
	for _, s := range v.chosen() {
		for _, err := range s.Inspect(ctx, others) {
			if fault, ok := errors.AsType[sinks.Fault](err); ok && fault.Kind == sinks.Unreadable {
				report.Findings = append(report.Findings, Finding{
					Key: fault.Key, Sink: s.Name(), Kind: Kind(fault.Kind), Detail: fault.Err.Error(),
					Remedy: configure,
				})
			}
		}
	}
	return report, context.Cause(ctx)
}

func (v *Verifier) verify(ctx context.Context, scope sinks.Scope) (Report, error) {
	first, err := v.survey(ctx, scope, v.chosen())
	if err != nil {
		return Report{}, err
	}
	report := Report{
		Windows: len(first.ledger), Shown: map[string]int{}, Findings: first.ofSinks(), unrecorded: first.unrecorded(),
	}
	for name, shown := range first.shown {
		report.Shown[name] = len(shown)
	}
	suspects := keysOf(first.findings())
	for range maxInspections {
		if len(suspects) == 0 {
			break
		}
		narrow := scope
		narrow.Keys = suspects
		// Now every sink: one that is not verified may have what another lacks.
		again, err := v.survey(ctx, narrow, v.sources())
		if err != nil {
			return report, err
		}
		suspects = map[analytics.Key]bool{}
		for _, f := range again.findings() {
			if again.changed[f.Key] {
				suspects[f.Key] = true
			} else {
				report.Findings = append(report.Findings, f)
			}
		}
	}
	implausible, remarks := first.implausible(keysOf(report.Findings))
	report.Findings, report.Remarks = append(report.Findings, implausible...), remarks
	report.Busy = slices.SortedFunc(maps.Keys(suspects), byKey)
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		if c := byKey(a.Key, b.Key); c != 0 {
			return c
		}
		return strings.Compare(a.Sink, b.Sink)
	})
	return report, nil
}

func byKey(a, b analytics.Key) int { return strings.Compare(a.String(), b.String()) }

func keysOf(findings []Finding) map[analytics.Key]bool {
	out := map[analytics.Key]bool{}
	for _, f := range findings {
		out[f.Key] = true
	}
	return out
}

// chosen returns the sinks to verify.
func (v *Verifier) chosen() []sinks.Sink {
	return slices.DeleteFunc(slices.Clone(v.Sinks), func(s sinks.Sink) bool {
		return v.Only != "" && v.Only != s.Name()
	})
}

// sources returns every place that may have a window.
func (v *Verifier) sources() []sinks.Sink {
	if v.Archive == nil {
		return v.Sinks
	}
	return append(slices.Clone(v.Sinks), v.Archive)
}

// survey is what ledger and sinks say at one time.
type survey struct {
	*Verifier
	order  []string // the sinks inspected
	ledger map[analytics.Key]state.Entry
	// spooled are the windows of which a sink lacks the revision, and the spool has it.
	spooled map[analytics.Key]bool
	// changed are the windows whose entry changed while the sinks were inspected.
	changed map[analytics.Key]bool
	shown   map[string]map[analytics.Key]sinks.Shown
	faults  map[string]map[analytics.Key]sinks.Fault
	// unlisted sinks may have more than was seen.
	unlisted map[string]error
	strays   []Finding
}

// survey reads the ledger, the sinks, the spool, and the ledger again.
func (v *Verifier) survey(ctx context.Context, scope sinks.Scope, inspected []sinks.Sink) (*survey, error) {
	scope.Rows = true
	before, err := v.entries(ctx, scope)
	if err != nil {
		return nil, err
	}
	w := &survey{
		Verifier: v, spooled: map[analytics.Key]bool{}, changed: map[analytics.Key]bool{},
		shown:  map[string]map[analytics.Key]sinks.Shown{},
		faults: map[string]map[analytics.Key]sinks.Fault{}, unlisted: map[string]error{},
	}
	for _, s := range inspected {
		if err := w.inspect(ctx, s, scope); err != nil {
			return nil, err
		}
	}
	// A window leaves the spool after the ledger has recorded that the last sink has it. So
	// nothing delivers what the ledger still owes then, and the spool lacked before.
	for key, e := range before {
		if slices.ContainsFunc(v.Sinks, func(s sinks.Sink) bool { return !has(e, s.Name()) }) {
			if w.spooled[key], err = v.InSpool(e.Revision); err != nil {
				return nil, err
			}
		}
	}
	if w.ledger, err = v.entries(ctx, scope); err != nil {
		return nil, err
	}
	for _, entries := range []map[analytics.Key]state.Entry{before, w.ledger} {
		for key := range entries {
			a, was := before[key]
			b, is := w.ledger[key]
			w.changed[key] = was != is || !same(a.Revision, b.Revision) || a.Checksum != b.Checksum ||
				!maps.EqualFunc(a.Sinks, b.Sinks, time.Time.Equal)
		}
	}
	return w, nil
}

func (v *Verifier) entries(ctx context.Context, scope sinks.Scope) (map[analytics.Key]state.Entry, error) {
	all, err := v.Ledger.Entries(ctx)
	out := map[analytics.Key]state.Entry{}
	for _, e := range all {
		if scope.Has(e.Key) {
			out[e.Key] = e
		}
	}
	return out, err
}

func (w *survey) inspect(ctx context.Context, s sinks.Sink, scope sinks.Scope) error {
	name := s.Name()
	shown, faults := map[analytics.Key]sinks.Shown{}, map[analytics.Key]sinks.Fault{}
	w.order, w.shown[name], w.faults[name] = append(w.order, name), shown, faults
	for got, err := range s.Inspect(ctx, scope) {
		fault, ofWindow := errors.AsType[sinks.Fault](err)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case ofWindow && fault.Kind == sinks.Stray:
			w.strays = append(w.strays, Finding{Sink: name, Kind: Kind(fault.Kind),
				Detail: fault.Err.Error(), Remedy: byHand})
		case err != nil && !ofWindow:
			w.unlisted[name] = err
		default:
			if ofWindow {
				faults[fault.Key] = fault
			}
			if !ofWindow || got.Key == fault.Key {
				shown[got.Key] = got
			}
		}
	}
	return context.Cause(ctx)
}
