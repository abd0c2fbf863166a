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
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// HistoryOptions select the numbers of a history.
type HistoryOptions struct {
	Selection Selection
	// Page is a path, which may be empty; nil: the whole site.
	Page *string
	// Last is the number of windows, the newest.
	Last int
	// Since and Until leave out the windows that begin before the one or end after the other; nil: none.
	Since, Until *analytics.Date
	// Open are the running windows, of which only totals are known.
	Open []analytics.OpenWindow
	// Today decides which windows are complete.
	Today analytics.Date
}

// HistoryReport has the windows of one project, oldest first, including those that the
// archive lacks. Its JSON keys are stable.
type HistoryReport struct {
	Project     string                `json:"project"`
	ProjectName string                `json:"project_name,omitempty"`
	Granularity analytics.Granularity `json:"granularity"`
	// Path is null for the whole site.
	Path    *string         `json:"path"`
	Windows []HistoryWindow `json:"windows"`
	// Open are the totals of the running window so far; null for a page, or if they are not known.
	Open *analytics.OpenWindow `json:"open"`
	// NewerMissing counts the complete windows after those, which the archive lacks.
	NewerMissing int `json:"newer_windows_missing"`
}

// Missing is the state of a window that the archive lacks.
const Missing = "missing"

// HistoryWindow is one window. Unknown numbers are null.
type HistoryWindow struct {
	analytics.Window
	HistoryNumbers
}

// HistoryNumbers are the numbers of one window of a history.
type HistoryNumbers struct {
	State    string `json:"state"` // settled, provisional or Missing
	Verified *bool  `json:"verified"`
	Revision *int32 `json:"revision"`
	// Absent: the rows of the window are known, and the page is not among them.
	Absent bool `json:"absent"`
	// Humans is the mode by which people are counted; absent where the service does not say.
	Humans   analytics.Humans  `json:"humans,omitempty"`
	Visitors *analytics.Totals `json:"visitors" api:"inline"`
	// People are the people of the site, where windows of agents are exported too; null for a page.
	People *view.People `json:"people"`
	// AIShare is the share of AI agents among the visitors, in percent.
	AIShare *float64 `json:"ai_share_percent"`
	// Previous are the visitors in the window of [analytics.Granularity.ComparedWith], and Change is the change of all
	// visitors since then; null where that window counts people by another mode.
	Previous *analytics.Totals `json:"previous"`
	Change   *int64            `json:"change"`
	Percent  *float64          `json:"change_percent"`
}

// Histories returns the history of each project; with a page, of those that have it in one
// of the windows. What could be read comes with the error of what could not. An
// UnknownProjectError concerns the question.
func Histories(ctx context.Context, from sinks.Sink, o HistoryOptions) ([]HistoryReport, error) {
	all, err := o.Selection.find(ctx, from)
	if err != nil {
		return nil, err
	}
	known := false // the rows of any window
	out, err := ofEach(all, func(s series) ([]HistoryReport, error) {
		h, err := o.report(ctx, from, s)
		has := func(w HistoryWindow) bool { return w.Visitors != nil }
		known = known || slices.ContainsFunc(h.Windows, func(w HistoryWindow) bool { return w.Absent || has(w) })
		if o.Page != nil && !slices.ContainsFunc(h.Windows, has) {
			return nil, err
		}
		return []HistoryReport{h}, err
	})
	switch {
	case err != nil || len(out) > 0:
		return out, err
	case !known:
		last, _ := all[0].newest(func(analytics.Window, reading) bool { return true })
		return nil, o.Selection.totalsOnly(ctx, from, all[0].windows[last].rev)
	}
	var unknown UnknownError
	unknown.Similar, err = o.similar(ctx, from, all)
	near := ""
	if unknown.Similar != "" {
		near = "did you mean " + unknown.Similar + "? "
	}
	unknown.text = fmt.Sprintf("page %.200q has no row in the %s windows asked for: %spaths are exact, "+
		"and `docgauge top --prefix` lists them", *o.Page, o.Selection.Granularity, near)
	return nil, errors.Join(unknown, err)
}

// similar returns the path in the newest windows that is most like the page, and like it enough to
// be meant; empty: there is none.
func (o HistoryOptions) similar(ctx context.Context, from sinks.Sink, all []series) (found string, err error) {
	plain := func(path string) string { return strings.ToLower(strings.Trim(path, "/")) }
	wanted, fewest := plain(*o.Page), 3
	for _, s := range all {
		w, ok := s.newest(func(_ analytics.Window, r reading) bool { return r.err == nil && !r.rev.TotalsOnly() })
		if !ok {
			continue
		}
		rev := s.windows[w].rev
		err = errors.Join(err, EachRow(ctx, from, &rev, func(row analytics.Row) bool {
			path := plain(row.Path)
			if len(path) > fewest && max(len(path)-len(wanted), len(wanted)-len(path)) < fewest {
				if n := format.Edits(wanted, path); n < fewest {
					found, fewest = row.Path, n
				}
			}
			return fewest > 0
		}))
	}
	return found, err
}

