// Package sinks is the contract between the pipeline and the places that committed
// windows go to. Its implementations live in the folders below it; sinktest is the
// contract as a test suite that each of them runs.
//
// A run over two sinks is not atomic across them: for a while one may show a newer
// revision of a window than the other.
package sinks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Sealed is one revision of one window, fetched whole and immutable.
type Sealed interface {
	// Revision describes it.
	Revision() analytics.Revision
	// Rows yields its rows in the order of [analytics.Shape.Compare]: rows of the site come first, and are
	// all rows of a totals-only window. It may be ranged over more than once, and memory does
	// not grow with the number of rows. After an error nothing more is yielded.
	Rows() iter.Seq2[analytics.Record, error]
	// Open opens the sealed window file (package archive) for reading.
	Open() (io.ReadCloser, error)
}

// Sink stores windows of the reports that it was opened for: of visitors, and of those in the
// option Reports. Many goroutines may use it at once, but never two that change the
// same window. The first use connects.
//
// Returned errors say what happened and where the sink writes; callers know its name and
// the window. Yielded errors name both.
type Sink interface {
	// Name is the sink's name in configuration, ledger, logs and metrics.
	Name() string
	// Location says where the sink writes, without secrets.
	Location() string
	// Check proves that a window could be committed now, without leaving anything
	// that readers see. It may create tables or directories. Its error names the
	// place and the missing right or file.
	Check(ctx context.Context) error
	// Replace commits w. After nil, readers see exactly this revision of the
	// window, also where they saw a newer one; after an error they see the former one
	// or this one, whole. Calling it again with the same revision is safe.
	Replace(ctx context.Context, w Sealed) error
	// Revisions yields the newest revision of each window, in no order. The ledger is
	// rebuilt from it. It first completes what a crash interrupted, so no other process
	// may write at the same time; List changes nothing. An error with ErrNotListed means
	// that windows may be missing; any other error is a Fault of one window, and the
	// other windows follow.
	Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error]
	// Inspect yields each window in scope once, as readers see it, in no order. It returns the same kinds of errors as
	// Revisions. It changes nothing and may run while another process writes: a window that is being replaced shows
	// either revision, or a Fault of kind Disagree. With a Fault it yields the readable part: the rows may be whole.
	// With a Fault of kind Disagree, that is the revision that Revisions would choose, if any.
	Inspect(ctx context.Context, scope Scope) iter.Seq2[Shown, error]
	// Window returns the window of rev's key, as readers see it now, which may be another
	// revision than rev. It does not change later. A file that is needed for that is made
	// in dir; done removes it.
	Window(ctx context.Context, rev analytics.Revision, dir string) (w Sealed, done func() error, err error)
	// Close closes connections and removes temporary files. Closing again does nothing.
	Close() error
}

// RowsOf yields the rows of w, whose report must have rows of type R.
func RowsOf[R analytics.RowType](w Sealed) iter.Seq2[R, error] {
	if rev := w.Revision(); rev.Report != analytics.ReportOf[R]() {
		return func(yield func(R, error) bool) {
			yield(*new(R), fmt.Errorf("%s: is not of the report %s", rev.Key, analytics.ReportOf[R]()))
		}
	}
	return analytics.Rows[R](w.Rows())
}

// Offers reports whether a sink with the option reports stores windows of one report.
func Offers(reports []analytics.Report, one analytics.Report) bool {
	return one == analytics.VisitorsReport || slices.Contains(reports, one)
}

// NotOffered is the error of a window of a report that its sink does not store.
func NotOffered(report analytics.Report) error {
	return fmt.Errorf("the report %s: the sink does not store it, add it to DOCGAUGE_REPORTS", report)
}

// VisitorsOf returns s as readers of visitors see it: without windows of other reports.
func VisitorsOf(s Sink) Sink { return ReportOf(s, analytics.VisitorsReport) }

// ReportOf returns s as readers of one report see it: without windows of other reports.
func ReportOf(s Sink, report analytics.Report) Sink { return reportOf{s, report} }

