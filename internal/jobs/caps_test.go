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
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/view"
)

// TestCapsOverAnyDay: the caps hold over any 24 hours and at any time, over all projects,
// however slowly the service answers.
func TestCapsOverAnyDay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.opt.MaxPerDay = rapid.IntRange(1, 5).Draw(t, "per day")
		w.opt.MaxActive = rapid.IntRange(1, 4).Draw(t, "active")
		// No job costs more than estimated, so the truth is never beyond the cap.
		w.opt.JobCost, w.opt.MaxCostPerDay = 1, float64(rapid.IntRange(10, 60).Draw(t, "cost"))/10
		all := rapid.SliceOfN(rapid.IntRange(0, 100), 20, 20).Draw(t, "costs")
		cost := func(j *remote) float64 { return float64(all[slices.Index(w.service.jobs, j)]) / 100 }
		w.service.costs = func(j *remote) docsapi.JobCost {
			switch c := cost(j); {
			case w.service.now().Before(j.taken[0].Add(turn)):
				return docsapi.JobCost{Amount: new(c / 2), Unit: "USD"} // so far
			case c < 0.2:
				return docsapi.JobCost{} // it is not reported
			default:
				return docsapi.JobCost{Amount: &c, Unit: "USD"}
			}
		}
		slow := time.Duration(rapid.IntRange(0, 50).Draw(t, "seconds to answer")) * time.Second
		w.service.down = func(call, _ string) error {
			if call == callCreate {
				w.clock = w.clock.Add(slow)
			}
			return nil
		}
		for i := range 20 {
			w.prompt(prompts.Prompt{
				ID: fmt.Sprint(i), Project: rapid.SampledFrom([]string{"prj_a", "prj_b"}).Draw(t, "project"),
				Body: fmt.Sprintf("do %d%s", i, rapid.SampledFrom([]string{"", " slow", " fails"}).Draw(t, "how")),
			})
		}
		for len(w.service.jobs) < 12 {
			if rapid.Bool().Draw(t, "another process") {
				w.queue = nil
			}
			w.after(time.Duration(rapid.IntRange(1, 400).Draw(t, "minutes")) * time.Minute)
			atWork := 0
			for _, j := range w.service.jobs {
				if w.service.show(j).Status == docsapi.StatusActive {
					atWork++
				}
			}
			if most := w.service.mostIn24Hours(); atWork > w.opt.MaxActive || most > w.opt.MaxPerDay {
				t.Fatalf("%d are at work, %d in 24 hours", atWork, most)
			}
			for i, from := range w.service.jobs {
				sum := 0.0
				for _, to := range w.service.jobs[i:] {
					if to.taken[0].Sub(from.taken[0]) < day {
						sum += cost(to)
					}
				}
				if sum > w.opt.MaxCostPerDay+1e-6 {
					t.Fatalf("cost %v in 24 hours, at most %v", sum, w.opt.MaxCostPerDay)
				}
			}
		}
	})
}

func TestCapReasons(t *testing.T) {
	w := newWorld(t, ids...)
	w.opt.MaxPerDay, w.opt.MaxActive = 3, 2
	w.passes()
	w.waitsFor("c", whyActive, journal.Pending, "DOCGAUGE_MAX_ACTIVE_JOBS is 2")
	w.used(2, 2)
	w.after(turn)
	w.used(3, 1)
	p := w.waitsFor("d", whyPerDay, journal.Pending, "DOCGAUGE_MAX_JOBS_PER_DAY is 3")
	if !p.Until.Equal(start.Add(day)) {
		t.Error(p.Until)
	}
	if w.clock = start.Add(day - time.Microsecond); w.passes().Created > 0 {
		t.Error("created before the day is over")
	}
	if r := w.after(time.Microsecond); r.Created != 2 {
		t.Errorf("%d created when it is", r.Created)
	}
	w.used(3, 2) // the first two were created yesterday
}

