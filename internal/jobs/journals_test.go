package jobs

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/state"
)

var _ jobStore = (*state.DB)(nil)

// TestJournals: the journal in memory behaves as the one in the state, so what these tests
// show holds for the state.
func TestJournals(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		db, err := state.OpenExisting(t.TempDir() + "/none") // in memory
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		mem := newMemory()
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			changes := drawChanges(rt, mem)
			want, wantErr := mem.Apply(rt.Context(), changes...)
			got, gotErr := db.Apply(rt.Context(), changes...)
			for _, sentinel := range []error{nil, journal.ErrRaced, journal.ErrDuplicate} {
				if errors.Is(wantErr, sentinel) != errors.Is(gotErr, sentinel) {
					rt.Fatalf("%v in memory, %v in the state", wantErr, gotErr)
				}
			}
			wantTaken, _ := errors.AsType[*journal.TakenError](wantErr)
			gotTaken, _ := errors.AsType[*journal.TakenError](gotErr)
			if diff := cmp.Diff(wantTaken, gotTaken); diff != "" {
				rt.Fatalf("%v in memory, %v in the state", wantErr, gotErr)
			}
			if diff := cmp.Diff(want, got); wantErr == nil && diff != "" {
				rt.Fatalf("Apply (-memory +state):\n%s", diff)
			}
			sameJournals(rt, mem, db)
		}
	})
}

func drawChanges(t *rapid.T, mem *memory) (changes []journal.Change) {
	states := []journal.State{
		journal.Pending, journal.Submitting, journal.Active, journal.Completed, journal.Failed, journal.Unknown,
	}
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		c := journal.Change{
			At:    start.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "at")) * time.Hour),
			Cause: rapid.SampledFrom([]string{"", "why"}).Draw(t, "cause"),
		}
		job := journal.Job{
			Prompt:  rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "prompt"),
			Try:     rapid.IntRange(1, 3).Draw(t, "try"),
			Project: rapid.SampledFrom([]string{"prj_a", "prj_b"}).Draw(t, "project"),
			State:   rapid.SampledFrom(states).Draw(t, "state"),
			JobID:   rapid.SampledFrom([]string{"", "j", "k"}).Draw(t, "id"),
			Text:    rapid.SampledFrom([]string{"", "text"}).Draw(t, "text"), Next: c.At,
		}
		if job.Text != "" && rapid.Bool().Draw(t, "follow-ups") {
			job.FollowUps = []string{"one"}
		}
		if seq := int64(rapid.IntRange(0, 4).Draw(t, "seq")); job.Prompt != "" && seq > 0 {
			old := mem.jobs[seq]
			job.Seq, job.Version, c.From = seq, old.Version+int64(rapid.IntRange(-1, 0).Draw(t, "stale")), old.State
			if old.Prompt != "" {
				job.Prompt, job.Try = old.Prompt, old.Try
			}
			if rapid.IntRange(0, 5).Draw(t, "wrong") == 0 {
				c.From = rapid.SampledFrom(states).Draw(t, "from")
			}
		}
		if job.Prompt != "" {
			c.Job = job
		}
		if rapid.IntRange(0, 3).Draw(t, "queue") == 0 {
			queue := mem.queue
			queue.Unknowns = rapid.IntRange(0, 3).Draw(t, "unknowns")
			queue.Paused = rapid.SampledFrom([]journal.Pause{"", journal.PausedOperator}).Draw(t, "paused")
			queue.Version += int64(rapid.IntRange(-1, 0).Draw(t, "stale queue"))
			c.Queue = &queue
		}
		if rapid.IntRange(0, 3).Draw(t, "note") == 0 {
			c.Event = &journal.Event{Kind: "failed", At: c.At, Body: []byte("{}")}
		}
		changes = append(changes, c)
	}
	return changes
}

func sameJournals(t *rapid.T, mem *memory, db *state.DB) {
	must := func(what string, want, got any, err1, err2 error) {
		if err1 != nil || err2 != nil {
			t.Fatalf("%s: %v, %v", what, err1, err2)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s (-memory +state):\n%s", what, diff)
		}
	}
	ctx := t.Context()
	want, err1 := mem.Jobs(ctx)
	got, err2 := db.Jobs(ctx)
	must("Jobs", want, got, err1, err2)
	for _, job := range append(want, journal.Job{}) {
		if job.Seq > 0 {
			one, err1 := mem.Job(ctx, job.Seq)
			other, err2 := db.Job(ctx, job.Seq)
			must("Job", one, other, err1, err2)
		}
		events, err := db.History(ctx, job.Seq)
		must("History", mem.history[job.Seq], events, err, nil)
	}
	q1, err1 := mem.Queue(ctx)
	q2, err2 := db.Queue(ctx)
	must("Queue", q1, q2, err1, err2)
	notes, err := db.Events(ctx, 1000)
	must("Outbox", len(mem.events), len(notes), err, nil)
	counts, err := db.Counters(ctx)
	finished, priceless := 0, int64(0)
	for _, c := range counts {
		if c.Name == "agent_jobs_cost_unknown_total" {
			priceless += c.Value
			continue
		}
		finished++
		priceless -= c.Value
		pairs := state.Pairs(c.Labels)
		must(c.Labels, int64(mem.finished[pairs[1]+" "+pairs[3]]), c.Value, nil, nil)
	}
	must("Counters", len(mem.finished), finished, err, nil)
	must("jobs without a cost", int64(0), priceless, nil, nil)
}
