// Package query answers questions about an archive: which pages were read most and which
// changed ([Top]), the numbers of a site or of one page window by window ([Histories]), and the
// same of agents, with the paths that they miss ([Agents], [AgentHistories]).
// The command, JSON, CSV and assistants show its reports.
//
// It hides how windows are found and their rows read side by side ([Compare], [CompareAgents]). It
// changes nothing and sends no request to the service. Unique visitors are never added up. A damaged
// window is an error if the answer needs it, and never left out silently. Memory is bounded
// by the windows listed and the pages asked for, not by the rows read; a question about one agent or
// about misses holds the rows of that agent, or the paths of a window.
package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// Selection selects windows.
type Selection struct {
	Granularity analytics.Granularity
	// report is the report that the question is about.
	report analytics.Report
	// Projects are the selected projects; empty: all projects of the archive.
	Projects []string
	// Order is the order of projects; others come after these, by name.
	Order []string
	// Names are the names of projects for people, by id.
	Names map[string]string
}

// UnknownProjectError is a selected project of which the archive has no window.
type UnknownProjectError string

func (e UnknownProjectError) Error() string { return string(e) }

// NoAnswerError says why an archive that can be read does not answer a question.
type NoAnswerError string

func (e NoAnswerError) Error() string { return string(e) }

func noAnswer(format string, args ...any) error { return NoAnswerError(fmt.Sprintf(format, args...)) }

// UnknownError is a page or a name that no window asked for has, or a window that the archive lacks. It is a
// NoAnswerError.
type UnknownError struct {
	// Similar is a path or a name that may be meant; empty: there is none.
	Similar string
	// Nearest is the window nearest to the day that was asked for; nil of other questions.
	Nearest *analytics.Window
	text    string
}

func (e UnknownError) Error() string { return e.text }

// Unwrap makes it the error that it also is.
func (e UnknownError) Unwrap() error { return NoAnswerError(e.text) }

// reading is one window of an archive, or why it cannot be read.
type reading struct {
	rev analytics.Revision
	err error
}

// series are the windows of one project, of the granularity asked for.
type series struct {
	project string
	windows map[analytics.Window]reading
}

// totalsOnly is the error that the pages of a window are not known, because only its totals were
// read. A longer window has at least the pages of a shorter one, which tells what they cost.
func (s Selection) totalsOnly(ctx context.Context, from sinks.Sink, rev analytics.Revision) error {
	shown := "`docgauge history --window %s` shows the totals"
	if s.report.Shape().Site {
		shown = "`docgauge top --by " + s.report.Shape().Noun() + " --window %s` shows the " + s.report.String() + " of the site"
	}
	var most int64
	for other, err := range s.list(ctx, from, sinks.Scope{Projects: []string{rev.Project}}) {
		if err == nil && other.Days() <= rev.Days() {
			most = max(most, other.Rows)
		}
	}
	g := rev.Granularity
	return noAnswer("%s: only its totals were read, so its pages are not known; "+shown+". "+
		"To read the pages too, put %s in place of %s:totals into DOCGAUGE_WINDOWS: "+
		"it costs %s or more for each window", rev.Key, g, g, g,
		format.Plural(schedule.Requests(most, analytics.PageRows), "request"))
}

// list returns the windows in scope of the report that the question is about.
func (s Selection) list(
	ctx context.Context, from sinks.Sink, scope sinks.Scope,
) iter.Seq2[analytics.Revision, error] {
	return sinks.ListIn(ctx, sinks.ReportOf(from, s.report), scope)
}

