package site

import (
	"cmp"
	"errors"
	"fmt"
	"io"
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
)

type agentsOptions struct {
	class string
	print input.Formats
}

func (a commands) agentsCommand() *cobra.Command {
	var o agentsOptions
	cmd := &cobra.Command{
		Use:   "agents [USER-AGENT…]",
		Short: "show the known agents, or which agent a user agent names",
		Long: `agents shows the table of agents: the name that stands in their user agent, who
runs them, and the class, which says what they fetch pages for. With arguments
it says which agent each user agent names.

  answers   a page for a user's question             counts as AI
  coding    a page for a coding agent                counts as AI
  search    pages for a search index                 counts nowhere
  training  pages for training models                counts nowhere
  tool      an HTTP library or headless browser      counts nowhere
  other     previews, monitors, feeds, SEO           counts nowhere
  unknown   not in the table, but empty, or with     counts nowhere
            a URL or the words bot, crawl, spider

Every other user agent is a browser's, which counts as human. A view of a page
as Markdown counts as AI if a browser or a tool asks for it.

A name is found as a whole word, in any case: Claude-User is not ClaudeBot. Of
several, a coding agent comes first and a tool last.

The file DOCGAUGE_SITE_AGENTS_FILE adds agents and replaces rows. The directory
DOCGAUGE_SITE_RANGES_DIR has the addresses that operators publish; a hosted
agent from elsewhere is spoofed, and counts nowhere.`,
		Example: `  docgauge site agents --class coding
  docgauge site agents 'Claude-User (claude-code/2.1.86)' curl/8.5.0
  docgauge site agents --csv >agents.csv`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.print.Check(); err != nil {
				return err
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
	o.print.Flags(f, "print JSON", "print CSV")
	return cmd
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
	out := [][]string{{"agent", "operator", "class", "audience", "markdown_audience", "hosted", "ranges", "source"}}
	for _, r := range rows {
		out = append(out, []string{r.Token, r.Operator, string(r.Class), string(r.Audience),
			string(r.MarkdownAudience), strconv.FormatBool(r.Hosted), r.Ranges, r.Source})
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
