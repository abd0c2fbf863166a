package jobs

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/journal"
)

// TestHasText: text is found as soon as it is there, in a pipe that stays open too; a pipe without any is not waited
// for longer than a moment.
func TestHasText(t *testing.T) {
	open := func(t *testing.T, text string) io.Reader {
		from, to := io.Pipe()
		t.Cleanup(func() { to.Close() })
		go io.WriteString(to, text) //nolint:errcheck // nothing may read it
		return from
	}
	for name, tc := range map[string]struct {
		in   func(*testing.T) io.Reader
		want bool
	}{
		"empty":               {func(*testing.T) io.Reader { return strings.NewReader("") }, false},
		"spaces":              {func(*testing.T) io.Reader { return strings.NewReader(" \n\t\n") }, false},
		"text":                {func(*testing.T) io.Reader { return strings.NewReader("\n Fix it.\n") }, true},
		"text, the pipe open": {func(t *testing.T) io.Reader { return open(t, " Fix it.") }, true},
		"none, the pipe open": {func(t *testing.T) io.Reader { return open(t, "\n") }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			if got := hasText(tc.in(t)); got != tc.want {
				t.Errorf("%s: %v", name, got)
			}
		})
	}
}

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
