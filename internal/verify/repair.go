package verify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

// windowTimeout bounds the repair of one window.
const windowTimeout = 10 * time.Minute

// Book is a ledger that can be repaired.
type Book interface {
	Ledger
	// Amend makes e what the ledger says of its window; without a sink, it is due again.
	Amend(ctx context.Context, e Entry) error
	// Committed notes, and counts, that a sink has a revision.
	Committed(ctx context.Context, rev analytics.Revision, sink string, at time.Time) error
}

// plan is what is to be done about a window.
type plan struct {
	remedy Remedy
	// entry is what the ledger will say of it; where it must be read, the former entry.
	entry Entry
	// from is the first of sources, which hold the rows; rows is how many.
	from    string
	sources []string
	rows    int64
}

// plan decides what is to be done about a window. If a sink cannot be inspected, it
// concludes nothing from what the others lack.
func (w *view) plan(key analytics.Key) plan {
	e, known := w.ledger[key]
	p := plan{entry: e, rows: e.Rows}
	if target, adopt := w.newest(key); adopt {
		p.remedy, p.entry.Revision, p.entry.Provenance = Adopt, target.Revision, analytics.Provenance{Requests: e.Requests}
		if !target.TotalsOnly() {
			p.entry.Checksum = target.Sum.Checksum.String()
		}
		p.entry.Sinks = map[string]time.Time{}
	} else if known {
		p.remedy = Copy
	}
	if p.remedy != "" {
		for _, name := range w.order {
			if shown, there := w.shown[name][key]; there && w.holds(shown, p.entry) {
				p.sources = append(p.sources, name)
			}
		}
	}
	if len(p.sources) > 0 {
		p.from, p.rows = p.sources[0], p.entry.Rows
		return p
	}
	p.remedy = w.reading(key)
	for _, s := range w.Sinks {
		name := s.Name()
		if w.unlisted[name] != nil || w.emptied(name) > 0 || w.faults[name][key].Kind == sinks.Unavailable {
			p.remedy = Wait
		}
	}
	return p
}

// reading says how a window is read again.
func (w *view) reading(key analytics.Key) Remedy {
	e, known := w.ledger[key]
	configured, due := w.Planned(key)
	switch {
	case !configured:
		return Unconfigured
	case known && !e.lost():
		return Read
	case known || due:
		return Due
	}
	return Ask
}

// many is the number of windows from which on a loss has a reason that a person should
// know: another URL, or a disk that is not mounted.
const many = 10

// emptied returns how many windows a sink has by the ledger, if they are many and the
// sink shows none; else 0.
func (w *view) emptied(sink string) (claimed int) {
	if len(w.shown[sink])+len(w.faults[sink]) > 0 || w.unlisted[sink] != nil {
		return 0
	}
	for _, e := range w.ledger {
		if e.has(sink) {
			claimed++
		}
	}
	if claimed < many {
		return 0
	}
	return claimed
}

// newest returns the newest revision that a sink shows whole, if it is later than what
// the ledger knows.
func (w *view) newest(key analytics.Key) (newest sinks.Shown, found bool) {
	e, known := w.ledger[key]
	for _, s := range w.Sinks {
		name := s.Name()
		shown, there := w.shown[name][key]
		_, faulty := w.faults[name][key]
		later := !known || shown.ExportedAt.After(e.ExportedAt)
		if there && !faulty && shown.Whole() && later && (!found || shown.ExportedAt.After(newest.ExportedAt)) {
			newest, found = shown, true
		}
	}
	return newest, found
}

// holds reports whether the rows that a sink shows are those of e, even if what
// it says of them is not.
func (w *view) holds(shown sinks.Shown, e Entry) bool {
	if shown.Sum.Rows != max(e.Rows, 0) {
		return false
	}
	if e.TotalsOnly() {
		return same(shown.Revision, e.Revision)
	}
	if sum := shown.Sum.Checksum.String(); e.Checksum != "" {
		return sum == e.Checksum
	}
	ref := w.reference(e.Key)
	return same(shown.Revision, e.Revision) && shown.Whole() && ref.other == "" &&
		(ref.checksum == "" || ref.checksum == shown.Sum.Checksum.String())
}

