// Package schedule says which windows are due, why, and in which order: the
// calendar of windows of each granularity, the plan of one run, and the
// arithmetic of its requests.
//
// It holds that windows tile the calendar, that a plan names no window twice
// and no incomplete window but the open ones that were asked for, that no
// project starves, and that every window is read a bounded number of times:
// once when it is complete, and once or twice when it settles.
//
// It does no I/O and, but for Cron.Run, has no clock: the time, the ledger and
// the configuration come in as values. It neither spends the budget nor fetches.
//
// A Cron says when a daemon runs, in UTC, and runs it: never two runs at once, and
// neither a panic nor a run that hangs goes unreported or ends the schedule.
package schedule
