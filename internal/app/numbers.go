package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/pulls"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
)

// maxPages is the maximum number of pages of a window that a prompt can refer to.
const maxPages = 100_000

// numbers are the figures that prompts can quote: totals from the ledger, pages from a
// sink. They send nothing.
type numbers struct{ app *App }

// Windows returns the totals, and with pages the rows, of the newest settled window and the one
// that it is compared with.
func (n numbers) Windows(
	ctx context.Context, project string, g analytics.Granularity, pages bool,
) (out prompts.Adjacent, err error) {
	now, former, err := n.pair(ctx, project, g)
	if err != nil {
		return out, err
	}
	out = prompts.Adjacent{
		Window: now.Window, FormerWindow: former.Window, Totals: now.Totals, FormerTotals: former.Totals,
	}
	if pages {
		if out.Rows, err = n.app.Rows(ctx, now); err == nil {
			out.FormerRows, err = n.app.Rows(ctx, former)
		}
	}
	return out, err
}

// Outcomes returns what became of the readers of the pages that merges touched.
func (n numbers) Outcomes(ctx context.Context, project string) (view.Outcomes, error) {
	return pulls.Outcomes(ctx, n.app.State, n.app.Archive(), pulls.Selection{Projects: []string{project}})
}

// pair returns the newest settled window, and the one that it is compared with.
func (n numbers) pair(
	ctx context.Context, project string, g analytics.Granularity,
) (now, former state.Entry, err error) {
	l, err := coverage.Read(ctx, n.app.State, n.app.Now())
	if err != nil {
		return now, former, err
	}
	var newest *state.Entry
	for e := range l.Series(project, g) {
		switch {
		case !e.Settled:
		case newest == nil:
			newest = e
		case e.To == g.ComparedWith(newest.Window).To:
			return *newest, *e, nil
		}
	}
	if newest == nil {
		return now, former, fmt.Errorf("%w: no %s window of %s is settled yet", prompts.ErrNoNumbers, g, project)
	}
	return now, former, fmt.Errorf("%w: the %s window %s of %s is not settled yet, which %s is compared with",
		prompts.ErrNoNumbers, g, g.ComparedWith(newest.Window), project, newest.Window)
}

// Rows returns the rows of a window from the first sink that has them.
func (a *App) Rows(ctx context.Context, e state.Entry) ([]analytics.Row, error) {
	if e.TotalsOnly() {
		return nil, fmt.Errorf("%w: only the totals of %s were read", prompts.ErrNoNumbers, e.Key)
	}
	var errs []error
	for _, s := range a.Sinks {
		if e.Sinks[s.Name()].IsZero() {
			continue
		}
		rows, err := a.TopPages(ctx, s, e.Revision, maxPages)
		if err == nil {
			return rows, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("pages of %s: %w", e.Key, errors.Join(append(errs, errors.New("no sink has them"))...))
}
