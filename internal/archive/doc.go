// Package archive hides the window file: one revision of one window as a
// Parquet file, the one format in the spool and in the Parquet sink (SPEC 6).
//
// Two shapes exist. A visitors file has a row per path; a totals file has one
// row, the site totals, and stands for the window where only totals were read.
// Both carry the whole [analytics.Revision] as key-value metadata, so that a
// footer alone tells what a file is.
//
// The invariant: a file that [Open] accepts holds exactly one whole revision,
// its rows sorted by path in byte order and each path once. Files are written
// once and never changed. Memory grows neither with the rows written nor with
// the rows read.
//
// The package does not name files, move them or make their directory entries
// durable; it knows nothing of windows that are due or of sinks. Parquet
// libraries panic on some damaged input: such a panic leaves this package as
// an error.
package archive
