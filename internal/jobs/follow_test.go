package jobs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// one is a world whose prompt was just accepted.
func one(t *testing.T, p prompts.Prompt) *world {
	w := newWorld(t)
	p.ID = "a"
	w.prompt(p)
	w.passes()
	w.has("a", journal.Active)
	return w
}

// TestEnds: the state and the result of each final status. A job that failed gets no follow-ups.
func TestEnds(t *testing.T) {
	for body, tc := range map[string]struct {
		state     journal.State
		result    string
		link      string
		followUps []string
	}{
		"do it":     {journal.Completed, "pr", "https://example.com/pr/job-1", nil},
		"no change": {journal.Completed, "no_pr", "", nil},
		"fails":     {journal.Failed, "failed", "", []string{"one"}},
		"archives":  {journal.Archived, "archived", "", nil},
	} {
		w := one(t, prompts.Prompt{Body: body, FollowUps: tc.followUps})
		if r := w.after(turn); r.Ended != 1 || r.Following != 0 {
			t.Errorf("%s: %+v", body, r)
		}
		job := w.has("a", tc.state)
		if job.Result() != tc.result || job.PRLink != tc.link || !job.Ended.Equal(w.clock) || !job.Next.IsZero() ||
			job.Model != "m1" || job.Repository != "acme/docs" || job.Ref != "main" || !job.Created.Equal(start) ||
			job.Reason != map[bool]string{true: "no credit"}[body == "fails"] || job.JobID != "job-1" || w.memory.finished["prj_a "+tc.result] != 1 {
			t.Errorf("%s: %+v, counted %v", body, job, w.memory.finished)
		}
		w.events(string(tc.state))
		w.after(time.Hour)
		w.calls(callRead, 1)
		w.calls(callMessage, 0)
	}
}

// TestPollsSlowDown: the time between reads grows to five minutes, and no job is read early.
func TestPollsSlowDown(t *testing.T) {
	w := one(t, prompts.Prompt{Body: "slow"})
	var waits []time.Duration
	for range 12 {
		job := w.has("a", journal.Active)
		waits = append(waits, job.Next.Sub(w.clock))
		reads := w.service.calls[callRead]
		w.after(waits[len(waits)-1] - time.Microsecond)
		if w.service.calls[callRead] != reads {
			t.Fatal("read early")
		}
		r := w.after(time.Microsecond)
		w.calls(callRead, reads+1)
		if r.Following != 1 || !r.Next.Equal(w.job("a").Next) {
			t.Fatalf("%+v", r)
		}
	}
	want := []time.Duration{15 * time.Second, 22500 * time.Millisecond, 33750 * time.Millisecond}
	if !slices.Equal(waits[:3], want) || waits[11] != 5*time.Minute {
		t.Errorf("waits %v", waits)
	}
}

// TestReadAfterAJump: a job that was read by a clock that was hours ahead is read again once the clock is right.
func TestReadAfterAJump(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, 2 * time.Hour} {
		w := one(t, prompts.Prompt{Body: "slow"})
		w.after(ahead)
		w.calls(callRead, 1)
		w.after(turn - ahead)
		w.calls(callRead, 2)
	}
}

// TestReadByAWrongClock: a read that shows the clock to be wrong changes nothing.
func TestReadByAWrongClock(t *testing.T) {
	w := one(t, prompts.Prompt{})
	before := w.job("a")
	w.service.down = always(&docsapi.ClockError{Here: start.Add(2 * time.Hour), There: start}, callRead)
	w.clock = start.Add(2 * time.Hour)
	if _, err := w.pass(); err == nil {
		t.Error("the pass has no error")
	}
	if diff := cmp.Diff(before, w.job("a")); diff != "" {
		t.Error(diff)
	}
}

// TestLost: a job is lost after it was not found for ten minutes, and not before.
func TestLost(t *testing.T) {
	w := one(t, prompts.Prompt{Body: "slow"})
	at := w.service.jobs[0]
	at.gone = true
	for range 18 {
		w.after(30 * time.Second)
	}
	if job := w.has("a", journal.Active); job.Missing.IsZero() || !strings.Contains(job.Reason, "has not known it") {
		t.Errorf("%+v", job)
	}
	at.gone, at.taken[0] = false, w.clock // it is there again, at work
	w.after(5 * time.Minute)
	if job := w.has("a", journal.Active); !job.Missing.IsZero() || job.Reason != "" {
		t.Errorf("%+v", job)
	}
	at.gone = true
	for range 8 {
		w.after(5 * time.Minute)
	}
	job := w.has("a", journal.Lost)
	if job.Result() != "lost" || w.memory.finished["prj_a lost"] != 1 {
		t.Errorf("%+v", job)
	}
	w.events("lost")
}

// TestReadsThatFail are repeated, more and more slowly, and later if the service says so. A 404
// that the service did not write says nothing about the job.
func TestReadsThatFail(t *testing.T) {
	notOurs := &docsapi.Error{Status: 404, Outcome: docsapi.Permanent}
	for _, err := range []error{answer(500), answer(400), lostError(), notSentError(), notOurs} {
		w := one(t, prompts.Prompt{})
		w.service.down = always(err, callRead)
		for range 20 {
			w.after(5 * time.Minute)
		}
		if n := w.service.calls[callRead]; n < 15 || n > 20 {
			t.Errorf("%v: %d reads", err, n)
		}
		w.says(w.has("a", journal.Active).Reason, "the last read failed: ")
		w.service.down = nil
		w.after(5 * time.Minute)
		w.has("a", journal.Completed)
	}
	w := one(t, prompts.Prompt{})
	w.service.down = always(throttled(40*time.Minute), callRead)
	w.after(turn)
	if job := w.job("a"); !job.Next.Equal(w.clock.Add(40 * time.Minute)) {
		t.Errorf("%+v", job)
	}
}

