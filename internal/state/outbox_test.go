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
		apply(t, db, journal.Change{Job: job(kind, journal.Active), Note: &journal.Note{Kind: kind, At: now.Add(time.Duration(i) * time.Second), Body: []byte(kind)}})
	}
	notes := func(n int) (out []journal.Note) {
		t.Helper()
		out, err := db.Notes(t.Context(), n)
		check(t, err)
		return out
	}
	all := notes(10)
	want := journal.Note{ID: all[0].ID, Kind: "completed", At: now, Body: []byte("completed"), Next: now}
	if diff := cmp.Diff(want, all[0]); len(all) != 3 || diff != "" {
		t.Errorf("%d notes, %s", len(all), diff)
	}
	check(t, db.NoteFailed(t.Context(), all[0].ID, now.Add(time.Minute), true))
	check(t, db.NoteDone(t.Context(), all[1].ID))
	check(t, db.NoteDone(t.Context(), all[1].ID))
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
	check(t, db.Tell(t.Context(), state.Telling{Notes: []journal.Note{{Kind: "digest", At: now, Body: []byte("{}")}}}))
	read := func() journal.Note {
		t.Helper()
		notes, err := db.Notes(t.Context(), 2)
		check(t, err)
		if len(notes) != 1 {
			t.Fatalf("%d notes", len(notes))
		}
		return notes[0]
	}
	take := func(n journal.Note, want bool) {
		t.Helper()
		if mine, err := db.NoteBegun(t.Context(), n, now); err != nil || mine != want {
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
	check(t, db.NoteFailed(t.Context(), fresh.ID, now, false))
	if failed := read(); !failed.Begun.IsZero() || failed.InDoubt != 1 || failed.Tries != 1 {
		t.Errorf("after a failure: %+v", failed)
	}
	take(begun, false)
}

// TestTell: a matter is told of once, with its notes, or not at all.
func TestTell(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	telling := func(matter string, value int64) state.Telling {
		return state.Telling{
			Told:  []state.Told{{Matter: matter, At: now, Value: value}},
			Notes: []journal.Note{{Kind: matter, At: now, Body: []byte("{}")}},
		}
	}
	check(t, db.Tell(t.Context(), telling("a", 0)))
	check(t, db.Tell(t.Context(), telling("b", 7)))
	for _, tc := range []struct {
		telling state.Telling
		want    error
	}{
		{telling("a", 0), state.ErrTold},
		{telling("b", 7), state.ErrTold},
		{telling("b", 6), state.ErrTold},
		{telling("b", 8), nil},
		{state.Telling{Told: []state.Told{{Matter: "c", At: now}, {Matter: "a", At: now}}, Notes: []journal.Note{{Kind: "c", At: now}}}, state.ErrTold},
		{state.Telling{Over: []string{"a", "unknown"}}, nil},
		{telling("a", 0), nil},
	} {
		if err := db.Tell(t.Context(), tc.telling); !errors.Is(err, tc.want) {
			t.Errorf("%+v: %v, want %v", tc.telling, err, tc.want)
		}
	}
	check(t, db.Close())
	db = open(t, dir)
	told, err := db.Told(t.Context())
	want := map[string]state.Told{"a": {Matter: "a", At: now}, "b": {Matter: "b", At: now, Value: 8}}
	if diff := cmp.Diff(want, told); err != nil || diff != "" {
		t.Error(err, diff)
	}
	notes, err := db.Notes(t.Context(), 10)
	check(t, err)
	var kinds string
	for _, n := range notes {
		kinds += n.Kind
	}
	if kinds != "abba" {
		t.Errorf("notes %s", kinds)
	}
}
