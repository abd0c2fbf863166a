package dashboards

import "github.com/docgauge/docgauge/exporter"

// jobs shows the prompt queue and its agent jobs.
func jobs() dashboard {
	return newDashboard(uidJobs, "docgauge / Agent jobs",
		"The prompt queue: prompts by state, jobs with their pull requests and what became of those, cost, caps, and "+
			"whether AI readers follow.",
		"now-30d", []variable{
			sourceVariable(promSource, "Prometheus", "The Prometheus that scrapes docgauge."),
			labelVariable("project", "Project", "Projects to show.", exporter.AgentPrompts, exporter.LabelProject),
			labelVariable("instance", "Instance", "The docgauge instance: one for each organisation.", exporter.AgentPrompts,
				"instance"),
		},
		jobsNow(), jobsTable(), jobsQueue(), jobsOutcomes(), jobsReviews(), jobsMoney(), jobsEffect())
}

const noQueue = "No queue: DOCGAUGE_PROMPTS_DIR is not set"

// Whatever has a project is shown once a project, also where several instances know it.
func ofQueue(metric string, matchers ...string) string {
	return of(metric, append([]string{ofProject, ofInstance}, matchers...)...)
}

// inState counts the prompts in a state.
func inState(state string) string {
	return "sum(" + live(ofQueue(exporter.AgentPrompts, is(exporter.LabelState, state)), exporter.LabelProject) + ")"
}

func jobsNow() section {
	return row("Now",
		stat("Queue",
			"Whether prompts are submitted. The panel Pauses gives the reason.",
			instant("max("+of(exporter.AgentQueuePaused, ofInstance)+")", "queue")).
			in(plain).empty(noQueue).words(either("running", good, "paused", bad)).judged(good, from(1, bad)).size(4, 4),
		stat("Waiting",
			"Prompts that wait for their time, their turn, a cap or the budget; docgauge jobs plan gives the reason.",
			instant(inState("pending"), "waiting")).in(counts).empty(noQueue).size(4, 4),
		stat("At work", "Agent jobs that the service works on.",
			instant(inState("active"), "at work")).in(counts).empty(noQueue).size(4, 4),
		stat("In doubt",
			"Prompts that the service may or may not have accepted. Each needs a person: docgauge jobs resolve.",
			instant(inState("unknown"), "in doubt")).in(counts).empty(noQueue).
			judged(good, from(1, bad)).size(4, 4),
		stat("Oldest job at work",
			"Age of the oldest unfinished job. After two hours it counts as stalled.",
			instant("time() - min("+ofQueue(exporter.AgentOldestActive)+")", "age").maybe("no job is at work")).
			in(seconds).empty("No job at work").
			judged(good, from(3600, warning), from(7200, bad)).size(4, 4),
		stat("Pull requests",
			"Jobs that ended with a pull request in the dashboard's time range.",
			instant("round(sum(increase("+ofQueue(exporter.AgentJobsFinished,
				is(exporter.LabelResult, "pr"))+"[$__range])))", "pull requests")).
			in(counts).empty(noQueue).judged(quiet, from(1, good)).size(4, 4),
	)
}

// jobLabels are what all series of a job have.
var jobLabels = []string{exporter.LabelProject, exporter.LabelPrompt, exporter.LabelJobID}

// pullRequest is the label made of pr_link where that is an address of the web.
const pullRequest = "pull_request"

// withLink gives series the label pull_request; what a link leads to begins with
// http:// or https://, whatever the service says.
func withLink(series string) string {
	return "label_replace(" + series + `, "` + pullRequest + `", "$1", "` + exporter.LabelPRLink + `", "(https?://.+)")`
}

// jobInfo is 1 for each job, with its labels.
func jobInfo(matchers ...string) string {
	return live(withLink(ofQueue(exporter.AgentJobInfo, matchers...)), append(jobLabels, exporter.LabelStatus, pullRequest,
		exporter.LabelModel, exporter.LabelRepository, exporter.LabelRef)...)
}

