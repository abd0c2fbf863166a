package dashboards

import "github.com/docgauge/docgauge/exporter"

// notAdded is said wherever somebody could want to add up.
const notAdded = " Unique visitors do not add up: not over pages, windows or audiences."

// readers shows the newest windows.
func readers() dashboard {
	return newDashboard(uidReaders, "docgauge / Readers",
		"How many people and AI agents read the documentation, which pages, and how fresh the numbers are.",
		"now-30d", []variable{
			sourceVariable(promSource, "Prometheus", "The Prometheus that scrapes docgauge."),
			labelVariable("project", "Project", "Projects to show, each by itself.", exporter.SiteVisitorsDeduplicated,
				exporter.LabelProject),
			windowVariable(),
		},
		newestWindow("day"), newestWindow("week"), newestWindow("month"),
		trend(), pages(), freshness())
}

// windowVariable chooses the granularity of trends and pages.
func windowVariable() variable {
	v := labelVariable("window", "Window", "The granularity of the trends and of the pages.",
		exporter.SiteVisitorsDeduplicated, exporter.LabelWindow)
	v.Multi, v.IncludeAll, v.AllValue = false, false, ""
	v.Current = option{Selected: true, Text: "week", Value: "week"}
	return v
}

// newestWindow shows the newest complete window of a granularity, and the one before.
func newestWindow(g string) section {
	all := site(exporter.SiteVisitorsDeduplicated, g)
	human := site(exporter.SiteVisitors, g, audience(exporter.AudienceHuman))
	ai := site(exporter.SiteVisitors, g, audience(exporter.AudienceAI))
	change := func(now, metric string, matchers ...string) string {
		return share(now, site(metric, g, matchers...)) + " - 1"
	}
	const none = "the newest window may be the first, or the one before may have had no visitors"
	return row("Newest complete "+g,
		stat("Readers of the "+g,
			"Unique visitors of the site in the newest complete "+g+": all, each counted once; humans; AI agents. Somebody "+
				"can be both, so all is not the sum."+notAdded,
			instant(all, "{{project}}: all"), instant(human, "{{project}}: human"), instant(ai, "{{project}}: AI")).
			in(counts).empty("No complete "+g+" yet").size(10, 5),
		stat("Change from the "+g+" before",
			"The same numbers against the "+g+" right before, which must have been exported.",
			instant(change(all, exporter.PreviousSiteVisitorsDeduplicated), "{{project}}: all").maybe(none),
			instant(change(human, exporter.PreviousSiteVisitors, audience(exporter.AudienceHuman)), "{{project}}: human").
				maybe(none),
			instant(change(ai, exporter.PreviousSiteVisitors, audience(exporter.AudienceAI)), "{{project}}: AI").maybe(none)).
			in(shares).empty("No "+g+" to compare with").
			judged(bad, from(-0.1, quiet), from(0.1, good)).size(9, 5),
		stat("AI share of the "+g,
			"AI agents among all unique visitors of the newest complete "+g+"; those who are human too count as AI here.",
			instant(share(ai, all), "{{project}}").maybe("nobody came in the newest window")).
			in(shares).between(0, 1).empty("No readers").size(5, 5),
	)
}

// trend shows the newest window as it was at each moment of the range.
func trend() section {
	all := site(exporter.SiteVisitorsDeduplicated, chosenWindow)
	ai := site(exporter.SiteVisitors, chosenWindow, audience(exporter.AudienceAI))
	return row("Trend by $window",
		graph("Readers by $window",
			"At each moment the newest $window that was complete then: a step is a new window. From live scrapes and from "+
				"back-filled history."+notAdded,
			overTime(all, "{{project}}: all"),
			overTime(site(exporter.SiteVisitors, chosenWindow, audience(exporter.AudienceHuman)), "{{project}}: human"),
			overTime(ai, "{{project}}: AI")).
			steps().in(counts).empty("No complete window in this time").size(16, 9),
		graph("AI share by $window",
			"AI agents among all unique visitors of each $window. The share of a week is not the average of its days.",
			overTime(share(ai, all), "{{project}}").maybe("nobody came in any window")).
			steps().in(shares).empty("No readers in this time").size(8, 9),
	)
}

