package jobs

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/schedule"
)

func at(hour, minute int) time.Time { return time.Date(2026, 10, 5, hour, minute, 0, 0, time.UTC) }

// recurs is a world with a prompt that fires at each full hour; it is 13:37.
func recurs(t *testing.T) *world {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "r", Schedule: cron(t, "0 * * * *")})
	return w
}

// fired fails unless r has jobs of these firings, oldest first.
func (w *world) fired(want ...time.Time) {
	w.Helper()
	var got []time.Time
	for _, job := range w.jobs() {
		got = append(got, job.Firing)
	}
	if !slices.EqualFunc(got, want, time.Time.Equal) {
		w.Fatalf("firings %v, want %v", got, want)
	}
}

// passAt makes a pass at a time.
func (w *world) passAt(hour, minute int) {
	w.Helper()
	w.clock = at(hour, minute)
	w.passes()
}

// TestEachFiringIsOneJob: from the time the prompt was first seen.
func TestEachFiringIsOneJob(t *testing.T) {
	w := recurs(t)
	for w.clock.Before(at(17, 30)) {
		w.after(5 * time.Minute)
	}
	w.fired(at(14, 0), at(15, 0), at(16, 0), at(17, 0))
	p := w.waitsFor("r", whyFiring, journal.Pending)
	if !p.Until.Equal(at(18, 0)) || p.Job == nil || p.Job.State != journal.Completed {
		t.Errorf("%+v", p)
	}
}

// TestFirstSeenIsDurable: a crash before the first firing does not begin anew.
func TestFirstSeenIsDurable(t *testing.T) {
	w := recurs(t)
	w.passes()
	w.queue = nil
	w.after(time.Hour)
	w.fired(at(14, 0))
	w.prompt(prompts.Prompt{ID: "r", Schedule: cron(t, "*/20 * * * *")}) // another schedule counts from now
	w.passAt(14, 50)
	w.passAt(14, 51)
	w.fired(at(14, 0))
	w.passAt(15, 1)
	w.fired(at(14, 0), at(15, 0))
}

// TestNoFiringBesideAnother: while a job of the prompt is at work or in doubt none
// is made, and then the newest that was missed.
func TestNoFiringBesideAnother(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "r", Schedule: cron(t, "0 * * * *"), Body: "slow"})
	w.passes()
	w.passAt(14, 1)
	w.has("r", journal.Active)
	for range 5 {
		w.after(30 * time.Minute)
	}
	w.fired(at(14, 0))
	w.after(time.Hour) // three hours after it began: it is completed
	w.fired(at(14, 0), at(17, 0))
}

// TestFiringThatWaits: a firing that is refused for a time is sent later, unless the next
// one is due.
func TestFiringThatWaits(t *testing.T) {
	w := recurs(t)
	w.passes()
	w.service.down = always(throttled(10*time.Minute), callCreate)
	w.passAt(14, 0)
	w.has("r", journal.Pending)
	w.service.down = nil
	w.after(10 * time.Minute)
	w.has("r", journal.Active)

	w.after(turn)
	w.clock = at(15, 0)
	w.service.down = always(throttled(2*time.Hour), callCreate)
	w.passes()
	w.service.down = nil
	w.clock = at(16, 30)
	w.waitsFor("r", whyProject, journal.Pending, "accepted") // as the firing of 16:00, which was never tried
	w.passAt(17, 30)
	w.fired(at(14, 0), at(15, 0), at(17, 0))
	w.calls(callCreate, 4)
	states := map[time.Time]journal.State{
		at(14, 0): journal.Completed, at(15, 0): journal.Expired, at(17, 0): journal.Active,
	}
	for _, job := range w.memory.jobs {
		if states[job.Firing] != job.State {
			t.Errorf("firing %v is %s (%s)", job.Firing, job.State, job.Reason)
		}
	}
}

func TestFiringsWithinBounds(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "r", Schedule: cron(t, "0 * * * *"), NotBefore: at(16, 0), Expires: at(18, 0)})
	for w.clock.Before(at(20, 0)) {
		w.after(7 * time.Minute)
	}
	w.fired(at(16, 0), at(17, 0))
	if p := w.planned("r"); p.State != journal.Expired {
		t.Errorf("%+v", p)
	}
}

