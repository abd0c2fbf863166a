package deltalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
)

// checkpointEvery is after how many versions a checkpoint is written.
const checkpointEvery = 100

// checkpointIfDue writes a checkpoint of the snapshot at each hundredth version, and at any
// other one if the last is that far back. Two programs that write one at once write the
// same. A failure, or a crash anywhere in it, leaves the former checkpoint in use.
func (t *Table) checkpointIfDue(ctx context.Context) {
	s := t.snap
	overdue := func() bool { return s.version-max(0, s.checkpoint) >= checkpointEvery }
	due := s.version > 0 && s.version%checkpointEvery == 0
	if !due && overdue() { // unless another program has written one
		s.checkpoint = max(s.checkpoint, min(s.version, t.hint(ctx)))
		due = overdue()
	}
	if !due {
		return
	}
	if t.writeCheckpoint(ctx) == nil { // otherwise the next commit tries again
		s.checkpoint = s.version
	}
}

func (t *Table) writeCheckpoint(ctx context.Context) error {
	oldest := t.options.Now().Add(-tombstoneAge).UnixMilli()
	maps.DeleteFunc(t.snap.removed, func(_ string, g gone) bool { return g.deleted < oldest })
	last := lastCheckpoint{Version: t.snap.version, NumOfAddFiles: int64(len(t.snap.files))}
	err := t.publish(ctx, fmt.Sprintf("%020d.checkpoint.parquet", last.Version), func(f *os.File) (err error) {
		if last.Size, err = encodeCheckpoint(f, t.snap.actions()); err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			last.SizeInBytes = info.Size()
		}
		return err
	})
	if err != nil {
		return err
	}
	// It is only a hint where to look, so it may point to an older checkpoint.
	return t.publish(ctx, hintName, func(f *os.File) error { return json.NewEncoder(f).Encode(last) })
}

// publish has write fill a file, and puts it, whole and durable, in the place of the former
// file of this name in the log.
func (t *Table) publish(ctx context.Context, base string, write func(*os.File) error) error {
	f, err := os.OpenFile(t.options.Files.StagingFile(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // after publishing it is gone, or no longer needed
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return t.options.Files.Publish(ctx, f.Name(), t.name(base))
}

// readCheckpoint gives each action in the parts of a checkpoint to use. The error is
// ErrDamaged if it is not one whole checkpoint.
func (t *Table) readCheckpoint(ctx context.Context, parts []string, use func(action)) error {
	protocols, metas := 0, 0
	for _, name := range parts {
		f, err := t.options.Files.OpenWhole(ctx, name)
		if err != nil {
			return err
		}
		in := &source{File: f}
		err = decodeCheckpoint(io.NewSectionReader(in, 0, f.Size()), func(a action) {
			switch {
			case a.Protocol != nil:
				protocols++
			case a.MetaData != nil:
				metas++
			}
			use(a)
		})
		_ = f.Close() // it was only read
		switch {
		case in.err != nil:
			return fmt.Errorf("%s: %w", t.options.Files.Describe(name), in.err)
		case err != nil:
			return fmt.Errorf("%s: %w: %w", t.options.Files.Describe(name), ErrDamaged, err)
		}
	}
	if protocols != 1 || metas != 1 {
		return fmt.Errorf("%s: %w: %d protocols and %d metaData, want one of each",
			t.options.Files.Describe(parts[0]), ErrDamaged, protocols, metas)
	}
	return nil
}
