// Package delta keeps windows in two Delta Lake tables, visitors and totals, in a
// directory or below a prefix of an S3 bucket. Each window is one data file of each
// table; a window is replaced by an entry of the table's log (package deltalog), which
// removes the former file and adds the new one, so that every reader of the table sees
// one of them. The file of rows is the sealed window file, byte for byte. A window of another
// report is one file in the table of that report (agents), whose rows include the totals. So it needs
// only steps 1 and 2, and nothing is healed.
//
// Data files are never changed. Where the Parquet sink has published the window on the
// same file system, they are hard links to its files: the space is taken once.
//
// # Protocol
//
//  1. publish both data files under new names, durably
//  2. visitors: an entry that removes the window's former file and adds the new one
//  3. totals:   the same
//  4. totals only: an entry that removes the former visitors file, if there is one
//
// A totals-only revision has no visitors file and skips step 2. Calls at the same
// time share the entries of steps 2 to 4: those that have published wait a moment for
// those that publish, and one of them writes for all. The last entry commits. Steps 2 and 3 are two
// tables, which no entry changes at once: readers
// that join both can tell by the column revision.
//
// Every crash can be completed from the logs, since the tags of a visitors
// file carry the totals:
//
//	died after     readers see                              what heals it
//	step 1         the former window                        nothing; gc deletes the files after 7 days
//	step 2         the new visitors, the former totals      totals are written from the tags
//	step 3         totals only beside former visitors       step 4
//
// Replace heals by doing everything again; Revisions heals before it yields a revision.
// A lost answer to the PUT of an entry is resolved by deltalog, which reads the entry.
// A Replace that fails may have taken effect; to repeat it is safe, since each entry says
// which one file the window has from then on. It is never skipped, though the log already
// has the revision: that is how a damaged file is repaired.
//
// # Other writers
//
// Two processes that write different windows are both right, by the log. Files that
// other engines wrote, or rewrote (OPTIMIZE, UPDATE, INSERT), have no tags of ours:
// which windows they hold is not known, and to add a window could double its rows. So
// Replace refuses, and names the version to return to.
package delta

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/deltalog"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks"
)

const (
	sinkName = "delta"
	// commitTimeout bounds the entries of a group.
	commitTimeout = 5 * time.Minute
	// publishAtOnce bounds the files that are written at the same time, and with them
	// memory, however many windows wait for their entries.
	publishAtOnce = 16
)

// Options says where the tables are.
type Options struct {
	// URL is a directory, or s3://bucket/prefix with options, as filestore.New reads it.
	URL string
	// Version of this program, for the logs.
	Version string
	Now     func() time.Time
	// Reports are those that have tables besides visitors, which always has.
	Reports []analytics.Report
	// Published, if set, names local files that may hold just what rev is to show, or
	// files that are not there: see the Parquet sink.
	Published func(rev analytics.Revision) (rows, totals string)
}

// Sink keeps windows in the tables below one directory, or one prefix of a bucket.
type Sink struct {
	options  Options
	store    filestore.Store
	datasets []*dataset

	publishing chan struct{} // holds one for each that publishes

	mu sync.Mutex
	// unfinished are the changes whose last try failed.
	unfinished map[analytics.Key]*change
}

// dataset is the tables of a report. Its windows share log entries with each other, and neither wait for windows of
// another report nor fail with them.
type dataset struct {
	rows, totals *table // totals is nil if the rows have them
	// gathering and group let calls at the same time share log entries.
	gathering gathering
	group     durable.Group[*change]
	// readable: the tables were seen to take a window, and no commit has failed since.
	readable atomic.Bool
}

func (d *dataset) tables() []*table {
	if d.totals == nil {
		return []*table{d.rows}
	}
	return []*table{d.rows, d.totals}
}

var (
	_ sinks.Sink      = (*Sink)(nil)
	_ sinks.Collector = (*Sink)(nil)
)

// New returns a sink. It writes nothing and connects to nothing; the first Replace makes
// the tables, and the directory if its parent exists.
func New(c Options) (*Sink, error) {
	store, err := filestore.New(c.URL)
	if err != nil {
		return nil, err
	}
	return newSink(c, store), nil
}

func newSink(c Options, store filestore.Store) *Sink {
	s := &Sink{
		options: c, store: store, publishing: make(chan struct{}, publishAtOnce),
		unfinished: map[analytics.Key]*change{},
	}
	for _, r := range analytics.Reports {
		if !sinks.Offers(c.Reports, r) {
			continue
		}
		d := &dataset{rows: newTable(c, store, r, r.String())}
		if !r.Shape().Site {
			d.totals = newTable(c, store, r, r.Shape().TotalsTable)
		}
		s.datasets = append(s.datasets, d)
	}
	return s
}

// dataset returns the dataset of a window.
func (s *Sink) dataset(key analytics.Key) (*dataset, error) {
	for _, d := range s.datasets {
		if d.rows.report == key.Report {
			return d, nil
		}
	}
	return nil, sinks.NotOffered(key.Report)
}

