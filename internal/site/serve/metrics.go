package serve

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// metric describes a metric of site serve.
type metric struct {
	Name, Help string
	Type       prometheus.ValueType
	Labels     []string
}

// Indexes of Metrics.
const (
	linesTotal = iota
	watermark
	possiblyLost
	pushedAt
	idsKnown
	idsDropped
	logFinding
	rangesCreated
	epochsOpen
	collecting
	clockHeld
	answersTotal
	countingSeconds
	requestsTotal
	ingestTotal
)

// Metrics are all metrics except the metrics of the Go runtime and the process, and docgauge_build_info.
var Metrics = []metric{
	linesTotal: {"docgauge_site_lines_total", "Lines of a source, by result: view, or why they are none.",
		prometheus.CounterValue, []string{"source", "result"}},
	watermark: {"docgauge_site_watermark_timestamp_seconds", "Time of the newest line of a source; absent before the " +
		"first.", prometheus.GaugeValue, []string{"source"}},
	possiblyLost: {"docgauge_site_possibly_lost_total", "Times that lines of a source may have been lost: a file " +
		"was emptied (copytruncate), cut, or replaced by another that begins alike.", prometheus.CounterValue, []string{"source"}},
	pushedAt: {"docgauge_site_pushed_timestamp_seconds", "When a body that was pushed to a source http:NAME was last taken, " +
		"also one without lines; absent before the first.", prometheus.GaugeValue, []string{"source"}},
	idsKnown: {"docgauge_site_pushed_ids", "Ids of bodies and requests that were pushed in the last 24 hours, and " +
		"count once.", prometheus.GaugeValue, nil},
	idsDropped: {"docgauge_site_pushed_ids_dropped_total", "Ids that were forgotten before their 24 hours, because there " +
		"were too many: what is sent again after that counts twice.", prometheus.CounterValue, nil},
	logFinding: {"docgauge_site_log_finding", "1 if the recent lines of a source make its numbers wrong. " +
		"The finding says why: most lines lack the user agent (user-agent) or the status (status), no line has a key of " +
		"json:… (key), times are in the future (future), the addresses belong to a proxy (clients), another log has " +
		"the same views (repeated), or no line can show that a client is a browser (evidence). " +
		"The log of site serve has the remedy.", prometheus.GaugeValue, []string{"source", "finding"}},
	rangesCreated: {"docgauge_site_ranges_created_timestamp_seconds", "When a list of published addresses was made; " +
		"older than 30 days it verifies nothing.", prometheus.GaugeValue, []string{"file"}},
	epochsOpen: {"docgauge_site_epochs_open", "Epochs of all projects whose keys are not destroyed yet.",
		prometheus.GaugeValue, nil},
	collecting: {"docgauge_site_collecting", "1 if the last look at the logs ended well; 0: what they have is not kept, " +
		"and is tried again.", prometheus.GaugeValue, nil},
	clockHeld: {"docgauge_site_clock_held", "1 after the clock has jumped, until it has gone evenly for 24 hours: no " +
		"key is destroyed, no facts are removed, and no job is archived.", prometheus.GaugeValue, nil},
	answersTotal: {"docgauge_site_answers_total", "Answers by where they came from: counted, disk or memory.",
		prometheus.CounterValue, []string{"from"}},
	countingSeconds: {"docgauge_site_counting_seconds_total", "Time spent on counting answers.",
		prometheus.CounterValue, nil},
	requestsTotal: {"docgauge_site_requests_total", "Requests to the API, by HTTP status.",
		prometheus.CounterValue, []string{"code"}},
	ingestTotal: {"docgauge_site_ingest_requests_total", "Requests of hosts that push lines, by HTTP status.",
		prometheus.CounterValue, []string{"code"}},
}

// Exposition shows metrics of a site. A scrape reads memory alone.
type Exposition struct {
	collector *Collector
	answers   *Answers
	rules     *count.Rules
	requests  *prometheus.CounterVec
	ingested  *prometheus.CounterVec
	epochs    prometheus.Gauge
	open      atomic.Pointer[[]facts.OpenEpoch]
	descs     []*prometheus.Desc
}

