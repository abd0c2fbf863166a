package budget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/state"
)

// event is something that happens after a pause.
type event struct {
	Pause time.Duration
	// Process is the sender; Crash replaces it by a new one that knows nothing.
	Process int
	Crash   bool
	// SetBack sets the clock back.
	SetBack time.Duration
	// Renew begins a new run of the process.
	Renew bool
	// Burst is how many requests are sent at once.
	Burst  int
	Ways   ways
	GiveUp time.Duration // the sender gives up after it, 0: it does not
}

type story struct {
	Limit, Processes int
	Patience         time.Duration
	Events           []event
}

func drawStory(t *rapid.T, limits *rapid.Generator[int], events int) story {
	s := story{Limit: limits.Draw(t, "limit"), Processes: rapid.IntRange(1, 3).Draw(t, "processes")}
	s.Patience = rapid.SampledFrom([]time.Duration{0, 0, time.Minute, 10 * time.Hour}).Draw(t, "patience")
	event := rapid.Custom(func(t *rapid.T) event { return drawEvent(t, s) })
	s.Events = rapid.SliceOfN(event, 5, events).Draw(t, "events")
	return s
}

func drawEvent(t *rapid.T, s story) event {
	d := func(name string, limit time.Duration) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(limit)).Draw(t, name))
	}
	one := func(name string, of ...time.Duration) time.Duration { return rapid.SampledFrom(of).Draw(t, name) }
	e := event{
		Pause:   one("pause", 0, time.Second, 10*time.Minute, 59*time.Minute, 61*time.Minute),
		Process: rapid.IntRange(0, s.Processes-1).Draw(t, "process"),
		Crash:   rapid.IntRange(0, 9).Draw(t, "crash") == 0,
		Renew:   rapid.Bool().Draw(t, "renew"),
		Burst:   rapid.IntRange(1, s.Limit+2).Draw(t, "burst"),
		Ways:    ways{there: d("there", timeout/2), back: d("back", timeout/2)},
	}
	e.Pause += d("more pause", time.Second)
	if rapid.IntRange(0, 5).Draw(t, "clock") == 0 {
		e.SetBack = one("set back", time.Millisecond, 30*time.Second, 2*time.Minute, 3*time.Hour, 9000*time.Hour)
	}
	if rapid.IntRange(0, 3).Draw(t, "gives up") == 0 {
		e.GiveUp = 1 + d("after", timeout)
	}
	if rapid.IntRange(0, 9).Draw(t, "throttled") == 0 {
		e.Ways.status = 429
	}
	e.Ways.conn = rapid.SampledFrom([]conn{silent, refused, made, handed}).Draw(t, "connection")
	return e
}

// TestNeverMoreThanLimitInAnyHour lets several processes send at random, crash, give
// up requests and set their clock back, and counts the requests at the service.
func TestNeverMoreThanLimitInAnyHour(t *testing.T) {
	for name, tc := range map[string]struct {
		limits *rapid.Generator[int]
		events int
	}{
		"alone":     {rapid.IntRange(1, 6), 40},
		"in groups": {rapid.SampledFrom([]int{200, 300}), 6},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				s := drawStory(rt, tc.limits, tc.events)
				var arrived []time.Time
				synctest.Test(t, func(t *testing.T) { arrived = s.play(t) })
				if err := withinLimit(arrived, s.Limit); err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

// play returns when requests reached the service, in order.
func (s story) play(t *testing.T) []time.Time {
	wall, svc := new(wallClock), new(service)
	log := by(wall.now, openLog(t))
	cfg := options(s.Limit, wall.now)
	cfg.Patience = s.Patience
	start := func() *Budget { return New(cfg, log, svc) }
	processes := make([]*Budget, s.Processes)
	for i := range processes {
		processes[i] = start()
	}
	var senders sync.WaitGroup
	for _, e := range s.Events {
		time.Sleep(e.Pause)
		wall.set(-e.SetBack)
		if e.Crash {
			processes[e.Process] = start()
		}
		b := processes[e.Process]
		if e.Renew {
			b.Renew()
		}
		for range e.Burst {
			senders.Go(func() { e.send(t, b) })
		}
	}
	senders.Wait()
	time.Sleep(timeout) // those whose sender gave up arrive as well
	return svc.arrivals()
}

func (e event) send(t *testing.T, b *Budget) {
	ctx := context.WithValue(t.Context(), waysKey{}, e.Ways)
	if e.GiveUp > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.GiveUp)
		defer cancel()
	}
	_, err := send(ctx, b)
	gaveUp := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errRefused)
	if err != nil && !isExhausted(err) && !gaveUp {
		t.Error(err)
	}
}

func withinLimit(arrived []time.Time, limit int) error {
	for i := range arrived[min(limit, len(arrived)):] {
		if d := arrived[i+limit].Sub(arrived[i]); d < Span {
			return fmt.Errorf("%d requests reached the service within %v from %v", limit+1, d, arrived[i])
		}
	}
	return nil
}

// TestRefusedOnlyWhenFull: of two processes that enter their answers at once,
// neither is refused while fewer than limit requests are in flight or were
// answered within the hour; and a refusal names the first moment at which a slot
// frees. Requests that find no connection do not count.
func TestRefusedOnlyWhenFull(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(rt, "limit")
		pauses := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(40*time.Minute)).Draw(t, "pause"))
		}), 1, 40).Draw(rt, "pauses")
		n := len(pauses)
		conns := rapid.SliceOfN(rapid.SampledFrom([]conn{refused, made}), n, n).Draw(rt, "connections")
		var wrong error
		inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
			svc.there, svc.back = time.Second, 2*time.Second
			processes := []*Budget{newBudget(limit, store, svc), newBudget(limit, store, svc)}
			var done []time.Time
			for i, pause := range pauses {
				time.Sleep(pause)
				b := processes[i%2]
				svc.conn = conns[i]
				_, err := send(t.Context(), b)
				if errors.Is(err, errRefused) {
					continue
				}
				wrong = errors.Join(wrong, b.Flush(t.Context()), judge(done, limit, err))
				if err == nil {
					done = append(done, time.Now())
				}
			}
		})
		if wrong != nil {
			rt.Fatal(wrong)
		}
	})
}

// judge checks err, of a request sent now, against the times of the former answers.
func judge(done []time.Time, limit int, err error) error {
	var free time.Time
	if len(done) >= limit {
		free = done[len(done)-limit].Add(Span)
	}
	e, refused := errors.AsType[*exhaustedError](err)
	if !refused {
		return err
	}
	if early := free.Sub(e.Until); early > 0 || early < -time.Microsecond {
		return fmt.Errorf("refused until %v, a slot frees at %v", e.Until, free)
	}
	return nil
}
