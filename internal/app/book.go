package app

import (
	"context"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/spool"
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

// HeldInSpool reports whether the spool has the revision, whole.
func (a *App) HeldInSpool(rev analytics.Revision) (bool, error) {
	return spool.Holds(a.Config.StateDir, rev)
}
