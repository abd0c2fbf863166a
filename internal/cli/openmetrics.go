package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/exporter/history"
	"github.com/docgauge/docgauge/exporter/remotewrite"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/sinks"
)

// historyStep is the default of --step: docs/prometheus.md weighs it.
const historyStep = time.Hour

type openmetricsOptions struct {
	from, to, windows, project, archive string
	labels                              []string
	step                                time.Duration
	pages                               int
	remote                              remotewrite.Receiver
	json                                bool
}

func (a *Program) openmetricsCommand() *cobra.Command {
	var t openmetricsOptions
	cmd := &cobra.Command{
		Use:   "openmetrics",
		Short: "write history for Prometheus, as text or by remote write",
		Long: `openmetrics writes what the gauges of visitors, and of agents if the archive has
them, would have shown in the past, as OpenMetrics text for promtool, to
standard output. It is made from the Parquet archive, DOCGAUGE_PARQUET_URL or
--archive: no request is sent to the service, and it can run while an export
does. At each time the newest complete window is shown, with the numbers of its
newest reading.

A sample is repeated every --step, so that queries find it. If anything goes
wrong the text does not end in # EOF, and promtool refuses it.

With --remote-write the same samples go to a receiver of Prometheus' remote
write protocol instead, in order of time: Prometheus, Mimir, Thanos,
VictoriaMetrics. Doing it again does no harm. Credentials and TLS settings are
in a file with the fields of remote_write in prometheus.yml. Samples that the
receiver refuses because they are too old are counted, and the exit code is 1:
Prometheus takes them with storage.tsdb.out_of_order_time_window.

` + console.ExitCodes,
		Example: `  docgauge openmetrics --from 2026-10-01 --to 2026-11-01 >history.om
  promtool tsdb create-blocks-from openmetrics --max-block-duration=744h \
    history.om DATA
  docgauge openmetrics --pages 50 --label job=docgauge \
    --label instance=docs:9817 >history.om
  docgauge openmetrics --remote-write http://127.0.0.1:9090/api/v1/write`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.openmetrics(cmd.Context(), t) },
	}
	f := cmd.Flags()
	f.StringVar(&t.from, "from", "", "first day with samples, YYYY-MM-DD (default: as early as there are any)")
	f.StringVar(&t.to, "to", "", "the first day after them (default: today, UTC)")
	f.DurationVar(&t.step, "step", historyStep, "time between two samples of a value, in whole seconds; 4m is for "+
		"queries that do not look back")
	f.IntVar(&t.pages, "pages", 0, "also write this many pages of each window, those with the most visitors")
	f.StringVar(&t.windows, "windows", "", "comma-separated granularities (default: all that the archive has)")
	f.StringVar(&t.project, "project", "", "comma-separated projects (default: all that the archive has)")
	input.ArchiveFlag(f, &t.archive, "directory or s3://bucket/prefix to read (default DOCGAUGE_PARQUET_URL)")
	f.StringArrayVar(&t.labels, "label", nil, "name=value, a label for every series; may be given more than once")
	f.StringVar(&t.remote.URL, "remote-write", "", "URL of a receiver that gets the samples: "+
		"http://HOST:9090/api/v1/write")
	f.StringVar(&t.remote.File, "remote-write.config.file", "",
		"YAML file with basic_auth, authorization or tls_config for the receiver")
	f.StringVar(&t.remote.Protocol, "remote-write.protocol", "1.0", "version of the remote write protocol: 1.0 or 2.0")
	f.BoolVar(&t.json, "json", false, "print the summary of --remote-write as JSON")
	return cmd
}

func (a *Program) openmetrics(ctx context.Context, t openmetricsOptions) (err error) {
	c, err := a.Config(config.NeedNothing)
	if err != nil {
		return err
	}
	o, err := t.options(a.Now())
	if err != nil {
		return err
	}
	receiver, err := t.receiver(a.Logger(c))
	if err != nil {
		return input.Usage(err)
	}
	from, err := archiveAt(t.archive, c, analytics.Reports...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	scope := sinks.Scope{}
	if scope.Projects, err = archiveProjects(ctx, t.project, from); err != nil {
		return err
	}
	for _, text := range format.List(t.windows) {
		scope.Granularities = append(scope.Granularities, analytics.Granularity(text))
	}
	o.Want = scope.Has
	archive := historyOf{a.withoutOthers(from, c, t.project)}
	if receiver != nil {
		return a.remoteWrite(ctx, receiver, archive, o, t.json)
	}
	s, err := history.Write(ctx, a.Out, archive, o)
	_, isEmpty := errors.AsType[query.NoAnswerError](err)
	switch {
	case errors.Is(err, history.ErrNothing):
		return input.Usage(err)
	case isEmpty:
		return err
	case err != nil:
		return fmt.Errorf("%w\nthe history is not complete: do not use it (`docgauge verify` says how to mend the "+
			"archive)", err)
	}
	a.Note("wrote %s as %s samples of %s series, from %s",
		format.Plural(s.Windows, "window"), format.Commas(s.Samples), format.Commas(int64(s.Series)), from.Location())
	return nil
}

// options checks the flags.
func (t openmetricsOptions) options(now time.Time) (o history.Options, err error) {
	begin, end := analytics.Date(0), analytics.DateOf(now)
	from, to, err := input.DateFlags(t.from, t.to, "samples")
	if err != nil {
		return o, err
	}
	if from != nil {
		begin = *from
	}
	if to != nil {
		end = *to
	}
	if begin >= end {
		return o, input.EmptyRange(begin, end, "samples")
	}
	o = history.Options{NotEmpty: true, Step: t.step, Pages: t.pages, From: begin.Time(), To: end.Time()}
	// The future has not been shown yet.
	if end := now.Truncate(time.Second).Add(time.Second); o.To.After(end) {
		o.To = end
	}
	if t.step < time.Second || t.step%time.Second != 0 {
		return o, input.Usagef("--step %s: want whole seconds, at least 1s", t.step)
	}
	if t.pages < 0 {
		return o, input.Usagef("--pages %d: want 0 or more", t.pages)
	}
	if o.Labels, err = history.ParseLabels(t.labels); err != nil {
		return o, input.Usagef("--label %w", err)
	}
	for _, text := range format.List(t.windows) {
		if _, err := analytics.ParseGranularity(text); err != nil {
			return o, input.Usagef("--windows: %w", err)
		}
	}
	return o, nil
}

// historyOf is a Parquet sink as history reads it: beside a running export, so
// without a repair.
type historyOf struct{ sinks.Sink }

// Revisions yields an error for an archive without any window: it is another place than
// was meant.
func (h historyOf) Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		empty := true
		for rev, err := range sinks.List(ctx, h.Sink) {
			empty = false
			if !yield(rev, err) {
				return
			}
		}
		if empty {
			yield(analytics.Revision{}, noWindows(h.Sink, analytics.Window{}))
		}
	}
}

