package exporter

import (
	"github.com/prometheus/common/version"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// How exporting goes.
const (
	ExportRuns           = prefix + "export_runs_total"
	ExportDuration       = prefix + "export_duration_seconds"
	ExportLastStart      = prefix + "export_last_start_timestamp_seconds"
	ExportLastSuccess    = prefix + "export_last_success_timestamp_seconds"
	ExportLastCompletion = prefix + "export_last_completion_timestamp_seconds"

	WindowsDue        = prefix + "windows_due"
	WindowsSetAside   = prefix + "windows_set_aside"
	BacklogFinish     = prefix + "backlog_finish_timestamp_seconds"
	WindowsCommitted  = prefix + "windows_committed_total"
	WindowDrift       = prefix + "window_drift_total"
	PagesMispredicted = prefix + "pages_mispredicted_total"
	RowsWritten       = prefix + "rows_written_total"

	SinkFailures    = prefix + "sink_failures_total"
	SinkLastCommit  = prefix + "sink_last_commit_timestamp_seconds"
	SinkWindowsLost = prefix + "sink_windows_lost_total"
	SpoolWindows    = prefix + "spool_windows"

	SnapshotTimestamp = prefix + "snapshot_timestamp_seconds"
)

// What the API answers and what is left of its budget.
const (
	APIRequests         = prefix + "api_requests_total"
	APIRequestDuration  = prefix + "api_request_duration_seconds"
	APIBudgetLimit      = prefix + "api_budget_limit"
	APIBudgetRemaining  = prefix + "api_budget_remaining"
	APIForeignThrottles = prefix + "api_foreign_throttles_total"
	APIKeyExpiry        = prefix + "api_key_expiry_timestamp_seconds"
	APIKeyRejected      = prefix + "api_key_rejected"
)

// The program itself, and what it was told.
const (
	BuildInfo               = prefix + "build_info"
	ConfigReloadSuccessful  = prefix + "config_last_reload_successful"
	ConfigReloadSuccessTime = prefix + "config_last_reload_success_timestamp_seconds"
)

// visitorsEndpoint is the operation every export uses.
const visitorsEndpoint = "visitors"

// asideReasons are why a window can be set aside.
var asideReasons = []analytics.AsideReason{
	analytics.AsideMalformed, analytics.AsideRepeats, analytics.AsideEmpty, analytics.AsideRefused, analytics.AsideFailing,
}

var pipelineFamilies = []family{
	define(groupPipeline, ExportRuns, typeCounter,
		"Export runs that ended, by outcome: success, deferred (by the budget), failed or interrupted."+kept,
		[]string{LabelOutcome},
		func(s *view.Snapshot, emit emit) {
			for _, outcome := range []string{"success", "deferred", "failed", "interrupted"} {
				emit(0, outcome)
			}
		}),
	define(groupPipeline, ExportDuration, TypeHistogram,
		"How long export runs took, in seconds."+kept,
		nil,
		func(s *view.Snapshot, emit emit) { emit(0) }),
	define(groupPipeline, ExportLastStart, typeGauge,
		"When the last export run started,"+epoch,
		nil,
		func(s *view.Snapshot, emit emit) { emit.at(s.LastStart) }),
	define(groupPipeline, ExportLastSuccess, typeGauge,
		"When an export run last ended with success or deferred by the budget,"+epoch,
		nil,
		func(s *view.Snapshot, emit emit) { emit.at(s.LastSuccess) }),
	define(groupPipeline, ExportLastCompletion, typeGauge,
		"When an export run last ended, whatever its outcome,"+epoch,
		nil,
		func(s *view.Snapshot, emit emit) { emit.at(s.LastCompletion) }),
	define(groupPipeline, WindowsDue, typeGauge,
		"Complete windows that are due, by reason."+cached,
		[]string{LabelProject, LabelWindow, LabelReason},
		func(s *view.Snapshot, emit emit) {
			for _, d := range s.Due {
				emit(float64(d.Count), d.Project, string(d.Granularity), d.Reason)
			}
		}),
	define(groupPipeline, WindowsSetAside, typeGauge,
		"Complete windows that are skipped for a while because of invalid responses, by reason: malformed, repeats, empty, refused or failing."+cached,
		[]string{LabelProject, LabelReason},
		ofProjects(func(s *view.Snapshot, p view.Project, emit emit) {
			for _, reason := range asideReasons {
				n := 0
				for _, a := range s.Asides {
					if a.Project == p.ID && a.Reason == reason {
						n++
					}
				}
				emit(float64(n), string(reason))
			}
		})),
	define(groupPipeline, BacklogFinish, typeGauge,
		"When the request budget will allow reading the last due window; absent if none is due;"+epoch,
		nil,
		func(s *view.Snapshot, emit emit) { emit.at(s.Finish) }),
	define(groupPipeline, WindowsCommitted, typeCounter,
		"Windows committed to a sink, each reading counted."+kept,
		[]string{LabelProject, LabelSink},
		ofProjects(func(s *view.Snapshot, _ view.Project, emit emit) {
			for _, k := range s.Sinks {
				emit(0, k.Name)
			}
		})),
	define(groupPipeline, WindowDrift, typeCounter,
		"Readings of a window that were restarted because its numbers changed."+kept,
		[]string{LabelProject},
		ofProjects(func(_ *view.Snapshot, _ view.Project, emit emit) { emit(0) })),
	define(groupPipeline, PagesMispredicted, typeCounter,
		"Requested pages that do not exist: a window was shorter than predicted or, without a budget, guessed."+kept,
		[]string{LabelProject},
		ofProjects(func(_ *view.Snapshot, _ view.Project, emit emit) { emit(0) })),
	define(groupPipeline, RowsWritten, typeCounter,
		"Rows committed to a sink."+kept,
		[]string{LabelSink},
		ofSinks(func(_ view.Sink, emit emit) { emit(0) })),
	define(groupPipeline, SinkFailures, typeCounter,
		"Commits that a sink refused or did not answer."+kept,
		[]string{LabelSink},
		ofSinks(func(_ view.Sink, emit emit) { emit(0) })),
	define(groupPipeline, SinkWindowsLost, typeCounter,
		"Windows that the sink has lost, according to the daily comparison with the ledger."+kept,
		[]string{LabelSink},
		ofSinks(func(_ view.Sink, emit emit) { emit(0) })),
	define(groupPipeline, SinkLastCommit, typeGauge,
		"When the sink last took a window,"+epoch,
		[]string{LabelSink},
		ofSinks(func(k view.Sink, emit emit) { emit.at(k.LastCommit) })),
	define(groupPipeline, SpoolWindows, typeGauge,
		"Sealed windows that wait in the spool for the sink; windows from before the sink was configured are not counted."+cached,
		[]string{LabelSink},
		ofSinks(func(k view.Sink, emit emit) { emit(float64(k.Waiting)) })),
	define(groupPipeline, SnapshotTimestamp, typeGauge,
		"When the cached values were made,"+epoch,
		nil,
		func(s *view.Snapshot, emit emit) { emit.at(s.At) }),
}

var apiFamilies = []family{
	define(groupAPI, APIRequests, typeCounter,
		"Requests sent to the API, by endpoint and HTTP status."+kept,
		[]string{LabelEndpoint, LabelCode},
		func(_ *view.Snapshot, emit emit) { emit(0, visitorsEndpoint, "200") }),
	define(groupAPI, APIRequestDuration, TypeHistogram,
		"How long requests to the API took, in seconds."+kept,
		[]string{LabelEndpoint},
		func(_ *view.Snapshot, emit emit) { emit(0, visitorsEndpoint) }),
	define(groupAPI, APIBudgetLimit, typeGauge,
		"Requests that the budget allows in any hour; 0 is unlimited."+cached,
		[]string{LabelBudget},
		ofBudgets(func(b view.Budget, emit emit) { emit(float64(b.Limit)) })),
	define(groupAPI, APIBudgetRemaining, typeGauge,
		"Requests that the budget had left when the snapshot was made; absent if it is unlimited."+cached,
		[]string{LabelBudget},
		ofBudgets(func(b view.Budget, emit emit) {
			if b.Limit > 0 {
				emit(float64(b.Available))
			}
		})),
	define(groupAPI, APIForeignThrottles, typeCounter,
		"429 answers although the budget had room: something else uses the same quota."+kept,
		nil,
		func(_ *view.Snapshot, emit emit) { emit(0) }),
	define(groupAPI, APIKeyExpiry, typeGauge,
		"When the API key expires, if configured,"+epoch,
		[]string{LabelKey},
		ofKeys(func(k view.Key, emit emit) { emit.at(k.Expires) })),
	define(groupAPI, APIKeyRejected, typeGauge,
		"1 if the API refused the last request with the key (401, 403), else 0."+cached,
		[]string{LabelKey},
		ofKeys(func(k view.Key, emit emit) { emit.flag(k.Rejected) })),
}

var buildFamilies = []family{
	define(groupBuild, BuildInfo, typeGauge,
		"The running program, by version, revision, branch, Go version, target and build tags; always 1.",
		[]string{LabelVersion, LabelRevision, LabelBranch, LabelGoVersion, LabelGoOS, LabelGoArch, LabelTags},
		func(s *view.Snapshot, emit emit) {
			emit(1, s.Version, s.Revision, version.Branch, version.GoVersion, version.GoOS, version.GoArch, version.GetTags())
		}),
	define(groupBuild, ConfigReloadSuccessful, typeGauge,
		"1 if serve accepted the settings at its start or at the last reload, 0 if it refused them and keeps the former ones; serve only.",
		nil,
		ofReloads(func(r view.Reload, emit emit) { emit.flag(r.Successful) })),
	define(groupBuild, ConfigReloadSuccessTime, typeGauge,
		"When serve last accepted its settings,"+epoch,
		nil,
		ofReloads(func(r view.Reload, emit emit) { emit.at(r.LastSuccess) })),
}

// The functions below collect something of each project, sink, budget or key. The
// first label is its name.

func ofProjects(collect func(s *view.Snapshot, p view.Project, emit emit)) func(*view.Snapshot, emit) {
	return func(s *view.Snapshot, emit emit) {
		for _, p := range s.Projects {
			collect(s, p, emit.with(p.ID))
		}
	}
}

func ofSinks(collect func(k view.Sink, emit emit)) func(*view.Snapshot, emit) {
	return func(s *view.Snapshot, emit emit) {
		for _, k := range s.Sinks {
			collect(k, emit.with(k.Name))
		}
	}
}

func ofBudgets(collect func(b view.Budget, emit emit)) func(*view.Snapshot, emit) {
	return func(s *view.Snapshot, emit emit) {
		for _, b := range s.Budgets {
			collect(b, emit.with(b.Name))
		}
	}
}

func ofReloads(collect func(r view.Reload, emit emit)) func(*view.Snapshot, emit) {
	return func(s *view.Snapshot, emit emit) {
		if s.Reload != nil {
			collect(*s.Reload, emit)
		}
	}
}

func ofKeys(collect func(k view.Key, emit emit)) func(*view.Snapshot, emit) {
	return func(s *view.Snapshot, emit emit) {
		for _, k := range s.Keys {
			collect(k, emit.with(k.Name))
		}
	}
}