// TestCostCap: a job counts as the estimate until its end, then as what it cost, or as the estimate if
// that is unknown or it was given up. Jobs that cost less than the estimate make room at once.
func TestCostCap(t *testing.T) {
	w := newWorld(t, ids...)
	w.opt.JobCost, w.opt.MaxCostPerDay = 1, 2.5
	reported := map[string]*float64{"job-1": new(0.25), "job-2": nil, "job-3": new(1.5)}
	w.service.costs = func(j *remote) docsapi.JobCost {
		if w.service.now().Before(j.taken[0].Add(turn)) || reported[j.id] == nil {
			return docsapi.JobCost{}
		}
		return docsapi.JobCost{Amount: reported[j.id], Unit: "USD"}
	}
	w.passes() // a and b, at 1 each
	w.waitsFor("c", whyCost, journal.Pending,
		"2 jobs in 24 h cost 2, and another counts as 1 (DOCGAUGE_MAX_COST_PER_DAY is 2.5)")
	w.queue = nil // another process
	w.after(turn) // a cost 0.25, b is unknown: c may begin, at 1
	w.costs(2.25, "USD")
	p := w.waitsFor("d", whyCost, journal.Pending, "3 jobs in 24 h cost 2.25 USD")
	if !p.Until.Equal(start.Add(day)) {
		t.Error(p.Until)
	}
	w.after(turn) // c cost more than estimated
	w.costs(2.75, "USD")
	w.none("d")
	if w.clock = start.Add(day - time.Microsecond); w.passes().Created > 0 {
		t.Error("created before the day is over")
	}
	if r := w.after(time.Microsecond); r.Created != 1 { // a and b were created yesterday
		t.Errorf("%d created when it is", r.Created)
	}
}

// TestCostsOfDay: what counts, by unit.
func TestCostsOfDay(t *testing.T) {
	job := func(state journal.State, cost *float64, unit string) journal.Job {
		return journal.Job{JobID: "j", State: state, Cost: cost, CostUnit: unit, Charged: start}
	}
	usd := job(journal.Completed, new(0.1), "USD")
	for want, all := range map[string][]journal.Job{
		"0":          nil,
		"0.3 USD":    {usd, usd, usd},
		"0.5":        {job(journal.Submitting, nil, "")},
		"0.6 USD":    {usd, job(journal.Unknown, nil, "")},
		"0.7 USD":    {job(journal.Active, new(0.7), "USD")},
		"1.2 USD":    {usd, usd, job(journal.Cancelled, new(0.1), "USD"), job(journal.Lost, new(0.2), "USD")},
		"2 USD":      {job(journal.Failed, new(2.0), "USD")},
		"31 credits": {job(journal.Completed, new(30.0), "credits"), usd, usd},
	} {
		if cost, unit := CostOfDay(all, 0.5, start); costsOf(all, 0.5).String() != want ||
			strings.TrimSpace(fmt.Sprint(cost, " ", unit)) != want {
			t.Errorf("%v %s, want %s", cost, unit, want)
		}
	}
	if cost, _ := CostOfDay([]journal.Job{usd}, 0.5, start.Add(day)); cost != 0 {
		t.Errorf("yesterday counts %v", cost)
	}
}

// TestCostCapShown: the cap is used up once the rest is too little for another job, and costs beyond it are shown.
func TestCostCapShown(t *testing.T) {
	w := newWorld(t, ids[:2]...)
	w.opt.JobCost = 1
	w.passes()
	for most, want := range map[float64]float64{0: 2, 1: 2, 2: 2, 2.5: 2.5, 3: 2} {
		w.opt.MaxCostPerDay = most
		out := view.Snapshot{At: w.clock}
		if err := Show(t.Context(), w.opt, w.journal, nil, Prompts{}, &out); err != nil {
			t.Fatal(err)
		}
		if got := out.Queue.Caps[3]; got != (view.Cap{Name: "cost", Limit: most, Used: want}) {
			t.Errorf("%+v, want %v used", got, want)
		}
	}
}

// costs fails unless the jobs of the day count as so much.
func (w *world) costs(want float64, in string) {
	w.Helper()
	if cost, unit := CostOfDay(w.jobs(), w.opt.JobCost, w.clock); cost != want || unit != in {
		w.Errorf("cost %v %s, want %v %s", cost, unit, want, in)
	}
}

