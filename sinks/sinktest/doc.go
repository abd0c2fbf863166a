// Package sinktest is the contract of [sinks.Sink] as a test suite. Every sink
// runs it unchanged, each with a [Reader] that sees what users of that sink see.
//
// It holds sinks to what readers of one table see of one window: exactly one
// revision, whole. It does not hold two tables of a sink to change at once, as
// two files cannot; readers tell by the revision.
package sinktest
