package history

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
)

// timeline is what one project and granularity show: spans in order of time that do
// not overlap.
type timeline struct {
	project     string
	granularity analytics.Granularity
	spans       []span
}

// span is a window that is shown at the times from <= t < to, in seconds since 1970.
type span struct {
	*analytics.Revision
	from, to int64
	// previous is the window that ends where this one begins, shown or not; nil: the
	// archive lacks it.
	previous *analytics.Revision
	pages    []analytics.Row // those with the most visitors
}

// newTimelines orders windows by project and granularity, and limits what they show to
// from <= t < to. Windows that are not shown then are left out. The spans share the
// revisions with revs.
func newTimelines(revs []analytics.Revision, from, to int64) []timeline {
	slices.SortFunc(revs, func(a, b analytics.Revision) int { return compareEnds(a, b.Key) })
	var all []timeline
	for i := range revs {
		rev := &revs[i]
		s := span{Revision: rev, from: max(rev.To.Time().Unix(), from), to: to, previous: before(revs, rev.Key)}
		if i+1 < len(revs) && compareSeries(rev.Key, revs[i+1].Key) == 0 {
			s.to = min(to, revs[i+1].To.Time().Unix())
		}
		if s.from >= s.to {
			continue
		}
		if n := len(all); n == 0 || all[n-1].project != rev.Project || all[n-1].granularity != rev.Granularity {
			all = append(all, timeline{project: rev.Project, granularity: rev.Granularity})
		}
		last := &all[len(all)-1]
		last.spans = append(last.spans, s)
	}
	return all
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
	return cmp.Or(compareSeries(a.Key, b), cmp.Compare(a.To, b.To))
}

func compareSeries(a, b analytics.Key) int {
	return cmp.Or(strings.Compare(a.Project, b.Project), strings.Compare(string(a.Granularity), string(b.Granularity)))
}

// point is the value that a series has during a span.
type point struct {
	*span
	value int64
}

// values are the points of a series; value is false for a span without one.
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

// series has label pairs beside those of its timeline, and points in order of time.
type series struct {
	labels []string
	points iter.Seq[point]
}

// families make the series of each metric that history has. The archive knows nothing
// else about the past.
var families = map[string]func(timeline) iter.Seq[series]{
	exporter.SiteVisitors:                     siteVisitors(newest),
	exporter.SiteVisitorsDeduplicated:         one(newest.count(analytics.Everyone)),
	exporter.PreviousSiteVisitors:             siteVisitors(previous),
	exporter.PreviousSiteVisitorsDeduplicated: one(previous.count(analytics.Everyone)),
	exporter.PageVisitors:                     pageVisitors,
	exporter.PageVisitorsDeduplicated:         pageVisitorsDeduplicated,
	exporter.Pages:                            one(func(s *span) (int64, bool) { return s.Rows, !s.TotalsOnly() }),
	exporter.WindowStartTimestamp:             one(func(s *span) (int64, bool) { return s.From.Time().Unix(), true }),
	exporter.WindowEndTimestamp:               one(func(s *span) (int64, bool) { return s.To.Time().Unix(), true }),
	exporter.WindowSettled:                    one(func(s *span) (int64, bool) { return flag(s.Settled), true }),
	exporter.WindowVerified:                   one(func(s *span) (int64, bool) { return flag(s.Verified), true }),
}

// which picks the window that a family shows; nil: the archive lacks it.
type which func(*span) *analytics.Revision

var (
	newest   which = func(s *span) *analytics.Revision { return s.Revision }
	previous which = func(s *span) *analytics.Revision { return s.previous }
)

// count is the visitors of an audience in the window's totals.
func (w which) count(a analytics.Audience) func(*span) (int64, bool) {
	return func(s *span) (int64, bool) {
		rev := w(s)
		if rev == nil {
			return 0, false
		}
		return rev.Totals.Of(a), true
	}
}

// siteVisitors is a family with a series for each audience.
func siteVisitors(w which) func(timeline) iter.Seq[series] {
	return func(l timeline) iter.Seq[series] {
		return each(
			audience(exporter.AudienceHuman, l.values(w.count(analytics.Human))),
			audience(exporter.AudienceAI, l.values(w.count(analytics.AI))))
	}
}

// one is a family with one series a timeline.
func one(value func(*span) (int64, bool)) func(timeline) iter.Seq[series] {
	return func(l timeline) iter.Seq[series] { return each(series{points: l.values(value)}) }
}

func audience(name string, points iter.Seq[point]) series {
	return series{[]string{exporter.LabelAudience, name}, points}
}

func pageVisitors(l timeline) iter.Seq[series] {
	return l.pages(func(visits []visit) []series {
		return []series{
			audience(exporter.AudienceHuman, points(visits, analytics.Human)),
			audience(exporter.AudienceAI, points(visits, analytics.AI)),
		}
	})
}

func pageVisitorsDeduplicated(l timeline) iter.Seq[series] {
	return l.pages(func(visits []visit) []series {
		return []series{{points: points(visits, analytics.Everyone)}}
	})
}

// pages makes the series of each page, by path, and adds the label path.
func (l timeline) pages(of func([]visit) []series) iter.Seq[series] {
	return func(yield func(series) bool) {
		pages := l.byPath()
		for _, path := range slices.Sorted(maps.Keys(pages)) {
			for _, s := range of(pages[path]) {
				s.labels = append([]string{exporter.LabelPath, path}, s.labels...)
				if !yield(s) {
					return
				}
			}
		}
	}
}

func points(visits []visit, a analytics.Audience) iter.Seq[point] {
	return func(yield func(point) bool) {
		for _, v := range visits {
			if !yield(point{v.span, v.row.Totals().Of(a)}) {
				return
			}
		}
	}
}

func each(all ...series) iter.Seq[series] { return slices.Values(all) }

func flag(set bool) int64 {
	if set {
		return 1
	}
	return 0
}
