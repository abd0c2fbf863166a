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
// directory costs no request: see [Rebuild]. A sink is given every window from the day on which
// it is configured, so any sink that holds windows shows what was read before.
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

// unlistedError says of each sink why what was read before is unknown.
type unlistedError []error

func (e unlistedError) Error() string {
	var all []string
	for _, err := range e {
		all = append(all, err.Error())
	}
	return "the ledger is read back from the sinks, but one of them cannot be listed: " + strings.Join(all, "; ") +
		" (nothing is requested, because it may be there already: repair the sink, " +
		"or remove it from DOCGAUGE_SINKS, then run again)"
}

func (e unlistedError) Unwrap() []error { return e }

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
