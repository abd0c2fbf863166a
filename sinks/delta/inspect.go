package delta

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/deltalog"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks"
)

// straysNamed is the number of files of another writer that are named one by one.
const straysNamed = 5

// dataFile is a data file of a table, with the contents of its tags.
type dataFile struct {
	deltalog.Add
	sinks.Shown
	table string
}

func (t *table) dataFile(add deltalog.Add) (*dataFile, error) {
	foot, err := t.footerOf(add)
	return &dataFile{add, sinks.Shown{Revision: foot.Revision, Checksum: foot.Checksum}, t.name}, err
}

// newer reports whether f shows a newer revision than other, which may be nil.
func (f *dataFile) newer(other *dataFile) bool {
	return other == nil || f.Number > other.Number ||
		f.Number == other.Number && f.ExportedAt.After(other.ExportedAt)
}

// window has the files of one window in the tables: the newest of each table, and the
// number of files.
type window struct {
	rows, totals         *dataFile
	manyRows, manyTotals int
	// alone: there is no table of totals.
	alone bool
}

func (w *window) pair() (p sinks.Pair) {
	if w.rows != nil {
		p.Visitors = &w.rows.Shown
	}
	if w.alone {
		p.Totals = p.Visitors
	}
	if w.totals != nil {
		p.Totals = &w.totals.Shown
	}
	return p
}

// twice is sinks.ErrDisagree of a table that shows a window twice.
type twice struct{ error }

func (twice) Unwrap() error { return sinks.ErrDisagree }

// disagreement returns how the files of the window differ; nil if they agree.
func (w *window) disagreement() error {
	for _, half := range []struct {
		newest *dataFile
		n      int
	}{{w.rows, w.manyRows}, {w.totals, w.manyTotals}} {
		if half.n > 1 {
			return twice{fmt.Errorf("the table %s has %d files of the window, and readers get the rows of all: "+
				"export the window again", half.newest.table, half.n)}
		}
	}
	return w.pair().Disagreement()
}

// contents are the contents of the logs of the tables.
type contents struct {
	windows map[analytics.Key]*window
	// strays are the files of other writers, err says so of each table that has some.
	strays []string
	err    error
	// unhealed is why windows that disagree were not healed.
	unhealed error
}

