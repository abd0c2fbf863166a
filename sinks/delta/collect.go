package delta

import (
	"context"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/deltalog"
	"github.com/docgauge/docgauge/sinks"
)

// keepFiles is the time for which files stay that no entry names any more, or none names yet:
// longer than queries of former versions take, and as long as VACUUM keeps them.
const keepFiles = 7 * 24 * time.Hour

// Collect deletes data files of this sink that readers of the tables have not seen for
// keepFiles, and files of the same age whose entry was never written. It does not delete files
// of other writers. It also deletes log entries that are no longer needed.
func (s *Sink) Collect(ctx context.Context, dryRun bool) (collected []sinks.Superseded, err error) {
	for _, d := range s.datasets {
		for _, t := range d.tables() {
			old, err := s.unused(ctx, t)
			for _, file := range old {
				if err == nil && !dryRun {
					err = s.store.Remove(ctx, file.File)
				}
				if err != nil {
					return collected, err
				}
				collected = append(collected, file)
			}
			if err == nil && !dryRun {
				err = t.log.Expire(ctx)
			}
			if err != nil {
				return collected, err
			}
		}
	}
	return collected, nil
}

// unused returns the files of this sink below a table's directory that no reader has
// seen for keepFiles.
func (s *Sink) unused(ctx context.Context, t *table) (old []sinks.Superseded, err error) {
	before := s.options.Now().Add(-keepFiles)
	since := map[string]time.Time{} // by path, as its name says
	// Files are listed before the log is read: one that is added in between is seen there.
	err = s.store.List(ctx, t.name, "", func(name string) {
		path := name[len(t.name)+1:]
		if _, published, ours := t.parse(path); ours && published.Before(before) {
			since[path] = published
		}
	})
	if err != nil || len(since) == 0 {
		return nil, err
	}
	err = t.log.Read(ctx, func(snap *deltalog.Snapshot) error {
		for path := range since {
			if _, seen := snap.File(path); seen {
				delete(since, path)
			}
		}
		for path, deleted := range snap.Tombstones() {
			if _, there := since[path]; there {
				since[path] = deleted
			}
		}
		return nil
	})
	for path, at := range since {
		if key, _, _ := t.parse(path); at.Before(before) {
			old = append(old, sinks.Superseded{Key: key, File: t.name + "/" + path, Since: at})
		}
	}
	slices.SortFunc(old, func(a, b sinks.Superseded) int { return a.Since.Compare(b.Since) })
	return old, err
}
