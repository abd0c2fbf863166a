package jobs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// TestCapsOverAnyDay: the caps hold over any 24 hours and at any time, over all projects,
// however slowly the service answers.
func TestCapsOverAnyDay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.opt.MaxPerDay, w.opt.MaxActive = rapid.IntRange(1, 5).Draw(t, "per day"), rapid.IntRange(1, 4).Draw(t, "active")
		slow := time.Duration(rapid.IntRange(0, 50).Draw(t, "seconds to answer")) * time.Second
		w.service.down = func(call, _ string) error {
			if call == callCreate {
				w.clock = w.clock.Add(slow)
			}
			return nil
		}
		for i := range 20 {
			w.prompt(prompts.Prompt{ID: fmt.Sprint(i), Project: rapid.SampledFrom([]string{"prj_a", "prj_b"}).Draw(t, "project"),
				Body: fmt.Sprintf("do %d%s", i, rapid.SampledFrom([]string{"", " slow", " fails"}).Draw(t, "how"))})
		}
		for len(w.service.jobs) < 12 {
			w.after(time.Duration(rapid.IntRange(1, 400).Draw(t, "minutes")) * time.Minute)
			if n := w.service.atWork(); n > w.opt.MaxActive {
				t.Fatalf("%d are at work", n)
			}
			created := w.service.created()
			for i := w.opt.MaxPerDay; i < len(created); i++ {
				if apart := created[i].Sub(created[i-w.opt.MaxPerDay]); apart < day {
					t.Fatalf("%d created within %v", w.opt.MaxPerDay+1, apart)
				}
			}
		}
	})
}

func TestCapReasons(t *testing.T) {
	w := newWorld(t)
	w.opt.MaxPerDay, w.opt.MaxActive = 3, 2
	for _, id := range ids {
		w.prompt(prompts.Prompt{ID: id})
	}
	w.passes()
	if p := w.waitsFor("c", WhyActive, journal.Pending); !strings.Contains(p.Reason, "DOCGAUGE_MAX_ACTIVE_JOBS is 2") {
		t.Error(p.Reason)
	}
	w.used(2, 2)
	w.after(turn)
	w.used(3, 1)
	p := w.waitsFor("d", WhyPerDay, journal.Pending)
	if !strings.Contains(p.Reason, "DOCGAUGE_MAX_JOBS_PER_DAY is 3") || !p.Until.Equal(start.Add(day)) {
		t.Error(p.Reason, p.Until)
	}
	if w.clock = start.Add(day - time.Microsecond); w.passes().Created > 0 {
		t.Error("created before the day is over")
	}
	if r := w.after(time.Microsecond); r.Created != 2 {
		t.Errorf("%d created when it is", r.Created)
	}
	w.used(3, 2) // the first two are of yesterday
}

