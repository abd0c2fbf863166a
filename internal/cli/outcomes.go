package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/outcomes"
	"github.com/docgauge/docgauge/internal/view"
)

type outcomesOptions struct {
	project string
	print   input.Formats
}

func (a *Program) outcomesCommand() *cobra.Command {
	var o outcomesOptions
	cmd := &cobra.Command{
		Use:   "outcomes",
		Short: "compare the readers before and after each merge",
		Long: `outcomes shows, for each merged pull request of an agent job, whether the pages
that it touched have more or fewer readers since, people and AI apart.

"effect" compares the mean of daily visitors after the merge ("after") with the
mean without it ("expected"), estimated from pages that no merged agent pull
request touched: on a growing site every page grows, which is not an effect. Of
ten such intervals, nine have the true change: read the interval, not the
effect. "no clear change" does not mean that nothing happened, only that the
data are inconclusive. "too early" means that the 28 days after the merge are
not all in: the numbers still move. "not enough data" names the missing data.

Redirects that docgauge redirects saw in a file come next: how often the path
was missed before and after, and the readers of the page to which it leads.

The lines at the end count the verdicts of each project. Some are clear by
chance: compare them with "expected by chance". Clear changes overstate; the
mean change does not.

It needs day windows: 14 before the merge, 28 after it, and 3 visitors a day; 56
before it correct the change for how the page moved before. The pages are the
changed files, or those that the prompt names (pages: in its front matter).
docs/outcomes.md explains the numbers, docs/dev/outcomes-method.md the method.

It reads the state and the Parquet archive, or another sink of DOCGAUGE_SINKS if
there is none. It sends no request, changes nothing, and can run beside serve.

` + console.ReadingExitCodes,
		Example: `  docgauge outcomes
  docgauge outcomes --project prj_a
  docgauge outcomes --json   summaries, and outcomes with each day for a chart
  docgauge outcomes --csv >outcomes.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.outcomes(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.project, "project", "", "comma-separated `ids` (default: all)")
	o.print.Flags(f, "print JSON, with the days of each effect", input.PlainCSV)
	return cmd
}

func (a *Program) outcomes(ctx context.Context, o outcomesOptions) (err error) {
	if err := o.print.Check(); err != nil {
		return err
	}
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	all, err := a.readOutcomes(ctx, c, o.project)
	if all.Merges == nil {
		return err
	}
	return errors.Join(o.print.Write(a.Out, all, func() error { return outcomesCSV(a.Out, all.Merges) },
		func() error { return printOutcomes(a.Out, all, a.Wording(c), a.Now()) }), err)
}

// readOutcomes reads the outcomes of the projects that are named, or of all.
func (a *Program) readOutcomes(ctx context.Context, c config.Config, projects string) (all view.Outcomes, err error) {
	opened, err := app.OpenReading(c, a.Logger(c), a.Now)
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	var selected outcomes.Selection
	if selected.Projects, err = coverage.JobProjects(ctx, c, opened.State, projects); err != nil {
		return all, err
	}
	return outcomes.Estimate(ctx, opened.State, opened.Archive(), selected)
}

func printOutcomes(w io.Writer, all view.Outcomes, words render.Wording, now time.Time) error {
	text := render.NewText(w)
	if len(all.Merges)+len(all.Redirects) == 0 {
		text.Line(0, "No pull request of an agent job was merged yet; docgauge jobs list shows where they stand.")
		return text.Err()
	}
	projects := map[string]bool{}
	for _, o := range all.Merges {
		projects[o.Project] = true
	}
	for _, r := range all.Redirects {
		projects[r.Project] = true
	}
	several := len(projects) > 1
	for _, o := range all.Merges {
		text.Line(2, "%s", outcomeTitle(o, several, words, now))
		text.Line(2, "  %s", o.Link)
		if cost := o.Cost.Text(); cost != "" {
			text.Line(2, "  cost %s", cost)
		}
		if o.Problem != "" {
			text.Line(2, "  %s", o.Problem)
		}
		if len(o.Effects) > 0 {
			if err := outcomeTable(o.Effects).Print(w); err != nil {
				return err
			}
		}
		text.Line(0, "")
	}
	for _, r := range all.Redirects {
		from := r.Path
		if several {
			from = words.Names.Of(r.Project) + ": " + from
		}
		text.Line(2, "%s -> %s, redirected since %s%s", from, r.Target, format.DateSpan(r.Since, r.Since, now.UTC().Year()),
			r.Wait())
		text.Line(2, "  %s", r.MissedText())
		if err := outcomeTable(r.Effects).Print(w); err != nil {
			return err
		}
		text.Line(0, "")
	}
	var names func(string) string
	if several {
		names = words.Names.Of
	}
	for _, sentence := range all.Sentences(names) {
		text.Line(0, "%s", render.ASCII.Replace(sentence))
	}
	if len(all.Summaries) > 0 {
		text.Line(0, "")
	}
	text.Line(0, "%s", all.Caution())
	return text.Err()
}

func outcomeTitle(o view.Outcome, several bool, words render.Wording, now time.Time) string {
	title := o.Title
	if several {
		title = words.Names.Of(o.Project) + ": " + title
	}
	if o.At.IsZero() {
		return title
	}
	return title + ", merged " + format.DateSpan(o.At.UTC(), o.At.UTC(), now.UTC().Year()) + o.Wait()
}

func outcomeTable(effects []view.Effect) *render.Table {
	table := render.NewTable(render.Column{Name: "page", Cut: render.CutMiddle}, render.Column{Name: "readers"},
		render.Column{Name: "before", Right: true, Spare: true}, render.Number("after"), render.Number("expected"),
		render.Number("effect"), render.Number("90% interval"), render.Column{Name: "verdict"},
		render.Column{Name: "", Below: true, Optional: true})
	for _, e := range effects {
		cells := []string{
			e.Path, e.Readers(), e.BeforeText(), e.Visitors(e.Actual), e.Visitors(e.Expected), e.ChangeText(),
			e.Interval(), string(e.Verdict), e.Reason,
		}
		for i := range cells[1:8] {
			cells[1+i] = render.ASCII.Replace(cells[1+i])
		}
		table.Add(cells...)
	}
	return table
}

func outcomesCSV(w io.Writer, all []view.Outcome) error {
	rows := [][]string{{
		"project", "pr_link", "merged_at", "problem", "path", "audience", "verdict", "reason", "method",
		"days_before", "days_after",
		"before", "after", "expected", "change", "low", "high", "p", "placebos", "corrected", "final",
		"merge_cost", "merge_cost_unit", "merge_cost_basis",
	}}
	for _, o := range all {
		merged := ""
		if !o.At.IsZero() {
			merged = o.At.UTC().Format(time.RFC3339)
		}
		head := []string{o.Project, o.Link, merged, o.Problem}
		amount, unit, basis := o.Cost.One()
		cost := []string{"", unit, basis} // of the merge, in each of its rows
		if amount != nil {
			cost[0] = strconv.FormatFloat(*amount, 'f', -1, 64)
		}
		if len(o.Effects) == 0 {
			empty := make([]string, len(rows[0])-len(head)-len(cost))
			rows = append(rows, slices.Concat(head, empty, cost))
		}
		for _, e := range o.Effects {
			rows = append(rows, slices.Concat(head, effectCells(e, o.Final), cost))
		}
	}
	return render.CSV(w, rows)
}

// effectCells are the cells of an effect; unknown values are empty.
func effectCells(e view.Effect, final bool) []string {
	cells := []string{e.Path, string(e.Audience), string(e.Verdict), e.Reason, string(e.Method),
		strconv.Itoa(e.DaysBefore), strconv.Itoa(e.DaysAfter)}
	numbers := []float64{e.Before, e.Actual, e.Expected, e.Change, e.Low, e.High, e.P}
	for i, n := range numbers {
		cell := ""
		if e.Verdict != view.NotEnoughData || i == 0 && n > 0 {
			cell = strconv.FormatFloat(n, 'f', 4, 64)
		}
		cells = append(cells, cell)
	}
	return append(cells, strconv.Itoa(e.Placebos), strconv.FormatBool(e.Corrected), strconv.FormatBool(final))
}
