package schedule

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// odd is when these tests begin, after the start of their bubble: 00:03:41.25 UTC.
const odd = 3*time.Minute + 41*time.Second + 250*time.Millisecond

// history records the events of the runs.
type history struct {
	began, ended []time.Time
	causes       []error
	parallel     int
	log          string
}

func (h history) skipped() int  { return strings.Count(h.log, "firing skipped") }
func (h history) overrun() int  { return strings.Count(h.log, "run continues after its end") }
func (h history) panicked() int { return strings.Count(h.log, "run panicked") }

// runs is a Cron that runs in a bubble.
type runs struct {
	mu   sync.Mutex
	past history
	stop context.CancelFunc
	done chan error
}

// begin runs do by the schedule of spec, beginning at an odd moment, with the first firing after first, where 0
// leaves it to spec, and one at once if atOnce is true.
func begin(
	t *testing.T, spec string, first time.Duration, atOnce bool, deadline time.Duration, do func(ctx context.Context),
) *runs {
	t.Helper()
	time.Sleep(odd)
	r := &runs{done: make(chan error, 1)}
	noted := func(ctx context.Context) {
		r.note(func(h *history) {
			h.began = append(h.began, time.Now().UTC())
			if len(h.began) > len(h.ended)+1 {
				h.parallel++
			}
		})
		defer r.note(func(h *history) {
			h.ended = append(h.ended, time.Now().UTC())
			h.causes = append(h.causes, context.Cause(ctx))
		})
		do(ctx)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	f := NewFirings(parseCron(t, spec), time.Now().Add(first), atOnce)
	go func() { r.done <- f.Run(ctx, deadline, slog.New(slog.NewTextHandler(r, nil)), noted) }()
	return r
}

func (r *runs) note(f func(*history)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.past)
}

func (r *runs) Write(p []byte) (int, error) {
	r.note(func(h *history) { h.log += string(p) })
	return len(p), nil
}

// soFar waits until nothing more happens at this moment.
func (r *runs) soFar() history {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.past
}

// end stops the runs, and fails if Run returns another error than want.
func (r *runs) end(t *testing.T, want error) history {
	t.Helper()
	r.stop()
	if err := <-r.done; !errors.Is(err, want) {
		t.Errorf("Run: %v, want %v", err, want)
	}
	h := r.soFar()
	if h.parallel > 0 {
		t.Errorf("%d runs began while another went on", h.parallel)
	}
	return h
}

func (h history) wantBegan(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, at := range h.began {
		got = append(got, at.Format("15:04:05.999"))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs began (-want +got):\n%s", diff)
	}
}

func takes(d time.Duration) func(context.Context) {
	return func(ctx context.Context) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
}

// TestRuns: the times at which the runs of "*/10 * * * *" begin, and the reports.
func TestRuns(t *testing.T) {
	for _, c := range []struct {
		name              string
		atOnce            bool
		deadline          time.Duration
		do                func(ctx context.Context, nth int)
		lasts             time.Duration
		began             []string
		skipped, panicked int
		took              time.Duration // of the first run
		cause             error         // of its end
	}{
		{"a long run skips firings", false, 0, func(ctx context.Context, nth int) {
			if nth == 1 {
				takes(25 * time.Minute)(ctx)
			}
		}, time.Hour, []string{"00:10:00", "00:40:00", "00:50:00", "01:00:00"}, 2, 0, 25 * time.Minute, nil},
		{"runs go on after a panic", false, time.Minute, func(_ context.Context, nth int) {
			if values := []any{"no such window", errors.New("disk")}; nth <= len(values) {
				panic(values[nth-1])
			}
		}, 30 * time.Minute, []string{"00:10:00", "00:20:00", "00:30:00"}, 0, 2, 0, nil},
		{"a deadline", false, 4 * time.Minute,
			func(ctx context.Context, _ int) { takes(time.Hour)(ctx) },
			20 * time.Minute, []string{"00:10:00", "00:20:00"}, 0, 0, 4 * time.Minute, ErrDeadline},
		{"a run at the start", true, 0,
			func(ctx context.Context, _ int) { takes(8 * time.Minute)(ctx) },
			30 * time.Minute, []string{"00:03:41.25", "00:20:00", "00:30:00"}, 1, 0, 8 * time.Minute, nil},
		{"a panic at the start", true, 0, func(_ context.Context, nth int) {
			if nth == 1 {
				panic("at once")
			}
		}, 10 * time.Minute, []string{"00:03:41.25", "00:10:00"}, 0, 1, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nth := 0
				r := begin(t, "*/10 * * * *", 0, c.atOnce, c.deadline, func(ctx context.Context) {
					nth++
					c.do(ctx, nth)
				})
				time.Sleep(c.lasts)
				h := r.end(t, nil)
				h.wantBegan(t, c.began...)
				if h.skipped() != c.skipped || h.overrun() > 0 {
					t.Errorf("%d skipped, want %d; %d overruns; log:\n%s", h.skipped(), c.skipped, h.overrun(), h.log)
				}
				if h.panicked() != c.panicked || strings.Count(h.log, "level=ERROR") != c.panicked ||
					c.panicked > 0 && !strings.Contains(h.log, "cronrun_test.go") {
					t.Errorf("%d panics, want %d, with a stack in the log:\n%s", h.panicked(), c.panicked, h.log)
				}
				if took := h.ended[0].Sub(h.began[0]); took != c.took || !errors.Is(h.causes[0], c.cause) {
					t.Errorf("the first run ended after %s by %v, want %s, %v", took, h.causes[0], c.took, c.cause)
				}
			})
		})
	}
}

func TestStopEndsTheRunAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, "@hourly", 0, false, 30*time.Minute, func(ctx context.Context) {
			<-ctx.Done()
			time.Sleep(7 * time.Second) // the work that it must still finish
		})
		time.Sleep(time.Hour)
		stopped := time.Now()
		h := r.end(t, nil)
		if took := time.Since(stopped); took != 7*time.Second || len(h.ended) != 1 {
			t.Errorf("Run returned after %s with %d runs ended", took, len(h.ended))
		}
		if !errors.Is(h.causes[0], context.Canceled) || h.overrun() > 0 {
			t.Errorf("ended by %v with %d overruns", h.causes[0], h.overrun())
		}
		time.Sleep(5 * time.Hour)
		r.soFar().wantBegan(t, "01:00:00")
	})
}

func TestRunThatIgnoresItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, "*/10 * * * *", 0, false, time.Minute,
			func(context.Context) { time.Sleep(35 * time.Minute) })
		time.Sleep(7*time.Minute + 30*time.Second) // 00:11:11
		h := r.soFar()
		if h.overrun() != 0 {
			t.Error("reported before its grace was over")
		}
		time.Sleep(10 * time.Second)
		h = r.soFar()
		if log := h.log; h.overrun() != 1 || !strings.Contains(log, "run continues after its end") ||
			!strings.Contains(log, "run reached its deadline") {
			t.Errorf("%d overruns, want 1; log:\n%s", h.overrun(), log)
		}
		time.Sleep(34 * time.Minute) // 00:45:21
		h = r.soFar()
		h.wantBegan(t, "00:10:00")
		if h.skipped() != 3 || h.overrun() != 1 {
			t.Errorf("%d skipped, %d overruns, want 3 and 1", h.skipped(), h.overrun())
		}
		time.Sleep(5 * time.Minute)
		h = r.soFar()
		h.wantBegan(t, "00:10:00", "00:50:00")
		r.end(t, ErrOverrun)
		time.Sleep(time.Hour) // the bubble ends after the run
	})
}

func TestStopGivesUpOnARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, "@hourly", 0, true, 0, func(context.Context) { time.Sleep(time.Hour) })
		time.Sleep(time.Minute)
		stopped := time.Now()
		h := r.end(t, ErrOverrun)
		if took := time.Since(stopped); took != 20*time.Second || h.overrun() != 1 {
			t.Errorf("gave up after %s with %d overruns, want 20s and 1", took, h.overrun())
		}
		time.Sleep(time.Hour)
	})
}

func TestStoppedBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f := NewFirings(parseCron(t, "@hourly"), time.Time{}, true)
		if err := f.Run(ctx, 0, slog.Default(), func(context.Context) { t.Error("ran") }); err != nil {
			t.Error(err)
		}
	})
}

// TestFirst: an @every that resumes after an interruption keeps its next firing, and then fires
// at its interval again. A time that has passed is ignored.
func TestFirst(t *testing.T) {
	for _, tc := range []struct {
		first  time.Duration // after the beginning
		now    bool
		wanted []time.Duration
	}{
		{20 * time.Minute, false, []time.Duration{20 * time.Minute, 110 * time.Minute}},
		{20 * time.Minute, true, []time.Duration{0, 20 * time.Minute, 110 * time.Minute}},
		{-time.Minute, false, []time.Duration{90 * time.Minute}},
	} {
		synctest.Test(t, func(t *testing.T) {
			from := time.Now().Add(odd)
			r := begin(t, "@every 90m", tc.first, tc.now, 0, takes(0))
			time.Sleep(2 * time.Hour)
			var got []time.Duration
			for _, at := range r.soFar().began {
				got = append(got, at.Sub(from).Round(time.Second))
			}
			if diff := cmp.Diff(tc.wanted, got); diff != "" {
				t.Errorf("first after %v, now %v: %s", tc.first, tc.now, diff)
			}
			stopped := time.Now()
			if r.end(t, nil); !time.Now().Equal(stopped) {
				t.Error("it waits although nothing runs")
			}
		})
	}
}

// TestFiringsOfAClockAhead: no firing waits for as long as the clock was ahead, before the start or until it is set
// back.
func TestFiringsOfAClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(odd)
		var ahead atomic.Int64
		ahead.Store(int64(400 * 24 * time.Hour))
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		f := NewFirings(parseCron(t, "*/10 * * * *"), now(), false)
		f.now = now
		ctx, stop := context.WithCancel(t.Context())
		r := &runs{done: make(chan error, 1), stop: stop}
		go func() {
			r.done <- f.Run(ctx, 0, slog.New(slog.NewTextHandler(r, nil)), func(context.Context) {
				r.note(func(h *history) { h.began = append(h.began, time.Now().UTC()) })
			})
		}()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		ahead.Store(0)
		time.Sleep(20 * time.Minute)
		r.end(t, nil).wantBegan(t, "00:10:00", "00:20:00", "00:30:00")
	})
}
