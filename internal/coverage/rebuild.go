package coverage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

// RestoreEmpty fills an empty ledger from the sinks, so that a lost state directory
// costs no request: see [Rebuild]. A sink gets every window from the day on which it is
// configured, so any sink that holds windows shows every window that was read.
func RestoreEmpty(ctx context.Context, db *state.DB, from []sinks.Sink, log *slog.Logger) error {
	entries, err := db.Entries(ctx)
	if err != nil || len(entries) > 0 {
		return err
	}
	done, err := Rebuild(ctx, db, from, func(analytics.Revision) (bool, error) { return false, nil }, log)
	if done.Windows > 0 {
		log.Info("ledger restored from the sinks", "windows", done.Windows)
	}
	return err
}

// Rebuilt counts the windows of a rebuilt ledger, and the windows of the former ledger
// that no sink holds any more.
type Rebuilt struct{ Windows, Forgotten int }

// Rebuild rebuilds the ledger from the listings of the sinks. Entries of windows that the spool
// holds, according to inSpool, or that an unlisted sink had, stay. If no listed sink shows anything
// and another one cannot be listed, the ledger stays unchanged and the error is
// [sinks.ErrNotListed].
func Rebuild(
	ctx context.Context, db *state.DB, from []sinks.Sink,
	inSpool func(analytics.Revision) (bool, error), log *slog.Logger,
) (done Rebuilt, err error) {
	entries, err := db.Entries(ctx)
	if err != nil {
		return done, err
	}
	former, spooled := map[analytics.Key]state.Entry{}, map[analytics.Key]bool{}
	for _, e := range entries {
		former[e.Key] = e
		if spooled[e.Key], err = inSpool(e.Revision); err != nil {
			return done, err
		}
	}
	shown := map[string]map[analytics.Key]sinks.Shown{} // nil: the sink cannot be listed
	var unlisted []error
	some := false
	for _, s := range from {
		name := s.Name()
		shown[name], err = shownBy(ctx, s, log)
		switch {
		case errors.Is(err, sinks.ErrNotListed):
			shown[name], unlisted = nil, append(unlisted, err)
		case err != nil:
			return done, err
		}
		some = some || len(shown[name]) > 0
	}
	if len(unlisted) > 0 && !some {
		// An unlisted sink may hold everything, and all of it would be requested again.
		return done, fmt.Errorf("the ledger is read back from the sinks, but one of them cannot be listed: %w "+
			"(nothing is requested, because it may be there already: repair the sink, "+
			"or remove it from DOCGAUGE_SINKS, then run again)", errors.Join(unlisted...))
	}
	for _, err := range unlisted {
		log.Warn("ledger not rebuilt from sink: what it had stays in the ledger", "error", err)
	}
	// The newest revision of each window that a sink or the spool holds.
	newest := map[analytics.Key]sinks.Shown{}
	offer := func(s sinks.Shown) {
		n, known := newest[s.Key]
		later := cmp.Or(s.ExportedAt.Compare(n.ExportedAt), cmp.Compare(s.Number, n.Number)) > 0
		if !known || later {
			newest[s.Key] = s
		} else if sameReading(s.Revision, n.Revision) && n.Checksum == "" {
			n.Checksum = s.Checksum
			newest[s.Key] = n
		}
	}
	for _, s := range from { // in their order, so that the result is the same each time
		for _, window := range shown[s.Name()] {
			offer(window)
		}
	}
	for _, e := range entries {
		stays := spooled[e.Key]
		for name := range e.Sinks {
			windows, configured := shown[name]
			stays = stays || configured && windows == nil && e.Has(name)
		}
		if stays {
			offer(sinks.Shown{Revision: e.Revision, Checksum: e.Checksum})
		}
	}
	// A sink that shows another revision is owed the newest, and so is one that shows none but
	// was owed it, or had it, before.
	rebuilt := make([]state.Entry, 0, len(newest))
	for _, n := range newest {
		e := state.Entry{Revision: n.Revision, Sinks: map[string]time.Time{}}
		before := former[n.Key]
		known := sameReading(before.Revision, n.Revision)
		if known {
			e.Provenance = before.Provenance
		}
		e.Checksum = cmp.Or(e.Checksum, n.Checksum)
		for name, windows := range shown {
			at, mentioned := before.Sinks[name]
			window, there := windows[n.Key]
			switch {
			case windows == nil && known && mentioned:
				e.Sinks[name] = at
			case windows == nil:
			case there && sameReading(window.Revision, n.Revision):
				if e.Sinks[name] = at; !known || at.IsZero() {
					e.Sinks[name] = n.ExportedAt
				}
			case there || mentioned || known && spooled[n.Key]:
				e.Sinks[name] = time.Time{}
			}
		}
		rebuilt = append(rebuilt, e)
		delete(former, n.Key)
	}
	done = Rebuilt{Windows: len(rebuilt), Forgotten: len(former)}
	return done, db.ReplaceLedger(ctx, rebuilt)
}

// shownBy returns the windows that a sink shows, with its checksums, after the sink has
// completed work that a crash interrupted. Damaged windows are logged and left out: they are due
// again.
func shownBy(ctx context.Context, s sinks.Sink, log *slog.Logger) (map[analytics.Key]sinks.Shown, error) {
	out := map[analytics.Key]sinks.Shown{}
	for rev, err := range s.Revisions(ctx) {
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, sinks.ErrNotListed):
			return nil, err
		case err != nil:
			log.Warn("window not restored", "sink", s.Name(), "error", err)
		default:
			out[rev.Key] = sinks.Shown{Revision: rev}
		}
	}
	for shown, err := range s.Inspect(ctx, sinks.Scope{}) {
		if errors.Is(err, sinks.ErrNotListed) {
			return nil, err
		}
		if listed, ok := out[shown.Key]; err == nil && ok && sameReading(listed.Revision, shown.Revision) {
			out[shown.Key] = shown
		}
	}
	return out, context.Cause(ctx)
}

// sameReading reports whether a and b are of one reading of a window.
func sameReading(a, b analytics.Revision) bool {
	return a.Key == b.Key && a.Number == b.Number && a.ExportedAt.Equal(b.ExportedAt)
}
