// Package sandbox is a local implementation of the service whose analytics
// docgauge exports (service specification 4.3, 5, 7 and 8), for trials, demos,
// tests and self-hosting. It hides where events come from (synthetic traffic or
// an event log) and how distinct visitors are counted behind one [http.Handler].
//
// Invariant: every number is the size of an exact set of visitors. An event has
// a time and an arrival; an answer counts the events whose time lies in the
// window and that arrived up to the beginning of the current minute of
// Config.Now. Hence all pages of one window read within a minute agree, a
// window of past days changes only by late data, drift or lines appended to the
// event log, and the open day grows every minute. Event times are kept in whole
// seconds: an event happens at the beginning of its second.
//
// Which events arrived is decided by Config.Now alone; only the latency fault
// waits for real. Memory is bounded by caches of days and answers, except for an
// event log, which is held whole at 16 bytes an event.
//
// It does not serve agent jobs, TLS or compression, does not print anything and
// does not write to Config.DataDir.
package sandbox
