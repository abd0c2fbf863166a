package exporter

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// family is a metric and its descriptor.
type family struct {
	Metric
	desc *prometheus.Desc
}

// table holds all families by name.
var table = func() map[string]family {
	t := map[string]family{}
	for _, m := range Metrics() {
		t[m.Name] = family{m, prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)}
	}
	return t
}()

// gather returns every metric of s: families by name, each with its series in
// order. The error says what the registry found inconsistent and left out.
func gather(s *Snapshot) ([]*dto.MetricFamily, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector{s}); err != nil {
		return nil, err
	}
	return registry.Gather()
}

// collector makes constant metrics of a snapshot.
type collector struct{ *Snapshot }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range table {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := series{c.Snapshot, out, map[string]bool{}}
	s.visitors()
	s.pipeline()
	s.counters()
	s.histograms()
	s.api()
	s.jobs()
	s.build()
}

// series writes the series of a snapshot. Of two that are equal the first stays.
type series struct {
	*Snapshot
	out  chan<- prometheus.Metric
	seen map[string]bool
}

// gauge writes one series; labels are values in the order of the table.
func (s series) gauge(name string, value float64, labels ...string) {
	s.constant(name, prometheus.GaugeValue, value, labels)
}

// timestamp writes a moment to the millisecond, and nothing for the zero time:
// a series that says 1970 would look like news.
func (s series) timestamp(name string, t time.Time, labels ...string) {
	if !t.IsZero() {
		s.gauge(name, float64(t.UnixMilli())/1000, labels...)
	}
}

// flag writes 1 or 0.
func (s series) flag(name string, set bool, labels ...string) {
	value := 0.0
	if set {
		value = 1
	}
	s.gauge(name, value, labels...)
}

func (s series) constant(name string, kind prometheus.ValueType, value float64, labels []string) {
	s.write(name, labels, func(f family, labels []string) (prometheus.Metric, error) {
		return prometheus.NewConstMetric(f.desc, kind, value, labels...)
	})
}

// write writes what build makes of values that are fit for labels, unless there is
// such a series already.
func (s series) write(name string, labels []string, build func(family, []string) (prometheus.Metric, error)) {
	values := make([]string, len(labels))
	for i, l := range labels {
		values[i] = Label(l)
	}
	id := name + separator + strings.Join(values, separator)
	if s.seen[id] {
		return
	}
	s.seen[id] = true
	f := table[name]
	m, err := build(f, values)
	if err != nil {
		m = prometheus.NewInvalidMetric(f.desc, err)
	}
	s.out <- m
}

// separator is in no label value: it is not UTF-8.
const separator = "\xff"
