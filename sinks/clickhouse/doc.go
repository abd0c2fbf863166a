// Package clickhouse commits windows to a ClickHouse server or cluster, from
// 18.16 to today's versions (SPEC 7).
//
// ClickHouse has no transactions over several inserts, so a window is committed
// by a marker:
//
//  1. its rows are inserted under a fresh attempt id: no view shows them
//  2. the rows of the attempt are counted on the server
//  3. one row in docgauge_windows names the attempt: the marker
//
// The views show, per window, the rows of the greatest attempt that has a
// marker. Step 3 is one row and so one step. Attempt ids grow, and none is used
// again: whatever fails, or cannot be known, the attempt is abandoned and its
// rows stay invisible until they are collected.
//
//	died or cut                  a reader sees              the next Replace
//	before or during 1           the former revision        takes a new attempt
//	between 1 and 3              the former revision        takes a new attempt
//	3 sent, answer lost          the former or this one     takes a new attempt,
//	                             whole                      which supersedes both
//
// # The order of reading
//
// A query over docgauge_visitors reads two tables, and takes the state of one
// after the other. If rows and marker came between the two, and the state of the
// rows was taken first, the query would know the marker and not its rows. The
// views are made so that the markers come first: a marker that is too old is
// harmless, since the rows it names stay for a day (see layout.visitors). On
// servers between the versions this was tried with, the marker waits a moment
// for queries that began before it (see pause).
//
// # Cluster
//
// On a cluster the tables named …_local are replicated and the names without
// the suffix are Distributed over them, sharded by window, so that a window,
// its marker and the view over both live on one shard. Rows and markers wait
// for every replica of their shard: a replica that had a marker but not yet its
// rows would show half a window. After an error one replica may show the new
// revision and another the former, each whole, until they have caught up. A
// replica that is added or rebuilt fetches both tables in no order: it must not
// be queried before its queue is empty.
//
// The package does not decide what is written when, and it never deletes what a
// view shows (see Collect).
package clickhouse
