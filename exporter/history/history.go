// Package history computes from the archive what the gauges of visitors and agents would have shown in
// the past: as OpenMetrics text for `promtool tsdb create-blocks-from openmetrics`, or as
// samples in order of time.
//
// # What is shown when
//
// At a time t, a project and granularity show their newest complete window: the one
// in the archive that ends last, but not after t:
//
//	archive     [ window a )[ window b )            [ window d )
//	shown                  aaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbddddd…
//
// So a window is shown from the first instant after its last day, and stays if the
// archive lacks the next one, as the live gauge does:
// docgauge_window_end_timestamp_seconds gives its age. Two things differ from a
// scrape of that time. The live gauge changed some minutes later, when the window had
// been read. And the archive holds the newest reading of each window, so earlier,
// provisional numbers are not shown again, and docgauge_window_settled describes the newest reading.
//
// Beside its numbers a window shows the numbers of the window that ends where it begins, if the archive has that
// one; otherwise, as for [window d ), they have no sample. A path that drops out of the most read pages has no more
// samples. The format cannot mark the end of a series: for a query it ends once its last sample is older than the
// query's lookback.
//
// # Order and memory
//
// The invariant: families, series and their samples are each contiguous, the samples
// of a series in order of time, whole seconds apart, and "# EOF" comes last if and
// only if nothing failed. Damage in the archive is found before the first byte is
// written. Memory grows with the number of windows, with N pages for each if pages are
// wanted, and 40 agents for each window of agents; not with samples, and not with rows.
//
// The package sends no request, writes nothing but the text, and does not know where
// an archive is.
package history

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// Archive is where windows come from.
type Archive interface {
	// Revisions yields the newest reading of each window, in any order. An
	// error concerns one window and does not end it.
	Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error]
	// Window opens the rows of a reading; done closes them. Several goroutines call it at once,
	// and only for pages and agents.
	Window(ctx context.Context, rev analytics.Revision) (w Window, done func() error, err error)
}

// Window is a window with its rows.
type Window interface {
	// Revision describes it. It may be a later reading than was asked for.
	Revision() analytics.Revision
	// Rows yields its rows, rows of the site first.
	Rows() iter.Seq2[analytics.Record, error]
}

// Options select the history.
type Options struct {
	// From and To limit the times of samples: From <= t < To, in whole seconds.
	From, To time.Time
	// Step is the time between two samples of the same value: whole seconds, at least
	// one. There is always a sample where a window begins to be shown.
	Step time.Duration
	// NotEmpty makes a history without a window an error.
	NotEmpty bool
	// Pages is how many pages of each window have series, those with the most
	// visitors; 0: none, and no rows of paths are read.
	Pages int
	// Labels are name, value pairs that every series gets.
	Labels []string
	// Want picks windows; nil: all.
	Want func(analytics.Key) bool
}

// Counts are the counts of one history.
type Counts struct {
	Windows int   `json:"windows"` // shown at some time
	Series  int   `json:"series"`
	Samples int64 `json:"samples"`
}

// ErrNothing means that no window of the archive is selected although [Options.NotEmpty] is set.
var ErrNothing = errors.New("no window of the archive is selected: try another --from, --to, --windows or --project")

// openWindows is how many windows are read at once, because a bucket is slow.
const openWindows = 8

// Write writes the history of the archive to out. The error joins the errors of all windows that cannot be read.
func Write(ctx context.Context, out io.Writer, from Archive, o Options) (Counts, error) {
	timelines, err := read(ctx, from, o)
	if err != nil {
		return Counts{}, err
	}
	t := textWriter{out: bufio.NewWriterSize(out, bufferBytes)}
	h := newHistory(timelines, o, t.write)
	for _, m := range exporter.WindowMetrics() {
		t.header = "# TYPE " + m.Name + " " + m.Type + "\n# HELP " + m.Name + " " + escaper.Replace(m.Help) + "\n"
		for _, l := range timelines {
			for _, s := range l.series(m, o.Labels) {
				if err := h.emit(ctx, s, math.MaxInt64); err != nil {
					return h.counts, err
				}
			}
		}
	}
	if _, err := t.out.WriteString("# EOF\n"); err != nil {
		return h.counts, err
	}
	return h.counts, t.out.Flush()
}

// slice is how far samples may be out of order, in seconds: a receiver of remote write accepts
// samples of the newest hour in any order.
const slice = 3600