type reportOf struct {
	Sink
	report analytics.Report
}

func (v reportOf) Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return only(v.report, v.Sink.Revisions(ctx), func(rev analytics.Revision) analytics.Key { return rev.Key })
}

func (v reportOf) Inspect(ctx context.Context, scope Scope) iter.Seq2[Shown, error] {
	scope.Reports = []analytics.Report{v.report}
	return only(v.report, v.Sink.Inspect(ctx, scope), func(shown Shown) analytics.Key { return shown.Key })
}

// only leaves out the windows of other reports, and their faults.
func only[T any](report analytics.Report, all iter.Seq2[T, error], key func(T) analytics.Key) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for one, err := range all {
			of := key(one)
			if fault, ok := errors.AsType[Fault](err); ok {
				of = fault.Key
			}
			if (of.Report == report || err != nil && of == (analytics.Key{})) && !yield(one, err) {
				return
			}
		}
	}
}

// ErrNotListed means that the windows of a sink could not be listed: it must not be
// taken for empty. NotListed makes the error.
var ErrNotListed = errors.New("the windows it holds cannot be listed")

// NotListed returns ErrNotListed of the named sink, with its cause.
func NotListed(sink string, err error) error {
	return fmt.Errorf("%s sink: %w: %w", sink, ErrNotListed, err)
}

// ErrOtherRevision is the error of [Read] where the sink shows another revision than the one
// asked for.
var ErrOtherRevision = errors.New("the sink shows another revision of the window")

// Top returns the n pages with the most visitors of rev, in the order of [analytics.Top], as
// readers of s see them. A file that is needed for that is made in dir and removed.
func Top(ctx context.Context, s Sink, rev analytics.Revision, n int, dir string) (pages []analytics.Row, err error) {
	err = Read(ctx, s, rev, dir, func(w Sealed) (err error) {
		pages, err = analytics.Top(RowsOf[analytics.Row](w), n)
		return err
	})
	return pages, err
}

