package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

// copyTimeout bounds the copying of one window.
const copyTimeout = 10 * time.Minute

// plan is how a window is repaired.
type plan struct {
	remedy string
	// entry is the new entry of the ledger; if the window must be read, the former entry.
	entry state.Entry
	// sources hold the rows; rows is their number.
	sources []sinks.Sink
	rows    int64
}

// plan decides how a window is repaired. If a sink cannot be inspected, it
// concludes nothing from windows missing in the others.
func (w *survey) plan(key analytics.Key) plan {
	e, known := w.ledger[key]
	p := plan{entry: e, rows: e.Rows}
	// The newest revision that a sink shows whole, if it is newer than the ledger's entry.
	var newest *sinks.Shown
	for _, s := range w.v.Sinks {
		shown, ok := w.bySink[s.Name()].whole(key)
		later := !known || shown.ExportedAt.After(e.ExportedAt)
		if ok && shown.Whole() && later && (newest == nil || shown.ExportedAt.After(newest.ExportedAt)) {
			newest = &shown
		}
	}
	unbelieved := known && e.ExportedAt.Equal(analytics.Unbelieved)
	switch {
	case unbelieved: // the clock that was ahead may have dated what the sinks show
	case newest != nil:
		p.remedy = adopt
		p.entry = state.Entry{
			Revision: newest.Revision, Provenance: analytics.Provenance{Requests: e.Requests},
			Sinks: map[string]time.Time{},
		}
		if newest.HasRows() {
			p.entry.Checksum = newest.Sum.Checksum.String()
		}
	case known:
		p.remedy = copyOver
	}
	if p.remedy != "" {
		for _, s := range w.v.sources() {
			l := w.bySink[s.Name()]
			if l == nil {
				continue // the archive is inspected only beside all sinks
			}
			if shown, there := l.shown[key]; there && w.holds(shown, p.entry) {
				p.sources = append(p.sources, s)
			}
		}
	}
	if len(p.sources) > 0 {
		p.rows = p.entry.Rows
		return p
	}
	switch configured, planned := w.v.Planned(key); {
	case !configured:
		p.remedy = configure
	case unbelieved:
		p.remedy = later
	case known && !e.Lost():
		p.remedy = read
	case known || planned:
		p.remedy = due
	default:
		p.remedy = ask
	}
	for _, s := range w.v.Sinks {
		l := w.bySink[s.Name()]
		if l.err != nil || w.emptied(l) > 0 || l.faults[key].Kind == sinks.Unavailable {
			p.remedy = wait
		}
	}
	return p
}

// holds reports whether a sink shows the rows of e, even if its metadata differ.
func (w *survey) holds(shown sinks.Shown, e state.Entry) bool {
	sum := shown.Sum.Checksum.String()
	switch {
	case shown.Sum.Rows != max(e.Rows, 0):
		return false
	case !e.HasRows():
		return shown.Same(e.Revision)
	case e.Checksum != "":
		return sum == e.Checksum
	}
	checksum, by := w.reference(e.Key)
	return shown.Same(e.Revision) && shown.Whole() && (by == "" || checksum == sum)
}

// Repaired counts the actions of a repair; its JSON keys are stable.
type Repaired struct {
	// Found counts the findings before it.
	Found int `json:"findings_before"`
	// Mended counts windows that were copied to a sink or entered in the ledger.
	Mended int `json:"windows_mended"`
	// Due are the windows that are due again. Waiting are those that the spool still has,
	// which the next export delivers.
	Due     []string `json:"windows_due_again"`
	Waiting []string `json:"windows_waiting_in_the_spool"`
	// Errors concern windows that could not be repaired.
	Errors []string `json:"errors"`
}

// Repair verifies, repairs, and verifies the repaired windows again. It reports the remaining
// findings.
// No other process may write at the same time.
func (v *Verifier) Repair(ctx context.Context) (Report, error) {
	report, err := v.Verify(ctx)
	if err != nil {
		return report, err
	}
	done := &Repaired{Found: len(report.Findings), Due: []string{}, Waiting: []string{}, Errors: []string{}}
	report.Repair = done
	for sink, revs := range report.unrecorded {
		for _, rev := range revs {
			if err := v.Ledger.Committed(ctx, rev, sink, v.Now()); err != nil {
				return report, err
			}
		}
	}
	broken := map[analytics.Key]bool{}
	for _, f := range report.Findings {
		if f.Key != nil && f.Remedy != none {
			broken[*f.Key] = true
		}
	}
	if len(broken) == 0 {
		return report, nil
	}
	scope := sinks.Scope{Keys: broken}
	w, err := v.survey(ctx, scope, v.sources())
	if err != nil {
		return report, err
	}
	dueAgain := map[analytics.Key]int64{}
	for _, key := range w.keys() {
		err := w.repair(ctx, key, done, dueAgain)
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
		if err != nil {
			done.Errors = append(done.Errors, fmt.Sprintf("%s: %v", key, err))
		}
	}
	again, err := v.verify(ctx, scope)
	if err != nil {
		return report, err
	}
	report.Findings = slices.DeleteFunc(report.Findings, func(f Finding) bool {
		return broken[f.key()] || f.emptied && again.Shown[f.Sink] > 0
	})
	for _, f := range again.Findings {
		if _, isDue := dueAgain[f.key()]; isDue || !broken[f.key()] {
			continue
		}
		same := func(g Finding) bool { return g.Kind == f.Kind && g.key() == f.key() && g.Detail == f.Detail }
		if f.Kind != implausible || !slices.ContainsFunc(report.Findings, same) {
			report.Findings = append(report.Findings, f)
		}
	}
	report.conclude()
	for _, rows := range dueAgain {
		report.reread(rows)
	}
	return report, nil
}

