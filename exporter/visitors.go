package exporter

import (
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// Numbers of visitors, of the newest complete window of each project and
// granularity, of the one before it, and of the open one.
const (
	SiteVisitors             = prefix + "site_visitors"
	SiteVisitorsDeduplicated = prefix + "site_visitors_deduplicated"
	PageVisitors             = prefix + "page_visitors"
	PageVisitorsDeduplicated = prefix + "page_visitors_deduplicated"
	Pages                    = prefix + "pages"

	PreviousSiteVisitors             = prefix + "previous_site_visitors"
	PreviousSiteVisitorsDeduplicated = prefix + "previous_site_visitors_deduplicated"

	OpenSiteVisitors             = prefix + "open_site_visitors"
	OpenSiteVisitorsDeduplicated = prefix + "open_site_visitors_deduplicated"
	OpenWindowReadTimestamp      = prefix + "open_window_read_timestamp_seconds"

	WindowStartTimestamp = prefix + "window_start_timestamp_seconds"
	WindowEndTimestamp   = prefix + "window_end_timestamp_seconds"
	WindowSettled        = prefix + "window_settled"
	WindowVerified       = prefix + "window_verified"
	WindowSuspectRows    = prefix + "window_suspect_rows"
)

var visitorFamilies = []family{
	define(groupVisitors, SiteVisitors, typeGauge,
		"Unique visitors of the site in the newest complete window."+nonAdded+cached,
		[]string{LabelProject, LabelWindow, LabelAudience},
		ofWindows(func(w view.Window, emit emit) { audiences(emit, w.Totals) })),
	define(groupVisitors, SiteVisitorsDeduplicated, typeGauge,
		"Unique visitors of the site in the newest complete window, human and AI together, each counted once."+nonAdded+cached,
		[]string{LabelProject, LabelWindow},
		ofWindows(func(w view.Window, emit emit) { emit(float64(w.Totals.Total)) })),
	define(groupVisitors, PageVisitors, typeGauge,
		"Unique visitors of a page in the newest complete window, for the most visited pages."+nonAdded+cached,
		[]string{LabelProject, LabelWindow, LabelPath, LabelAudience},
		ofPages(func(r analytics.Row, emit emit) { audiences(emit, r.Totals()) })),
	define(groupVisitors, PageVisitorsDeduplicated, typeGauge,
		"Unique visitors of a page in the newest complete window, human and AI together, each counted once, for the most visited pages."+nonAdded+cached,
		[]string{LabelProject, LabelWindow, LabelPath},
		ofPages(func(r analytics.Row, emit emit) { emit(float64(r.Total)) })),
	define(groupVisitors, Pages, typeGauge,
		"Pages with visitors in the newest complete window; absent if only site totals are read."+cached,
		[]string{LabelProject, LabelWindow},
		ofWindows(func(w view.Window, emit emit) {
			if !w.TotalsOnly() {
				emit(float64(w.Rows))
			}
		})),
	define(groupVisitors, PreviousSiteVisitors, typeGauge,
		"Unique visitors of the site in the window that ends where the newest complete one begins; absent if that was not read."+nonAdded+cached,
		[]string{LabelProject, LabelWindow, LabelAudience},
		ofWindows(func(w view.Window, emit emit) {
			if w.Previous != nil {
				audiences(emit, *w.Previous)
			}
		})),
	define(groupVisitors, PreviousSiteVisitorsDeduplicated, typeGauge,
		"Unique visitors of the site in the window that ends where the newest complete one begins, human and AI together, each counted once; absent if that was not read."+nonAdded+cached,
		[]string{LabelProject, LabelWindow},
		ofWindows(func(w view.Window, emit emit) {
			if w.Previous != nil {
				emit(float64(w.Previous.Total))
			}
		})),
	define(groupVisitors, OpenSiteVisitors, typeGauge,
		"Unique visitors of the site in the window that is still running, so far."+nonAdded+cached,
		[]string{LabelProject, LabelWindow, LabelAudience},
		ofOpen(func(o view.Open, emit emit) { audiences(emit, o.Totals) })),
	define(groupVisitors, OpenSiteVisitorsDeduplicated, typeGauge,
		"Unique visitors of the site in the window that is still running, so far, human and AI together, each counted once."+nonAdded+cached,
		[]string{LabelProject, LabelWindow},
		ofOpen(func(o view.Open, emit emit) { emit(float64(o.Totals.Total)) })),
	define(groupVisitors, OpenWindowReadTimestamp, typeGauge,
		"When the window that is still running was last read,"+epoch,
		[]string{LabelProject, LabelWindow},
		ofOpen(func(o view.Open, emit emit) { emit.at(o.ReadAt) })),
	define(groupVisitors, WindowStartTimestamp, typeGauge,
		"First instant of the newest complete window,"+epoch,
		[]string{LabelProject, LabelWindow},
		ofWindows(func(w view.Window, emit emit) { emit.at(w.From.Time()) })),
	define(groupVisitors, WindowEndTimestamp, typeGauge,
		"First instant after the newest complete window,"+epoch,
		[]string{LabelProject, LabelWindow},
		ofWindows(func(w view.Window, emit emit) { emit.at(w.To.Time()) })),
	define(groupVisitors, WindowSettled, typeGauge,
		"1 if the newest complete window was read after it could still change, else 0."+cached,
		[]string{LabelProject, LabelWindow},
		ofWindows(func(w view.Window, emit emit) { emit.flag(w.Settled) })),
	define(groupVisitors, WindowVerified, typeGauge,
		"1 if the pages of the newest complete window agreed with each other, else 0."+cached,
		[]string{LabelProject, LabelWindow},
		ofWindows(func(w view.Window, emit emit) { emit.flag(w.Verified) })),
	define(groupVisitors, WindowSuspectRows, typeGauge,
		"Rows of the newest complete window that are suspect because it is not verified, by kind: moved (read before its totals last moved) or repeated (their path came twice); a row can be both."+cached,
		[]string{LabelProject, LabelWindow, LabelKind},
		ofWindows(func(w view.Window, emit emit) {
			emit(float64(w.MovedRows), "moved")
			emit(float64(w.RepeatedRows), "repeated")
		})),
}

// with returns emit with labels before those that it is given.
func (e emit) with(labels ...string) emit {
	return func(value float64, more ...string) { e(value, append(labels[:len(labels):len(labels)], more...)...) }
}

// ofWindows collects something of each newest window. The first labels are project
// and window.
func ofWindows(collect func(w view.Window, emit emit)) func(*view.Snapshot, emit) {
	return func(s *view.Snapshot, emit emit) {
		for _, w := range s.Windows {
			collect(w, emit.with(w.Project, string(w.Granularity)))
		}
	}
}

// ofPages collects something of each page. The first labels are project, window and
// path.
func ofPages(collect func(r analytics.Row, emit emit)) func(*view.Snapshot, emit) {
	return ofWindows(func(w view.Window, emit emit) {
		for _, r := range w.Pages {
			collect(r, emit.with(r.Path))
		}
	})
}

// ofOpen collects something of each running window. The first labels are project and
// window.
func ofOpen(collect func(o view.Open, emit emit)) func(*view.Snapshot, emit) {
	return func(s *view.Snapshot, emit emit) {
		for _, o := range s.Open {
			collect(o, emit.with(o.Project, string(o.Granularity)))
		}
	}
}

func audiences(emit emit, t analytics.Totals) {
	emit(float64(t.Human), AudienceHuman)
	emit(float64(t.AI), AudienceAI)
}
