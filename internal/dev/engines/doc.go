// Package engines starts the real engines that tests and benchmarks run
// against, on loopback, and stops them: ClickHouse 18.16 alone or as a cluster
// with ZooKeeper, an S3 server, Prometheus with its Pushgateway, Alertmanager,
// node_exporter and promtool, and a browser (Chromium). It also finds programs
// that are run to their end: promtool, amtool, helm.
//
// It hides where the programs are, their configuration, the choice of free
// ports, and the wait until an engine answers. Its invariant: an engine is a
// child of this process that keeps everything it writes in the one directory
// it was given, listens on 127.0.0.1 only, and does not outlive this process
// (on Linux not even when this process is killed).
//
// It knows nothing of docgauge's tables or files, has no client library, and
// installs nothing: install.sh does. An engine whose program is absent is a
// [Missing] error, which [Need] turns into a skipped test.
package engines