// repair repairs one window. It adds to due the rows of one that must be read again.
func (w *survey) repair(ctx context.Context, key analytics.Key, done *Repaired, due map[analytics.Key]int64) error {
	p := w.plan(key)
	e, known := w.ledger[key]
	if p.entry.Sinks = maps.Clone(p.entry.Sinks); p.entry.Sinks == nil {
		p.entry.Sinks = map[string]time.Time{}
	}
	has := func(name string) bool {
		return slices.ContainsFunc(p.sources, func(s sinks.Sink) bool { return s.Name() == name })
	}
	var targets []sinks.Sink
	for _, s := range w.v.chosen() {
		if p.remedy == adopt && !has(s.Name()) || p.remedy != adopt && len(w.compare(key, s.Name())) > 0 {
			targets = append(targets, s)
			p.entry.Sinks[s.Name()] = time.Time{}
		}
	}
	if p.remedy == adopt {
		for _, s := range p.sources {
			p.entry.Sinks[s.Name()] = p.entry.ExportedAt
		}
	}
	if len(p.sources) == 0 {
		spooled, err := false, error(nil)
		if known {
			spooled, err = w.v.InSpool(e.Revision)
		}
		switch {
		case err != nil:
			return err
		case spooled:
			done.Waiting = append(done.Waiting, key.String())
			return w.v.Ledger.Amend(ctx, p.entry)
		case p.remedy == read:
			done.Due, due[key] = append(done.Due, key.String()), e.Rows
			w.v.Log.With(key.Attrs()).Warn("window is whole in no sink: it is due again", "revision", e.Number)
			p.entry.Sinks = nil
			return w.v.Ledger.Amend(ctx, p.entry)
		}
		return nil
	}
	// CRASH: the ledger owes the window to the sinks that lack it. The next repair or
	// comparison records those that have got it by then, and fills the others from the same
	// sources.
	if err := w.v.Ledger.Amend(ctx, p.entry); err != nil {
		return err
	}
	for _, s := range targets {
		if _, err := w.v.copy(ctx, p.entry, p.sources, s); err != nil {
			return fmt.Errorf("%s sink: %w", s.Name(), err)
		}
	}
	done.Mended++
	return nil
}

// copy copies the window of e from the first source that has it to a sink, and records that in
// the ledger. refused: the sink did not take it.
func (v *Verifier) copy(
	ctx context.Context, e state.Entry, sources []sinks.Sink, to sinks.Sink,
) (refused bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	var errs []error
	for _, from := range sources {
		w, done, err := v.fetch(ctx, e, from)
		if err != nil {
			errs = append(errs, fmt.Errorf("from %s: %w", from.Name(), err))
			continue
		}
		if err := to.Replace(ctx, w); err != nil {
			return true, errors.Join(err, done())
		}
		v.Log.With(e.Key.Attrs()).Info("window copied", "revision", e.Number, "source", from.Name(), "sink", to.Name())
		return false, errors.Join(v.Ledger.Committed(ctx, e.Revision, to.Name(), v.Now()), done())
	}
	return false, errors.Join(errs...)
}

// fetch returns the window of e, with its rows tested and described as in the ledger.
func (v *Verifier) fetch(
	ctx context.Context, e state.Entry, from sinks.Sink,
) (_ sinks.Sealed, _ func() error, err error) {
	w, done, err := from.Window(ctx, e.Revision, v.Dir)
	if err != nil {
		return nil, nil, err
	}
	file, remove, err := described(w, e, v.Dir)
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return file, func() error { return errors.Join(remove(), done()) }, nil
}

// described tests the rows of w, and returns them as the ledger describes the window.
func described(w sinks.Sealed, e state.Entry, dir string) (file sinks.Sealed, remove func() error, err error) {
	sum, err := sinks.SumOf(w)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case sum.Rows != max(e.Rows, 0) || e.Checksum != "" && e.Checksum != sum.Checksum.String():
		return nil, nil, fmt.Errorf("it gives %s with the checksum %s, which is not what the ledger has",
			rowCount(sum.Rows), sum.Checksum)
	case w.Revision().Same(e.Revision):
		return w, func() error { return nil }, nil
	case e.Checksum == "":
		return nil, nil, fmt.Errorf("it gives %s", describe(w.Revision()))
	}
	return sinks.WindowFile(dir, e.Revision, w.Rows())
}
