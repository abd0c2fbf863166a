package dashboards

import "github.com/docgauge/docgauge/exporter"

// pipeline shows how exporting goes.
func pipeline() dashboard {
	return newDashboard(uidPipeline, "docgauge / Pipeline health",
		"Whether exporting works: last success, due windows and when they will be done, requests and budget, sinks, "+
			"drift, keys.",
		"now-24h", []variable{
			sourceVariable(promSource, "Prometheus", "The Prometheus that scrapes docgauge."),
			labelVariable("project", "Project", "Projects to show.", exporter.WindowsDue, exporter.LabelProject),
			labelVariable("instance", "Instance", "The docgauge instance: one for each organisation.", exporter.BuildInfo,
				"instance"),
		},
		health(), runs(), backlog(), requests(), sinks(), quality())
}

// since is how long ago a moment was.
func since(metric string) string { return "time() - " + byInstance(metric) }

// Three hourly firings without success are one alert; see docs/runbook.md.
const (
	lateAfter   = 2 * 3600
	failedAfter = 3 * 3600
	day         = 86400
)

const noScrape = "Nothing is scraped"

func health() section {
	return row("Health",
		stat("Last success",
			"Time since an export run last succeeded, or deferred the rest to the next hour's budget. The colours fit the "+
				"default schedule, hourly.",
			instant(since(exporter.ExportLastSuccess), "{{instance}}")).
			in(seconds).empty("No run has succeeded").
			judged(good, from(lateAfter, warning), from(failedAfter, bad)).size(4, 4),
		stat("Last run",
			"Time since an export run last ended, with success or not. If this is recent and the last success is not, runs "+
				"fail.",
			instant(since(exporter.ExportLastCompletion), "{{instance}}")).
			in(seconds).empty("No run has ended").
			judged(good, from(lateAfter, warning), from(failedAfter, bad)).size(4, 4),
		stat("Age of the values",
			"Age of the values that are scraped. serve renews them after each commit and every few minutes.",
			instant(since(exporter.SnapshotTimestamp), "{{instance}}")).
			in(seconds).empty(noScrape).
			judged(good, from(600, warning), from(3600, bad)).size(4, 4),
		stat("Windows due", "Complete windows that must be read, or read again.",
			instant("sum("+due(exporter.LabelWindow, exporter.LabelReason)+")", "due")).
			in(counts).empty(noScrape).judged(good, from(1, neutral), from(100, warning)).size(4, 4),
		stat("Backlog done", "When the last due window can be read within the request budget.",
			instant(milliseconds(byInstance(exporter.BacklogFinish)), "{{instance}}").maybe("nothing is due")).
			in(ago).empty("Nothing is due").size(4, 4),
		stat("Key expires in",
			"Time until the API key expires, where DOCGAUGE_API_KEY_EXPIRES says when.",
			instant(byInstance(exporter.APIKeyExpiry, exporter.LabelKey)+" - time()", "{{key}} {{instance}}").
				maybe("DOCGAUGE_API_KEY_EXPIRES is not set")).
			in(seconds).empty("Not known").
			judged(bad, from(7*day, warning), from(30*day, good)).size(4, 4),
		timeline("Is all well?",
			"Four conditions over time: runs succeed, every sink has all windows, the key is accepted, no prompt queue is "+
				"paused.",
			overTime("max("+since(exporter.ExportLastSuccess)+") < bool 10800", "runs succeed"),
			overTime("max("+of(exporter.SpoolWindows, ofInstance)+") == bool 0", "sinks have all windows"),
			overTime("max("+of(exporter.APIKeyRejected, ofInstance)+") == bool 0", "key is accepted"),
			overTime("max("+of(exporter.AgentQueuePaused, ofInstance)+") == bool 0", "prompts are submitted").
				maybe("there is no queue")).
			in(plain).empty(noScrape).words(either("no", bad, "yes", good)).judged(bad, from(1, good)).size(24, 6),
	)
}

// due counts the windows that are due, once a project.
func due(labels ...string) string {
	return live(of(exporter.WindowsDue, ofProject, ofInstance), append([]string{exporter.LabelProject}, labels...)...)
}

// quantile is of a histogram's observations in a span, one for each value of a label
// or, where that is empty, one of all: from buckets, or where the server keeps native
// histograms from those.
func quantile(q, series, span, label string, matchers ...string) string {
	buckets, native := "le", ""
	if label != "" {
		buckets, native = "le, "+label, " by ("+label+")"
	}
	return "histogram_quantile(" + q + ", sum by (" + buckets + ") (increase(" + of(series+"_bucket", matchers...) +
		"[" + span + "]))) or histogram_quantile(" + q + ", sum" + native + " (increase(" + of(series, matchers...) + "[" +
		span + "])))"
}

