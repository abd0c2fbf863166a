package deltalog_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/deltalog"
)

// checkpoints returns the versions of those that are there.
func checkpoints(files *memoryFiles) (versions []string) {
	for _, name := range files.Names() {
		if base, ok := strings.CutSuffix(strings.TrimPrefix(name, logPath), ".checkpoint.parquet"); ok {
			versions = append(versions, strings.TrimLeft(base, "0"))
		}
	}
	return versions
}

// TestCheckpoints: one each hundred versions; one that fails is made up for by the next
// commit of any process, and no commit fails with it.
func TestCheckpoints(t *testing.T) {
	files := newFiles(t)
	failed := 0
	first, second := open(files), open(files)
	for v := range 101 {
		if v == 100 {
			files.Before = func(call, _ string) error {
				if call == "publish" {
					failed++
					return errors.New("disk full")
				}
				return nil
			}
		}
		commit(t, first, []string{fmt.Sprint("a", v)}, nil)
	}
	files.Before = nil
	if len(checkpoints(files)) > 0 || failed != 1 {
		t.Fatalf("checkpoints %q, %d failures", checkpoints(files), failed)
	}
	commit(t, second, []string{"b"}, nil) // 101, overdue
	commit(t, first, []string{"c"}, nil)  // 102, overdue as far as it knows, but _last_checkpoint says it is not
	for v := range 100 {
		commit(t, first, []string{fmt.Sprint("d", v)}, nil)
	}
	if got := checkpoints(files); !slices.Equal(got, []string{"101", "200"}) {
		t.Errorf("checkpoints %q, want 101 and 200", got)
	}
	if got := read(t, open(files)); len(got.Files) != 203 || got.Version != 202 {
		t.Errorf("version %d with %d files", got.Version, len(got.Files))
	}
}

// TestTombstonesExpire: a checkpoint forgets files that were removed more than 7 days ago.
func TestTombstonesExpire(t *testing.T) {
	files := newFiles(t)
	now := start.Add(-7*24*time.Hour - time.Second)
	c := config(files)
	c.Now = func() time.Time { return now }
	table := deltalog.New(c)
	commit(t, table, []string{"old", "young"}, nil)
	commit(t, table, nil, []string{"old"})
	now = now.Add(2 * time.Second)
	commit(t, table, nil, []string{"young"})
	now = start
	for v := range 98 {
		commit(t, table, []string{fmt.Sprint("f", v)}, nil)
	}
	for v := range 100 {
		files.Put(entryName(v), nil)
	}
	for _, table := range []*deltalog.Table{table, open(files)} {
		if got := slices.Collect(maps.Keys(read(t, table).Tombstones)); !slices.Equal(got, []string{"young"}) {
			t.Errorf("tombstones %q, want young", got)
		}
	}
}

// TestExpire: entries are deleted that the newest checkpoint older than 30 days covers,
// unless it cannot be read.
func TestExpire(t *testing.T) {
	make := func(t *testing.T) (*memoryFiles, *deltalog.Table) {
		files := newFiles(t)
		now := start.Add(-41 * 24 * time.Hour) // an entry each 2.4 hours
		c := config(files)
		c.Now = func() time.Time { return now }
		table := deltalog.New(c)
		for v := range 401 {
			commit(t, table, []string{fmt.Sprint("f", v)}, nil)
			now = now.Add(24 * time.Hour / 10)
		}
		now = start
		for _, name := range []string{"00000000000000000005.crc", "00000000000000000005.mine",
			"00000000000000000000.00000000000000000009.compacted.json"} {
			files.Put(logPath+name, []byte("foreign"))
		}
		return files, table
	}
	for name, tc := range map[string]struct {
		do     func(*memoryFiles)
		oldest int // entry that is kept
	}{
		"as it is":           {func(*memoryFiles) {}, 100},
		"checkpoint damaged": {func(f *memoryFiles) { cut(f, checkpointName(100), 3000) }, 0},
		"no checkpoint":      {func(f *memoryFiles) { f.Put(checkpointName(100), nil) }, 0},
		"age of checkpoint unknown": {func(f *memoryFiles) { f.Put(entryName(100), []byte(`{"txn":{"appId":"a"}}`)) },
			0},
		"own retention": {alter(`"configuration":{}`,
			`"configuration":{"delta.logRetentionDuration":"interval 365 days"}`), 0},
		"no clean-up": {alter(`"configuration":{}`,
			`"configuration":{"delta.enableExpiredLogCleanup":"FALSE"}`), 0},
	} {
		t.Run(name, func(t *testing.T) {
			files, table := make(t)
			tc.do(files)
			before, want := len(files.Names()), read(t, open(files)).paths()
			check(t, table.Expire(t.Context()))
			deleted := tc.oldest
			if deleted > 0 {
				deleted += 2 // what other programs keep beside the entries
			}
			if got := before - len(files.Names()); got != deleted {
				t.Errorf("deletes %d files, want %d", got, deleted)
			}
			if files.Get(entryName(tc.oldest)) == nil || tc.oldest > 0 && files.Get(entryName(tc.oldest-1)) != nil ||
				files.Get(logPath+"00000000000000000005.mine") == nil {
				t.Errorf("the entries left do not begin at %d", tc.oldest)
			}
			if got := read(t, open(files)).paths(); !slices.Equal(got, want) {
				t.Errorf("then there are %d files, were %d", len(got), len(want))
			}
			// Each version since then can be read from the entries after it.
			files.Put(checkpointName(400), nil)
			files.Put(hint, nil)
			if got := read(t, open(files)).paths(); !slices.Equal(got, want) {
				t.Errorf("without the newest checkpoint there are %d files, were %d", len(got), len(want))
			}
		})
	}
}

// TestExpireDies: a process that dies while it deletes leaves a log that can be read.
func TestExpireDies(t *testing.T) {
	for n := range 3 {
		files := newFiles(t)
		c := config(files)
		now := start.Add(-31 * 24 * time.Hour)
		c.Now = func() time.Time { return now }
		table := deltalog.New(c)
		for v := range 101 {
			commit(t, table, []string{fmt.Sprint("f", v)}, nil)
		}
		now = start
		left := n
		files.Before = func(call, _ string) error {
			if call == "remove" {
				if left--; left < 0 {
					return errors.New("died")
				}
			}
			return nil
		}
		if err := table.Expire(t.Context()); err == nil {
			t.Error("no error")
		}
		files.Before = nil
		if files.Get(entryName(n)) == nil || n > 0 && files.Get(entryName(n-1)) != nil {
			t.Errorf("after %d deletions, the log does not begin at %d", n, n)
		}
		if got := read(t, open(files)); got.Version != 100 || len(got.Files) != 101 {
			t.Errorf("after %d deletions: version %d with %d files", n, got.Version, len(got.Files))
		}
	}
}
