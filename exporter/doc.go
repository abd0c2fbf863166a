// Package exporter is the Prometheus side of docgauge: it turns a [Snapshot]
// into metrics and shows them on /metrics, in a textfile for node_exporter and on
// a Pushgateway. It hides client_golang and the exposition formats.
//
// Its invariant: a metric shows a value that somebody published, never one that
// is worked out while somebody waits. A scrape reads no state and sends no request,
// the same snapshot gives the same series everywhere, and a series whose project,
// window, sink or key is not in the newest snapshot is gone.
// The runtime's own metrics (go_, process_) alone are live, and on /metrics only.
//
// The number of series is bounded by the configuration, however many windows the
// ledger holds: four for each project, at most 20 for each of its granularities,
// and three for each top page.
//
// It does not make snapshots, decide when they are published, or listen on a
// port (package exporter/server), and draws no page (package exporter/page).
package exporter
