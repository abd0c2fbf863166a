package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// HistoryOptions say which numbers are asked for.
type HistoryOptions struct {
	Selection Selection
	// Page is a path; empty: the whole site.
	Page string
	// Last is how many windows, the newest.
	Last int
	// Today tells which windows are complete.
	Today analytics.Date
}

// History is the numbers of one project from window to window.
type History struct {
	Project string
	// Steps are its windows, oldest first, those included that the archive lacks.
	Steps []Step
	// Newer counts the complete windows after them, which the archive lacks.
	Newer int
}

// Step is one window of a history.
type Step struct {
	analytics.Window
	// Revision is its reading; nil: the archive lacks it.
	Revision *analytics.Revision
	// Visitors are those of the site, or of the page; nil: they are not known, or the
	// page has no row in this window.
	Visitors *analytics.Totals
	// Before are those of the window that ends where this one begins; nil as above.
	Before *analytics.Totals
}

// Absent reports whether the rows of the window are known, and the page is not among them.
func (s Step) Absent() bool {
	return s.Visitors == nil && s.Revision != nil && !s.Revision.TotalsOnly()
}

// Histories returns the history of each project; with a page, of those that have it in one
// of the windows. What it could read comes with the error of what it could not. An
// UnknownProjectError concerns the question.
func Histories(ctx context.Context, from sinks.Sink, o HistoryOptions) ([]History, error) {
	all, err := o.Selection.find(ctx, from)
	if err != nil {
		return nil, err
	}
	var out []History
	var errs []error
	rows := false // of any window are known
	for _, s := range all {
		h, err := o.read(ctx, from, s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		rows = rows || slices.ContainsFunc(h.Steps, func(s Step) bool { return s.Revision != nil && !s.Revision.TotalsOnly() })
		if o.Page == "" || slices.ContainsFunc(h.Steps, func(s Step) bool { return s.Visitors != nil }) {
			out = append(out, h)
		}
	}
	switch err := errors.Join(errs...); {
	case err != nil || len(out) > 0:
		return out, err
	case !rows:
		return nil, fmt.Errorf("only the totals of %s windows were read, so no page of them is known", o.Selection.Granularity)
	}
	return nil, fmt.Errorf("page %.200q has no row in the windows asked for, --window %s --last %d: paths are exact, and `docgauge top --prefix` lists them", o.Page, o.Selection.Granularity, o.Last)
}

func (o HistoryOptions) read(ctx context.Context, from sinks.Sink, s series) (History, error) {
	h := History{Project: s.project}
	_, last := s.span()
	// Rolling windows that end later may begin earlier.
	for w := range schedule.Within(o.Selection.Granularity, last-analytics.Date(o.Selection.Granularity.RollingDays()), o.Today) {
		if w.To <= last {
			break
		}
		h.Newer++
	}
	visitors := o.visitors(ctx, from, s)
	for _, w := range o.windows(s) {
		step := Step{Window: w}
		var err error
		if _, known := s.windows[w]; known {
			if step.Visitors, err = visitors(w); err != nil {
				return h, err
			}
			rev := s.windows[w].rev
			step.Revision = &rev
		}
		if before, known := s.endingAt(w.From); known {
			if step.Before, err = visitors(before); err != nil {
				return h, err
			}
		}
		h.Steps = append(h.Steps, step)
	}
	return h, nil
}

// windows returns the last windows up to the newest that is known, oldest first, and
// those between them that should be there.
func (o HistoryOptions) windows(s series) []analytics.Window {
	all := slices.Collect(maps.Keys(s.windows))
	first, last := s.span()
	n := 0
	for w := range schedule.Within(o.Selection.Granularity, first, last) {
		if _, known := s.windows[w]; !known {
			all = append(all, w)
		}
		if n++; n == o.Last {
			break
		}
	}
	slices.SortFunc(all, func(a, b analytics.Window) int { return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From)) })
	return all[max(0, len(all)-o.Last):]
}

// visitors returns a function that tells the visitors of the site, or of the page, in a
// window. It reads the rows of each window once.
func (o HistoryOptions) visitors(ctx context.Context, from sinks.Sink, s series) func(analytics.Window) (*analytics.Totals, error) {
	known := map[analytics.Window]*analytics.Totals{}
	return func(w analytics.Window) (*analytics.Totals, error) {
		r := s.windows[w]
		if v, ok := known[w]; ok || r.err != nil {
			return v, r.err
		}
		v := &r.rev.Totals
		if o.Page != "" {
			var err error
			if v, err = row(ctx, from, &r.rev, o.Page); err != nil {
				return nil, err
			}
			s.windows[w] = r
		}
		known[w] = v
		return v, nil
	}
}

// row returns the visitors of a page in a window; nil if they are not known, or if it has
// no row. The reading becomes the one that was read.
func row(ctx context.Context, from sinks.Sink, rev *analytics.Revision, path string) (found *analytics.Totals, err error) {
	if rev.TotalsOnly() {
		return nil, nil
	}
	rows, done, err := Rows(ctx, from, rev)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	for row, err := range rows {
		if err != nil {
			return nil, err
		}
		if row.Path == path {
			visitors := row.Totals()
			return &visitors, nil
		}
		if row.Path > path {
			break
		}
	}
	return nil, nil
}
