package jobs

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// inState returns a world whose prompt a has a job that came to a state.
func inState(t *testing.T, state journal.State) *world {
	w := newWorld(t)
	body := map[journal.State]string{
		journal.Failed: "fails", journal.Archived: "archives", journal.Active: "slow", journal.Lost: "slow",
	}[state]
	w.prompt(prompts.Prompt{ID: "a", Body: body})
	switch state {
	case journal.Pending:
		w.service.down = always(throttled(time.Hour), callCreate)
	case journal.Rejected:
		w.service.down = always(answer(400), callCreate)
	case journal.Unknown:
		w.service.down = always(lostError(), callCreate)
	case journal.Held:
		w.decides("hold", "a")
	case journal.Cancelled:
		w.decides("cancel", "a")
	case journal.Submitting:
		w.failing(callCreate, 1, faults.KilledBefore)
	case journal.Expired:
		w.prompt(prompts.Prompt{ID: "a", Expires: start.Add(time.Second)})
		w.service.down = always(throttled(time.Minute), callCreate)
	}
	w.pass()
	for range 5 {
		if state == journal.Lost {
			w.service.jobs[0].gone = true
		}
		if w.job("a").State != state && !w.on.Dead() {
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

// TestDecisions: what each decision does to a job in each state, or that it is refused.
func TestDecisions(t *testing.T) {
	type leads map[journal.State]journal.State // where the newest job is then
	retries := leads{journal.Unknown: journal.Pending}
	for _, s := range everyState {
		if s.Ended() {
			retries[s] = journal.Pending
		}
	}
	for decision, leads := range map[string]leads{
		"hold":    {journal.Pending: journal.Held},
		"release": {journal.Held: journal.Pending, journal.Pending: journal.Pending},
		"cancel": {
			journal.Pending: journal.Cancelled, journal.Held: journal.Cancelled,
			journal.Active: journal.Cancelled, journal.Unknown: journal.Cancelled,
		},
		"retry":    retries,
		"job-7":    {journal.Unknown: journal.Active},
		"resubmit": {journal.Unknown: journal.Pending},
		"drop":     {journal.Unknown: journal.Cancelled},
	} {
		for _, from := range everyState {
			w := inState(t, from)
			before := w.job("a")
			job, err := w.decide(decision, "a")
			to, can := leads[from]
			switch {
			case can && (err != nil || job.State != to || w.job("a").State != to):
				t.Errorf("%s of a job that is %s: %+v, %v", decision, from, job, err)
			case !can && (!errors.Is(err, ErrRefused) || !cmp.Equal(w.job("a"), before)):
				t.Errorf("%s of a job that is %s: %v", decision, from, err)
			case can && len(w.memory.history[job.Seq]) == 0:
				t.Errorf("%s of a job that is %s left no event", decision, from)
			}
		}
	}
}

// TestDecisionsBeforeAJob: a prompt that was never begun can be held and cancelled.
func TestDecisionsBeforeAJob(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a", Resubmit: true})
	w.prompt(prompts.Prompt{ID: "b"})
	w.prompt(prompts.Prompt{ID: "guides/b.md"})
	w.prompt(prompts.Prompt{ID: "guides/d.md"})
	w.decides("hold", "a")
	w.decides("cancel", "b")
	w.decides("cancel", "guides/b")
	w.decides("cancel", "d") // a name alone means the prompt
	w.passes()
	w.waitsFor("a", whyOperator, journal.Held)
	for _, id := range []string{"b", "guides/b.md", "guides/d.md"} {
		w.has(id, journal.Cancelled)
	}
	if len(w.service.jobs) > 0 {
		t.Fatal("it was sent")
	}
	w.decides("release", "a")
	w.passes()
	if job := w.has("a", journal.Active); !job.Resubmit || job.Try != 1 {
		t.Errorf("%+v", job)
	}
	if _, err := w.decide("hold", "no such"); !errors.Is(err, journal.ErrNoJob) {
		t.Error(err)
	}
}

// TestResolve: a job in doubt continues from the operator's answer.
func TestResolve(t *testing.T) {
	w := inState(t, journal.Unknown)
	at, err := w.service.CreateJob(t.Context(), "prj_a", "slow", "") // it had been accepted
	if err != nil {
		t.Fatal(err)
	}
	job, err := w.decide(at.ID, "#1")
	if err != nil || job.JobID != at.ID || job.InDoubt || job.Reason != "" {
		t.Fatalf("%+v, %v", job, err)
	}
	w.after(5 * time.Hour)
	w.has("a", journal.Completed)

	w = inState(t, journal.Unknown)
	w.prompt(prompts.Prompt{ID: "b"})
	w.passes()
	for _, id := range []string{w.job("b").JobID, " x", "a\nb"} {
		w.refuses(id, "a")
	}
	w.refuses("", "a", "--resubmit")
	job, err = w.decide("resubmit", "1")
	if err != nil || job.Try != 2 || job.Resubmit {
		t.Errorf("%+v, %v", job, err)
	}
	w.passes()
	if job := w.has("a", journal.Active); job.Try != 2 {
		t.Errorf("%+v", job)
	}
	if old := w.memory.jobs[1]; old.State != journal.Cancelled || !old.InDoubt {
		t.Errorf("%+v", old)
	}
}

// TestResolveAMessage: so does a job with a follow-up in doubt.
func TestResolveAMessage(t *testing.T) {
	for answer, texts := range map[string][]string{
		"job-1":    {"do a", "two"}, // it is there
		"resubmit": {"do a", "one", "two"},
		"drop":     {"do a", "two"},
	} {
		w := one(t, prompts.Prompt{FollowUps: []string{"one", "two"}})
		w.service.down = always(lostError(), callMessage)
		w.after(turn)
		w.service.down = nil
		w.waitsFor("a", whyOperator, journal.Unknown, "--job-id job-1")
		w.refuses("job-2", "a")
		w.refuses("retry", "a")
		w.decides(answer, "a")
		for range 60 {
			w.after(15 * time.Second)
		}
		w.has("a", journal.Completed)
		if got := w.service.jobs[0].texts; !slices.Equal(got, texts) || len(w.service.jobs) != 1 {
			t.Errorf("%s: the job got %q", answer, got)
		}
	}
}

// TestRetry: a retry sends the present content of the file, as another try, and works only for
// the newest job.
func TestRetry(t *testing.T) {
	w := inState(t, journal.Failed)
	w.prompt(prompts.Prompt{ID: "a", Body: "mended", Resubmit: true})
	job, err := w.decide("retry", "a")
	if err != nil || job.Try != 2 || !job.Resubmit {
		t.Fatalf("%+v, %v", job, err)
	}
	w.refuses("retry", "1", "job 2")
	w.passes()
	w.after(turn)
	if job := w.has("a", journal.Completed); job.Text != "mended" || w.memory.jobs[1].State != journal.Failed {
		t.Errorf("%+v", job)
	}
	w.remove("a")
	w.refuses("retry", "a", "no valid file")
}

func TestFind(t *testing.T) {
	w := newWorld(t, "2", "b", "guides/typos.md", "c.md", "guides/c.md")
	w.passes()
	for ref, seq := range map[string]int64{
		"2": 1, "b": 2, "#2": 2, "1": 1, "#1": 1, "typos": 5, "guides/typos": 5, "guides/c": 4,
	} {
		if job, err := Find(t.Context(), w.journal, ref); err != nil || job.Seq != seq || job.Text == "" {
			t.Errorf("%s is job %+v, %v", ref, job, err)
		}
	}
	for ref, hint := range map[string]string{
		"": "", "6": "", "#": "", "#b": "", "-1": "", "typos.md": "", "guides": "",
		"c":              "did you mean c.md or guides/c.md?",
		"guides/typo.md": "did you mean guides/typos.md?",
	} {
		_, err := Find(t.Context(), w.journal, ref)
		if !errors.Is(err, journal.ErrNoJob) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: %v", ref, err)
		}
	}
}

// racing is a journal in which another process is always faster.
type racing struct{ jobStore }

func (r racing) Job(ctx context.Context, seq int64) (journal.Job, error) {
	job, err := r.jobStore.Job(ctx, seq)
	if err == nil {
		_, err = r.jobStore.Apply(ctx, journal.Change{Job: job, From: job.State})
	}
	return job, err
}

// TestOperatorIsTooSlow: the queue has moved the job on since.
func TestOperatorIsTooSlow(t *testing.T) {
	w := inState(t, journal.Unknown)
	_, err := NewOperator(racing{w.journal}, w.now).Resolve(t.Context(), "a", Answer{Drop: true}, w.found())
	if !errors.Is(err, ErrRefused) || !errors.Is(err, journal.ErrRaced) || !strings.Contains(err.Error(), "try again") {
		t.Error(err)
	}
	w.has("a", journal.Unknown)
}
