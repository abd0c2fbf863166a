package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/view"
)

type countOptions struct {
	from, to, by, project string
	n                     int
	print                 input.Formats
}

func (a commands) countCommand() *cobra.Command {
	var o countOptions
	cmd := &cobra.Command{
		Use:   "count FILE…",
		Short: "count the readers in access logs, exactly, once",
		Long: `count reads access logs once and says who reads the site: people and AI agents
apart, each once over all the days. It needs no settings, keeps nothing, and
sends nothing.

It shows the readers of the site, the classes of agents, the most read pages,
and what was left out and why. In place of the pages, --by lists

  agent       the agents, with requests, Markdown and bandwidth
  source      where people came from: assistants, search engines, others
  user-agent  the most frequent user agents, and what each was taken for
  day         the days, after the line of their trend

The format of each line is recognized, from nginx to CDNs and hosts. Files can
be plain, gzip, zstd or bzip2; a directory means the logs in it, - is standard
input. A file that is no access log is named and left out.

A reader is an address with a user agent. A view is a GET of a page that was
answered, not of a style, script or image. Any program can call itself a
browser, so people are an interval: from the confirmed, who did what browsers
do, to the claimed; DOCGAUGE_SITE_HUMANS=confirmed counts only the former.
Readers cannot be added up, not over pages, not over days.

Behind a CDN or proxy all readers have its address: name its networks in
DOCGAUGE_SITE_LOG_PROXIES, and X-Forwarded-For tells them apart.
docgauge help configuration lists the other DOCGAUGE_SITE_ variables.

` + console.ReadingExitCodes,
		Example: `  docgauge site count /var/log/nginx/access.log*
  docgauge site count --from 2026-10-01 --to 2026-11-01 --by agent access.log
  docgauge site count --csv access.log >pages.csv
  DOCGAUGE_SITE_LOG_PROXIES=10.0.0.0/8 docgauge site count --by day access.log`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return input.Usage(errors.New("name the logs: docgauge site count FILE…, or - for standard input"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if (o.print.CSV || o.print.JSON) && !cmd.Flags().Changed("number") {
				o.n = math.MaxInt - 1
			}
			return a.count(cmd.Context(), o, args, cmd.InOrStdin())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "first `day` to count, YYYY-MM-DD, UTC (default: all)")
	f.StringVar(&o.to, "to", "", "`day` after the last")
	f.StringVar(&o.by, "by", "page", "`list`: page, agent, source, user-agent or day")
	f.IntVarP(&o.n, "number", "n", 20, "pages to list; --csv and --json: all")
	f.StringVar(&o.project, "project", "", "one `project` of DOCGAUGE_SITE_PROJECTS")
	o.print.Flags(f, "print everything as JSON", "print the list as CSV")
	return cmd
}

const (
	// gcPercent is how much the heap grows between two collections while logs are counted, and gcBytes how much at least.
	gcPercent = 15
	gcBytes   = 24 << 20
)

// tuneCollector lets a small heap grow by gcBytes between two collections until stop is called: a seventh less CPU time
// for a million lines than with gcPercent alone.
func tuneCollector() (stop func()) {
	var mu sync.Mutex
	stopped, former := false, debug.SetGCPercent(gcPercent)
	var collected func(int)
	collected = func(int) {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(max(gcPercent, gcBytes*100/max(int(live[0].Value.Uint64()), 4<<20)))
		runtime.AddCleanup(new([64]byte), collected, 0) // by the next collection
	}
	collected(0)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		debug.SetGCPercent(former)
	}
}

func (a commands) count(ctx context.Context, o countOptions, paths []string, stdin io.Reader) error {
	lists := map[string]list{"page": pageList, "agent": agentList, "source": sourceList, "user-agent": userAgentList,
		"day": dayList}
	list, ok := lists[o.by]
	switch {
	case !ok:
		return input.Usagef("--by %.40q: want page, agent, source, user-agent or day", o.by)
	case o.n < 1:
		return input.Usagef("-n %d: want 1 or more", o.n)
	}
	if err := o.print.Check(); err != nil {
		return err
	}
	options := count.Options{Project: o.project, ByDay: o.by == "day", ByUserAgent: o.by == "user-agent",
		ByAgent: o.by == "agent" || o.print.JSON, BySource: o.by == "source" || o.print.JSON,
		Now: analytics.DateOf(a.Now()), Stdin: stdin}
	var err error
	if options.From, options.To, err = input.DateFlags(o.from, o.to, "last that is counted"); err != nil {
		return err
	}
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	rules, err := count.ParseRules(ruleSettings(c), a.Now)
	if err != nil {
		return input.Usage(err)
	}
	// What stays has no pointers, so that collecting often costs little and saves a quarter of the memory.
	defer tuneCollector()()
	r, err := rules.Count(ctx, paths, options)
	if _, ok := errors.AsType[count.ProjectError](err); ok {
		return input.Usage(err)
	}
	if err != nil {
		return err
	}
	for _, warning := range r.Warnings {
		a.Note("%s", warning)
	}
	rows := list(r)
	left := max(0, len(rows)-1-o.n)
	rows = rows[:len(rows)-left]
	r.Pages = r.Pages[:min(o.n, len(r.Pages))]
	r.UserAgents = r.UserAgents[:min(o.n, len(r.UserAgents))]
	return o.print.Write(a.Out, r, func() error { return render.CSV(a.Out, rows) },
		func() error { return printCount(a.Out, r, rows, left) })
}

func ruleSettings(c config.Config) count.Settings {
	return count.Settings{LogFormat: c.SiteLogFormat, Projects: c.SiteProjects, LogProxies: c.SiteLogProxies,
		Exclude: c.SiteExclude, Assets: c.SiteAssets, Markdown: c.SiteMarkdown, AgentsFile: c.SiteAgentsFile,
		RangesDir: c.SiteRangesDir, Hosts: c.SiteHosts, Humans: c.SiteHumans}
}

// list is a list of a report: a heading, and a row for each.
type list func(*count.Report) [][]string

func audiences(human, ai, total int64) []string {
	return []string{strconv.FormatInt(human, 10), strconv.FormatInt(ai, 10), strconv.FormatInt(total, 10)}
}

func pageList(r *count.Report) [][]string {
	rows := [][]string{{"path", "human", "ai", "total"}}
	for _, p := range r.Pages {
		rows = append(rows, append([]string{p.Path}, audiences(p.Human, p.AI, p.Total)...))
	}
	return rows
}

func dayList(r *count.Report) [][]string {
	rows := [][]string{{"day", "human", "ai", "total"}}
	for _, d := range r.Days {
		rows = append(rows, append([]string{d.Day.String()}, audiences(d.Human, d.AI, d.Total)...))
	}
	return rows
}

func agentList(r *count.Report) [][]string {
	rows := [][]string{append([]string{"agent", "class", "audience", "visitors", "requests", "markdown", "bytes"},
		negotiated(r.Negotiation, func(name string, _ int) string { return name })...)}
	for _, agent := range r.Agents {
		rows = append(rows, append([]string{agent.Agent, string(agent.Class), string(agent.Audience),
			strconv.Itoa(agent.Visitors), strconv.Itoa(agent.Requests), strconv.Itoa(agent.Markdown),
			strconv.FormatInt(agent.Bytes, 10)},
			negotiated(agent.Negotiation, func(_ string, n int) string { return strconv.Itoa(n) })...))
	}
	return rows
}

func sourceList(r *count.Report) [][]string {
	rows := [][]string{{"source", "class", "agent", "visitors", "requests"}}
	for _, s := range r.Sources {
		rows = append(rows, []string{s.Source, s.Class, s.Agent, strconv.Itoa(s.Visitors), strconv.Itoa(s.Requests)})
	}
	return rows
}

func userAgentList(r *count.Report) [][]string {
	rows := [][]string{{"user agent", "agent", "class", "audience", "visitors", "requests"}}
	for _, u := range r.UserAgents {
		rows = append(rows, []string{u.UserAgent, u.Agent, string(u.Class), string(u.Audience), strconv.Itoa(u.Visitors),
			strconv.Itoa(u.Requests)})
	}
	return rows
}

// negotiated returns a cell for each number that the log has: who asked for Markdown, and the ones among them
// who got HTML.
func negotiated(n count.Negotiation, cell func(name string, n int) string) (cells []string) {
	if n.Asked != nil {
		cells = append(cells, cell("asked", *n.Asked))
	}
	if n.GotHTML != nil {
		cells = append(cells, cell("html", *n.GotHTML))
	}
	return cells
}

// leftOutTexts say why lines are not views, in the order in which they are shown.
var leftOutTexts = []struct {
	reason count.Reason
	text   string
}{
	{count.Asset, "assets: styles, scripts, images, downloads"},
	{count.Prefetch, "fetched in advance, or by a site's script that may do so"},
	{count.Status, "answered with neither 2xx nor 304"},
	{count.Method, "not GET"},
	{count.Excluded, "excluded by DOCGAUGE_SITE_EXCLUDE"},
	{count.Foreign, "of another project, or of none"},
	{count.Outside, "not in these days"},
	{count.Again, "further lines of a request, as Vercel writes them"},
	{count.Spoofed, "claim an agent whose addresses are others"},
	{count.Client, "without the address of a client"},
	{count.Unparsed, "not of the log's format"},
}

// printCount prints the rows of a list, of which some are left out, after the trend and the classes of agents, and
// what was not counted.
func printCount(w io.Writer, r *count.Report, rows [][]string, left int) error {
	text := render.NewText(w)
	number := func(n int) string { return format.Commas(int64(n)) }
	if r.Views == 0 {
		text.Line(2, "No view in %s.", format.Plural(r.Lines, "line"))
	} else {
		text.Line(2, "%s to %s: %s, %s human, %s AI", r.From, r.To-1, format.Plural(r.Totals.Total, "reader"),
			format.Commas(r.Totals.Human), format.Commas(r.Totals.AI))
		if r.People.Claimed > 0 {
			text.Line(2, "People: %s confirmed to %s claimed; human counts the %s.", number(r.People.Confirmed),
				number(r.People.Claimed), r.Humans)
			text.Line(2, "Evidence: %s.", r.People.Evidence())
		}
		text.Line(2, "%s of %s are views; %s AI requests.", number(r.Views), format.Plural(r.Lines, "line"),
			number(r.AIRequests))
	}
	if r.Asked != nil && *r.Asked > 0 {
		got := "."
		if r.GotHTML != nil {
			got = fmt.Sprintf("; %s of them got HTML.", number(*r.GotHTML))
		}
		text.Line(2, "%s asked for Markdown by Accept%s", format.Plural(*r.Asked, "reader"), got)
	}
	if len(r.Days) > 1 {
		text.Line(0, "")
		if err := trendTable(r).Print(w); err != nil {
			return err
		}
	}
	if len(r.Classes) > 0 {
		text.Line(0, "")
		table := render.NewTable(render.Column{Name: "class"}, render.Number("readers"), render.Number("requests"),
			render.Column{Name: "a view counts as"})
		for _, c := range r.Classes {
			table.Add(string(c.Class), number(c.Visitors), number(c.Requests), countsAs(c.Class, r.Humans))
		}
		if err := table.Print(w); err != nil {
			return err
		}
	}
	if len(rows) > 1 {
		text.Line(0, "")
		if err := countTable(rows, r.Humans).Print(w); err != nil {
			return err
		}
		if left > 0 {
			text.Line(2, "%s more: -n shows them, --csv all.", format.Commas(int64(left)))
		}
	}
	if len(r.LeftOut) > 0 {
		text.Line(0, "")
		table := render.NewTable(render.Number("left out"), render.Column{Name: "because"})
		for _, l := range leftOutTexts {
			if r.LeftOut[l.reason] > 0 {
				table.Add(number(r.LeftOut[l.reason]), l.text)
			}
		}
		if err := table.Print(w); err != nil {
			return err
		}
	}
	if b := r.Unparsed; b != nil {
		text.Line(0, "")
		text.Line(2, "The first of them, with a for letters and 0 for digits: %s:%d: %s", b.Source, b.Line, b.Rule)
		text.Line(2, "  %s", b.Text)
	}
	return text.Err()
}

// maxMarks is the number of marks of a trend that a terminal has room for.
const maxMarks = 50

// trendTable shows the readers of each day, or their mean over some days where there are too many for a mark each.
func trendTable(r *count.Report) *render.Table {
	first, days := r.Days[0].Day, 1+int(r.Days[len(r.Days)-1].Day-r.Days[0].Day)
	step := 1
	for _, longer := range []int{7, 28, 91, 364} {
		if days > maxMarks*step {
			step = longer
		}
	}
	marks := (days + step - 1) / step
	name := format.DateSpan(first.Time(), r.Days[len(r.Days)-1].Day.Time(), 0)
	if step > 1 {
		name += fmt.Sprintf(", means of %d days", step)
	}
	table := render.NewTable(render.Column{Name: "a day"}, render.Column{Name: name}, render.Number("least"),
		render.Number("most"))
	for _, audience := range []analytics.Audience{analytics.Human, analytics.AI} {
		means := make([]float64, marks)
		for _, day := range r.Days {
			// The last days are whole groups; the first group may have fewer.
			i := marks - 1 - (days-1-int(day.Day-first))/step
			of := min(step, days-(marks-1-i)*step)
			means[i] += float64(day.Of(audience)) / float64(of)
		}
		number := func(n float64) string { return format.Commas(int64(math.Round(n))) }
		table.Add(string(audience), render.Trend(means), number(slices.Min(means)), number(slices.Max(means)))
	}
	return table
}

// countsAs says where views by agents of a class count.
func countsAs(class agents.Class, humans analytics.Humans) string {
	switch class {
	case agents.Class(agents.Browser.Token):
		return "human"
	case agents.Class(agents.Unconfirmed.Token):
		if humans == analytics.Confirmed {
			return "nothing"
		}
		return "human"
	case agents.Answers, agents.Coding:
		return "AI"
	case agents.Tool, agents.Unknown:
		return "nothing; AI as Markdown"
	}
	return "nothing"
}

// countTable has the rows of a list; numbers have commas, bytes a unit, and agents the words of the pages.
func countTable(rows [][]string, humans analytics.Humans) *render.Table {
	var columns []render.Column
	for i, name := range rows[0] {
		if name == "user agent" {
			columns = append(columns, render.Column{Name: name, Below: true})
		} else if name == "bytes" {
			columns = append(columns, render.Number("bandwidth"))
		} else if name == "audience" || name == "asked" || name == "html" {
			columns = append(columns, render.Column{Name: name, Right: name != "audience", Spare: true})
		} else if _, err := strconv.Atoi(rows[1][i]); err == nil {
			columns = append(columns, render.Number(name))
		} else {
			columns = append(columns, render.Column{Name: name, Cut: render.CutMiddle})
		}
	}
	table := render.NewTable(columns...)
	for _, row := range rows[1:] {
		var cells []string
		for i, cell := range row {
			v, err := strconv.ParseInt(cell, 10, 64)
			switch {
			case rows[0][i] == "agent" && rows[0][0] != "user agent":
				cell = view.AgentName(cell, humans)
			case rows[0][i] == "class" && rows[0][0] == "agent":
				cell = view.AgentKind(cell, analytics.Audience(row[2]))
			case rows[0][i] == "bytes" && v < 0:
				cell = "-"
			case rows[0][i] == "bytes":
				cell = humanize.Bytes(uint64(v))
			case err == nil:
				cell = format.Commas(v)
			}
			cells = append(cells, cell)
		}
		table.Add(cells...)
	}
	return table
}
