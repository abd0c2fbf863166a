// Package exporter is the Prometheus side of docgauge: it turns a [Snapshot]
// into metrics and shows them on /metrics, in a textfile for node_exporter and on
// a Pushgateway. It hides client_golang and the exposition formats.
//
// Its invariant: a metric shows a value that was published, never one that is
// computed during a scrape. A scrape reads no state and sends no request, the same
// snapshot gives the same series everywhere, and a series whose project, window,
// sink or key is not in the newest snapshot is gone. The runtime's own metrics
// (go_, process_) alone are live, and on /metrics only.
//
// The number of series is bounded by the configuration, however many windows the
// ledger holds: four for each project, at most 20 for each of its granularities,
// and three for each top page. With a queue there are those of each project and of its
// newest jobs, and three for each of the newest effects.
//
// To add a metric, add an entry to one of the tables in visitors.go, pipeline.go
// and jobs.go: its definition and its values stand side by side. This package does
// not make snapshots, decide when they are published, or listen on a port (package
// exporter/server), and draws no page (package exporter/page).
package exporter

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"

	"github.com/docgauge/docgauge/internal/view"
)

// prefix begins the name of every metric.
const prefix = "docgauge_"

// The types of metrics, as the exposition formats name them.
const (
	typeCounter   = "counter"
	typeGauge     = "gauge"
	TypeHistogram = "histogram"
)

// The labels. None is ever named job or instance: a scrape sets those.
const (
	LabelAudience   = "audience" // human or ai
	LabelBound      = "bound"    // low, estimate or high
	LabelBranch     = "branch"
	LabelBudget     = "budget"
	LabelCap        = "cap" // day, active or open_pull_requests
	LabelCode       = "code"
	LabelEndpoint   = "endpoint"
	LabelGoArch     = "goarch"
	LabelGoOS       = "goos"
	LabelGoVersion  = "goversion"
	LabelJobID      = "job_id"
	LabelKey        = "key"  // the name of an API key, never its value
	LabelKind       = "kind" // moved or repeated
	LabelModel      = "model"
	LabelOutcome    = "outcome"
	LabelPath       = "path"
	LabelPRLink     = "pr_link"
	LabelProject    = "project"
	LabelPrompt     = "prompt"
	LabelReason     = "reason"
	LabelRef        = "ref"
	LabelRepository = "repository"
	LabelResult     = "result"
	LabelRevision   = "revision"
	LabelSink       = "sink"
	LabelState      = "state"
	LabelStatus     = "status"
	LabelTags       = "tags"
	LabelVersion    = "version"
	LabelWindow     = "window" // a granularity: day, week, month, 28d
)

// The values of the audience label.
const (
	AudienceHuman = "human"
	AudienceAI    = "ai"
)

// The values of the bound label: an estimate, and the ends of its interval.
const (
	BoundLow      = "low"
	BoundEstimate = "estimate"
	BoundHigh     = "high"
)

// Metric describes one metric family.
type Metric struct {
	// Group says what it is about: visitors, pipeline, api, jobs or build.
	Group string
	// Name is the full name.
	Name string
	// Type is counter, gauge or TypeHistogram.
	Type string
	// Help is one line that names the unit.
	Help string
	// Labels are the names of its labels, in the order of its documentation.
	Labels []string
}

// The groups.
const (
	groupVisitors = "visitors"
	groupPipeline = "pipeline"
	groupAPI      = "api"
	groupJobs     = "jobs"
	groupBuild    = "build"
)

// What the help texts repeat.
const (
	cached   = " Cached; a scrape sends no request."
	nonAdded = " Unique visitors must not be summed: not over paths, windows or audiences."
	epoch    = " in seconds since 1970-01-01T00:00:00Z."
	kept     = " Kept in the state, over restarts."
)

// family is a metric and its values. For a counter or a histogram, which the state
// keeps, collect emits the series that can be foreseen, empty: a rate needs the step
// from 0 to 1.
type family struct {
	Metric
	collect func(s *view.Snapshot, emit emit)
}

// emit adds a series; labels are values in the order of the definition. Of two equal
// series the first stays.
type emit func(value float64, labels ...string)