func runs() section {
	const quiet = "no run may have ended within six hours"
	return row("Runs",
		graph("Runs by outcome, 1 hour",
			"Export runs that ended in the hour before: success, deferred (by the budget), failed, interrupted.",
			overTime(grew(of(exporter.ExportRuns, ofInstance), "1h", exporter.LabelOutcome), "{{outcome}}")).
			columns().stacked().in(counts).empty(noScrape).
			on("success", always(good)).on("deferred", always(neutral)).
			on("failed", always(bad)).on("interrupted", always("orange")).size(12, 8),
		graph("How long runs take",
			"Median and 90th percentile of the runs in the six hours before each moment.",
			overTime(quantile("0.5", exporter.ExportDuration, "6h", "", ofInstance), "median").maybe(quiet),
			overTime(quantile("0.9", exporter.ExportDuration, "6h", "", ofInstance), "90 %").maybe(quiet)).
			in(seconds).empty("No run in this time").size(12, 8),
	)
}

func backlog() section {
	return row("Backlog",
		graph("Due windows by reason",
			"missing: never read; settle: read once more now that it can no longer change; unverified: it changed while it "+
				"was read.",
			overTime("sum by (reason) ("+due(exporter.LabelWindow, exporter.LabelReason)+")", "{{reason}}")).
			steps().stacked().in(counts).empty(noScrape).size(9, 8),
		graph("Time until the backlog is done", "How long all due windows will take within the request budget.",
			overTime(byInstance(exporter.BacklogFinish)+" - time()", "{{instance}}").maybe("nothing is due")).
			in(seconds).empty("Nothing is due").judged(good, from(day, warning), from(7*day, bad)).limits().size(6, 8),
		table("Due windows", "How many windows of each project and granularity are due, and why.", "Due", true,
			[]column{
				col("project", "Project", plain), col("window", "Window", plain).wide(80),
				col("reason", "Reason", plain).wide(110), col("Value", "Due", counts).wide(80),
			}, labelled(due(exporter.LabelWindow, exporter.LabelReason)+" > 0").maybe("nothing is due")).
			in(counts).empty("Nothing is due").size(9, 8),
	)
}

func requests() section {
	limit := byInstance(exporter.APIBudgetLimit, exporter.LabelBudget)
	left := byInstance(exporter.APIBudgetRemaining, exporter.LabelBudget)
	const unlimited, quiet = "the budget may be unlimited", "no request may have been sent within the hour"
	return row("Requests and budget",
		bars("Budget in use",
			"Used share of the hourly request budgets, for analytics and for each project's agents. At 100 % further "+
				"requests wait, which is normal while a backlog is read.",
			instant("1 - "+share(left, limit), "{{budget}} {{instance}}").maybe(unlimited)).
			in(shares).between(0, 1).empty("No limit").
			judged(good, from(0.8, warning), from(1, bad)).size(6, 8),
		graph("Requests left", "Requests that the budget still allows, over time.",
			overTime(left, "{{budget}} {{instance}}").maybe(unlimited)).
			steps().in(counts).empty("No limit").size(6, 8),
		graph("Requests by status, 1 hour",
			"Requests of the hour before by HTTP status; 429 means that the service's limit was met.",
			overTime(grew(of(exporter.APIRequests, ofInstance), "1h", exporter.LabelEndpoint, exporter.LabelCode),
				"{{endpoint}} {{code}}")).
			columns().stacked().in(counts).empty(noScrape).size(6, 8),
		graph("How long requests take",
			"Median and 90th percentile of the requests in the hour before each moment.",
			overTime(quantile("0.5", exporter.APIRequestDuration, "1h", exporter.LabelEndpoint, ofInstance), "{{endpoint}} median").
				maybe(quiet),
			overTime(quantile("0.9", exporter.APIRequestDuration, "1h", exporter.LabelEndpoint, ofInstance), "{{endpoint}} 90 %").
				maybe(quiet)).
			in(seconds).empty("No request in this time").size(6, 8),
		stat("Throttled by others",
			"Answers with status 429 in the dashboard's time range although docgauge's own budget had room: somebody else "+
				"uses the same quota.",
			instant("round(sum(increase("+of(exporter.APIForeignThrottles, ofInstance)+"[$__range])))", "throttles")).
			in(counts).empty(noScrape).judged(good, from(1, bad)).size(4, 4),
		stat("Keys",
			"Whether the API refused the last request with a key (401, 403).",
			instant(byInstance(exporter.APIKeyRejected, exporter.LabelKey), "{{key}} {{instance}}")).
			in(plain).empty(noScrape).words(either("accepted", good, "refused", bad)).judged(good, from(1, bad)).size(5, 4),
		stat("Settings",
			"Whether serve took its settings at the last reload. Those it refuses leave the former ones in use.",
			instant(byInstance(exporter.ConfigReloadSuccessful), "{{instance}}")).
			in(plain).empty("No serve").words(either("refused", bad, "in use", good)).judged(bad, from(1, good)).size(4, 4),
		stat("Settings taken",
			"How long ago serve last took its settings, at its start or at a reload.",
			instant("time() - "+byInstance(exporter.ConfigReloadSuccessTime), "{{instance}}")).
			in(seconds).empty("No serve").size(4, 4),
		table("Program", "The version of docgauge that runs.", "Instance", false, []column{
			col("instance", "Instance", plain), col("version", "Version", plain),
			col("revision", "Revision", plain), col("goversion", "Go", plain),
			col("Value", "1", numerals).hidden(),
		}, labelled(byInstance(exporter.BuildInfo, exporter.LabelVersion, exporter.LabelRevision, exporter.LabelGoVersion))).
			in(plain).empty(noScrape).size(7, 4),
	)
}