// find returns what the archive has of each project, in order. A project without a
// window is an error.
func (s Selection) find(ctx context.Context, from sinks.Sink) ([]series, error) {
	found := map[string]series{}
	scope := sinks.Scope{Projects: s.Projects, Granularities: []analytics.Granularity{s.Granularity}}
	for rev, err := range s.list(ctx, from, scope) {
		key := rev.Key
		if err != nil {
			fault, ok := errors.AsType[sinks.Fault](err)
			if !ok || fault.Key == (analytics.Key{}) {
				return nil, err
			}
			key = fault.Key
		}
		if found[key.Project].windows == nil {
			found[key.Project] = series{key.Project, map[analytics.Window]reading{}}
		}
		found[key.Project].windows[key.Window] = reading{rev, err}
	}
	for _, id := range s.Projects {
		if _, ok := found[id]; !ok {
			return nil, s.lacks(ctx, from, id)
		}
	}
	if len(found) == 0 {
		return nil, s.lacks(ctx, from, "")
	}
	ids := slices.Collect(maps.Keys(found))
	Sort(ids, s.Order)
	var out []series
	for _, id := range ids {
		out = append(out, found[id])
	}
	return out, nil
}

// ofEach asks about each project. What could be read comes with the errors of what could not.
func ofEach[R any](all []series, ask func(series) ([]R, error)) (out []R, err error) {
	var errs []error
	for _, s := range all {
		found, err := ask(s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, found...)
	}
	return out, errors.Join(errs...)
}

// Sort puts projects in order, in place; those that are not in it come last, by name.
func Sort(projects, order []string) {
	rank := func(id string) int {
		if i := slices.Index(order, id); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortFunc(projects, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
	})
}

// lacks is the error that the archive has no window of a project, or of any if the id is
// empty. It names what the archive has.
func (s Selection) lacks(ctx context.Context, from sinks.Sink, project string) error {
	var ids, kinds []string
	visitors := false
	for rev, err := range sinks.List(ctx, from) {
		if err != nil {
			return err
		}
		if rev.Report != s.report {
			visitors = true
			continue
		}
		ids = append(ids, rev.Project)
		if project == "" || rev.Project == project {
			kinds = append(kinds, string(rev.Granularity))
		}
	}
	slices.Sort(ids)
	slices.Sort(kinds)
	ids, kinds = slices.Compact(ids), slices.Compact(kinds)
	switch {
	case len(ids) == 0 && visitors:
		return noAnswer("the archive %s has no window of the report %s: set DOCGAUGE_REPORTS=visitors,%s and run "+
			"`docgauge export`; today only docgauge site and the sandbox offer that report", from.Location(),
			s.report, s.report)
	case len(ids) == 0:
		return NoWindows(from)
	case len(kinds) == 0:
		return UnknownProjectError(fmt.Sprintf("project %.140q has no window%s in the archive %s; %s",
			project, s.ofReport(), from.Location(), format.DidYouMean(project, ids)))
	}
	return noAnswer("the archive %s has no %s window%s%s; ask for a kind that it has: %s", from.Location(), s.Granularity,
		strings.TrimSuffix(" of "+project, " of "), s.ofReport(), strings.Join(kinds, ", "))
}

// NoWindows is the NoAnswerError of an archive without a window.
func NoWindows(from sinks.Sink) error {
	return noAnswer("the archive %s has no window: run `docgauge export` first (`docgauge plan` says what it "+
		"exports), or name another archive with --archive or DOCGAUGE_PARQUET_URL", from.Location())
}

// ofReport names a report other than visitors.
func (s Selection) ofReport() string {
	if s.report == analytics.VisitorsReport {
		return ""
	}
	return " of the report " + s.report.String()
}

// CheckProjects returns an UnknownProjectError for the first project of which the archive has
// no window, not even a damaged one.
func CheckProjects(ctx context.Context, from sinks.Sink, projects []string) error {
	for _, id := range projects {
		found := false
		for rev, err := range sinks.ListIn(ctx, from, sinks.Scope{Projects: []string{id}}) {
			fault, damaged := errors.AsType[sinks.Fault](err)
			if err != nil && !damaged {
				return err
			}
			if found = rev.Project == id || fault.Key.Project == id; found {
				break
			}
		}
		if !found {
			return Selection{}.lacks(ctx, from, id)
		}
	}
	return nil
}

// newest returns the window that ends last among those that satisfy keep.
func (s series) newest(keep func(analytics.Window, reading) bool) (found analytics.Window, ok bool) {
	for w, r := range s.windows {
		if keep(w, r) && (!ok || w.To > found.To) {
			found, ok = w, true
		}
	}
	return found, ok
}

