package parquet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

var _ sinks.Sink = (*Sink)(nil)

// Sink publishes windows under one directory, or one prefix of a bucket.
type Sink struct {
	tree tree

	// healing is shared by all Replace and held alone by a repair, which must
	// not take a window in the middle of Replace for one left by a crash.
	healing sync.RWMutex
}

// New returns a sink on a directory, or on s3://bucket/prefix with the options
// region, endpoint and path_style as a query. The directory is made by the first
// Replace or Check if its parent exists; New writes nothing and asks nobody.
func New(root string) (*Sink, error) {
	var t tree
	var err error
	switch scheme, _, remote := strings.Cut(root, ":"); {
	case remote && strings.EqualFold(scheme, "s3"):
		t, err = newBucket(root)
	case !strings.Contains(root, "://"):
		t, err = newDirectory(root)
	default:
		err = errors.New("want a directory or s3://bucket/prefix")
	}
	if err != nil {
		return nil, err
	}
	return &Sink{tree: t}, nil
}

// Location names the directory or bucket, without secrets.
func (s *Sink) Location() string { return s.tree.location() }

// Name returns "parquet".
func (s *Sink) Name() string { return name }

const name = "parquet"

// Replace publishes w; see the package comment for the order of its steps. If
// it fails or dies between the two files, each table shows one whole revision,
// but they can differ until Replace or Revisions runs again.
func (s *Sink) Replace(ctx context.Context, w sinks.Sealed) error {
	s.healing.RLock()
	defer s.healing.RUnlock()
	key := w.Revision().Key
	if err := s.replace(ctx, w); err != nil {
		return fmt.Errorf("parquet sink: %s: %w", key, err)
	}
	return nil
}

func (s *Sink) replace(ctx context.Context, w sinks.Sealed) error {
	rev := w.Revision()
	if err := s.tree.prepare(ctx); err != nil {
		return err
	}
	visitors, totals := s.tree.stagingFile(), s.tree.stagingFile()
	defer discard(visitors, totals)
	if !rev.TotalsOnly() {
		if err := stageVisitors(ctx, visitors, w); err != nil {
			return err
		}
	}
	at("visitors staged")
	if err := archive.WriteTotals(totals, rev); err != nil {
		return err
	}
	at("totals staged")
	// A directory does not ask ctx later: giving up between the two files gains nothing.
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.commit(ctx, rev, visitors, totals)
}

// commit publishes the staged files of rev in the order that a crash can be
// finished from.
func (s *Sink) commit(ctx context.Context, rev analytics.Revision, visitors, totals string) error {
	if !rev.TotalsOnly() {
		if err := s.publish(ctx, visitors, visitorsTable, rev.Key); err != nil {
			return err
		}
	}
	if err := s.publish(ctx, totals, totalsTable, rev.Key); err != nil {
		return err
	}
	if rev.TotalsOnly() {
		return s.removeVisitors(ctx, rev.Key)
	}
	return nil
}

func (s *Sink) publish(ctx context.Context, staged, table string, key analytics.Key) error {
	name, err := place(table, key)
	if err != nil {
		return err
	}
	if err := s.tree.publish(ctx, staged, name); err != nil {
		return err
	}
	at(table + " published")
	return nil
}

// removeVisitors removes the visitors file of key, if there is one, for good.
func (s *Sink) removeVisitors(ctx context.Context, key analytics.Key) error {
	name, err := place(visitorsTable, key)
	if err != nil {
		return err
	}
	return s.tree.remove(ctx, name)
}

// discard removes staging files; those that were published are not there.
func discard(staged ...string) {
	for _, path := range staged {
		_ = os.Remove(path)
	}
}

// step is called by name after each step of Replace: a test's place to die.
var step func(name string)

func at(name string) {
	if step != nil {
		step(name)
	}
}

// Close gives up what the tree holds.
func (s *Sink) Close() error {
	return s.tree.close()
}

// Collect has nothing to delete: the file of a new revision takes the place of the
// former one.
func (s *Sink) Collect(context.Context, bool) ([]sinks.Superseded, error) { return nil, nil }
