package jobs

import (
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/journal"
)

// TestStatusText: a job that has changed since the last pass counts in its new state, and
// one without a prompt counts until it has ended.
func TestStatusText(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	before := journal.Job{Seq: 1, Version: 1, Prompt: "a", Try: 1, State: journal.Pending}
	now := before
	now.Version, now.State, now.Charged = 2, journal.Active, noon
	other := journal.Job{Seq: 2, Version: 1, Prompt: "b", Try: 1, State: journal.Active}
	gone := journal.Job{Seq: 3, Version: 1, Prompt: "c", Try: 1, State: journal.Completed}
	planned := []jobs.Planned{
		{ID: "a", State: journal.Pending, Job: &before, Until: noon.Add(time.Minute)},
		{ID: "d", State: journal.Pending, Until: noon.Add(2 * time.Hour)},
		{ID: "e", State: journal.Pending, Until: noon.Add(time.Hour)},
	}
	paused := journal.Queue{Paused: journal.PausedOperator, Detail: "no text of others: \x1b[2J"}
	settings := config.Config{MaxActiveJobs: 3, JobCost: .5, MaxCostPerDay: 20}
	got := statusText(planned, []journal.Job{now, other, gone}, paused, settings, noon)
	want := "paused (operator) · 2 pending, 2 active · more may be sent at 2026-11-21 13:00 UTC · " +
		"2 of 3 at work · 1 in 24 h · cost 0.5 of 20"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