// used fails unless so many jobs count against the caps.
func (w *world) used(perDay, active int) {
	w.Helper()
	all, err := w.journal.Jobs(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	if d, a := Usage(all, w.clock); d != perDay || a != active {
		w.Errorf("%d in a day and %d at work, want %d and %d", d, a, perDay, active)
	}
}

// TestWhatCountsPerDay: a create counts unless it is known to have been refused.
func TestWhatCountsPerDay(t *testing.T) {
	for _, tc := range []struct {
		err   error
		count int
	}{{throttled(0), 0}, {answer(400), 0}, {notSentError(), 0}, {answer(401), 0}, {lostError(), 1}, {nil, 1}} {
		w := newWorld(t)
		w.opt.MaxPerDay = 1
		w.prompt(prompts.Prompt{ID: "a"})
		w.service.down = always(tc.err)
		w.passes()
		w.used(tc.count, tc.count)
	}
}

// TestGivenUpStillCounts: dropping a job in doubt makes room among the active jobs, not
// among those of the day.
func TestGivenUpStillCounts(t *testing.T) {
	w := newWorld(t)
	w.opt.MaxPerDay, w.opt.MaxActive = 2, 1
	for _, id := range ids {
		w.prompt(prompts.Prompt{ID: id})
	}
	w.service.down = always(lostError(), callCreate)
	w.passes()
	w.service.down = nil
	w.after(time.Hour)
	w.none("b")
	w.decides("drop", "a")
	w.passes()
	w.has("b", journal.Active)
	w.after(turn)
	w.waitsFor("c", WhyPerDay, journal.Pending)
}

// TestClockSetBack: the queue does not wait for as long as the clock was ahead.
func TestClockSetBack(t *testing.T) {
	w := newWorld(t)
	w.opt.MaxPerDay = 2
	for _, id := range ids {
		w.prompt(prompts.Prompt{ID: id})
	}
	w.passes()
	w.clock = w.clock.Add(-365 * day)
	if r := w.passes(); r.Created > 0 {
		t.Error("two in a day, and it was no day since")
	}
	w.after(time.Minute)
	if r := w.after(day - time.Minute); r.Created != 2 {
		t.Errorf("%d created a day later", r.Created)
	}
}

// TestProjectWaits: after a refusal for a time nothing else of the project is sent, by
// any process; other projects go on.
func TestProjectWaits(t *testing.T) {
	w := newWorld(t)
	for _, id := range ids {
		w.prompt(prompts.Prompt{ID: id})
	}
	w.prompt(prompts.Prompt{ID: "other", Project: "prj_b"})
	w.service.down = func(call, project string) error {
		if call == callCreate && project == "prj_a" {
			return throttled(30 * time.Minute)
		}
		return nil
	}
	w.passes()
	w.queue = nil
	w.after(29 * time.Minute)
	if n := w.service.calls[callCreate]; n != 2 {
		t.Errorf("%d creates", n)
	}
	w.has("other", journal.Completed)
	p := w.waitsFor("b", WhyProject, journal.Pending)
	if !p.Until.Equal(start.Add(30*time.Minute)) || !strings.Contains(p.Reason, "429") {
		t.Errorf("%+v", p)
	}
	w.waitsFor("a", WhyRetry, journal.Pending)
	w.service.down = nil
	w.after(time.Minute)
	for _, id := range ids {
		w.has(id, journal.Active)
	}
}

// TestRetriesSlowDown: the time between tries grows from ten seconds to five minutes.
func TestRetriesSlowDown(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a"})
	w.service.down = always(notSentError())
	var waits []time.Duration
	for range 8 {
		w.passes()
		job := w.has("a", journal.Pending)
		waits = append(waits, job.Next.Sub(w.clock))
		w.clock = job.Next
	}
	want := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute, 5 * time.Minute}
	if !slices.Equal(waits, want) {
		t.Errorf("waits %v", waits)
	}
	w.service.down = nil
	w.passes()
	if job := w.has("a", journal.Active); job.Refusals != 0 || !job.Blocked.Before(w.clock.Add(time.Second)) {
		t.Errorf("%+v", job)
	}
}

// TestJudge: what each error of the client means for a create or a follow-up.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		err      error
		want     verdict
		answered bool
	}{
		{nil, accepted, true}, {notSentError(), postponed, false}, {lostError(), inDoubt, false}, {errKilled, inDoubt, false},
		{answer(200), inDoubt, false}, {answer(302), inDoubt, false}, {answer(408), inDoubt, false}, {answer(500), inDoubt, false}, {answer(502), inDoubt, false},
		{answer(400), rejected, true}, {answer(409), rejected, true}, {answer(413), rejected, true}, {answer(422), rejected, true},
		{answer(401), unauthorized, true}, {answer(403), unauthorized, true},
		{answer(402), postponed, true}, {answer(404), postponed, true}, {answer(405), postponed, true}, {answer(407), postponed, true}, {answer(425), postponed, true}, {answer(429), postponed, true},
		{fmt.Errorf("wrapped: %w", notSentError()), postponed, false},
		{&docsapi.Error{Outcome: docsapi.Permanent, Err: docsapi.ErrNotSent}, postponed, false},
	} {
		if got := judge(tc.err); got != tc.want || isAnswered(tc.err) != tc.answered {
			t.Errorf("%v: %s, answered %v", tc.err, got, isAnswered(tc.err))
		}
	}
}
