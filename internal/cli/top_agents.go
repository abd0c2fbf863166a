package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// byAgent is the value of --by that lists agents.
const byAgent = "agent"

// agentRanking returns what the flags ask about agents; by: --by was given.
func (o topOptions) agentRanking(by bool) (query.AgentRanking, error) {
	r := query.AgentRanking{Agent: o.agent, Prefix: o.prefix, N: o.n}
	switch {
	case o.agent != "" && o.misses, o.by == byAgent && (o.agent != "" || o.misses):
		return r, errors.New("--by agent, --agent, --misses: want one of the three")
	case o.misses:
		r.List = query.Misses
	}
	if by && o.by != byAgent {
		r.By = query.AgentOrder(o.by)
	}
	r, err := r.Complete()
	if err != nil {
		return r, fmt.Errorf("--%w", err)
	}
	return r, nil
}

func (a *Program) topAgents(ctx context.Context, o topOptions, by bool) error {
	ranking, err := o.agentRanking(by)
	if err != nil {
		return input.Usage(err)
	}
	return topRows(ctx, a, o, analytics.AgentsReport,
		func(from sinks.Sink, q query.Choice) ([]query.AgentsReport, error) {
			all, err := query.Agents(ctx, from, q, ranking)
			return all, errors.Join(err, a.addRedirects(all))
		},
		csvOf(query.AgentRow{}, query.AgentsReport.Table), printAgentList)
}

// addRedirects adds to misses the rules that should have redirected them.
func (a *Program) addRedirects(all []query.AgentsReport) error {
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	rules, err := state.Redirects(c.StateDir)
	for _, report := range all {
		view.AddRedirects(report.Misses, report.Project, report.Window, rules)
	}
	return err
}

func printAgentList(w io.Writer, r query.AgentsReport, words render.Wording) error {
	text := render.NewText(w)
	printCompared(text, r.RowsReading, r.Previous, words)
	subject := map[query.AgentList]string{query.SiteAgents: "Agents that read the site: %s.",
		query.AgentPages: "Pages that " + r.Agent + " read: %s.",
		query.Misses:     "Paths that agents asked for and that are not there: %s."}[r.List]
	text.Line(2, subject, format.Commas(r.Count))
	if r.People != nil {
		text.Line(2, "%s", r.People)
	}
	if r.Previous == nil {
		text.Line(2, "%s", words.NothingToCompare(r.Key))
	}
	if len(r.Agents)+len(r.Misses) > 0 {
		text.Line(0, "")
		if err := errors.Join(text.Err(), agentTable(r).Print(w)); err != nil {
			return err
		}
		text.Line(0, "")
		text.Line(2, "%s", r.List.Rule())
	}
	for i, name := range r.Gone {
		if i == 0 {
			text.Line(2, "Did not read the site since %s:", words.Days(r.Previous.Key))
		}
		text.Line(4, "  %s", name)
	}
	return text.Err()
}

// agentTable lists agents, pages of one, or misses; the number they are ranked by comes first.
func agentTable(r query.AgentsReport) *render.Table {
	others := slices.DeleteFunc(slices.Clone(query.AgentOrders), func(o query.AgentOrder) bool { return o == r.By })
	of := func(n view.AgentNumbers, by query.AgentOrder) string { return format.Known(n.Of(by.Count())) }
	numbers := func(n view.AgentNumbers, c view.AgentChange) []string {
		change, percent := changeTexts(c.Change, c.Percent, r.Previous != nil)
		return []string{of(n, r.By), change, percent}
	}
	// The counts by which the list is not ranked.
	beside := func(n view.AgentNumbers) (texts []string) {
		for _, by := range others {
			texts = append(texts, of(n, by))
		}
		return texts
	}
	var heads []render.Column
	for i, by := range others {
		heads = append(heads, render.Number(string(by)))
		heads[i].Spare = i > 0
	}
	columns := []render.Column{render.Number(string(r.By)), render.Number("change"), render.Number("%")}
	path := render.Column{Name: "path", Cut: render.CutMiddle}
	row := func(rank int, subject ...string) []string { return append([]string{strconv.Itoa(rank)}, subject...) }
	head := []render.Column{render.Number("#")}
	var table *render.Table
	switch r.List {
	case query.Misses:
		columns[2].Spare = true
		table = render.NewTable(append(append(append(head, path), columns...),
			render.Column{Name: "nearest page", Cut: render.CutMiddle}, render.Column{Name: "asked by", Below: true},
			render.Column{Name: "redirected", Below: true, Optional: true})...)
		for _, m := range r.Misses {
			near := m.Nearest()
			if near == "" {
				near = "-"
			}
			redirected := ""
			if r := m.Redirect; r != nil {
				redirected = fmt.Sprintf("to %s since %s", r.Target, analytics.DateOf(r.Since))
			}
			table.Add(append(append(row(m.Rank, m.Path), numbers(m.AgentNumbers, m.AgentChange)...), near,
				m.AgentsText(), redirected)...)
		}
	case query.AgentPages:
		table = render.NewTable(slices.Concat(head, []render.Column{path}, columns, heads,
			[]render.Column{{Name: "kind", Spare: true}})...)
		for _, p := range r.Agents {
			table.Add(slices.Concat(row(p.Rank, p.Path), numbers(p.AgentNumbers, p.AgentChange), beside(p.AgentNumbers),
				[]string{view.AgentKind(p.Class, p.Audience)})...)
		}
	default:
		table = render.NewTable(slices.Concat(head, []render.Column{{Name: "agent", Cut: render.CutEnd}, {Name: "kind"}},
			columns, heads)...)
		for _, p := range r.Agents {
			kind := view.AgentKind(p.Class, p.Audience)
			if p.Class == "human" {
				kind = view.AgentName(p.Agent, r.Humans)
			}
			table.Add(slices.Concat(row(p.Rank, p.Agent, kind),
				numbers(p.AgentNumbers, p.AgentChange), beside(p.AgentNumbers))...)
		}
	}
	return table
}
