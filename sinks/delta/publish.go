package delta

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/deltalog"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks"
)

// freshAge is the age up to which other engines surely take a file that no entry names
// for one that an entry will name.
const freshAge = time.Hour

// publish puts the data files of w that c lacks into the tables' directories, durably,
// and fills in the actions that add them.
func (s *Sink) publish(ctx context.Context, d *dataset, c *change, w sinks.Sealed) error {
	select {
	case s.publishing <- struct{}{}:
		defer func() { <-s.publishing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	rows, totals := s.store.StagingFile(), s.store.StagingFile()
	defer os.Remove(rows) // after publishing they are gone, or no longer needed
	defer os.Remove(totals)
	var there, totalsThere string
	if s.options.Published != nil {
		there, totalsThere = s.options.Published(c.rev)
	}
	var action deltalog.Add
	var err error
	needRows, needTotals := c.rows == nil && c.rev.HasRows(), c.totals == nil && d.totals != nil
	if needRows {
		if action, err = s.stage(ctx, d.rows, there, rows, w); err != nil {
			return fmt.Errorf("copy of the sealed window: %w", err)
		}
	}
	if needTotals && !s.link(totalsThere, totals, c.rev, d.totals.name) {
		if err := archive.WriteTotals(totals, c.rev); err != nil {
			return err
		}
	}
	err = context.Cause(ctx)
	if err == nil && needRows {
		c.rows, err = s.add(ctx, d.rows, rows, c.rev, action)
	}
	if err == nil && needTotals {
		c.totals, err = s.add(ctx, d.totals, totals, c.rev, ofTotals(c.rev))
	}
	return err
}

// stage puts the file of the rows of w at path, a link or a copy, and returns what its
// footer says, for the log.
func (s *Sink) stage(
	ctx context.Context, t *table, published, path string, w sinks.Sealed,
) (action deltalog.Add, err error) {
	read := func(r io.ReaderAt, size int64) error {
		foot, bounds, err := archive.ReadBounds(r, size)
		action = deltalog.Add{Stats: rowsStats(foot, t.name, bounds), Tags: foot.Metadata()}
		if err == nil {
			err = foot.RowsOf(w.Revision())
		}
		return err
	}
	if s.link(published, path, w.Revision(), t.name) {
		err = readStaged(path, read)
	} else {
		err = filestore.Stage(ctx, path, w.Open, read)
	}
	return action, err
}

// ofTotals returns the log's description of the totals file of rev.
func ofTotals(rev analytics.Revision) deltalog.Add {
	return deltalog.Add{Stats: totalsStats(rev), Tags: archive.Footer{Revision: rev}.Metadata()}
}

// link makes staged a hard link to a published file, and reports whether it is there and
// whole. It is read from its beginning to its end, which costs less than a copy: damage
// that was shared could not be repaired from here. It needs no flush: the Parquet sink
// made the bytes durable before they got that name.
func (s *Sink) link(published, staged string, rev analytics.Revision, table string) bool {
	if published == "" || os.Link(published, staged) != nil {
		return false
	}
	err := s.freshen(staged)
	if err == nil {
		err = readStaged(staged, func(r io.ReaderAt, size int64) error {
			foot, err := archive.ReadIntact(r, size)
			if err == nil && (foot.Table != table || !foot.Same(rev)) {
				err = archive.ErrOther
			}
			return err
		})
	}
	if err == nil {
		return true
	}
	_ = os.Remove(staged) // if it stays, making the copy says so
	return false
}

// freshen touches a link to a file that was written long ago: VACUUM of other engines
// goes by that time. A symbolic link is refused: its target can be replaced.
func (s *Sink) freshen(staged string) error {
	info, err := os.Lstat(staged)
	now := s.options.Now()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fs.ErrInvalid
	case now.Sub(info.ModTime()) > freshAge:
		return os.Chtimes(staged, now, now)
	}
	return nil
}

func readStaged(path string, read func(r io.ReaderAt, size int64) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return read(f, info.Size())
}

// add publishes a staged file under a new name, and returns the action that adds it.
func (s *Sink) add(
	ctx context.Context, t *table, staged string, rev analytics.Revision, action deltalog.Add,
) (*deltalog.Add, error) {
	now := s.options.Now()
	name, err := newName(rev, now)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(staged)
	if err != nil {
		return nil, err
	}
	if err := s.store.Publish(ctx, staged, t.name+"/"+name); err != nil {
		return nil, err
	}
	action.Path, action.Size, action.Modified = name, info.Size(), now.Truncate(time.Millisecond)
	return &action, nil
}
