package deltalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// retention is the time during which each version can be read, which is the default of Delta.
const retention = 30 * 24 * time.Hour

// Expire deletes entries and checkpoints older than the newest checkpoint that is itself
// older than 30 days: every version since then can still be read. It deletes nothing if the
// table sets another retention, which other programs apply.
func (t *Table) Expire(ctx context.Context) error {
	done, err := t.await(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := t.refresh(ctx); err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	if t.snap.version < 0 || t.snap.meta.Configuration["delta.logRetentionDuration"] != "" ||
		strings.EqualFold(t.snap.meta.Configuration["delta.enableExpiredLogCleanup"], "false") {
		return nil
	}
	// keep is the version of the newest checkpoint that is older than retention and whole.
	l, err := t.list(ctx, 0)
	if err != nil {
		return err
	}
	keep, before := int64(-1), t.options.Now().Add(-retention).UnixMilli()
	for _, version := range l.versions() {
		entry, _, err := t.readEntry(ctx, version)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrDamaged) {
			continue // its age is not known
		}
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(entry, func(a action) bool {
			return a.CommitInfo != nil && a.CommitInfo.Timestamp > 0 && a.CommitInfo.Timestamp < before
		}) {
			continue
		}
		err = t.readCheckpoint(ctx, l.checkpoints[version], func(action) {})
		if err == nil {
			keep = version
			break
		}
		if !errors.Is(err, ErrDamaged) {
			return err
		}
	}
	if keep < 0 {
		return nil
	}
	var names []string
	end := t.name(fmt.Sprintf("%020d", keep))
	err = t.options.Files.List(ctx, t.name(""), "", func(name string) {
		if name < end && logName.MatchString(strings.TrimPrefix(name, t.name("")+"/")) {
			names = append(names, name)
		}
	})
	if err != nil {
		return err
	}
	// From the oldest on: after a crash the log only begins at another version.
	slices.Sort(names)
	for _, name := range names {
		if err := t.options.Files.Remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
