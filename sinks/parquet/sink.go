package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

// Sink publishes windows under one directory.
type Sink struct {
	root string

	// healing is shared by all Replace and held alone by a repair, which must
	// not take a window in the middle of Replace for one left by a crash.
	healing sync.RWMutex

	mu     sync.Mutex
	opened bool            // root was there or made by this process
	synced map[string]bool // directories whose entries are known to be durable
}

// New returns a sink on the directory root. The directory is made by the first
// Replace or Check if its parent exists; New itself writes nothing.
func New(root string) (*Sink, error) {
	if root == "" || strings.Contains(root, "://") {
		return nil, fmt.Errorf("parquet directory %q: must be the name of a directory", root)
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("parquet directory %q: %w", root, err)
	}
	if info, err := os.Stat(abs); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("parquet directory %s: is a file, must be a directory", abs)
	}
	return &Sink{root: abs, synced: map[string]bool{}}, nil
}

// Name returns "parquet".
func (s *Sink) Name() string { return "parquet" }

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
	if err := s.prepare(); err != nil {
		return err
	}
	visitors, totals := s.stagingFile(), s.stagingFile()
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
	// Later ctx is not asked: giving up between two renames gains nothing.
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.commit(rev, visitors, totals)
}

// commit publishes the staged files of rev in the order that a crash can be
// finished from.
func (s *Sink) commit(rev analytics.Revision, visitors, totals string) error {
	if !rev.TotalsOnly() {
		if err := s.publish(visitors, visitorsTable, rev.Key); err != nil {
			return err
		}
	}
	if err := s.publish(totals, totalsTable, rev.Key); err != nil {
		return err
	}
	if rev.TotalsOnly() {
		return s.removeVisitors(rev.Key)
	}
	return nil
}

// removeVisitors removes the visitors file of key, if there is one, for good.
func (s *Sink) removeVisitors(key analytics.Key) error {
	path, err := s.path(visitorsTable, key)
	if err != nil {
		return err
	}
	if err := os.Remove(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	at("visitors removed")
	return syncDir(filepath.Dir(path))
}

// discard removes staging files; those that were published are not there.
func discard(staged ...string) {
	for _, path := range staged {
		_ = os.Remove(path)
	}
}

// path returns the full name of key's file in table.
func (s *Sink) path(table string, key analytics.Key) (string, error) {
	name, err := place(table, key)
	return filepath.Join(s.root, name), err
}

// step is called by name after each step of Replace: a test's place to die.
var step func(name string)

func at(name string) {
	if step != nil {
		step(name)
	}
}
