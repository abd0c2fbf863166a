package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/sinks"
)

const (
	// collectDuty is the name of the daily collection in the state.
	collectDuty = "collect"
	// collectEvery is how often an export collects.
	collectEvery = 24 * time.Hour
	// collectTimeout bounds it: the server deletes in the background.
	collectTimeout = 5 * time.Minute
)

func (a *Program) sinksCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sinks",
		Short: "look after the sinks",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.gcCommand())
	return cmd
}

func (a *Program) gcCommand() *cobra.Command {
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "delete rows of superseded readings from ClickHouse",
		Long: `gc deletes rows that no view of ClickHouse shows any more: of readings that a later
one took the place of, and of attempts that were never committed. It leaves them
for 24 hours, longer than any query runs. What a view shows is never touched.
docgauge export does the same once a day.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.gc(cmd.Context(), dryRun, asJSON) },
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only list what would be deleted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return cmd
}

func (a *Program) gc(ctx context.Context, dryRun, asJSON bool) (err error) {
	c, err := loadConfig(needNothing, a.now())
	if err != nil {
		return err
	}
	stores, err := newSinks(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStores(stores)) }()
	found := []sinks.Superseded{}
	for _, s := range stores {
		some, err := s.Collect(ctx, dryRun)
		if err != nil {
			return fmt.Errorf("%s sink: %w", s.Name(), err)
		}
		found = append(found, some...)
	}
	if asJSON {
		return writeJSON(a.Out, found)
	}
	return a.printCollected(found, dryRun)
}

func (a *Program) printCollected(found []sinks.Superseded, dryRun bool) error {
	verb, n := "deleted", uint64(0)
	if dryRun {
		verb = "would delete"
	}
	var rows [][]string
	for _, f := range found {
		rows = append(rows, []string{f.Project, string(f.Granularity), f.Window.String(), commas(int64(f.Rows)), clock(f.Since)})
		n += f.Rows
	}
	if len(rows) > 0 && (dryRun || isTerminal(a.Out)) {
		if err := table(a.Out, []string{"project", "window", "dates", "rows", "superseded"}, rows, 3); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.Out, "%s %s, %s rows\n", verb, plural(len(found), "superseded attempt"), commas(int64(n)))
	return err
}

// collect deletes superseded rows once a day. That it cannot is no failure of
// the export: the rows are invisible.
func (r *runner) collect(ctx context.Context) error {
	last, err := r.db.LastDone(ctx, collectDuty)
	if err != nil {
		return err
	}
	// A time in the future is that of a clock that was wrong.
	if age := r.now().Sub(last); age >= 0 && age < collectEvery {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	for _, s := range r.stores {
		found, err := s.Collect(within, false)
		if ctx.Err() != nil {
			return nil // a stop: the next run collects
		}
		if len(found) > 0 {
			r.log.Info("superseded rows collected", "sink", s.Name(), "attempts", len(found))
		}
		if err != nil {
			r.log.Warn("superseded rows not collected", "sink", s.Name(), "error", err)
		}
		if err != nil && within.Err() == nil {
			return nil // the next run tries again
		}
	}
	// What took too long has its turn tomorrow, not with each run.
	return r.db.SetDone(ctx, collectDuty, r.now())
}
