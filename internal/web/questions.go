package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// Archive calls a function with the archive, which is open until that returns.
type Archive func(func(sinks.Sink) error) error

// ask opens the archive for one question, which may take askTimeout.
func (a Archive) ask(ctx context.Context, question func(context.Context, sinks.Sink) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, errTooLong)
	defer cancel()
	select {
	case asked <- struct{}{}:
		defer func() { <-asked }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := a(func(from sinks.Sink) error { return question(ctx, unnamed{from}) })
	if err != nil && ctx.Err() != nil { // a sink may give another error
		return context.Cause(ctx)
	}
	return err
}

// asked bounds the questions that are answered at a time, because each may read a hundred windows.
var asked = make(chan struct{}, 4)

// errTooLong is why a question ends after askTimeout.
var errTooLong = fmt.Errorf("the archive did not answer within %.0f seconds: ask for fewer windows "+
	"(limit, from, to)", askTimeout.Seconds())

// unnamed is an archive whose messages do not name its place on this machine.
type unnamed struct{ sinks.Sink }

func (unnamed) Location() string { return "of this server" }

// archiveProblem returns how a question without an answer is answered.
func archiveProblem(err error) (code int, message string) {
	none, is := errors.AsType[query.NoAnswerError](err)
	switch {
	case is:
		return http.StatusNotFound, none.Error()
	case errors.Is(err, errTooLong):
		return http.StatusGatewayTimeout, errTooLong.Error()
	}
	return http.StatusInternalServerError, "the archive cannot be read: docgauge verify says why"
}

// listed are rows, and whether there are more after them.
type listed struct {
	rows []any
	more bool
}

// each asks about each project that was asked for. Of several projects some may have no answer.
func (a Archive) each(
	ctx context.Context, s *view.Snapshot, q question,
	ask func(context.Context, sinks.Sink, query.Selection) (listed, error),
) (out []any, more bool, err error) {
	projects := slices.DeleteFunc(slices.Clone(s.Projects), func(p view.Project) bool {
		return q.project != "" && q.project != p.ID
	})
	if len(projects) == 0 {
		return nil, false, nil
	}
	answered := false
	var none, absent error // of a project without an answer, of one that the archive lacks
	err = a.ask(ctx, func(ctx context.Context, from sinks.Sink) (failed error) {
		for _, p := range projects {
			version := versionOf(from, pageInputs{q.today, p, s.Outcomes.Of(p.ID)})
			name := fmt.Sprintf("%s %s %s %s %d", q.list, p.ID, q.window, q.values.Encode(), version)
			found, err := answer(ctx, from, name, func(l listed) bool { return len(l.rows) <= maxKeptRows },
				func() (listed, error) {
					return ask(ctx, from, query.Selection{Granularity: q.window, Projects: []string{p.ID}})
				})
			out, more = append(out, found.rows...), more || found.more
			if unknown, ok := errors.AsType[query.UnknownProjectError](err); ok {
				absent = cmp.Or(absent, error(query.NoAnswerError(unknown)))
			} else if _, ok := errors.AsType[query.NoAnswerError](err); ok {
				none = cmp.Or(none, err)
			} else {
				answered = answered || err == nil
				failed = cmp.Or(failed, err)
			}
		}
		return failed
	})
	if err == nil && !answered {
		err = cmp.Or(none, absent)
	}
	return out, more, err
}

// pages returns the pages of windows: from the snapshot what that has, else from the archive.
func (a Archive) pages(ctx context.Context, s *view.Snapshot, q question) (out []any, more bool, _ error) {
	kinds := []analytics.Granularity{cmp.Or(q.window, analytics.Week)}
	if !slices.ContainsFunc([]string{"at", "from", "to", "list", "by", "prefix", "path", "offset"}, q.values.Has) {
		rows, all := pageRows(s, q)
		if all {
			return rows, false, nil
		}
		if q.window == "" {
			kinds = kindsOf(s, q.project)
		}
	}
	var none error
	for _, q.window = range kinds {
		rows, isMore, err := a.each(ctx, s, q, func(
			ctx context.Context, from sinks.Sink, selection query.Selection) (l listed, err error) {
			all, err := query.Top(ctx, from, query.Choice{Selection: selection, At: q.at, Since: q.from, Until: q.to,
				Today: q.today}, q.ranking)
			for _, r := range all {
				l.rows = append(l.rows, r.Table()...)
				l.more = l.more || q.path == nil && int64(q.offset+len(r.Pages)) < r.Listed
			}
			return l, err
		})
		out, more = append(out, rows...), more || isMore
		if _, ok := errors.AsType[query.NoAnswerError](err); ok {
			none = cmp.Or(none, err)
		} else if err != nil {
			return nil, false, err
		}
	}
	if len(out) > 0 {
		none = nil
	}
	return out, more, none
}

// kindsOf are the granularities of which pages of a project, or of all, are read.
func kindsOf(s *view.Snapshot, project string) (out []analytics.Granularity) {
	for _, p := range s.Projects {
		for _, g := range p.Grids {
			if (project == "" || p.ID == project) && !g.TotalsOnly && g.Newest != nil &&
				!slices.Contains(out, g.Granularity) {
				out = append(out, g.Granularity)
			}
		}
	}
	return out
}

