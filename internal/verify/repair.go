package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

// copyTimeout bounds the copying of one window.
const copyTimeout = 10 * time.Minute

// plan is how a window is repaired.
type plan struct {
	remedy Remedy
	// entry is what the ledger will say of it; where it must be read, the former entry.
	entry state.Entry
	// sources hold the rows; rows is how many.
	sources []string
	rows    int64
}

// from is the sink that the remedy copies from, if any.
func (p plan) from() string {
	if len(p.sources) == 0 {
		return ""
	}
	return p.sources[0]
}

// plan decides how a window is repaired. If a sink cannot be inspected, it
// concludes nothing from what the others lack.
func (w *survey) plan(key analytics.Key) plan {
	e, known := w.ledger[key]
	p := plan{entry: e, rows: e.Rows}
	if newest := w.newest(key); newest != nil {
		p.remedy = adopt
		p.entry = state.Entry{
			Revision: newest.Revision, Provenance: analytics.Provenance{Requests: e.Requests},
			Sinks: map[string]time.Time{},
		}
		if !newest.TotalsOnly() {
			p.entry.Checksum = newest.Sum.Checksum.String()
		}
	} else if known {
		p.remedy = copyOver
	}
	if p.remedy != "" {
		for _, name := range w.order {
			if shown, there := w.shown[name][key]; there && w.holds(shown, p.entry) {
				p.sources = append(p.sources, name)
			}
		}
	}
	if len(p.sources) > 0 {
		p.rows = p.entry.Rows
		return p
	}
	switch configured, planned := w.Planned(key); {
	case !configured:
		p.remedy = configure
	case known && !e.Lost():
		p.remedy = Read
	case known || planned:
		p.remedy = due
	default:
		p.remedy = ask
	}
	for _, s := range w.Sinks {
		name := s.Name()
		if w.unlisted[name] != nil || w.emptied(name) > 0 || w.faults[name][key].Kind == sinks.Unavailable {
			p.remedy = wait
		}
	}
	return p
}

// many is the number of windows from which on a loss has a reason that a person should
// know: another URL, or a disk that is not mounted.
const many = 10

// emptied returns how many windows a sink has by the ledger, if they are many and the
// sink shows none; else 0.
func (w *survey) emptied(sink string) (claimed int) {
	if len(w.shown[sink])+len(w.faults[sink]) > 0 || w.unlisted[sink] != nil {
		return 0
	}
	for _, e := range w.ledger {
		if has(e, sink) {
			claimed++
		}
	}
	if claimed < many {
		return 0
	}
	return claimed
}

// newest returns the newest revision that a sink shows whole, if it is later than what
// the ledger knows; else nil.
func (w *survey) newest(key analytics.Key) (newest *sinks.Shown) {
	e, known := w.ledger[key]
	for _, s := range w.Sinks {
		name := s.Name()
		shown, there := w.shown[name][key]
		_, faulty := w.faults[name][key]
		later := !known || shown.ExportedAt.After(e.ExportedAt)
		if there && !faulty && shown.Whole() && later && (newest == nil || shown.ExportedAt.After(newest.ExportedAt)) {
			newest = &shown
		}
	}
	return newest
}

// holds reports whether the rows that a sink shows are those of e, even if what
// it says of them is not.
func (w *survey) holds(shown sinks.Shown, e state.Entry) bool {
	sum := shown.Sum.Checksum.String()
	switch {
	case shown.Sum.Rows != max(e.Rows, 0):
		return false
	case e.TotalsOnly():
		return same(shown.Revision, e.Revision)
	case e.Checksum != "":
		return sum == e.Checksum
	}
	checksum, by := w.reference(e.Key)
	return same(shown.Revision, e.Revision) && shown.Whole() && (by == "" || checksum == sum)
}

// Repaired is the result of a repair.
type Repaired struct {
	// Found is the report before the repair.
	Found Report
	// Mended counts windows that were copied to a sink or entered in the ledger.
	Mended int
	// Due are the windows that are due again. Again are those that the spool still has,
	// which the next export delivers.
	Due   []analytics.Revision
	Again []analytics.Revision
	// Left is the report after it.
	Left Report
	// Errors are of windows that could not be repaired.
	Errors []error
}

