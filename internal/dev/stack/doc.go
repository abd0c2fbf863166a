// Package stack brings up the whole of docgauge on loopback, without
// containers: the sandbox with a git repository that its agent jobs edit,
// ClickHouse, `docgauge serve` with both sinks and a prompt queue, and
// Prometheus with the history of the archive, the rules of deploy/prometheus
// and a scrape of serve, Alertmanager behind it. It serves `make stack` and the
// test that runs every query of the dashboards and rules.
//
// It hides the order in which these start and what each is told of the others.
// Its invariant: everything lies in the one directory it was given, listens on
// 127.0.0.1 only, and is gone after Stop, or when this process ends. An engine
// that is not installed is left out and named; the rest goes on.
//
// It does not build docgauge, install nothing, and knows nothing of what the
// queries should answer beyond that there is data.
package stack
