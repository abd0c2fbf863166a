package history

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
)

// timeline is what one project and granularity show: spans in order of time,
// none of which overlap.
type timeline struct {
	project     string
	granularity analytics.Granularity
	spans       []span
}

// span is a window that is shown at the times from <= t < to, in seconds since
// 1970.
type span struct {
	*analytics.Revision
	from, to int64
	// previous is the window that ends where this one begins, shown or not; nil
	// where the archive lacks it.
	previous *analytics.Revision
	pages    []analytics.Row // those with the most visitors
}

// newTimelines orders windows by project and granularity, and cuts what they
// show to from <= t < to. Windows that are not shown then are left out. The spans
// share the revisions with revs.
func newTimelines(revs []analytics.Revision, from, to int64) []timeline {
	slices.SortFunc(revs, func(a, b analytics.Revision) int { return compareEnds(a, b.Key) })
	var lines []timeline
	for i := range revs {
		rev := &revs[i]
		s := span{Revision: rev, from: max(rev.To.Time().Unix(), from), to: to, previous: before(revs, rev.Key)}
		if i+1 < len(revs) && compareLines(rev.Key, revs[i+1].Key) == 0 {
			s.to = min(to, revs[i+1].To.Time().Unix())
		}
		if s.from >= s.to {
			continue
		}
		if n := len(lines); n == 0 || lines[n-1].project != rev.Project || lines[n-1].granularity != rev.Granularity {
			lines = append(lines, timeline{project: rev.Project, granularity: rev.Granularity})
		}
		last := &lines[len(lines)-1]
		last.spans = append(last.spans, s)
	}
	return lines
}

// before finds the window that ends where k begins; nil where there is none.
func before(revs []analytics.Revision, k analytics.Key) *analytics.Revision {
	k.To = k.From
	i, found := slices.BinarySearchFunc(revs, k, compareEnds)
	if !found {
		return nil
	}
	return &revs[i]
}

// compareEnds orders windows by project, granularity and end.
func compareEnds(a analytics.Revision, b analytics.Key) int {
	return cmp.Or(compareLines(a.Key, b), cmp.Compare(a.To, b.To))
}

func compareLines(a, b analytics.Key) int {
	return cmp.Or(strings.Compare(a.Project, b.Project), strings.Compare(string(a.Granularity), string(b.Granularity)))
}

// point is the value that a series has during a span.
type point struct {
	*span
	value int64
}

// values are the points of a series that every span has, unless value says no.
func (l timeline) values(value func(*span) (v int64, ok bool)) iter.Seq[point] {
	return func(yield func(point) bool) {
		for i := range l.spans {
			s := &l.spans[i]
			if v, ok := value(s); ok && !yield(point{s, v}) {
				return
			}
		}
	}
}

// visit is one page in one span.
type visit struct {
	span *span
	row  analytics.Row
}

// byPath returns the visits of each page, in order of time.
func (l timeline) byPath() map[string][]visit {
	pages := map[string][]visit{}
	for i := range l.spans {
		s := &l.spans[i]
		for _, row := range s.pages {
			path := exporter.Label(row.Path)
			pages[path] = append(pages[path], visit{s, row})
		}
	}
	return pages
}