func (o HistoryOptions) report(ctx context.Context, from sinks.Sink, s series) (h HistoryReport, err error) {
	g := o.Selection.Granularity
	h = HistoryReport{Project: s.project, ProjectName: o.Selection.Names[s.project], Granularity: g, Path: o.Page}
	all, missing, err := o.windows(s)
	if h.NewerMissing = missing; err != nil {
		return h, err
	}
	for _, open := range o.Open {
		if o.Page == nil && open.Project == s.project && open.Granularity == g && open.To > o.Today {
			h.Open = &open
		}
	}
	temporary, people := "", map[analytics.Window]*view.People{}
	if o.Page != nil {
		temp, none := durable.NewTemp("", "docgauge-query")
		if none != nil {
			return h, none
		}
		defer func() { err = errors.Join(err, temp.Remove()) }()
		temporary = temp.Path
	} else {
		keys := map[analytics.Key]bool{}
		for _, w := range all {
			keys[analytics.Key{Project: s.project, Granularity: g, Window: w}] = true
		}
		if people, err = peopleOf(ctx, from, keys); err != nil {
			return h, err
		}
	}
	visitors := o.visitors(ctx, from, s, temporary)
	for _, w := range all {
		step := HistoryWindow{w, HistoryNumbers{State: Missing}}
		var err error
		if _, known := s.windows[w]; known {
			if step.Visitors, err = visitors(w); err != nil {
				return h, err
			}
			rev := s.windows[w].rev
			step.State, step.Verified, step.Revision = rev.State(), &rev.Verified, &rev.Number
			step.Humans, step.People = rev.Humans, people[w]
			if step.Visitors != nil {
				step.AIShare = share(*step.Visitors)
			}
			step.Absent = step.Visitors == nil && !rev.TotalsOnly()
		}
		if former, known := s.endingAt(g.ComparedWith(w).To); known {
			before, err := visitors(former)
			if err != nil {
				return h, err
			}
			step.Previous = before
			if !s.windows[former].rev.Comparable(s.windows[w].rev) {
				step.Previous = nil
			} else if before != nil && step.Visitors != nil {
				change := step.Visitors.Total - before.Total
				step.Change, step.Percent = &change, Percent(before.Total, step.Visitors.Total)
			}
		}
		h.Windows = append(h.Windows, step)
	}
	return h, nil
}

// windows returns the last windows up to the newest in the archive, and those between them that it lacks,
// oldest first; newer counts the complete ones after those.
func (o HistoryOptions) windows(s series) (all []analytics.Window, newer int, err error) {
	g := o.Selection.Granularity
	first, last := s.span()
	// Rolling windows that end later may begin earlier.
	for w := range schedule.Within(g, last-analytics.Date(g.RollingDays()), o.Today) {
		if w.To <= last {
			break
		}
		newer++
	}
	begin, end := first, last
	if o.Since != nil {
		begin = max(begin, *o.Since)
	}
	if o.Until != nil {
		end = min(end, *o.Until)
	}
	all = slices.Collect(maps.Keys(s.windows))
	all = slices.DeleteFunc(all, func(w analytics.Window) bool { return w.From < begin || w.To > end })
	n := 0
	for w := range schedule.Within(g, begin, end) {
		if _, known := s.windows[w]; !known {
			all = append(all, w)
		}
		if n++; n == o.Last {
			break
		}
	}
	if len(all) == 0 {
		return nil, newer, s.lacksDates(g, o.Since, o.Until)
	}
	slices.SortFunc(all, func(a, b analytics.Window) int {
		return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From))
	})
	return all[max(0, len(all)-o.Last):], newer, nil
}

// pathReader is a window that reads the row of one path in less time than all rows.
type pathReader interface {
	RowsOf(path string) iter.Seq2[analytics.Record, error]
}

// visitors returns a function that returns the visitors of the site, or of the page, in a
// window; nil if they are not known, or if the page has no row. It reads the rows of each
// window once, in a temporary directory for all, and enters the reading that it found.
func (o HistoryOptions) visitors(
	ctx context.Context, from sinks.Sink, s series, temporary string,
) func(analytics.Window) (*analytics.Totals, error) {
	known := map[analytics.Window]*analytics.Totals{}
	return func(window analytics.Window) (found *analytics.Totals, err error) {
		r := s.windows[window]
		if v, ok := known[window]; ok || r.err != nil {
			return v, r.err
		}
		defer func() { s.windows[window], known[window] = r, found }()
		switch {
		case o.Page == nil:
			return &r.rev.Totals, nil
		case r.rev.TotalsOnly():
			return nil, nil
		}
		w, done, err := from.Window(ctx, r.rev, temporary)
		if err != nil {
			return nil, err
		}
		r.rev = w.Revision()
		rows := checked(ctx, from, w, func(w sinks.Sealed) iter.Seq2[analytics.Row, error] {
			if w, ok := w.(pathReader); ok {
				return analytics.Rows[analytics.Row](w.RowsOf(*o.Page))
			}
			return sinks.RowsOf[analytics.Row](w)
		})
		err = forEachOf(rows, done, func(row analytics.Row) bool {
			if row.Path == *o.Page {
				found = &row.Totals
			}
			return row.Path < *o.Page
		})
		return found, err
	}
}