func jobsTable() section {
	const none = "no prompt was submitted in the last 30 days"
	created := live(ofQueue(exporter.AgentJobCreated), jobLabels...)
	finished := live(ofQueue(exporter.AgentJobFinished), jobLabels...)
	return row("Jobs",
		table("Jobs and their pull requests",
			"The newest job of each prompt, for 30 days after its end. Took: from its creation to its end, or until now. "+
				"Click on a pull request to open it.",
			"Created", true, []column{
				col("status", "Status", plain).wide(110).words(statuses()),
				col("prompt", "Prompt", plain), col(pullRequest, "Pull request", plain).
					linked("Open the pull request", "${__value.raw}", true),
				col("Value #B", "Created", ago).wide(140), col("Value #C", "Took", seconds).wide(100),
				col("project", "Project", plain).wide(110), col("repository", "Repository", plain).wide(160),
				col("ref", "Ref", plain).wide(100), col("model", "Model", plain).wide(120),
				col("job_id", "Job", plain).wide(160), col("Value #A", "1", numerals).hidden(),
			},
			labelled(jobInfo()).maybe(none), labelled(milliseconds(created)).maybe(none),
			labelled("("+finished+" or time() * ("+created+" > bool 0)) - "+created).maybe(none)).
			in(plain).empty("No job yet").size(24, 10),
	)
}

// statuses are the service's words for a job.
func statuses() map[string]word {
	return map[string]word{
		"active":    {Text: "active", Color: neutral},
		"completed": {Text: "completed", Color: good, Index: 1},
		"failed":    {Text: "failed", Color: bad, Index: 2},
		"archived":  {Text: "archived", Color: quiet, Index: 3},
	}
}

func jobsQueue() section {
	states := "sum by (state) (" + live(ofQueue(exporter.AgentPrompts), exporter.LabelProject, exporter.LabelState) + ")"
	return row("Prompts",
		graph("Queue by state", "Prompt files and their jobs, by state, over time.", overTime(states, "{{state}}")).
			steps().stacked().in(counts).empty(noQueue).size(12, 9),
		bars("Prompts by state",
			"Prompt files and their jobs now. invalid: docgauge jobs lint says why.",
			instant("sort_desc("+states+" > 0)", "{{state}}").maybe("the folder may hold no prompt")).
			in(counts).empty("No prompt").size(6, 9),
		timeline("Pauses",
			"When the queue was paused, and why: unknown (two in doubt in a row), unauthorized (the key was refused), "+
				"operator, new_state (the journal is new).",
			overTime("max by (reason) ("+of(exporter.AgentQueuePaused, ofInstance)+")", "{{reason}}")).
			in(plain).empty(noQueue).words(either("running", good, "paused", bad)).judged(good, from(1, bad)).size(6, 9),
	)
}

// withPullRequest picks jobs that ended with one.
func withPullRequest() string {
	return "(" + live(ofQueue(exporter.AgentJobFinished), jobLabels...) + " - " +
		live(ofQueue(exporter.AgentJobCreated), jobLabels...) + ") and on (project, prompt, job_id) " +
		live(ofQueue(exporter.AgentJobInfo, exporter.LabelPRLink+`!=""`), jobLabels...)
}

func jobsOutcomes() section {
	ended := func(span string, matchers ...string) string {
		return grew(ofQueue(exporter.AgentJobsFinished, matchers...), span, exporter.LabelResult)
	}
	all := "sum(" + ofQueue(exporter.AgentJobsFinished) + ")"
	const noPR = "no job of the last 30 days ended with a pull request"
	return row("Outcomes",
		stat("Ended with a pull request", "Share of all jobs that ended since the state was created.",
			instant(share("sum("+ofQueue(exporter.AgentJobsFinished, is(exporter.LabelResult, "pr"))+")", all), "share").
				maybe("no job has ended")).
			in(shares).between(0, 1).empty("No job has ended").
			judged(bad, from(0.3, warning), from(0.6, good)).size(4, 8),
		bars("Jobs by result",
			"Jobs that ended in the dashboard's time range: pr (completed with a pull request), no_pr (without), failed, "+
				"archived, lost.",
			instant(ended("$__range"), "{{result}}")).
			in(counts).empty(noQueue).size(6, 8),
		graph("Results, 24 hours", "Jobs that ended in the 24 hours before, by result.", overTime(ended("1d"), "{{result}}")).
			steps().stacked().in(counts).empty(noQueue).size(7, 8),
		stat("Time to a pull request",
			"Time from the creation of a job to its end, for jobs of the last 30 days with a pull request. Half of them took "+
				"less than the median.",
			instant("quantile(0.5, "+withPullRequest()+")", "median").maybe(noPR),
			instant("max("+withPullRequest()+")", "longest").maybe(noPR)).
			in(seconds).empty("No pull request yet").
			judged(good, from(1800, warning), from(7200, bad)).size(7, 8),
	)
}

