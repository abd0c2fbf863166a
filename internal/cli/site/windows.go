package site

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
	"github.com/docgauge/docgauge/internal/site/serve"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// windows shows the facts of a store as a sink of which pages can be made: the windows of the reports visitors, agents
// and sources that logs cover. Their rows are counted when they are read. Nothing can be written to it.
type windows struct {
	store *facts.Store
	at    time.Time // when the windows were counted
	mode  analytics.Humans
	end   analytics.Date // exclusive
	all   []analytics.Revision

	mu   sync.Mutex
	read []reading // the last windows whose rows were counted, newest first
}

// recentlyRead is the number of windows whose rows are in memory: a list compares two.
const recentlyRead = 2

// errReadOnly: the windows come from logs.
var errReadOnly = errors.New("the windows of logs cannot be written")

// lateEnough is the time of day from which on a last line may be the last of its day: a day that was cut before would
// look like a fall.
const lateEnough = 21 * time.Hour

// countWindows counts the windows that end by the last whole day of the logs.
func countWindows(
	ctx context.Context, k count.Kept, store *facts.Store, mode analytics.Humans, now time.Time,
) (*windows, error) {
	s := &windows{store: store, at: now, mode: mode,
		end: min(analytics.DateOf(now), analytics.DateOf(k.Newest.Add(24*time.Hour-lateEnough)))}
	for _, project := range k.Projects {
		if err := s.count(ctx, project); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// count adds the windows of a project: each day, week and month from the first day with facts on, as the API answers
// them, and, without a month, all days together. A first day that is not over is shown so far.
func (s *windows) count(ctx context.Context, project string) error {
	end := s.end
	first, err := s.store.FirstDay(ctx, project, math.MinInt32, end)
	if err != nil || first == nil {
		return err
	}
	kinds := []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month}
	if days := end - *first; days > 1 && days <= serve.LongestWindow && len(within(analytics.Month, *first, end)) == 0 &&
		(days != 7 || len(within(analytics.Week, *first, end)) == 0) {
		kinds = append(kinds, analytics.Granularity(fmt.Sprintf("%dd", days)))
	}
	for _, kind := range kinds {
		found := within(kind, *first, end)
		isOver := end > *first
		if !isOver && kind == analytics.Day { // so far
			found = []analytics.Window{{From: *first, To: *first + 1}}
		}
		for _, w := range found {
			key := analytics.Key{Project: project, Granularity: kind, Window: w}
			a, err := s.store.CountVisitors(ctx, project, w.From, w.To, s.mode)
			if err != nil {
				return err
			}
			rev := analytics.Revision{Key: key, Number: 1, Settled: isOver, Verified: true, Totals: a.Totals, Humans: s.mode,
				Rows: int64(len(a.Rows)), ExportedAt: s.at}
			s.all = append(s.all, rev)
			rev.Totals, rev.Rows = analytics.Totals{}, 0 // of the others the totals are rows
			for _, rev.Report = range []analytics.Report{analytics.AgentsReport, analytics.SourcesReport} {
				s.all = append(s.all, rev)
			}
		}
	}
	return nil
}

func within(kind analytics.Granularity, from, to analytics.Date) []analytics.Window {
	return slices.Collect(schedule.Within(kind, from, to))
}

// reading is a window with its rows.
type reading struct {
	revision analytics.Revision
	rows     iter.Seq2[analytics.Record, error]
}

func (r reading) Revision() analytics.Revision             { return r.revision }
func (r reading) Rows() iter.Seq2[analytics.Record, error] { return r.rows }
func (r reading) Open() (io.ReadCloser, error)             { return nil, errReadOnly }

func (s *windows) Window(ctx context.Context, rev analytics.Revision, _ string) (sinks.Sealed, func() error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := func() error { return nil }
	for _, w := range s.read {
		if w.revision.Key == rev.Key {
			return w, done, nil
		}
	}
	i := slices.IndexFunc(s.all, func(known analytics.Revision) bool { return known.Key == rev.Key })
	if i < 0 {
		return nil, nil, fmt.Errorf("the logs have no window %s", rev.Key)
	}
	rows, err := s.rowsOf(ctx, rev.Key)
	if err != nil {
		return nil, nil, err
	}
	w := reading{s.all[i], rows}
	s.read = append([]reading{w}, s.read[:min(len(s.read), recentlyRead-1)]...)
	return w, done, nil
}

// rowsOf counts the rows of a window.
func (s *windows) rowsOf(ctx context.Context, k analytics.Key) (iter.Seq2[analytics.Record, error], error) {
	switch k.Report {
	case analytics.AgentsReport:
		a, err := s.store.CountAgents(ctx, k.Project, k.From, k.To, s.mode)
		return records(err, a.Totals, a.Rows)
	case analytics.SourcesReport:
		a, err := s.store.CountSources(ctx, k.Project, k.From, k.To, s.mode)
		return records(err, a.Totals, a.Rows)
	}
	a, err := s.store.CountVisitors(ctx, k.Project, k.From, k.To, s.mode)
	slices.SortFunc(a.Rows, func(x, y analytics.Row) int { return strings.Compare(x.Path, y.Path) })
	return records(err, a.Rows)
}

func records[R analytics.RowType](err error, lists ...[]R) (iter.Seq2[analytics.Record, error], error) {
	return analytics.Records(func(yield func(R, error) bool) {
		for _, list := range lists {
			for _, row := range list {
				if !yield(row, nil) {
					return
				}
			}
		}
	}), err
}

// top returns the first rows of a window, as its gauges show them, and how many others there are.
func (s *windows) top(ctx context.Context, rev analytics.Revision, n int) (w view.RowsWindow, err error) {
	w.Revision = rev
	err = sinks.Read(ctx, s, rev, "", func(window sinks.Sealed) (err error) {
		w.Rows, w.More, err = rev.Report.Shape().Top(window.Rows(), n)
		return err
	})
	return w, err
}

func (s *windows) Inspect(_ context.Context, scope sinks.Scope) iter.Seq2[sinks.Shown, error] {
	return func(yield func(sinks.Shown, error) bool) {
		for _, rev := range s.all {
			if scope.Has(rev.Key) && !yield(sinks.Shown{Revision: rev}, nil) {
				return
			}
		}
	}
}

func (s *windows) Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return sinks.List(ctx, s)
}

func (s *windows) Name() string                                { return "logs" }
func (s *windows) Location() string                            { return "of the logs" }
func (s *windows) Check(context.Context) error                 { return errReadOnly }
func (s *windows) Replace(context.Context, sinks.Sealed) error { return errReadOnly }
func (s *windows) Close() error                                { return nil }