// TestHeldFiring: hold holds the prompt, cancel leaves out one firing.
func TestHeldFiring(t *testing.T) {
	w := recurs(t)
	w.passes()
	w.decides("hold", "r")
	for w.clock.Before(at(16, 30)) {
		w.after(10 * time.Minute)
	}
	if len(w.service.jobs) > 0 {
		t.Fatal("it was sent although it is held")
	}
	w.decides("release", "r")
	w.passes()
	if job := w.has("r", journal.Active); !job.Firing.Equal(at(16, 0)) {
		t.Errorf("%+v", job)
	}
	w.after(turn)
	if job, err := w.decide("cancel", "r"); err != nil || !job.Firing.Equal(at(17, 0)) {
		t.Fatalf("%+v, %v", job, err)
	}
	w.passAt(17, 30)
	if len(w.service.jobs) != 1 {
		t.Error("the firing that was cancelled was sent")
	}
	w.passAt(18, 1)
	if job := w.has("r", journal.Active); !job.Firing.Equal(at(18, 0)) {
		t.Errorf("%+v", job)
	}

	// At 19:00 the service refuses the job for ten minutes. No pass runs before 20:00, so that firing is missed.
	w.after(turn)
	w.service.down = always(throttled(10*time.Minute), callCreate)
	w.passAt(19, 0)
	w.service.down = nil
	w.clock = at(20, 1)
	if p := w.planned("r"); !p.Firing.Equal(at(20, 0)) {
		t.Fatalf("%+v", p)
	}
	if job := w.decides("cancel", "r"); !job.Firing.Equal(at(20, 0)) {
		t.Errorf("%+v", job)
	}
	w.passes()
	if len(w.service.jobs) != 2 {
		t.Error("the firing that was cancelled was sent")
	}
}

// TestFirings: the newest firing and the next one, for any schedule and any time.
func TestFirings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.SampledFrom([]string{
			"* * * * *", "*/7 3-5 * * *", "0 9 * * 1", "0 0 29 2 *", "* * 1 1 *", "30 5 1,15 * *", "@every 1m",
			"@every 90m", "@every 36h", "@yearly",
		}).Draw(t, "schedule")
		c, err := schedule.ParseCron(spec)
		if err != nil {
			t.Fatal(err)
		}
		base := start.Add(time.Duration(rapid.Int64Range(0, int64(900*day)).Draw(t, "base")))
		now := base.Add(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(40*day)).Draw(t, "later")))
		due, next := firings(c, base, now)
		var want time.Time
		first := c.Next(base)
		for ; !first.After(now); first = c.Next(first) {
			want = first
		}
		if !due.Equal(want) || !next.Equal(first) {
			t.Errorf("%s from %v to %v: %v and %v, want %v and %v", spec, base, now, due, next, want, first)
		}
	})
}

// TestFiringsAfterAClockAhead: decisions by a clock that was a month ahead do not keep the
// prompt from firing, and nothing that was sent before is sent again.
func TestFiringsAfterAClockAhead(t *testing.T) {
	const month = 30 * 24 * time.Hour
	w := recurs(t)
	w.passes()
	w.passAt(14, 0)
	w.after(turn)
	w.clock = at(14, 5).Add(month) // twice: another job, and one that waits
	w.passes()
	w.after(turn)
	w.clock = at(15, 0).Add(month)
	w.service.down = always(throttled(10*time.Minute), callCreate)
	w.passes()
	w.service.down = nil
	w.queue = nil
	w.passAt(14, 20)
	w.after(turn)
	if got := len(w.service.jobs); got > 3 {
		t.Errorf("the service has %d jobs", got)
	}
	before := len(w.service.jobs)
	if p := w.waitsFor("r", whyFiring, journal.Pending); !p.Until.Equal(at(15, 0)) {
		t.Errorf("%+v", p)
	}
	w.passAt(15, 0)
	if got := len(w.service.jobs); got != before+1 {
		t.Errorf("the service has %d jobs, %d before", got, before)
	}
	w.has("r", journal.Active)
	w.after(turn)
	w.passAt(16, 0)
	if got := len(w.service.jobs); got != before+2 {
		t.Errorf("the service has %d jobs, %d before", got, before)
	}
}

