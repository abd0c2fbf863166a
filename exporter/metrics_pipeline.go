package exporter

import "github.com/docgauge/docgauge/internal/analytics"

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

// AsideReasons are why a window can be set aside.
var AsideReasons = []analytics.AsideReason{
	analytics.AsideMalformed, analytics.AsideRepeats, analytics.AsideRefused, analytics.AsideFailing,
}

var pipelineMetrics = []Metric{
	{groupPipeline, ExportRuns, TypeCounter,
		"Export runs that ended, by outcome: success, deferred (by the budget), failed or interrupted." + kept,
		[]string{LabelOutcome}},
	{groupPipeline, ExportDuration, TypeHistogram,
		"How long export runs took, in seconds." + kept, nil},
	{groupPipeline, ExportLastStart, TypeGauge,
		"When the last export run started," + epoch, nil},
	{groupPipeline, ExportLastSuccess, TypeGauge,
		"When an export run last ended with success or deferred by the budget," + epoch, nil},
	{groupPipeline, ExportLastCompletion, TypeGauge,
		"When an export run last ended, whatever its outcome," + epoch, nil},
	{groupPipeline, WindowsDue, TypeGauge,
		"Complete windows that are due, by reason." + cached,
		[]string{LabelProject, LabelWindow, LabelReason}},
	{groupPipeline, WindowsSetAside, TypeGauge,
		"Complete windows that the service does not give as it should and that are not asked for again for a while, by reason: malformed, repeats, refused or failing." + cached,
		[]string{LabelProject, LabelReason}},
	{groupPipeline, BacklogFinish, TypeGauge,
		"When the request budget lets the last due window be read; absent where nothing is due;" + epoch, nil},
	{groupPipeline, WindowsCommitted, TypeCounter,
		"Windows committed to a sink, each reading counted." + kept,
		[]string{LabelProject, LabelSink}},
	{groupPipeline, WindowDrift, TypeCounter,
		"Readings of a window that were given up because its numbers changed meanwhile." + kept,
		[]string{LabelProject}},
	{groupPipeline, PagesMispredicted, TypeCounter,
		"Pages that the API was asked for although they do not exist: a window was shorter than predicted." + kept,
		[]string{LabelProject}},
	{groupPipeline, RowsWritten, TypeCounter,
		"Rows committed to a sink." + kept,
		[]string{LabelSink}},
	{groupPipeline, SinkFailures, TypeCounter,
		"Commits that a sink refused or did not answer." + kept,
		[]string{LabelSink}},
	{groupPipeline, SinkWindowsLost, TypeCounter,
		"Windows that the sink had and no longer has, as the daily comparison with the ledger finds." + kept,
		[]string{LabelSink}},
	{groupPipeline, SinkLastCommit, TypeGauge,
		"When the sink last took a window," + epoch,
		[]string{LabelSink}},
	{groupPipeline, SpoolWindows, TypeGauge,
		"Windows that were read and that the sink lacks." + cached,
		[]string{LabelSink}},
	{groupPipeline, SnapshotTimestamp, TypeGauge,
		"When the cached values were made," + epoch, nil},
}
