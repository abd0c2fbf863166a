package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/events"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/state"
)

func (a *Program) exportCommand() *cobra.Command {
	var o export.Options
	var dry, asJSON bool
	cmd := &cobra.Command{
		Use:   "export",
		Short: "read the windows that are due, and write them to the sinks",
		Long: `export is one batch run: it plans, reads due windows within the request budget,
commits each whole window to every sink, and exits. Run it every hour from cron:
whatever does not fit in this hour's budget is read by the next runs, newest
first.

A run that is killed at any moment loses nothing: the next one continues with
the pages that were read and delivers the windows that were sealed.

With --from and --to exactly the windows inside [from,to) are read, again if
they were read before, and nothing else. Where the budget ends this, the same
command continues it, until each of them was read since the first run; it then
says so and sends nothing. --again starts over.

` + console.ExitCodes,
		Example: `  docgauge export           windows that are due, as far as the budget goes
  docgauge export --wait    continue across budget pauses until nothing is due
  docgauge export --from 2026-10-01 --to 2026-11-01  read October again
  docgauge export --windows day --project prj_a`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dry {
				return a.plan(cmd.Context(), o.Selection, planOptions{json: asJSON})
			}
			c, err := a.Config(config.NeedProjects | config.NeedAPI)
			if err != nil {
				return err
			}
			c = a.terminalLevel(c)
			if err := a.export(cmd.Context(), c, o, asJSON); err != nil || asJSON {
				return err
			}
			return a.printCoverage(cmd.Context(), c)
		},
	}
	input.SelectionFlags(cmd, &o.Selection, true)
	cmd.Flags().BoolVar(&o.Wait, "wait", false, "continue across budget pauses until nothing is due")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "the same as docgauge plan: send nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the summary as JSON")
	return cmd
}

