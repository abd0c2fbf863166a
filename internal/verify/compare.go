package verify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// Comparison is the cheap comparison that an export makes, of the ledger with what the
// sinks list. A window that a sink no longer has is owed to it again and copied from
// another sink; if none has it, it is lost, and so due again.
// Only the rows of windows that are copied are read.
type Comparison struct {
	Book  Book
	Sinks []sinks.Sink
	// Held reports whether the spool has the revision, whole.
	Held func(analytics.Revision) (bool, error)
	// Dir is a directory for files of windows that are copied.
	Dir string
	Now func() time.Time
	Log *slog.Logger
}

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
	sink  sinks.Sink
	shown map[analytics.Key]analytics.Revision
	// damaged windows are listed but cannot be read.
	damaged map[analytics.Key]error
	// uncertain windows could not be inspected.
	uncertain map[analytics.Key]bool
}

// Run compares. Its error is that of the ledger, or the end of ctx; what is wrong with
// a sink is in Compared.
func (c *Comparison) Run(ctx context.Context) (Compared, error) {
	done := Compared{Lost: map[string]int{}}
	entries, err := c.Book.Entries(ctx)
	if err != nil {
		return done, err
	}
	lists := map[string]*listing{}
	for _, s := range c.Sinks {
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
		lost := c.lost(e, lists)
		for _, name := range lost {
			e.Sinks[name] = time.Time{}
			done.Lost[name]++
			c.Log.With(e.Key.Attrs()).Warn("a sink has lost a window", "sink", name, "revision", e.Number)
		}
		if err := c.supply(ctx, e, len(lost) > 0, lists, failed, &done); err != nil {
			return done, err
		}
	}
	return done, nil
}

// list asks a sink what it has.
func list(ctx context.Context, s sinks.Sink) (*listing, error) {
	l := &listing{s, map[analytics.Key]analytics.Revision{}, map[analytics.Key]error{}, map[analytics.Key]bool{}}
	for rev, err := range s.Revisions(ctx) {
		fault, ofWindow := errors.AsType[sinks.Fault](err)
		switch {
		case ofWindow && fault.Kind == sinks.Unavailable:
			l.uncertain[fault.Key] = true
		case ofWindow:
			l.damaged[fault.Key] = err
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
func (l *listing) refuse(entries []Entry) error {
	claimed, lost := 0, 0
	for _, e := range entries {
		if e.has(l.sink.Name()) {
			claimed++
			if l.lacks(e) {
				lost++
			}
		}
	}
	if claimed < many || 2*lost <= claimed {
		return nil
	}
	return fmt.Errorf("%s sink: it has lost %d of the %d windows that the ledger says it has: is it the right place, and mounted? "+
		"Nothing is read again because of it. %s",
		l.sink.Name(), lost, claimed, ifEmptied)
}

// lacks reports whether the sink surely does not show the revision.
func (l *listing) lacks(e Entry) bool {
	if l.uncertain[e.Key] {
		return false
	}
	shown, there := l.shown[e.Key]
	return l.damaged[e.Key] != nil || !there || shown.ExportedAt.Before(e.ExportedAt.Truncate(time.Microsecond))
}

// shows reports whether the sink lists the revision as the ledger has it.
func (l *listing) shows(e Entry) bool {
	shown, there := l.shown[e.Key]
	return there && l.damaged[e.Key] == nil && same(shown, e.Revision)
}

// lost returns the sinks that should have the window and do not.
func (c *Comparison) lost(e Entry, lists map[string]*listing) (out []string) {
	for _, s := range c.Sinks {
		if l := lists[s.Name()]; l != nil && e.has(s.Name()) && l.lacks(e) {
			out = append(out, s.Name())
		}
	}
	return out
}

// supply enters e in the ledger if it was changed, and copies a window that the spool no
// longer has to the sinks that are owed it. A sink that fails is left to the next comparison.
func (c *Comparison) supply(ctx context.Context, e Entry, changed bool, lists map[string]*listing, failed map[string]bool, done *Compared) error {
	var to, from []sinks.Sink
	maybe := false // a sink that says it has it could not be asked
	for _, s := range c.Sinks {
		l := lists[s.Name()]
		switch {
		case !e.has(s.Name()) && l != nil && l.shows(e):
			// A process was killed before the ledger knew.
			e.Sinks[s.Name()] = c.Now()
			if err := c.Book.Committed(ctx, e.Revision, s.Name(), c.Now()); err != nil {
				return err
			}
			from = append(from, s)
		case e.owed(s.Name()):
			to = append(to, s)
		case !e.has(s.Name()):
		case l == nil || !l.shows(e):
			maybe = true
		default:
			from = append(from, s)
		}
	}
	if len(to) == 0 {
		return nil
	}
	held, err := c.Held(e.Revision)
	if err != nil {
		return err
	}
	// The ledger changes at once from "a sink has it" to "it is lost": a process that is
	// killed leaves no window that is owed by nobody.
	if lost := !held && len(from) == 0 && !maybe; changed || lost {
		if lost {
			e.Sinks = nil
			done.Due++
			c.Log.With(e.Key.Attrs()).Warn("window is in no sink: it is due again", "revision", e.Number)
		}
		if err := c.Book.Amend(ctx, e); err != nil || lost {
			return err
		}
	}
	if held || len(from) == 0 {
		return nil
	}
	to = slices.DeleteFunc(to, func(s sinks.Sink) bool { return failed[s.Name()] })
	for _, s := range to {
		err := c.copy(ctx, e, from, s, failed)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			done.Errors = append(done.Errors, fmt.Errorf("%s sink: %s: not filled from another sink: %w", s.Name(), e.Key, err))
			continue
		}
		done.Filled++
	}
	return nil
}

// copy copies one window to one sink, and enters that in the ledger. A sink that
// refuses the window has failed.
func (c *Comparison) copy(ctx context.Context, e Entry, from []sinks.Sink, to sinks.Sink, failed map[string]bool) error {
	ctx, cancel := context.WithTimeout(ctx, windowTimeout)
	defer cancel()
	return copying{dir: c.Dir, entry: e}.run(ctx, from, func(w sinks.Sealed, source string) error {
		if err := to.Replace(ctx, w); err != nil {
			failed[to.Name()] = true
			return err
		}
		c.Log.With(e.Key.Attrs()).Info("window copied", "revision", e.Number, "source", source, "sink", to.Name())
		return c.Book.Committed(ctx, e.Revision, to.Name(), c.Now())
	})
}