// used fails unless so many jobs count against the caps.
func (w *world) used(perDay, active int) {
	w.Helper()
	if d, a := Usage(w.jobs(), w.clock); d != perDay || a != active {
		w.Errorf("%d in a day and %d at work, want %d and %d", d, a, perDay, active)
	}
}

// TestWhatCountsPerDay: a create counts unless it is known to have been refused.
func TestWhatCountsPerDay(t *testing.T) {
	for _, tc := range []struct {
		err   error
		count int
	}{{throttled(0), 0}, {answer(400), 0}, {notSentError(), 0}, {answer(401), 0}, {lostError(), 1}, {nil, 1}} {
		w := newWorld(t, "a")
		w.opt.MaxPerDay = 1
		w.service.down = always(tc.err)
		w.passes()
		w.used(tc.count, tc.count)
	}
}

// TestGivenUpStillCounts: dropping a job in doubt makes room among the active jobs, not among the jobs of the day.
func TestGivenUpStillCounts(t *testing.T) {
	w := newWorld(t, ids...)
	w.opt.MaxPerDay, w.opt.MaxActive = 2, 1
	w.service.down = always(lostError(), callCreate)
	w.passes()
	w.service.down = nil
	w.after(time.Hour)
	w.none("b")
	w.decides("drop", "a")
	w.passes()
	w.has("b", journal.Active)
	w.after(turn)
	w.waitsFor("c", whyPerDay, journal.Pending)
}

// TestClockSetBack: the queue does not wait for as long as the clock was ahead.
func TestClockSetBack(t *testing.T) {
	w := newWorld(t, ids...)
	w.opt.MaxPerDay = 2
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
// any process; other projects continue.
func TestProjectWaits(t *testing.T) {
	w := newWorld(t, ids...)
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
	w.calls(callCreate, 2)
	w.has("other", journal.Completed)
	if p := w.waitsFor("b", whyProject, journal.Pending, "429"); !p.Until.Equal(start.Add(30 * time.Minute)) {
		t.Errorf("%+v", p)
	}
	w.waitsFor("a", whyRetry, journal.Pending)
	w.service.down = nil
	w.after(time.Minute)
	for _, id := range ids {
		w.has(id, journal.Active)
	}
}

// TestRetriesSlowDown: the time between tries grows from ten seconds to five minutes.
func TestRetriesSlowDown(t *testing.T) {
	w := newWorld(t, "a")
	w.service.down = always(notSentError())
	var waits []time.Duration
	for range 8 {
		w.passes()
		job := w.has("a", journal.Pending)
		waits = append(waits, job.Next.Sub(w.clock))
		w.clock = job.Next
	}
	if got := fmt.Sprint(waits); got != "[10s 20s 40s 1m20s 2m40s 5m0s 5m0s 5m0s]" {
		t.Error(got)
	}
	w.service.down = nil
	w.passes()
	if job := w.has("a", journal.Active); job.Refusals != 0 || !job.Blocked.Before(w.clock.Add(time.Second)) {
		t.Errorf("%+v", job)
	}
}

// TestJudge: what each error of the client means for a create or a follow-up.
func TestJudge(t *testing.T) {
	type sent struct {
		verdict  verdict
		answered bool
	}
	for want, errs := range map[sent][]error{
		{accepted, true}: {nil},
		{inDoubt, false}: {
			lostError(), context.Canceled, answer(200), answer(302), answer(408), answer(500), answer(502),
		},
		{rejected, true}:     {answer(400), answer(409), answer(413), answer(422)},
		{unauthorized, true}: {answer(401)},
		{forbidden, true}:    {answer(403)},
		{postponed, true}:    {answer(402), answer(404), answer(405), answer(407), answer(425), answer(429)},
		{postponed, false}: {
			notSentError(), fmt.Errorf("wrapped: %w", notSentError()),
			&docsapi.Error{Outcome: docsapi.Permanent, Err: docsapi.ErrNotSent},
		},
	} {
		for _, err := range errs {
			if got := (sent{judge(err), isAnswered(err)}); got != want {
				t.Errorf("%v: %+v, want %+v", err, got, want)
			}
		}
	}
}
