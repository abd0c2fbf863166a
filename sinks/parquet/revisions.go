package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
)

// Revisions yields the revision of each window in the tree, from footers
// alone, and finishes what a crash left half done (see the package comment).
// Files with other names than ours are not looked at. A damaged file yields an
// error that names it, and the other windows follow.
func (s *Sink) Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		keys, err := s.keys()
		if err != nil && !yield(analytics.Revision{}, fmt.Errorf("parquet sink: %w", err)) {
			return
		}
		for key := range keys {
			if err := ctx.Err(); err != nil {
				yield(analytics.Revision{}, fmt.Errorf("parquet sink: %w", err))
				return
			}
			rev, err := s.revision(key)
			if err != nil {
				err = fmt.Errorf("parquet sink: %s: %w", key, err)
			}
			if (err != nil || rev != nil) && !yield(deref(rev), err) {
				return
			}
		}
	}
}

func deref(rev *analytics.Revision) analytics.Revision {
	if rev == nil {
		return analytics.Revision{}
	}
	return *rev
}

// keys returns the windows that have a file in either table.
func (s *Sink) keys() (map[analytics.Key]bool, error) {
	keys := map[analytics.Key]bool{}
	var errs []error
	for _, table := range []string{visitorsTable, totalsTable} {
		top := filepath.Join(s.root, table, version)
		errs = append(errs, filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if rel, err := filepath.Rel(s.root, path); err == nil {
				if key, ours := keyOf(rel); ours {
					keys[key] = true
				}
			}
			return nil
		}))
	}
	return keys, errors.Join(errs...)
}

// pair is what the two tables hold of one window; nil is no file.
type pair struct{ visitors, totals *analytics.Revision }

// remedy is what makes the two tables agree.
type remedy int

const (
	none           remedy = iota
	writeTotals           // the visitors file is the newer one
	removeVisitors        // a totals-only revision took its place
	exportAgain           // the visitors file is lost
)

func (p pair) remedy() remedy {
	v, t := p.visitors, p.totals
	switch {
	case v == nil && (t == nil || t.TotalsOnly()):
		return none
	case v == nil:
		return exportAgain
	case t != nil && same(*v, *t):
		return none
	case t != nil && t.TotalsOnly() && newer(*t, *v):
		return removeVisitors
	}
	return writeTotals
}

func newer(a, b analytics.Revision) bool {
	return a.Number > b.Number || a.Number == b.Number && a.ExportedAt.After(b.ExportedAt)
}

// revision returns the revision of key that readers see, nil if there is none.
func (s *Sink) revision(key analytics.Key) (*analytics.Revision, error) {
	p, err := s.read(key)
	if err == nil && p.remedy() != none {
		p, err = s.heal(key)
	}
	if err != nil {
		return nil, err
	}
	if p.visitors != nil {
		return p.visitors, nil
	}
	return p.totals, nil
}

// heal looks again, when no Replace is under way, and applies the remedy.
func (s *Sink) heal(key analytics.Key) (pair, error) {
	s.healing.Lock()
	defer s.healing.Unlock()
	p, err := s.read(key)
	if err != nil {
		return p, err
	}
	switch p.remedy() {
	case writeTotals:
		return p, s.writeTotals(*p.visitors)
	case removeVisitors:
		p.visitors = nil
		return p, s.removeVisitors(key)
	case exportAgain:
		return p, fmt.Errorf("the visitors file of revision %d with %d rows is missing: export the window again", p.totals.Number, p.totals.Rows)
	}
	return p, nil
}

func (s *Sink) writeTotals(rev analytics.Revision) error {
	if err := s.prepare(); err != nil {
		return err
	}
	staged := s.stagingFile()
	defer discard(staged)
	if err := archive.WriteTotals(staged, rev); err != nil {
		return err
	}
	return s.publish(staged, totalsTable, rev.Key)
}

func (s *Sink) read(key analytics.Key) (p pair, err error) {
	if p.totals, err = s.footer(totalsTable, key); err != nil {
		return p, err
	}
	p.visitors, err = s.footer(visitorsTable, key)
	return p, err
}

// footer reads the revision of key's file in table, nil if there is no file.
func (s *Sink) footer(table string, key analytics.Key) (*analytics.Revision, error) {
	path, err := s.path(table, key)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	rev, err := archive.ReadRevision(f, info.Size())
	if err == nil && rev.Key != key {
		err = fmt.Errorf("holds %s", rev.Key)
	}
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", path, err)
	}
	return &rev, nil
}