func (a *Program) export(ctx context.Context, c config.Config, o export.Options, asJSON bool) (err error) {
	// Wrong flags are found before anything is opened.
	if err := o.Selection.Check(c, a.Now()); err != nil {
		return err
	}
	var s export.Summary
	log := a.Logger(c)
	defer func() {
		// A run that was interrupted, or that another process does, is neither a success nor a failure.
		if s.Outcome == export.Interrupted || errors.Is(err, state.ErrLocked) {
			return
		}
		if failed := events.Ping(ctx, c, err == nil); failed != nil {
			log.Warn("monitor not pinged", "error", failed)
		}
	}()
	opened, err := app.OpenExport(c, log, a.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	watcher, err := events.Open(ctx, opened, time.Time{})
	if err != nil {
		return err
	}
	r := export.New(opened, opened.SnapshotReader().Read, a.Progress, a.observe)
	s, err = r.Run(ctx, o)
	s.AddErrors(err, r.Follow(ctx, s))
	watcher.Report(ctx)
	problems := a.Err
	if a.SpeaksJSON() {
		export.LogProblems(log, s)
		problems = io.Discard
	}
	err = a.Print(asJSON, s, func() error { return printSummary(a.Out, problems, s) })
	if err == nil && (!s.Good() || len(s.Errors) > 0) {
		return render.ErrReported
	}
	return err
}

// terminalLevel is the log level of an export: a terminal shows a bar and a summary instead
// of a line for each window, and one short line for each request that is tried again.
func (a *Program) terminalLevel(c config.Config) config.Config {
	a.Terminal = render.IsTerminal(a.Err)
	if c.LogLevel == slog.LevelInfo && a.Terminal {
		c.LogLevel = slog.LevelWarn
	}
	return c
}

func (a *Program) printCoverage(ctx context.Context, c config.Config) (err error) {
	if !render.IsTerminal(a.Out) {
		return nil
	}
	db, err := state.OpenExisting(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	r, err := coverage.NewStatus(ctx, db, c, coverage.Selection{}, a.Now())
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Out)
	return coverageTable(a.Wording(c), r.Coverage).Print(a.Out)
}

func printSummary(out, log io.Writer, s export.Summary) error {
	wrong := render.NewText(log)
	for _, text := range s.Errors {
		wrong.Line(2, "docgauge: %s", text)
	}
	for _, text := range s.Warnings {
		wrong.Line(2, "docgauge: skipped: %s", text)
	}
	text := render.NewText(out)
	done := fmt.Sprintf("%s: %s, %s rows, %s in %.1f s", s.Outcome, format.Plural(s.Committed, "window"),
		format.Commas(s.Rows), format.Plural(s.Requests, "request"), s.Took.Seconds())
	if s.Open > 0 && s.Requests == s.Open {
		done += "; of " + format.Plural(s.Open, "running window")
	}
	text.Line(2, "%s", done)
	if s.Recovered > 0 {
		text.Line(2, "delivered %s that an earlier run had read", format.Plural(s.Recovered, "window"))
	}
	if s.Waiting > 0 {
		text.Line(2, "%s in the spool: a sink is down; the next run delivers first, without a request",
			format.Plural(s.Waiting, "window"))
	}
	if s.Drifted > 0 {
		text.Line(2, "%s started over because the numbers changed", format.Plural(s.Drifted, "reading"))
	}
	if s.Unverified > 0 {
		text.Line(2, "NOT VERIFIED: %s; %s were read before the numbers last moved, %s repeated a path",
			format.Plural(s.Unverified, "window"), format.Plural(s.MovedRows, "row"),
			format.Plural(s.RepeatedRows, "row"))
	}
	if s.Suspect > 0 {
		text.Line(2, "SUSPECT: %s whose pages add up to fewer visitors than the site has; the log names them",
			format.Plural(s.Suspect, "window"))
	}
	for _, project := range s.SameNumbers {
		text.Line(2, "SUSPECT: all windows of %s that were read have the same totals, whatever their length: does the "+
			"service, or a cache in front of it, ignore the dates? docgauge check tries it", project)
	}
	for _, c := range s.OtherModes {
		text.Line(2, "people of %s are counted as %s now, as %s before: windows of the two modes are not compared",
			c.Project, c.Now.Said(), c.Before.Said())
	}
	if s.SetAside > 0 {
		text.Line(2, "skipped: %s with invalid responses; `docgauge status` lists them",
			format.Plural(s.SetAside, "window"))
	}
	if s.StillAside > 0 {
		text.Line(2, "still skipped: %s that failed in earlier runs; `docgauge status` says why and until when",
			format.Plural(s.StillAside, "window"))
	}
	if s.Early > 0 {
		text.Line(2, "not exported: %s from before the service has data; `docgauge plan` says since when it has",
			format.Plural(s.Early, "window"))
	}
	if s.Throttled > 0 {
		text.Line(2, "the service throttled %s although our budget had room: something else uses the same quota, or "+
			"DOCGAUGE_BUDGET is above it", format.Plural(s.Throttled, "request"))
	}
	if s.Named != nil && s.Outcome != export.Failed {
		text.Line(2, "%s", namedReading(*s.Named))
	}
	if s.Left > 0 {
		text.Line(2, "%s left (about %s): %s", format.Plural(s.Left, "window"),
			format.Plural(s.LeftRequests, "request"), whenLeft(s))
	}
	return text.Err()
}

// whenLeft says when the windows that a run left can be read.
func whenLeft(s export.Summary) string {
	switch {
	case s.Outcome == export.Interrupted:
		return "interrupted, the next run continues"
	case s.KeyRefused:
		return "every run fails until the key is changed; docgauge check tries it"
	case !s.BudgetSpent:
		return "the next run tries again"
	}
	resume, finish := format.Clock(s.Resume, s.Ended), format.Clock(s.Finish, s.Ended)
	text := "run again after " + resume + ", or use --wait"
	if finish != resume {
		text += "; the budget lets the rest be done by " + finish
	}
	return text
}
