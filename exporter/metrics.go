// Package exporter is the Prometheus side of docgauge: it makes metrics of a [view.Snapshot] and
// shows them on /metrics, in a textfile for node_exporter and on a Pushgateway. It hides
// client_golang and the exposition formats.
//
// Invariant: a metric shows a value that was published, never one that is computed during a
// scrape. A scrape reads no state and sends no request, the same snapshot gives the same series
// everywhere, and a series whose project, window, sink or key is not in the newest snapshot
// disappears. Only the metrics of the runtime (go_, process_) are live, on /metrics alone.
//
// The number of series is bounded by the configuration, however many windows the ledger has:
// four for each project, at most 20 for each of its granularities, and three for each top page; with the
// report agents, 81 more for each granularity.
// A queue adds series for each project and for its newest jobs, and three for each of the newest effects.
//
// To add a metric, add an entry to one of the tables in visitors.go, pipeline.go and jobs.go,
// with its definition and its values. This package does not make snapshots, decide when they
// are published, listen on a port, or draw pages (package internal/web).
package exporter

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// prefix begins the name of every metric.
const prefix = "docgauge_"

// The types of metrics, as the exposition formats name them.
const (
	typeCounter   = "counter"
	typeGauge     = "gauge"
	typeHistogram = "histogram"
)

// Metric describes one metric family.
type Metric struct {
	// Group is its subject: visitors, pipeline, api, jobs or build.
	Group string
	// Name is the full name.
	Name string
	// Type is counter, gauge or histogram.
	Type string
	// Help is one line that names the unit.
	Help string
	// Labels are the names of its labels, in the order of its documentation.
	Labels []string

	// collect emits the values. For a counter or a histogram, which the state keeps, it emits the
	// series that can be foreseen, empty: a rate needs the step from 0 to 1.
	collect collector
}

// collector emits the series of a metric in a snapshot.
type collector func(s *view.Snapshot, emit emit)

// Sample is one value of a series of the past.
type Sample struct {
	// Labels are name, value pairs, the metric's name as __name__ first. Samples of one series
	// that follow each other share them.
	Labels []string
	Help   string // of the metric
	At     int64  // seconds since 1970
	Value  float64
}

// The groups.
const (
	groupVisitors = "visitors"
	groupPipeline = "pipeline"
	groupAPI      = "api"
	groupJobs     = "jobs"
	groupBuild    = "build"
)

// Sentences that several help texts share.
const (
	cached   = " Cached; a scrape sends no request."
	nonAdded = " Unique visitors must not be summed: not over paths, windows or audiences."
	epoch    = " in seconds since 1970-01-01T00:00:00Z."
	kept     = " Kept in the state, over restarts."
)

// emit adds a series; labels are values in the order of the definition. Of two equal
// series the first stays.
type emit func(value float64, labels ...string)

// timestamp emits a time to the millisecond, and nothing for the zero time, which would read as 1970.
func (e emit) timestamp(t time.Time) {
	if !t.IsZero() {
		e(float64(t.UnixMilli()) / 1000)
	}
}

// flag emits 1 or 0.
func (e emit) flag(set bool, labels ...string) {
	value := 0.0
	if set {
		value = 1
	}
	e(value, labels...)
}

// define returns an entry of a table; labels are apart by spaces.
func define(group, name, kind, labels, help string, collect collector) Metric {
	return Metric{group, prefix + name, kind, help, strings.Fields(labels), collect}
}

// with returns emit with labels before those that it is given.
func (e emit) with(labels ...string) emit {
	return func(value float64, more ...string) { e(value, append(labels[:len(labels):len(labels)], more...)...) }
}

// forEach returns a function that turns a collector of one item into a collector of all items. The labels of the
// item come first.
func forEach[T any](
	items func(*view.Snapshot) []T, labels func(T) []string,
) func(collect func(item T, emit emit)) collector {
	return func(collect func(item T, emit emit)) collector {
		return func(s *view.Snapshot, emit emit) {
			for _, item := range items(s) {
				collect(item, emit.with(labels(item)...))
			}
		}
	}
}

