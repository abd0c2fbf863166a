package state_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/state"
)

func TestNotes(t *testing.T) {
	db := open(t, t.TempDir())
	for i, kind := range []string{"completed", "failed", "unknown"} {
		apply(t, db, journal.Change{Job: job(kind, journal.Active), Event: &journal.Event{Kind: kind, At: now.Add(time.Duration(i) * time.Second), Body: []byte(kind)}})
	}
	notes := func(n int) (out []journal.Event) {
		t.Helper()
		out, err := db.Events(t.Context(), n)
		check(t, err)
		return out
	}
	all := notes(10)
	want := journal.Event{ID: all[0].ID, Kind: "completed", At: now, Body: []byte("completed"), Next: now}
	if diff := cmp.Diff(want, all[0]); len(all) != 3 || diff != "" {
		t.Errorf("%d notes, %s", len(all), diff)
	}
	check(t, db.EventFailed(t.Context(), all[0].ID, now.Add(time.Minute), true))
	check(t, db.EventDone(t.Context(), all[1].ID))
	check(t, db.EventDone(t.Context(), all[1].ID))
	left := notes(10)
	if len(left) != 2 || left[0].Kind != "unknown" || left[1].Tries != 1 || !left[1].Next.Equal(now.Add(time.Minute)) {
		t.Errorf("left %+v", left)
	}
	if got := notes(1); len(got) != 1 {
		t.Errorf("%d notes, 1 was asked for", len(got))
	}
}

// TestNoteIsTakenOnce: of two processes that read the same note, one sends it; and a
// delivery whose sender died is in doubt.
func TestNoteIsTakenOnce(t *testing.T) {
	db := open(t, t.TempDir())
	check(t, db.Report(t.Context(), state.Report{Events: []journal.Event{{Kind: "digest", At: now, Body: []byte("{}")}}}))
	read := func() journal.Event {
		t.Helper()
		notes, err := db.Events(t.Context(), 2)
		check(t, err)
		if len(notes) != 1 {
			t.Fatalf("%d notes", len(notes))
		}
		return notes[0]
	}
	take := func(n journal.Event, want bool) {
		t.Helper()
		if mine, err := db.EventBegun(t.Context(), n, now); err != nil || mine != want {
			t.Errorf("taken: %v, %v; want %v", mine, err, want)
		}
	}
	fresh := read()
	take(fresh, true)
	take(fresh, false)
	begun := read()
	if !begun.Begun.Equal(now) || begun.InDoubt != 0 {
		t.Errorf("begun: %+v", begun)
	}
	take(begun, true) // its sender died
	if again := read(); again.InDoubt != 1 {
		t.Errorf("after the death of its sender: %+v", again)
	}
	check(t, db.EventFailed(t.Context(), fresh.ID, now, false))
	if failed := read(); !failed.Begun.IsZero() || failed.InDoubt != 1 || failed.Tries != 1 {
		t.Errorf("after a failure: %+v", failed)
	}
	take(begun, false)
}

// TestTell: a matter is told of once, with its notes, or not at all.
func TestTell(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	telling := func(matter string, value int64) state.Report {
		return state.Report{
			Reported: []state.Reported{{Condition: matter, At: now, Value: value}},
			Events:   []journal.Event{{Kind: matter, At: now, Body: []byte("{}")}},
		}
	}
	check(t, db.Report(t.Context(), telling("a", 0)))
	check(t, db.Report(t.Context(), telling("b", 7)))
	for _, tc := range []struct {
		telling state.Report
		want    error
	}{
		{telling("a", 0), state.ErrReported},
		{telling("b", 7), state.ErrReported},
		{telling("b", 6), state.ErrReported},
		{telling("b", 8), nil},
		{state.Report{Reported: []state.Reported{{Condition: "c", At: now}, {Condition: "a", At: now}}, Events: []journal.Event{{Kind: "c", At: now}}}, state.ErrReported},
		{state.Report{Over: []string{"a", "unknown"}}, nil},
		{telling("a", 0), nil},
	} {
		if err := db.Report(t.Context(), tc.telling); !errors.Is(err, tc.want) {
			t.Errorf("%+v: %v, want %v", tc.telling, err, tc.want)
		}
	}
	check(t, db.Close())
	db = open(t, dir)
	told, err := db.Reported(t.Context())
	want := map[string]state.Reported{"a": {Condition: "a", At: now}, "b": {Condition: "b", At: now, Value: 8}}
	if diff := cmp.Diff(want, told); err != nil || diff != "" {
		t.Error(err, diff)
	}
	notes, err := db.Events(t.Context(), 10)
	check(t, err)
	var kinds string
	for _, n := range notes {
		kinds += n.Kind
	}
	if kinds != "abba" {
		t.Errorf("notes %s", kinds)
	}
}
