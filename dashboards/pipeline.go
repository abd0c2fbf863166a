package dashboards

import (
	"github.com/docgauge/docgauge/dashboards/grafana"
	"github.com/docgauge/docgauge/exporter"
)

// pipeline shows how exporting goes.
func pipeline() grafana.Dashboard {
	return grafana.New(uidPipeline, "docgauge / Pipeline health",
		"Whether exporting works: last success, what is due and when it will be done, requests and budget, sinks, drift, keys.",
		"now-24h", []grafana.Variable{
			grafana.Prometheus.Choose("Prometheus", "The Prometheus that scrapes docgauge."),
			grafana.Labels("project", "Project", "Projects to show.", exporter.WindowsDue, exporter.LabelProject),
			grafana.Labels("instance", "Instance", "Which docgauge: one for each organisation.", exporter.BuildInfo, "instance"),
		},
		health(), runs(), backlog(), requests(), sinks(), quality())
}

// byInstance is the newest value of what an instance has one of.
func byInstance(metric string) string { return live(of(metric, ofInstance), "instance") }

// since is how long ago a moment was.
func since(metric string) string { return "time() - " + byInstance(metric) }

// Three hourly firings without success are one alert; see docs/runbook.md.
const (
	lateAfter   = 2 * 3600
	failedAfter = 3 * 3600
	day         = 86400
)

const noScrape = "Nothing is scraped"

func health() grafana.Section {
	return grafana.Section{Title: "Health", Panels: []*grafana.Panel{
		grafana.Stat("Last success", "How long ago an export run last ended well, or deferred the rest to the next hour's budget. Colours fit the default schedule, hourly.",
			grafana.Instant(since(exporter.ExportLastSuccess), "{{instance}}")).
			In(grafana.Seconds).Empty("No run has succeeded").
			Judged(grafana.Good, grafana.From(lateAfter, grafana.Warning), grafana.From(failedAfter, grafana.Bad)).Size(4, 4),
		grafana.Stat("Last run", "How long ago an export run last ended, whatever came of it. If this is fresh and the last success is not, runs fail.",
			grafana.Instant(since(exporter.ExportLastCompletion), "{{instance}}")).
			In(grafana.Seconds).Empty("No run has ended").
			Judged(grafana.Good, grafana.From(lateAfter, grafana.Warning), grafana.From(failedAfter, grafana.Bad)).Size(4, 4),
		grafana.Stat("Age of the values", "How long ago the values were made that are scraped. serve renews them after each commit and every few minutes.",
			grafana.Instant(since(exporter.SnapshotTimestamp), "{{instance}}")).
			In(grafana.Seconds).Empty(noScrape).
			Judged(grafana.Good, grafana.From(600, grafana.Warning), grafana.From(3600, grafana.Bad)).Size(4, 4),
		grafana.Stat("Windows due", "Complete windows that are to be read, or read again.",
			grafana.Instant("sum("+due(exporter.LabelWindow, exporter.LabelReason)+")", "due")).
			In(grafana.Count).Empty(noScrape).Judged(grafana.Good, grafana.From(1, grafana.Neutral), grafana.From(100, grafana.Warning)).Size(4, 4),
		grafana.Stat("Backlog done", "When the request budget lets the last due window be read.",
			grafana.Instant(milliseconds(byInstance(exporter.BacklogFinish)), "{{instance}}").Maybe("nothing is due")).
			In(grafana.FromNow).Empty("Nothing is due").Size(4, 4),
		grafana.Stat("Key expires in", "Time until the API key expires, where DOCGAUGE_API_KEY_EXPIRES says when.",
			grafana.Instant(live(of(exporter.APIKeyExpiry, ofInstance), "instance", exporter.LabelKey)+" - time()", "{{key}} {{instance}}").
				Maybe("DOCGAUGE_API_KEY_EXPIRES is not set")).
			In(grafana.Seconds).Empty("Not known").
			Judged(grafana.Bad, grafana.From(7*day, grafana.Warning), grafana.From(30*day, grafana.Good)).Size(4, 4),
		grafana.States("Is all well?", "What must be so, over time: runs succeed, every sink has all windows, the key is accepted, no queue of prompts is paused.",
			grafana.Range("max("+since(exporter.ExportLastSuccess)+") < bool 10800", "runs succeed"),
			grafana.Range("max("+of(exporter.SpoolWindows, ofInstance)+") == bool 0", "sinks have all windows"),
			grafana.Range("max("+of(exporter.APIKeyRejected, ofInstance)+") == bool 0", "key is accepted"),
			grafana.Range("max("+of(exporter.AgentQueuePaused, ofInstance)+") == bool 0", "prompts are submitted").Maybe("there is no queue")).
			In(grafana.Text).Empty(noScrape).Words(map[string]grafana.Word{
			"0": {Text: "no", Color: grafana.Bad}, "1": {Text: "yes", Color: grafana.Good, Index: 1},
		}).Judged(grafana.Bad, grafana.From(1, grafana.Good)).Size(24, 6),
	}}
}

