package exporter

import (
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

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
	AgentJobCost      = prefix + "agent_job_cost_total"
	AgentPulls        = prefix + "agent_pull_requests"
	AgentPullsMerged  = prefix + "agent_pull_requests_merged_total"
	AgentPullsClosed  = prefix + "agent_pull_requests_closed_total"
	AgentMergeSeconds = prefix + "agent_pull_request_merge_seconds"
	AgentOldestOpen   = prefix + "agent_pull_request_oldest_open_timestamp_seconds"
	AgentOutcome      = prefix + "agent_outcome_change_ratio"
)

// pauseReasons are why the queue can be paused. The last is not a decision: the folder
// of prompts cannot be read.
var pauseReasons = []string{"unknown", "unauthorized", "operator", "new_state", pausedFolder}

const pausedFolder = "folder"

// mostEffects is of how many effects there are series, those of the newest merges.
const mostEffects = 50

// jobFamilies are collected only where there is a queue.
var jobFamilies = []family{
	define(groupJobs, AgentPrompts, typeGauge,
		"Prompt files and their jobs, by state of the queue."+cached,
		[]string{LabelProject, LabelState},
		func(s *view.Snapshot, emit emit) {
			for _, p := range s.Queue.Prompts {
				emit(float64(p.Count), p.Project, p.State)
			}
		}),
	define(groupJobs, AgentJobInfo, typeGauge,
		"The newest agent job of each prompt, with the service's status; always 1. Removed 30 days after its end."+cached,
		[]string{LabelProject, LabelPrompt, LabelJobID, LabelStatus, LabelPRLink, LabelModel, LabelRepository, LabelRef},
		ofJobs(func(j view.Job, emit emit) {
			emit(1, j.Status, j.PRLink.Safe(), j.Model, j.Repository, j.Ref)
		})),
	define(groupJobs, AgentJobCreated, typeGauge,
		"When the agent job was created,"+epoch,
		[]string{LabelProject, LabelPrompt, LabelJobID},
		ofJobs(func(j view.Job, emit emit) { emit.at(j.Created) })),
	define(groupJobs, AgentJobFinished, typeGauge,
		"When docgauge noticed the end of the agent job; absent before;"+epoch,
		[]string{LabelProject, LabelPrompt, LabelJobID},
		ofJobs(func(j view.Job, emit emit) { emit.at(j.Ended) })),
	define(groupJobs, AgentJobsFinished, typeCounter,
		"Agent jobs that ended, by result: pr (completed with a pull request), no_pr (without), failed, archived or lost."+kept,
		[]string{LabelProject, LabelResult},
		ofProjects(func(_ *view.Snapshot, _ view.Project, emit emit) {
			for _, result := range view.Results {
				emit(0, result)
			}
		})),
	define(groupJobs, AgentOldestActive, typeGauge,
		"When the oldest unfinished agent job was created; absent without one;"+epoch,
		[]string{LabelProject},
		ofProjects(func(s *view.Snapshot, p view.Project, emit emit) {
			var oldest time.Time
			for _, j := range s.Queue.Jobs {
				if j.Project == p.ID && j.ID != "" && j.Ended.IsZero() && (oldest.IsZero() || j.Created.Before(oldest)) {
					oldest = j.Created
				}
			}
			emit.at(oldest)
		})),
	define(groupJobs, AgentQueuePaused, typeGauge,
		"1 for the reason why no prompt is submitted, else 0."+cached,
		[]string{LabelReason},
		func(s *view.Snapshot, emit emit) {
			for _, reason := range pauseReasons {
				emit.flag(s.Queue.Paused == reason || reason == pausedFolder && s.Queue.Problem != "", reason)
			}
		}),
	define(groupJobs, AgentCapLimit, typeGauge,
		"Maximum number of agent jobs, by cap: day (begun within 24 hours) or active, or of pull requests: open_pull_requests; all projects together; 0 is unlimited."+cached,
		[]string{LabelCap},
		func(s *view.Snapshot, emit emit) {
			for _, c := range s.Queue.Caps {
				emit(float64(c.Limit), c.Name)
			}
		}),
	define(groupJobs, AgentCapUsed, typeGauge,
		"Agent jobs that count against each cap; for open_pull_requests also the open ones, and those whose state is unknown."+cached,
		[]string{LabelCap},
		func(s *view.Snapshot, emit emit) {
			for _, c := range s.Queue.Caps {
				emit(float64(c.Used), c.Name)
			}
		}),
	define(groupJobs, AgentJobCost, typeCounter,
		"Cost of the agent jobs created, in the unit of DOCGAUGE_JOB_COST; absent if that is not set."+kept,
		[]string{LabelProject},
		ofProjects(func(s *view.Snapshot, _ view.Project, emit emit) {
			if s.Queue.Costs {
				emit(0)
			}
		})),
	define(groupJobs, AgentPulls, typeGauge,
		"Pull requests of agent jobs, by state: draft, open, merged, closed (without a merge) or unknown."+cached,
		[]string{LabelProject, LabelState},
		func(s *view.Snapshot, emit emit) {
			for _, p := range s.Queue.PullRequests {
				emit(float64(p.Count), p.Project, p.State)
			}
		}),
	define(groupJobs, AgentPullsMerged, typeCounter,
		"Pull requests of agent jobs that were merged."+kept,
		[]string{LabelProject},
		ofReviews(func(r view.Review, emit emit) { emit(float64(r.Merged)) })),
	define(groupJobs, AgentPullsClosed, typeCounter,
		"Pull requests of agent jobs that were closed without a merge, counted a day later, because they may be reopened."+kept,
		[]string{LabelProject},
		ofReviews(func(r view.Review, emit emit) { emit(float64(r.Closed)) })),
	define(groupJobs, AgentMergeSeconds, TypeHistogram,
		"Seconds from when a pull request was opened, made ready or reopened to its merge."+kept,
		[]string{LabelProject},
		ofProjects(func(_ *view.Snapshot, _ view.Project, emit emit) { emit(0) })),
	define(groupJobs, AgentOldestOpen, typeGauge,
		"Since when the pull request that has waited longest waits, drafts included; absent if none waits or none is known;"+epoch,
		[]string{LabelProject},
		ofReviews(func(r view.Review, emit emit) { emit.at(r.OldestOpen) })),
	define(groupJobs, AgentOutcome, typeGauge,
		"Change of the daily readers of a page after a merge, relative to the number expected from untouched pages: 0.3 is 30 % more; by bound: estimate, or low and high of its 90 % interval. Only the newest merges; absent without enough data."+cached,
		[]string{LabelProject, LabelPRLink, LabelPath, LabelAudience, LabelBound},
		func(s *view.Snapshot, emit emit) {
			shown := 0
			for _, o := range s.Outcomes {
				for _, e := range o.Effects {
					if e.Verdict == view.NotEnoughData || shown == mostEffects {
						continue
					}
					shown++
					one := emit.with(o.Project, analytics.SafeLink(o.Link), e.Path, string(e.Audience))
					one(e.Low, BoundLow)
					one(e.Change, BoundEstimate)
					one(e.High, BoundHigh)
				}
			}
		}),
}

// ofReviews collects something of what became of the pull requests of each project.
func ofReviews(collect func(r view.Review, emit emit)) func(*view.Snapshot, emit) {
	return func(s *view.Snapshot, emit emit) {
		for _, r := range s.Queue.Reviews {
			collect(r, emit.with(r.Project))
		}
	}
}

// ofJobs collects something of each job that the service knows. The first labels are
// project, prompt and job id.
func ofJobs(collect func(j view.Job, emit emit)) func(*view.Snapshot, emit) {
	return func(s *view.Snapshot, emit emit) {
		for _, j := range s.Queue.Jobs {
			if j.ID != "" {
				collect(j, emit.with(j.Project, j.Prompt, j.ID))
			}
		}
	}
}
