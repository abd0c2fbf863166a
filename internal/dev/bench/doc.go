// Bench measures the real docgauge binary, end to end over loopback, against a
// plain sequential client that does the same work in the same run. It prints
// Markdown, or JSON with -json; -short is a smoke run of a few seconds.
//
// Three kinds of child process take part, so that each has its own clock of CPU
// time and its own peak of memory: the server, docgauge, and the plain client.
// The server renders pages of made-up rows as they are asked for, and counts
// requests; its CPU time is measured apart and counted to nobody. On a machine
// of few cores it still takes its share of them.
//
// The plain client is what people write first: net/http, encoding/json into
// structs, page after page, window after window, over one connection, into a
// CSV file. It checks nothing, sorts nothing and flushes nothing to disk.
//
// The second table loads files into ClickHouse: the real `docgauge load`, and two
// clients that only insert by the driver, from the same files into a table with
// the same columns and keys on the same server. bare writes everything as one
// INSERT, in blocks of 100,000 rows over the native protocol and INSERTs of
// 200,000 over HTTP; bare windows writes one INSERT a window, 16 at once. Neither
// counts, commits or keeps a ledger. A load after which the table or view has
// another number of rows ends the benchmark with an error.
//
// The third table scrapes /metrics over HTTP, from a process that only serves a
// snapshot of 10 projects × 4 windows × 50 pages, with 10,000 windows in its
// ledger. Prometheus asks for gzip OpenMetrics, or protobuf. A snapshot is encoded
// by the first scrape that asks for its format; "new snapshot each" is that one.
//
// What the columns mean:
//
//   - windows × rows: that many day windows of that many rows each.
//   - latency: how long the server waits before each answer.
//   - in flight: DOCGAUGE_CONCURRENCY; 1 for the plain client.
//   - seconds: from the start of the process to its end, start-up and the
//     durable commit of every window included.
//   - rows/s, windows/s: rows and windows divided by those seconds.
//   - CPU s/Mrow: user and system time of the process per million rows.
//   - peak RSS: the most memory the process ever had resident, as the kernel
//     counted it: heap, stacks, program text and pages of its files.
//   - requests: what the server received. ratio: that divided by the fewest with
//     which all rows can be had, 250 rows a request and one for an empty window.
//   - × plain: rows/s divided by those of the plain client, same work, same run.
//   - × bare: rows/s divided by those of bare, same rows, same run.
//   - median, p99: from before the request to the last byte of the answer.
//   - allocations, allocated: by the serving process for each scrape, net/http and
//     the making of new snapshots included.
//
// A row of the table is the run of median duration where work is repeated; the
// repetitions of all clients take turns. A run that exports another number of
// rows than the server has ends the benchmark with an error.
package main