// due counts the windows that are due, once a project.
func due(labels ...string) string {
	return live(of(exporter.WindowsDue, ofProject, ofInstance), append([]string{exporter.LabelProject}, labels...)...)
}

// quantile is of a histogram's observations in a span: from buckets, or where
// the server keeps native histograms from those.
func quantile(q, series, span string, labels ...string) string {
	buckets, native := "le", ""
	if len(labels) > 0 {
		buckets, native = "le, "+labels[0], " by ("+labels[0]+")"
	}
	return "histogram_quantile(" + q + ", sum by (" + buckets + ") (increase(" + of(series+"_bucket", ofInstance) + "[" + span + "])))" +
		" or histogram_quantile(" + q + ", sum" + native + " (increase(" + of(series, ofInstance) + "[" + span + "])))"
}

func runs() grafana.Section {
	const quiet = "no run may have ended within six hours"
	return grafana.Section{Title: "Runs", Panels: []*grafana.Panel{
		grafana.Lines("Runs by outcome, 1 hour", "Export runs that ended in the hour before: success, deferred (by the budget), failed, interrupted.",
			grafana.Range("round("+grew(of(exporter.ExportRuns, ofInstance), "1h", exporter.LabelOutcome)+")", "{{outcome}}")).
			Columns().Stacked().In(grafana.Count).Empty(noScrape).
			On("success", grafana.Always(grafana.Good)).On("deferred", grafana.Always(grafana.Neutral)).
			On("failed", grafana.Always(grafana.Bad)).On("interrupted", grafana.Always("orange")).Size(12, 8),
		grafana.Lines("How long runs take", "Median and longest tenth of the runs of the six hours before.",
			grafana.Range(quantile("0.5", exporter.ExportDuration, "6h"), "median").Maybe(quiet),
			grafana.Range(quantile("0.9", exporter.ExportDuration, "6h"), "90 %").Maybe(quiet)).
			In(grafana.Seconds).Empty("No run in this time").Size(12, 8),
	}}
}

func backlog() grafana.Section {
	return grafana.Section{Title: "Backlog", Panels: []*grafana.Panel{
		grafana.Lines("Due windows by reason", "missing: never read; settle: read once more now that it can no longer change; unverified: it changed while it was read.",
			grafana.Range("sum by (reason) ("+due(exporter.LabelWindow, exporter.LabelReason)+")", "{{reason}}")).
			Steps().Stacked().In(grafana.Count).Empty(noScrape).Size(9, 8),
		grafana.Lines("Time until the backlog is done", "How long the request budget will need for all due windows.",
			grafana.Range(byInstance(exporter.BacklogFinish)+" - time()", "{{instance}}").Maybe("nothing is due")).
			In(grafana.Seconds).Empty("Nothing is due").Judged(grafana.Good, grafana.From(day, grafana.Warning), grafana.From(7*day, grafana.Bad)).Limits().Size(6, 8),
		grafana.Table("Due windows", "How many windows of each project and granularity are due, and why.", "Due", true,
			[]grafana.Column{
				grafana.Col("project", "Project", grafana.Text), grafana.Col("window", "Window", grafana.Text).Wide(80),
				grafana.Col("reason", "Reason", grafana.Text).Wide(110), grafana.Col("Value", "Due", grafana.Count).Wide(80),
			}, grafana.Labelled(due(exporter.LabelWindow, exporter.LabelReason)+" > 0").Maybe("nothing is due")).
			In(grafana.Count).Empty("Nothing is due").Size(9, 8),
	}}
}

