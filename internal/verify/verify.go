// Package verify compares what the ledger says with what readers of each sink see, window by
// window, and with the rules of the domain, without a request to the service.
// [Verifier.Verify] reports, [Verifier.Repair] mends what Verify finds from another sink, and
// [Verifier.Compare] is the cheap comparison that an export makes once a day.
//
// Verify changes nothing and needs no lock: it inspects a window that seems wrong again, and
// does not report windows committed in between. Memory grows with the number of windows, not
// with their rows.
//
// The package does not plan: it marks a window that no sink holds whole as lost,
// and the plan then finds that it must be read again.
package verify

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// windowLedger is the record of commits: *state.DB, or a test's.
type windowLedger interface {
	// Entries returns the newest revision of every window.
	Entries(ctx context.Context) ([]state.Entry, error)
	// Amend makes e the ledger's entry of its window; without a sink, the window is due again.
	Amend(ctx context.Context, e state.Entry) error
	// Committed records and counts that a sink has a revision.
	Committed(ctx context.Context, rev analytics.Revision, sink string, at time.Time) error
}

// Verifier compares and repairs.
type Verifier struct {
	Ledger windowLedger
	// Sinks are all that are configured; Only, if not empty, is the one to verify.
	Sinks []sinks.Sink
	Only  string
	Scope sinks.Scope
	// AllUnreadable also reports unreadable windows of projects outside Scope, since one of
	// them makes a query over all files fail.
	AllUnreadable bool
	// Archive, if not nil, is not a configured sink, but may have what a sink lacks.
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

// Report has the findings of a verification, or those that a repair left; its JSON keys are stable.
type Report struct {
	// Windows counts those that the ledger has in scope, Shown those that each sink shows.
	Windows int            `json:"windows"`
	Shown   map[string]int `json:"windows_shown"`
	// Findings are in the order of their windows.
	Findings []Finding `json:"findings"`
	// Remarks have the kind suspect: nothing is damaged, and nothing has to be done.
	Remarks []Finding `json:"remarks"`
	// Busy are windows that were written each time they were inspected.
	Busy []string `json:"busy"`
	// Reread counts the windows that only a new reading mends, Requests what that takes.
	Reread   int `json:"windows_to_read_again"`
	Requests int `json:"requests_to_read_again"`
	// Repair is nil after a mere verification.
	Repair *Repaired `json:"repair,omitempty"`

	// unrecorded are revisions that a sink, by name, shows whole although the ledger does not
	// say that it has them.
	unrecorded map[string][]analytics.Revision
}

// reread counts a window that must be read again.
func (r *Report) reread(rows int64) {
	r.Reread++
	r.Requests += schedule.Requests(rows, analytics.PageRows)
}

// conclude fills in the totals and the advice of the findings.
func (r *Report) conclude() {
	r.Reread, r.Requests = 0, 0
	counted := map[analytics.Key]bool{}
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Advice = f.advice()
		if f.Remedy == read && !counted[f.key()] {
			counted[f.key()] = true
			r.reread(f.rows)
		}
	}
	for i := range r.Remarks {
		r.Remarks[i].Advice = r.Remarks[i].advice()
	}
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
					Key: &fault.Key, Sink: s.Name(), Kind: string(fault.Kind), Detail: fault.Err.Error(),
					Remedy: configure,
				})
			}
		}
	}
	report.conclude()
	return report, context.Cause(ctx)
}

func (v *Verifier) verify(ctx context.Context, scope sinks.Scope) (Report, error) {
	first, err := v.survey(ctx, scope, v.chosen())
	if err != nil {
		return Report{}, err
	}
	report := Report{
		Windows: len(first.ledger), Shown: map[string]int{}, Findings: first.ofSinks(), Busy: []string{},
		unrecorded: first.unrecorded(),
	}
	for _, l := range first.inspected {
		report.Shown[l.sink] = len(l.shown)
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
			if again.changed[f.key()] {
				suspects[f.key()] = true
			} else {
				report.Findings = append(report.Findings, f)
			}
		}
	}
	implausible, remarks := first.implausible(ctx, keysOf(report.Findings))
	report.Findings, report.Remarks = append(report.Findings, implausible...), remarks
	for _, key := range sorted(suspects) {
		report.Busy = append(report.Busy, key.String())
	}
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		return cmp.Or(byKey(a.key(), b.key()), strings.Compare(a.Sink, b.Sink))
	})
	report.conclude()
	return report, nil
}

