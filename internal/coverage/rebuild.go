package coverage

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

// Rebuilt counts the windows of a rebuilt ledger, and those that the former one knew
// and that no sink holds any more.
type Rebuilt struct{ Windows, Forgotten int }

// Rebuild makes the ledger what the sinks show. What the spool holds, according to inSpool, and
// what an unlisted sink had stays. If no listed sink shows anything and another one
// cannot be listed, the ledger stays as it is and the error is [sinks.ErrNotListed].
func Rebuild(
	ctx context.Context, db *state.DB, from []sinks.Sink,
	inSpool func(analytics.Revision) (bool, error), log *slog.Logger,
) (done Rebuilt, err error) {
	r := rebuilding{
		former: map[analytics.Key]state.Entry{}, shown: map[string]map[analytics.Key]sinks.Shown{},
		unlisted: map[string]bool{},
		inSpool:  map[analytics.Key]bool{},
	}
	former, err := db.Entries(ctx)
	if err != nil {
		return done, err
	}
	for _, e := range former {
		r.former[e.Key] = e
		if r.inSpool[e.Key], err = inSpool(e.Revision); err != nil {
			return done, err
		}
	}
	var unlisted []error
	some := false
	for _, s := range from {
		shown, err := shownBy(ctx, s, log)
		if errors.Is(err, sinks.ErrNotListed) {
			unlisted, r.unlisted[s.Name()] = append(unlisted, err), true
			continue
		}
		if err != nil {
			return done, err
		}
		r.shown[s.Name()] = shown
		some = some || len(shown) > 0
	}
	// The unlisted sink may hold everything, and all of it would be requested again.
	if len(unlisted) > 0 && !some {
		return done, unlistedError(unlisted)
	}
	for _, err := range unlisted {
		log.Warn("ledger not rebuilt from sink: what it had stays in the ledger", "error", err)
	}
	entries := r.entries(from)
	done.Windows = len(entries)
	for _, e := range entries {
		delete(r.former, e.Key)
	}
	done.Forgotten = len(r.former)
	return done, db.ReplaceLedger(ctx, entries)
}

// rebuilding makes a ledger of what the sinks show.
type rebuilding struct {
	former map[analytics.Key]state.Entry
	// shown is what each listed sink shows.
	shown    map[string]map[analytics.Key]sinks.Shown
	unlisted map[string]bool
	// inSpool are the windows whose former revision the spool has.
	inSpool map[analytics.Key]bool
}

// shownBy lists what a sink shows, with the checksums it keeps, after the sink has
// finished what a crash left half done.
func shownBy(ctx context.Context, s sinks.Sink, log *slog.Logger) (map[analytics.Key]sinks.Shown, error) {
	revs, err := list(ctx, s, log)
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
	return out, context.Cause(ctx)
}

// sameReading reports whether a and b are of one reading of a window.
func sameReading(a, b analytics.Revision) bool {
	return a.Key == b.Key && a.Number == b.Number && a.ExportedAt.Equal(b.ExportedAt)
}

// entries returns the newest revision of each window that a sink or the spool holds.
func (r rebuilding) entries(from []sinks.Sink) []state.Entry {
	newest := map[analytics.Key]sinks.Shown{}
	offer := func(s sinks.Shown) {
		if n, known := newest[s.Key]; !known || newer(s.Revision, n.Revision) {
			newest[s.Key] = s
		} else if sameReading(s.Revision, n.Revision) && n.Checksum == "" {
			n.Checksum = s.Checksum
			newest[s.Key] = n
		}
	}
	for _, s := range from { // in their order, so that the result is the same each time
		for _, shown := range r.shown[s.Name()] {
			offer(shown)
		}
	}
	for _, e := range r.former {
		if r.inSpool[e.Key] || r.unlistedHas(e) {
			offer(sinks.Shown{Revision: e.Revision, Checksum: e.Checksum})
		}
	}
	out := make([]state.Entry, 0, len(newest))
	for _, n := range newest {
		out = append(out, r.entry(n, from))
	}
	return out
}

// unlistedHas reports whether, according to the ledger, an unlisted sink has the
// revision.
func (r rebuilding) unlistedHas(e state.Entry) bool {
	for name, at := range e.Sinks {
		if r.unlisted[name] && !at.IsZero() {
			return true
		}
	}
	return false
}

func newer(a, b analytics.Revision) bool {
	return cmp.Or(a.ExportedAt.Compare(b.ExportedAt), cmp.Compare(a.Number, b.Number)) > 0
}

// entry says which sinks have the revision. A sink that shows another revision is owed
// this one, and so is one that shows none but was owed it, or had it, before.
func (r rebuilding) entry(n sinks.Shown, from []sinks.Sink) state.Entry {
	e := state.Entry{Revision: n.Revision, Sinks: map[string]time.Time{}}
	former := r.former[n.Key]
	known := sameReading(former.Revision, n.Revision)
	if known {
		e.Provenance = former.Provenance
	}
	e.Checksum = cmp.Or(e.Checksum, n.Checksum)
	for _, s := range from {
		name := s.Name()
		at, mentioned := former.Sinks[name]
		shown, there := r.shown[name][n.Key]
		switch {
		case r.unlisted[name] && known && mentioned:
			e.Sinks[name] = at
		case r.unlisted[name]:
		case there && sameReading(shown.Revision, n.Revision):
			if e.Sinks[name] = at; !known || at.IsZero() {
				e.Sinks[name] = n.ExportedAt
			}
		case there || mentioned || known && r.inSpool[n.Key]:
			e.Sinks[name] = time.Time{}
		}
	}
	return e
}
