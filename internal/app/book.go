package app

import (
	"context"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/verify"
)

// Book is the ledger as package verify sees it.
type Book struct{ State *state.DB }

// Entries returns what the ledger knows.
func (b Book) Entries(ctx context.Context) ([]verify.Entry, error) {
	entries, err := b.State.Entries(ctx)
	out := make([]verify.Entry, len(entries))
	for i, e := range entries {
		out[i] = verify.Entry(e)
	}
	return out, err
}

// Amend enters a revision and the sinks that have it.
func (b Book) Amend(ctx context.Context, e verify.Entry) error {
	return b.State.Amend(ctx, state.Entry(e))
}

// Committed enters that a sink has the revision.
func (b Book) Committed(ctx context.Context, rev analytics.Revision, sink string, at time.Time) error {
	return b.State.Committed(ctx, rev, sink, at)
}

// Forget removes a window, which is due again then.
func (b Book) Forget(ctx context.Context, k analytics.Key) error { return b.State.ForgetWindow(ctx, k) }

// HeldInSpool returns a function that says which revisions the spool has. No other
// process uses the spool meanwhile.
func (a *App) HeldInSpool(ctx context.Context) (func(analytics.Revision) bool, error) {
	type numbered struct {
		key    analytics.Key
		number int32
	}
	held := map[numbered]bool{}
	sealed, _, err := a.Spool.List(ctx)
	for _, w := range sealed {
		held[numbered{w.Revision().Key, w.Revision().Number}] = true
	}
	return func(rev analytics.Revision) bool { return held[numbered{rev.Key, rev.Number}] }, err
}
