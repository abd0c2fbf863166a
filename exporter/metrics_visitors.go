package exporter

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

// The values of the kind label.
const (
	KindMoved    = "moved"
	KindRepeated = "repeated"
)

var visitorMetrics = []Metric{
	{groupVisitors, SiteVisitors, TypeGauge,
		"Unique visitors of the site in the newest complete window." + nonAdded + cached,
		[]string{LabelProject, LabelWindow, LabelAudience}},
	{groupVisitors, SiteVisitorsDeduplicated, TypeGauge,
		"Unique visitors of the site in the newest complete window, human and AI together, each counted once." + nonAdded + cached,
		[]string{LabelProject, LabelWindow}},
	{groupVisitors, PageVisitors, TypeGauge,
		"Unique visitors of a page in the newest complete window, for the pages with the most." + nonAdded + cached,
		[]string{LabelProject, LabelWindow, LabelPath, LabelAudience}},
	{groupVisitors, PageVisitorsDeduplicated, TypeGauge,
		"Unique visitors of a page in the newest complete window, human and AI together, each counted once, for the pages with the most." + nonAdded + cached,
		[]string{LabelProject, LabelWindow, LabelPath}},
	{groupVisitors, Pages, TypeGauge,
		"Pages with visitors in the newest complete window; absent where only site totals are read." + cached,
		[]string{LabelProject, LabelWindow}},
	{groupVisitors, PreviousSiteVisitors, TypeGauge,
		"Unique visitors of the site in the window that ends where the newest complete one begins; absent where that was not read." + nonAdded + cached,
		[]string{LabelProject, LabelWindow, LabelAudience}},
	{groupVisitors, PreviousSiteVisitorsDeduplicated, TypeGauge,
		"Unique visitors of the site in the window that ends where the newest complete one begins, human and AI together, each counted once; absent where that was not read." + nonAdded + cached,
		[]string{LabelProject, LabelWindow}},
	{groupVisitors, OpenSiteVisitors, TypeGauge,
		"Unique visitors of the site in the window that is still running, so far." + nonAdded + cached,
		[]string{LabelProject, LabelWindow, LabelAudience}},
	{groupVisitors, OpenSiteVisitorsDeduplicated, TypeGauge,
		"Unique visitors of the site in the window that is still running, so far, human and AI together, each counted once." + nonAdded + cached,
		[]string{LabelProject, LabelWindow}},
	{groupVisitors, OpenWindowReadTimestamp, TypeGauge,
		"When the window that is still running was last read," + epoch,
		[]string{LabelProject, LabelWindow}},
	{groupVisitors, WindowStartTimestamp, TypeGauge,
		"First instant of the newest complete window," + epoch,
		[]string{LabelProject, LabelWindow}},
	{groupVisitors, WindowEndTimestamp, TypeGauge,
		"First instant after the newest complete window," + epoch,
		[]string{LabelProject, LabelWindow}},
	{groupVisitors, WindowSettled, TypeGauge,
		"1 if the newest complete window was read after it could still change, else 0." + cached,
		[]string{LabelProject, LabelWindow}},
	{groupVisitors, WindowVerified, TypeGauge,
		"1 if the pages of the newest complete window agreed with each other, else 0." + cached,
		[]string{LabelProject, LabelWindow}},
	{groupVisitors, WindowSuspectRows, TypeGauge,
		"Rows of the newest complete window that are suspect because it is not verified, by kind: moved (read before its totals last moved) or repeated (their path came twice); a row can be both." + cached,
		[]string{LabelProject, LabelWindow, LabelKind}},
}
