// Package state keeps what must survive a process in one SQLite database,
// <dir>/docgauge.db: the ledger of windows and their revisions per sink, the
// sliding log of requests, counters, the history of runs, and the journal of the
// prompt queue with its notifications. It hides SQL, migrations and locking.
//
// Invariant: every method is one transaction, synchronous=FULL: once it
// returned nil its effect survives a crash, and after an error nothing of it is
// there. Times are UTC in microseconds.
//
// It does not decide anything: what is due is package schedule's, how many
// requests fit is package budget's, in which order steps happen is package
// pipeline's and, of jobs, package jobs'.
package state
