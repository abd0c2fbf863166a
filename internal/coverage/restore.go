package coverage

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

// RestoreEmpty fills an empty ledger from what the sinks hold, so that a lost state
// directory costs no request. A sink is given every window from the day on which it is
// configured, so any sink that holds windows tells what was read before. Where the
// sinks that can be listed hold nothing, those that cannot may hold everything, and all
// of it would be requested again: that is an error, which is [sinks.ErrNotListed].
func RestoreEmpty(ctx context.Context, db *state.DB, from []sinks.Sink, log *slog.Logger) error {
	entries, err := db.Entries(ctx)
	if err != nil || len(entries) > 0 {
		return err
	}
	var unlisted []error
	total := 0
	for _, s := range from {
		revs, err := list(ctx, s, log)
		if errors.Is(err, sinks.ErrNotListed) {
			unlisted = append(unlisted, err)
			continue
		}
		if err != nil {
			return err
		}
		if err := db.Restore(ctx, s.Name(), revs); err != nil {
			return err
		}
		total += len(revs)
		if len(revs) > 0 {
			log.Info("ledger restored from sink", "sink", s.Name(), "windows", len(revs))
		}
	}
	if len(unlisted) > 0 && total == 0 {
		return unknownError(unlisted)
	}
	for _, err := range unlisted {
		log.Warn("ledger not restored from sink: windows that it alone holds are requested again", "error", err)
	}
	return nil
}

// unknownError says of each sink why nobody knows what was read before.
type unknownError []error

func (e unknownError) Error() string {
	var all []string
	for _, err := range e {
		all = append(all, err.Error())
	}
	return "the ledger is read back from the sinks, but one of them cannot be listed: " + strings.Join(all, "; ") +
		" (nothing is requested, because it may be there already: repair the sink, " +
		"or remove it from DOCGAUGE_SINKS, then run again)"
}

func (e unknownError) Unwrap() []error { return e }

// list returns what a sink holds. Damaged files are logged and skipped: their windows
// are due again.
func list(ctx context.Context, s sinks.Sink, log *slog.Logger) (revs []analytics.Revision, err error) {
	for rev, err := range s.Revisions(ctx) {
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, sinks.ErrNotListed):
			return nil, err
		case err != nil:
			log.Warn("window not restored", "sink", s.Name(), "error", err)
		default:
			revs = append(revs, rev)
		}
	}
	return revs, nil
}
