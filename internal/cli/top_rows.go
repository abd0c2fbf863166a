package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/sinks"
)

// otherReports are the reports that are listed alike, by the value of --by: the noun of a row of the site, or the
// name of the report.
func otherReports() (names []string, by map[string]analytics.Report) {
	by = map[string]analytics.Report{}
	for _, report := range analytics.OtherReports {
		name := report.String()
		if report.Shape().Site {
			name = report.Shape().Noun()
		}
		names, by[name] = append(names, name), report
	}
	return names, by
}

// reportsWithTotals are the other reports that history shows without a name.
func reportsWithTotals() []string {
	names, by := otherReports()
	return slices.DeleteFunc(names, func(name string) bool { return by[name].Shape().Site })
}

// nameFlags adds a flag for a name of each other report that has rows of the site. chosen returns the report whose flag
// was given, and the name.
func nameFlags(cmd *cobra.Command, about string) (chosen func() (analytics.Report, string)) {
	given := map[analytics.Report]*string{}
	names, by := otherReports()
	for _, name := range names {
		if report := by[name]; report.Shape().Site {
			given[report] = cmd.Flags().String(name, "", fmt.Sprintf(about, name))
		}
	}
	return func() (analytics.Report, string) {
		for report, name := range given {
			if *name != "" {
				return report, *name
			}
		}
		return 0, ""
	}
}

func (a *Program) topOther(
	ctx context.Context, o topOptions, report analytics.Report, name string, by bool,
) (err error) {
	ranking := query.RowRanking{Report: report, Name: name, Prefix: o.prefix, N: o.n}
	if by && name != "" {
		ranking.By = o.by
	}
	if ranking, err = ranking.Complete(); err != nil {
		return input.Usagef("--%w", err)
	}
	return topRows(ctx, a, o, report,
		func(from sinks.Sink, q query.Choice) ([]query.RowsReport, error) {
			return query.Rows(ctx, from, q, ranking)
		},
		csvOf(emptyRow(report), query.RowsReport.Table), printRows)
}