// Repair repairs what it can.
type Repair struct {
	Verifier *Verifier
	Book     Book
	// Dir is a directory for files of windows that are copied.
	Dir string
	Now func() time.Time
	Log *slog.Logger
}

// Repaired is the result of a repair.
type Repaired struct {
	// Found is what was found before.
	Found Report
	// Mended counts windows that were copied to a sink or entered in the ledger.
	Mended int
	// Due are the windows that are due again. Again are those that the spool still has,
	// which the next export delivers.
	Due   []analytics.Revision
	Again []analytics.Revision
	// Left is what is still found.
	Left Report
	// Errors are of windows that could not be repaired.
	Errors []error
}

// Run verifies, repairs, and verifies the repaired windows again. No other process may
// write meanwhile.
func (r *Repair) Run(ctx context.Context) (done Repaired, err error) {
	if done.Found, err = r.Verifier.Look(ctx); err != nil {
		return done, err
	}
	for _, d := range done.Found.taken {
		if err := r.Book.Committed(ctx, d.Revision, d.sink, r.Now()); err != nil {
			return done, err
		}
	}
	keys := map[analytics.Key]bool{}
	for _, f := range done.Found.Findings {
		if f.Key != (analytics.Key{}) && f.Remedy != Approximate {
			keys[f.Key] = true
		}
	}
	done.Left = done.Found
	if len(keys) == 0 {
		return done, nil
	}
	scope := sinks.Scope{Keys: keys}
	w, err := r.Verifier.view(ctx, scope, true)
	if err != nil {
		return done, err
	}
	for _, key := range w.keys() {
		if err := r.window(ctx, w, key, &done); err != nil {
			if ctx.Err() != nil {
				return done, context.Cause(ctx)
			}
			done.Errors = append(done.Errors, fmt.Errorf("%s: %w", key, err))
		}
	}
	again, err := r.Verifier.look(ctx, scope)
	if err != nil {
		return done, err
	}
	due := map[analytics.Key]bool{}
	for _, rev := range done.Due {
		due[rev.Key] = true
	}
	findings := slices.DeleteFunc(slices.Clone(done.Found.Findings), func(f Finding) bool {
		return scope.Keys[f.Key] || f.emptied && again.Shown[f.Sink] > 0
	})
	for _, f := range again.Findings {
		if scope.Keys[f.Key] && !due[f.Key] && (f.Kind != Implausible || !slices.Contains(findings, f)) {
			findings = append(findings, f)
		}
	}
	done.Left.Findings = findings
	return done, nil
}

// window repairs one window.
func (r *Repair) window(ctx context.Context, w *view, key analytics.Key, done *Repaired) error {
	p := w.plan(key)
	e, known := w.ledger[key]
	if p.entry.Sinks = maps.Clone(p.entry.Sinks); p.entry.Sinks == nil {
		p.entry.Sinks = map[string]time.Time{}
	}
	var to []sinks.Sink
	for _, s := range r.Verifier.chosen() {
		if len(w.compare(key, s.Name())) > 0 || p.remedy == Adopt && !slices.Contains(p.sources, s.Name()) {
			to = append(to, s)
		}
	}
	if p.remedy == Adopt {
		for _, name := range p.sources {
			p.entry.Sinks[name] = p.entry.ExportedAt
		}
		to = slices.DeleteFunc(to, func(s sinks.Sink) bool { return slices.Contains(p.sources, s.Name()) })
	}
	for _, s := range to {
		p.entry.Sinks[s.Name()] = time.Time{}
	}
	if p.remedy != Copy && p.remedy != Adopt {
		held, err := false, error(nil)
		if known {
			held, err = r.Verifier.Held(e.Revision)
		}
		switch {
		case err != nil:
			return err
		case held:
			done.Again = append(done.Again, e.Revision)
			return r.Book.Amend(ctx, p.entry)
		case p.remedy == Read:
			done.Due = append(done.Due, e.Revision)
			r.Log.With(key.Attrs()).Warn("window is whole in no sink: it is due again", "revision", e.Number)
			p.entry.Sinks = nil
			return r.Book.Amend(ctx, p.entry)
		}
		return nil
	}
	// CRASH: the ledger owes the window to the sinks that lack it. Each that has got it by
	// then shows it, and the next repair or comparison notes that; the others are filled by
	// it, from the same sources.
	if err := r.Book.Amend(ctx, p.entry); err != nil {
		return err
	}
	if err := r.fill(ctx, p, to); err != nil {
		return err
	}
	done.Mended++
	return nil
}

