// Package history writes what the gauges of visitors would have shown in the
// past, from the archive, as OpenMetrics text for
// `promtool tsdb create-blocks-from openmetrics`. It hides that format.
//
// # What is shown when
//
// At a time t a project and granularity show their newest complete window,
// which is the one of the archive that ends last, but not after t:
//
//	archive     [ window a )[ window b )            [ window d )
//	shown                  aaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbddddd…
//
// So a window is shown from the first instant after its last day, and where the
// archive lacks the next one it goes on, as the live gauge goes on with what it
// has: docgauge_window_end_timestamp_seconds tells how old it is. Two things
// differ from what a scrape of that time saw. The live gauge changed some
// minutes later, when the window had been read. And the archive holds the newest
// reading of each window, so the numbers of earlier, provisional readings are
// not shown again, and docgauge_window_settled is that of the newest reading.
//
// Beside its numbers a window shows those of the window that ends where it
// begins, if the archive has that one; where it has not, as for [window d ), there
// is no sample of them. A path that is not among the pages with the most visitors
// any more has no sample any more. Text has no way to say that a series ended: it
// is over once the last sample is older than a query looks back.
//
// # Order and memory
//
// The invariant: families, series and their samples are each in one piece, the
// samples of a series in order of time, whole seconds apart, and "# EOF" comes
// last, if and only if nothing failed. Damage in the archive is found before
// the first byte is written. Memory grows with the number of windows, and with
// pages by N for each; not with samples, and not with rows.
//
// The package sends no request, writes nothing but the text, and does not know
// where an archive is.
package history
