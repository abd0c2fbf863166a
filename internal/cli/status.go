package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
)

func (a *Program) statusCommand() *cobra.Command {
	var sel coverage.Selection
	var asJSON, rebuild bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show the newest windows, gaps, the budget and the last run",
		Long: `status shows per project and granularity the newest window in the ledger and its
site totals, how many windows are known, missing (gaps since DOCGAUGE_SINCE),
provisional (will be read once more) and unverified, then the running windows,
how people are counted, the budget, and the last run. It sends nothing and works
while an export runs.

--rebuild makes the ledger match the sinks. Use it when the state directory was
lost or its database is damaged: exported windows are then not read again.
Windows in the spool stay; windows that no sink holds are forgotten, and due
again. A damaged database is renamed, not deleted.

Unique visitors are not additive: do not sum days to weeks, or pages to a site.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if rebuild {
				if err := a.rebuild(cmd.Context()); err != nil {
					return err
				}
			}
			c, err := a.Config(config.NeedNothing)
			if err != nil {
				return err
			}
			return a.status(cmd.Context(), c, sel, asJSON)
		},
	}
	input.SelectionFlags(cmd, &sel, false)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the status as JSON")
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "read the ledger back from the sinks first")
	return cmd
}

func (a *Program) status(ctx context.Context, c config.Config, sel coverage.Selection, asJSON bool) (err error) {
	db, err := state.OpenExisting(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	report, err := coverage.NewStatus(ctx, db, c, sel, a.Now())
	if err != nil {
		return err
	}
	return a.Print(asJSON, report, func() error { return a.printStatus(report, a.Wording(c)) })
}

func (a *Program) printStatus(r coverage.Status, words render.Wording) error {
	if err := coverageTable(words, r.Coverage).Print(a.Out); err != nil {
		return err
	}
	text := render.NewText(a.Out)
	text.Line(0, "")
	for _, w := range r.Open {
		text.Line(2, "running %s: %s human, %s ai, %s total so far (%s)", words.Window(w.Key),
			format.Commas(w.Totals.Human), format.Commas(w.Totals.AI), format.Commas(w.Totals.Total),
			format.Clock(w.ReadAt, a.Now()))
	}
	for _, line := range modeLines(words, r.Coverage) {
		text.Line(2, "%s", line)
	}
	// Windows that are not verified, those that are skipped, and how many wait for their time.
	list := func(n int, line func(i int) string) {
		for i := range min(n, shownTroubled) {
			text.Line(2, "%s", line(i))
		}
		if n > shownTroubled {
			text.Line(2, "  and %s more: docgauge status --json", format.Commas(n-shownTroubled))
		}
	}
	list(len(r.Unverified), func(i int) string {
		u := r.Unverified[i]
		return fmt.Sprintf("NOT VERIFIED %s: of %s %s were read before the numbers last moved, %s repeated a path; "+
			"it is read again when it has settled",
			words.Window(u.Key), format.Plural(u.Rows, "row"), format.Commas(u.MovedRows),
			format.Commas(u.RepeatedRows))
	})
	list(len(r.SetAside), func(i int) string {
		s := r.SetAside[i]
		next := "next try " + format.Clock(s.Until, a.Now())
		if schedule.GivenUp(s) {
			next = fmt.Sprintf("not tried again without --from %s --to %s", s.From, s.To)
		}
		return fmt.Sprintf("skipped %s: %s, failed %s, %s: %s", words.Window(s.Key), s.Reason,
			format.Plural(s.Failures, "time"), next, s.Detail)
	})
	aside := map[analytics.Key]bool{}
	for _, s := range r.SetAside {
		aside[s.Key] = true
	}
	for _, one := range r.Refused {
		text.Line(2, "%s", refusedText(words, one, a.Now()))
	}
	for _, e := range r.Early {
		text.Line(2, "%s", earlyText(words, e))
	}
	for _, l := range r.Lacking {
		text.Line(2, "%s", lackingText(words, l, a.Now()))
	}
	n := 0
	for _, w := range r.Waiting {
		if !aside[w.Key] {
			n++
		}
	}
	if n > 0 {
		text.Line(2, "%s known by their totals; their rows are read when they have settled: docgauge plan",
			format.Plural(n, "window"))
	}
	for _, sink := range r.Sinks {
		if n := r.Owed[sink]; n > 0 {
			text.Line(2, "sink %s lacks %s: the next export delivers the windows in the spool, `docgauge verify "+
				"--repair` copies the rest from another sink", sink, format.Plural(n, "window"))
		}
	}
	text.Line(2, "budget: %s", r.Budget)
	run := r.LastRun
	if run == nil {
		text.Line(0, "no run yet")
		return text.Err()
	}
	text.Line(2, "last run: %s at %s, %s, %s", cmp.Or(run.Outcome, "running, or killed"),
		format.Clock(run.Started, a.Now()), format.Plural(run.Windows, "window"),
		format.Plural(run.Requests, "request"))
	if run.Message != "" {
		text.Line(2, "  %s", run.Message)
	}
	return text.Err()
}

// modeLines say how people are counted in the newest window of each project, where the service says it.
func modeLines(w render.Wording, all []view.Grid) (lines []string) {
	newest := map[string]*analytics.Revision{}
	var projects []string
	for _, g := range all {
		if g.Newest == nil || g.Report != analytics.VisitorsReport || g.Newest.Humans == "" {
			continue
		}
		known := newest[g.Project]
		if known == nil {
			projects = append(projects, g.Project)
		}
		if known == nil || g.Newest.To > known.To {
			newest[g.Project] = g.Newest
		}
	}
	for _, id := range projects {
		mode := newest[id].Humans
		who := "all readers that call themselves browsers"
		if mode == analytics.Confirmed {
			who = "those that showed evidence of a browser"
		}
		lines = append(lines, fmt.Sprintf("people%s are counted as %s: %s", w.OfProject(id), mode.Said(), who))
	}
	return lines
}

// shownTroubled is the number of windows of a kind that status lists; --json has all.
const shownTroubled = 5

func (a *Program) rebuild(ctx context.Context) (err error) {
	c, err := a.Config(config.NeedProjects)
	if err != nil {
		return err
	}
	opened, err := app.OpenLedger(c, a.Logger(c), a.Now)
	if errors.Is(err, state.ErrUnusable) {
		if err := a.setAside(c); err != nil {
			return err
		}
		opened, err = app.OpenLedger(c, a.Logger(c), a.Now)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	done, err := coverage.Rebuild(ctx, opened.State, opened.Sinks, opened.InSpool, opened.Log)
	if err != nil {
		return err
	}
	a.Note("%s read back from the sinks", format.Plural(done.Windows, "window"))
	if done.Forgotten > 0 {
		a.Note("%s forgotten that no sink holds any more", format.Plural(done.Forgotten, "window"))
	}
	return nil
}

// setAside puts an unusable database aside, under the export lock.
func (a *Program) setAside(c config.Config) (err error) {
	lock, err := state.LockExport(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	db, err := state.Open(c.StateDir)
	if err == nil {
		return db.Close()
	}
	if !errors.Is(err, state.ErrUnusable) {
		return err
	}
	moved, merr := state.SetAside(c.StateDir, a.Now())
	if merr != nil {
		return errors.Join(err, merr)
	}
	_, err = fmt.Fprintf(a.Err, "docgauge: the former database is now %s\n", moved)
	return err
}
