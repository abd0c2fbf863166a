package jobs

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// inState returns a world whose prompt a has a job in a state, put there as it
// would come there.
func inState(t *testing.T, state journal.State) *world {
	w := newWorld(t)
	body := map[journal.State]string{journal.Failed: "fails", journal.Archived: "archives", journal.Active: "slow", journal.Lost: "slow"}[state]
	w.prompt(prompts.Prompt{ID: "a", Body: body})
	switch state {
	case journal.Pending:
		w.service.down = always(throttled(time.Hour), callCreate)
	case journal.Rejected:
		w.service.down = always(answer(400), callCreate)
	case journal.Unknown:
		w.service.down = always(lostError(), callCreate)
	case journal.Held, journal.Cancelled:
		decide := map[journal.State]func() (journal.Job, error){
			journal.Held:      func() (journal.Job, error) { return w.operator().Hold(t.Context(), "a", w.found()) },
			journal.Cancelled: func() (journal.Job, error) { return w.operator().Cancel(t.Context(), "a", w.found()) },
		}[state]
		if _, err := decide(); err != nil {
			t.Fatal(err)
		}
	case journal.Submitting:
		w.failing(callCreate, 1, killedBefore)
	case journal.Expired:
		w.prompt(prompts.Prompt{ID: "a", Expires: start.Add(time.Second)})
		w.service.down = always(throttled(time.Minute), callCreate)
	}
	w.pass()
	for range 5 {
		if state == journal.Lost {
			w.service.jobs[0].gone = true
		}
		if w.job("a").State != state && !w.on.killed() {
			w.after(5 * time.Minute)
		}
	}
	w.has("a", state)
	w.faults, w.service.down = nil, nil
	return w
}

var everyState = []journal.State{
	journal.Pending, journal.Submitting, journal.Active, journal.Completed, journal.Failed, journal.Archived,
	journal.Rejected, journal.Unknown, journal.Held, journal.Cancelled, journal.Expired, journal.Lost,
}

// TestDecisions: what each decision does to a job in each state, and that it
// refuses the others with a word on why.
func TestDecisions(t *testing.T) {
	type decision func(w *world) (journal.Job, error)
	ends := map[journal.State]journal.State{}
	for _, s := range everyState {
		if s.Ended() {
			ends[s] = journal.Pending
		}
	}
	for name, tc := range map[string]struct {
		decide decision
		leads  map[journal.State]journal.State // where the newest job is then
	}{
		"hold": {func(w *world) (journal.Job, error) { return w.operator().Hold(w.Context(), "a", w.found()) },
			map[journal.State]journal.State{journal.Pending: journal.Held}},
		"release": {func(w *world) (journal.Job, error) { return w.operator().Release(w.Context(), "a", w.found()) },
			map[journal.State]journal.State{journal.Held: journal.Pending, journal.Pending: journal.Pending}},
		"cancel": {func(w *world) (journal.Job, error) { return w.operator().Cancel(w.Context(), "a", w.found()) },
			map[journal.State]journal.State{journal.Pending: journal.Cancelled, journal.Held: journal.Cancelled, journal.Active: journal.Cancelled, journal.Unknown: journal.Cancelled}},
		"retry": {func(w *world) (journal.Job, error) { return w.operator().Retry(w.Context(), "a", w.found()) },
			with(ends, journal.Unknown, journal.Pending)},
		"resolve --job-id": {func(w *world) (journal.Job, error) {
			return w.operator().Resolve(w.Context(), "a", Answer{JobID: "job-7"}, w.found())
		}, map[journal.State]journal.State{journal.Unknown: journal.Active}},
		"resolve --resubmit": {func(w *world) (journal.Job, error) {
			return w.operator().Resolve(w.Context(), "a", Answer{Resubmit: true}, w.found())
		}, map[journal.State]journal.State{journal.Unknown: journal.Pending}},
		"resolve --drop": {func(w *world) (journal.Job, error) {
			return w.operator().Resolve(w.Context(), "a", Answer{Drop: true}, w.found())
		},
			map[journal.State]journal.State{journal.Unknown: journal.Cancelled}},
	} {
		for _, from := range everyState {
			w := inState(t, from)
			before := w.job("a")
			job, err := tc.decide(w)
			to, can := tc.leads[from]
			switch {
			case can && (err != nil || job.State != to || w.job("a").State != to):
				t.Errorf("%s of a job that is %s: %+v, %v", name, from, job, err)
			case !can && (!errors.Is(err, ErrRefused) || w.job("a").Version != before.Version || w.job("a").Seq != before.Seq):
				t.Errorf("%s of a job that is %s: %v", name, from, err)
			case can && len(w.memory.events[job.Seq]) == 0:
				t.Errorf("%s of a job that is %s left no event", name, from)
			}
		}
	}
}

