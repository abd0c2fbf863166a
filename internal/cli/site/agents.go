package site

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/count"
)

type agentsOptions struct {
	class   string
	list    string
	unknown bool
	print   input.Formats
}

func (a commands) agentsCommand() *cobra.Command {
	var o agentsOptions
	cmd := &cobra.Command{
		Use:   "agents [USER-AGENT…] | --list FILE | --unknown LOG…",
		Short: "show the known agents, or which agent a user agent names",
		Long: `agents shows the table of agents: the name that stands in their user agent, who
runs them, and the class, which says what they fetch pages for. With arguments
it says which agent each user agent names; with --list it does so for a file of
user agents, one a line, and counts the classes. --unknown lists the user agents
in access logs that nothing here knows, the most frequent first.

  answers   a page for a user's question             counts as AI
  coding    a page for a coding agent                counts as AI
  search    pages for a search index                 counts nowhere
  training  pages for training models                counts nowhere
  tool      an HTTP library or headless browser      counts nowhere
  other     previews, monitors, feeds, SEO           counts nowhere
  unknown   a program without a name here            counts nowhere

Below the table, docgauge knows crawlers by the names of a public list. Unknown
is a user agent that is empty, has a URL, an address or one of the words bot,
crawl and spider, or does not begin as browsers do. Every other one is a
browser's, which counts as human. A view of a page as Markdown counts as AI if
a browser, a tool, or a program that only says its name asks for it.

A name is found as a whole word, in any case: Claude-User is not ClaudeBot. Of
several, a coding agent comes first and a tool last.

The file DOCGAUGE_SITE_AGENTS_FILE adds agents and replaces rows. The directory
DOCGAUGE_SITE_RANGES_DIR has the addresses that operators publish; a hosted
agent from elsewhere is spoofed, and counts nowhere.`,
		Example: `  docgauge site agents --class coding
  docgauge site agents 'Claude-User (claude-code/2.1.86)' curl/8.5.0
  docgauge site agents --csv >agents.csv
  docgauge site agents --list user-agents.txt
  docgauge site agents --unknown /var/log/nginx/access.log*`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.print.Check(); err != nil {
				return err
			}
			if o.unknown {
				return a.unknown(cmd.Context(), o, args, cmd.InOrStdin())
			}
			if o.list != "" {
				if len(args) > 0 || o.class != "" {
					return input.Usage(errors.New("--list: takes no user agents beside it, and no --class"))
				}
				return a.classify(o, cmd.InOrStdin())
			}
			if o.class != "" && !slices.Contains(agents.Classes, agents.Class(o.class)) {
				return input.Usagef("--class %.40q: want one of %s", o.class, classList())
			}
			if o.class != "" && len(args) > 0 {
				return input.Usage(errors.New("--class: is for the table, and user agents are given"))
			}
			return a.agents(o, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.class, "class", "", "only the agents of a `class`: "+classList())
	f.StringVar(&o.list, "list", "", "classify the user agents in a `file`, one a line; - for standard input")
	f.BoolVar(&o.unknown, "unknown", false, "list the user agents in access logs that are unknown")
	o.print.Flags(f, "print JSON", "print CSV")
	return cmd
}

// unknown lists the user agents of class unknown in access logs.
func (a commands) unknown(ctx context.Context, o agentsOptions, paths []string, stdin io.Reader) error {
	if len(paths) == 0 || o.class != "" || o.list != "" {
		return input.Usage(errors.New("--unknown: want access logs, and no --class or --list: " +
			"docgauge site agents --unknown FILE…"))
	}
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	c.SiteProjects = "" // what is unknown is so in every project
	rules, err := count.ParseRules(ruleSettings(c), a.Now)
	if err != nil {
		return input.Usage(err)
	}
	r, err := rules.Count(ctx, paths, count.Options{ByUserAgent: true, Now: analytics.DateOf(a.Now()), Stdin: stdin})
	if err != nil {
		return err
	}
	for _, warning := range r.Warnings {
		a.Note("%s", warning)
	}
	r.UserAgents = slices.DeleteFunc(r.UserAgents, func(u *count.UserAgentReaders) bool {
		return u.Class != agents.Unknown
	})
	rows := userAgentList(r)
	return o.print.Write(a.Out, r.UserAgents, func() error { return render.CSV(a.Out, rows) }, func() error {
		if len(rows) == 1 {
			text := render.NewText(a.Out)
			text.Line(2, "No user agent in %s is unknown.", format.Plural(r.Lines, "line"))
			return text.Err()
		}
		return countTable(rows, c.SiteHumans).Print(a.Out)
	})
}

// classify classifies a file of user agents.
func (a commands) classify(o agentsOptions, stdin io.Reader) error {
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	table, _, err := a.table(c)
	if err != nil {
		return err
	}
	in := io.NopCloser(stdin)
	if o.list != "-" {
		if in, err = os.Open(o.list); err != nil {
			return input.Usagef("--list: %w", err)
		}
	}
	defer in.Close() //nolint:errcheck // it was only read
	rows := []agentRow{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxUserAgentLine)
	for lines.Scan() {
		userAgent := lines.Text()
		rows = append(rows, newAgentRow(&userAgent, table.Match(userAgent)))
	}
	if err := lines.Err(); err != nil {
		return input.Usagef("--list %s: line %d: %w", o.list, len(rows)+1, err)
	}
	return o.print.Write(a.Out, rows, func() error { return render.CSV(a.Out, agentCSV(rows)) }, func() error {
		return printClasses(a.Out, rows)
	})
}

// maxUserAgentLine is the longest line of a file of user agents, in bytes.
const maxUserAgentLine = 1 << 20

// printClasses prints how many user agents are of each class.
func printClasses(w io.Writer, rows []agentRow) error {
	counts := map[agents.Class]int{}
	for _, r := range rows {
		counts[r.Class]++
	}
	t := render.NewTable(render.Column{Name: "class"}, render.Number("user agents"), render.Number("%"))
	for _, class := range append([]agents.Class{agents.Browser.Class}, append(agents.Classes, agents.Unknown)...) {
		t.Add(string(class), format.Commas(int64(counts[class])),
			fmt.Sprintf("%.2f", 100*float64(counts[class])/float64(max(1, len(rows)))))
	}
	if err := t.Print(w); err != nil {
		return err
	}
	text := render.NewText(w)
	text.Line(2, "%s. --csv and --json say what each was taken for.", format.Plural(len(rows), "user agent"))
	return text.Err()
}

func classList() string {
	var names []string
	for _, c := range agents.Classes {
		names = append(names, string(c))
	}
	return strings.Join(names, ", ")
}

// table reads the table of agents and the published ranges that the settings name.
func (a commands) table(c config.Config) (*agents.Table, *agents.Ranges, error) {
	table, err := agents.Load(c.SiteAgentsFile)
	if err != nil {
		err = fmt.Errorf("DOCGAUGE_SITE_AGENTS_FILE: %w", err)
	}
	ranges, errRanges := agents.ReadRanges(c.SiteRangesDir, a.Now)
	if errRanges != nil {
		errRanges = fmt.Errorf("DOCGAUGE_SITE_RANGES_DIR: %w", errRanges)
	}
	if err := errors.Join(err, errRanges); err != nil {
		return nil, nil, input.Usage(err)
	}
	return table, ranges, nil
}

// agentRow is an agent, or what a user agent names, as it is shown; its JSON keys are stable.
type agentRow struct {
	UserAgent *string `json:"user_agent,omitempty"`
	agents.Agent
	Audience         analytics.Audience `json:"audience"`
	MarkdownAudience analytics.Audience `json:"markdown_audience"`
}

func newAgentRow(userAgent *string, agent *agents.Agent) agentRow {
	row := agentRow{userAgent, agents.Browser, agents.Audience(agent, false), agents.Audience(agent, true)}
	if agent != nil {
		row.Agent = *agent
	}
	return row
}

func (a commands) agents(o agentsOptions, userAgents []string) error {
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	table, ranges, err := a.table(c)
	if err != nil {
		return err
	}
	rows := []agentRow{}
	for i := range userAgents {
		rows = append(rows, newAgentRow(&userAgents[i], table.Match(userAgents[i])))
	}
	if len(userAgents) == 0 {
		for _, agent := range table.Agents() {
			if o.class == "" || string(agent.Class) == o.class {
				rows = append(rows, newAgentRow(nil, &agent))
			}
		}
	}
	return o.print.Write(a.Out, rows, func() error { return render.CSV(a.Out, agentCSV(rows)) }, func() error {
		switch {
		case len(userAgents) > 0:
			return printClassified(a.Out, rows)
		case o.class != "":
			return printAgents(a.Out, rows, nil)
		}
		return printAgents(a.Out, rows, ranges.Lists())
	})
}

func agentCSV(rows []agentRow) [][]string {
	out := [][]string{{"agent", "operator", "class", "audience", "markdown_audience", "hosted", "ranges", "source",
		"visits"}}
	for _, r := range rows {
		out = append(out, []string{r.Token, r.Operator, string(r.Class), string(r.Audience),
			string(r.MarkdownAudience), strconv.FormatBool(r.Hosted), r.Ranges, r.Source, r.Visits})
	}
	if len(rows) > 0 && rows[0].UserAgent != nil {
		out[0] = append([]string{"user_agent"}, out[0]...)
		for i, r := range rows {
			out[i+1] = append([]string{*r.UserAgent}, out[i+1]...)
		}
	}
	return out
}

// where says where the clients of an agent run.
func (r agentRow) where() string {
	switch {
	case r.Hosted:
		return "hosted"
	case r.Source == "":
		return "-"
	}
	return "anywhere"
}

func printAgents(w io.Writer, rows []agentRow, lists []agents.RangeList) error {
	t := render.NewTable(render.Column{Name: "agent"}, render.Column{Name: "operator", Cut: render.CutEnd},
		render.Column{Name: "runs"}, render.Column{Name: "addresses published in", Spare: true})
	for _, class := range agents.Classes {
		first := true
		for _, row := range rows {
			if row.Class != class {
				continue
			}
			if first {
				t.Group(string(class) + ": " + counted(row))
				first = false
			}
			t.Add(row.Token, row.Operator, row.where(), cmp.Or(row.Ranges, "-"))
		}
	}
	if err := t.Print(w); err != nil {
		return err
	}
	text := render.NewText(w)
	text.Line(2, "")
	text.Line(2, "%s. --json and --csv add the source of each row.", format.Plural(len(rows), "agent"))
	for _, l := range lists {
		remark := ""
		if !slices.ContainsFunc(rows, func(r agentRow) bool { return r.Ranges == l.Name }) {
			remark = "; no agent names this file"
		} else if l.Stale {
			remark = "; too old to verify anything: fetch it again"
		}
		text.Line(2, "ranges  %s: %s, %s%s", l.Name, format.Plural(l.Prefixes, "network"),
			l.Created.UTC().Format(time.DateOnly), remark)
	}
	return text.Err()
}

// counted says where the views of an agent count.
func counted(r agentRow) string {
	switch {
	case r.Audience == analytics.AI:
		return "counts as AI"
	case r.MarkdownAudience == analytics.AI:
		return "counts nowhere, or as AI if it asks for Markdown"
	}
	return "counts nowhere"
}

func printClassified(w io.Writer, rows []agentRow) error {
	t := render.NewTable(render.Column{Name: "agent"}, render.Column{Name: "operator", Cut: render.CutEnd},
		render.Column{Name: "class"}, render.Column{Name: "audience"}, render.Column{Name: "as Markdown"},
		render.Column{Name: "runs"}, render.Column{Name: "user agent", Below: true})
	for _, r := range rows {
		t.Add(r.Token, cmp.Or(r.Operator, "-"), string(r.Class), string(r.Audience), string(r.MarkdownAudience),
			r.where(), cmp.Or(*r.UserAgent, "(empty)"))
	}
	return t.Print(w)
}
