// Package analytics holds the words every other package uses: dates, half-open
// windows, granularities, rows, totals, revisions and movers of visitor analytics.
//
// It depends on the standard library only, does no I/O, and knows nothing of
// what is due (package schedule) or where numbers come from and go to.
package analytics
