// Package dashboards holds docgauge's four Grafana dashboards: readers, their
// history, agent jobs, and the health of the pipeline. They are written in Go,
// so that every metric's name is the exporter's, and committed as JSON in json/,
// which Grafana reads by file provisioning:
//
//	go test ./dashboards -run TestFiles -update
//
// No query adds unique visitors up: not over pages, windows or audiences. Tests
// look for that in every query, run each of them on a real Prometheus or
// ClickHouse, and hold the files against the code.
//
// Grafana itself is in none of the tests: what it makes of a panel was not seen.
package dashboards
