package exporter

import "github.com/prometheus/client_golang/prometheus"

// MaxInFlight is how many scrapes are answered at a time.
const MaxInFlight = maxInFlight

// Inconsistent returns what a strict registry finds wrong with the metrics of s.
func Inconsistent(s Snapshot) error {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{&s})
	_, err := registry.Gather()
	return err
}