func byKey(a, b analytics.Key) int { return strings.Compare(a.String(), b.String()) }

func sorted(keys map[analytics.Key]bool) []analytics.Key {
	return slices.SortedFunc(maps.Keys(keys), byKey)
}

func keysOf(findings []Finding) map[analytics.Key]bool {
	out := map[analytics.Key]bool{}
	for _, f := range findings {
		out[f.key()] = true
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

// listing is the listing of a sink.
type listing struct {
	sink   string
	shown  map[analytics.Key]sinks.Shown
	faults map[analytics.Key]sinks.Fault
	strays []sinks.Fault
	// showsNothing: the sink shows no window at all, also outside of what was inspected.
	showsNothing bool
	// err is why the sink may have more than was seen.
	err error
}

// list reads the listing of a sink.
func list(ctx context.Context, sink string, windows iter.Seq2[sinks.Shown, error]) (*listing, error) {
	l := &listing{sink: sink, shown: map[analytics.Key]sinks.Shown{}, faults: map[analytics.Key]sinks.Fault{}}
	for shown, err := range windows {
		fault, ofWindow := errors.AsType[sinks.Fault](err)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case ofWindow && fault.Kind == sinks.Stray:
			l.strays = append(l.strays, fault)
		case err != nil && !ofWindow:
			l.err = err
		default:
			if ofWindow {
				l.faults[fault.Key] = fault
			}
			if !ofWindow || shown.Key == fault.Key {
				l.shown[shown.Key] = shown
			}
		}
	}
	return l, context.Cause(ctx)
}

// whole returns the sink's window if it has no fault.
func (l *listing) whole(key analytics.Key) (shown sinks.Shown, ok bool) {
	_, faulty := l.faults[key]
	shown, ok = l.shown[key]
	return shown, ok && !faulty
}

// shows reports whether the sink shows the revision as the ledger has it.
func (l *listing) shows(e state.Entry) bool {
	shown, ok := l.whole(e.Key)
	return ok && shown.Same(e.Revision)
}

// survey has the ledger and the sinks' listings at one time.
type survey struct {
	v *Verifier
	// inspected are the listings of the sinks inspected, in their order. bySink has them too,
	// and empty ones for the other sinks.
	inspected []*listing
	bySink    map[string]*listing
	ledger    map[analytics.Key]state.Entry
	// spooled are the windows of which a sink lacks the revision, and the spool has it.
	spooled map[analytics.Key]bool
	// changed are the windows whose entry changed while the sinks were inspected.
	changed map[analytics.Key]bool
}

// survey reads the ledger, the sinks, the spool, and the ledger again.
func (v *Verifier) survey(ctx context.Context, scope sinks.Scope, inspected []sinks.Sink) (*survey, error) {
	scope.Rows = true
	before, err := v.entries(ctx, scope)
	if err != nil {
		return nil, err
	}
	w := &survey{
		v: v, bySink: map[string]*listing{}, spooled: map[analytics.Key]bool{}, changed: map[analytics.Key]bool{},
	}
	for _, s := range v.Sinks {
		w.bySink[s.Name()] = &listing{sink: s.Name()}
	}
	for _, s := range inspected {
		l, err := list(ctx, s.Name(), s.Inspect(ctx, scope))
		if err != nil {
			return nil, err
		}
		l.showsNothing = len(l.shown)+len(l.faults) == 0 && l.err == nil && isEmpty(ctx, s)
		w.inspected, w.bySink[l.sink] = append(w.inspected, l), l
	}
	// A window leaves the spool after the ledger has recorded that the last sink has it. So
	// nothing delivers what the ledger still owes then, and the spool lacked before.
	for key, e := range before {
		if slices.ContainsFunc(v.Sinks, func(s sinks.Sink) bool { return !e.Has(s.Name()) }) {
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
			w.changed[key] = was != is || !a.Same(b.Revision) || a.Checksum != b.Checksum ||
				!maps.EqualFunc(a.Sinks, b.Sinks, time.Time.Equal)
		}
	}
	return w, nil
}

// isEmpty reports whether a sink shows no window of any project and report.
func isEmpty(ctx context.Context, s sinks.Sink) bool {
	for _, err := range s.Inspect(ctx, sinks.Scope{}) {
		fault, ofWindow := errors.AsType[sinks.Fault](err)
		if err == nil || ofWindow && fault.Kind != sinks.Stray {
			return false
		}
	}
	return true
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
