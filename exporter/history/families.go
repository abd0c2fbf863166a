package history

import (
	"iter"
	"maps"
	"slices"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
)

// series is one line of a graph: label pairs without those of the timeline,
// and points in order of time.
type series struct {
	labels []string
	points iter.Seq[point]
}

// families make the series of each metric that history has. Nothing else is
// shown of the past: the archive does not know it.
var families = map[string]func(timeline) iter.Seq[series]{
	exporter.SiteVisitors:                     siteVisitors(newest),
	exporter.SiteVisitorsDeduplicated:         one(newest.count(total)),
	exporter.PreviousSiteVisitors:             siteVisitors(previous),
	exporter.PreviousSiteVisitorsDeduplicated: one(previous.count(total)),
	exporter.PageVisitors:                     pageVisitors,
	exporter.PageVisitorsDeduplicated:         pageVisitorsDeduplicated,
	exporter.Pages:                            one(func(s *span) (int64, bool) { return s.Rows, !s.TotalsOnly() }),
	exporter.WindowStartTimestamp:             one(func(s *span) (int64, bool) { return s.From.Time().Unix(), true }),
	exporter.WindowEndTimestamp:               one(func(s *span) (int64, bool) { return s.To.Time().Unix(), true }),
	exporter.WindowSettled:                    one(func(s *span) (int64, bool) { return flag(s.Settled), true }),
	exporter.WindowVerified:                   one(func(s *span) (int64, bool) { return flag(s.Verified), true }),
}

// which picks the window that a family tells of; nil: the archive lacks it.
type which func(*span) *analytics.Revision

var (
	newest   which = func(s *span) *analytics.Revision { return s.Revision }
	previous which = func(s *span) *analytics.Revision { return s.previous }
)

func human(t analytics.Totals) int64 { return t.Human }
func ai(t analytics.Totals) int64    { return t.AI }
func total(t analytics.Totals) int64 { return t.Total }

// count is one number of the window's totals.
func (w which) count(number func(analytics.Totals) int64) func(*span) (int64, bool) {
	return func(s *span) (int64, bool) {
		rev := w(s)
		if rev == nil {
			return 0, false
		}
		return number(rev.Totals), true
	}
}

// siteVisitors is a family with a series for each audience.
func siteVisitors(w which) func(timeline) iter.Seq[series] {
	return func(l timeline) iter.Seq[series] {
		return each(
			audience(exporter.AudienceHuman, l.values(w.count(human))),
			audience(exporter.AudienceAI, l.values(w.count(ai))))
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
			audience(exporter.AudienceHuman, points(visits, func(r analytics.Row) int64 { return r.Human })),
			audience(exporter.AudienceAI, points(visits, func(r analytics.Row) int64 { return r.AI })),
		}
	})
}

func pageVisitorsDeduplicated(l timeline) iter.Seq[series] {
	return l.pages(func(visits []visit) []series {
		return []series{{points: points(visits, func(r analytics.Row) int64 { return r.Total })}}
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

func points(visits []visit, value func(analytics.Row) int64) iter.Seq[point] {
	return func(yield func(point) bool) {
		for _, v := range visits {
			if !yield(point{v.span, value(v.row)}) {
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
