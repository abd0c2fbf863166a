package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/redirects"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// withArchive calls f with the archive.
func (a *assistant) withArchive(f func(sinks.Sink) error) (err error) {
	if a.Archive != nil {
		return f(a.Archive)
	}
	from, err := app.NewArchive(a.Config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	return f(from)
}

// ruled is a part of each answer with numbers of visitors.
type ruled struct {
	Rule string `json:"rule" jsonschema:"how the numbers may be used"`
}

type noArguments struct{}

type projectsAnswer struct {
	ruled
	Projects  []storedProject `json:"projects"`
	Total     int             `json:"total"`
	Truncated bool            `json:"truncated"`
}

type storedProject struct {
	Project     string          `json:"project"`
	ProjectName string          `json:"project_name,omitempty"`
	Windows     []storedWindows `json:"windows"`
}

type storedWindows struct {
	Report      analytics.Report      `json:"report,omitzero"`
	Granularity analytics.Granularity `json:"granularity"`
	Stored      int                   `json:"stored"`
	// From and To are the dates that they cover, with gaps or without.
	From analytics.Date `json:"from"`
	To   analytics.Date `json:"to"`
	// Newest has no totals of agents: their readers are not added up.
	Newest analytics.Revision `json:"newest" jsonschema:"a row_count of -1: only the totals of the site were read"`
}

func (a *assistant) projects(ctx context.Context, _ noArguments) (projectsAnswer, error) {
	all, err := a.revisions(ctx)
	out := projectsAnswer{ruled: ruled{rule}, Projects: []storedProject{}}
	if err != nil {
		return out, err
	}
	known := map[string][]storedWindows{}
	for _, id := range a.Config.Projects {
		known[id] = []storedWindows{}
	}
	for _, rev := range all {
		kinds := known[rev.Project]
		i := slices.IndexFunc(kinds, func(w storedWindows) bool {
			return w.Report == rev.Report && w.Granularity == rev.Granularity
		})
		if i < 0 {
			i, kinds = len(kinds), append(kinds, storedWindows{Report: rev.Report, Granularity: rev.Granularity,
				From: rev.From, To: rev.To, Newest: rev})
			known[rev.Project] = kinds
		}
		w := &kinds[i]
		w.Stored++
		w.From, w.To = min(w.From, rev.From), max(w.To, rev.To)
		if rev.To > w.Newest.To {
			w.Newest = rev
		}
	}
	ids := slices.Collect(maps.Keys(known))
	query.Sort(ids, a.Config.Projects)
	out.Total = len(ids)
	limit(&ids, mostListed, &out.Truncated)
	for _, id := range ids {
		slices.SortFunc(known[id], func(a, b storedWindows) int {
			return cmp.Or(cmp.Compare(a.Report, b.Report), cmp.Compare(a.Granularity, b.Granularity))
		})
		out.Projects = append(out.Projects, storedProject{id, a.Config.ProjectNames[id], known[id]})
	}
	return out, nil
}

// revisions are the windows of the ledger, which is quick to read, or without a state those
// of the archive.
func (a *assistant) revisions(ctx context.Context) (all []analytics.Revision, err error) {
	err = a.withState(func(db *state.DB) error {
		entries, err := db.Entries(ctx)
		for _, e := range entries {
			all = append(all, e.Revision)
		}
		return err
	})
	if err != nil && !errors.Is(err, errNoState) || len(all) > 0 {
		return all, err
	}
	return all, a.withArchive(func(from sinks.Sink) error {
		for rev, err := range sinks.List(ctx, from) {
			if err != nil {
				return err
			}
			all = append(all, rev)
		}
		if len(all) == 0 {
			return fmt.Errorf("the archive %s has no window: run `docgauge export` first, "+
				"or start docgauge mcp with the settings of the export (--env-file)", from.Location())
		}
		return nil
	})
}

// series is the part that all questions about windows share.
type series struct {
	Project     string `json:"project,omitempty" jsonschema:"id of the project; not needed if there is one"`
	Granularity string `json:"granularity,omitempty" jsonschema:"kind of window: day, week, month or Nd (28d)"`
}

// ask checks the series and calls f with the archive; where no project is named there must be one.
func (a *assistant) ask(
	ctx context.Context, s series, usual analytics.Granularity, f func(sinks.Sink, query.Selection) error,
) error {
	g, err := analytics.ParseGranularity(cmp.Or(s.Granularity, string(usual)))
	if err != nil {
		return err
	}
	projects, err := a.project(ctx, s.Project)
	if err != nil {
		return err
	}
	selected := query.Selection{Granularity: g, Names: a.Config.ProjectNames, Projects: projects}
	return a.withArchive(func(from sinks.Sink) error { return f(from, selected) })
}

// project returns the project that is asked about.
func (a *assistant) project(ctx context.Context, id string) ([]string, error) {
	if id != "" {
		return []string{id}, analytics.CheckProject(id)
	}
	ids := slices.Clone(a.Config.Projects)
	if len(ids) == 0 {
		all, err := a.revisions(ctx)
		if err != nil {
			return nil, err
		}
		for _, rev := range all {
			ids = append(ids, rev.Project)
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
	}
	if len(ids) == 1 {
		return ids, nil
	}
	return nil, fmt.Errorf("project: missing, and there are several: %s", strings.Join(ids, ", "))
}

// windowQuestion names a window by one of its days, by default the newest window with pages.
type windowQuestion struct {
	series
	At     *analytics.Date `json:"at,omitempty" jsonschema:"a day of the window; of rolling windows (Nd) the last"`
	List   list            `json:"list,omitempty"`
	By     audience        `json:"by,omitempty"`
	Prefix string          `json:"prefix,omitempty" jsonschema:"only pages whose paths begin with this"`
	Limit  count           `json:"limit,omitempty" jsonschema:"length of each list of pages"`
}

// windowAnswer has the reading of the window twice: as window, and field by field.
type windowAnswer struct {
	ruled
	Window analytics.Revision `json:"window" jsonschema:"the window, with the totals of the site"`
	query.TopReport
	Truncated bool `json:"truncated" jsonschema:"a list has more"`
}

func (a *assistant) window(ctx context.Context, q windowQuestion) (windowAnswer, error) {
	out, err := a.top(ctx, q, nil)
	out.Truncated = int64(len(out.Pages)) < out.Listed
	out.Changes = nil // the tool compare has them
	return out, err
}

// top asks for the pages of a window, and of the one that it is compared with.
func (a *assistant) top(ctx context.Context, q windowQuestion, with *analytics.Date) (out windowAnswer, err error) {
	err = a.ask(ctx, q.series, analytics.Week, func(from sinks.Sink, s query.Selection) error {
		reports, err := query.Top(ctx, from, query.Choice{Selection: s, At: q.At, With: with,
			Today: analytics.DateOf(a.Now())}, query.Ranking{List: query.List(q.List),
			By: analytics.Audience(q.By), N: int(q.Limit), Prefix: q.Prefix})
		if err == nil {
			out = windowAnswer{ruled: ruled{rule}, Window: reports[0].Revision, TopReport: reports[0]}
		}
		return err
	})
	return out, err
}

type compareQuestion struct {
	windowQuestion
	With *analytics.Date `json:"with,omitempty" jsonschema:"a day of the other window; the default is as window has it"`
}

type compareAnswer struct {
	windowAnswer
	Change *change `json:"change" jsonschema:"of the visitors of the whole site; null where there was nothing"`
}

type change struct {
	Human *float64 `json:"human_percent"`
	AI    *float64 `json:"ai_percent"`
	Total *float64 `json:"total_percent"`
}

func (a *assistant) compare(ctx context.Context, q compareQuestion) (compareAnswer, error) {
	p, err := a.top(ctx, q.windowQuestion, q.With)
	out := compareAnswer{windowAnswer: p}
	if p.Previous != nil {
		was, is := p.Previous.Totals, p.Totals
		percent := query.Percent
		out.Change = &change{percent(was.Human, is.Human), percent(was.AI, is.AI), percent(was.Total, is.Total)}
	}
	if c := p.Changes; c != nil {
		for _, list := range []query.PageList{c.Rising, c.Falling, c.Appeared, c.Vanished} {
			out.Truncated = out.Truncated || int64(len(list.Pages)) < list.Count
		}
	}
	return out, err
}

type historyQuestion struct {
	series
	Path  string          `json:"path,omitempty" jsonschema:"path of the page, as window has it; default: the site"`
	Limit count           `json:"limit,omitempty" jsonschema:"how many windows, the newest"`
	Since *analytics.Date `json:"since,omitempty" jsonschema:"only windows that begin on this day or after"`
}

func (q historyQuestion) options(s query.Selection, now time.Time) query.HistoryOptions {
	o := query.HistoryOptions{Selection: s, Last: int(q.Limit), Since: q.Since, Today: analytics.DateOf(now)}
	if q.Path != "" { // an assistant may send every parameter
		o.Page = &q.Path
	}
	return o
}

type historyAnswer struct {
	ruled
	query.HistoryReport
	Truncated bool `json:"truncated" jsonschema:"older windows may be stored"`
}

func (a *assistant) history(ctx context.Context, q historyQuestion) (out historyAnswer, err error) {
	err = a.ask(ctx, q.series, analytics.Day, func(from sinks.Sink, s query.Selection) error {
		o := q.options(s, a.Now())
		err := a.withState(func(db *state.DB) (err error) {
			o.Open, err = db.OpenWindows(ctx)
			return err
		})
		if err != nil && !errors.Is(err, errNoState) {
			return err
		}
		all, err := query.Histories(ctx, from, o)
		if err == nil {
			out = historyAnswer{ruled{rule}, all[0], len(all[0].Windows) >= o.Last}
		}
		return err
	})
	return out, err
}

// agentsQuestion asks for agents, as [query.AgentRanking] has it.
type agentsQuestion struct {
	series
	At     *analytics.Date `json:"at,omitempty" jsonschema:"a day of the window; of rolling windows (Nd) the last"`
	List   agentList       `json:"list,omitempty"`
	Agent  string          `json:"agent,omitempty" jsonschema:"name of an agent, for its pages"`
	By     agentOrder      `json:"by,omitempty"`
	Prefix string          `json:"prefix,omitempty" jsonschema:"only paths that begin with this"`
	Limit  count           `json:"limit,omitempty" jsonschema:"length of the list"`
}

type agentsAnswer struct {
	ruled
	query.AgentsReport
	Truncated bool `json:"truncated" jsonschema:"the list has more: count"`
}

func (a *assistant) agents(ctx context.Context, q agentsQuestion) (out agentsAnswer, err error) {
	err = a.ask(ctx, q.series, analytics.Week, func(from sinks.Sink, s query.Selection) error {
		all, err := query.Agents(ctx, from, query.Choice{Selection: s, At: q.At, Today: analytics.DateOf(a.Now())},
			query.AgentRanking{List: query.AgentList(q.List), Agent: q.Agent, By: query.AgentOrder(q.By),
				Prefix: q.Prefix, N: int(q.Limit)})
		var rules []journal.Redirect
		if err == nil {
			rules, err = state.Redirects(a.Config.StateDir)
		}
		if err == nil {
			view.AddRedirects(all[0].Misses, all[0].Project, all[0].Window, rules)
			listed := len(all[0].Agents) + len(all[0].Misses)
			out = agentsAnswer{ruled{agentRule}, all[0], int64(listed) < all[0].Count}
			limit(&out.Gone, mostListed, &out.Truncated)
		}
		return err
	})
	return out, err
}

type redirectsQuestion struct {
	series
	Limit count `json:"limit,omitempty" jsonschema:"how many missed paths, the most requested"`
}

type redirectsAnswer struct {
	ruled
	analytics.Window
	Count     int                  `json:"count" jsonschema:"missed paths of these days"`
	Proposals []redirects.Proposal `json:"proposals"`
	Truncated bool                 `json:"truncated"`
}

func (a *assistant) redirects(ctx context.Context, q redirectsQuestion) (out redirectsAnswer, err error) {
	err = a.ask(ctx, q.series, analytics.Day, func(from sinks.Sink, s query.Selection) error {
		all, err := query.Missed(ctx, from, s, query.MissedWindows)
		if err == nil {
			missed := all[0]
			out = redirectsAnswer{ruled{agentRule}, missed.Window, len(missed.Misses), nil, false}
			limit(&missed.Misses, q.Limit, &out.Truncated)
			out.Proposals = redirects.Propose(missed.Misses, redirects.Site{Pages: missed.Pages})
		}
		return err
	})
	return out, err
}

// rowsQuestion asks for rows, as [query.RowRanking] has it.
type rowsQuestion struct {
	series
	Report analytics.Report `json:"report"`
	At     *analytics.Date  `json:"at,omitempty" jsonschema:"a day of the window; of rolling windows (Nd) the last"`
	Name   string           `json:"name,omitempty" jsonschema:"name in the rows, for its pages"`
	Path   string           `json:"path,omitempty" jsonschema:"path of one page, for its rows"`
	By     string           `json:"by,omitempty" jsonschema:"count of the report that ranks the rows"`
	Prefix string           `json:"prefix,omitempty" jsonschema:"only paths that begin with this"`
	Limit  count            `json:"limit,omitempty" jsonschema:"length of the list"`
}

type rowsAnswer struct {
	ruled
	query.RowsReport
	Truncated bool `json:"truncated" jsonschema:"the list has more: count"`
}

func (a *assistant) rows(ctx context.Context, q rowsQuestion) (out rowsAnswer, err error) {
	err = a.ask(ctx, q.series, q.Report.UsualWindow(analytics.Week), func(from sinks.Sink, s query.Selection) error {
		all, err := query.Rows(ctx, from, query.Choice{Selection: s, At: q.At, Today: analytics.DateOf(a.Now())},
			query.RowRanking{Report: q.Report, By: q.By, Name: q.Name, Path: q.Path, Prefix: q.Prefix, N: int(q.Limit)})
		if err == nil {
			out = rowsAnswer{ruled{agentRule}, all[0], int64(len(all[0].Rows)) < all[0].Count}
		}
		return err
	})
	return out, err
}

type agentHistoryQuestion struct {
	historyQuestion
	Agent string `json:"agent,omitempty" jsonschema:"name of the agent, as the tool agents has it"`
}

type agentHistoryAnswer struct {
	ruled
	Histories []query.AgentHistory `json:"histories" jsonschema:"one of each audience of its views"`
	Truncated bool                 `json:"truncated" jsonschema:"older windows may be stored"`
}

func (a *assistant) agentHistory(ctx context.Context, q agentHistoryQuestion) (out agentHistoryAnswer, err error) {
	if q.Agent == "" {
		return out, errors.New("agent: missing; the tool agents lists them")
	}
	err = a.ask(ctx, q.series, analytics.Day, func(from sinks.Sink, s query.Selection) error {
		all, err := query.AgentHistories(ctx, from, q.Agent, q.options(s, a.Now()))
		if err == nil {
			out = agentHistoryAnswer{ruled{agentRule}, all, len(all[0].Windows) >= int(q.Limit)}
		}
		return err
	})
	return out, err
}
