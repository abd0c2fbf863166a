package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

// Inspect yields what the two files of each window in scope show, and changes
// nothing. With scope.Rows both files are read to their ends (see
// [archive.Inspect]); else their footers. Files in the two tables that a glob
// finds although they are none of ours are faults of kind Stray, unless only some
// windows are asked for.
func (s *Sink) Inspect(ctx context.Context, scope sinks.Scope) iter.Seq2[sinks.Shown, error] {
	return func(yield func(sinks.Shown, error) bool) {
		for shown, err := range each(ctx, s, scope, func(ctx context.Context, key analytics.Key) (*sinks.Shown, error) {
			return s.inspect(ctx, key, scope.Rows)
		}) {
			if !yield(shown, err) {
				return
			}
		}
		if scope.Keys == nil {
			s.strays(ctx, yield)
		}
	}
}

// inspect returns what the files of a window show. With an error it returns what
// the visitors file shows, if that can be read; where both can be read and disagree,
// what a repair would make of them.
func (s *Sink) inspect(ctx context.Context, key analytics.Key, rows bool) (*sinks.Shown, error) {
	for again := false; ; again = true {
		visitors, sum, err := s.readFile(ctx, visitorsTable, key, rows)
		if err != nil {
			return nil, err
		}
		var shown *sinks.Shown
		if visitors != nil {
			shown = &sinks.Shown{Revision: visitors.Revision, Checksum: visitors.Checksum, Sum: sum}
		}
		totals, _, err := s.readFile(ctx, totalsTable, key, rows)
		if err != nil {
			return shown, err
		}
		p := pair{revisionOf(visitors), revisionOf(totals)}
		switch {
		case p.remedy() == removeVisitors && again:
			return &sinks.Shown{Revision: totals.Revision}, p.disagreement()
		case p.remedy() != none && again:
			return shown, p.disagreement()
		case p.remedy() != none:
			continue // the window may have been replaced between the two reads
		case visitors == nil && totals != nil:
			return &sinks.Shown{Revision: totals.Revision}, nil
		}
		return shown, nil
	}
}

func (p pair) disagreement() error {
	switch v, t := p.visitors, p.totals; {
	case v == nil:
		return p.lost()
	case t == nil:
		return errDisagree{fmt.Errorf("the totals file of revision %d is missing", v.Number)}
	default:
		return errDisagree{fmt.Errorf("the visitors file shows %s, the totals file %s", said(*v), said(*t))}
	}
}

func said(r analytics.Revision) string {
	return fmt.Sprintf("revision %d with %d rows and the totals %d, %d, %d of %s", r.Number, r.Rows,
		r.Totals.Human, r.Totals.AI, r.Totals.Total, r.ExportedAt.Format("2006-01-02 15:04:05"))
}

func revisionOf(foot *archive.Footer) *analytics.Revision {
	if foot == nil {
		return nil
	}
	return &foot.Revision
}

// readFile reads the footer of key's file in table, or with rows all of it; nil
// if there is no file.
func (s *Sink) readFile(ctx context.Context, table string, key analytics.Key, rows bool) (_ *archive.Footer, sum analytics.Sum, err error) {
	name, err := place(table, key)
	if err != nil {
		return nil, sum, err
	}
	open := s.tree.open
	if rows {
		open = s.tree.whole
	}
	f, err := open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sum, nil
	}
	if err != nil {
		return nil, sum, err
	}
	defer f.Close()
	var foot archive.Footer
	if rows {
		foot, sum, err = archive.Inspect(f, f.Size())
	} else {
		foot, err = archive.ReadFooter(f, f.Size())
	}
	switch {
	case err != nil:
	case foot.Key != key:
		err = fmt.Errorf("holds %s", foot.Key)
	case foot.Visitors != (table == visitorsTable):
		err = fmt.Errorf("is no file of the table %s", table)
	}
	if err != nil {
		return nil, sum, fmt.Errorf("file %s: %w", s.tree.describe(name), err)
	}
	return &foot, sum, nil
}

// strays yields a fault for each file that readers of a table get and that is no
// window of ours.
func (s *Sink) strays(ctx context.Context, yield func(sinks.Shown, error) bool) {
	var names []string
	for _, table := range []string{visitorsTable, totalsTable} {
		err := s.tree.list(ctx, table+"/"+version, func(name string) {
			if _, ours := keyOf(name); !ours && strings.HasSuffix(name, suffix) {
				names = append(names, name)
			}
		})
		if err != nil {
			return // said before
		}
	}
	for _, stray := range names {
		err := fmt.Errorf("file %s: whoever reads **/*%s gets it too, and it is no window of ours: move it away", s.tree.describe(stray), suffix)
		if !yield(sinks.Shown{}, sinks.Fault{Sink: name, Kind: sinks.Stray, Err: err}) {
			return
		}
	}
}

// fetched is a local copy of an object.
type fetched struct {
	localFile
	done func() error
}

func (f fetched) Close() error { return errors.Join(f.localFile.Close(), f.done()) }

// whole fetches an object that is to be read to its end, tested by its SHA-256.
func (b *bucket) whole(ctx context.Context, name string) (file, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	temp := b.temp
	b.mu.Unlock()
	path, done, err := b.fetch(ctx, name, temp.Path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close(), done())
	}
	return fetched{localFile{f, info.Size()}, done}, nil
}

// whole is open: a file that is open stays as it is.
func (d *directory) whole(ctx context.Context, name string) (file, error) { return d.open(ctx, name) }
