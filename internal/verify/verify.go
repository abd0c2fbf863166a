// Package verify is the use case behind `docgauge verify`: it compares what the
// ledger says with what readers of each sink see, window by window, and with the
// rules of the domain, without a request to the service. It also mends, from
// another sink, what it finds ([Verifier.Repair]), and has the cheap comparison
// that an export makes once a day ([Compare]).
//
// Looking changes nothing and needs no lock: a window that seems wrong is looked
// at again, and what was committed meanwhile is not reported. Memory grows with
// the number of windows, not with their rows.
//
// It does not know what is due: a window that nobody holds whole is taken out of
// the ledger, and the plan finds that it is missing.
package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// Entry is what the ledger says of one window: its newest revision, and the sinks
// that are owed it (the zero time) or have it.
type Entry struct {
	analytics.Revision
	analytics.Provenance
	Sinks map[string]time.Time
}

// has reports whether the ledger says that the sink has the revision; owed,
// whether it says that the sink does not have it yet.
func (e Entry) has(sink string) bool { return !e.Sinks[sink].IsZero() }

func (e Entry) owed(sink string) bool {
	at, there := e.Sinks[sink]
	return there && at.IsZero()
}

// equal reports whether the ledger says the same in both.
func (e Entry) equal(o Entry) bool {
	return same(e.Revision, o.Revision) && e.Checksum == o.Checksum && maps.EqualFunc(e.Sinks, o.Sinks, time.Time.Equal)
}

// Ledger tells what was committed.
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
	Unlisted    Kind = "unlisted"    // the sink could not be looked at
)

// Finding is something wrong with one window.
type Finding struct {
	// Key is the window; empty for what is of no window.
	Key analytics.Key
	// Sink is where; empty where it is what the service said.
	Sink   string
	Kind   Kind
	Detail string
	// Remedy is what can be done about it.
	Remedy Remedy
	// From is the sink that Remedy copies from.
	From string
	// Rows is how many rows the window has, for Remedy Read.
	Rows int64
}

// Report is what was found.
type Report struct {
	// Windows counts those that the ledger has in scope, Shown those that each
	// sink shows.
	Windows int
	Shown   map[string]int
	// Findings are in the order of their windows.
	Findings []Finding
	// Busy are windows that were written while they were looked at, each time.
	Busy []analytics.Key
}

// Verifier compares.
type Verifier struct {
	Ledger Ledger
	// Sinks are all that are configured, Only, if any, the one to look at.
	Sinks []sinks.Sink
	Only  string
	Scope sinks.Scope
}

// looks is how often a window is looked at that is written meanwhile.
const looks = 4

// Look compares, without changing anything.
func (v *Verifier) Look(ctx context.Context) (Report, error) {
	return v.look(ctx, v.Scope)
}