// read reads the logs of datasets, totals first: then a window that another process writes has
// visitors that are as new as its totals or newer.
func (s *Sink) read(ctx context.Context, scope sinks.Scope, of ...*dataset) (c contents, err error) {
	c.windows = map[analytics.Key]*window{}
	var tables []*table
	for _, d := range of {
		tables = append(tables, d.tables()...)
	}
	for _, t := range slices.Backward(tables) {
		err := t.log.Read(ctx, func(snap *deltalog.Snapshot) error {
			var strays []string
			for path := range snap.Paths() {
				key, _, ours := t.parse(path)
				if ours && !scope.Has(key) {
					continue
				}
				add, _ := snap.File(path)
				if h, err := t.dataFile(add); err != nil {
					strays = append(strays, path)
				} else {
					c.add(h)
				}
			}
			for _, path := range strays {
				c.strays = append(c.strays, s.store.Describe(t.name+"/"+path))
			}
			c.err = errors.Join(c.err, t.refuse(snap, strays))
			return nil
		})
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *contents) add(f *dataFile) {
	w := c.windows[f.Key]
	if w == nil {
		w = &window{alone: f.Shown.Report.Shape().Site}
		c.windows[f.Key] = w
	}
	newest, many := &w.rows, &w.manyRows
	if f.table == f.Report.Shape().TotalsTable {
		newest, many = &w.totals, &w.manyTotals
	}
	if *many++; f.newer(*newest) {
		*newest = f
	}
}

// disagree reports whether there is a window whose tables do not show one revision.
func (c *contents) disagree() bool {
	for _, w := range c.windows {
		if w.disagreement() != nil {
			return true
		}
	}
	return false
}

// Inspect yields what the tables show of each window in scope, and changes nothing.
// Without scope.Rows it reads the logs alone. Files of other writers are faults of kind
// Stray, unless only some windows are asked for, and since they may hold any window, an
// error with ErrNotListed too.
func (s *Sink) Inspect(ctx context.Context, scope sinks.Scope) iter.Seq2[sinks.Shown, error] {
	return func(yield func(sinks.Shown, error) bool) {
		c, err := s.read(ctx, scope, s.datasets...)
		if err == nil && c.disagree() {
			c, err = s.read(ctx, scope, s.datasets...) // windows may just have been replaced
		}
		if problem := cmp.Or(err, c.err); problem != nil &&
			!yield(sinks.Shown{}, sinks.NotListed(sinkName, problem)) || err != nil {
			return
		}
		if !s.inspectEach(ctx, c, scope.Rows, yield) || scope.Keys != nil {
			return
		}
		for i, stray := range c.strays {
			err := fmt.Errorf("file %s: readers of the table get it too, and it is not a window of ours", stray)
			if i == straysNamed {
				err = fmt.Errorf("%d more files are not windows of ours", len(c.strays)-i)
			}
			if !yield(sinks.Shown{}, sinks.Fault{Sink: sinkName, Kind: sinks.Stray, Err: err}) || i == straysNamed {
				return
			}
		}
	}
}

// inspectEach yields each window.
func (s *Sink) inspectEach(ctx context.Context, c contents, rows bool, yield func(sinks.Shown, error) bool) bool {
	return sinks.Each(ctx, sinkName, maps.Keys(c.windows), s.store.Readers(),
		func(ctx context.Context, key analytics.Key) (*sinks.Shown, error) {
			w := c.windows[key]
			var err error
			if rows {
				err = errors.Join(s.readRows(ctx, w.rows), s.readRows(ctx, w.totals))
			}
			if err != nil {
				kind := sinks.Unreadable // readers of the table fail on a file that is gone
				if filestore.Unavailable(err) && !errors.Is(err, fs.ErrNotExist) {
					kind = sinks.Unavailable
				}
				return nil, sinks.Fault{Sink: sinkName, Key: key, Kind: kind, Err: err}
			}
			if err = w.disagreement(); err != nil && c.unhealed != nil {
				err = fmt.Errorf("%w; it was not healed: %w", err, c.unhealed)
			}
			if err != nil {
				err = sinks.Fault{Sink: sinkName, Key: key, Kind: sinks.Disagree, Err: err}
			}
			return w.pair().Newest(), err
		}, yield)
}

// readRows reads a data file to its end and adds up its rows. The file must agree with its
// tags. h may be nil: then nothing is read.
func (s *Sink) readRows(ctx context.Context, h *dataFile) error {
	if h == nil {
		return nil
	}
	name := h.table + "/" + h.Path
	f, err := s.store.OpenWhole(ctx, name)
	if err != nil {
		return fmt.Errorf("file %s: %w", s.store.Describe(name), err)
	}
	defer f.Close()
	var foot archive.Footer
	foot, h.Sum, err = archive.Inspect(f, f.Size())
	if err == nil && (foot.Table != h.table || !foot.Same(h.Revision)) {
		err = fmt.Errorf("holds revision %d of %s, the log says revision %d of %s", foot.Number, foot.Key, h.Number,
			h.Shown.Key)
	}
	if err != nil {
		return fmt.Errorf("file %s: %w", s.store.Describe(name), err)
	}
	return nil
}

// Window returns the data file of rev's window as a sealed one. It refuses a file whose
// bytes are not those that were written.
func (s *Sink) Window(
	ctx context.Context, rev analytics.Revision, dir string,
) (w sinks.Sealed, done func() error, err error) {
	d, err := s.dataset(rev.Key)
	if err != nil {
		return nil, nil, err
	}
	tables := d.tables()
	if !rev.HasRows() {
		tables = tables[1:]
	}
	var newest *dataFile
	name := ""
	for _, t := range tables {
		err := t.log.Read(ctx, func(snap *deltalog.Snapshot) error {
			for path := range snap.Paths() {
				if !strings.HasPrefix(path, prefixOf(rev.Key)) {
					continue
				}
				add, _ := snap.File(path)
				if f, err := t.dataFile(add); err == nil && f.newer(newest) {
					newest, name = f, t.name+"/"+path
				}
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		if newest != nil {
			break
		}
	}
	if newest == nil {
		return nil, nil, fmt.Errorf("%s: the window is not there: %w", s.Location(), fs.ErrNotExist)
	}
	path, done, err := s.store.Fetch(ctx, name, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("file %s: %w", s.store.Describe(name), err)
	}
	file, err := archive.OpenIntact(path, rev.Key)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("file %s: %w", s.store.Describe(name), err), done())
	}
	return file, done, nil
}