func requests() grafana.Section {
	limit := live(of(exporter.APIBudgetLimit, ofInstance), "instance", exporter.LabelBudget)
	left := live(of(exporter.APIBudgetRemaining, ofInstance), "instance", exporter.LabelBudget)
	const unlimited, quiet = "the budget may be unlimited", "no request may have been sent within the hour"
	return grafana.Section{Title: "Requests and budget", Panels: []*grafana.Panel{
		grafana.Bars("Budget in use", "Share of the requests of any hour that are used up, of analytics and of each project's agents. At 100 % the rest waits: that is normal while a backlog is read.",
			grafana.Instant("1 - "+share(left, limit), "{{budget}} {{instance}}").Maybe(unlimited)).
			In(grafana.Share).Between(0, 1).Empty("No limit").
			Judged(grafana.Good, grafana.From(0.8, grafana.Warning), grafana.From(1, grafana.Bad)).Size(6, 8),
		grafana.Lines("Requests left", "Requests that the budget still allows, over time.",
			grafana.Range(left, "{{budget}} {{instance}}").Maybe(unlimited)).
			Steps().In(grafana.Count).Empty("No limit").Size(6, 8),
		grafana.Lines("Requests by status, 1 hour", "Requests of the hour before by HTTP status; 429 means that the service's limit was met.",
			grafana.Range("round("+grew(of(exporter.APIRequests, ofInstance), "1h", exporter.LabelEndpoint, exporter.LabelCode)+")", "{{endpoint}} {{code}}")).
			Columns().Stacked().In(grafana.Count).Empty(noScrape).Size(6, 8),
		grafana.Lines("How long requests take", "Median and slowest tenth of the requests of the hour before.",
			grafana.Range(quantile("0.5", exporter.APIRequestDuration, "1h", exporter.LabelEndpoint), "{{endpoint}} median").Maybe(quiet),
			grafana.Range(quantile("0.9", exporter.APIRequestDuration, "1h", exporter.LabelEndpoint), "{{endpoint}} 90 %").Maybe(quiet)).
			In(grafana.Seconds).Empty("No request in this time").Size(6, 8),
		grafana.Stat("Throttled by others", "Answers 429 in the dashboard's time range while our own requests had room: somebody else uses the same quota.",
			grafana.Instant("round(sum(increase("+of(exporter.APIForeignThrottles, ofInstance)+"[$__range])))", "throttles")).
			In(grafana.Count).Empty(noScrape).Judged(grafana.Good, grafana.From(1, grafana.Bad)).Size(6, 4),
		grafana.Stat("Keys", "Whether the API refused the last request with a key (401, 403).",
			grafana.Instant(live(of(exporter.APIKeyRejected, ofInstance), "instance", exporter.LabelKey), "{{key}} {{instance}}")).
			In(grafana.Text).Empty(noScrape).Words(map[string]grafana.Word{
			"0": {Text: "accepted", Color: grafana.Good}, "1": {Text: "refused", Color: grafana.Bad, Index: 1},
		}).Judged(grafana.Good, grafana.From(1, grafana.Bad)).Size(9, 4),
		grafana.Table("Program", "Which docgauge runs.", "Instance", false, []grafana.Column{
			grafana.Col("instance", "Instance", grafana.Text), grafana.Col("version", "Version", grafana.Text),
			grafana.Col("revision", "Revision", grafana.Text), grafana.Col("goversion", "Go", grafana.Text),
			grafana.Col("Value", "1", grafana.Number).Hidden(),
		}, grafana.Labelled(live(of(exporter.BuildInfo, ofInstance), "instance", exporter.LabelVersion, exporter.LabelRevision, exporter.LabelGoVersion))).
			In(grafana.Text).Empty(noScrape).Size(9, 4),
	}}
}