func sinks() section {
	return row("Sinks",
		stat("Last commit",
			"How long ago each sink last took a window. Nothing new may be due for up to a day.",
			instant("time() - "+byInstance(exporter.SinkLastCommit, exporter.LabelSink), "{{sink}} {{instance}}").
				maybe("a sink that is new has taken nothing")).
			in(seconds).empty("Nothing was committed").
			judged(good, from(26*3600, warning), from(50*3600, bad)).size(6, 8),
		graph("Windows committed, 1 hour",
			"Windows that each sink took in the hour before, each reading counted.",
			overTime(grew(of(exporter.WindowsCommitted, ofProject, ofInstance), "1h", exporter.LabelSink), "{{sink}}")).
			columns().in(counts).empty(noScrape).size(6, 8),
		graph("Refused commits and lost windows, 1 hour",
			"Commits that a sink refused or did not answer in the hour before; their windows wait in the spool. Lost: "+
				"windows that a sink no longer has; they are filled from another sink or read again.",
			overTime(grew(of(exporter.SinkFailures, ofInstance), "1h", exporter.LabelSink), "{{sink}}: refused"),
			overTime(grew(of(exporter.SinkWindowsLost, ofInstance), "1h", exporter.LabelSink), "{{sink}}: lost")).
			columns().in(counts).empty(noScrape).judged(good, from(1, bad)).size(6, 8),
		graph("Windows in the spool",
			"Windows that were read but that a sink lacks. The next run commits them first, without a request.",
			overTime(byInstance(exporter.SpoolWindows, exporter.LabelSink), "{{sink}} {{instance}}")).
			steps().in(counts).empty(noScrape).judged(good, from(1, warning)).size(6, 8),
	)
}

func quality() section {
	return row("Quality",
		graph("Drift and wasted pages, 24 hours",
			"Readings given up because the numbers changed in between, and requests for pages that do not exist.",
			overTime(grew(of(exporter.WindowDrift, ofProject, ofInstance), "1d", exporter.LabelProject), "{{project}}: drift"),
			overTime(grew(of(exporter.PagesMispredicted, ofProject, ofInstance), "1d", exporter.LabelProject),
				"{{project}}: wasted pages")).
			steps().in(counts).empty(noScrape).size(8, 8),
		graph("Rows written, 1 hour", "Rows that each sink took in the hour before.",
			overTime(grew(of(exporter.RowsWritten, ofInstance), "1h", exporter.LabelSink), "{{sink}}")).
			columns().in(counts).empty(noScrape).size(8, 8),
		graph("Windows set aside by reason",
			"Windows that are not requested for a while; no other window waits for them. malformed: an answer is not valid; "+
				"repeats: the service sends the same rows again; refused or failing: the service does so for these windows alone.",
			overTime("sum by (reason) ("+live(of(exporter.WindowsSetAside, ofProject, ofInstance), exporter.LabelProject,
				exporter.LabelReason)+")", "{{reason}}")).
			steps().stacked().in(counts).empty(noScrape).size(8, 8),
		timeline("Newest windows are verified",
			"Whether the pages of the newest complete window agreed with each other, by project and granularity. An "+
				"unverified window is read again when it settles.",
			overTime(newest(of(exporter.WindowVerified, ofProject), exporter.LabelProject, exporter.LabelWindow),
				"{{project}} {{window}}")).
			in(plain).empty("No complete window yet").words(either("no", warning, "yes", good)).
			judged(warning, from(1, good)).size(12, 8),
		graph("Suspect rows of the newest windows",
			"Rows of unverified windows that were read before the totals last changed, or whose path came twice. A row can "+
				"be both. 0 for a verified window.",
			overTime(live(of(exporter.WindowSuspectRows, ofProject), exporter.LabelProject, exporter.LabelWindow,
				exporter.LabelKind), "{{project}} {{window}}: {{kind}}")).
			steps().in(counts).empty("No complete window yet").size(12, 8),
	)
}
