package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
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
	// Errors are of sinks from which nothing was concluded, and of windows that could
	// not be copied.
	Errors []error
}

// listing is what a sink lists.
type listing struct {
	sink  string
	shown map[analytics.Key]analytics.Revision
	// damaged windows are listed but cannot be read.
	damaged map[analytics.Key]bool
	// uncertain windows could not be inspected.
	uncertain map[analytics.Key]bool
}

// Compare compares the ledger with what the sinks list. A window that a sink no longer has is
// owed to it again and copied from another sink; if none has it, it is lost, and so due again.
// Only the rows of windows that are copied are read. The error is that of the ledger, or the
// end of ctx; problems of a sink are in Compared.
func (v *Verifier) Compare(ctx context.Context) (Compared, error) {
	done := Compared{Lost: map[string]int{}}
	entries, err := v.Ledger.Entries(ctx)
	if err != nil {
		return done, err
	}
	lists := map[string]*listing{}
	for _, s := range v.Sinks {
		l, err := list(ctx, s)
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		if err == nil {
			err = l.refuse(entries)
		}
		if err != nil {
			done.Errors = append(done.Errors, fmt.Errorf("not compared with the ledger: %w", err))
			continue
		}
		lists[s.Name()] = l
	}
	failed := map[string]bool{}
	for _, e := range entries {
		changed := false
		for _, s := range v.Sinks {
			if l := lists[s.Name()]; l != nil && has(e, s.Name()) && l.lacks(e) {
				changed = true
				e.Sinks[s.Name()] = time.Time{}
				done.Lost[s.Name()]++
				v.Log.With(e.Key.Attrs()).Warn("a sink has lost a window", "sink", s.Name(), "revision", e.Number)
			}
		}
		if err := v.supply(ctx, e, changed, lists, failed, &done); err != nil {
			return done, err
		}
	}
	return done, nil
}

// list lists the windows of a sink.
func list(ctx context.Context, s sinks.Sink) (*listing, error) {
	l := &listing{s.Name(), map[analytics.Key]analytics.Revision{}, map[analytics.Key]bool{}, map[analytics.Key]bool{}}
	for rev, err := range s.Revisions(ctx) {
		fault, ofWindow := errors.AsType[sinks.Fault](err)
		switch {
		case ofWindow && fault.Kind == sinks.Unavailable:
			l.uncertain[fault.Key] = true
		case ofWindow:
			l.damaged[fault.Key] = true
		case err != nil:
			return nil, err
		default:
			l.shown[rev.Key] = rev
		}
	}
	return l, nil
}

// refuse returns an error if so much is missing that the sink is more likely another
// one, or not mounted, than damaged: all of it would be requested again.
func (l *listing) refuse(entries []state.Entry) error {
	claimed, lost := 0, 0
	for _, e := range entries {
		if has(e, l.sink) {
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
		"place, and mounted? "+
		"Nothing is read again because of it. %s", l.sink, lost, claimed, adviceEmptied)
}

// lacks reports whether the sink surely does not show the revision.
func (l *listing) lacks(e state.Entry) bool {
	shown, there := l.shown[e.Key]
	return !l.uncertain[e.Key] &&
		(l.damaged[e.Key] || !there || shown.ExportedAt.Before(e.ExportedAt.Truncate(time.Microsecond)))
}

// shows reports whether the sink lists the revision as the ledger has it.
func (l *listing) shows(e state.Entry) bool {
	shown, there := l.shown[e.Key]
	return there && !l.damaged[e.Key] && same(shown, e.Revision)
}

// supply enters e in the ledger if it was changed, and copies a window that the spool no
// longer has to the sinks that are owed it. A sink that fails is left to the next comparison.
func (v *Verifier) supply(
	ctx context.Context, e state.Entry, changed bool, lists map[string]*listing, failed map[string]bool, done *Compared,
) error {
	var to, from []sinks.Sink
	maybe := false // a sink that says it has it could not be asked
	for _, s := range v.Sinks {
		l := lists[s.Name()]
		switch {
		case !has(e, s.Name()) && l != nil && l.shows(e):
			// A process was killed before the ledger knew.
			e.Sinks[s.Name()] = v.Now()
			if err := v.Ledger.Committed(ctx, e.Revision, s.Name(), v.Now()); err != nil {
				return err
			}
			from = append(from, s)
		case owes(e, s.Name()):
			to = append(to, s)
		case !has(e, s.Name()):
		case l == nil || !l.shows(e):
			maybe = true
		default:
			from = append(from, s)
		}
	}
	if len(to) == 0 {
		return nil
	}
	spooled, err := v.InSpool(e.Revision)
	if err != nil {
		return err
	}
	// The ledger changes at once from "a sink has it" to "it is lost": a process that is
	// killed leaves no window that nothing will deliver.
	if lost := !spooled && len(from) == 0 && !maybe; changed || lost {
		if lost {
			e.Sinks = nil
			done.Due++
			v.Log.With(e.Key.Attrs()).Warn("window is in no sink: it is due again", "revision", e.Number)
		}
		if err := v.Ledger.Amend(ctx, e); err != nil || lost {
			return err
		}
	}
	if spooled || len(from) == 0 {
		return nil
	}
	to = slices.DeleteFunc(to, func(s sinks.Sink) bool { return failed[s.Name()] })
	for _, s := range to {
		refused, err := v.copy(ctx, e, from, s)
		failed[s.Name()] = refused
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			done.Errors = append(done.Errors, fmt.Errorf("%s sink: %s: not filled from another sink: %w",
				s.Name(), e.Key, err))
			continue
		}
		done.Filled++
	}
	return nil
}
