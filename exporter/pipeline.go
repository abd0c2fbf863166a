package exporter

import (
	"github.com/prometheus/common/version"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// visitorsEndpoint is the operation every export uses.
const visitorsEndpoint = "visitors"

// asideReasons are the reasons for which a window is skipped.
var asideReasons = []analytics.AsideReason{
	analytics.AsideMalformed, analytics.AsideRepeats, analytics.AsideEmpty, analytics.AsideRefused,
	analytics.AsideFailing,
}

var pipelineFamilies = []Metric{
	define(groupPipeline, "export_runs_total", typeCounter, "outcome",
		"Export runs that ended, by outcome: success, deferred (by the budget), failed or interrupted."+kept,
		func(s *view.Snapshot, emit emit) {
			for _, outcome := range []string{"success", "deferred", "failed", "interrupted"} {
				emit(0, outcome)
			}
		}),
	define(groupPipeline, "export_duration_seconds", typeHistogram, "",
		"How long export runs took, in seconds."+kept,
		func(s *view.Snapshot, emit emit) { emit(0) }),
	define(groupPipeline, "export_last_start_timestamp_seconds", typeGauge, "",
		"When the last export run started,"+epoch,
		func(s *view.Snapshot, emit emit) { emit.timestamp(s.LastStart) }),
	define(groupPipeline, "export_last_success_timestamp_seconds", typeGauge, "",
		"When an export run last ended with success or deferred by the budget,"+epoch,
		func(s *view.Snapshot, emit emit) { emit.timestamp(s.LastSuccess) }),
	define(groupPipeline, "export_last_completion_timestamp_seconds", typeGauge, "",
		"When an export run last ended, whatever its outcome,"+epoch,
		func(s *view.Snapshot, emit emit) { emit.timestamp(s.LastCompletion) }),
	define(groupPipeline, "windows_due", typeGauge, "project window report reason",
		"Complete windows that are due, by report and reason."+cached,
		func(s *view.Snapshot, emit emit) {
			for _, d := range s.Due {
				emit(float64(d.Count), d.Project, string(d.Granularity), d.Report.String(), d.Reason)
			}
		}),
	define(groupPipeline, "windows_set_aside", typeGauge, "project reason",
		"Complete windows that are skipped for a while because of invalid responses, by reason: malformed, repeats, "+
			"empty, refused (also with their project or report) or failing."+cached,
		ofProjects(func(s *view.Snapshot, p view.Project, emit emit) {
			for _, reason := range asideReasons {
				n := 0
				for _, a := range s.Asides {
					if a.Project == p.ID && a.Reason == reason {
						n++
					}
				}
				for _, r := range s.Refused {
					if r.Project == p.ID && reason == analytics.AsideRefused {
						n += r.Windows
					}
				}
				emit(float64(n), string(reason))
			}
		})),
	define(groupPipeline, "backlog_finish_timestamp_seconds", typeGauge, "",
		"When the request budget will allow reading the last due window; absent if none is due;"+epoch,
		func(s *view.Snapshot, emit emit) { emit.timestamp(s.Finish) }),
	define(groupPipeline, "windows_committed_total", typeCounter, "project sink",
		"Windows committed to a sink, each reading counted."+kept,
		ofProjects(func(s *view.Snapshot, _ view.Project, emit emit) {
			for _, k := range s.Sinks {
				emit(0, k.Name)
			}
		})),
	define(groupPipeline, "window_drift_total", typeCounter, "project",
		"Readings of a window that were restarted because its numbers changed."+kept,
		ofProjects(func(_ *view.Snapshot, _ view.Project, emit emit) { emit(0) })),
	define(groupPipeline, "pages_mispredicted_total", typeCounter, "project",
		"Requested pages that do not exist: a window was shorter than predicted or, without a budget, guessed."+kept,
		ofProjects(func(_ *view.Snapshot, _ view.Project, emit emit) { emit(0) })),
	define(groupPipeline, "rows_written_total", typeCounter, "sink",
		"Rows committed to a sink."+kept,
		ofSinks(func(_ view.Sink, emit emit) { emit(0) })),
	define(groupPipeline, "sink_failures_total", typeCounter, "sink",
		"Commits that a sink refused or did not answer."+kept,
		ofSinks(func(_ view.Sink, emit emit) { emit(0) })),
	define(groupPipeline, "sink_windows_lost_total", typeCounter, "sink",
		"Windows that the sink has lost, according to the daily comparison with the ledger."+kept,
		ofSinks(func(_ view.Sink, emit emit) { emit(0) })),
	define(groupPipeline, "sink_last_commit_timestamp_seconds", typeGauge, "sink",
		"When the sink last took a window,"+epoch,
		ofSinks(func(k view.Sink, emit emit) { emit.timestamp(k.LastCommit) })),
	define(groupPipeline, "spool_windows", typeGauge, "sink",
		"Sealed windows that wait in the spool for the sink; windows from before the sink was configured are not "+
			"counted."+cached,
		ofSinks(func(k view.Sink, emit emit) { emit(float64(k.Waiting)) })),
	define(groupPipeline, "snapshot_timestamp_seconds", typeGauge, "",
		"When the cached values were made,"+epoch,
		func(s *view.Snapshot, emit emit) { emit.timestamp(s.At) }),
}

var apiFamilies = []Metric{
	define(groupAPI, "api_requests_total", typeCounter, "endpoint code",
		"Requests sent to the API, by endpoint and HTTP status."+kept,
		func(_ *view.Snapshot, emit emit) { emit(0, visitorsEndpoint, "200") }),
	define(groupAPI, "api_request_duration_seconds", typeHistogram, "endpoint",
		"How long requests to the API took, in seconds."+kept,
		func(_ *view.Snapshot, emit emit) { emit(0, visitorsEndpoint) }),
	define(groupAPI, "api_budget_limit", typeGauge, "budget",
		"Requests that the budget allows in any hour; 0 is unlimited."+cached,
		ofBudgets(func(b view.Budget, emit emit) { emit(float64(b.Limit)) })),
	define(groupAPI, "api_budget_remaining", typeGauge, "budget",
		"Requests that the budget had left when the snapshot was made; absent if it is unlimited."+cached,
		ofBudgets(func(b view.Budget, emit emit) {
			if b.Limit > 0 {
				emit(float64(b.Available))
			}
		})),
	define(groupAPI, "api_foreign_throttles_total", typeCounter, "",
		"429 answers although the budget had room: something else uses the same quota."+kept,
		func(_ *view.Snapshot, emit emit) { emit(0) }),
	define(groupAPI, "api_key_expiry_timestamp_seconds", typeGauge, "key",
		"When the API key expires, if configured,"+epoch,
		ofKeys(func(k view.Key, emit emit) { emit.timestamp(k.Expires) })),
	define(groupAPI, "api_key_rejected", typeGauge, "key",
		"1 if the API refused the key (401, 403), not only for some projects or reports, else 0."+cached,
		ofKeys(func(k view.Key, emit emit) { emit.flag(k.Rejected) })),
}

var buildFamilies = []Metric{
	define(groupBuild, "build_info", typeGauge, "version revision branch goversion goos goarch tags",
		"The running program, by version, revision, branch, Go version, target and build tags; always 1.",
		func(s *view.Snapshot, emit emit) {
			emit(1, s.Version, s.Revision, version.Branch, version.GoVersion, version.GoOS, version.GoArch,
				version.GetTags())
		}),
	define(groupBuild, "config_last_reload_successful", typeGauge, "",
		"1 if serve accepted the settings at its start or at the last reload, 0 if it refused them and keeps the "+
			"former ones; serve only.",
		func(s *view.Snapshot, emit emit) {
			if s.Reload != nil {
				emit.flag(s.Reload.Successful)
			}
		}),
	define(groupBuild, "config_last_reload_success_timestamp_seconds", typeGauge, "",
		"When serve last accepted its settings,"+epoch,
		func(s *view.Snapshot, emit emit) {
			if s.Reload != nil {
				emit.timestamp(s.Reload.LastSuccess)
			}
		}),
}
