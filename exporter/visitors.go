package exporter

import (
	"fmt"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// compared ends the help of metrics about the window of [analytics.Granularity.ComparedWith].
const compared = "in the window before the newest complete one, for a day the same weekday a week before"

// windowFamilies are about the newest complete window of each project and granularity.
var windowFamilies = []Metric{
	define(groupVisitors, "site_visitors", typeGauge, "project window audience",
		"Unique visitors of the site in the newest complete window."+nonAdded+cached,
		ofWindows(func(w view.Window, emit emit) { audiences(emit, w.Totals) })),
	define(groupVisitors, "site_visitors_deduplicated", typeGauge, "project window",
		"Unique visitors of the site in the newest complete window, human and AI together, each counted "+
			"once."+nonAdded+cached,
		ofWindows(func(w view.Window, emit emit) { emit(float64(w.Totals.Total)) })),
	define(groupVisitors, "page_visitors", typeGauge, "project window path audience",
		"Unique visitors of a page in the newest complete window, for the most visited pages."+nonAdded+cached,
		ofPages(func(r analytics.Row, emit emit) { audiences(emit, r.Totals) })),
	define(groupVisitors, "page_visitors_deduplicated", typeGauge, "project window path",
		"Unique visitors of a page in the newest complete window, human and AI together, each counted once, for the "+
			"most visited pages."+nonAdded+cached,
		ofPages(func(r analytics.Row, emit emit) { emit(float64(r.Total)) })),
	define(groupVisitors, "pages", typeGauge, "project window",
		"Pages with visitors in the newest complete window; absent if only site totals are read."+cached,
		ofWindows(func(w view.Window, emit emit) {
			if !w.TotalsOnly() {
				emit(float64(w.Rows))
			}
		})),
	define(groupVisitors, "previous_site_visitors", typeGauge, "project window audience",
		"Unique visitors of the site "+compared+"; absent if that was not read."+nonAdded+cached,
		ofWindows(func(w view.Window, emit emit) {
			if w.Previous != nil {
				audiences(emit, *w.Previous)
			}
		})),
	define(groupVisitors, "previous_site_visitors_deduplicated", typeGauge, "project window",
		"Unique visitors of the site "+compared+", human and AI together, each counted once; absent if that was not "+
			"read."+nonAdded+cached,
		ofWindows(func(w view.Window, emit emit) {
			if w.Previous != nil {
				emit(float64(w.Previous.Total))
			}
		})),
	define(groupVisitors, "window_start_timestamp_seconds", typeGauge, "project window",
		"First instant of the newest complete window,"+epoch,
		ofWindows(func(w view.Window, emit emit) { emit.timestamp(w.From.Time()) })),
	define(groupVisitors, "window_end_timestamp_seconds", typeGauge, "project window",
		"First instant after the newest complete window,"+epoch,
		ofWindows(func(w view.Window, emit emit) { emit.timestamp(w.To.Time()) })),
	define(groupVisitors, "window_settled", typeGauge, "project window",
		"1 if the newest complete window was read after it could still change, else 0."+cached,
		ofWindows(func(w view.Window, emit emit) { emit.flag(w.Settled) })),
	define(groupVisitors, "window_verified", typeGauge, "project window",
		"1 if the pages of the newest complete window agreed with each other, else 0."+cached,
		ofWindows(func(w view.Window, emit emit) { emit.flag(w.Verified) })),
}

// reportFamilies are about the newest complete window of each report besides visitors: the counts of each row of the
// site, or the counts of the site.
var reportFamilies = func() (all []Metric) {
	for _, report := range analytics.Reports {
		if report == analytics.VisitorsReport {
			continue
		}
		s := report.Shape()
		of := "in the newest window of the report " + s.Name
		if !s.Site {
			all = append(all, define(groupVisitors, "site_"+s.Name, typeGauge, "project window audience",
				upperFirst(s.AboutSite)+", "+of+"."+cached,
				ofReport(report, func(w view.RowsWindow, emit emit) { audiences(emit, w.Totals) })))
			continue
		}
		for i, name := range s.Names(analytics.Count) {
			column := s.Columns[len(s.Columns)-len(s.Names(analytics.Count))+i]
			help := fmt.Sprintf("%s of each %s on the site %s, for the %d with most %s.", upperFirst(name), s.Noun(), of,
				view.MaxRows, s.Rank())
			if about := column.About; about != "" {
				help += " " + about
			}
			if about := s.Columns[1].About; i == 0 && about != "" {
				help += " " + about
			}
			all = append(all, define(groupVisitors, "site_"+s.Noun()+"_"+name, typeGauge,
				"project window "+strings.Join(s.Names(analytics.Text), " "), help+cached,
				ofReport(report, func(w view.RowsWindow, emit emit) {
					for _, row := range w.Rows {
						if row.Counts[i] >= 0 { // else it is not known
							emit(float64(row.Counts[i]), row.Texts[1:len(s.Names(analytics.Text))+1]...)
						}
					}
				})))
		}
		all = append(all, define(groupVisitors, "site_"+s.Name+"_not_shown", typeGauge, "project window",
			fmt.Sprintf("%s of the newest complete window of the report %s beyond the %d with most %s.",
				upperFirst(s.Name), s.Name, view.MaxRows, s.Rank())+cached,
			ofReport(report, func(w view.RowsWindow, emit emit) { emit(float64(w.More)) })))
	}
	return all
}()

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// visitorFamilies are about the open window, and about what the archive does not have of the
// newest complete one.
var visitorFamilies = []Metric{
	define(groupVisitors, "open_site_visitors", typeGauge, "project window audience",
		"Unique visitors of the site in the window that is still running, so far."+nonAdded+cached,
		ofOpen(func(o analytics.OpenWindow, emit emit) { audiences(emit, o.Totals) })),
	define(groupVisitors, "open_site_visitors_deduplicated", typeGauge, "project window",
		"Unique visitors of the site in the window that is still running, so far, human and AI together, each "+
			"counted once."+nonAdded+cached,
		ofOpen(func(o analytics.OpenWindow, emit emit) { emit(float64(o.Totals.Total)) })),
	define(groupVisitors, "open_window_read_timestamp_seconds", typeGauge, "project window",
		"When the window that is still running was last read,"+epoch,
		ofOpen(func(o analytics.OpenWindow, emit emit) { emit.timestamp(o.ReadAt) })),
	define(groupVisitors, "missed_path_requests", typeGauge, "project",
		"Requests of agents on the newest day for the most requested path that is not there and whose redirect is sure "+
			"(docgauge redirects); 0 without one."+cached,
		func(s *view.Snapshot, emit emit) {
			for _, m := range s.Missed {
				if m.Requests >= 0 {
					emit(float64(m.Requests), m.Project)
				}
			}
		}),
	define(groupVisitors, "window_suspect_rows", typeGauge, "project window kind",
		"Rows of the newest complete window that are suspect because it is not verified, by kind: moved (read "+
			"before its totals last moved) or repeated (their path came twice); a row can be both."+cached,
		ofWindows(func(w view.Window, emit emit) {
			emit(float64(w.MovedRows), "moved")
			emit(float64(w.RepeatedRows), "repeated")
		})),
}

// ofPages collects something of each top page. The first labels are project, window and path.
func ofPages(collect func(r analytics.Row, emit emit)) collector {
	return ofWindows(func(w view.Window, emit emit) {
		for _, r := range w.Pages {
			collect(r, emit.with(r.Path))
		}
	})
}

// ofReport collects something of each window of a report. The first labels are project and window.
func ofReport(report analytics.Report, collect func(w view.RowsWindow, emit emit)) collector {
	return ofOthers(func(w view.RowsWindow, emit emit) {
		if w.Report == report {
			collect(w, emit)
		}
	})
}

// audiences emits the counts but for the total, which is a metric by itself: audiences overlap.
func audiences(emit emit, t analytics.Totals) {
	for i, n := range t.Fields() {
		if name := analytics.TotalsNames()[i]; name != string(analytics.Everyone) {
			emit(float64(*n), name)
		}
	}
}