var (
	ofWindows = forEach(func(s *view.Snapshot) []view.Window { return s.Windows },
		func(w view.Window) []string { return []string{w.Project, string(w.Granularity)} })
	ofOthers = forEach(func(s *view.Snapshot) []view.RowsWindow { return s.Others },
		func(w view.RowsWindow) []string { return []string{w.Project, string(w.Granularity)} })
	ofOpen = forEach(func(s *view.Snapshot) []analytics.OpenWindow { return s.Open },
		func(o analytics.OpenWindow) []string { return []string{o.Project, string(o.Granularity)} })
	ofSinks = forEach(func(s *view.Snapshot) []view.Sink { return s.Sinks },
		func(k view.Sink) []string { return []string{k.Name} })
	ofBudgets = forEach(func(s *view.Snapshot) []view.Budget { return s.Budgets },
		func(b view.Budget) []string { return []string{b.Name} })
	ofKeys = forEach(func(s *view.Snapshot) []view.Key { return s.Keys },
		func(k view.Key) []string { return []string{k.Name} })
	ofReviews = forEach(func(s *view.Snapshot) []view.Review { return s.Queue.Reviews },
		func(r view.Review) []string { return []string{r.Project} })
	ofSummaries = forEach(func(s *view.Snapshot) []view.OutcomeSummary { return s.Outcomes.Summaries },
		func(s view.OutcomeSummary) []string { return []string{s.Project} })
	// ofJobs collects something of each job that the service has accepted.
	ofJobs = forEach(
		func(s *view.Snapshot) []view.Job {
			return slices.DeleteFunc(slices.Clone(s.Queue.Jobs), func(j view.Job) bool { return j.ID == "" })
		},
		func(j view.Job) []string { return []string{j.Project, j.Prompt, j.ID} })
)

// ofProjects collects something of each project. The first label is its id.
func ofProjects(collect func(s *view.Snapshot, p view.Project, emit emit)) collector {
	return func(s *view.Snapshot, emit emit) {
		for _, p := range s.Projects {
			collect(s, p, emit.with(p.ID))
		}
	}
}

// families holds all metrics except the metrics of the Go runtime and the process, in the order of the
// documentation; byName is the order in which they are shown.
var (
	families = slices.Concat(windowFamilies, reportFamilies, visitorFamilies, pipelineFamilies, apiFamilies,
		jobFamilies, buildFamilies)
	byName = slices.SortedFunc(slices.Values(families),
		func(a, b Metric) int { return strings.Compare(a.Name, b.Name) })
)

// Metrics returns every metric except the metrics of the Go runtime and the process, in the order of the
// documentation.
func Metrics() []Metric { return slices.Clone(families) }

// WindowMetrics returns the metrics whose values depend only on a complete window, so that
// their past is known.
func WindowMetrics() []Metric { return slices.Concat(windowFamilies, reportFamilies) }

// Series yields the label values and the value of each series that one of [WindowMetrics] has
// in a snapshot.
func (m Metric) Series(snapshot *view.Snapshot) iter.Seq2[[]string, float64] {
	return func(yield func([]string, float64) bool) {
		for _, s := range m.samples(snapshot) {
			for i, value := range s.labels {
				s.labels[i] = Label(value)
			}
			if !yield(s.labels, s.value) {
				return
			}
		}
	}
}

// gather returns every metric of s: families by name, each with its series in order.
func gather(s *view.Snapshot) (all []*dto.MetricFamily) {
	for _, f := range byName {
		if samples := f.samples(s); len(samples) > 0 {
			all = append(all, f.gather(samples))
		}
	}
	return all
}

// sample is an emitted series. value is the sum if it is a histogram.
type sample struct {
	labels  []string
	value   float64
	buckets map[int]uint64
}