// endingAt returns the window that ends at d.
func (s series) endingAt(d analytics.Date) (analytics.Window, bool) {
	return s.newest(func(w analytics.Window, _ reading) bool { return w.To == d })
}

// lacksDates is the error that no window lies inside some dates.
func (s series) lacksDates(g analytics.Granularity, since, until *analytics.Date) error {
	var asked []string
	if since != nil {
		asked = append(asked, "begins on or after "+since.String())
	}
	if until != nil {
		asked = append(asked, "ends by "+until.String())
	}
	first, last := s.span()
	return noAnswer("no %s window of %s in the archive %s; they reach from %s to %s (exclusive)",
		g, s.project, strings.Join(asked, " and "), first, last)
}

// span returns the dates that the windows cover, with gaps or without.
func (s series) span() (first, last analytics.Date) {
	for w := range s.windows {
		if first == 0 || w.From < first {
			first = w.From
		}
		last = max(last, w.To)
	}
	return first, last
}

// EachRow calls do with the rows of a window, sorted by path, until it returns false. An export may have replaced
// the window since it was listed: totals and rows must come from the same reading, so rev becomes the revision that
// is read.
func EachRow(ctx context.Context, from sinks.Sink, rev *analytics.Revision, do func(analytics.Row) bool) error {
	rows, done, err := windowOf(ctx, from, rev)
	if err != nil {
		return err
	}
	return forEachOf(rows, done, do)
}

// eachRecord is [EachRow] of any report.
func eachRecord(ctx context.Context, from sinks.Sink, rev *analytics.Revision, do func(analytics.Record) bool) error {
	rows, done, err := recordsOf(ctx, from, rev, sinks.Sealed.Rows)
	if err != nil {
		return err
	}
	return forEachOf(rows, done, do)
}

func forEachOf[R any](rows iter.Seq2[R, error], done func() error, do func(R) bool) (err error) {
	defer func() { err = errors.Join(err, done()) }()
	for row, err := range rows {
		if err != nil || !do(row) {
			return err
		}
	}
	return nil
}

// windowOf is [EachRow] for more than one window at a time. The function that it returns removes temporary files.
func windowOf(
	ctx context.Context, from sinks.Sink, rev *analytics.Revision,
) (iter.Seq2[analytics.Row, error], func() error, error) {
	return recordsOf(ctx, from, rev, sinks.RowsOf[analytics.Row])
}

// recordsOf is windowOf for the rows that a function returns.
func recordsOf[R any](
	ctx context.Context, from sinks.Sink, rev *analytics.Revision, rows func(sinks.Sealed) iter.Seq2[R, error],
) (iter.Seq2[R, error], func() error, error) {
	w, done, err := Open(ctx, from, *rev, "docgauge-query")
	if err != nil {
		return nil, nil, err
	}
	*rev = w.Revision()
	return checked(ctx, from, w, rows), done, nil
}

// checked yields the rows of a window that a function returns. Their errors name the window.
func checked[R any](
	ctx context.Context, from sinks.Sink, w sinks.Sealed, rows func(sinks.Sealed) iter.Seq2[R, error],
) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for row, err := range rows(w) {
			if err = cmp.Or(err, context.Cause(ctx)); err != nil {
				err = fmt.Errorf("%s in %s: %w", w.Revision().Key, from.Location(), err)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// Open opens a window as readers see it. Its copy is in a temporary directory, so that nothing is left where the
// process ends early; done removes it.
func Open(
	ctx context.Context, from sinks.Sink, rev analytics.Revision, temporary string,
) (_ sinks.Sealed, done func() error, _ error) {
	temp, err := durable.NewTemp("", temporary)
	if err != nil {
		return nil, nil, err
	}
	w, end, err := from.Window(ctx, rev, temp.Path)
	if err != nil {
		return nil, nil, errors.Join(err, temp.Remove())
	}
	return w, func() error { return errors.Join(end(), temp.Remove()) }, nil
}
