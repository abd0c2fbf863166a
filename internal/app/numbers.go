package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/outcomes"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// maxPages is the maximum number of pages of a window that a prompt can refer to.
const maxPages = 100_000

// maxAgents is the same for its agents, and for the paths that they missed: a site has 1,000 of these.
const maxAgents = 1_000

// numbers are the figures that prompts can quote: totals from the ledger, pages from a
// sink. They send nothing.
type numbers struct{ app *App }

// Windows returns what is asked for of the newest settled window and the one that it is compared with.
func (n numbers) Windows(
	ctx context.Context, project string, g analytics.Granularity, of prompts.Content,
) (out prompts.Compared, err error) {
	source := schedule.Source{Project: project}
	if of == prompts.Agents || of == prompts.Misses {
		source.Report = analytics.AgentsReport
	}
	now, former, err := n.pair(ctx, source, g)
	if err != nil {
		return out, err
	}
	out = prompts.Compared{
		Window: now.Window, FormerWindow: former.Window, Totals: now.Totals, FormerTotals: former.Totals,
	}
	ranking := query.AgentRanking{N: maxAgents}
	switch of {
	case prompts.Totals:
		return out, nil
	case prompts.Pages:
		if out.Rows, err = n.app.Rows(ctx, now); err == nil {
			out.FormerRows, err = n.app.Rows(ctx, former)
		}
		return out, err
	case prompts.Misses:
		ranking.List = query.Misses
		for _, e := range []state.Entry{now, former} {
			if e.TotalsOnly() {
				return out, fmt.Errorf("%w: only the totals of %s were read", prompts.ErrNoNumbers, e.Key)
			}
		}
	}
	if ranking, err = ranking.Complete(); err != nil {
		return out, err
	}
	r, err := Compare(ctx, n.app, now, &former, ranking, query.CompareAgents)
	out.Agents, out.Misses = r.Agents, r.Misses
	return out, err
}

// Outcomes returns what became of the readers of the pages that merges touched.
func (n numbers) Outcomes(ctx context.Context, project string) (view.Outcomes, error) {
	return outcomes.Estimate(ctx, n.app.State, n.app.Archive(), outcomes.Selection{Projects: []string{project}})
}

// Compare compares the rows of a window with the rows of an earlier one, which may be nil, from the first sink that
// has them.
func Compare[Ranking, R any](
	ctx context.Context, a *App, now state.Entry, former *state.Entry, ranking Ranking,
	compare func(_ context.Context, _ sinks.Sink, earlier, later *analytics.Revision, _ Ranking) (R, error),
) (r R, err error) {
	var earlier *analytics.Revision
	has := func(name string) bool { return !now.Sinks[name].IsZero() }
	if former != nil {
		earlier = &former.Revision
		has = func(name string) bool { return !now.Sinks[name].IsZero() && !former.Sinks[name].IsZero() }
	}
	err = a.fromSink(has, func(s sinks.Sink) (err error) {
		r, err = compare(ctx, s, earlier, &now.Revision, ranking)
		return err
	})
	if err != nil {
		err = fmt.Errorf("rows of %s: %w", now.Key, err)
	}
	return r, err
}

// fromSink calls read with one sink after the other that has the windows, until one can be read.
func (a *App) fromSink(has func(name string) bool, read func(sinks.Sink) error) error {
	var errs []error
	for _, s := range a.Sinks {
		if !has(s.Name()) {
			continue
		}
		err := read(s)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, errors.New("no sink has them"))...)
}

// pair returns the newest settled window of a report, and the one that it is compared with.
func (n numbers) pair(
	ctx context.Context, source schedule.Source, g analytics.Granularity,
) (now, former state.Entry, err error) {
	l, err := coverage.Read(ctx, n.app.State, n.app.Now())
	if err != nil {
		return now, former, err
	}
	project := source.Project
	if source.Report != analytics.VisitorsReport {
		project += " of the report " + source.Report.String() + " (DOCGAUGE_REPORTS)"
	}
	var newest *state.Entry
	for e := range l.Series(schedule.Series{Source: source, Granularity: g}) {
		switch {
		case !e.Settled:
		case newest == nil:
			newest = e
		case e.To == g.ComparedWith(newest.Window).To && !e.Comparable(newest.Revision):
			return now, former, fmt.Errorf("%w: the %s window %s of %s counts people as %s, and %s, which it is compared "+
				"with, as %s", prompts.ErrNoNumbers, g, newest.Window, project, newest.Humans.Said(), e.Window,
				e.Humans.Said())
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
func (a *App) Rows(ctx context.Context, e state.Entry) (rows []analytics.Row, err error) {
	if e.TotalsOnly() {
		return nil, fmt.Errorf("%w: only the totals of %s were read", prompts.ErrNoNumbers, e.Key)
	}
	has := func(name string) bool { return !e.Sinks[name].IsZero() }
	err = a.fromSink(has, func(s sinks.Sink) error {
		return a.WithCopies(func(dir string) (err error) {
			rows, err = sinks.Top(ctx, s, e.Revision, maxPages, dir)
			return err
		})
	})
	if err != nil {
		err = fmt.Errorf("pages of %s: %w", e.Key, err)
	}
	return rows, err
}