// at emits a time to the millisecond, and nothing for the zero time: a series that
// says 1970 would look like news.
func (e emit) at(t time.Time, labels ...string) {
	if !t.IsZero() {
		e(float64(t.UnixMilli())/1000, labels...)
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

// define returns an entry of a table.
func define(group, name, kind, help string, labels []string, collect func(s *view.Snapshot, emit emit)) family {
	return family{Metric{group, name, kind, help, labels}, collect}
}

// families holds all metrics except those of the Go runtime and the process, in the
// order of the documentation; byName is the order in which they are shown.
var (
	families = slices.Concat(visitorFamilies, pipelineFamilies, apiFamilies, jobFamilies, buildFamilies)
	byName   = slices.SortedFunc(slices.Values(families), func(a, b family) int { return strings.Compare(a.Name, b.Name) })
)

// Metrics returns every metric there is except those of the Go runtime and the
// process, in the order of the documentation.
func Metrics() []Metric {
	var all []Metric
	for _, f := range families {
		m := f.Metric
		m.Labels = slices.Clone(m.Labels)
		all = append(all, m)
	}
	return all
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

// sample is a series as it was emitted. value is the sum of a histogram.
type sample struct {
	labels  []string
	value   float64
	buckets map[int]uint64
}

func (a sample) equal(b sample) bool {
	return a.value == b.value && slices.Equal(a.labels, b.labels) && maps.Equal(a.buckets, b.buckets)
}

// samples returns the series of f in s, as they come.
func (f family) samples(s *view.Snapshot) (all []sample) {
	if f.Group == groupJobs && s.Queue == nil {
		return nil
	}
	switch f.Type {
	case typeCounter:
		for _, k := range s.Counters {
			if labels, ok := labelsOf(s, f.Metric, k.Name, k.Labels); ok {
				all = append(all, sample{labels: labels, value: k.Value})
			}
		}
	case TypeHistogram:
		for _, h := range s.Histograms {
			if labels, ok := labelsOf(s, f.Metric, h.Name, h.Labels); ok {
				all = append(all, sample{labels, h.Sum, h.Buckets})
			}
		}
	}
	f.collect(s, func(value float64, labels ...string) { all = append(all, sample{labels: labels, value: value}) })
	return all
}

// gather returns f with the samples as its series, as a registry would: labels by name,
// series by their labels.
func (f family) gather(samples []sample) *dto.MetricFamily {
	all := make([]*dto.Metric, len(samples))
	for i := range samples {
		all[i] = f.metric(&samples[i])
	}
	order := func(a, b *dto.Metric) int {
		return slices.CompareFunc(a.Label, b.Label, func(x, y *dto.LabelPair) int { return strings.Compare(*x.Value, *y.Value) })
	}
	slices.SortStableFunc(all, order)
	all = slices.CompactFunc(all, func(a, b *dto.Metric) bool { return order(a, b) == 0 })
	kind := dto.MetricType(dto.MetricType_value[strings.ToUpper(f.Type)])
	return &dto.MetricFamily{Name: &f.Name, Help: &f.Help, Type: &kind, Metric: all}
}

func (f family) metric(s *sample) *dto.Metric {
	m := &dto.Metric{Label: make([]*dto.LabelPair, len(f.Labels))}
	for i := range f.Labels {
		value := Label(s.labels[i])
		m.Label[i] = &dto.LabelPair{Name: &f.Labels[i], Value: &value}
	}
	slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return strings.Compare(*a.Name, *b.Name) })
	switch f.Type {
	case typeCounter:
		m.Counter = &dto.Counter{Value: &s.value}
	case typeGauge:
		m.Gauge = &dto.Gauge{Value: &s.value}
	case TypeHistogram:
		m.Histogram = f.histogram(s)
	}
	return m
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
		case LabelProject:
			if !slices.ContainsFunc(s.Projects, func(p view.Project) bool { return p.ID == values[i] }) {
				return nil, false
			}
		case LabelSink:
			if !slices.ContainsFunc(s.Sinks, func(k view.Sink) bool { return k.Name == values[i] }) {
				return nil, false
			}
		}
	}
	return values, true
}

// MaxLabel is the most bytes a label value has.
const MaxLabel = 300

// hashDigits is how many hexadecimal digits tell altered values apart.
const hashDigits = 8

// Label returns s as a label value: itself where it is valid UTF-8 of at most
// MaxLabel bytes. If it has to be altered (invalid bytes become U+FFFD, the end is
// cut off), it ends in "…" and a hash of s, so that two values that differ stay two
// series. The same s always gives the same value.
//
// Newlines, quotes, backslashes and control characters stay: the exposition
// formats escape what they must, and readers take the rest.
func Label(s string) string {
	if len(s) <= MaxLabel && utf8.ValidString(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	mark := "…" + hex.EncodeToString(sum[:])[:hashDigits]
	s = strings.ToValidUTF8(s, "\uFFFD")
	if n := MaxLabel - len(mark); len(s) > n {
		for !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return s + mark
}
