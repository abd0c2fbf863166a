package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// shelf is an archive in memory.
type shelf struct {
	windows map[analytics.Key]sinks.Sealed
	damaged map[analytics.Key]error

	mu         sync.Mutex
	open, most int64 // rows of the windows in use, now and at most
	fetched    int
}

func newShelf(t *testing.T, windows ...analytics.Revision) *shelf {
	s := &shelf{windows: map[analytics.Key]sinks.Sealed{}, damaged: map[analytics.Key]error{}}
	for _, rev := range windows {
		s.windows[rev.Key] = sinktest.Seal(t, rev, sinktest.Pages(10))
	}
	return s
}

func (s *shelf) Revisions(context.Context) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		for _, w := range s.windows {
			if !yield(w.Revision(), nil) {
				return
			}
		}
	}
}

func (s *shelf) Window(_ context.Context, rev analytics.Revision) (sinks.Sealed, func() error, error) {
	if err := s.damaged[rev.Key]; err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched++
	s.open += rev.Rows
	s.most = max(s.most, s.open)
	return s.windows[rev.Key], func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open -= rev.Rows
		return nil
	}, nil
}

func firstDays(n int) (out []analytics.Revision) {
	for day := range n {
		out = append(out, sinktest.Revision(sinktest.Key("prj_a", day), 1))
	}
	return out
}

// testedAtOnce is the number of windows that the tests load at the same time.
const testedAtOnce = 12

func anyWindow(analytics.Key) bool { return true }

// source is an archive that can be listed.
type source interface {
	Revisions(context.Context) iter.Seq2[analytics.Revision, error]
	Window(context.Context, analytics.Revision) (sinks.Sealed, func() error, error)
}

func planned(t *testing.T, from source, to sinks.Sink, wanted func(analytics.Key) bool) loadPlan {
	t.Helper()
	p, err := newLoadPlan(t.Context(), from.Revisions(t.Context()), to.Revisions(t.Context()), wanted)
	check(t, err)
	return p
}

// loads loads what the sink lacks.
func loads(
	ctx context.Context, t *testing.T, from source, to sinks.Sink, committed func(analytics.Revision) error,
) error {
	t.Helper()
	return loader{from.Window, to, committed}.run(ctx, planned(t, from, to, anyWindow).lacking, testedAtOnce)
}

func loaded(t *testing.T, from source, to sinks.Sink) (keys []analytics.Key, err error) {
	t.Helper()
	var mu sync.Mutex
	err = loads(t.Context(), t, from, to, func(rev analytics.Revision) error {
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, rev.Key)
		return nil
	})
	return keys, err
}

func TestLoader(t *testing.T) {
	from, to := newShelf(t, firstDays(20)...), sinktest.NewMemory()
	keys, err := loaded(t, from, to)
	if err != nil || len(keys) != 20 {
		t.Fatalf("loaded %v, %v", keys, err)
	}
	for key, w := range from.windows {
		rows, revs, err := to.Rows(key)
		if err != nil || len(rows) != 10 || !cmp.Equal(revs, []analytics.Revision{w.Revision()}) {
			t.Errorf("%s: %d rows of %v, %v", key, len(rows), revs, err)
		}
	}
	if from.open != 0 {
		t.Errorf("windows of %d rows are still in use", from.open)
	}
	if again, err := loaded(t, from, to); err != nil || len(again) != 0 || from.fetched != 20 {
		t.Errorf("loading again loads %v, %v; %d windows fetched", again, err, from.fetched)
	}
}

func TestLoadPlan(t *testing.T) {
	from := newShelf(t, firstDays(6)...)
	to := sinktest.NewMemory()
	put := func(day int, number int32, at time.Time) {
		rev := sinktest.Revision(sinktest.Key("prj_a", day), number)
		rev.ExportedAt = at
		check(t, to.Replace(t.Context(), sinktest.Seal(t, rev, sinktest.Pages(1))))
	}
	at := firstDays(1)[0].ExportedAt
	put(0, 1, at)                  // the same reading
	put(1, 1, at.Add(time.Second)) // a later one, counted anew after a lost ledger
	put(2, 7, at.Add(-time.Hour))  // an earlier one with a greater number
	p := planned(t, from, to, func(k analytics.Key) bool { return k.From < sinktest.Key("", 5).From })
	var lacking []string
	for _, rev := range p.lacking {
		lacking = append(lacking, rev.From.String())
	}
	if diff := cmp.Diff([]string{"2026-10-03", "2026-10-04", "2026-10-05"}, lacking); diff != "" ||
		p.present != 2 || len(p.shown) != 3 {
		t.Errorf("present %d, lacking (-want +got):\n%s", p.present, diff)
	}
	down := errors.New("down")
	failing := func(yield func(analytics.Revision, error) bool) { yield(analytics.Revision{}, down) }
	if _, err := newLoadPlan(t.Context(), from.Revisions(t.Context()), failing, anyWindow); !errors.Is(err, down) {
		t.Errorf("of a sink that is down: %v", err)
	}
	damaged := sinks.Fault{Sink: "delta", Key: sinktest.Key("prj_a", 1), Kind: sinks.Disagree, Err: errors.New("bad")}
	half := func(yield func(analytics.Revision, error) bool) { yield(analytics.Revision{}, damaged) }
	if _, err := newLoadPlan(t.Context(), from.Revisions(t.Context()), half, anyWindow); !errors.Is(err, damaged) ||
		!strings.Contains(err.Error(), "verify --repair") {
		t.Errorf("of a sink with a damaged window: %v", err)
	}
}

