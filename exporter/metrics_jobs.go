package exporter

// How the prompt queue goes.
const (
	AgentPrompts      = prefix + "agent_prompts"
	AgentJobInfo      = prefix + "agent_job_info"
	AgentJobCreated   = prefix + "agent_job_created_timestamp_seconds"
	AgentJobFinished  = prefix + "agent_job_finished_timestamp_seconds"
	AgentJobsFinished = prefix + "agent_jobs_finished_total"
	AgentOldestActive = prefix + "agent_oldest_active_timestamp_seconds"
	AgentQueuePaused  = prefix + "agent_queue_paused"
	AgentCapLimit     = prefix + "agent_cap_limit"
	AgentCapUsed      = prefix + "agent_cap_used"
)

// The labels of agent jobs.
const (
	LabelCap        = "cap" // day or active
	LabelJobID      = "job_id"
	LabelModel      = "model"
	LabelPRLink     = "pr_link"
	LabelPrompt     = "prompt"
	LabelRef        = "ref"
	LabelRepository = "repository"
	LabelResult     = "result"
	LabelState      = "state"
	LabelStatus     = "status"
)

// PauseReasons are why the queue can be paused. The last is no decision: the folder
// of prompts cannot be read.
var PauseReasons = []string{"unknown", "unauthorized", "operator", "new_state", pausedFolder}

const pausedFolder = "folder"

// Results are how an agent job can end.
var Results = []string{"pr", "no_pr", "failed", "archived", "lost"}

var jobMetrics = []Metric{
	{groupJobs, AgentPrompts, TypeGauge,
		"Prompt files and their jobs, by state of the queue." + cached,
		[]string{LabelProject, LabelState}},
	{groupJobs, AgentJobInfo, TypeGauge,
		"The newest agent job of each prompt, with what the service says of it; its value is always 1. Gone 30 days after the end." + cached,
		[]string{LabelProject, LabelPrompt, LabelJobID, LabelStatus, LabelPRLink, LabelModel, LabelRepository, LabelRef}},
	{groupJobs, AgentJobCreated, TypeGauge,
		"When the agent job was created," + epoch,
		[]string{LabelProject, LabelPrompt, LabelJobID}},
	{groupJobs, AgentJobFinished, TypeGauge,
		"When the agent job was seen to have ended; absent before;" + epoch,
		[]string{LabelProject, LabelPrompt, LabelJobID}},
	{groupJobs, AgentJobsFinished, TypeCounter,
		"Agent jobs that ended, by result: pr (completed with a pull request), no_pr (without), failed, archived or lost." + kept,
		[]string{LabelProject, LabelResult}},
	{groupJobs, AgentOldestActive, TypeGauge,
		"When the oldest agent job that has not ended was created; absent where there is none;" + epoch,
		[]string{LabelProject}},
	{groupJobs, AgentQueuePaused, TypeGauge,
		"1 for the reason for which no prompt is submitted, else 0." + cached,
		[]string{LabelReason}},
	{groupJobs, AgentCapLimit, TypeGauge,
		"Most agent jobs there may be, by cap: day (begun within 24 hours) or active (at work), all projects together; 0 is unlimited." + cached,
		[]string{LabelCap}},
	{groupJobs, AgentCapUsed, TypeGauge,
		"Agent jobs that count against each cap." + cached,
		[]string{LabelCap}},
}