// TestRestoredState: a state from an older backup sends nothing before the operator has decided,
// and follows the decision once for all.
func TestRestoredState(t *testing.T) {
	for policy, creates := range map[NewState]int{Refuse: 0, Skip: 0, Submit: 1} {
		w := recurs(t)
		w.passes()
		marks := 0
		w.opt.Mark = func(context.Context) { marks++ }
		w.opt.Restored = func(ctx context.Context) error { // what the marker shows
			q, err := w.journal.Queue(ctx)
			if err == nil && q.Adopted && !q.Restored && w.clock.Equal(at(13, 50)) {
				q.Adopted, q.Restored = false, true
				_, err = w.journal.Apply(ctx, journal.Change{Queue: &q})
			}
			return err
		}
		w.prompt(prompts.Prompt{ID: "a"}) // was sent, and the state does not know it
		w.queue, w.opt.OnNewState, w.clock = nil, policy, at(13, 50)
		for range 2 {
			_, err := w.pass()
			if refused := errors.Is(err, ErrNewState); refused != (policy == Refuse) {
				t.Errorf("%s: %v", policy, err)
			} else if refused {
				w.says(err.Error(), "older backup")
			}
			w.queue = nil
			w.clock = w.clock.Add(time.Second)
		}
		if len(w.service.jobs) != creates || marks != creates {
			t.Errorf("%s: %d jobs were created, %d marks", policy, len(w.service.jobs), marks)
		}
		if policy == Skip {
			w.has("a", journal.Completed)
			w.prompt(prompts.Prompt{ID: "b"})
			w.passes()
			w.has("b", journal.Active)
		}
	}
}

// TestClockOfTheQueue: by a clock that is known to be wrong nothing is sent, until the service says that it is right.
func TestClockOfTheQueue(t *testing.T) {
	w := newWorld(t, "a")
	wrong := errors.New("the clock is a month ahead")
	known := wrong
	w.opt.Clock = func() error { return known }
	w.opt.Confirm = func(context.Context) (bool, error) { known = wrong; return known == nil, known }
	if _, err := w.pass(); !errors.Is(err, wrong) || len(w.service.jobs) > 0 {
		t.Errorf("%v, %d jobs", err, len(w.service.jobs))
	}
	wrong = nil
	w.passes()
	w.has("a", journal.Active)
}

// TestUnconfirmedClock: while the service does not confirm the clock, the queue changes no time and expires
// nothing, and by a clock that it refutes nothing is sent.
func TestUnconfirmedClock(t *testing.T) {
	for _, off := range []time.Duration{-2 * day, 400 * day} {
		for _, refuted := range []error{nil, errors.New("the clock is wrong")} {
			w := newWorld(t, "a")
			w.opt.MaxPerDay = 1
			w.prompt(prompts.Prompt{ID: "r", Schedule: cron(t, "0 * * * *"), Expires: start.Add(90 * day)})
			w.prompt(prompts.Prompt{ID: "waits"})
			w.passes()
			before := w.jobs()
			w.opt.Confirm = func(context.Context) (bool, error) { return false, refuted }
			w.clock = start.Add(off)
			w.queue = nil
			if _, err := w.pass(); refuted != nil && !errors.Is(err, refuted) {
				t.Errorf("%v: %v", off, err)
			}
			seen, err := w.journal.Recurring(t.Context())
			if err != nil || seen["r"].Since.After(start) || seen["r"].Since.Before(start.Add(-time.Second)) {
				t.Errorf("%v: the schedule counts from %v, %v", off, seen["r"].Since, err)
			}
			for i, job := range w.jobs()[:len(before)] {
				if !job.Charged.Equal(before[i].Charged) || job.State == journal.Expired {
					t.Errorf("%v: job %d was charged at %v, and is so at %v, %s", off, job.Seq, before[i].Charged,
						job.Charged, job.State)
				}
			}
			if refuted != nil && len(w.service.jobs) != 1 {
				t.Errorf("%v: %d jobs were created", off, len(w.service.jobs))
			}
		}
	}
}