// fill copies the window to the sinks.
func (r *Repair) fill(ctx context.Context, p plan, to []sinks.Sink) error {
	if len(to) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, windowTimeout)
	defer cancel()
	var from []sinks.Sink
	for _, s := range r.Verifier.sources() {
		if slices.Contains(p.sources, s.Name()) {
			from = append(from, s)
		}
	}
	return copying{dir: r.Dir, entry: p.entry}.run(ctx, from, func(w sinks.Sealed, source string) error {
		for _, s := range to {
			if err := s.Replace(ctx, w); err != nil {
				return fmt.Errorf("%s sink: %w", s.Name(), err)
			}
			if err := r.Book.Committed(ctx, p.entry.Revision, s.Name(), r.Now()); err != nil {
				return err
			}
			r.Log.With(p.entry.Key.Attrs()).Info("window copied", "revision", p.entry.Number, "source", source, "sink", s.Name())
		}
		return nil
	})
}

// copying copies a window from a sink.
type copying struct {
	dir   string
	entry Entry
}

// run calls use with the window of the first source that has it.
func (c copying) run(ctx context.Context, from []sinks.Sink, use func(w sinks.Sealed, source string) error) error {
	var errs []error
	for _, s := range from {
		w, done, err := c.take(ctx, s)
		if err != nil {
			errs = append(errs, fmt.Errorf("from %s: %w", s.Name(), err))
			continue
		}
		return errors.Join(use(w, s.Name()), done())
	}
	return errors.Join(errs...)
}

// take returns the window, with its rows tested and described as in the ledger.
func (c copying) take(ctx context.Context, from sinks.Sink) (sinks.Sealed, func() error, error) {
	w, done, err := from.Window(ctx, c.entry.Revision, c.dir)
	if err != nil {
		return nil, nil, err
	}
	var sum analytics.Sum
	for row, err := range w.Rows() {
		if err != nil {
			return nil, nil, errors.Join(err, done())
		}
		sum.Add(row)
	}
	if want := c.entry; sum.Rows != max(want.Rows, 0) || want.Checksum != "" && want.Checksum != sum.Checksum.String() {
		return nil, nil, errors.Join(fmt.Errorf("it gives %s with the checksum %s, which is not what the ledger has", rowCount(sum.Rows), sum.Checksum), done())
	}
	if same(w.Revision(), c.entry.Revision) {
		return w, done, nil
	}
	if c.entry.Checksum == "" {
		return nil, nil, errors.Join(fmt.Errorf("it gives %s", said(w.Revision())), done())
	}
	described := filepath.Join(c.dir, "described.tmp")
	_, err = archive.Write(described, c.entry.Revision, w.Rows())
	if err = errors.Join(err, done()); err != nil {
		return nil, nil, err
	}
	file, err := archive.Open(described)
	if err != nil {
		return nil, nil, err
	}
	return file, func() error { return os.Remove(described) }, nil
}