// jobsReviews shows what people make of the pull requests.
func jobsReviews() section {
	const none, noMerge, noCost = "no pull request may have ended", "nothing may have been merged", "DOCGAUGE_JOB_COST may not be set"
	grown := func(metric string) string { return "sum(increase(" + ofQueue(metric) + "[$__range]))" }
	merged, closed := grown(exporter.AgentPullsMerged), grown(exporter.AgentPullsClosed)
	tookMost := func(q, span string) string {
		return quantile(q, exporter.AgentMergeSeconds, span, "", ofProject, ofInstance)
	}
	return row("Reviews",
		graph("Pull requests by state",
			"All pull requests of agent jobs: draft, open, merged, closed without a merge, or unknown, where the code host "+
				"could not be asked.",
			overTime("sum by (state) ("+live(ofQueue(exporter.AgentPulls), exporter.LabelProject, exporter.LabelState)+")", "{{state}}")).
			steps().stacked().in(counts).empty(noQueue).size(8, 8),
		stat("Accepted",
			"Share of the pull requests that were merged, of those that ended in the dashboard's time range. One that is "+
				"closed without a merge counts a day later, because it may be reopened.",
			instant(share(merged, "("+merged+" + "+closed+")"), "accepted").maybe(none)).
			in(shares).between(0, 1).empty("None has ended").
			judged(bad, from(0.5, warning), from(0.75, good)).size(4, 8),
		stat("Time to merge",
			"Time from when a pull request was opened, made ready or reopened to its merge, of those merged in the "+
				"dashboard's time range. Half of them took less than the median, and nine of ten less than the 90 %.",
			instant(tookMost("0.5", "$__range"), "median").maybe(noMerge),
			instant(tookMost("0.9", "$__range"), "90 %").maybe(noMerge)).
			in(seconds).empty("Nothing was merged").
			judged(good, from(2*day, warning), from(7*day, bad)).size(4, 8),
		stat("Oldest open",
			"How long the pull request waits that has waited longest, drafts included. After a week an alert fires.",
			instant("time() - min("+ofQueue(exporter.AgentOldestOpen)+")", "waits").maybe("no pull request may be open")).
			in(seconds).empty("None is open").
			judged(good, from(2*day, warning), from(7*day, bad)).size(4, 8),
		stat("Cost per merge",
			"What all jobs cost that were created in the dashboard's time range, in the unit of DOCGAUGE_JOB_COST, for each "+
				"pull request merged in it.",
			instant(share(grown(exporter.AgentJobCost), merged), "per merge").maybe(noCost)).
			in(numerals).empty("No cost, or nothing merged").size(4, 8),
		graph("Merged and closed, 7 days", "Pull requests that were merged, and that were closed without a merge, in the "+
			"seven days before.",
			overTime(grew(ofQueue(exporter.AgentPullsMerged), "7d", exporter.LabelProject), "{{project}}: merged"),
			overTime(grew(ofQueue(exporter.AgentPullsClosed), "7d", exporter.LabelProject), "{{project}}: closed")).
			steps().in(counts).empty(noQueue).size(12, 8),
		graph("Time to merge, 30 days",
			"Time from when a pull request was opened, made ready or reopened to its merge, of those merged in the 30 days "+
				"before.",
			overTime(tookMost("0.5", "30d"), "median").maybe(noMerge),
			overTime(tookMost("0.9", "30d"), "90 %").maybe(noMerge)).
			in(seconds).empty("Nothing was merged").size(12, 8),
	)
}

