package jobs

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// TestEventBody: the body of a notification, key by key.
func TestEventBody(t *testing.T) {
	w := one(t, prompts.Prompt{Title: "Ask"})
	w.after(turn)
	var got map[string]any
	if err := json.Unmarshal(w.memory.events[0].Body, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"event": "completed", "at": "2026-10-05T13:39:11.123456Z",
		"text": "prompt a is completed: https://example.com/pr/job-1",
		"job": map[string]any{
			"seq": 1.0, "prompt": "a", "path": "a.md", "project": "prj_a", "title": "Ask", "attempt": 1.0,
			"state": "completed", "result": "pr", "job_id": "job-1", "pr_link": "https://example.com/pr/job-1",
			"repository": "acme/docs", "ref": "main", "model": "m1",
			"begun_at": "2026-10-05T13:37:11.123456Z", "created_at": "2026-10-05T13:37:11.123456Z",
			"ended_at": "2026-10-05T13:39:11.123456Z", "status": "completed", "reason": "",
			"cost": nil, "cost_unit": "", "tokens": nil, "estimated_cost": 0.0,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	w = inDoubtTwice(t)
	var paused struct {
		Event, Text string
		Queue       struct{ Paused, Detail string }
	}
	if err := json.Unmarshal(w.memory.events[2].Body, &paused); err != nil {
		t.Fatal(err)
	}
	w.says(paused.Text, paused.Queue.Detail)
	if paused.Event != "paused" || paused.Queue.Paused != "unknown" {
		t.Errorf("%+v", paused)
	}
}

// TestNotifiedStates: which states are notified, and none if notifications are not wanted.
func TestNotifiedStates(t *testing.T) {
	notified := []journal.State{
		journal.Completed, journal.Failed, journal.Archived, journal.Lost, journal.Rejected, journal.Unknown,
	}
	for _, state := range everyState {
		w := inState(t, state)
		kinds := 0
		for _, note := range w.memory.events {
			if note.Kind == string(state) {
				kinds++
			}
		}
		if (kinds == 1) != slices.Contains(notified, state) {
			t.Errorf("%s: %d notes", state, kinds)
		}
	}
	w := newWorld(t, "a")
	w.opt.Notify = false
	w.passes()
	w.after(turn)
	w.has("a", journal.Completed)
	w.events()
}
