package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
)

// topOptions are the flags of top.
type topOptions struct {
	archive        archiveOptions
	at, by, prefix string
	n              int
}

func (a *Program) topCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top",
		Short: "show the most read pages, and what changed",
		Long: `top shows the pages that people and AI agents read most in the newest
complete window, or in the one that contains --at (of rolling windows: ends with
it), each with its change since the window before. Below them are the pages that
rose and fell most, appeared and vanished. A page that only one of the two
windows has did not rise or fall.

It reads the Parquet archive, DOCGAUGE_PARQUET_URL or --archive. It sends no
request to the service, needs no state, and can run during an export.

Readers are unique visitors. They cannot be added up, not over pages, not over
days, and a reader can be both human and AI: --prefix picks pages, and has no
total.

--csv has the listed pages, and --json also those that changed. Both are exact:
a path that begins with = + - or @ is not altered, so import it into a
spreadsheet as text.

` + exitCodes,
		Example: `  docgauge top
  docgauge top --window month --by ai -n 50
  docgauge top --by change --prefix /guides/
  docgauge top --project prj_a --at 2026-11-02 --csv >pages.csv`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.top(cmd.Context(), o) },
	}
	o.archive.flags(cmd, string(analytics.Week))
	f := cmd.Flags()
	f.StringVar(&o.at, "at", "", "a `day` of the window, YYYY-MM-DD (default: the newest)")
	f.StringVar(&o.by, "by", string(analytics.Everyone), "`order`: total, human, ai or change")
	f.IntVarP(&o.n, "number", "n", 20, "pages to list")
	f.StringVar(&o.prefix, "prefix", "", "only pages whose `path` begins with this")
	return cmd
}