func (v *Verifier) look(ctx context.Context, scope sinks.Scope) (Report, error) {
	first, err := v.view(ctx, scope, v.chosen)
	if err != nil {
		return Report{}, err
	}
	report := Report{Windows: len(first.ledger), Shown: map[string]int{}}
	for name, shown := range first.shown {
		report.Shown[name] = len(shown)
	}
	report.Findings = first.general()
	suspects := first.suspects()
	for range looks {
		if len(suspects) == 0 {
			break
		}
		narrow := scope
		narrow.Keys, narrow.Rows = suspects, true
		// Now every sink: one that was not asked for may hold what another lacks.
		again, err := v.view(ctx, narrow, func(string) bool { return true })
		if err != nil {
			return report, err
		}
		found, moving := again.findings(v.chosen), map[analytics.Key]bool{}
		for _, f := range found {
			if again.moving[f.Key] {
				moving[f.Key] = true
			} else {
				report.Findings = append(report.Findings, f)
			}
		}
		suspects = moving
	}
	report.Findings = append(report.Findings, first.implausible(report.damaged())...)
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

// damaged returns the windows that something was found of.
func (r Report) damaged() map[analytics.Key]bool {
	out := map[analytics.Key]bool{}
	for _, f := range r.Findings {
		out[f.Key] = true
	}
	return out
}

func (v *Verifier) chosen(sink string) bool { return v.Only == "" || v.Only == sink }

// view is what ledger and sinks say at one time.
type view struct {
	order  []string // the sinks looked at
	ledger map[analytics.Key]Entry
	// moving are the windows whose entry changed while the sinks were looked at.
	moving map[analytics.Key]bool
	shown  map[string]map[analytics.Key]sinks.Shown
	faults map[string]map[analytics.Key]sinks.Fault
	// unlisted sinks may hold more than was seen.
	unlisted map[string]error
	strays   []Finding
}

// view looks at ledger, sinks and ledger, in this order.
func (v *Verifier) view(ctx context.Context, scope sinks.Scope, wanted func(sink string) bool) (*view, error) {
	scope.Rows = true
	before, err := v.entries(ctx, scope)
	if err != nil {
		return nil, err
	}
	w := &view{
		moving: map[analytics.Key]bool{}, shown: map[string]map[analytics.Key]sinks.Shown{},
		faults: map[string]map[analytics.Key]sinks.Fault{}, unlisted: map[string]error{},
	}
	for _, s := range v.Sinks {
		if !wanted(s.Name()) {
			continue
		}
		if err := w.inspect(ctx, s, scope); err != nil {
			return nil, err
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

// general are the findings that are of no window.
func (w *view) general() []Finding {
	out := w.strays
	for _, name := range w.order {
		if err := w.unlisted[name]; err != nil {
			out = append(out, Finding{Sink: name, Kind: Unlisted, Detail: err.Error(), Remedy: ByHand})
		}
		if n := w.emptied(name); n > 0 {
			out = append(out, Finding{Sink: name, Kind: Unlisted, Remedy: ByHand, Detail: fmt.Sprintf(
				"it shows nothing, and the ledger says that it has %d windows: is it the right place, and mounted? Nothing is read again because of it", n)})
		}
	}
	return out
}

// suspects are the windows that seem wrong.
func (w *view) suspects() map[analytics.Key]bool {
	out := map[analytics.Key]bool{}
	for _, f := range w.findings(func(string) bool { return true }) {
		out[f.Key] = true
	}
	return out
}

// keys are all windows of the view.
func (w *view) keys() []analytics.Key {
	all := map[analytics.Key]bool{}
	for key := range w.ledger {
		all[key] = true
	}
	for _, name := range w.order {
		for key := range w.shown[name] {
			all[key] = true
		}
		for key := range w.faults[name] {
			all[key] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), byKey)
}

// findings compares each window, in the sinks that were chosen.
func (w *view) findings(chosen func(sink string) bool) (out []Finding) {
	for _, key := range w.keys() {
		var found []Finding
		for _, name := range w.order {
			if chosen(name) {
				found = append(found, w.compare(key, name)...)
			}
		}
		if len(found) == 0 {
			continue
		}
		m := w.mend(key)
		for i := range found {
			found[i].Remedy, found[i].From, found[i].Rows = m.remedy, m.from, m.rows
		}
		out = append(out, found...)
	}
	return out
}

// compare returns what is wrong with a window in a sink.
func (w *view) compare(key analytics.Key, sink string) []Finding {
	e, known := w.ledger[key]
	shown, there := w.shown[sink][key]
	fault, faulty := w.faults[sink][key]
	found := func(kind Kind, detail string, args ...any) Finding {
		return Finding{Key: key, Sink: sink, Kind: kind, Detail: fmt.Sprintf(detail, args...)}
	}
	switch {
	case known && e.owed(sink):
		return nil // the next export delivers it
	case faulty:
		return []Finding{found(Kind(fault.Kind), "%s", fault.Err)}
	case !there && known && w.unlisted[sink] != nil:
		return nil // it may be there
	case !there && known && e.has(sink):
		return []Finding{found(Missing, "revision %d, committed at %s, is gone", e.Number, clock(e.Sinks[sink]))}
	case !there && known:
		return []Finding{found(Missing, "revision %d was never delivered to this sink", e.Number)}
	case !there:
		return nil
	case !known:
		return []Finding{found(Extra, "the ledger does not know it: %s", said(shown.Revision))}
	case !sameReading(shown.Revision, e.Revision):
		return []Finding{found(Reading, "%s is shown; the ledger has %s", said(shown.Revision), said(e.Revision))}
	}
	var out []Finding
	switch ref := w.reference(key); {
	case shown.Rows != e.Rows:
		out = append(out, found(Rows, "%s are announced; the ledger has %s", rowCount(shown.Rows), rowCount(e.Rows)))
	case shown.Sum.Rows != max(e.Rows, 0):
		out = append(out, found(Rows, "%s are shown; %s were committed", rowCount(shown.Sum.Rows), rowCount(max(e.Rows, 0))))
	case e.TotalsOnly():
	case ref.checksum != "" && ref.checksum != shown.Sum.Checksum.String():
		out = append(out, found(Checksum, "the rows have the checksum %s; %s %s", shown.Sum.Checksum, ref.by, ref.checksum))
	case ref.checksum == "" && ref.other != "":
		out = append(out, found(Checksum, "the rows are not the same in %s, and nothing tells which are right", ref.other))
	}
	if shown.Totals != e.Totals {
		out = append(out, found(Totals, "%s are shown; the ledger has %s", totals(shown.Totals), totals(e.Totals)))
	}
	return out
}

// reference is the checksum that the rows of a window must have.
type reference struct {
	checksum, by string
	// other names the sinks that disagree, where nobody tells which is right.
	other string
}

// reference looks for the checksum in the ledger, else in the sinks that keep it
// beside the rows; else sinks that show one reading can be compared.
func (w *view) reference(key analytics.Key) reference {
	e, known := w.ledger[key]
	if !known {
		return reference{}
	}
	if e.Checksum != "" {
		return reference{checksum: e.Checksum, by: "the ledger has"}
	}
	var of []string
	sums := map[analytics.Checksum]bool{}
	for _, name := range w.order {
		shown, there := w.shown[name][key]
		if !there || !sameReading(shown.Revision, e.Revision) || !shown.Whole() {
			continue
		}
		if shown.Checksum != "" {
			return reference{checksum: shown.Checksum, by: name + " keeps"}
		}
		of = append(of, name)
		sums[shown.Sum.Checksum] = true
	}
	if len(sums) > 1 {
		return reference{other: strings.Join(of, " and ")}
	}
	return reference{}
}

// same reports whether a and b are one revision, to the microsecond that sinks keep.
func same(a, b analytics.Revision) bool {
	return sameReading(a, b) && a.Rows == b.Rows && a.Totals == b.Totals
}

// sameReading leaves out what a reading brought.
func sameReading(a, b analytics.Revision) bool {
	return a.Key == b.Key && a.Number == b.Number && a.Settled == b.Settled && a.Verified == b.Verified &&
		a.ExportedAt.Truncate(time.Microsecond).Equal(b.ExportedAt.Truncate(time.Microsecond))
}

func said(r analytics.Revision) string {
	state := "provisional"
	if r.Settled {
		state = "settled"
	}
	if !r.Verified {
		state += ", unverified"
	}
	return fmt.Sprintf("revision %d of %s (%s)", r.Number, clock(r.ExportedAt), state)
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

func totals(t analytics.Totals) string {
	return fmt.Sprintf("%d human, %d ai, %d total", t.Human, t.AI, t.Total)
}

func rowCount(n int64) string {
	switch n {
	case analytics.TotalsOnlyRows:
		return "totals only"
	case 1:
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}