// topRows asks the archive for a list of each project, and shows them.
func topRows[R any](
	ctx context.Context, a *Program, o topOptions, report analytics.Report,
	ask func(sinks.Sink, query.Choice) ([]R, error), csv func(io.Writer, []R) error,
	table func(io.Writer, R, render.Wording) error,
) (err error) {
	switch {
	case o.rising || o.falling:
		return input.Usagef("--rising, --falling: want them without %s", report)
	case o.n < 1:
		return input.Usagef("-n %d: want 1 or more", o.n)
	}
	q := query.Choice{Today: analytics.DateOf(a.Now())}
	if q.At, err = input.DateFlag("at", o.at); err != nil {
		return err
	}
	reports := []analytics.Report{report}
	if b := report.Shape().Beside; b != nil {
		reports = append(reports, b.Report)
	}
	from, err := a.openArchive(o.archive, reports...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	q.Selection = from.selection
	answers, err := ask(from, q)
	return show(a.Out, o.archive.print, answers, asUsageError(err), csv,
		func(r R) error { return table(a.Out, r, a.Wording(from.config)) })
}

// printCompared says which window it is, and which one it is compared with.
func printCompared(text *render.Text, r query.RowsReading, previous *query.RowsReading, words render.Wording) {
	var former *analytics.Key
	if previous != nil {
		former = &previous.Key
	}
	state := analytics.Revision{Settled: r.Settled, Verified: r.Verified}.StateText()
	text.Line(2, "%s", words.Compared(r.Key, state, former))
}

func emptyRow(report analytics.Report) query.RankedRow {
	return query.RankedRow{Key: analytics.Key{Report: report}}
}

func printRows(w io.Writer, r query.RowsReport, words render.Wording) error {
	shape, text := r.RowRanking.Report.Shape(), render.NewText(w)
	printCompared(text, r.RowsReading, r.Previous, words)
	if r.Totals != nil {
		var totals []string
		for _, name := range shape.Names(analytics.Count) {
			totals = append(totals, name+" "+format.Commas(r.Totals[name]))
		}
		text.Line(2, "%s of the site: %s.", shape.Name, strings.Join(totals, ", "))
	}
	text.Line(2, "Rows of the report %s: %s.", shape.Name, format.Commas(r.Count))
	text.Line(0, "")
	return errors.Join(text.Err(), rowTable(r).Print(w))
}

// rowTable lists rows; the number they are ranked by comes first.
func rowTable(r query.RowsReport) *render.Table {
	shape := r.RowRanking.Report.Shape()
	columns := []render.Column{render.Number("#")}
	var subjects []int // of the columns of the report
	for i, c := range shape.Columns {
		if c.Kind == analytics.Text && (i == 0) == (!shape.Site || r.Name != "") {
			subjects = append(subjects, i)
			columns = append(columns, render.Column{Name: c.Name, Cut: render.CutMiddle})
		}
	}
	columns = append(columns, render.Number(r.By), render.Number("change"), render.Number("%"))
	counts := shape.Names(analytics.Count)
	for _, name := range counts {
		if name != r.By {
			columns = append(columns, render.Number(name))
		}
	}
	isBeside := slices.ContainsFunc(r.Rows, func(row query.RankedRow) bool { return row.Beside != nil })
	if isBeside {
		columns = append(columns, render.Number(shape.Beside.Name), render.Number(strings.ReplaceAll(shape.Beside.Ratio, "_",
			" ")))
	}
	table := render.NewTable(columns...)
	for _, row := range r.Rows {
		cells := []string{strconv.Itoa(row.Rank)}
		for _, i := range subjects {
			cells = append(cells, fmt.Sprint(shape.Value(row.Row, i)))
		}
		change, percent := changeTexts(row.Change, row.Percent, r.Previous != nil)
		cells = append(cells, format.Known(row.Row.Counts[slices.Index(counts, r.By)]), change, percent)
		for i, name := range counts {
			if name != r.By {
				cells = append(cells, format.Known(row.Row.Counts[i]))
			}
		}
		if isBeside {
			beside, ratio := "-", "-"
			if row.Beside != nil {
				beside = format.Commas(*row.Beside)
			}
			if row.Ratio != nil {
				ratio = strconv.FormatFloat(*row.Ratio, 'f', -1, 64)
			}
			cells = append(cells, beside, ratio)
		}
		table.Add(cells...)
	}
	return table
}

func (a *Program) rowHistory(
	ctx context.Context, from openedArchive, o historyOptions, q query.HistoryOptions, report analytics.Report, name string,
) error {
	all, err := query.RowHistories(ctx, from, report, name, q)
	empty := query.RowHistoryWindow{Key: analytics.Key{Report: report}}
	return show(a.Out, o.archive.print, all, asUsageError(err), csvOf(empty, query.RowHistory.Table),
		func(h query.RowHistory) error { return printRowHistory(a.Out, h, a.Wording(from.config)) })
}

func printRowHistory(w io.Writer, h query.RowHistory, words render.Wording) error {
	shape := h.Report.Shape()
	var subject []string
	for _, c := range shape.Columns {
		if value := h.Row[c.Name]; value != "" {
			subject = append(subject, c.Name+" "+value)
		}
	}
	title := words.Names.Of(h.Project) + ", " + strings.Join(append([]string{shape.Name}, subject...), ", ")
	return printRowWindows(w, h, title, shape.Rank(), words)
}

// printAgentHistory prints the history of a row of agents.
func printAgentHistory(w io.Writer, h query.AgentHistory, words render.Wording) error {
	title := fmt.Sprintf("%s, %s (%s, %s) on %s", words.Names.Of(h.Project), h.Agent, h.Class, h.Audience,
		cmp.Or(h.Path, "the site"))
	return printRowWindows(w, h.Rows, title, string(query.ByReaders), words)
}

// printRowWindows prints the windows of a history below its title; rank names the count of [analytics.Shape.Rank].
func printRowWindows(w io.Writer, h query.RowHistory, title, rank string, words render.Wording) error {
	shape, text := h.Report.Shape(), render.NewText(w)
	if h.Granularity == analytics.Day {
		title += "; changes since a week before"
	}
	text.Line(2, "%s", title)
	text.Line(2, "")
	counts := shape.Names(analytics.Count)
	columns := []render.Column{{Name: string(h.Granularity)}, render.Number(rank), render.Number("change"),
		render.Number("%")}
	for _, name := range counts {
		if name != shape.Rank() {
			columns = append(columns, render.Number(name))
		}
	}
	table := render.NewTable(append(columns, render.Column{Name: "state", Cut: render.CutEnd})...)
	for _, step := range h.Windows {
		number := func(name string) string {
			if step.Counts == nil {
				return "-"
			}
			return format.Known(step.Counts[slices.Index(counts, name)])
		}
		change, percent := changeTexts(step.Change, step.Percent, false)
		cells := []string{words.Days(step.Key), number(shape.Rank()), change, percent}
		for _, name := range counts {
			if name != shape.Rank() {
				cells = append(cells, number(name))
			}
		}
		table.Add(append(cells, windowState(step.State, step.Absent, step.Counts != nil, step.Verified))...)
	}
	return errors.Join(text.Err(), table.Print(w), printNewerMissing(text, h.Granularity, h.NewerMissing))
}