// Window opens a window. The reader of the text may go away, which ends the process.
func (h historyOf) Window(ctx context.Context, rev analytics.Revision) (history.Window, func() error, error) {
	w, done, err := query.Open(ctx, h.Sink, rev, "docgauge-openmetrics")
	return copied{w, h.Location()}, done, err
}

// copied is a window that is read from a copy, which is gone when its errors
// are shown.
type copied struct {
	sinks.Sealed
	location string // of the archive
}

func (c copied) Rows() iter.Seq2[analytics.Record, error] {
	return func(yield func(analytics.Record, error) bool) {
		for row, err := range c.Sealed.Rows() {
			if err != nil {
				err = fmt.Errorf("%s file in %s: read as a copy: %w", c.Revision().Report, c.location, err)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// remoteSummary is the output of openmetrics --remote-write; its JSON keys are stable.
type remoteSummary struct {
	Archive string `json:"archive"`
	history.Counts
	remotewrite.Summary
	Errors []string `json:"errors"`
}

// receiver returns where samples are sent; nil: nowhere.
func (t openmetricsOptions) receiver(log *slog.Logger) (*remotewrite.Writer, error) {
	if t.remote.URL == "" {
		if t.remote.File != "" || t.json {
			return nil, errors.New("--remote-write.config.file and --json are for --remote-write URL")
		}
		return nil, nil
	}
	t.remote.Retrying = func(err error) { log.Warn("remote write failed, trying again", "error", err) }
	return remotewrite.New(t.remote)
}

// remoteWrite sends the history. What arrived before an error is reported too.
func (a *Program) remoteWrite(
	ctx context.Context, to *remotewrite.Writer, from historyOf, o history.Options, asJSON bool,
) error {
	started := a.Now()
	var first int64
	written, err := history.Samples(ctx, from, o, func(s exporter.Sample) error {
		if first == 0 {
			first = s.At
			a.Progress.BeginCount(int(o.To.Unix()-first)/daySeconds+1, "days", "samples")
		}
		a.Progress.Count(int(s.At-first)/daySeconds, to.Summary().Accepted)
		return to.Add(ctx, s)
	})
	if errors.Is(err, history.ErrNothing) {
		return input.Usage(err)
	}
	if err == nil {
		err = to.Close(ctx)
	}
	a.Progress.End()
	s := remoteSummary{from.Location(), written, to.Summary(), []string{}}
	switch {
	case err != nil && s.Through != nil:
		err = fmt.Errorf("%w\nthe history is not complete: continue with --from %s, or start over, which is safe",
			err, s.Through.Format(time.DateOnly))
	case err == nil && s.Refused > 0:
		err = fmt.Errorf("%s of %s samples were refused as too old or out of order, the newest of %s (%s): "+
			"Prometheus takes them if storage.tsdb.out_of_order_time_window in its configuration reaches back so "+
			"far; other receivers have different limits. Then start over, which is safe",
			format.Commas(s.Refused), format.Commas(s.Samples), s.RefusedThrough.Format(time.RFC3339), s.Refusal)
	}
	if !asJSON {
		text := render.NewText(a.Out)
		text.Line(2, "wrote %s of %s samples of %s, from %s, in %s and %.1f s", format.Commas(s.Accepted),
			format.Commas(s.Samples), format.Plural(s.Windows, "window"), s.Archive,
			format.Plural(s.Requests, "request"), a.Now().Sub(started).Seconds())
		return errors.Join(text.Err(), err)
	}
	if err == nil {
		return render.JSON(a.Out, s)
	}
	s.Errors = append(s.Errors, err.Error())
	return errors.Join(render.JSON(a.Out, s), render.ErrReported)
}

const daySeconds = 24 * 60 * 60