// TestLoaderSinkFails: the first failure ends the run, and the next run continues.
func TestLoaderSinkFails(t *testing.T) {
	from, to := newShelf(t, firstDays(70)...), sinktest.NewMemory()
	full := errors.New("full")
	var mu sync.Mutex
	left := 20
	to.Fault = func(step sinktest.Step, _ analytics.Revision) error {
		mu.Lock()
		defer mu.Unlock()
		if step == sinktest.Before {
			if left--; left < 0 {
				return full
			}
		}
		return nil
	}
	keys, err := loaded(t, from, to)
	if !errors.Is(err, full) || !strings.Contains(err.Error(), "memory sink: prj_a day") || len(keys) > 20 {
		t.Fatalf("loaded %d, %v", len(keys), err)
	}
	if from.fetched > 20+testedAtOnce+1 {
		t.Errorf("%d windows were fetched after the sink had failed", from.fetched-20)
	}
	left = 1000
	again, err := loaded(t, from, to)
	if err != nil || len(again)+len(keys) != 70 {
		t.Errorf("the next run loads %d after %d, %v", len(again), len(keys), err)
	}
}

// far is an archive whose windows come only when the context ends, as errors; the first of
// them comes once the others are being opened.
type far struct {
	*shelf
	first   analytics.Key
	opening sync.WaitGroup
}

func (f *far) Window(ctx context.Context, rev analytics.Revision) (sinks.Sealed, func() error, error) {
	if rev.Key == f.first {
		f.opening.Wait()
		return f.shelf.Window(ctx, rev)
	}
	f.opening.Done()
	<-ctx.Done()
	return nil, nil, fmt.Errorf("get %s: %w", rev.Key, ctx.Err())
}

// TestLoaderEndsWhileWindowsOpen: an error of the sink, or a stop, is reported once; windows whose opening it cut
// short add no errors.
func TestLoaderEndsWhileWindowsOpen(t *testing.T) {
	full := errors.New("full")
	for _, want := range []error{full, context.Canceled} {
		const opening = 5
		from := &far{shelf: newShelf(t, firstDays(1+opening)...), first: firstDays(1)[0].Key}
		from.opening.Add(opening)
		ctx, stop := context.WithCancel(t.Context())
		to := sinktest.NewMemory()
		to.Fault = func(sinktest.Step, analytics.Revision) error {
			if errors.Is(want, full) {
				return full
			}
			stop()
			return ctx.Err()
		}
		err := loads(ctx, t, from, to, func(analytics.Revision) error { return nil })
		if !errors.Is(err, want) || strings.Count(err.Error(), want.Error()) != 1 || strings.Contains(err.Error(), "\n") {
			t.Errorf("run = %v, want %v", err, want)
		}
		stop()
	}
}

// TestLoaderDamagedWindows are passed over and named.
func TestLoaderDamagedWindows(t *testing.T) {
	from, to := newShelf(t, firstDays(10)...), sinktest.NewMemory()
	cut := errors.New("cut short")
	from.damaged[sinktest.Key("prj_a", 3)] = cut
	keys, err := loaded(t, from, to)
	if len(keys) != 9 || !errors.Is(err, cut) || !strings.Contains(err.Error(), "2026-10-04") {
		t.Errorf("loaded %d, %v", len(keys), err)
	}
}

// TestLoaderLedgerFails: what cannot be entered in the ledger, or a stop, ends the run.
func TestLoaderLedgerFails(t *testing.T) {
	lost := errors.New("ledger lost")
	for _, want := range []error{lost, context.Canceled} {
		from := newShelf(t, firstDays(50)...)
		ctx, cancel := context.WithCancel(t.Context())
		var n atomic.Int64
		err := loads(ctx, t, from, sinktest.NewMemory(), func(analytics.Revision) error {
			n.Add(1)
			if errors.Is(want, lost) {
				return lost
			}
			cancel()
			return nil
		})
		if !errors.Is(err, want) || from.fetched == 50 || errors.Is(want, lost) && n.Load() > testedAtOnce {
			t.Errorf("run = %v after %d windows, %d fetched", err, n.Load(), from.fetched)
		}
		cancel()
	}
}

// TestLoaderRoom: the rows of the windows in use stay below the bound, and one window
// larger than it is loaded alone.
func TestLoaderRoom(t *testing.T) {
	from, to := newShelf(t), sinktest.NewMemory()
	const most = rowsAtOnce / 10
	for day, rows := range []int64{rowsAtOnce * 3, 4 * most, 4 * most, 4 * most, 4 * most, 9 * most, 5, 5, 5} {
		rev := sinktest.Revision(sinktest.Key("prj_a", day), 1)
		w := sinktest.Seal(t, rev, sinktest.Pages(1))
		rev.Rows = rows // stderr, not held: it is the weight that counts
		from.windows[rev.Key] = heavy{w, rev}
	}
	keys, err := loaded(t, from, to)
	if err != nil || len(keys) != 9 {
		t.Fatalf("loaded %v, %v", keys, err)
	}
	if from.most > rowsAtOnce*3 {
		t.Errorf("%d rows were in use at once", from.most)
	}
	delete(from.windows, sinktest.Key("prj_a", 0))
	from.most, to = 0, sinktest.NewMemory()
	if _, err := loaded(t, from, to); err != nil || from.most > rowsAtOnce {
		t.Errorf("%d rows were in use at once, %v", from.most, err)
	}
}

type heavy struct {
	sinks.Sealed
	rev analytics.Revision
}

func (h heavy) Revision() analytics.Revision { return h.rev }