// samples returns the series of m in s, as they come.
func (m Metric) samples(s *view.Snapshot) (all []sample) {
	if m.Group == groupJobs && s.Queue == nil {
		return nil
	}
	switch m.Type {
	case typeCounter:
		for _, k := range s.Counters {
			if labels, ok := labelsOf(s, m, k.Name, k.Labels); ok {
				all = append(all, sample{labels: labels, value: k.Value})
			}
		}
	case typeHistogram:
		for _, h := range s.Histograms {
			if labels, ok := labelsOf(s, m, h.Name, h.Labels); ok {
				all = append(all, sample{labels, h.Sum, h.Buckets})
			}
		}
	}
	m.collect(s, func(value float64, labels ...string) { all = append(all, sample{labels: labels, value: value}) })
	return all
}

// gather returns m with the samples as its series, as a registry would: labels by name,
// series by their labels.
func (m Metric) gather(samples []sample) *dto.MetricFamily {
	all := make([]*dto.Metric, len(samples))
	for i := range samples {
		all[i] = m.metric(&samples[i])
	}
	order := func(a, b *dto.Metric) int {
		return slices.CompareFunc(a.Label, b.Label,
			func(x, y *dto.LabelPair) int { return strings.Compare(*x.Value, *y.Value) })
	}
	slices.SortStableFunc(all, order)
	all = slices.CompactFunc(all, func(a, b *dto.Metric) bool { return order(a, b) == 0 })
	kind := dto.MetricType(dto.MetricType_value[strings.ToUpper(m.Type)])
	return &dto.MetricFamily{Name: &m.Name, Help: &m.Help, Type: &kind, Metric: all}
}

func (m Metric) metric(s *sample) *dto.Metric {
	out := &dto.Metric{Label: make([]*dto.LabelPair, len(m.Labels))}
	for i := range m.Labels {
		value := Label(s.labels[i])
		out.Label[i] = &dto.LabelPair{Name: &m.Labels[i], Value: &value}
	}
	slices.SortFunc(out.Label, func(a, b *dto.LabelPair) int { return strings.Compare(*a.Name, *b.Name) })
	switch m.Type {
	case typeCounter:
		out.Counter = &dto.Counter{Value: &s.value}
	case typeGauge:
		out.Gauge = &dto.Gauge{Value: &s.value}
	case typeHistogram:
		out.Histogram = m.histogram(s)
	}
	return out
}

// labelsOf returns the label values of a kept counter or histogram in the order of the
// definition m. It is false for another metric, for other labels, and for a project
// or sink that is not configured.
func labelsOf(s *view.Snapshot, m Metric, name string, pairs []string) ([]string, bool) {
	if prefix+name != m.Name || len(pairs) != 2*len(m.Labels) {
		return nil, false
	}
	values := make([]string, len(m.Labels))
	for i, label := range m.Labels {
		at := 0
		for at < len(pairs) && pairs[at] != label {
			at += 2
		}
		if at == len(pairs) {
			return nil, false
		}
		values[i] = pairs[at+1]
		switch label {
		case "project":
			if !slices.ContainsFunc(s.Projects, func(p view.Project) bool { return p.ID == values[i] }) {
				return nil, false
			}
		case "sink":
			if !slices.ContainsFunc(s.Sinks, func(k view.Sink) bool { return k.Name == values[i] }) {
				return nil, false
			}
		}
	}
	return values, true
}

// maxLabel is the most bytes a label value has.
const maxLabel = 300

// hashDigits is how many hexadecimal digits tell altered values apart.
const hashDigits = 8

// Label returns s as a label value: itself where it is valid UTF-8 of at most
// maxLabel bytes. If it has to be altered (invalid bytes become U+FFFD, the end is
// cut off), it ends in "…" and a hash of s, so that two values that differ stay two
// series. The same s always gives the same value.
//
// Newlines, quotes, backslashes and control characters stay: the exposition
// formats escape some of them, and readers accept the others.
func Label(s string) string {
	if len(s) <= maxLabel && utf8.ValidString(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	mark := "…" + hex.EncodeToString(sum[:])[:hashDigits]
	s = strings.ToValidUTF8(s, "\uFFFD")
	if n := maxLabel - len(mark); len(s) > n {
		for !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return s + mark
}
