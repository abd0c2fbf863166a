package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
)

type historyOptions struct {
	archive archiveOptions
	page    *string
	agent   string
	by      string
	since   string
	last    int
}

func (a *Program) historyCommand() *cobra.Command {
	var o historyOptions
	var page string
	var name func() (analytics.Report, string)
	cmd := &cobra.Command{
		Use:   "history",
		Short: "show the readers of the site, or of a page, window by window",
		Long: `history shows a row for each of the last windows, the newest last: how many
readers the site had, or the page --page, the change since the window before,
and the share of AI agents. A day is compared with the same weekday of the week
before. A window that the archive lacks is missing; a page without a row in a
window is absent, which is not the same as 0. Neither has numbers. Below the
table are the totals so far of the running window (DOCGAUGE_OPEN_WINDOWS).

--agent shows the readers and the requests of one agent, on the site or on
--page, from windows of the report agents, which exports read if
DOCGAUGE_REPORTS has agents. Where an operator fetches pages for an agent,
its readers are the few addresses it fetches from: compare requests too.
--source shows the people whom one source brought (report sources), and
--by views the requests for pages of the site, or of --page (report views).

It reads the Parquet archive, DOCGAUGE_PARQUET_URL or --archive. It sends no
request to the service, needs no state, and can run during an export.

Readers are unique visitors of one window. The windows cannot be added up:
someone who comes on two days is one reader of the week. Views, which are
requests, can be.

` + console.ReadingExitCodes,
		Example: `  docgauge history
  docgauge history --window week --page /quickstart
  docgauge history --window week --agent Claude-User
  docgauge history --source chatgpt --page /quickstart
  docgauge history --by views
  docgauge history --window month --since 2026-01-01
  docgauge history --last 365 --csv >days.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.since != "" && cmd.Flags().Changed("last") {
				return input.Usage(errors.New("--since, --last: want one of the two"))
			}
			if cmd.Flags().Changed("page") {
				o.page = &page
			}
			report, name := name()
			return a.history(cmd.Context(), o, report, name)
		},
	}
	o.archive.flags(cmd, string(analytics.Day))
	f := cmd.Flags()
	f.StringVar(&page, "page", "", "`path` of a page, as top has it (default: the site)")
	f.StringVar(&o.agent, "agent", "", "`name` of an agent, as top --by agent has it")
	name = nameFlags(cmd, "`name` of a %s, as top --by has it")
	f.StringVar(&o.by, "by", "", "`report` other than visitors: "+strings.Join(reportsWithTotals(), ", "))
	f.IntVar(&o.last, "last", 30, "how many windows to show")
	f.StringVar(&o.since, "since", "", "the windows from this `day` on, YYYY-MM-DD")
	return cmd
}

func (a *Program) history(ctx context.Context, o historyOptions, report analytics.Report, name string) (err error) {
	switch {
	case o.last < 1:
		return input.Usagef("--last %d: want 1 or more", o.last)
	case o.agent != "" && (name != "" || o.by != ""), name != "" && o.by != "":
		return input.Usagef("--agent, --source, --by: want one of the three")
	}
	if _, by := otherReports(); o.by != "" {
		if report = by[o.by]; report == 0 || report.Shape().Site {
			return input.Usagef("--by %.40q: want a report with totals, or the flag of a name", o.by)
		}
	}
	var reports []analytics.Report
	if reports = []analytics.Report{analytics.AgentsReport}; report != 0 || o.agent != "" {
		reports = analytics.Reports
	}
	from, err := a.openArchive(o.archive, reports...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	q := query.HistoryOptions{Selection: from.selection, Page: o.page, Last: o.last, Today: analytics.DateOf(a.Now())}
	if q.Since, err = input.DateFlag("since", o.since); err != nil {
		return err
	}
	if q.Since != nil {
		q.Last = math.MaxInt
	}
	if o.agent != "" {
		all, err := query.AgentHistories(ctx, from, o.agent, q)
		return show(a.Out, o.archive.print, all, asUsageError(err), csvOf(query.AgentHistoryRow{}, query.AgentHistory.Table),
			func(h query.AgentHistory) error { return printAgentHistory(a.Out, h, a.Wording(from.config)) })
	}
	if report != 0 {
		return a.rowHistory(ctx, from, o, q, report, name)
	}
	if o.archive.archive == "" { // the state belongs to the configured archive
		if q.Open, err = openWindows(ctx, from.config); err != nil {
			return err
		}
	}
	all, err := query.Histories(ctx, from, q)
	return show(a.Out, o.archive.print, all, asUsageError(err), csvOf(historyRow{}, historyRows),
		func(h query.HistoryReport) error { return printHistory(a.Out, h, a.Wording(from.config)) })
}

// openWindows are the totals of the running windows so far; none without a state.
func openWindows(ctx context.Context, c config.Config) (out []analytics.OpenWindow, err error) {
	if _, err := os.Stat(filepath.Join(c.StateDir, state.FileName)); err != nil {
		return nil, nil
	}
	db, err := state.OpenExisting(c.StateDir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.OpenWindows(ctx)
}

func printHistory(w io.Writer, h query.HistoryReport, words render.Wording) error {
	text := render.NewText(w)
	readers := "readers of the site"
	if h.Path != nil {
		readers = "readers of " + format.Path(*h.Path)
	}
	if h.Granularity == analytics.Day {
		readers += "; changes since a week before"
	}
	text.Line(2, "%s, %s", words.Names.Of(h.Project), readers)
	text.Line(2, "")
	columns := append([]render.Column{}, render.Column{Name: string(h.Granularity)}, render.Number("total"),
		render.Number("change"), render.Number("%"), render.Number("human"), render.Number("ai"),
		render.Number("ai %"))
	withPeople := slices.ContainsFunc(h.Windows, func(w query.HistoryWindow) bool { return w.People != nil })
	if withPeople {
		columns = append(columns, render.Number("confirmed"), render.Number("claimed"))
	}
	more := len(columns) - 1
	for _, c := range (analytics.Totals{}).More() {
		columns = append(columns, render.Number(c.Name))
	}
	table := render.NewTable(append(columns, render.Column{Name: "state", Cut: render.CutEnd})...)
	var former *query.HistoryWindow
	var changes []string
	for i, step := range h.Windows {
		cells := slices.Repeat([]string{"-"}, len(columns)-1)
		if v := step.Visitors; v != nil {
			cells[0], cells[3], cells[4] = format.Commas(v.Total), format.Commas(v.Human), format.Commas(v.AI)
			for i, c := range v.More() {
				cells[more+i] = format.Commas(c.Value)
			}
			if p := step.People; p != nil {
				cells[more-2], cells[more-1] = format.Commas(p.Confirmed), format.Commas(p.Claimed)
			}
			if step.AIShare != nil {
				cells[5] = fmt.Sprintf("%.1f%%", *step.AIShare)
			}
			if step.Change != nil {
				cells[1], cells[2] = render.Signed(*step.Change), render.Percent(step.Percent)
			}
		}
		key := analytics.Key{Project: h.Project, Granularity: h.Granularity, Window: step.Window}
		state := windowState(step.State, step.Absent, step.Visitors != nil, step.Verified)
		if step.State != query.Missing {
			if former != nil && former.Humans != step.Humans {
				state += ", people " + step.Humans.Said()
				changes = append(changes, view.ModeChange(former.Humans, step.Humans, words.Days(key)))
			}
			former = &h.Windows[i]
		}
		table.Add(append(append([]string{words.Days(key)}, cells...), state)...)
	}
	err := errors.Join(text.Err(), table.Print(w))
	for _, change := range changes {
		text.Line(2, "%s", change)
	}
	if o := h.Open; o != nil {
		text.Line(2, "%s so far: %s readers, %s human, %s AI (read %s). It is not over, so nothing compares with it.",
			words.Days(o.Key), format.Commas(o.Totals.Total), format.Commas(o.Totals.Human),
			format.Commas(o.Totals.AI), format.Time(o.ReadAt))
	}
	return errors.Join(err, printNewerMissing(text, h.Granularity, h.NewerMissing))
}

// printNewerMissing says how many complete windows after the last window of a history the archive lacks.
func printNewerMissing(text *render.Text, g analytics.Granularity, n int) error {
	if n > 0 {
		text.Line(2, "The archive has not got the %s after that yet: docgauge plan.",
			format.Plural(n, string(g)+" window"))
	}
	return text.Err()
}

// windowState is the state of a window of a history, or the reason that it has no numbers.
func windowState(state string, absent, known bool, verified *bool) string {
	switch {
	case state == query.Missing:
		return state
	case absent:
		return "absent"
	case !known:
		return "totals only"
	case !*verified:
		return state + ", unverified"
	}
	return state
}

// historyRow is a window of a page, or of the site.
type historyRow struct {
	Project     string                `json:"project"`
	Granularity analytics.Granularity `json:"granularity"`
	Path        *string               `json:"path"`
	analytics.Window
	query.HistoryNumbers
	Previous struct{} // hides the columns of the former visitors: the row of that window has them
}

func historyRows(h query.HistoryReport) (out []any) {
	for _, w := range h.Windows {
		out = append(out, historyRow{h.Project, h.Granularity, h.Path, w.Window, w.HistoryNumbers, struct{}{}})
	}
	return out
}