// pages shows the pages with the most visitors.
func pages() section {
	all := page(exporter.PageVisitorsDeduplicated, chosenWindow)
	human := page(exporter.PageVisitors, chosenWindow, audience(exporter.AudienceHuman))
	ai := page(exporter.PageVisitors, chosenWindow, audience(exporter.AudienceAI))
	const none = "no page is shown where DOCGAUGE_TOP_PAGES=0, or nobody came in the newest window"
	return row("Pages of the newest $window",
		bars("Top pages of the $window",
			"The ten pages with the most unique visitors in the newest complete $window, each visitor counted once a "+
				"page."+notAdded,
			instant("topk(10, "+all+")", "{{path}}").maybe(none)).
			in(counts).empty("No page had readers").size(10, 13),
		table("Pages of the $window",
			"The pages with the most unique visitors. DOCGAUGE_TOP_PAGES sets how many. Rising and falling pages are in the "+
				"history dashboard.",
			"Readers", true, []column{
				col("project", "Project", plain).wide(110), col("path", "Page", plain),
				col("Value #A", "Readers", counts).wide(160).gauge(),
				col("Value #B", "Human", counts).wide(80), col("Value #C", "AI", counts).wide(80),
				col("Value #D", "AI share", shares).wide(80),
			},
			labelled(all).maybe(none), labelled(human).maybe(none), labelled(ai).maybe(none),
			labelled(share(ai, all)).maybe(none)).
			in(counts).empty("No page had readers").size(14, 13),
	)
}

// freshness shows how old the numbers are.
func freshness() section {
	gauge := func(metric string) string {
		return newest(of(metric, ofProject), exporter.LabelProject, exporter.LabelWindow)
	}
	open := func(metric string, matchers ...string) target {
		return labelled(live(of(metric, append([]string{ofProject}, matchers...)...), exporter.LabelProject,
			exporter.LabelWindow)).
			maybe("no running window is read where DOCGAUGE_OPEN_WINDOWS is empty")
	}
	start, end := gauge(exporter.WindowStartTimestamp), gauge(exporter.WindowEndTimestamp)
	return row("Freshness",
		table("How fresh the windows are",
			"The newest complete window of each granularity. Late counts how many windows have passed since it ended: above "+
				"1, the next one is due. Settled: it can no longer change. Verified: its pages agreed with each other.",
			"Late", true, []column{
				col("project", "Project", plain), col("window", "Window", plain).wide(80),
				col("Value #A", "From", dates).wide(170), col("Value #B", "Until", dates).wide(170),
				col("Value #C", "Late", numerals).wide(70).decimals(1).
					judged(good, from(1.15, warning), from(2, bad)),
				col("Value #D", "Settled", plain).wide(80).words(either("no", quiet, "yes", good)),
				col("Value #E", "Verified", plain).wide(80).words(either("no", warning, "yes", good)),
				col("Value #F", "Pages", counts).wide(80),
			},
			labelled(milliseconds(start)), labelled(milliseconds(end)),
			labelled("(time() - "+end+") / ("+end+" - "+start+")"),
			labelled(gauge(exporter.WindowSettled)), labelled(gauge(exporter.WindowVerified)),
			labelled(gauge(exporter.Pages)).maybe("only totals of the site are read")).
			in(numerals).empty("No complete window yet").size(14, 8),
		table("Running windows, so far",
			"Windows that have not ended, as last read: these numbers still grow, and are in no sink."+notAdded,
			"Window", false, []column{
				col("project", "Project", plain), col("window", "Window", plain).wide(80),
				col("Value #A", "Readers", counts).wide(80), col("Value #B", "Human", counts).wide(80),
				col("Value #C", "AI", counts).wide(80), col("Value #D", "Read", ago).wide(130),
			},
			open(exporter.OpenSiteVisitorsDeduplicated),
			open(exporter.OpenSiteVisitors, audience(exporter.AudienceHuman)), open(exporter.OpenSiteVisitors,
				audience(exporter.AudienceAI)),
			labelled(milliseconds(live(of(exporter.OpenWindowReadTimestamp, ofProject), exporter.LabelProject,
				exporter.LabelWindow))).
				maybe("no running window is read where DOCGAUGE_OPEN_WINDOWS is empty")).
			in(counts).empty("No running window is read").size(10, 8),
	)
}
