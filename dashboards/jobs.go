package dashboards

import (
	"github.com/docgauge/docgauge/dashboards/grafana"
	"github.com/docgauge/docgauge/exporter"
)

// jobs shows the prompt queue and its agent jobs.
func jobs() grafana.Dashboard {
	return grafana.New(uidJobs, "docgauge / Agent jobs",
		"What the prompt queue does: prompts by state, jobs with their pull requests, outcomes, money caps, and whether AI readers follow.",
		"now-30d", []grafana.Variable{
			grafana.Prometheus.Choose("Prometheus", "The Prometheus that scrapes docgauge."),
			grafana.Labels("project", "Project", "Projects to show.", exporter.AgentPrompts, exporter.LabelProject),
			grafana.Labels("instance", "Instance", "Which docgauge: one for each organisation.", exporter.AgentPrompts, "instance"),
		},
		jobsNow(), jobsTable(), jobsQueue(), jobsOutcomes(), jobsMoney(), jobsEffect())
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

func jobsNow() grafana.Section {
	return grafana.Section{Title: "Now", Panels: []*grafana.Panel{
		grafana.Stat("Queue",
			"Whether prompts are submitted. Why they are not is under Pauses.",
			grafana.Instant("max("+of(exporter.AgentQueuePaused, ofInstance)+")", "queue")).
			In(grafana.Text).Empty(noQueue).Words(map[string]grafana.Word{
			"0": {Text: "running", Color: grafana.Good}, "1": {Text: "paused", Color: grafana.Bad, Index: 1},
		}).Judged(grafana.Good, grafana.From(1, grafana.Bad)).Size(4, 4),
		grafana.Stat("Waiting", "Prompts that wait for their time, their turn, a cap or the budget; jobs plan says for what.",
			grafana.Instant(inState("pending"), "waiting")).In(grafana.Count).Empty(noQueue).Size(4, 4),
		grafana.Stat("At work", "Agent jobs that the service works on.",
			grafana.Instant(inState("active"), "at work")).In(grafana.Count).Empty(noQueue).Size(4, 4),
		grafana.Stat("In doubt", "Prompts of which nobody knows whether the service took them. Each needs a person: docgauge jobs resolve.",
			grafana.Instant(inState("unknown"), "in doubt")).In(grafana.Count).Empty(noQueue).
			Judged(grafana.Good, grafana.From(1, grafana.Bad)).Size(4, 4),
		grafana.Stat("Oldest job at work", "How long ago the oldest job began that has not ended. After two hours it counts as stalled.",
			grafana.Instant("time() - min("+ofQueue(exporter.AgentOldestActive)+")", "age").Maybe("no job is at work")).
			In(grafana.Seconds).Empty("No job at work").
			Judged(grafana.Good, grafana.From(3600, grafana.Warning), grafana.From(7200, grafana.Bad)).Size(4, 4),
		grafana.Stat("Pull requests", "Jobs that ended with a pull request in the dashboard's time range.",
			grafana.Instant("round(sum(increase("+ofQueue(exporter.AgentJobsFinished, is(exporter.LabelResult, "pr"))+"[$__range])))", "pull requests")).
			In(grafana.Count).Empty(noQueue).Judged(grafana.Quiet, grafana.From(1, grafana.Good)).Size(4, 4),
	}}
}

// jobLabels are what all series of a job have.
var jobLabels = []string{exporter.LabelProject, exporter.LabelPrompt, exporter.LabelJobID}

// pullRequest is the label made of pr_link where that is an address of the web.
const pullRequest = "pull_request"

// jobInfo is 1 for each job, with its labels; what a link leads to begins with
// http:// or https://, whatever the service says.
func jobInfo(matchers ...string) string {
	series := "label_replace(" + ofQueue(exporter.AgentJobInfo, matchers...) + `, "` + pullRequest + `", "$1", "` + exporter.LabelPRLink + `", "(https?://.+)")`
	return live(series, append(jobLabels, exporter.LabelStatus, pullRequest, exporter.LabelModel, exporter.LabelRepository, exporter.LabelRef)...)
}

func jobsTable() grafana.Section {
	const none = "no prompt was submitted in the last 30 days"
	created, finished := live(ofQueue(exporter.AgentJobCreated), jobLabels...), live(ofQueue(exporter.AgentJobFinished), jobLabels...)
	return grafana.Section{Title: "Jobs", Panels: []*grafana.Panel{
		grafana.Table("Jobs and their pull requests",
			"The newest job of each prompt, for 30 days after its end. Took: from its creation to its end, or until now. Click on a pull request to open it.",
			"Created", true, []grafana.Column{
				grafana.Col("status", "Status", grafana.Text).Wide(110).Words(statuses()),
				grafana.Col("prompt", "Prompt", grafana.Text), grafana.Col(pullRequest, "Pull request", grafana.Text).
					Linked("Open the pull request", "${__value.raw}", true),
				grafana.Col("Value #B", "Created", grafana.FromNow).Wide(140), grafana.Col("Value #C", "Took", grafana.Seconds).Wide(100),
				grafana.Col("project", "Project", grafana.Text).Wide(110), grafana.Col("repository", "Repository", grafana.Text).Wide(160),
				grafana.Col("ref", "Ref", grafana.Text).Wide(100), grafana.Col("model", "Model", grafana.Text).Wide(120),
				grafana.Col("job_id", "Job", grafana.Text).Wide(160), grafana.Col("Value #A", "1", grafana.Number).Hidden(),
			},
			grafana.Labelled(jobInfo()).Maybe(none), grafana.Labelled(milliseconds(created)).Maybe(none),
			grafana.Labelled("("+finished+" or time() * ("+created+" > bool 0)) - "+created).Maybe(none)).
			In(grafana.Text).Empty("No job yet").Size(24, 10),
	}}
}

// statuses are the service's words for a job.
func statuses() map[string]grafana.Word {
	return map[string]grafana.Word{
		"active":    {Text: "active", Color: grafana.Neutral},
		"completed": {Text: "completed", Color: grafana.Good, Index: 1},
		"failed":    {Text: "failed", Color: grafana.Bad, Index: 2},
		"archived":  {Text: "archived", Color: grafana.Quiet, Index: 3},
	}
}

func jobsQueue() grafana.Section {
	states := "sum by (state) (" + live(ofQueue(exporter.AgentPrompts), exporter.LabelProject, exporter.LabelState) + ")"
	return grafana.Section{Title: "Prompts", Panels: []*grafana.Panel{
		grafana.Lines("Queue by state", "Prompt files and their jobs, by state, over time.", grafana.Range(states, "{{state}}")).
			Steps().Stacked().In(grafana.Count).Empty(noQueue).Size(12, 9),
		grafana.Bars("Prompts by state", "Prompt files and their jobs now. invalid: docgauge jobs lint says why.",
			grafana.Instant("sort_desc("+states+" > 0)", "{{state}}").Maybe("the folder may hold no prompt")).
			In(grafana.Count).Empty("No prompt").Size(6, 9),
		grafana.States("Pauses", "When no prompt was submitted, and why: unknown (two in doubt in a row), unauthorized (the key was refused), operator, new_state (the journal is new).",
			grafana.Range("max by (reason) ("+of(exporter.AgentQueuePaused, ofInstance)+")", "{{reason}}")).
			In(grafana.Text).Empty(noQueue).Words(map[string]grafana.Word{
			"0": {Text: "running", Color: grafana.Good}, "1": {Text: "paused", Color: grafana.Bad, Index: 1},
		}).Judged(grafana.Good, grafana.From(1, grafana.Bad)).Size(6, 9),
	}}
}

// withPullRequest picks jobs that ended with one.
func withPullRequest() string {
	return "(" + live(ofQueue(exporter.AgentJobFinished), jobLabels...) + " - " + live(ofQueue(exporter.AgentJobCreated), jobLabels...) + ")" +
		" and on (project, prompt, job_id) " + live(ofQueue(exporter.AgentJobInfo, exporter.LabelPRLink+`!=""`), jobLabels...)
}

func jobsOutcomes() grafana.Section {
	ended := func(span string, matchers ...string) string {
		return grew(ofQueue(exporter.AgentJobsFinished, matchers...), span, exporter.LabelResult)
	}
	all := "sum(" + ofQueue(exporter.AgentJobsFinished) + ")"
	const noPR = "no job of the last 30 days ended with a pull request"
	return grafana.Section{Title: "Outcomes", Panels: []*grafana.Panel{
		grafana.Stat("Ended with a pull request", "Share of all jobs that ended since the state was made.",
			grafana.Instant(share("sum("+ofQueue(exporter.AgentJobsFinished, is(exporter.LabelResult, "pr"))+")", all), "share").Maybe("no job has ended")).
			In(grafana.Share).Between(0, 1).Empty("No job has ended").
			Judged(grafana.Bad, grafana.From(0.3, grafana.Warning), grafana.From(0.6, grafana.Good)).Size(4, 8),
		grafana.Bars("Jobs by result", "Jobs that ended in the dashboard's time range: pr (completed with a pull request), no_pr (without), failed, archived, lost.",
			grafana.Instant("round("+ended("$__range")+")", "{{result}}")).
			In(grafana.Count).Empty(noQueue).Size(6, 8),
		grafana.Lines("Results, 24 hours", "Jobs that ended in the 24 hours before, by result.", grafana.Range("round("+ended("1d")+")", "{{result}}")).
			Steps().Stacked().In(grafana.Count).Empty(noQueue).Size(7, 8),
		grafana.Stat("Time to a pull request", "From the creation of a job to its end, of jobs of the last 30 days that ended with a pull request: half of them took less than the median.",
			grafana.Instant("quantile(0.5, "+withPullRequest()+")", "median").Maybe(noPR),
			grafana.Instant("max("+withPullRequest()+")", "longest").Maybe(noPR)).
			In(grafana.Seconds).Empty("No pull request yet").
			Judged(grafana.Good, grafana.From(1800, grafana.Warning), grafana.From(7200, grafana.Bad)).Size(7, 8),
	}}
}

func jobsMoney() grafana.Section {
	limit, used := live(of(exporter.AgentCapLimit, ofInstance), "instance", exporter.LabelCap), live(of(exporter.AgentCapUsed, ofInstance), "instance", exporter.LabelCap)
	agents := exporter.LabelBudget + `=~"agent:($project)"`
	left, budget := live(of(exporter.APIBudgetRemaining, ofInstance, agents), exporter.LabelBudget), live(of(exporter.APIBudgetLimit, ofInstance, agents), exporter.LabelBudget)
	const unlimited = "the budget may be unlimited"
	return grafana.Section{Title: "Money and requests", Panels: []*grafana.Panel{
		grafana.Bars("Caps on jobs", "Share of DOCGAUGE_MAX_JOBS_PER_DAY (day, over 24 hours) and DOCGAUGE_MAX_ACTIVE_JOBS (active) that is used: each job costs credits. At 100 % prompts wait.",
			grafana.Instant(share(used, limit), "{{cap}} {{instance}}").Maybe("the caps may be unlimited")).
			In(grafana.Share).Between(0, 1).Empty("No cap").
			Judged(grafana.Good, grafana.From(0.8, grafana.Warning), grafana.From(1, grafana.Bad)).Size(6, 8),
		grafana.Lines("Jobs against the caps", "Jobs that count against each cap, and how many there may be.",
			grafana.Range(used, "{{cap}}: used {{instance}}"), grafana.Range(limit, "{{cap}}: most {{instance}}")).
			Steps().In(grafana.Count).Empty(noQueue).Size(9, 8),
		grafana.Lines("Agent requests left", "Prompts and messages that DOCGAUGE_AGENT_BUDGET still allows this hour, of each project.",
			grafana.Range(left, "{{budget}}: left").Maybe(unlimited), grafana.Range(budget+" > 0", "{{budget}}: limit").Maybe(unlimited)).
			Steps().In(grafana.Count).Empty("No limit").Size(9, 8),
	}}
}

// jobsEffect shows the jobs beside those that they are for.
func jobsEffect() grafana.Section {
	return grafana.Section{Title: "Effect", Panels: []*grafana.Panel{
		grafana.Lines("Jobs and AI readers",
			"AI readers of the newest complete week, and pull requests of the seven days before each moment. That they rise together proves nothing by itself."+notAdded,
			grafana.Range(site(exporter.SiteVisitors, "week", audience(exporter.AudienceAI)), "{{project}}: AI readers of the week").Maybe("weeks may not be exported"),
			grafana.Range(site(exporter.SiteVisitors, "day", audience(exporter.AudienceAI)), "{{project}}: AI readers of the day").Maybe("days may not be exported"),
			grafana.Range("round("+grew(ofQueue(exporter.AgentJobsFinished, is(exporter.LabelResult, "pr")), "7d", exporter.LabelProject)+")", "{{project}}: pull requests, 7 days")).
			Steps().In(grafana.Count).Empty("No readers and no jobs in this time").
			Like("pull requests", grafana.OnTheRight("pull requests")...).Size(24, 10),
	}}
}
