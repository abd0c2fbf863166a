// Package server is the HTTP side of "docgauge serve": one address, the
// handlers it is given, and the probes /healthz and /readyz. It hides
// exporter-toolkit (TLS, basic authentication), systemd's socket activation,
// time limits, headers and the way a server stops.
//
// It holds that a mistake in the configuration and a taken port are errors
// before anything is served, that no client keeps a connection or a stop for
// longer than the constants of this package say, and that a handler that panics
// costs its own request only.
//
// Basic authentication and client certificates cover every path, /healthz and
// /readyz too: a probe needs credentials then, or runs a command inside the
// container. The web configuration is read again for each request (users,
// headers) and each TLS connection (certificates); whether there is TLS at all
// is decided at the start.
//
// It knows neither metrics nor pages, does not profile (no pprof), and never
// logs what a request carries beyond its path.
package server