// Name returns "delta".
func (s *Sink) Name() string { return sinkName }

// Location names the directory or bucket, without secrets.
func (s *Sink) Location() string { return s.store.Location() }

// Close removes staging files of this process outside the tables.
func (s *Sink) Close() error { return s.store.Close() }

// Check makes the directory if need be, proves that files can be written and that a log
// entry is never overwritten, and reads the tables. It makes no table.
func (s *Sink) Check(ctx context.Context) error {
	err := context.Cause(ctx)
	if err == nil {
		err = s.store.Check(ctx)
	}
	if err == nil {
		err = filestore.CheckCreate(ctx, s.store)
	}
	for _, d := range s.datasets {
		if err == nil {
			err = d.writable(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot write: %w", err)
	}
	return nil
}

// writable returns an error if one of the tables would not take a window.
func (d *dataset) writable(ctx context.Context) error {
	for _, t := range d.tables() {
		err := t.log.Read(ctx, func(snap *deltalog.Snapshot) error {
			_, strays := t.scan(snap)
			return t.refuse(snap, strays)
		})
		if err != nil {
			return err
		}
	}
	d.readable.Store(true)
	return nil
}

// change is a caller's request to a group: to commit a window, or to heal the tables.
type change struct {
	ctx context.Context
	rev analytics.Revision
	// rows is nil if the window has no file of rows, totals if it has no file of totals.
	rows, totals *deltalog.Add
	heal         bool
}

// Replace commits w; see the package comment for the protocol.
func (s *Sink) Replace(ctx context.Context, w sinks.Sealed) error {
	d, err := s.dataset(w.Revision().Key)
	if err != nil {
		return err
	}
	if err := s.store.Prepare(ctx); err != nil {
		return err
	}
	// A table that takes no window is found before files are published for nothing.
	if !d.readable.Load() {
		if err := d.writable(ctx); err != nil {
			return err
		}
	}
	c := s.resume(ctx, d, w.Revision())
	d.gathering.enter()
	err = s.publish(ctx, d, c, w)
	if gathered := d.gathering.leave(); err == nil {
		err = d.gathering.await(ctx, gathered)
	}
	if err == nil {
		// CRASH: no entry names the files. Readers see the former window.
		err = s.do(d, c)
	}
	if err != nil {
		s.mu.Lock()
		s.unfinished[c.rev.Key] = c
		s.mu.Unlock()
	}
	return err
}

// resume returns a change of rev with the files that an earlier try has published, if its
// entries failed: repeated tries must not fill the disk.
func (s *Sink) resume(ctx context.Context, d *dataset, rev analytics.Revision) *change {
	s.mu.Lock()
	former := s.unfinished[rev.Key]
	delete(s.unfinished, rev.Key)
	s.mu.Unlock()
	c := &change{ctx: ctx, rev: rev}
	if former != nil && former.rev.Same(rev) {
		c.rows, c.totals = s.still(ctx, d.rows, former.rows), s.still(ctx, d.totals, former.totals)
	}
	return c
}

// still returns add if its file is there, and stays long enough.
func (s *Sink) still(ctx context.Context, t *table, add *deltalog.Add) *deltalog.Add {
	if add == nil || s.options.Now().Sub(add.Modified) > keepFiles/2 {
		return nil
	}
	f, err := s.store.Open(ctx, t.name+"/"+add.Path)
	if err != nil {
		return nil
	}
	if size := f.Size(); f.Close() != nil || size != add.Size {
		return nil
	}
	return add
}

// do commits c together with the other changes of its dataset that wait.
func (s *Sink) do(d *dataset, c *change) error {
	return d.group.Do(c, func(group []*change) error { return s.commit(d, group) })
}

// commit writes the entries of a group. Groups of a dataset come one after the other.
func (s *Sink) commit(d *dataset, group []*change) (err error) {
	defer func() { d.readable.Store(err == nil) }()
	var callers []context.Context
	for _, c := range group {
		callers = append(callers, c.ctx)
	}
	// One that gives up must not fail the others.
	ctx, stop := clock.UntilAllEnd(callers...)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	rows, totals, gone := files{}, files{}, files{}
	heal := false
	for _, c := range group {
		if c.heal {
			heal = true
			continue
		}
		if c.rev.HasRows() {
			rows[c.rev.Key] = c.rows
		} else {
			gone[c.rev.Key] = nil
		}
		if d.totals != nil {
			totals[c.rev.Key] = c.totals
		}
	}
	if err := d.rows.set(ctx, rows, nil); err != nil {
		return err
	}
	// CRASH: readers see new visitors beside former totals. The tags of the visitors file
	// have what the totals file must say. Without a table of totals, this was the commit.
	if err := d.totals.set(ctx, totals, nil); err != nil {
		return err
	}
	// With rows, this was the commit. CRASH of a totals-only revision: the newer totals
	// show the former visitors to be obsolete.
	if err := d.rows.set(ctx, gone, nil); err != nil || !heal {
		return err
	}
	return s.heal(ctx, d)
}
