package exporter

import (
	"slices"
	"strconv"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// pauseReasons are the reasons for which the queue pauses. The last means that the folder of
// prompts cannot be read.
var pauseReasons = []string{"unknown", "unauthorized", "operator", "new_state", pausedFolder}

const pausedFolder = "folder"

// mostEffects is the maximum number of effects, and of merges, that have series: the newest.
const mostEffects = 50

// jobFamilies are collected only where there is a queue.
var jobFamilies = []Metric{
	define(groupJobs, "agent_prompts", typeGauge, "project state",
		"Prompt files and their jobs, by state of the queue."+cached,
		func(s *view.Snapshot, emit emit) {
			for _, p := range s.Queue.Prompts {
				emit(float64(p.Count), p.Project, p.State)
			}
		}),
	define(groupJobs, "agent_job_info", typeGauge, "project prompt job_id status pr_link model repository ref",
		"The newest agent job of each prompt, with the service's status; always 1. Removed 30 days after its "+
			"end."+cached,
		ofJobs(func(j view.Job, emit emit) {
			emit(1, j.Status, j.PRLink.Safe(), j.Model, j.Repository, j.Ref)
		})),
	define(groupJobs, "agent_job_created_timestamp_seconds", typeGauge, "project prompt job_id",
		"When the agent job was created,"+epoch,
		ofJobs(func(j view.Job, emit emit) { emit.timestamp(j.Created) })),
	define(groupJobs, "agent_job_finished_timestamp_seconds", typeGauge, "project prompt job_id",
		"When docgauge noticed the end of the agent job; absent before;"+epoch,
		ofJobs(func(j view.Job, emit emit) { emit.timestamp(j.Ended) })),
	define(groupJobs, "agent_jobs_finished_total", typeCounter, "project result",
		"Agent jobs that ended, by result: pr (completed with a pull request), no_pr (without), failed, archived or "+
			"lost."+kept,
		ofProjects(func(_ *view.Snapshot, _ view.Project, emit emit) {
			for _, result := range view.Results {
				emit(0, result)
			}
		})),
	define(groupJobs, "agent_oldest_active_timestamp_seconds", typeGauge, "project",
		"When the oldest unfinished agent job was created; absent without one;"+epoch,
		ofProjects(func(s *view.Snapshot, p view.Project, emit emit) {
			var oldest time.Time
			for _, j := range s.Queue.Jobs {
				if j.Project == p.ID && j.ID != "" && j.Ended.IsZero() &&
					(oldest.IsZero() || j.Created.Before(oldest)) {
					oldest = j.Created
				}
			}
			emit.timestamp(oldest)
		})),
	define(groupJobs, "agent_queue_paused", typeGauge, "reason",
		"1 for the reason why no prompt is submitted, else 0."+cached,
		func(s *view.Snapshot, emit emit) {
			for _, reason := range pauseReasons {
				emit.flag(s.Queue.Paused == reason || reason == pausedFolder && s.Queue.Problem != "", reason)
			}
		}),
	define(groupJobs, "agent_project_refused", typeGauge, "project",
		"1 while the service refuses agent jobs of the project (403) with a key that it accepts otherwise, else 0."+cached,
		ofProjects(func(s *view.Snapshot, p view.Project, emit emit) { emit.flag(slices.Contains(s.Queue.Refused, p.ID)) })),
	define(groupJobs, "agent_cap_limit", typeGauge, "cap",
		"Maximum number of agent jobs, by cap: day (begun within 24 hours) or active, or of pull requests: "+
			"open_pull_requests, or cost of the jobs begun within 24 hours: cost; all projects together; 0 is "+
			"unlimited."+cached,
		func(s *view.Snapshot, emit emit) {
			for _, c := range s.Queue.Caps {
				emit(c.Limit, c.Name)
			}
		}),
	define(groupJobs, "agent_cap_used", typeGauge, "cap",
		"Agent jobs that count against each cap; for open_pull_requests also the open ones, and those whose state "+
			"is unknown; for cost what they cost, the limit if the rest is too little for another job."+cached,
		func(s *view.Snapshot, emit emit) {
			for _, c := range s.Queue.Caps {
				emit(c.Used, c.Name)
			}
		}),
	define(groupJobs, "agent_job_cost_total", typeCounter, "project",
		"Estimated cost of the agent jobs created, in the unit of DOCGAUGE_JOB_COST; absent if that is not set."+kept,
		ofProjects(func(s *view.Snapshot, _ view.Project, emit emit) {
			if s.Queue.Costs {
				emit(0)
			}
		})),
	define(groupJobs, "agent_job_reported_cost_total", typeCounter, "project unit",
		"Cost of the agent jobs that ended, as the service reports it, by its unit, which may be empty; units must "+
			"not be added up. Absent before a cost is reported."+kept,
		func(*view.Snapshot, emit) {}),
	define(groupJobs, "agent_jobs_cost_unknown_total", typeCounter, "project",
		"Agent jobs that ended and whose cost the service did not report; lost ones too."+kept,
		ofProjects(func(_ *view.Snapshot, _ view.Project, emit emit) { emit(0) })),
	define(groupJobs, "agent_pull_request_cost", typeGauge, "project pr_link unit basis",
		"Cost of the agent jobs behind a merged pull request, by unit, which may be empty, and by basis: reported (by "+
			"the service), estimated (in part by DOCGAUGE_JOB_COST) or at_least (some jobs' cost is unknown). Only "+
			"the newest merges; absent if nothing is known."+cached,
		func(s *view.Snapshot, emit emit) {
			for _, o := range s.Outcomes.Merges[:min(len(s.Outcomes.Merges), mostEffects)] {
				link := analytics.SafeLink(o.Link)
				if link == "" || o.At.IsZero() {
					continue
				}
				costs, basis := o.Cost.Totals()
				for _, c := range costs {
					emit(c.Amount, o.Project, link, c.Unit, basis)
				}
			}
		}),
	define(groupJobs, "agent_pull_requests", typeGauge, "project state",
		"Pull requests of agent jobs, by state: draft, open, merged, closed (without a merge) or unknown."+cached,
		func(s *view.Snapshot, emit emit) {
			for _, p := range s.Queue.PullRequests {
				emit(float64(p.Count), p.Project, p.State)
			}
		}),
	define(groupJobs, "agent_pull_requests_merged_total", typeCounter, "project",
		"Pull requests of agent jobs that were merged."+kept,
		ofReviews(func(r view.Review, emit emit) { emit(float64(r.Merged)) })),
	define(groupJobs, "agent_pull_requests_closed_total", typeCounter, "project",
		"Pull requests of agent jobs that were closed without a merge, counted a day later, because they may be "+
			"reopened."+kept,
		ofReviews(func(r view.Review, emit emit) { emit(float64(r.Closed)) })),
	define(groupJobs, "agent_pull_request_merge_seconds", typeHistogram, "project",
		"Seconds from when a pull request was opened, made ready or reopened to its merge."+kept,
		ofProjects(func(_ *view.Snapshot, _ view.Project, emit emit) { emit(0) })),
	define(groupJobs, "agent_pull_request_oldest_open_timestamp_seconds", typeGauge, "project",
		"Since when the pull request that has waited longest waits, drafts included; absent if none waits or none "+
			"is known;"+epoch,
		ofReviews(func(r view.Review, emit emit) { emit.timestamp(r.OldestOpen) })),
	define(groupJobs, "agent_outcome_change_ratio", typeGauge, "project pr_link path audience bound",
		"Change of the daily readers of a page after a merge, relative to the number expected without it: "+
			"0.3 is 30 % more; by bound: estimate, or low and high of its 90 % interval. An interval without 0 "+
			"is not a "+
			"verdict. Only the newest merges; absent without enough data."+cached,
		ofEffects(func(_ view.Outcome, e view.Effect, emit emit) {
			emit(e.Low, "low")
			emit(e.Change, "estimate")
			emit(e.High, "high")
		})),
	define(groupJobs, "agent_outcome_verdict", typeGauge, "project pr_link path audience verdict final",
		"Verdict on the daily readers of a page after a merge: more readers, fewer readers, no clear change, or too "+
			"early; always 1. final is true when the days after the merge are in. The same pages as "+
			"docgauge_agent_outcome_change_ratio."+cached,
		ofEffects(func(o view.Outcome, e view.Effect, emit emit) {
			emit(1, string(e.Verdict), strconv.FormatBool(o.Final))
		})),
	define(groupJobs, "agent_outcome_comparisons", typeGauge, "project verdict",
		"Comparisons of the readers of a page before and after a merge of the last 90 days, people and AI apart, by "+
			"verdict: more readers, fewer readers, no clear change, too early or not enough data."+cached,
		ofSummaries(func(s view.OutcomeSummary, emit emit) {
			emit(float64(s.More), string(view.MoreReaders))
			emit(float64(s.Fewer), string(view.FewerReaders))
			emit(float64(s.Comparisons-s.More-s.Fewer), string(view.NoClearChange))
			emit(float64(s.TooEarly), string(view.TooEarly))
			emit(float64(s.NotEnoughData), string(view.NotEnoughData))
		})),
	define(groupJobs, "agent_outcome_expected_by_chance", typeGauge, "project",
		"How many of these comparisons would have the verdict more or fewer readers if no merge had an effect."+cached,
		ofSummaries(func(s view.OutcomeSummary, emit emit) { emit(s.ByChance) })),
	define(groupJobs, "agent_outcome_mean_change_ratio", typeGauge, "project bound",
		"Mean change of the daily readers of a page after a merge, over the corrected comparisons with a verdict: "+
			"0.06 is 6 % more; by bound: estimate, or low and high of its 90 % interval. Absent with fewer than 3 dates of "+
			"merges."+cached,
		ofSummaries(func(s view.OutcomeSummary, emit emit) {
			if s.Mean != nil {
				emit(s.Mean.Low, "low")
				emit(s.Mean.Change, "estimate")
				emit(s.Mean.High, "high")
			}
		})),
}

// ofEffects collects the effects of the newest merges that have numbers, at most mostEffects.
func ofEffects(each func(view.Outcome, view.Effect, emit)) func(*view.Snapshot, emit) {
	return func(s *view.Snapshot, emit emit) {
		shown := 0
		for _, o := range s.Outcomes.Merges {
			for _, e := range o.Effects {
				if e.Verdict == view.NotEnoughData || shown == mostEffects {
					continue
				}
				shown++
				each(o, e, emit.with(o.Project, analytics.SafeLink(o.Link), e.Path, string(e.Audience)))
			}
		}
	}
}
