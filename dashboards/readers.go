package dashboards

import (
	"github.com/docgauge/docgauge/dashboards/grafana"
	"github.com/docgauge/docgauge/exporter"
)

// notAdded is said wherever somebody could want to add up.
const notAdded = " Unique visitors do not add up: not over pages, windows or audiences."

// readers shows the newest windows.
func readers() grafana.Dashboard {
	return grafana.New(uidReaders, "docgauge / Readers",
		"How many people and AI agents read the documentation, which pages, and how fresh the numbers are.",
		"now-30d", []grafana.Variable{
			grafana.Prometheus.Choose("Prometheus", "The Prometheus that scrapes docgauge."),
			grafana.Labels("project", "Project", "Projects to show, each by itself.", exporter.SiteVisitorsDeduplicated, exporter.LabelProject),
			windowVariable(),
		},
		newestWindow("day"), newestWindow("week"), newestWindow("month"),
		trend(), pages(), freshness())
}

// windowVariable chooses the granularity of trends and pages.
func windowVariable() grafana.Variable {
	v := grafana.Labels("window", "Window", "The granularity of the trends and of the pages.", exporter.SiteVisitorsDeduplicated, exporter.LabelWindow)
	v.Multi, v.IncludeAll, v.AllValue = false, false, ""
	v.Current = grafana.Option{Selected: true, Text: "week", Value: "week"}
	return v
}

// newestWindow shows the newest complete window of a granularity, and the one before.
func newestWindow(g string) grafana.Section {
	all := site(exporter.SiteVisitorsDeduplicated, g)
	human := site(exporter.SiteVisitors, g, audience(exporter.AudienceHuman))
	ai := site(exporter.SiteVisitors, g, audience(exporter.AudienceAI))
	change := func(now, metric string, matchers ...string) string {
		return share(now, site(metric, g, matchers...)) + " - 1"
	}
	const none = "the newest window may be the first, or the one before may have had no visitors"
	return grafana.Section{Title: "Newest complete " + g, Panels: []*grafana.Panel{
		grafana.Stat("Readers of the "+g,
			"Unique visitors of the site in the newest complete "+g+": all, each counted once; humans; AI agents. Somebody can be both, so all is not the sum."+notAdded,
			grafana.Instant(all, "{{project}}: all"), grafana.Instant(human, "{{project}}: human"), grafana.Instant(ai, "{{project}}: AI")).
			In(grafana.Count).Empty("No complete "+g+" yet").Size(10, 5),
		grafana.Stat("Change from the "+g+" before",
			"The same numbers against the "+g+" right before, which must have been exported.",
			grafana.Instant(change(all, exporter.PreviousSiteVisitorsDeduplicated), "{{project}}: all").Maybe(none),
			grafana.Instant(change(human, exporter.PreviousSiteVisitors, audience(exporter.AudienceHuman)), "{{project}}: human").Maybe(none),
			grafana.Instant(change(ai, exporter.PreviousSiteVisitors, audience(exporter.AudienceAI)), "{{project}}: AI").Maybe(none)).
			In(grafana.Share).Empty("No "+g+" to compare with").
			Judged(grafana.Bad, grafana.From(-0.1, grafana.Quiet), grafana.From(0.1, grafana.Good)).Size(9, 5),
		grafana.Stat("AI share of the "+g,
			"AI agents among all unique visitors of the newest complete "+g+"; those who are human too count as AI here.",
			grafana.Instant(share(ai, all), "{{project}}").Maybe("nobody came in the newest window")).
			In(grafana.Share).Between(0, 1).Empty("No readers").Size(5, 5),
	}}
}

// trend shows the newest window as it was at each moment of the range.
func trend() grafana.Section {
	all := site(exporter.SiteVisitorsDeduplicated, chosenWindow)
	ai := site(exporter.SiteVisitors, chosenWindow, audience(exporter.AudienceAI))
	return grafana.Section{Title: "Trend by $window", Panels: []*grafana.Panel{
		grafana.Lines("Readers by $window",
			"At each moment the newest $window that was complete then: a step is a new window. From live scrapes and from history that was back-filled."+notAdded,
			grafana.Range(all, "{{project}}: all"),
			grafana.Range(site(exporter.SiteVisitors, chosenWindow, audience(exporter.AudienceHuman)), "{{project}}: human"),
			grafana.Range(ai, "{{project}}: AI")).
			Steps().In(grafana.Count).Empty("No complete window in this time").Size(16, 9),
		grafana.Lines("AI share by $window",
			"AI agents among all unique visitors of each $window. The share of a week is not the average of its days.",
			grafana.Range(share(ai, all), "{{project}}").Maybe("nobody came in any window")).
			Steps().In(grafana.Share).Empty("No readers in this time").Size(8, 9),
	}}
}

