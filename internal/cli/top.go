package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
)

type topOptions struct {
	archive        archiveOptions
	at, by, prefix string
	agent          string
	misses         bool
	n              int
	rising         bool
	falling        bool
}

func (a *Program) topCommand() *cobra.Command {
	var o topOptions
	var name func() (analytics.Report, string)
	cmd := &cobra.Command{
		Use:   "top",
		Short: "show the most read pages, and what changed",
		Long: `top shows the pages that people and AI agents read most in the newest complete
window, or in the one that contains --at (of rolling windows: ends with it).
Each has its change since the window before; of a day, since the same weekday of
the week before. Below them are the pages that rose and fell most, appeared and
vanished. A page that only one of the two windows has did not rise or fall.
--rising and --falling list those pages alone, by the readers that --by counts.

--by agent lists the agents that read the site, --agent the pages that one of
them read, and --misses the paths that agents asked for and that are not there,
with the most similar pages. They need windows of the report agents, which
exports read from docgauge site if DOCGAUGE_REPORTS has agents. People are
the agents browser and unconfirmed. With --agent and --misses, --by is readers,
requests, markdown or bytes.

--by source lists where people came from, --source the pages that one source
brought them to, beside the requests by the agents of its operator; --by views
the pages that were requested most often, of a day, and views per reader. They
need windows of the reports sources and views. Views can be added up.

It reads the Parquet archive, DOCGAUGE_PARQUET_URL or --archive. It sends no
request to the service, needs no state, and can run during an export.

Readers are unique visitors. They cannot be added up, not over pages, not over
days, and a reader can be both human and AI: --prefix picks pages, and has no
total.

--csv has all pages, and --json also those that changed; -n shortens both. Both
are exact: a path that begins with = + - or @ is not altered, so import it into
a spreadsheet as text.

` + console.ReadingExitCodes,
		Example: `  docgauge top
  docgauge top --window month --by ai -n 50
  docgauge top --by change --prefix /guides/
  docgauge top --falling --by ai -n 50
  docgauge top --by agent
  docgauge top --agent Claude-User --prefix /guides/
  docgauge top --misses --window month
  docgauge top --by source
  docgauge top --by views --at 2026-11-02
  docgauge top --project prj_a --at 2026-11-02 --csv >pages.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (o.archive.print.CSV || o.archive.print.JSON) && !cmd.Flags().Changed("number") {
				o.n = math.MaxInt
			}
			report, name := name()
			if o.by == byAgent || o.agent != "" || o.misses {
				if name != "" {
					return input.Usagef("--%s: want it without --by agent, --agent and --misses", report.Shape().Noun())
				}
				return a.topAgents(cmd.Context(), o, cmd.Flags().Changed("by"))
			}
			if name != "" {
				return a.topOther(cmd.Context(), o, report, name, cmd.Flags().Changed("by"))
			}
			if _, by := otherReports(); by[o.by] != 0 {
				if !cmd.Flags().Changed("window") {
					o.archive.window = string(by[o.by].UsualWindow(analytics.Week))
				}
				return a.topOther(cmd.Context(), o, by[o.by], "", false)
			}
			return a.top(cmd.Context(), o)
		},
	}
	others, _ := otherReports()
	o.archive.flags(cmd, string(analytics.Week))
	f := cmd.Flags()
	f.StringVar(&o.at, "at", "", "a `day` of the window, YYYY-MM-DD (default: the newest)")
	f.StringVar(&o.by, "by", string(analytics.Everyone), "`order`: total, human, ai or change; or "+
		strings.Join(append([]string{byAgent}, others...), ", "))
	name = nameFlags(cmd, "pages of the `%s`, as --by has it")
	f.StringVar(&o.agent, "agent", "", "pages of the agent of this `name`, as --by agent has it")
	f.BoolVar(&o.misses, "misses", false, "paths that agents asked for and that are not there")
	f.IntVarP(&o.n, "number", "n", 20, "pages to list; --csv and --json: all")
	f.BoolVar(&o.rising, "rising", false, "only pages that rose, the most first")
	f.BoolVar(&o.falling, "falling", false, "only pages that fell, the most first")
	f.StringVar(&o.prefix, "prefix", "", "only pages whose `path` begins with this")
	return cmd
}

func (a *Program) top(ctx context.Context, o topOptions) (err error) {
	q := query.Choice{Today: analytics.DateOf(a.Now())}
	by := query.Ranking{By: analytics.Audience(o.by), N: o.n, Prefix: o.prefix}
	switch {
	case o.rising && o.falling:
		return input.Usage(errors.New("--rising, --falling: want one of the two"))
	case o.rising:
		by.List = query.Rising
	case o.falling:
		by.List = query.Falling
	}
	if q.At, err = input.DateFlag("at", o.at); err != nil {
		return err
	}
	if err := by.Check(); err != nil {
		return input.Usagef("--%w", err)
	}
	if o.n < 1 {
		return input.Usagef("-n %d: want 1 or more", o.n)
	}
	from, err := a.openArchive(o.archive, analytics.AgentsReport)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	q.Selection = from.selection
	reports, err := query.Top(ctx, from, q, by)
	return show(a.Out, o.archive.print, reports, asUsageError(err), csvOf(query.PageRow{}, query.TopReport.Table),
		func(r query.TopReport) error {
			if err := printPages(a.Out, r, a.Wording(from.config)); err != nil || r.Changes == nil ||
				r.List != query.MostRead {
				return err
			}
			return changeTable(r).Print(a.Out)
		})
}

// shownChanges is the number of pages that top lists of each kind of change; --json has -n.
const shownChanges = 5

// printPages prints the pages of one project, and how many changed.
func printPages(w io.Writer, r query.TopReport, words render.Wording) error {
	text := render.NewText(w)
	printHeading(text, r, words)
	if len(r.Pages) > 0 {
		text.Line(0, "")
		if err := topTable(r).Print(w); err != nil {
			return err
		}
	}
	if r.Prefix != "" {
		text.Line(0, "")
		text.Line(2, "Only paths that begin with %s. Their readers are not added up: "+
			"someone who reads two of these pages is one reader.", r.Prefix)
	}
	if c := r.Changes; c != nil {
		text.Line(0, "")
		readers := map[analytics.Audience]string{analytics.Human: ", by human readers,",
			analytics.AI: ", by AI readers,"}
		text.Line(2, "Since %s%s %s rose, %s fell, %s appeared, %s vanished.", words.Days(r.Previous.Key),
			readers[r.Audience()],
			format.Plural(c.Rising.Count, "page"), format.Commas(c.Falling.Count), format.Commas(c.Appeared.Count),
			format.Commas(c.Vanished.Count))
	}
	return text.Err()
}

// printHeading says which window it is, and how many readers the site had.
func printHeading(text *render.Text, r query.TopReport, words render.Wording) {
	line := func(format string, args ...any) { text.Line(2, format, args...) }
	var former *analytics.Key
	if r.Previous != nil {
		former = &r.Previous.Key
	}
	site := func(a analytics.Audience, noun string) string {
		now := r.Totals.Of(a)
		if r.Previous == nil {
			return format.Commas(now) + " " + noun
		}
		return fmt.Sprintf("%s %s (%s)", format.Commas(now), noun,
			render.Percent(query.Percent(r.Previous.Totals.Of(a), now)))
	}
	line("%s", words.Compared(r.Key, r.StateText(), former))
	line("%s: %s, %s", site(analytics.Everyone, "readers"), site(analytics.Human, "human"), site(analytics.AI, "AI"))
	if r.People != nil {
		line("%s", r.People)
	}
	switch {
	case r.HumansBefore != nil:
		line("%s", words.OtherMode(r.Key, *r.HumansBefore))
	case r.Previous == nil:
		line("%s", words.NothingToCompare(r.Key))
	case r.Changes == nil:
		line("Of %s only the totals are known: the pages cannot be compared.", words.Days(r.Previous.Key))
	}
	if r.Newer != nil {
		line("Of %s, which is newer, only the totals are known so far.", words.Days(r.Newer.Key))
	}
	if r.Count == 0 {
		line("No page %swas read.", map[bool]string{true: "with that prefix "}[r.Prefix != ""])
	}
}

// topTable lists pages by rank, the audience they are ranked by first.
func topTable(r query.TopReport) *render.Table {
	by := r.Audience()
	columns := []render.Column{
		render.Number("#"), {Name: "path", Cut: render.CutMiddle}, render.Number(string(by)),
		render.Number("change"), render.Number("%"),
	}
	var others []analytics.Audience
	for _, a := range []analytics.Audience{analytics.Everyone, analytics.Human, analytics.AI} {
		if a != by {
			others = append(others, a)
			columns = append(columns, render.Number(string(a)))
		}
	}
	for _, c := range r.Totals.More() {
		columns = append(columns, render.Number(c.Name))
	}
	table := render.NewTable(columns...)
	for _, p := range r.Pages {
		change, percent := changeTexts(p.Change, p.Percent, r.Changes != nil && p.Previous == nil)
		cells := []string{strconv.Itoa(p.Rank), format.Path(p.Path), format.Commas(p.Visitors.Of(by)), change, percent}
		for _, a := range others {
			cells = append(cells, format.Commas(p.Visitors.Of(a)))
		}
		for _, c := range p.Visitors.More() {
			cells = append(cells, format.Commas(c.Value))
		}
		table.Add(cells...)
	}
	return table
}

// changeTexts are the change of a row and its percentage; - where they are not known.
func changeTexts(by *int64, percent *float64, isNew bool) (change, share string) {
	switch {
	case by != nil:
		change = render.Signed(*by)
	case isNew:
		change = "new"
	default:
		change = "-"
	}
	return change, render.Percent(percent)
}

// changeTable lists the pages that changed most. Those that rose and fell are left out
// where the pages are ranked by that.
func changeTable(r query.TopReport) *render.Table {
	by := r.Audience()
	table := render.NewTable(render.Column{Name: ""}, render.Column{Name: "path", Cut: render.CutMiddle},
		render.Number("before"), render.Number(string(by)), render.Number("change"), render.Number("%"))
	count := func(t *analytics.Totals) string {
		if t == nil {
			return "-"
		}
		return format.Commas(t.Of(by))
	}
	add := func(kind string, list query.PageList) {
		for _, p := range list.Pages[:min(shownChanges, len(list.Pages))] {
			change, percent := changeTexts(p.Change, p.Percent, false)
			table.Add(kind, format.Path(p.Path), count(p.Previous), count(p.Visitors), change, percent)
		}
	}
	if r.By != query.ByChange {
		add("rising", r.Changes.Rising)
		add("falling", r.Changes.Falling)
	}
	add("appeared", r.Changes.Appeared)
	add("vanished", r.Changes.Vanished)
	return table
}
