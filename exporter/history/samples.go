package history

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/exporter"
)

// Sample is one value of one series.
type Sample struct {
	// Labels are name, value pairs, sorted by name, with the metric's name as
	// __name__. Samples that follow each other share them.
	Labels []string
	Help   string // of the metric
	At     int64  // seconds since 1970
	Value  int64
}

// slice is how far samples may be out of order: a receiver of remote write accepts
// samples of the newest hour in any order, and a series of one slice is told at once.
const slice = int64(time.Hour / time.Second)

// Samples calls each with all samples that [Write] writes, hour by hour; those of a
// series are in order of time. An error of each ends it.
func Samples(ctx context.Context, from Archive, o Options, each func(Sample) error) (Summary, error) {
	timelines, err := read(ctx, from, o)
	if err != nil {
		return Summary{}, err
	}
	t := teller{
		metrics: exporter.Metrics(), step: int64(o.Step / time.Second), labels: o.Labels, each: each, series: map[string]bool{},
	}
	at, end := int64(0), int64(0)
	for i, l := range timelines {
		t.summary.Windows += len(l.spans)
		if first := l.spans[0].from; i == 0 || first < at {
			at = first
		}
		end = max(end, l.spans[len(l.spans)-1].to)
	}
	for ; at < end; at += slice {
		if ctx.Err() != nil {
			return t.summary, context.Cause(ctx)
		}
		for _, l := range timelines {
			if err := t.tell(l.during(at, at+slice, t.step)); err != nil {
				return t.summary, err
			}
		}
	}
	t.summary.Series = len(t.series)
	return t.summary, nil
}

// during limits a timeline to from <= t < to. The times of its samples stay.
func (l timeline) during(from, to, step int64) timeline {
	first, _ := slices.BinarySearchFunc(l.spans, from, func(s span, t int64) int { return cmp.Compare(s.to, t+1) })
	limited := timeline{project: l.project, granularity: l.granularity}
	for _, s := range l.spans[first:] {
		if s.from >= to {
			break
		}
		if s.from < from {
			s.from += (from - s.from + step - 1) / step * step
		}
		if s.to = min(s.to, to); s.from < s.to {
			limited.spans = append(limited.spans, s)
		}
	}
	return limited
}

// teller tells samples.
type teller struct {
	metrics []exporter.Metric
	step    int64
	labels  []string // of every series
	each    func(Sample) error
	series  map[string]bool
	summary Summary
}

func (t *teller) tell(l timeline) error {
	if len(l.spans) == 0 {
		return nil
	}
	own := []string{exporter.LabelProject, l.project, exporter.LabelWindow, string(l.granularity)}
	for _, m := range t.metrics {
		of := families[m.Name]
		if of == nil {
			continue
		}
		for s := range of(l) {
			if err := t.tellSeries(Sample{sorted([]string{"__name__", m.Name}, own, s.labels, t.labels), m.Help, 0, 0}, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *teller) tellSeries(one Sample, s series) error {
	before := t.summary.Samples
	for p := range s.points {
		one.Value = p.value
		for one.At = p.from; one.At < p.to; one.At += t.step {
			if err := t.each(one); err != nil {
				return err
			}
			t.summary.Samples++
		}
	}
	if t.summary.Samples > before {
		t.series[strings.Join(one.Labels, "\xff")] = true
	}
	return nil
}

// sorted returns name, value pairs by name, without those that have no value.
func sorted(groups ...[]string) (labels []string) {
	var pairs [][]string
	for _, group := range groups {
		for pair := range slices.Chunk(group, 2) {
			if value := exporter.Label(pair[1]); value != "" {
				pairs = append(pairs, []string{pair[0], value})
			}
		}
	}
	slices.SortFunc(pairs, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return slices.Concat(pairs...)
}
