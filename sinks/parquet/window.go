package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

// Window gives the published window of rev's key as a sealed one, which stays
// as it is although the sink may replace it meanwhile. A file that is needed
// for that is made in dir; done removes it. The window may be of a later
// revision than rev by now. A file whose bytes are not those that were written is
// not given.
func (s *Sink) Window(ctx context.Context, rev analytics.Revision, dir string) (w sinks.Sealed, done func() error, err error) {
	table := visitorsTable
	if rev.TotalsOnly() {
		table = totalsTable
	}
	name, err := place(table, rev.Key)
	if err != nil {
		return nil, nil, err
	}
	path, done, err := s.tree.fetch(ctx, name, dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s is gone since it was listed: %w", s.tree.describe(name), err)
	}
	if err != nil {
		return nil, nil, err
	}
	file, err := archive.Open(path)
	if err == nil && file.Revision().Key != rev.Key {
		err = fmt.Errorf("holds %s", file.Revision().Key)
	}
	if err == nil {
		err = file.Intact()
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", s.tree.describe(name), err), done())
	}
	return file, done, nil
}
