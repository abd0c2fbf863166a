package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// timeline is what one project shows of one report and granularity: spans in order of time that do
// not overlap.
type timeline []span

// span is a window that is shown at the times from <= t < to, in seconds since 1970.
type span struct {
	*analytics.Revision
	from, to int64
	// previous is the window that it is compared with, shown or not; nil: the archive
	// lacks it, or it counts people by another mode.
	previous *analytics.Revision
	rows     []analytics.Record // the first ones of analytics.Shape.Top
	more     int                // how many others it has
}

// snapshot is what is shown of the window.
func (s *span) snapshot() *view.Snapshot {
	if s.Report != analytics.VisitorsReport {
		return &view.Snapshot{Others: []view.RowsWindow{{Revision: *s.Revision, Rows: s.rows, More: s.more}}}
	}
	w := view.Window{Revision: *s.Revision, Pages: analytics.RowsOf[analytics.Row](s.rows)}
	if s.previous != nil {
		w.Previous = &s.previous.Totals
	}
	return &view.Snapshot{Windows: []view.Window{w}}
}

// newTimelines orders windows by report, project and granularity, and limits their times to
// from <= t < to. Windows that are not shown then are left out. The spans share the
// revisions with revs.
func newTimelines(revs []analytics.Revision, from, to int64) []timeline {
	slices.SortFunc(revs, func(a, b analytics.Revision) int { return compareEnds(a, b.Key) })
	var all []timeline
	for i := range revs {
		rev := &revs[i]
		s := span{Revision: rev, from: max(rev.To.Time().Unix(), from), to: to}
		if i+1 < len(revs) && compareSeries(rev.Key, revs[i+1].Key) == 0 {
			s.to = min(to, revs[i+1].To.Time().Unix())
		}
		if s.from >= s.to {
			continue
		}
		former := rev.Key
		former.Window = rev.Granularity.ComparedWith(rev.Window)
		if at, found := slices.BinarySearchFunc(revs, former, compareEnds); found && revs[at].Comparable(*rev) {
			s.previous = &revs[at]
		}
		if n := len(all); n == 0 || compareSeries(all[n-1][0].Key, rev.Key) != 0 {
			all = append(all, nil)
		}
		last := &all[len(all)-1]
		*last = append(*last, s)
	}
	return all
}

// compareEnds orders windows by report, project, granularity and end.
func compareEnds(a analytics.Revision, b analytics.Key) int {
	return cmp.Or(compareSeries(a.Key, b), cmp.Compare(a.To, b.To))
}

func compareSeries(a, b analytics.Key) int {
	return cmp.Or(cmp.Compare(a.Report, b.Report), strings.Compare(a.Project, b.Project),
		strings.Compare(string(a.Granularity), string(b.Granularity)))
}

// series has the points in order of time that were not emitted yet.
type series struct {
	labels []string // name, value pairs, the metric's name as __name__ first
	help   string
	points []point
	begun  bool
}

// point is the value of a series at the times from <= t < to.
type point struct {
	from, to int64
	value    float64
}

// series are the series of a metric, by its labels; more are added to the labels.
func (l timeline) series(m exporter.Metric, more []string) (sorted []*series) {
	all := map[string]*series{}
	for i := range l {
		s := &l[i]
		for values, value := range m.Series(s.snapshot()) {
			key := strings.Join(values, "\xff")
			line := all[key]
			if line == nil {
				line = &series{labels: []string{"__name__", m.Name}, help: m.Help}
				for i, name := range m.Labels {
					line.labels = append(line.labels, name, values[i])
				}
				line.labels = append(line.labels, more...)
				all[key] = line
			}
			if n := len(line.points); n == 0 || line.points[n-1].from < s.from { // else a path that came twice
				line.points = append(line.points, point{s.from, s.to, value})
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		sorted = append(sorted, all[key])
	}
	return sorted
}
