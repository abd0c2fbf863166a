// Package clickhouse commits windows to a ClickHouse server or cluster, from
// 18.16 to today's versions (SPEC 7).
//
// ClickHouse has no transactions over several inserts, so a window is committed
// by a marker:
//
//	1. its rows are inserted under a fresh attempt id: no view shows them
//	2. the rows of the attempt are counted on the server
//	3. after a pause, one row in docgauge_windows names the attempt: the marker
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
// # The pause
//
// A query over docgauge_visitors reads two tables and takes their states one
// after the other, on servers of today the rows first. If rows and marker came
// between the two, the query would know the marker and not the rows. So the
// marker waits until queries that began before the rows were complete have
// taken both states; see pause.
//
// # Cluster
//
// On a cluster the tables named …_local are replicated and the names without
// the suffix are Distributed over them, sharded by window, so that a window,
// its marker and the view over both live on one shard. Every insert waits for
// every replica of its shard: a replica that had a marker but not yet its rows
// would show half a window.
//
// The package does not decide what is written when, and it never deletes what a
// view shows (see Collect).
package clickhouse