// Samples calls each with all samples that [Write] writes, hour by hour; the samples of a series are in order of
// time. An error of each ends it.
func Samples(ctx context.Context, from Archive, o Options, each func(exporter.Sample) error) (Counts, error) {
	timelines, err := read(ctx, from, o)
	if err != nil {
		return Counts{}, err
	}
	h := newHistory(timelines, o, each)
	at, end := int64(math.MaxInt64), int64(math.MinInt64)
	var all []*series
	for _, l := range timelines {
		at, end = min(at, l[0].from), max(end, l[len(l)-1].to)
		for _, m := range exporter.WindowMetrics() {
			all = append(all, l.series(m, o.Labels)...)
		}
	}
	for ; at < end; at += slice {
		for _, s := range all {
			if err := h.emit(ctx, s, at+slice); err != nil {
				return h.counts, err
			}
		}
	}
	return h.counts, nil
}

// history emits samples and counts them.
type history struct {
	step   int64 // seconds
	each   func(exporter.Sample) error
	counts Counts
}

func newHistory(timelines []timeline, o Options, each func(exporter.Sample) error) *history {
	h := &history{step: int64(o.Step / time.Second), each: each}
	for _, l := range timelines {
		h.counts.Windows += len(l)
	}
	return h
}

// emit emits the samples of a series before a time, and removes them from it.
func (h *history) emit(ctx context.Context, s *series, until int64) error {
	for len(s.points) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p := &s.points[0]
		for ; p.from < min(p.to, until); p.from += h.step {
			if err := h.each(exporter.Sample{Labels: s.labels, Help: s.help, At: p.from, Value: p.value}); err != nil {
				return err
			}
			if h.counts.Samples++; !s.begun {
				s.begun = true
				h.counts.Series++
			}
		}
		if p.from < p.to {
			return nil
		}
		s.points = s.points[1:]
	}
	return nil
}

// read reads the windows to show, and finds all damage in the archive.
func read(ctx context.Context, from Archive, o Options) ([]timeline, error) {
	if o.Step < time.Second || o.Step%time.Second != 0 {
		return nil, fmt.Errorf("step %s: want whole seconds, at least one", o.Step)
	}
	timelines, err := readTimelines(ctx, from, o)
	if err != nil {
		return nil, err
	}
	if len(timelines) == 0 && o.NotEmpty {
		return nil, ErrNothing
	}
	return timelines, readRows(ctx, from, timelines, o.Pages)
}

func readTimelines(ctx context.Context, from Archive, o Options) ([]timeline, error) {
	var revs []analytics.Revision
	var errs []error
	for rev, err := range from.Revisions(ctx) {
		switch {
		case err != nil:
			errs = append(errs, err)
		case o.Want == nil || o.Want(rev.Key):
			revs = append(revs, rev)
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return newTimelines(revs, o.From.Unix(), o.To.Unix()), errors.Join(errs...)
}

// readRows reads the n pages with the most visitors of every span, or its agents.
func readRows(ctx context.Context, from Archive, timelines []timeline, n int) error {
	var some errgroup.Group
	some.SetLimit(openWindows)
	var mu sync.Mutex
	var errs []error // all of them, where the group would keep the first
	for _, l := range timelines {
		for i := range l {
			span := &l[i]
			needed := span.HasRows() && (n > 0 || span.Report != analytics.VisitorsReport)
			if needed && ctx.Err() == nil {
				some.Go(func() error {
					err := span.readRows(ctx, from, n)
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
					return nil
				})
			}
		}
	}
	_ = some.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs...)
}

func (s *span) readRows(ctx context.Context, from Archive, n int) error {
	w, done, err := from.Window(ctx, *s.Revision)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Key, err)
	}
	// The totals and the pages must come from the same reading, also where the window is shown as the previous window
	// of another.
	*s.Revision = w.Revision()
	if s.Report != analytics.VisitorsReport {
		n = view.MaxRows
	}
	s.rows, s.more, err = s.Report.Shape().Top(w.Rows(), n)
	if err = errors.Join(err, done()); err != nil {
		return fmt.Errorf("%s: %w", s.Key, err)
	}
	return nil
}

// labelName is the form of a label's name in Prometheus.
var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// ParseLabels reads name=value texts into name, value pairs for [Options.Labels]. An
// empty value means no label, as everywhere in Prometheus.
func ParseLabels(texts []string) ([]string, error) {
	var pairs []string
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		switch {
		case !ok || !labelName.MatchString(name) || strings.HasPrefix(name, "__"):
			return nil, fmt.Errorf("%q: want name=value, the name of letters, digits and _", text)
		case slices.ContainsFunc(exporter.WindowMetrics(),
			func(m exporter.Metric) bool { return slices.Contains(m.Labels, name) }):
			return nil, fmt.Errorf("%q: history has the label %s itself", text, name)
		case slices.ContainsFunc(slices.Collect(slices.Chunk(pairs, 2)), func(p []string) bool { return p[0] == name }):
			return nil, fmt.Errorf("%q: the label %s is given twice", text, name)
		}
		pairs = append(pairs, name, value)
	}
	return pairs, nil
}