func jobsMoney() section {
	limit, used := byInstance(exporter.AgentCapLimit, exporter.LabelCap), byInstance(exporter.AgentCapUsed,
		exporter.LabelCap)
	agents := exporter.LabelBudget + `=~"agent:($project)"`
	left := live(of(exporter.APIBudgetRemaining, ofInstance, agents), exporter.LabelBudget)
	budget := live(of(exporter.APIBudgetLimit, ofInstance, agents), exporter.LabelBudget)
	const unlimited = "the budget may be unlimited"
	return row("Money and requests",
		bars("Caps on jobs",
			"Used share of DOCGAUGE_MAX_JOBS_PER_DAY (day, over 24 hours), DOCGAUGE_MAX_ACTIVE_JOBS (active) and "+
				"DOCGAUGE_MAX_OPEN_PULL_REQUESTS (open_pull_requests). At 100 % prompts wait.",
			instant(share(used, limit), "{{cap}} {{instance}}").maybe("the caps may be unlimited")).
			in(shares).between(0, 1).empty("No cap").
			judged(good, from(0.8, warning), from(1, bad)).size(6, 8),
		graph("Jobs against the caps",
			"Jobs that count against each cap, and how many there may be.",
			overTime(used, "{{cap}}: used {{instance}}"), overTime(limit, "{{cap}}: most {{instance}}")).
			steps().in(counts).empty(noQueue).size(9, 8),
		graph("Agent requests left",
			"Prompts and messages that DOCGAUGE_AGENT_BUDGET still allows this hour, of each project.",
			overTime(left, "{{budget}}: left").maybe(unlimited), overTime(budget+" > 0", "{{budget}}: limit").maybe(unlimited)).
			steps().in(counts).empty("No limit").size(9, 8),
	)
}

// jobsEffect shows the jobs beside those that they are for.
func jobsEffect() section {
	const tooEarly = "a merge needs 14 days before it, 7 after it and 20 visitors a day"
	change := func(bound string) target {
		return labelled(live(withLink(ofQueue(exporter.AgentOutcome, is(exporter.LabelBound, bound))), exporter.LabelProject,
			pullRequest, exporter.LabelPath, exporter.LabelAudience)).maybe(tooEarly)
	}
	aiReaders := func(window string) string { return site(exporter.SiteVisitors, window, audience(exporter.AudienceAI)) }
	return row("Effect",
		table("Readers after a merge",
			"Change of the daily readers of each page that a merge touched, relative to what untouched pages let expect. Of ten "+
				"such intervals, nine have the true change: where one has 0 % in it, the numbers do not tell. That a merge is the "+
				"cause is not proved.",
			"Change", true, []column{
				col(pullRequest, "Pull request", plain).linked("Open the pull request", "${__value.raw}", true),
				col("path", "Page", plain), col("audience", "Readers", plain).wide(90),
				col("Value #A", "Change", shares).wide(100), col("Value #B", "90 % from", shares).wide(100),
				col("Value #C", "to", shares).wide(100), col("project", "Project", plain).wide(110),
			},
			change(exporter.BoundEstimate), change(exporter.BoundLow), change(exporter.BoundHigh)).
			in(plain).empty("No merge with enough days yet").size(24, 8),
		graph("Jobs and AI readers",
			"AI readers of the newest complete week, and pull requests of the seven days before each moment. That they rise "+
				"together proves nothing by itself."+notAdded,
			overTime(aiReaders("week"), "{{project}}: AI readers of the week").maybe("weeks may not be exported"),
			overTime(aiReaders("day"), "{{project}}: AI readers of the day").maybe("days may not be exported"),
			overTime(grew(ofQueue(exporter.AgentJobsFinished, is(exporter.LabelResult, "pr")), "7d", exporter.LabelProject),
				"{{project}}: pull requests, 7 days")).
			steps().in(counts).empty("No readers and no jobs in this time").
			like("pull requests",
				property("custom.axisPlacement", "right"), property("custom.axisLabel", "pull requests"),
				property("custom.drawStyle", "bars"), property("custom.fillOpacity", 60),
				property("custom.lineWidth", 1), property("custom.lineInterpolation", "linear")).size(24, 10),
	)
}
