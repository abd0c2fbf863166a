package deltalog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/deltalog"
	"github.com/docgauge/docgauge/internal/filestore"
)

// TestRoundTrip: whatever is committed, a table that knows nothing reads the same as the
// one that wrote it, and both what a simple model says.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		files := newFiles(t)
		table, model, removed := open(files), map[string]deltalog.Add{}, map[string]bool{}
		path := rapid.StringMatching(`[a-zä%: #?/]{1,4}`)
		version := int64(-1)
		for range rapid.IntRange(1, 250).Draw(r, "entries") {
			var adds []deltalog.Add
			var removes []string
			for _, p := range slices.Sorted(maps.Keys(model)) {
				if rapid.IntRange(0, 3).Draw(r, "remove") == 0 {
					removes = append(removes, p)
				}
			}
			for _, p := range rapid.SliceOfNDistinct(path, 0, 2, rapid.ID).Draw(r, "add") {
				if !slices.Contains(removes, p) {
					adds = append(adds, file(p))
				}
			}
			got, err := table.Commit(t.Context(), func(*deltalog.Snapshot) ([]deltalog.Add, []string, error) {
				return adds, removes, nil
			})
			if err != nil {
				r.Fatal(err)
			}
			if len(adds)+len(removes) > 0 {
				version++
			}
			if got != version {
				r.Fatalf("commit is version %d, want %d", got, version)
			}
			for _, p := range removes {
				delete(model, p)
				removed[p] = true
			}
			for _, a := range adds {
				model[a.Path] = a
				delete(removed, a.Path)
			}
			if rapid.IntRange(0, 40).Draw(r, "again") == 0 {
				table = open(files)
			}
		}
		if d := cmp.Diff(read(t, table), read(t, open(files))); d != "" {
			r.Fatal(d)
		}
		got := read(t, open(files))
		var tombstones = map[string]bool{}
		for p := range got.Tombstones {
			tombstones[p] = true
		}
		if d := cmp.Diff(model, got.Files) + cmp.Diff(removed, tombstones); d != "" || got.Version != version {
			r.Fatalf("version %d, want %d: %s", got.Version, version, d)
		}
	})
}

// TestWriters: each commit of several writers takes effect exactly once, also when the
// store loses answers.
func TestWriters(t *testing.T) {
	inMemory := newFiles(t)
	losing := newFiles(t)
	var calls atomic.Int64
	losing.After = func(call, _ string) error {
		if call == "create" && calls.Add(1)%7 == 0 {
			return errors.New("no answer")
		}
		return nil
	}
	onDisk, err := filestore.New(t.TempDir())
	check(t, err)
	check(t, onDisk.Prepare(t.Context()))
	const writers, commits = 5, 30
	for name, files := range map[string]filestore.Store{"in memory": inMemory, "lost answers": losing,
		"in a directory": onDisk} {
		t.Run(name, func(t *testing.T) {
			var g errgroup.Group
			for w := range writers {
				table := open(files)
				g.Go(func() error {
					for i := range commits {
						if err := replaceSlot(t, table, i%3, fmt.Sprint(w, "-", i)); err != nil {
							return err
						}
					}
					return nil
				})
			}
			check(t, g.Wait())
			got := read(t, open(files))
			if got.Version != writers*commits-1 || len(got.Files) != 3 {
				t.Errorf("version %d with files %q, want %d with 3 files", got.Version, got.paths(), writers*commits-1)
			}
			if n := len(got.Tombstones) + len(got.Files); n != writers*commits {
				t.Errorf("%d files were added, want each of %d once", n, writers*commits)
			}
		})
	}
}

// replaceSlot replaces the file of a slot, whatever its writer.
func replaceSlot(t *testing.T, table *deltalog.Table, slot int, name string) error {
	dir := fmt.Sprintf("slot%d/", slot)
	_, err := table.Commit(t.Context(), func(s *deltalog.Snapshot) ([]deltalog.Add, []string, error) {
		var former []string
		for a := range s.Files() {
			if strings.HasPrefix(a.Path, dir) {
				former = append(former, a.Path)
			}
		}
		return []deltalog.Add{file(dir + name)}, former, nil
	})
	return err
}

// TestFaults breaks each call of a commit, before and after it took effect, once or until
// the end, and with the process dying there: the next process commits again, and in the
// end the file is there once.
func TestFaults(t *testing.T) {
	for _, from := range []int{0, 100} { // the entry that makes the table, and one with a checkpoint
		base := newFiles(t)
		for old, v := open(base), 0; v < from; v++ {
			commit(t, old, []string{fmt.Sprint("old", v)}, nil)
		}
		for _, how := range []string{"before", "after", "before and on", "after and on"} {
			for n := 0; ; n++ {
				files := newFiles(t)
				for _, name := range base.Names() {
					files.Put(name, base.Get(name))
				}
				table := deltalog.New(config(files))
				if from > 0 {
					read(t, table) // else each of its entries is a call
				}
				broken := breakCall(files, how, n)
				_, err := commitOnce(t, table)
				files.Before, files.After = nil, nil
				if !*broken {
					if n == 0 {
						t.Fatal("nothing was called")
					}
					break
				}
				for _, next := range []*deltalog.Table{table, open(files)} {
					if _, again := commitOnce(t, next); again != nil {
						t.Fatalf("%s call %d from %d: then: %v", how, n, from, again)
					}
				}
				want := int64(from)
				if got := read(t, open(files)); got.Version != want || len(got.Files) != from+1 {
					t.Errorf("%s call %d from %d, error %v: version %d with %d files, want %d with %d", how, n, from,
						err, got.Version, len(got.Files), want, from+1)
				}
			}
		}
	}
}

