package exporter

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// MaxInFlight is how many scrapes are answered at a time.
const MaxInFlight = maxInFlight

// Inconsistent returns what a strict registry finds wrong with the metrics of s.
func Inconsistent(s Snapshot) error {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{&s})
	_, err := registry.Gather()
	return err
}

// KeepsBody reports whether two scrapes send the same bytes in memory, beside
// what is live.
func KeepsBody(v *Values, gzip bool) bool {
	body := func() *byte {
		parts, err := v.answer(expfmt.FmtOpenMetrics_1_0_0, gzip)
		if err != nil {
			return nil
		}
		if gzip {
			return &parts[1][0]
		}
		return &parts[0][0]
	}
	first, second := body(), body()
	return first != nil && first == second
}
