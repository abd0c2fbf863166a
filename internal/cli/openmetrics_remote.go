package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/exporter/history"
	"github.com/docgauge/docgauge/exporter/remotewrite"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/format"
)

// remoteSummary is the output of openmetrics --remote-write; its JSON keys are stable.
type remoteSummary struct {
	Archive  string `json:"archive"`
	Windows  int    `json:"windows"`
	Series   int    `json:"series"`
	Samples  int64  `json:"samples"`
	Accepted int64  `json:"samples_accepted"`
	Refused  int64  `json:"samples_refused"`
	Requests int    `json:"requests"`
	Retries  int    `json:"retries"`
	// Through is the time of the newest sample that arrived or was refused, and
	// RefusedThrough that of the newest that was refused; null: none was.
	Through        *time.Time `json:"through"`
	RefusedThrough *time.Time `json:"refused_through"`
	Errors         []string   `json:"errors"`
	seconds        float64
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
	started := a.now()
	var first int64
	written, err := history.Samples(ctx, from, o, func(s exporter.Sample) error {
		if first == 0 {
			first = s.At
			a.progress.BeginCount(int(o.To.Unix()-first)/daySeconds+1, "days", "samples")
		}
		a.progress.Count(int(s.At-first)/daySeconds, to.Summary().Accepted)
		return to.Add(ctx, s)
	})
	if errors.Is(err, history.ErrNothing) {
		return usageError{err}
	}
	if err == nil {
		err = to.Close(ctx)
	}
	a.progress.End()
	done := to.Summary()
	s := remoteSummary{
		Archive: from.Location(), Windows: written.Windows, Series: written.Series, Samples: written.Samples,
		Accepted: done.Accepted, Refused: done.Refused,
		Requests: done.Requests, Retries: done.Retries, Through: timeOrNull(done.Through),
		RefusedThrough: timeOrNull(done.RefusedThrough),
		Errors:         []string{}, seconds: a.now().Sub(started).Seconds(),
	}
	switch {
	case err != nil && s.Through != nil:
		err = fmt.Errorf("%w\nthe history is not complete: continue with --from %s, or start over, which is safe",
			err, s.Through.Format(time.DateOnly))
	case err == nil && s.Refused > 0:
		err = fmt.Errorf("%s of %s samples were refused as too old or out of order, the newest of %s (%s): "+
			"Prometheus takes them if storage.tsdb.out_of_order_time_window in its configuration reaches back so "+
			"far; other receivers have different limits. Then start over, which is safe",
			format.Commas(s.Refused), format.Commas(s.Samples), done.RefusedThrough.Format(time.RFC3339), done.Refusal)
	}
	if !asJSON {
		text := render.NewText(a.Out)
		text.Line(2, "wrote %s of %s samples of %s, from %s, in %s and %.1f s", format.Commas(s.Accepted),
			format.Commas(s.Samples), format.Plural(s.Windows, "window"), s.Archive,
			format.Plural(s.Requests, "request"), s.seconds)
		return errors.Join(text.Err(), err)
	}
	if err == nil {
		return render.JSON(a.Out, s)
	}
	s.Errors = append(s.Errors, err.Error())
	return errors.Join(render.JSON(a.Out, s), errReported)
}

const daySeconds = 24 * 60 * 60

// timeOrNull is a time for JSON; the zero time is null.
func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
