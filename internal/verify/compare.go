package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

// Compared is the result of a comparison.
type Compared struct {
	// Lost counts, by sink, the windows that it had and no longer has.
	Lost map[string]int
	// Filled and Due count windows that were copied from another sink, and those
	// that must be read again.
	Filled, Due int
	// Errors concern sinks from which nothing was concluded, and windows that could not be copied.
	Errors []error
}

// Compare compares the ledger with the sinks' listings. A window that a sink no longer has is owed to it again and
// copied from another sink; if none has it, it is lost, and so due again. Only the rows of windows that are copied
// are read. The error is an error of the ledger, or the end of ctx; problems of a sink are in Compared.
func (v *Verifier) Compare(ctx context.Context) (Compared, error) {
	done := Compared{Lost: map[string]int{}}
	entries, err := v.Ledger.Entries(ctx)
	if err != nil {
		return done, err
	}
	lists := map[string]*listing{}
	for _, s := range v.Sinks {
		l, err := list(ctx, s.Name(), func(yield func(sinks.Shown, error) bool) {
			for rev, err := range s.Revisions(ctx) {
				if !yield(sinks.Shown{Revision: rev}, err) {
					return
				}
			}
		})
		if err != nil {
			return done, err
		}
		if l.err == nil {
			l.err = l.refuse(entries)
		}
		if l.err != nil {
			done.Errors = append(done.Errors, fmt.Errorf("not compared with the ledger: %w", l.err))
			continue
		}
		lists[s.Name()] = l
	}
	failed := map[string]bool{} // sinks that refused a window are left to the next comparison
	for _, e := range entries {
		var to, from []sinks.Sink
		changed, maybe := false, false // maybe: a sink that says it has it could not be asked
		for _, s := range v.Sinks {
			name, l := s.Name(), lists[s.Name()]
			if l != nil && e.Has(name) && l.lacks(e) {
				changed = true
				e.Sinks[name] = time.Time{}
				done.Lost[name]++
				v.Log.With(e.Key.Attrs()).Warn("a sink has lost a window", "sink", name, "revision", e.Number)
			}
			switch {
			case !e.Has(name) && l != nil && l.shows(e):
				// A process was killed before the ledger knew.
				e.Sinks[name] = v.Now()
				if err := v.Ledger.Committed(ctx, e.Revision, name, v.Now()); err != nil {
					return done, err
				}
				from = append(from, s)
			case e.Owes(name):
				to = append(to, s)
			case !e.Has(name):
			case l == nil || !l.shows(e):
				maybe = true
			default:
				from = append(from, s)
			}
		}
		if len(to) == 0 {
			continue
		}
		spooled, err := v.InSpool(e.Revision)
		if err != nil {
			return done, err
		}
		lost := !spooled && len(from) == 0 && !maybe
		if lost {
			e.Sinks = nil
			done.Due++
			v.Log.With(e.Key.Attrs()).Warn("window is in no sink: it is due again", "revision", e.Number)
		}
		// CRASH: the ledger changes at once from "a sink has it" to "it is lost" or "it is owed":
		// a process that is killed leaves no window that nothing will deliver.
		if changed || lost {
			if err := v.Ledger.Amend(ctx, e); err != nil {
				return done, err
			}
		}
		if spooled || len(from) == 0 {
			continue
		}
		for _, s := range to {
			if failed[s.Name()] {
				continue
			}
			failed[s.Name()], err = v.copy(ctx, e, from, s)
			if ctx.Err() != nil {
				return done, context.Cause(ctx)
			}
			if err != nil {
				done.Errors = append(done.Errors, fmt.Errorf("%s sink: %s: not filled from another sink: %w",
					s.Name(), e.Key, err))
				continue
			}
			done.Filled++
		}
	}
	return done, nil
}

// many is the number of windows from which on a loss has a reason that a person should
// know: another URL, or a disk that is not mounted.
const many = 10

// refuse returns an error if so much is missing that the sink is more likely another
// one, or not mounted, than damaged: all of it would be requested again.
func (l *listing) refuse(entries []state.Entry) error {
	claimed, lost := 0, 0
	for _, e := range entries {
		if e.Has(l.sink) {
			claimed++
			if l.lacks(e) {
				lost++
			}
		}
	}
	if claimed < many || 2*lost <= claimed {
		return nil
	}
	return fmt.Errorf("%s sink: it has lost %d of the %d windows that the ledger says it has: is it the right "+
		"place, and mounted? Nothing is read again because of it. %s", l.sink, lost, claimed, adviceEmptied)
}

// emptied returns how many windows a sink has by the ledger, if they are many and the
// sink shows none at all; else 0.
func (w *survey) emptied(l *listing) (claimed int) {
	if !l.showsNothing || len(l.shown)+len(l.faults) > 0 || l.err != nil {
		return 0
	}
	for _, e := range w.ledger {
		if e.Has(l.sink) {
			claimed++
		}
	}
	if claimed < many {
		return 0
	}
	return claimed
}

// lacks reports whether the sink surely does not show the revision.
func (l *listing) lacks(e state.Entry) bool {
	if l.faults[e.Key].Kind == sinks.Unavailable {
		return false
	}
	shown, ok := l.whole(e.Key)
	return !ok || shown.ExportedAt.Before(e.ExportedAt.Truncate(time.Microsecond))
}
