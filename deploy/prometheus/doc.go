// Package prometheus holds what a Prometheus server needs for docgauge: the
// alerts (alerts.yaml), the recording rules they ask for (recording.yaml) and an
// example configuration (prometheus.yml), and reads the rules for tests.
//
// Its invariant: every name in a rule is a metric or label that docgauge has, no
// rule sums unique visitors, and each alert has a section in docs/runbook.md and
// tests that see it fire and not fire (tests/*.yaml, run by promtool).
//
// It is no part of the docgauge program, and it does not evaluate anything.
package prometheus