// pages shows the pages with the most visitors.
func pages() grafana.Section {
	all := page(exporter.PageVisitorsDeduplicated, chosenWindow)
	human := page(exporter.PageVisitors, chosenWindow, audience(exporter.AudienceHuman))
	ai := page(exporter.PageVisitors, chosenWindow, audience(exporter.AudienceAI))
	const none = "no page is shown where DOCGAUGE_TOP_PAGES=0, or nobody came in the newest window"
	return grafana.Section{Title: "Pages of the newest $window", Panels: []*grafana.Panel{
		grafana.Bars("Top pages of the $window",
			"The ten pages with the most unique visitors in the newest complete $window, each visitor counted once a page."+notAdded,
			grafana.Instant("topk(10, "+all+")", "{{path}}").Maybe(none)).
			In(grafana.Count).Empty("No page had readers").Size(10, 13),
		grafana.Table("Pages of the $window",
			"The pages with the most unique visitors: as many as DOCGAUGE_TOP_PAGES says. Pages that rise or fall are in the history.",
			"Readers", true, []grafana.Column{
				grafana.Col("project", "Project", grafana.Text).Wide(110), grafana.Col("path", "Page", grafana.Text),
				grafana.Col("Value #A", "Readers", grafana.Count).Wide(160).Gauge(),
				grafana.Col("Value #B", "Human", grafana.Count).Wide(80), grafana.Col("Value #C", "AI", grafana.Count).Wide(80),
				grafana.Col("Value #D", "AI share", grafana.Share).Wide(80),
			},
			grafana.Labelled(all).Maybe(none), grafana.Labelled(human).Maybe(none), grafana.Labelled(ai).Maybe(none),
			grafana.Labelled(share(ai, all)).Maybe(none)).
			In(grafana.Count).Empty("No page had readers").Size(14, 13),
	}}
}

// freshness shows how old the numbers are.
func freshness() grafana.Section {
	gauge := func(metric string) string {
		return newest(of(metric, ofProject), exporter.LabelProject, exporter.LabelWindow)
	}
	open := func(metric string, matchers ...string) grafana.Target {
		return grafana.Labelled(live(of(metric, append([]string{ofProject}, matchers...)...), exporter.LabelProject, exporter.LabelWindow)).
			Maybe("no running window is read where DOCGAUGE_OPEN_WINDOWS is empty")
	}
	start, end := gauge(exporter.WindowStartTimestamp), gauge(exporter.WindowEndTimestamp)
	return grafana.Section{Title: "Freshness", Panels: []*grafana.Panel{
		grafana.Table("How fresh the windows are",
			"The newest complete window of each granularity. Late counts how many windows have passed since it ended: above 1, the next one is due. Settled: it can no longer change. Verified: its pages agreed with each other.",
			"Late", true, []grafana.Column{
				grafana.Col("project", "Project", grafana.Text), grafana.Col("window", "Window", grafana.Text).Wide(80),
				grafana.Col("Value #A", "From", grafana.Moment).Wide(170), grafana.Col("Value #B", "Until", grafana.Moment).Wide(170),
				grafana.Col("Value #C", "Late", grafana.Number).Wide(70).Decimals(1).
					Judged(grafana.Good, grafana.From(1.15, grafana.Warning), grafana.From(2, grafana.Bad)),
				grafana.Col("Value #D", "Settled", grafana.Text).Wide(80).Words(yesOrNot(grafana.Quiet)),
				grafana.Col("Value #E", "Verified", grafana.Text).Wide(80).Words(yesOrNot(grafana.Warning)),
				grafana.Col("Value #F", "Pages", grafana.Count).Wide(80),
			},
			grafana.Labelled(milliseconds(start)), grafana.Labelled(milliseconds(end)),
			grafana.Labelled("(time() - "+end+") / ("+end+" - "+start+")"),
			grafana.Labelled(gauge(exporter.WindowSettled)), grafana.Labelled(gauge(exporter.WindowVerified)),
			grafana.Labelled(gauge(exporter.Pages)).Maybe("only totals of the site are read")).
			In(grafana.Number).Empty("No complete window yet").Size(14, 8),
		grafana.Table("Running windows, so far",
			"Windows that are not over, as they were last read: these numbers still grow, and are in no sink."+notAdded,
			"Window", false, []grafana.Column{
				grafana.Col("project", "Project", grafana.Text), grafana.Col("window", "Window", grafana.Text).Wide(80),
				grafana.Col("Value #A", "Readers", grafana.Count).Wide(80), grafana.Col("Value #B", "Human", grafana.Count).Wide(80),
				grafana.Col("Value #C", "AI", grafana.Count).Wide(80), grafana.Col("Value #D", "Read", grafana.FromNow).Wide(130),
			},
			open(exporter.OpenSiteVisitorsDeduplicated),
			open(exporter.OpenSiteVisitors, audience(exporter.AudienceHuman)), open(exporter.OpenSiteVisitors, audience(exporter.AudienceAI)),
			grafana.Labelled(milliseconds(live(of(exporter.OpenWindowReadTimestamp, ofProject), exporter.LabelProject, exporter.LabelWindow))).
				Maybe("no running window is read where DOCGAUGE_OPEN_WINDOWS is empty")).
			In(grafana.Count).Empty("No running window is read").Size(10, 8),
	}}
}

// yesOrNot shows 1 and 0 as words.
func yesOrNot(not string) map[string]grafana.Word {
	return map[string]grafana.Word{
		"0": {Text: "no", Color: not}, "1": {Text: "yes", Color: grafana.Good, Index: 1},
	}
}
