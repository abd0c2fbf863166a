package delta

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"os"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/deltalog"
	"github.com/docgauge/docgauge/sinks"
)

// Revisions yields the revision of each window in the tables, from the logs alone, and
// finishes what a crash left half done (see the package comment).
func (s *Sink) Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		c, err := s.read(ctx, sinks.Scope{}, s.datasets...)
		if err == nil && c.disagree() {
			// Within a group no Replace of this process is half done.
			unhealed := s.store.Prepare(ctx)
			for _, d := range s.datasets {
				if unhealed == nil {
					unhealed = s.do(d, &change{ctx: ctx, heal: true})
				}
			}
			c, err = s.read(ctx, sinks.Scope{}, s.datasets...)
			c.unhealed = unhealed
		}
		if problem := cmp.Or(err, c.err); problem != nil &&
			!yield(analytics.Revision{}, sinks.NotListed(sinkName, problem)) || err != nil {
			return
		}
		s.inspectEach(ctx, c, false, func(shown sinks.Shown, err error) bool { return yield(shown.Revision, err) })
	}
}

// heal makes the tables of a report agree where the files show how. It leaves out a window that another process has
// replaced since the logs were read.
func (s *Sink) heal(ctx context.Context, d *dataset) error {
	c, err := s.read(ctx, sinks.Scope{}, d)
	if err != nil {
		return err
	}
	rows, totals := files{}, files{}
	for key, w := range c.windows {
		if w.manyRows > 1 {
			rows[key] = &w.rows.Add
		}
		if w.manyTotals > 1 {
			totals[key] = &w.totals.Add
		}
		switch w.pair().Remedy() {
		case sinks.WriteTotals:
			if totals[key], err = s.writeTotals(ctx, d, w.rows.Revision); err != nil {
				return err
			}
		case sinks.RemoveVisitors:
			rows[key] = nil
		}
	}
	replaced := func(f *dataFile, n int, there []string) bool {
		return len(there) != n || f != nil && !slices.Contains(there, f.Path)
	}
	return errors.Join(
		d.totals.set(ctx, totals, func(key analytics.Key, there []string) bool {
			return replaced(c.windows[key].totals, c.windows[key].manyTotals, there)
		}),
		d.rows.set(ctx, rows, func(key analytics.Key, there []string) bool {
			return replaced(c.windows[key].rows, c.windows[key].manyRows, there)
		}))
}

// writeTotals publishes the totals file of a revision that the visitors show.
func (s *Sink) writeTotals(ctx context.Context, d *dataset, rev analytics.Revision) (*deltalog.Add, error) {
	staged := s.store.StagingFile()
	defer os.Remove(staged)
	if err := archive.WriteTotals(staged, rev); err != nil {
		return nil, err
	}
	return s.add(ctx, d.totals, staged, rev, ofTotals(rev))
}