func sinks() grafana.Section {
	return grafana.Section{Title: "Sinks", Panels: []*grafana.Panel{
		grafana.Stat("Last commit", "How long ago each sink last took a window. Nothing new may be due for up to a day.",
			grafana.Instant("time() - "+live(of(exporter.SinkLastCommit, ofInstance), "instance", exporter.LabelSink), "{{sink}} {{instance}}").
				Maybe("a sink that is new has taken nothing")).
			In(grafana.Seconds).Empty("Nothing was committed").
			Judged(grafana.Good, grafana.From(26*3600, grafana.Warning), grafana.From(50*3600, grafana.Bad)).Size(6, 8),
		grafana.Lines("Windows committed, 1 hour", "Windows that each sink took in the hour before, each reading counted.",
			grafana.Range("round("+grew(of(exporter.WindowsCommitted, ofProject, ofInstance), "1h", exporter.LabelSink)+")", "{{sink}}")).
			Columns().In(grafana.Count).Empty(noScrape).Size(6, 8),
		grafana.Lines("Refused commits and lost windows, 1 hour", "Commits in the hour before that a sink refused or did not answer, whose windows wait in the spool; and windows that it had and no longer has, which are filled from another sink or read again.",
			grafana.Range("round("+grew(of(exporter.SinkFailures, ofInstance), "1h", exporter.LabelSink)+")", "{{sink}}: refused"),
			grafana.Range("round("+grew(of(exporter.SinkWindowsLost, ofInstance), "1h", exporter.LabelSink)+")", "{{sink}}: lost")).
			Columns().In(grafana.Count).Empty(noScrape).Judged(grafana.Good, grafana.From(1, grafana.Bad)).Size(6, 8),
		grafana.Lines("Windows in the spool", "Windows that were read and that a sink lacks. They go there first in the next run, without a request.",
			grafana.Range(live(of(exporter.SpoolWindows, ofInstance), "instance", exporter.LabelSink), "{{sink}} {{instance}}")).
			Steps().In(grafana.Count).Empty(noScrape).Judged(grafana.Good, grafana.From(1, grafana.Warning)).Size(6, 8),
	}}
}

func quality() grafana.Section {
	return grafana.Section{Title: "Quality", Panels: []*grafana.Panel{
		grafana.Lines("Drift and wasted pages, 24 hours", "Readings given up because the numbers changed meanwhile, and pages asked for that do not exist.",
			grafana.Range("round("+grew(of(exporter.WindowDrift, ofProject, ofInstance), "1d", exporter.LabelProject)+")", "{{project}}: drift"),
			grafana.Range("round("+grew(of(exporter.PagesMispredicted, ofProject, ofInstance), "1d", exporter.LabelProject)+")", "{{project}}: wasted pages")).
			Steps().In(grafana.Count).Empty(noScrape).Size(8, 8),
		grafana.Lines("Rows written, 1 hour", "Rows that each sink took in the hour before.",
			grafana.Range("round("+grew(of(exporter.RowsWritten, ofInstance), "1h", exporter.LabelSink)+")", "{{sink}}")).
			Columns().In(grafana.Count).Empty(noScrape).Size(8, 8),
		grafana.Lines("Windows set aside by reason", "Windows that are not asked for again for a while, and keep no other waiting. malformed: an answer holds what cannot be kept; repeats: the service sends the same rows again; refused or failing: it does so for these windows alone.",
			grafana.Range("sum by (reason) ("+live(of(exporter.WindowsSetAside, ofProject, ofInstance), exporter.LabelProject, exporter.LabelReason)+")", "{{reason}}")).
			Steps().Stacked().In(grafana.Count).Empty(noScrape).Size(8, 8),
		grafana.States("Newest windows are verified", "Whether the pages of the newest complete window agreed with each other, by project and granularity. One that did not is read again when it settles.",
			grafana.Range(newest(of(exporter.WindowVerified, ofProject), exporter.LabelProject, exporter.LabelWindow), "{{project}} {{window}}")).
			In(grafana.Text).Empty("No complete window yet").Words(yesOrNot(grafana.Warning)).
			Judged(grafana.Warning, grafana.From(1, grafana.Good)).Size(12, 8),
		grafana.Lines("Suspect rows of the newest windows", "Rows of windows that are not verified, which were read before the totals last moved, or whose path came twice. A row can be both. 0 where the window is verified.",
			grafana.Range(live(of(exporter.WindowSuspectRows, ofProject), exporter.LabelProject, exporter.LabelWindow, exporter.LabelKind), "{{project}} {{window}}: {{kind}}")).
			Steps().In(grafana.Count).Empty("No complete window yet").Size(12, 8),
	}}
}