// NewExposition returns the metrics of a site.
func NewExposition(c *Collector, a *Answers, r *count.Rules) *Exposition {
	counter := func(m metric) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
	}
	e := &Exposition{collector: c, answers: a, rules: r, requests: counter(Metrics[requestsTotal]),
		ingested: counter(Metrics[ingestTotal]),
		epochs: prometheus.NewGauge(prometheus.GaugeOpts{Name: Metrics[epochsOpen].Name,
			Help: Metrics[epochsOpen].Help}),
	}
	for _, m := range Metrics {
		e.descs = append(e.descs, prometheus.NewDesc(m.Name, m.Help, m.Labels, nil))
	}
	return e
}

// Handler serves the metrics.
func (e *Exposition) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(e, e.requests, e.ingested, e.epochs, version.NewCollector("docgauge"), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Count counts the requests to a handler.
func (e *Exposition) Count(next http.Handler) http.Handler {
	return promhttp.InstrumentHandlerCounter(e.requests, next)
}

// CountIngest counts the requests to a handler of lines that are pushed.
func (e *Exposition) CountIngest(next http.Handler) http.Handler {
	return promhttp.InstrumentHandlerCounter(e.ingested, next)
}

// Watch keeps up what a scrape must not ask the database for, until ctx ends.
func (e *Exposition) Watch(ctx context.Context, s *facts.Store) {
	for {
		if open, err := s.OpenEpochs(ctx); err == nil {
			e.epochs.Set(float64(len(open)))
			e.open.Store(&open)
		}
		if clock.Sleep(ctx, time.Minute) != nil {
			return
		}
	}
}

// Describe is for the registry.
func (e *Exposition) Describe(to chan<- *prometheus.Desc) {
	for i, d := range e.descs {
		if i != epochsOpen && i != requestsTotal && i != ingestTotal {
			to <- d
		}
	}
}

// Collect is for the registry.
func (e *Exposition) Collect(to chan<- prometheus.Metric) {
	emit := func(family int, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(e.descs[family], Metrics[family].Type, value, labels...)
	}
	sources, _ := e.collector.Sources()
	for i, s := range sources {
		if at := e.collector.heard[i].Load(); at > 0 {
			emit(pushedAt, float64(at), s.Name)
		}
		for result, n := range s.Lines {
			emit(linesTotal, float64(n), s.Name, result)
		}
		if s.Watermark > 0 {
			emit(watermark, float64(s.Watermark), s.Name)
		}
		emit(possiblyLost, float64(s.PossiblyLost), s.Name)
		for _, name := range count.FindingNames {
			is := 0.0
			if slices.ContainsFunc(s.Findings, func(f count.Finding) bool { return f.Name == name }) {
				is = 1
			}
			emit(logFinding, is, s.Name, name)
		}
	}
	emit(idsKnown, float64(e.collector.idsKnown.Load()))
	emit(idsDropped, float64(e.collector.idsDropped.Load()))
	for _, l := range e.rules.Ranges() {
		emit(rangesCreated, float64(l.Created.Unix()), l.Name)
	}
	works := 1.0
	if e.collector.Failed() != nil {
		works = 0
	}
	emit(collecting, works)
	held := 0.0
	if e.collector.ClockHeld() {
		held = 1
	}
	emit(clockHeld, held)
	emit(answersTotal, float64(e.answers.Counted.Load()), "counted")
	emit(answersTotal, float64(e.answers.FromDisk.Load()), "disk")
	emit(answersTotal, float64(e.answers.FromMemory.Load()), "memory")
	emit(countingSeconds, time.Duration(e.answers.Nanoseconds.Load()).Seconds())
}

// Ready returns why answers may lack what the logs have; nothing if they do not.
func (e *Exposition) Ready() (reasons []string) {
	sources, _ := e.collector.Sources()
	if slices.ContainsFunc(sources, func(s sourceStatus) bool { return !s.IsRead && s.Err == "" }) {
		reasons = append(reasons, "the logs are still being read after the start")
	}
	if err := e.collector.Failed(); err != nil {
		reasons = append(reasons, "logs not collected: "+err.Error())
	}
	for _, s := range sources {
		if s.Err != "" {
			reasons = append(reasons, s.Err)
		}
	}
	return reasons
}
