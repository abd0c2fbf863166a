// Package parquet publishes window files to a tree that any warehouse reads
// (SPEC 6): visitors/v1 and totals/v1, one file a window, in a directory or
// below a prefix of an S3 bucket.
//
// A file appears under its name whole and durable, so nothing whose name ends
// in .parquet is ever incomplete: in a directory by rename from _staging on the
// same file system, in a bucket by one PUT whose body the server checks. The
// package does not write Parquet itself: the visitors file is the sealed window
// file, byte for byte. It has no multipart uploads: one PUT carries 5 GiB.
//
// # Two files
//
// Replace of a window changes two files, and two renames, or two PUTs, are not one step:
//
//	rows:        stage both; publish visitors; publish totals
//	totals only: stage totals; publish totals; remove visitors, if there is one
//
// The last step commits. Whoever joins both tables between the steps tells by
// the column revision. The order lets every crash be finished from what is on
// disk, since a visitors file carries the totals in its footer:
//
//	visitors            totals                 what happened, and what heals it
//	revision a          revision a             nothing
//	revision b          none, or a with rows   died after visitors: b's totals are written
//	revision b          a, totals only, older  the same
//	revision a          b, totals only, newer  died before the removal: a's file is removed
//	none                a, totals only         nothing
//	none                a, with rows           somebody removed a file: an error, export again
//
// Replace heals by doing everything again; Revisions heals as above before it
// yields a revision, so that a ledger rebuilt from the sink tells what readers
// see, even where state and spool were lost. Older is the smaller revision,
// and among equals the earlier exported_at.
//
// Two processes must not write the same window at once, and a repair is a write;
// the state's lock sees to that, among processes of one state directory.
package parquet