func (a *Program) top(ctx context.Context, o topOptions) (err error) {
	q := query.TopOptions{Ranking: query.Ranking{By: analytics.Audience(o.by), N: o.n, Prefix: o.prefix}}
	if q.At, err = dateFlag("at", o.at); err != nil {
		return err
	}
	switch by := q.Ranking.By; {
	case o.by == query.ByChange:
		q.Ranking.By, q.Changed = analytics.Everyone, true
	case by != analytics.Everyone && by != analytics.Human && by != analytics.AI:
		return usageError{fmt.Errorf("--by %q: want total, human, ai or change", o.by)}
	}
	if o.n < 1 {
		return usageError{fmt.Errorf("-n %d: want 1 or more", o.n)}
	}
	from, err := a.openArchive(o.archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	q.Selection = from.selection
	pages, err := query.Top(ctx, from, q)
	return show(a.Out, o.archive, pages, asked(err), query.TopReports(pages, q, from.config.ProjectNames), topCSV,
		func(p query.Pages) error { return printTop(a.Out, p, q, a.wording(from.config)) })
}

// shownChanges is how many pages top lists of each kind of change; --json has -n.
const shownChanges = 5

// printTop prints the pages of one project, and what changed.
func printTop(w io.Writer, p query.Pages, q query.TopOptions, words wording) error {
	if err := printPages(w, p, q, words); err != nil || !p.Compared {
		return err
	}
	return changeTable(p, q).Print(w)
}

// printPages prints the pages of one project, and how many changed.
func printPages(w io.Writer, p query.Pages, q query.TopOptions, words wording) error {
	text := render.NewText(w)
	printHeading(text, p, q, words)
	if len(p.First) > 0 {
		text.Line(0, "")
		if err := topTable(p, q.Ranking.By).Print(w); err != nil {
			return err
		}
	}
	if q.Ranking.Prefix != "" {
		text.Line(0, "")
		text.Line(2, "Only paths that begin with %s. Their readers are not added up: someone who reads two of these pages is one reader.", q.Ranking.Prefix)
	}
	if m := p.Movers; p.Compared {
		text.Line(0, "")
		text.Line(2, "Since %s %s rose, %s fell, %s appeared, %s vanished.", words.days(p.Before.Key), format.Plural(m.Rising.Count, "page"),
			format.Commas(m.Falling.Count), format.Commas(m.Appeared.Count), format.Commas(m.Vanished.Count))
	}
	return text.Err()
}

// printHeading says which window it is, and how many readers the site had.
func printHeading(text *render.Text, p query.Pages, q query.TopOptions, words wording) {
	line := func(format string, args ...any) { text.Line(2, format, args...) }
	title := fmt.Sprintf("%s: %s %s, %s", words.names.Of(p.Window.Project), p.Window.Granularity, words.days(p.Window.Key), p.Window.StateText())
	if p.Before != nil {
		title += ", compared with " + words.days(p.Before.Key)
	}
	site := func(a analytics.Audience, noun string) string {
		now := p.Window.Totals.Of(a)
		if p.Before == nil {
			return format.Commas(now) + " " + noun
		}
		return fmt.Sprintf("%s %s (%s)", format.Commas(now), noun, percentChange(p.Before.Totals.Of(a), now))
	}
	line("%s", title)
	line("%s: %s, %s", site(analytics.Everyone, "readers"), site(analytics.Human, "human"), site(analytics.AI, "AI"))
	switch {
	case p.Before == nil:
		line("The archive lacks the %s before it: there is nothing to compare with.", p.Window.Granularity)
	case !p.Compared:
		line("Of %s only the totals are known: the pages cannot be compared.", words.days(p.Before.Key))
	}
	if p.Newer != nil {
		line("Of %s, which is newer, only the totals are known so far.", words.days(p.Newer.Key))
	}
	if p.Movers.Pages == 0 {
		line("No page %swas read.", map[bool]string{true: "with that prefix "}[q.Ranking.Prefix != ""])
	}
}

// topTable lists pages by rank, the audience they are ranked by first.
func topTable(p query.Pages, by analytics.Audience) *render.Table {
	columns := []render.Column{render.Number("#"), {Name: "path", Cut: render.CutMiddle}, render.Number(string(by)), render.Number("change"), render.Number("%")}
	var others []analytics.Audience
	for _, a := range []analytics.Audience{analytics.Everyone, analytics.Human, analytics.AI} {
		if a != by {
			others = append(others, a)
			columns = append(columns, render.Number(string(a)))
		}
	}
	table := render.NewTable(columns...)
	for i, c := range p.First {
		cells := []string{strconv.Itoa(i + 1), c.Path, format.Commas(c.After.Of(by)), "-", "-"}
		switch {
		case !p.Compared:
		case c.Appeared:
			cells[3] = "new"
		default:
			cells[3], cells[4] = signed(c.By(by)), percentChange(c.Before.Of(by), c.After.Of(by))
		}
		for _, a := range others {
			cells = append(cells, format.Commas(c.After.Of(a)))
		}
		table.Add(cells...)
	}
	return table
}

// changeTable lists the pages that changed most. Those that rose and fell are left out
// where the pages are ranked by that.
func changeTable(p query.Pages, q query.TopOptions) *render.Table {
	table := render.NewTable(render.Column{Name: ""}, render.Column{Name: "path", Cut: render.CutMiddle}, render.Number("before"), render.Number(string(q.Ranking.By)), render.Number("change"), render.Number("%"))
	add := func(kind string, r analytics.Ranking) {
		for _, c := range r.First[:min(shownChanges, len(r.First))] {
			before, after, change, percent := format.Commas(c.Before.Of(q.Ranking.By)), format.Commas(c.After.Of(q.Ranking.By)), "-", "-"
			switch {
			case c.Appeared:
				before = "-"
			case c.Vanished:
				after = "-"
			default:
				change, percent = signed(c.By(q.Ranking.By)), percentChange(c.Before.Of(q.Ranking.By), c.After.Of(q.Ranking.By))
			}
			table.Add(kind, c.Path, before, after, change, percent)
		}
	}
	if !q.Changed {
		add("rising", p.Movers.Rising)
		add("falling", p.Movers.Falling)
	}
	add("appeared", p.Movers.Appeared)
	add("vanished", p.Movers.Vanished)
	return table
}

func topCSV(w io.Writer, all []query.TopReport) error {
	rows := [][]string{{"project", "granularity", "from", "to", "rank", "path", "human", "ai", "total", "previous_human", "previous_ai", "previous_total", "change", "change_percent"}}
	for _, r := range all {
		for _, p := range r.Pages {
			row := []string{r.Project, string(r.Granularity), r.From.String(), r.To.String(), strconv.Itoa(p.Rank), p.Path}
			row = append(append(row, countCells(p.Visitors)...), countCells(p.Previous)...)
			rows = append(rows, append(row, changeCells(p.Change, p.Percent)...))
		}
	}
	return render.CSV(w, rows)
}