func with(m map[journal.State]journal.State, key, value journal.State) map[journal.State]journal.State {
	out := map[journal.State]journal.State{key: value}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// TestDecisionsBeforeAJob: a prompt that was never begun can be held and cancelled.
func TestDecisionsBeforeAJob(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a", OnUnknown: prompts.Resubmit})
	w.prompt(prompts.Prompt{ID: "b"})
	if _, err := w.operator().Hold(t.Context(), "a", w.found()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.operator().Cancel(t.Context(), "b", w.found()); err != nil {
		t.Fatal(err)
	}
	w.passes()
	w.waitsFor("a", WhyOperator, journal.Held)
	w.has("b", journal.Cancelled)
	if len(w.service.jobs) > 0 {
		t.Fatal("it was sent")
	}
	if _, err := w.operator().Release(t.Context(), "a", w.found()); err != nil {
		t.Fatal(err)
	}
	w.passes()
	if job := w.has("a", journal.Active); !job.Resubmit || job.Attempt != 1 {
		t.Errorf("%+v", job)
	}
	if _, err := w.operator().Hold(t.Context(), "nobody", w.found()); !errors.Is(err, journal.ErrNoJob) {
		t.Error(err)
	}
}

// TestResolve says what was found, and the job goes on from there.
func TestResolve(t *testing.T) {
	w := inState(t, journal.Unknown)
	at, err := w.service.CreateJob(t.Context(), "prj_a", "slow") // it had been accepted
	if err != nil {
		t.Fatal(err)
	}
	job, err := w.operator().Resolve(t.Context(), "#1", Answer{JobID: at.ID}, w.found())
	if err != nil || job.JobID != at.ID || job.InDoubt || job.Reason != "" {
		t.Fatalf("%+v, %v", job, err)
	}
	w.after(5 * time.Hour)
	w.has("a", journal.Completed)

	w = inState(t, journal.Unknown)
	w.prompt(prompts.Prompt{ID: "b"})
	w.passes()
	for _, id := range []string{w.job("b").JobID, " x", "a\nb"} {
		if _, err := w.operator().Resolve(t.Context(), "a", Answer{JobID: id}, w.found()); !errors.Is(err, ErrRefused) {
			t.Errorf("id %q: %v", id, err)
		}
	}
	if _, err := w.operator().Resolve(t.Context(), "a", Answer{}, w.found()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--resubmit") {
		t.Error(err)
	}
	job, err = w.operator().Resolve(t.Context(), "1", Answer{Resubmit: true}, w.found())
	if err != nil || job.Attempt != 2 || job.Resubmit {
		t.Errorf("%+v, %v", job, err)
	}
	w.passes()
	if job := w.has("a", journal.Active); job.Attempt != 2 {
		t.Errorf("%+v", job)
	}
	if old := w.memory.jobs[1]; old.State != journal.Cancelled || !old.InDoubt {
		t.Errorf("%+v", old)
	}
}

// TestResolveAMessage says what became of it.
func TestResolveAMessage(t *testing.T) {
	for name, tc := range map[string]struct {
		answer Answer
		texts  []string
	}{
		"it is there":     {Answer{JobID: "job-1"}, []string{"do a", "two"}},
		"it is not there": {Answer{Resubmit: true}, []string{"do a", "one", "two"}},
		"go on without":   {Answer{Drop: true}, []string{"do a", "two"}},
	} {
		w := one(t, prompts.Prompt{FollowUps: []string{"one", "two"}})
		w.service.down = always(lostError(), callMessage)
		w.after(turn)
		w.service.down = nil
		if p := w.waitsFor("a", WhyOperator, journal.Unknown); !strings.Contains(p.Reason, "--job-id job-1") {
			t.Error(p.Reason)
		}
		if _, err := w.operator().Resolve(t.Context(), "a", Answer{JobID: "job-2"}, w.found()); !errors.Is(err, ErrRefused) {
			t.Errorf("another job's id: %v", err)
		}
		if _, err := w.operator().Retry(t.Context(), "a", w.found()); !errors.Is(err, ErrRefused) {
			t.Errorf("retry: %v", err)
		}
		if _, err := w.operator().Resolve(t.Context(), "a", tc.answer, w.found()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for range 60 {
			w.after(15 * time.Second)
		}
		w.has("a", journal.Completed)
		if got := w.service.jobs[0].texts; !slices.Equal(got, tc.texts) || len(w.service.jobs) != 1 {
			t.Errorf("%s: the job got %q", name, got)
		}
	}
}

// TestRetry sends the file as it is now, under another attempt, and only of the
// newest job.
func TestRetry(t *testing.T) {
	w := inState(t, journal.Failed)
	w.prompt(prompts.Prompt{ID: "a", Body: "mended", OnUnknown: prompts.Resubmit})
	job, err := w.operator().Retry(t.Context(), "a", w.found())
	if err != nil || job.Attempt != 2 || !job.Resubmit {
		t.Fatalf("%+v, %v", job, err)
	}
	if _, err := w.operator().Retry(t.Context(), "1", w.found()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "job 2") {
		t.Error(err)
	}
	w.passes()
	w.after(turn)
	if job := w.has("a", journal.Completed); job.Text != "mended" || w.memory.jobs[1].State != journal.Failed {
		t.Errorf("%+v", job)
	}
	w.remove("a")
	if _, err := w.operator().Retry(t.Context(), "a", w.found()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no valid file") {
		t.Error(err)
	}
}

func TestFind(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "2"})
	w.prompt(prompts.Prompt{ID: "b"})
	w.passes()
	for ref, seq := range map[string]int64{"2": 1, "b": 2, "#2": 2, "1": 1, "#1": 1} {
		if job, err := Find(t.Context(), w.journal, ref); err != nil || job.Seq != seq || job.Text == "" {
			t.Errorf("%s is job %+v, %v", ref, job, err)
		}
	}
	for _, ref := range []string{"", "c", "3", "#", "#b", "-1"} {
		if _, err := Find(t.Context(), w.journal, ref); !errors.Is(err, journal.ErrNoJob) {
			t.Errorf("%q: %v", ref, err)
		}
	}
}

// racing is a journal in which somebody is always faster.
type racing struct{ Journal }

func (r racing) Job(ctx ctxt, seq int64) (journal.Job, error) {
	job, err := r.Journal.Job(ctx, seq)
	if err == nil {
		_, err = r.Journal.Apply(ctx, journal.Change{Job: job, From: job.State})
	}
	return job, err
}

// TestOperatorIsTooSlow: the queue has moved the job on meanwhile.
func TestOperatorIsTooSlow(t *testing.T) {
	w := inState(t, journal.Unknown)
	_, err := NewOperator(racing{w.journal}, w.now).Resolve(t.Context(), "a", Answer{Drop: true}, w.found())
	if !errors.Is(err, ErrRefused) || !errors.Is(err, journal.ErrRaced) || !strings.Contains(err.Error(), "try again") {
		t.Error(err)
	}
	w.has("a", journal.Unknown)
}
