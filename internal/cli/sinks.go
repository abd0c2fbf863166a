package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/sinks"
)

func (a *Program) sinksCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sinks",
		Short: "look after the sinks",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.gcCommand())
	return cmd
}

func (a *Program) gcCommand() *cobra.Command {
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "delete superseded readings from ClickHouse and Delta Lake",
		Long: `gc deletes what no reader sees any more, of readings that a later one took the
place of, and of attempts that were never committed: rows of ClickHouse after 24
hours, longer than any query runs; data files of Delta Lake after 7 days, for
which older versions of the tables can be read, and log entries after 30 days if
a checkpoint has what they said. What readers see is never touched. docgauge
export does the same once a day.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.gc(cmd.Context(), dryRun, asJSON) },
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only list what would be deleted")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return cmd
}

func (a *Program) gc(ctx context.Context, dryRun, asJSON bool) (err error) {
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	stores, err := app.NewSinks(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, app.CloseSinks(stores)) }()
	found := []collected{}
	var failed []error
	for _, s := range stores {
		some, err := sinks.Collect(ctx, s, dryRun)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s sink: %w", s.Name(), err))
		}
		for _, one := range some {
			found = append(found, collected{s.Name(), one})
		}
	}
	err = a.Print(asJSON, found, func() error { return a.printCollected(found, a.Wording(c), dryRun) })
	return errors.Join(append(failed, err)...)
}

// collected lists the files that one sink has deleted; its JSON keys are stable.
type collected struct {
	Sink string `json:"sink"`
	sinks.Superseded
}

func (a *Program) printCollected(found []collected, w render.Wording, dryRun bool) error {
	verb, n := "deleted", uint64(0)
	if dryRun {
		verb = "would delete"
	}
	for _, f := range found {
		w.Several = w.Several || f.Project != found[0].Project
	}
	table := render.NewTable(render.Column{Name: "sink"}, render.ProjectColumn(), render.Column{Name: "window"},
		render.Column{Name: "days"}, render.Number("rows"), render.Column{Name: "superseded"})
	for _, f := range found {
		table.Add(f.Sink, w.Project(f.Project), render.Granularity(f.Report, f.Granularity), w.Days(f.Key),
			format.Commas(int64(f.Rows)), format.Time(f.Since))
		n += f.Rows
	}
	if len(found) > 0 && (dryRun || render.IsTerminal(a.Out)) {
		if err := table.Print(a.Out); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(a.Out, "%s %s, %s rows\n", verb, format.Plural(len(found), "superseded attempt"),
		format.Commas(int64(n)))
	return err
}
