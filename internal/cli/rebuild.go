package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

// rebuilding makes a ledger of what the sinks show.
type rebuilding struct {
	former map[analytics.Key]state.Entry
	// shown is what each sink shows that could be listed; away are the others.
	shown map[string]map[analytics.Key]sinks.Shown
	away  map[string]bool
	held  func(analytics.Revision) bool
}

// rebuilt is what came of it: windows in the ledger, and those that it knew and
// nobody has any more.
type rebuilt struct{ windows, forgotten int }

// rebuildLedger makes the ledger what the sinks show. What the spool holds stays,
// and what a sink has that cannot be listed now.
func (a *Program) rebuildLedger(ctx context.Context, c config, db *state.DB, stores []sinks.Sink) (done rebuilt, err error) {
	sp, err := spool.Open(c.StateDir, a.now())
	if err != nil {
		return done, err
	}
	r := rebuilding{former: map[analytics.Key]state.Entry{}, shown: map[string]map[analytics.Key]sinks.Shown{}, away: map[string]bool{}}
	if r.held, err = heldBy(ctx, sp); err != nil {
		return done, err
	}
	former, err := db.Entries(ctx)
	if err != nil {
		return done, err
	}
	for _, e := range former {
		r.former[e.Key] = e
	}
	var away []error
	some := false
	log := a.logger(c)
	for _, s := range stores {
		shown, err := shownBy(ctx, s, log)
		if errors.Is(err, sinks.ErrNotListed) {
			away, r.away[s.Name()] = append(away, err), true
			continue
		}
		if err != nil {
			return done, err
		}
		r.shown[s.Name()] = shown
		some = some || len(shown) > 0
	}
	// Were the sink away that has everything, all of it would be requested again.
	if len(away) > 0 && !some {
		return done, unknownError(away)
	}
	for _, err := range away {
		log.Warn("ledger not rebuilt from sink: what it had stays in the ledger", "error", err)
	}
	entries := r.entries(stores)
	done.windows = len(entries)
	for _, e := range entries {
		delete(r.former, e.Key)
	}
	done.forgotten = len(r.former)
	return done, db.ReplaceLedger(ctx, entries)
}

// shownBy lists what a sink shows, after it has finished what a crash left half
// done, with the checksums that it keeps.
func shownBy(ctx context.Context, s sinks.Sink, log *slog.Logger) (map[analytics.Key]sinks.Shown, error) {
	revs, err := held(ctx, s, log)
	if err != nil {
		return nil, err
	}
	out := map[analytics.Key]sinks.Shown{}
	for _, rev := range revs {
		out[rev.Key] = sinks.Shown{Revision: rev}
	}
	for shown, err := range s.Inspect(ctx, sinks.Scope{}) {
		if errors.Is(err, sinks.ErrNotListed) {
			return nil, err
		}
		if rev, listed := out[shown.Key]; err == nil && listed && sameReading(rev.Revision, shown.Revision) {
			out[shown.Key] = shown
		}
	}
	return out, ctx.Err()
}

// sameReading reports whether a and b are of one reading of a window.
func sameReading(a, b analytics.Revision) bool {
	return a.Key == b.Key && a.Number == b.Number && a.ExportedAt.Equal(b.ExportedAt)
}

// entries are the newest revision of each window that somebody has.
func (r rebuilding) entries(stores []sinks.Sink) []state.Entry {
	newest := map[analytics.Key]sinks.Shown{}
	offer := func(s sinks.Shown) {
		if n, known := newest[s.Key]; !known || newer(s.Revision, n.Revision) {
			newest[s.Key] = s
		} else if sameReading(s.Revision, n.Revision) && n.Checksum == "" {
			n.Checksum = s.Checksum
			newest[s.Key] = n
		}
	}
	for _, s := range stores { // in their order, so that it is the same each time
		for _, shown := range r.shown[s.Name()] {
			offer(shown)
		}
	}
	for _, e := range r.former {
		if r.held(e.Revision) || r.elsewhere(e) {
			offer(sinks.Shown{Revision: e.Revision, Checksum: e.Checksum})
		}
	}
	out := make([]state.Entry, 0, len(newest))
	for _, n := range newest {
		out = append(out, r.entry(n, stores))
	}
	return out
}

// elsewhere reports whether the ledger says that a sink has the revision which
// cannot be listed now.
func (r rebuilding) elsewhere(e state.Entry) bool {
	for name, at := range e.Sinks {
		if r.away[name] && !at.IsZero() {
			return true
		}
	}
	return false
}

func newer(a, b analytics.Revision) bool {
	return cmp.Or(a.ExportedAt.Compare(b.ExportedAt), cmp.Compare(a.Number, b.Number)) > 0
}

// entry says who has the revision: a sink that shows another one is owed it, and
// one that shows none if it was owed it, or had it, before.
func (r rebuilding) entry(n sinks.Shown, stores []sinks.Sink) state.Entry {
	e := state.Entry{Revision: n.Revision, Sinks: map[string]time.Time{}}
	former := r.former[n.Key]
	known := sameReading(former.Revision, n.Revision)
	if known {
		e.Provenance = former.Provenance
	}
	e.Checksum = cmp.Or(e.Checksum, n.Checksum)
	for _, s := range stores {
		name := s.Name()
		at, mentioned := former.Sinks[name]
		shown, there := r.shown[name][n.Key]
		switch {
		case r.away[name] && known && mentioned:
			e.Sinks[name] = at
		case r.away[name]:
		case there && sameReading(shown.Revision, n.Revision):
			if e.Sinks[name] = at; !known || at.IsZero() {
				e.Sinks[name] = n.ExportedAt
			}
		case there || mentioned || r.held(n.Revision):
			e.Sinks[name] = time.Time{}
		}
	}
	return e
}
