package deltalog

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	mrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

const (
	// commitTries is the number of versions to try, each after another writer took the last.
	commitTries = 50
	// createTries is the number of attempts to put one entry if the result is unknown.
	createTries = 3
	// longestPause is the longest that a writer stands back for others.
	longestPause = time.Second
)

// Commit appends one entry, which removes and adds the files of plan. plan is called with the current snapshot, and
// again with a newer one if another writer came first. Without anything to add or to remove, Commit writes no entry.
// It creates a missing table. The version is the version of the entry, or of the snapshot if no entry was written.
// After an error the entry may exist or appear later: calling again is safe if plan goes by the snapshot.
func (t *Table) Commit(
	ctx context.Context, plan func(*Snapshot) (add []Add, remove []string, err error),
) (version int64, err error) {
	done, err := t.await(ctx)
	if err != nil {
		return -1, err
	}
	defer done()
	id := rand.Text()
	for try := range commitTries {
		if try > 0 { // stand back for the others, the longer the more races were lost
			if err := clock.Sleep(ctx, mrand.N(min(longestPause, time.Millisecond<<min(try, 10)))); err != nil {
				return -1, err
			}
		}
		if err := t.refresh(ctx); err != nil {
			return -1, err
		}
		adds, removes, err := plan(t.snap)
		if err != nil || len(adds)+len(removes) == 0 {
			return t.snap.version, err
		}
		entry, err := t.entry(id, adds, removes)
		if err != nil {
			return -1, err
		}
		data, err := encodeEntry(entry)
		if err != nil {
			return -1, err
		}
		version := t.snap.version + 1
		// A crash before this leaves nothing; after it, the commit has taken effect.
		ours, err := t.create(ctx, t.entryName(version), data)
		if err != nil {
			return -1, err
		}
		if ours {
			t.snap.apply(version, entry)
			t.mark = mark{int64(len(data)), string(data[max(0, len(data)-markBytes):])}
			t.checkpointIfDue(ctx)
			return version, nil
		}
		// This version is another writer's for good, and ours cannot come to be there.
	}
	return -1, fmt.Errorf("%s: %w (%d): run fewer at once", t.describe(), errBusy, commitTries)
}

// create puts an entry if its name is free, and finds out what became of it where the
// answer does not tell: a retry within the store can meet its own success, and an answer
// can be lost. False: the name is another writer's.
func (t *Table) create(ctx context.Context, name string, data []byte) (ours bool, err error) {
	for range createTries {
		if err = t.options.Files.Create(ctx, name, data); err == nil {
			return true, nil
		}
		there, look := t.readAll(ctx, name, int64(len(data)))
		switch {
		case look == nil:
			return bytes.Equal(there, data), nil
		case !errors.Is(look, fs.ErrNotExist):
			return false, errors.Join(err, look)
		}
		// It is not there, but a request may still be on its way: only the same bytes may
		// be sent again.
	}
	return false, err
}

// readAll reads a file of this size; of any other, nothing.
func (t *Table) readAll(ctx context.Context, name string, size int64) ([]byte, error) {
	f, err := t.options.Files.OpenWhole(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Size() != size {
		return nil, nil
	}
	data := make([]byte, size)
	if _, err := f.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return data, nil
}

// entry returns the actions of the next entry.
func (t *Table) entry(id string, adds []Add, removes []string) ([]action, error) {
	s, now := t.snap, t.options.Now().UnixMilli()
	actions := []action{{CommitInfo: &commitInfo{
		Timestamp: now, Operation: "WRITE", OperationParameters: map[string]string{},
		EngineInfo: t.options.Engine, IsBlindAppend: len(removes) == 0, TxnID: id,
	}}}
	meta := s.meta
	if s.version < 0 {
		meta = newMetaData(t.options, now)
		actions = append(actions, action{Protocol: &protocol{MinReaderVersion: readerVersion,
			MinWriterVersion: writerVersion}}, action{MetaData: meta})
	}
	program, _, _ := strings.Cut(t.options.Engine, "/")
	actions = append(actions, action{Txn: &txn{AppID: program + "/" + meta.ID, Version: s.version + 1,
		LastUpdated: now}})
	named := map[string]bool{}
	for _, path := range removes {
		was, ok := s.get(path)
		if !ok || named[path] {
			return nil, fmt.Errorf("remove %q: is not in version %d, or named twice", path, s.version)
		}
		named[path] = true
		actions = append(actions, action{Remove: &remove{
			Path: was.Path, DeletionTimestamp: now, DataChange: true,
			ExtendedFileMetadata: true, PartitionValues: map[string]string{}, Size: was.Size,
		}})
	}
	for _, a := range adds {
		if named[a.Path] {
			return nil, fmt.Errorf("add %q: named twice", a.Path)
		}
		named[a.Path] = true
		actions = append(actions, action{Add: &add{
			Path: escape(a.Path), PartitionValues: map[string]string{}, Size: a.Size,
			ModificationTime: a.Modified.UnixMilli(), DataChange: true, Stats: a.Stats, Tags: a.Tags,
		}})
	}
	return slices.Clip(actions), nil
}