// TestStalled: a stalled job is shown as such, and still read. A status that is not known means
// that the job is at work.
func TestStalled(t *testing.T) {
	w := one(t, prompts.Prompt{})
	w.service.status = "thinking"
	for n := range 36 {
		w.after(5 * time.Minute)
		if job := w.has("a", journal.Active); job.Stalled(w.clock) != (n >= 24) || !job.SeenActive {
			t.Errorf("after %v: %+v", w.clock.Sub(start), job)
		}
	}
	w.service.status = ""
	w.after(5 * time.Minute)
	if job := w.has("a", journal.Completed); job.Stalled(w.clock) {
		t.Error("stalled at its end")
	}
}

// TestWhatIsNotSaidStays: a later answer without a link does not remove it.
func TestWhatIsNotSaidStays(t *testing.T) {
	job := journal.Job{Status: "active", Ref: "main", PRLink: "https://example.com/1", Created: start}
	describe(&job, docsapi.Job{Status: "completed", Model: "m2"})
	want := journal.Job{Status: "completed", Ref: "main", Model: "m2", PRLink: "https://example.com/1", Created: start}
	if diff := cmp.Diff(want, job); diff != "" {
		t.Error(diff)
	}
}

// TestFollowUps are sent one after the other, each when the job is completed, and the job
// ends only after the last.
func TestFollowUps(t *testing.T) {
	w := one(t, prompts.Prompt{FollowUps: []string{"one", "two"}})
	for range 40 {
		if w.after(15 * time.Second); w.job("a").State != journal.Active {
			break
		}
	}
	job := w.has("a", journal.Completed)
	at := w.service.jobs[0]
	if !slices.Equal(at.texts, []string{"do a", "one", "two"}) || job.Sent != 2 || w.memory.finished["prj_a pr"] != 1 {
		t.Errorf("%q, %+v", at.texts, job)
	}
	for i, taken := range at.taken[1:] {
		if apart := taken.Sub(at.taken[i]); apart < turn {
			t.Errorf("message %d came %v after the one before", i+1, apart)
		}
	}
	w.events("completed")
}

// TestCompletedRightAfterAMessage: that may be the status from before it. It counts after
// two reads half a minute later.
func TestCompletedRightAfterAMessage(t *testing.T) {
	w := one(t, prompts.Prompt{FollowUps: []string{"one"}})
	w.service.status = docsapi.StatusCompleted
	w.after(turn)
	taken := w.clock
	if job := w.job("a"); job.Sent != 1 || job.State != journal.Active {
		t.Fatalf("%+v", job)
	}
	var reads []time.Duration
	for w.job("a").State == journal.Active {
		before := w.service.calls[callRead]
		w.after(time.Second)
		if w.service.calls[callRead] > before {
			reads = append(reads, w.clock.Sub(taken))
		}
	}
	if n := len(reads); n < 3 || reads[0] >= doneAfter || reads[n-2] < doneAfter {
		t.Errorf("completed after reads at %v", reads)
	}
}

// TestFollowUpRefused: the job has ended, and its work stands.
func TestFollowUpRefused(t *testing.T) {
	w := one(t, prompts.Prompt{FollowUps: []string{"one", "two"}})
	w.service.down = always(answer(409), callMessage)
	w.after(turn)
	job := w.has("a", journal.Completed)
	w.says(job.Reason, "follow-up 1 of 2 was rejected")
	if job.Sent != 0 || job.Sending || job.Result() != "pr" || w.memory.finished["prj_a pr"] != 1 {
		t.Errorf("%+v", job)
	}
	w.events("completed")
}

// TestFollowUpThatWaits: a follow-up that is refused for a time is sent later, once.
func TestFollowUpThatWaits(t *testing.T) {
	for _, err := range []error{throttled(20 * time.Minute), notSentError(), answer(404), answer(401), answer(403)} {
		w := one(t, prompts.Prompt{FollowUps: []string{"one"}})
		key := "first"
		w.opt.KeyMark = func() string { return key }
		w.queue = nil
		w.service.down = always(err, callMessage)
		w.after(turn)
		if job := w.has("a", journal.Active); job.Sending || job.Sent != 0 || w.service.calls[callMessage] != 1 {
			t.Errorf("%v: %+v", err, job)
		}
		w.service.down = nil
		key = "second"
		w.after(20 * time.Minute)
		w.after(5 * time.Minute)
		if job := w.job("a"); job.Sent != 1 || w.service.got("job-1", "one") != 1 {
			t.Errorf("%v: %+v", err, job)
		}
	}
}

// TestFollowUpsOfOtherProjects do not wait for a project that is refused for a time.
func TestFollowUpsOfOtherProjects(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a", FollowUps: []string{"one"}})
	w.prompt(prompts.Prompt{ID: "b", FollowUps: []string{"one"}})
	w.passes()
	w.prompt(prompts.Prompt{ID: "c", Project: "prj_b", FollowUps: []string{"one"}})
	w.service.down = func(call, project string) error {
		if call == callMessage && project == "prj_a" {
			return throttled(20 * time.Minute)
		}
		return nil
	}
	w.passes()
	w.after(turn)
	if sent := w.job("c").Sent; sent != 1 || w.service.calls[callMessage] != 2 {
		t.Errorf("%d of prj_b sent, %d messages", sent, w.service.calls[callMessage])
	}
}
