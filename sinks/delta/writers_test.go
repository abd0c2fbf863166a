package delta

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

var bubble = func(t *testing.T, f func(*testing.T)) { testbed.Bubble(t, f) }

// holding returns a sink in root whose first entry waits: held is closed then, and free
// releases it.
func holding(t *testing.T, root string) (s *Sink, held <-chan struct{}, free func()) {
	holds, goes := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(holds); <-goes })
	return stepped(open(t, root), func(step string) {
		if step == "before visitors entry" {
			hold()
		}
	}), holds, func() { close(goes) }
}

// TestGroup: calls that come while entries are written share the next ones, whatever
// their number.
func TestGroup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var windows []*archive.File
		for day := range 60 {
			windows = append(windows, sealDay(t, day, 1, 3))
		}
		root := filepath.Join(t.TempDir(), "data")
		s, held, free := holding(t, root)
		var wait sync.WaitGroup
		wait.Go(func() { replace(t, s, windows[0]) })
		<-held
		for _, w := range windows[1:] {
			wait.Go(func() { replace(t, s, w) })
		}
		synctest.Wait() // all have published their files
		free()
		wait.Wait()
		if got := entries(t, root); got != "[2 2]" {
			t.Errorf("%d windows at once take %s entries of visitors and totals", len(windows), got)
		}
		shows(t, open(t, root), windows...)
	})
}

// TestGatherTime: a window that takes long to publish holds up the others for a moment
// only, and those go together.
func TestGatherTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		root := filepath.Join(t.TempDir(), "data")
		slow, windows := sealTotals(t, 1),
			[]*archive.File{sealDay(t, 1, 1, 3), sealDay(t, 2, 1, 3), sealDay(t, 3, 1, 3)}
		free, held := make(chan struct{}), make(chan struct{})
		var taken atomic.Bool
		others := sync.OnceFunc(func() { time.Sleep(time.Nanosecond) }) // until all have come
		s := stepped(open(t, root), func(step string) {
			if step == "before totals file" && taken.CompareAndSwap(false, true) {
				close(held)
				<-free
			}
			if step == "before visitors entry" {
				others()
			}
		})
		begin := time.Now()
		var wait, quick sync.WaitGroup
		wait.Go(func() { replace(t, s, slow) })
		<-held
		for _, w := range windows {
			quick.Go(func() { replace(t, s, w) })
			time.Sleep(gatherTime / 4) // of the bubble
		}
		quick.Wait()
		if took := time.Since(begin); took != gatherTime+1 {
			t.Errorf("the others took %s", took)
		}
		if got := entries(t, root); got != "[1 1]" && got != "[2 2]" { // the first of them leads
			t.Errorf("they take %s entries", got)
		}
		close(free)
		wait.Wait()
		shows(t, open(t, root), append(windows, slow)...)
	})
}

// shows fails unless the sink yields just these windows.
func shows(t *testing.T, s *Sink, windows ...*archive.File) {
	t.Helper()
	var got []string
	for rev, err := range s.Revisions(t.Context()) {
		if err != nil || !slices.ContainsFunc(windows, func(w *archive.File) bool { return rev.Same(w.Revision()) }) {
			t.Errorf("Revisions yields %+v, %v", rev, err)
		}
		got = append(got, rev.Key.String())
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != len(windows) {
		t.Errorf("%d windows are there, want %d", len(got), len(windows))
	}
}

// TestGroupGivesUp: one that is cancelled does not fail the others of its group; when all
// are, the group ends.
func TestGroupGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, all := range []bool{false, true} {
			root := filepath.Join(t.TempDir(), "data")
			former, windows := sealDay(t, 0, 1, 3), []*archive.File{sealDay(t, 1, 1, 3), sealDay(t, 2, 1, 3)}
			s, held, free := holding(t, root)
			ctx, cancel := context.WithCancel(t.Context())
			var wait sync.WaitGroup
			wait.Go(func() { replace(t, s, former) })
			<-held
			errs := make([]error, len(windows))
			for i, w := range windows {
				within := t.Context()
				if i == 0 || all {
					within = ctx
				}
				wait.Go(func() { errs[i] = s.Replace(within, w) })
			}
			synctest.Wait()
			cancel()
			synctest.Wait()
			free()
			wait.Wait()
			for i, err := range errs {
				if all != errors.Is(err, context.Canceled) {
					t.Errorf("window %d: Replace = %v", i, err)
				}
			}
			if all {
				windows = nil
			}
			shows(t, open(t, root), append(windows, former)...)
		}
	})
}

// TestTwoWriters: processes that write different windows at once lose none, and one that
// continues where another has written replaces its file.
func TestTwoWriters(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	one, two := open(t, root), open(t, root)
	var windows []*archive.File
	for day := range 24 {
		windows = append(windows, sealDay(t, day, 1, 3))
	}
	var wait sync.WaitGroup
	for half, s := range []*Sink{one, two} {
		wait.Go(func() {
			for i, w := range windows {
				if i%2 == half {
					replace(t, s, w)
				}
			}
		})
	}
	wait.Wait()
	shows(t, one, windows...)
	for number := int32(2); number < 6; number++ {
		s := []*Sink{one, two}[number%2]
		windows[0] = sealDay(t, 0, number, 5)
		replace(t, s, windows[0])
		shows(t, two, windows...)
	}
	if rows, revs, err := (reader{root}).Rows(sinktest.Key("prj_a", 0)); len(rows) != 5 || len(revs) != 1 ||
		err != nil {
		t.Errorf("a reader sees %d rows of %v, %v", len(rows), revs, err)
	}
}

// TestHealBesideAWriter: what heals windows that a crash left half done changes none that another process has replaced
// since it looked.
func TestHealBesideAWriter(t *testing.T) {
	bubble(t, healBesideAWriter)
}

func healBesideAWriter(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	half := sealDay(t, 0, 2, 3)
	replace(t, open(t, root), sealDay(t, 0, 1, 3))
	replace(t, open(t, root), sealDay(t, 1, 1, 3))
	for at, w := range map[string]*archive.File{
		"before totals entry": half,
		"after totals entry":  sinktest.Seal(t, sinktest.TotalsOnly(sinktest.Revision(sinktest.Key("prj_a", 1), 2)), nil),
	} {
		ctx, killed := context.WithCancel(t.Context())
		s := stepped(open(t, root), func(step string) {
			if step == at {
				killed()
				synctest.Wait() // the context of the group ends a moment after the caller's
			}
		})
		if err := s.Replace(ctx, w); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	next := sealDay(t, 1, 3, 3)
	s := stepped(open(t, root), func(step string) {
		if step == "before totals file" {
			replace(t, open(t, root), next)
		}
	})
	shows(t, s, half, next)
	shows(t, open(t, root), half, next)
}