// Repair verifies, repairs, and verifies the repaired windows again. No other process may
// write at the same time.
func (v *Verifier) Repair(ctx context.Context) (done Repaired, err error) {
	if done.Found, err = v.Verify(ctx); err != nil {
		return done, err
	}
	for sink, revs := range done.Found.unrecorded {
		for _, rev := range revs {
			if err := v.Ledger.Committed(ctx, rev, sink, v.Now()); err != nil {
				return done, err
			}
		}
	}
	keys := map[analytics.Key]bool{}
	for _, f := range done.Found.Findings {
		if f.Key != (analytics.Key{}) && f.Remedy != none {
			keys[f.Key] = true
		}
	}
	done.Left = done.Found
	if len(keys) == 0 {
		return done, nil
	}
	scope := sinks.Scope{Keys: keys}
	w, err := v.survey(ctx, scope, v.sources())
	if err != nil {
		return done, err
	}
	for _, key := range w.keys() {
		if err := w.repair(ctx, key, &done); err != nil {
			if ctx.Err() != nil {
				return done, context.Cause(ctx)
			}
			done.Errors = append(done.Errors, fmt.Errorf("%s: %w", key, err))
		}
	}
	again, err := v.verify(ctx, scope)
	if err != nil {
		return done, err
	}
	findings := slices.DeleteFunc(slices.Clone(done.Found.Findings), func(f Finding) bool {
		return keys[f.Key] || f.emptied && again.Shown[f.Sink] > 0
	})
	for _, f := range again.Findings {
		isDue := slices.ContainsFunc(done.Due, func(rev analytics.Revision) bool { return rev.Key == f.Key })
		if keys[f.Key] && !isDue && (f.Kind != implausible || !slices.Contains(findings, f)) {
			findings = append(findings, f)
		}
	}
	done.Left.Findings = findings
	return done, nil
}

// repair repairs one window.
func (w *survey) repair(ctx context.Context, key analytics.Key, done *Repaired) error {
	p := w.plan(key)
	e, known := w.ledger[key]
	if p.entry.Sinks = maps.Clone(p.entry.Sinks); p.entry.Sinks == nil {
		p.entry.Sinks = map[string]time.Time{}
	}
	var targets []sinks.Sink
	for _, s := range w.chosen() {
		source := slices.Contains(p.sources, s.Name())
		if p.remedy == adopt && !source || p.remedy != adopt && len(w.compare(key, s.Name())) > 0 {
			targets = append(targets, s)
			p.entry.Sinks[s.Name()] = time.Time{}
		}
	}
	if p.remedy == adopt {
		for _, name := range p.sources {
			p.entry.Sinks[name] = p.entry.ExportedAt
		}
	}
	if len(p.sources) == 0 {
		spooled, err := false, error(nil)
		if known {
			spooled, err = w.InSpool(e.Revision)
		}
		switch {
		case err != nil:
			return err
		case spooled:
			done.Again = append(done.Again, e.Revision)
			return w.Ledger.Amend(ctx, p.entry)
		case p.remedy == Read:
			done.Due = append(done.Due, e.Revision)
			w.Log.With(key.Attrs()).Warn("window is whole in no sink: it is due again", "revision", e.Number)
			p.entry.Sinks = nil
			return w.Ledger.Amend(ctx, p.entry)
		}
		return nil
	}
	// CRASH: the ledger owes the window to the sinks that lack it. The next repair or
	// comparison records those that have got it by then, and fills the others from the same
	// sources.
	if err := w.Ledger.Amend(ctx, p.entry); err != nil {
		return err
	}
	sources := slices.DeleteFunc(slices.Clone(w.sources()), func(s sinks.Sink) bool {
		return !slices.Contains(p.sources, s.Name())
	})
	for _, s := range targets {
		if _, err := w.copy(ctx, p.entry, sources, s); err != nil {
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
	defer func() {
		if err != nil {
			err = errors.Join(err, done())
		}
	}()
	var sum analytics.Sum
	for row, err := range w.Rows() {
		if err != nil {
			return nil, nil, err
		}
		sum.Add(row)
	}
	switch {
	case sum.Rows != max(e.Rows, 0) || e.Checksum != "" && e.Checksum != sum.Checksum.String():
		return nil, nil, fmt.Errorf("it gives %s with the checksum %s, which is not what the ledger has",
			rowCount(sum.Rows), sum.Checksum)
	case same(w.Revision(), e.Revision):
		return w, done, nil
	case e.Checksum == "":
		return nil, nil, fmt.Errorf("it gives %s", describe(w.Revision()))
	}
	path := filepath.Join(v.Dir, "described.tmp")
	if _, err := archive.Write(path, e.Revision, w.Rows()); err != nil {
		return nil, nil, err
	}
	described, err := archive.Open(path)
	if err != nil {
		return nil, nil, err
	}
	return described, func() error { return errors.Join(done(), os.Remove(path)) }, nil
}
