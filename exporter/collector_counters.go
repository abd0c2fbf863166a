package exporter

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// outcomes are how a run can end.
var outcomes = []string{"success", "deferred", "failed", "interrupted"}

// visitorsEndpoint is the operation every export uses.
const visitorsEndpoint = "visitors"

// counters writes the counters of the snapshot, and 0 for those that can be
// foreseen and have not counted yet: a rate needs the step from 0 to 1.
func (s series) counters() {
	for _, c := range slices.Concat(s.Counters, s.zeros()) {
		name := prefix + c.Name
		if name == AgentJobsFinished && s.Queue == nil {
			continue
		}
		if labels, ok := s.labels(name, TypeCounter, c.Labels); ok {
			s.constant(name, prometheus.CounterValue, float64(c.Value), labels)
		}
	}
}

// labels returns the values of pairs in the order of the table. It is false where
// the table has no such metric, and for a project or sink that is not configured.
func (s series) labels(name, kind string, pairs []string) ([]string, bool) {
	f, ok := table[name]
	if !ok || f.Type != kind || len(pairs) != 2*len(f.Labels) {
		return nil, false
	}
	values := make([]string, len(f.Labels))
	for i, label := range f.Labels {
		if values[i], ok = valueOf(label, pairs); !ok || !s.configured(label, values[i]) {
			return nil, false
		}
	}
	return values, true
}

// valueOf returns the value of label among name, value pairs.
func valueOf(label string, pairs []string) (string, bool) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i] == label {
			return pairs[i+1], true
		}
	}
	return "", false
}

// configured reports whether value, of a project or sink label, is of one that
// is configured; any value of another label is.
func (s series) configured(label, value string) bool {
	switch label {
	case LabelProject:
		return slices.ContainsFunc(s.Projects, func(p Project) bool { return p.ID == value })
	case LabelSink:
		return slices.ContainsFunc(s.Sinks, func(k Sink) bool { return k.Name == value })
	}
	return true
}

// zeros returns the counters that can be foreseen.
func (s series) zeros() []Counter {
	var all []Counter
	zero := func(name string, labels ...string) {
		all = append(all, Counter{Name: name[len(prefix):], Labels: labels})
	}
	for _, outcome := range outcomes {
		zero(ExportRuns, LabelOutcome, outcome)
	}
	for _, p := range s.Projects {
		zero(WindowDrift, LabelProject, p.ID)
		zero(PagesMispredicted, LabelProject, p.ID)
		for _, sink := range s.Sinks {
			zero(WindowsCommitted, LabelProject, p.ID, LabelSink, sink.Name)
		}
	}
	if s.Queue != nil {
		for _, p := range s.Projects {
			for _, result := range Results {
				zero(AgentJobsFinished, LabelProject, p.ID, LabelResult, result)
			}
		}
	}
	for _, sink := range s.Sinks {
		zero(RowsWritten, LabelSink, sink.Name)
		zero(SinkFailures, LabelSink, sink.Name)
		zero(SinkWindowsLost, LabelSink, sink.Name)
	}
	zero(APIRequests, LabelEndpoint, visitorsEndpoint, LabelCode, "200")
	zero(APIForeignThrottles)
	return all
}
