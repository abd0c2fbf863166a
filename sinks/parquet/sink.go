// Package parquet publishes window files to a tree that any warehouse reads:
// visitors/v1 and totals/v1, one file per window, in a directory or below a prefix of
// an S3 bucket. A window of another report is one file in the table of that report
// (agents/v1), whose rows include the totals.
//
// A file appears under its name whole and durable (package filestore), so nothing whose
// name ends in .parquet is ever incomplete. The package does not write Parquet itself:
// the file of rows is the sealed window file, byte for byte.
//
// # Two files
//
// Replace changes two files of a window of visitors, and two renames, or two PUTs, are not one
// step:
//
//	rows:        stage both; publish visitors; publish totals
//	totals only: stage totals; publish totals; remove visitors, if there is one
//
// The last step commits. Readers who join both tables between the steps can tell by
// the column revision. The order lets every crash be completed from the files,
// since a visitors file carries the totals in its footer:
//
//	visitors            totals                 what happened, and what heals it
//	revision a          revision a             nothing
//	revision b          none, or a with rows   died after visitors: b's totals are written
//	revision b          a, totals only, older  the same
//	revision a          b, totals only, newer  died before the removal: a's file is removed
//	none                a, totals only         nothing
//	none                a, with rows           a file was removed by hand: an error, export again
//
// Replace heals by doing everything again; Revisions heals as above before it yields
// a revision, so that a ledger rebuilt from the sink says what readers see, even
// where state and spool were lost. Older is the smaller revision, and among equals
// the earlier exported_at.
//
// Two processes must not write the same window at once, and a repair is a write; the
// lock of the state directory prevents that, among processes that share it.
package parquet

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks"
)

const sinkName = "parquet"

// Sink publishes windows in one directory, or below one prefix of a bucket.
type Sink struct {
	store   filestore.Store
	reports []analytics.Report

	// healing is shared by all Replace and held alone by a repair, which must not
	// take a window in the middle of Replace for one that a crash left.
	healing sync.RWMutex
}

var _ sinks.Sink = (*Sink)(nil)

// New returns a sink on a directory, or on s3://bucket/prefix with the options
// region, endpoint and path_style as a query. The first Replace or Check makes the
// directory if its parent exists; New writes nothing and connects to nothing. Reports are
// those that it stores besides visitors.
func New(root string, reports ...analytics.Report) (*Sink, error) {
	store, err := filestore.New(root)
	if err != nil {
		return nil, err
	}
	return &Sink{store: store, reports: reports}, nil
}

// tables are the tables of all reports that the sink stores.
func (s *Sink) tables() (all []string) {
	for _, r := range analytics.Reports {
		if sinks.Offers(s.reports, r) {
			all = append(all, archive.Tables(r)...)
		}
	}
	return all
}

// SamePlace reports whether two directories or buckets, as [New] takes them, are one.
func SamePlace(a, b string) bool { return filestore.Same(a, b) }

// Name returns "parquet".
func (s *Sink) Name() string { return sinkName }

// Location names the directory or bucket, without secrets.
func (s *Sink) Location() string { return s.store.Location() }

// Check makes the directory if need be, and writes and removes a file in _staging.
func (s *Sink) Check(ctx context.Context) error {
	err := context.Cause(ctx)
	if err == nil {
		err = s.store.Check(ctx)
	}
	if err != nil {
		return fmt.Errorf("cannot write: %w", err)
	}
	return nil
}

// Close removes staging files of this process outside the tree.
func (s *Sink) Close() error { return s.store.Close() }

// Replace publishes w. If it fails or dies between two files, each table shows
// one whole revision, but they can differ until Replace or Revisions runs again.
func (s *Sink) Replace(ctx context.Context, w sinks.Sealed) error {
	s.healing.RLock()
	defer s.healing.RUnlock()
	rev := w.Revision()
	if !sinks.Offers(s.reports, rev.Report) {
		return sinks.NotOffered(rev.Report)
	}
	// Of a totals-only revision, the totals file is all there is.
	hasTotals := !rev.Report.Shape().Site
	rowsName, err := nameOf(rev.Report.String(), rev.Key)
	if err != nil {
		return err
	}
	var totalsName string
	if hasTotals {
		if totalsName, err = nameOf(rev.Report.Shape().TotalsTable, rev.Key); err != nil {
			return err
		}
	}
	if err := s.store.Prepare(ctx); err != nil {
		return err
	}

	// Both files are staged first. No reader finds them there; a later process removes the files of a process that dies
	// here.
	rows, totals := s.store.StagingFile(), s.store.StagingFile()
	defer os.Remove(rows) // after publishing they are gone, or no longer needed
	defer os.Remove(totals)
	if rev.HasRows() {
		if err := stage(ctx, rows, w); err != nil {
			return err
		}
	}
	if hasTotals {
		if err := archive.WriteTotals(totals, rev); err != nil {
			return err
		}
	}
	// A directory does not ask ctx later: giving up between the two files gains nothing.
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	if rev.HasRows() {
		if err := s.store.Publish(ctx, rows, rowsName); err != nil || !hasTotals {
			return err
		}
		// Dying here leaves the new visitors beside the former totals. The footer of
		// the visitors file has what the totals file must say.
	}
	if err := s.store.Publish(ctx, totals, totalsName); err != nil {
		return err
	}
	// With rows, this was the commit. Of a totals-only revision, dying here leaves the
	// visitors file of a former revision, which the newer totals show to be obsolete.
	if !rev.HasRows() {
		return s.store.Remove(ctx, rowsName)
	}
	return nil
}

// Published names the local files of rev's window, which may be missing or of another
// revision. For a bucket it returns nothing; nor for a table that the report does not have.
func (s *Sink) Published(rev analytics.Revision) (rows, totals string) {
	var paths [2]string
	for i, table := range archive.Tables(rev.Report) {
		if name, err := nameOf(table, rev.Key); err == nil && sinks.Offers(s.reports, rev.Report) {
			paths[i] = s.store.Path(name)
		}
	}
	return paths[0], paths[1]
}

// stage copies the sealed file of w to path, durably, and reads its footer back:
// only a whole window file of this revision is published.
func stage(ctx context.Context, path string, w sinks.Sealed) error {
	err := filestore.Stage(ctx, path, w.Open, func(r io.ReaderAt, size int64) error {
		return archive.Holds(r, size, w.Revision())
	})
	if err != nil {
		return fmt.Errorf("copy of the sealed window: %w", err)
	}
	return nil
}
