package exporter

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/docgauge/docgauge/internal/view"
)

// MaxInFlight is how many scrapes are answered at a time.
const MaxInFlight = maxInFlight

// MaxLabel is the most bytes a label value has.
const MaxLabel = maxLabel

// Inconsistent returns what a registry would find wrong with the metrics of s.
func Inconsistent(s view.Snapshot) error {
	_, err := prometheus.Gatherers{
		prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return gather(&s), nil }),
	}.Gather()
	return err
}
