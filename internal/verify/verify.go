// Package verify is the use case behind `docgauge verify`: it compares what the ledger
// says with what readers of each sink see, window by window, and with the rules of the
// domain, without a request to the service. It also repairs from another sink what it
// finds ([Repair]), and has the cheap comparison that an export makes once a day
// ([Comparison]).
//
// [Verifier.Look] changes nothing and needs no lock: it inspects a window that seems
// wrong again, and does not report what was committed meanwhile. Memory grows with the
// number of windows, not with their rows.
//
// The package does not know what is due: it marks a window that no sink holds whole as
// lost, and the plan finds that it must be read again.
package verify

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// Entry is what the ledger says of one window: its newest revision, and when each sink
// got it; the zero time means that the sink is still owed it.
type Entry struct {
	analytics.Revision
	analytics.Provenance
	Sinks map[string]time.Time
}

// has reports whether the ledger says that the sink has the revision.
func (e Entry) has(sink string) bool { return !e.Sinks[sink].IsZero() }

// owed reports whether the ledger says that the sink will be given the revision.
func (e Entry) owed(sink string) bool {
	at, there := e.Sinks[sink]
	return there && at.IsZero()
}

// lost reports whether no sink has the revision or is owed it: it must be read again.
func (e Entry) lost() bool { return len(e.Sinks) == 0 }

// equal reports whether the ledger says the same in both.
func (e Entry) equal(o Entry) bool {
	return same(e.Revision, o.Revision) && e.Checksum == o.Checksum && maps.EqualFunc(e.Sinks, o.Sinks, time.Time.Equal)
}

// Ledger knows what was committed.
type Ledger interface {
	// Entries returns the newest revision of every window.
	Entries(ctx context.Context) ([]Entry, error)
}

// Kind says what is wrong with a window.
type Kind string

// The kinds of findings, beside those of [sinks.FaultKind].
const (
	Missing     Kind = "missing"     // the sink does not show it
	Extra       Kind = "extra"       // the ledger does not know it
	Reading     Kind = "revision"    // another revision is shown
	Rows        Kind = "rows"        // not as many rows as were committed
	Totals      Kind = "totals"      // other site totals are shown
	Checksum    Kind = "checksum"    // other rows are shown
	Implausible Kind = "implausible" // counts that contradict each other
	Suspect     Kind = "suspect"     // pages that add up to less than the site
	Unlisted    Kind = "unlisted"    // the sink could not be inspected
)

// Finding is something wrong with one window.
type Finding struct {
	// Key is the window; empty for a finding about the whole sink.
	Key analytics.Key
	// Sink is where; empty for counts that the service sent.
	Sink   string
	Kind   Kind
	Detail string
	// Remedy is what can be done about it.
	Remedy Remedy
	// From is the sink that Remedy copies from.
	From string
	// Rows is how many rows the window has, for Remedy Read.
	Rows int64
	// emptied: the finding is that the sink shows nothing of what it had.
	emptied bool
}

// Report is what was found.
type Report struct {
	// Windows counts those that the ledger has in scope, Shown those that each
	// sink shows.
	Windows int
	Shown   map[string]int
	// Findings are in the order of their windows.
	Findings []Finding
	// Remarks are of kind Suspect: nothing is damaged, and nothing has to be done.
	Remarks []Finding
	// Busy are windows that were written each time while they were inspected.
	Busy []analytics.Key
	// taken are the sinks that show a window whole of which the ledger does not say so.
	taken []delivery
}

// delivery is a revision that a sink has.
type delivery struct {
	analytics.Revision
	sink string
}

// Verifier compares.
type Verifier struct {
	Ledger Ledger
	// Sinks are all that are configured; Only, if not empty, is the one to verify.
	Sinks []sinks.Sink
	Only  string
	Scope sinks.Scope
	// Foreign has unreadable windows reported of projects outside Scope, too: a query over
	// all files fails because of one.
	Foreign bool
	// Archive, if not nil, is no sink, but may hold what a sink lacks.
	Archive sinks.Sink
	// Held reports whether the spool has the revision, whole.
	Held func(analytics.Revision) (bool, error)
	// Planned reports of a window whether it is configured, and whether the plan contains it
	// if the ledger has never known it.
	Planned func(analytics.Key) (configured, due bool)
}

// looks is how often a window is inspected again that is written meanwhile.
const looks = 4

// Look compares, without changing anything.
func (v *Verifier) Look(ctx context.Context) (Report, error) {
	report, err := v.look(ctx, v.Scope)
	if err != nil || !v.Foreign || len(v.Scope.Projects) == 0 {
		return report, err
	}
	others := sinks.Scope{Except: v.Scope.Projects, Within: v.Scope.Within}
	for _, s := range v.chosen() {
		for _, err := range s.Inspect(ctx, others) {
			if fault, ok := errors.AsType[sinks.Fault](err); ok && fault.Kind == sinks.Unreadable {
				report.Findings = append(report.Findings, Finding{
					Key: fault.Key, Sink: s.Name(), Kind: Kind(fault.Kind), Detail: fault.Err.Error(), Remedy: Unconfigured,
				})
			}
		}
	}
	return report, context.Cause(ctx)
}