// history returns the windows of a page or of the site.
func (a Archive) history(ctx context.Context, s *view.Snapshot, q question) (out []any, more bool, err error) {
	q.window = cmp.Or(q.window, analytics.Day)
	return a.each(ctx, s, q, func(
		ctx context.Context, from sinks.Sink, selection query.Selection) (l listed, err error) {
		all, err := query.Histories(ctx, from, query.HistoryOptions{Selection: selection, Page: q.path,
			Last: q.limit, Since: q.from, Until: q.to, Today: q.today})
		for _, h := range all {
			l.rows = append(l.rows, historyRows(h)...)
		}
		return l, err
	})
}

// agents returns agents of windows, pages of one, or misses.
func (a Archive) agents(ctx context.Context, s *view.Snapshot, q question) (out []any, more bool, err error) {
	q.window = cmp.Or(q.window, analytics.Week)
	return a.each(ctx, s, q, func(
		ctx context.Context, from sinks.Sink, selection query.Selection) (l listed, err error) {
		all, err := query.Agents(ctx, from, query.Choice{Selection: selection, At: q.at, Since: q.from,
			Until: q.to, Today: q.today}, q.agents)
		for _, r := range all {
			view.AddRedirects(r.Misses, r.Project, r.Window, s.Outcomes.Rules())
			rows := r.Table()
			l.rows, l.more = append(l.rows, rows...), l.more || int64(q.offset+len(rows)) < r.Count
		}
		return l, err
	})
}

// agentHistory returns the windows of an agent.
func (a Archive) agentHistory(ctx context.Context, s *view.Snapshot, q question) (out []any, more bool, err error) {
	q.window = cmp.Or(q.window, analytics.Day)
	return a.each(ctx, s, q, func(
		ctx context.Context, from sinks.Sink, selection query.Selection) (l listed, err error) {
		all, err := query.AgentHistories(ctx, from, q.agents.Agent, query.HistoryOptions{Selection: selection,
			Page: q.path, Last: q.limit, Since: q.from, Until: q.to, Today: q.today})
		for _, h := range all {
			l.rows = append(l.rows, h.Table()...)
		}
		return l, err
	})
}

// endpointsOf are the lists of a report that has no list of another kind: its rows, and their history.
func (a Archive) endpointsOf(report analytics.Report) []endpoint {
	rows := endpoint{name: report.String(), rows: report.Shape().About, limit: 20, report: report,
		parameters: []string{"project", "window", "at", "from", "to", "by", "prefix", "path", "offset"},
		empty:      query.RankedRow{Key: analytics.Key{Report: report}}, find: a.rows}
	history := endpoint{name: report.String() + "_history", rows: report.Shape().About + ", oldest first", limit: 30,
		report: report, parameters: []string{"project", "window", "path", "from", "to"},
		empty: query.RowHistoryWindow{Key: analytics.Key{Report: report}}, find: a.rowHistory}
	if report.Shape().Site {
		rows.parameters = append(rows.parameters, report.Shape().Noun())
		history.parameters = append(history.parameters, report.Shape().Noun())
	}
	return []endpoint{rows, history}
}

// rows returns rows of a report.
func (a Archive) rows(ctx context.Context, s *view.Snapshot, q question) (out []any, more bool, err error) {
	q.window = cmp.Or(q.window, newestKind(s, q.rows.Report))
	return a.each(ctx, s, q, func(
		ctx context.Context, from sinks.Sink, selection query.Selection) (l listed, err error) {
		all, err := query.Rows(ctx, from, query.Choice{Selection: selection, At: q.at, Since: q.from, Until: q.to,
			Today: q.today}, q.rows)
		for _, r := range all {
			rows := r.Table()
			l.rows, l.more = append(l.rows, rows...), l.more || int64(q.offset+len(rows)) < r.Count
		}
		return l, err
	})
}

// newestKind is week, or the first granularity of which a report has a window if it has none of weeks.
func newestKind(s *view.Snapshot, report analytics.Report) analytics.Granularity {
	kinds := []analytics.Granularity{}
	for _, w := range s.Others {
		if w.Report == report {
			kinds = append(kinds, w.Granularity)
		}
	}
	if len(kinds) == 0 || slices.Contains(kinds, analytics.Week) {
		return report.UsualWindow(analytics.Week)
	}
	return kinds[0]
}

// rowHistory returns the windows of rows of a name, or of a page or the site.
func (a Archive) rowHistory(ctx context.Context, s *view.Snapshot, q question) (out []any, more bool, err error) {
	q.window = cmp.Or(q.window, analytics.Day)
	return a.each(ctx, s, q, func(
		ctx context.Context, from sinks.Sink, selection query.Selection) (l listed, err error) {
		all, err := query.RowHistories(ctx, from, q.rows.Report, q.rows.Name, query.HistoryOptions{Selection: selection,
			Page: q.path, Last: q.limit, Since: q.from, Until: q.to, Today: q.today})
		for _, h := range all {
			l.rows = append(l.rows, h.Table()...)
		}
		return l, err
	})
}