// Read calls do with rev as readers of s see it. A file that is needed for that is made in dir and removed.
func Read(ctx context.Context, s Sink, rev analytics.Revision, dir string, do func(Sealed) error) (err error) {
	w, done, err := s.Window(ctx, rev, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	if w.Revision().Number != rev.Number {
		return ErrOtherRevision
	}
	return do(w)
}

// Collector is a sink that keeps superseded rows or files for a while.
type Collector interface {
	// Collect deletes what has been superseded for KeepSuperseded or longer, and returns what
	// it deleted; with dryRun it only returns what it would delete. It never touches what
	// readers see.
	Collect(ctx context.Context, dryRun bool) ([]Superseded, error)
}

// Collect calls s's Collect, if s has one.
func Collect(ctx context.Context, s Sink, dryRun bool) ([]Superseded, error) {
	if c, ok := s.(Collector); ok {
		return c.Collect(ctx, dryRun)
	}
	return nil, nil
}

// Marker is a sink that can tell at little cost that its windows have not changed.
type Marker interface {
	// Mark returns a text that is another one once readers see another window; empty: it cannot tell now.
	Mark(ctx context.Context) string
}

// Mark calls s's Mark, if s has one.
func Mark(ctx context.Context, s Sink) string {
	if m, ok := s.(Marker); ok {
		return m.Mark(ctx)
	}
	return ""
}

// KeepSuperseded is the time for which a sink keeps rows and files after readers stopped
// seeing them: longer than any query and any commit takes.
const KeepSuperseded = 24 * time.Hour

// Superseded is something that a sink stores and readers no longer see: rows of an attempt
// that a later one replaced, or that was never committed. Its JSON keys are stable.
type Superseded struct {
	analytics.Key
	// Attempt is the id of the attempt where the sink numbers attempts, File the
	// name of the file where it writes files.
	Attempt uint64 `json:"attempt,omitempty"`
	File    string `json:"file,omitempty"`
	Rows    uint64 `json:"rows"`
	// Since is when readers stopped seeing it, or, if they never did, when it was
	// last written.
	Since time.Time `json:"since"`
}

// Scope says which windows are inspected, and how thoroughly. The zero value is all
// of them, by the sink's own statement about each.
type Scope struct {
	// Projects limits the windows to these projects, if there are any.
	Projects []string
	// Except leaves out the windows of these projects.
	Except []string
	// Reports limits them to these reports, if there are any.
	Reports []analytics.Report
	// Granularities limits them to these granularities, if there are any.
	Granularities []analytics.Granularity
	// Within limits them to those inside these dates, if it is not zero.
	Within analytics.Window
	// Keys limits them to these windows, if it is not nil.
	Keys map[analytics.Key]bool
	// Rows has the rows read, or added up on the server.
	Rows bool
}

// Has reports whether the window k is in scope.
func (s Scope) Has(k analytics.Key) bool {
	return (len(s.Projects) == 0 || slices.Contains(s.Projects, k.Project)) && !slices.Contains(s.Except, k.Project) &&
		(len(s.Reports) == 0 || slices.Contains(s.Reports, k.Report)) &&
		(len(s.Granularities) == 0 || slices.Contains(s.Granularities, k.Granularity)) &&
		(s.Within == analytics.Window{} || s.Within.From <= k.From && k.To <= s.Within.To) &&
		(s.Keys == nil || s.Keys[k])
}

// Shown is a window as readers of a sink see it.
type Shown struct {
	// Revision is the revision in the sink: Totals as shown, Rows as announced.
	analytics.Revision
	// Checksum is the [analytics.Checksum] that the sink keeps beside the rows;
	// empty where it keeps none.
	Checksum string
	// Sum is the sum of the rows, if Scope.Rows asked for it.
	Sum analytics.Sum
}

// Whole reports whether there are as many rows as announced, with the checksum that
// the sink keeps. It needs Sum.
func (s Shown) Whole() bool {
	return s.Sum.Rows == max(s.Rows, 0) && (s.Checksum == "" || s.Checksum == s.Sum.Checksum.String())
}

// FaultKind says how a window is damaged.
type FaultKind string

// The kinds of faults.
const (
	// Unreadable: readers do not get a window.
	Unreadable FaultKind = "unreadable"
	// Disagree: the sink shows different revisions in different places.
	Disagree FaultKind = "disagree"
	// Stray: readers see something that is not a window of ours; Key is empty.
	Stray FaultKind = "stray"
	// Unavailable: the window cannot be inspected now. It may be whole.
	Unavailable FaultKind = "unavailable"
)

// Fault is the error of one window whose contents are uncertain.
type Fault struct {
	// Sink is the sink's name.
	Sink string
	Key  analytics.Key
	Kind FaultKind
	// Err describes the damage, and names the file if it is one.
	Err error
}

func (f Fault) Error() string {
	if f.Key == (analytics.Key{}) {
		return fmt.Sprintf("%s sink: %v", f.Sink, f.Err)
	}
	return fmt.Sprintf("%s sink: %s: %v", f.Sink, f.Key, f.Err)
}

func (f Fault) Unwrap() error { return f.Err }

// List yields the revisions that s.Revisions would yield, but changes nothing, and may run beside a process that
// writes. It returns the same kinds of errors as Revisions.
func List(ctx context.Context, s Sink) iter.Seq2[analytics.Revision, error] {
	return ListIn(ctx, s, Scope{})
}

// ListIn is [List] for the windows in scope.
func ListIn(ctx context.Context, s Sink, scope Scope) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		for shown, err := range s.Inspect(ctx, scope) {
			if fault, ok := errors.AsType[Fault](err); ok {
				if fault.Kind == Stray {
					continue
				}
				if fault.Kind == Disagree && shown.Key == fault.Key {
					err = nil
				}
			}
			if !yield(shown.Revision, err) {
				return
			}
		}
	}
}