func (v *Verifier) look(ctx context.Context, scope sinks.Scope) (Report, error) {
	first, err := v.view(ctx, scope, false)
	if err != nil {
		return Report{}, err
	}
	report := Report{Windows: len(first.ledger), Shown: map[string]int{}, taken: first.taken()}
	for name, shown := range first.shown {
		report.Shown[name] = len(shown)
	}
	report.Findings = first.general()
	suspects := keysOf(first.findings())
	for range looks {
		if len(suspects) == 0 {
			break
		}
		narrow := scope
		narrow.Keys, narrow.Rows = suspects, true
		// Now every sink: one that is not verified may hold what another lacks.
		again, err := v.view(ctx, narrow, true)
		if err != nil {
			return report, err
		}
		found, moving := again.findings(), map[analytics.Key]bool{}
		for _, f := range found {
			if again.moving[f.Key] {
				moving[f.Key] = true
			} else {
				report.Findings = append(report.Findings, f)
			}
		}
		suspects = moving
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
	return slices.DeleteFunc(slices.Clone(v.Sinks), func(s sinks.Sink) bool { return v.Only != "" && v.Only != s.Name() })
}

// sources returns every place that may hold a window.
func (v *Verifier) sources() []sinks.Sink {
	if v.Archive == nil {
		return v.Sinks
	}
	return append(slices.Clone(v.Sinks), v.Archive)
}

// view is what ledger and sinks say at one time.
type view struct {
	*Verifier
	order  []string // the sinks inspected
	ledger map[analytics.Key]Entry
	// held are the windows of which a sink lacks the revision, and the spool has it.
	held map[analytics.Key]bool
	// moving are the windows whose entry changed while the sinks were inspected.
	moving map[analytics.Key]bool
	shown  map[string]map[analytics.Key]sinks.Shown
	faults map[string]map[analytics.Key]sinks.Fault
	// unlisted sinks may hold more than was seen.
	unlisted map[string]error
	strays   []Finding
}

// view reads the ledger, the sinks, the spool, and the ledger again. With all it inspects
// every source, else the sinks to verify.
func (v *Verifier) view(ctx context.Context, scope sinks.Scope, all bool) (*view, error) {
	scope.Rows = true
	before, err := v.entries(ctx, scope)
	if err != nil {
		return nil, err
	}
	w := &view{
		Verifier: v, held: map[analytics.Key]bool{},
		moving: map[analytics.Key]bool{}, shown: map[string]map[analytics.Key]sinks.Shown{},
		faults: map[string]map[analytics.Key]sinks.Fault{}, unlisted: map[string]error{},
	}
	inspected := v.chosen()
	if all {
		inspected = v.sources()
	}
	for _, s := range inspected {
		if err := w.inspect(ctx, s, scope); err != nil {
			return nil, err
		}
	}
	// A window leaves the spool after the ledger has noted that the last sink has it: what
	// the ledger still owes then, and the spool lacked before, nobody delivers.
	for key, e := range before {
		if slices.ContainsFunc(v.Sinks, func(s sinks.Sink) bool { return !e.has(s.Name()) }) {
			if w.held[key], err = v.Held(e.Revision); err != nil {
				return nil, err
			}
		}
	}
	if w.ledger, err = v.entries(ctx, scope); err != nil {
		return nil, err
	}
	for key, e := range w.ledger {
		if former, known := before[key]; !known || !former.equal(e) {
			w.moving[key] = true
		}
	}
	for key := range before {
		if _, still := w.ledger[key]; !still {
			w.moving[key] = true
		}
	}
	return w, nil
}

func (v *Verifier) entries(ctx context.Context, scope sinks.Scope) (map[analytics.Key]Entry, error) {
	all, err := v.Ledger.Entries(ctx)
	if err != nil {
		return nil, err
	}
	out := map[analytics.Key]Entry{}
	for _, e := range all {
		if scope.Has(e.Key) {
			out[e.Key] = e
		}
	}
	return out, nil
}

func (w *view) inspect(ctx context.Context, s sinks.Sink, scope sinks.Scope) error {
	name := s.Name()
	shown, faults := map[analytics.Key]sinks.Shown{}, map[analytics.Key]sinks.Fault{}
	w.order, w.shown[name], w.faults[name] = append(w.order, name), shown, faults
	for got, err := range s.Inspect(ctx, scope) {
		fault, ofWindow := errors.AsType[sinks.Fault](err)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case ofWindow && fault.Kind == sinks.Stray:
			w.strays = append(w.strays, Finding{Sink: name, Kind: Kind(fault.Kind), Detail: fault.Err.Error(), Remedy: ByHand})
		case ofWindow:
			faults[fault.Key] = fault
			if got.Key == fault.Key {
				shown[got.Key] = got
			}
		case err != nil:
			w.unlisted[name] = err
		default:
			shown[got.Key] = got
		}
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return nil
}
