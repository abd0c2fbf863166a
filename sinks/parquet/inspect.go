package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

// Inspect yields what the files of each window in scope show, and changes
// nothing. With scope.Rows it reads them to their ends (see [archive.Inspect]),
// else their footers. Files in the tables that a glob finds although they are not
// ours are faults of kind Stray, unless only some windows are asked for.
func (s *Sink) Inspect(ctx context.Context, scope sinks.Scope) iter.Seq2[sinks.Shown, error] {
	return func(yield func(sinks.Shown, error) bool) {
		keys, strays, err := s.list(ctx, scope)
		if err != nil && !yield(sinks.Shown{}, sinks.NotListed(sinkName, err)) {
			return
		}
		if !s.readEach(ctx, keys, func(ctx context.Context, key analytics.Key) (*sinks.Shown, error) {
			return s.inspect(ctx, key, scope.Rows)
		}, yield) || scope.Keys != nil {
			return
		}
		for _, stray := range strays {
			err := fmt.Errorf("file %s: readers of **/*%s get it too, and it is not a window of ours: move it away",
				s.store.Describe(stray), suffix)
			if !yield(sinks.Shown{}, sinks.Fault{Sink: sinkName, Kind: sinks.Stray, Err: err}) {
				return
			}
		}
	}
}

// inspect returns what the files of a window show. With an error it returns what
// could be read, or what a repair would make of files that disagree.
func (s *Sink) inspect(ctx context.Context, key analytics.Key, rows bool) (*sinks.Shown, error) {
	p, err := s.read(ctx, key, rows)
	if err == nil && p.Disagreement() != nil {
		p, err = s.read(ctx, key, rows) // the window may have been replaced between the two files
	}
	if err == nil {
		err = p.Disagreement()
	}
	return p.Newest(), err
}

// read reads the footers of key's files, or with rows all of them. If the totals
// file cannot be read, the pair has the visitors file.
func (s *Sink) read(ctx context.Context, key analytics.Key, rows bool) (p sinks.Pair, err error) {
	if p.Visitors, err = s.readFile(ctx, key.Report.String(), key, rows); err != nil {
		return sinks.Pair{}, err
	}
	if p.Totals = p.Visitors; !key.Report.Shape().Site {
		p.Totals, err = s.readFile(ctx, key.Report.Shape().TotalsTable, key, rows)
	}
	return p, err
}

// readFile reads the footer of key's file in table, or with rows all of it; the result is nil
// if the file does not exist.
func (s *Sink) readFile(ctx context.Context, table string, key analytics.Key, rows bool) (*sinks.Shown, error) {
	name, err := nameOf(table, key)
	if err != nil {
		return nil, err
	}
	open := s.store.Open
	if rows {
		open = s.store.OpenWhole
	}
	f, err := open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var foot archive.Footer
	var sum analytics.Sum
	if rows {
		foot, sum, err = archive.Inspect(f, f.Size())
	} else {
		foot, err = archive.ReadFooter(f, f.Size())
	}
	switch {
	case err != nil:
	case foot.Key != key:
		err = fmt.Errorf("holds %s", foot.Key)
	case foot.Table != table:
		err = fmt.Errorf("is no file of the table %s", table)
	}
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", s.store.Describe(name), err)
	}
	return &sinks.Shown{Revision: foot.Revision, Checksum: foot.Checksum, Sum: sum}, nil
}

// Window returns the published file of rev's window as a sealed one. It refuses a
// file whose bytes are not those that were written.
func (s *Sink) Window(
	ctx context.Context, rev analytics.Revision, dir string,
) (w sinks.Sealed, done func() error, err error) {
	if !sinks.Offers(s.reports, rev.Report) {
		return nil, nil, sinks.NotOffered(rev.Report)
	}
	table := rev.Report.String()
	if !rev.HasRows() {
		table = rev.Report.Shape().TotalsTable
	}
	name, err := nameOf(table, rev.Key)
	if err != nil {
		return nil, nil, err
	}
	path, done, err := s.store.Fetch(ctx, name, dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s is gone since it was listed: %w", s.store.Describe(name), err)
	}
	if err != nil {
		return nil, nil, err
	}
	file, err := archive.OpenIntact(path, rev.Key)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", s.store.Describe(name), err), done())
	}
	return file, done, nil
}
