package exporter

import "slices"

// prefix begins the name of every metric.
const prefix = "docgauge_"

// The types of metrics, as the exposition formats name them.
const (
	TypeCounter   = "counter"
	TypeGauge     = "gauge"
	TypeHistogram = "histogram"
)

// The labels. None is ever named job or instance: a scrape sets those.
const (
	LabelAudience  = "audience" // human or ai
	LabelBudget    = "budget"
	LabelCode      = "code"
	LabelEndpoint  = "endpoint"
	LabelGoVersion = "goversion"
	LabelKey       = "key" // the name of an API key, never its value
	LabelKind      = "kind"
	LabelOutcome   = "outcome"
	LabelPath      = "path"
	LabelProject   = "project"
	LabelReason    = "reason"
	LabelRevision  = "revision"
	LabelSink      = "sink"
	LabelVersion   = "version"
	LabelWindow    = "window" // a granularity: day, week, month, 28d
)

// The values of the audience label.
const (
	AudienceHuman = "human"
	AudienceAI    = "ai"
)

// Metric describes one metric family.
type Metric struct {
	// Group says what it is about: visitors, pipeline, api, jobs or build.
	Group string
	// Name is the full name.
	Name string
	// Type is TypeCounter, TypeGauge or TypeHistogram.
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

// Metrics returns every metric there is except those of the Go runtime and the
// process, in the order of the documentation.
func Metrics() []Metric {
	all := slices.Concat(visitorMetrics, pipelineMetrics, apiMetrics, jobMetrics, buildMetrics)
	for i := range all {
		all[i].Labels = slices.Clone(all[i].Labels)
	}
	return all
}

// What the help texts repeat.
const (
	cached   = " Cached; a scrape sends no request."
	nonAdded = " Unique visitors must not be summed: not over paths, windows or audiences."
	epoch    = " in seconds since 1970-01-01T00:00:00Z."
	kept     = " Kept in the state, over restarts."
)
