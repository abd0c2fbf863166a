// Package grafana writes classic Grafana dashboards (schema version 39, Grafana
// 10.4 and newer) as Go values: panels, variables and links, with a layout that
// is computed.
//
// It knows the few kinds of panels that we use, and of each only the options
// that we set; Grafana fills in the others. Whatever a Dashboard holds, its
// panels have ids of their own and never overlap.
//
// It knows nothing of docgauge, reads no dashboard, and talks to no Grafana.
package grafana