// commitOnce adds the file "new" unless it is there.
func commitOnce(t *testing.T, table *deltalog.Table) (int64, error) {
	return table.Commit(t.Context(), func(s *deltalog.Snapshot) ([]deltalog.Add, []string, error) {
		if _, there := s.File("new"); there {
			return nil, nil, nil
		}
		return []deltalog.Add{file("new")}, nil, nil
	})
}

// breakCall has the n-th call fail.
func breakCall(files *memoryFiles, how string, n int) (broken *bool) {
	broken = new(bool)
	calls := 0
	fail := func(string, string) error {
		calls++
		if calls-1 == n || strings.HasSuffix(how, "and on") && calls > n {
			*broken = true
			return errors.New("fault")
		}
		return nil
	}
	if strings.HasPrefix(how, "before") {
		files.Before = fail
	} else {
		files.After = fail
	}
	return broken
}

// TestLostAnswer: a commit whose answer is lost succeeds, in one entry.
func TestLostAnswer(t *testing.T) {
	files := newFiles(t)
	table := open(files)
	commit(t, table, []string{"a"}, nil)
	creates := 0
	files.After = func(call, _ string) error {
		if call == "create" {
			creates++
			return errors.New("no answer")
		}
		return nil
	}
	plans := 0
	version, err := table.Commit(t.Context(), func(*deltalog.Snapshot) ([]deltalog.Add, []string, error) {
		plans++
		return []deltalog.Add{file("b")}, []string{"a"}, nil
	})
	if err != nil || version != 1 || creates != 1 || plans != 1 {
		t.Errorf("version %d, %v, with %d creates and %d plans; want version 1 by one of each", version, err, creates,
			plans)
	}
}

// late is a store that gives up the first request to create a file, and carries it out
// when the next one comes.
type late struct {
	*memoryFiles
	creates int
	data    []byte
}

func (l *late) Create(ctx context.Context, name string, data []byte) error {
	if l.creates++; l.creates == 1 {
		l.data = bytes.Clone(data)
		return errors.New("given up")
	}
	l.Put(name, l.data)
	return l.memoryFiles.Create(ctx, name, data)
}

// TestLateRequest: a request that is given up, and takes effect when the next one is under
// way, is not taken for another writer's.
func TestLateRequest(t *testing.T) {
	files := &late{memoryFiles: newFiles(t)}
	version, err := commitOnce(t, open(files))
	if err != nil || version != 0 || files.creates != 2 {
		t.Errorf("version %d, %v, after %d creates; want version 0 after 2", version, err, files.creates)
	}
	if got := read(t, open(files)); got.Version != 0 {
		t.Errorf("version %d, want 0", got.Version)
	}
}

// TestPlanAgain: plan sees what another writer did first, and may then do nothing.
func TestPlanAgain(t *testing.T) {
	files := newFiles(t)
	table, other := open(files), open(files)
	commit(t, table, []string{"a"}, nil)
	plans := 0
	version, err := table.Commit(t.Context(), func(s *deltalog.Snapshot) ([]deltalog.Add, []string, error) {
		if plans++; plans == 1 {
			commit(t, other, []string{"new"}, []string{"a"})
		}
		if _, there := s.File("new"); there {
			return nil, nil, nil
		}
		return []deltalog.Add{file("new")}, nil, nil
	})
	if err != nil || version != 1 || plans != 2 {
		t.Errorf("version %d, %v after %d plans; want 1 after 2", version, err, plans)
	}
}

// TestPlanRefused: an entry that Delta forbids is not written.
func TestPlanRefused(t *testing.T) {
	files := newFiles(t)
	table := open(files)
	commit(t, table, []string{"a"}, nil)
	for name, tc := range map[string]struct{ adds, removes []string }{
		"unknown":           {nil, []string{"b"}},
		"removed twice":     {nil, []string{"a", "a"}},
		"added twice":       {[]string{"b", "b"}, nil},
		"added and removed": {[]string{"a"}, []string{"a"}},
	} {
		_, err := table.Commit(t.Context(),
			func(*deltalog.Snapshot) (adds []deltalog.Add, _ []string, _ error) {
				for _, path := range tc.adds {
					adds = append(adds, file(path))
				}
				return adds, tc.removes, nil
			})
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if got := read(t, table); got.Version != 0 {
		t.Errorf("version %d, want 0", got.Version)
	}
}

// TestEntry: the entry that makes the table, and the next one.
func TestEntry(t *testing.T) {
	files := newFiles(t)
	table := open(files)
	commit(t, table, []string{"p/a b.parquet"}, nil)
	commit(t, table, nil, []string{"p/a b.parquet"})
	var got strings.Builder
	for v := range 2 {
		got.Write(files.Get(fmt.Sprintf("visitors/_delta_log/%020d.json", v)))
	}
	text := strings.NewReplacer(fmt.Sprint(start.UnixMilli()), "0",
		fmt.Sprint(start.Add(-time.Minute).UnixMilli()), "-60000").Replace(got.String())
	for i, line := range strings.Split(text, "\n") { // replace the random parts
		var a struct {
			CommitInfo struct{ TxnID string }
			MetaData   struct{ ID string }
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil && line != "" {
			t.Fatalf("line %d: %v", i, err)
		}
		if a.CommitInfo.TxnID != "" {
			text = strings.ReplaceAll(text, a.CommitInfo.TxnID, "RANDOM")
		}
		if a.MetaData.ID != "" {
			text = strings.ReplaceAll(text, a.MetaData.ID, "ID")
		}
	}
	golden(t, "entries.golden", text)
}
