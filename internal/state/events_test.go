package state_test

import (
	"errors"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/state"
)

// reported is a report of one event about a condition.
func reported(condition string, value int64) state.Report {
	return state.Report{
		Reported: []state.Reported{{Condition: condition, At: now, Value: value}},
		Events:   []journal.Event{{Kind: condition, At: now, Body: []byte("{}")}},
	}
}

func TestEvents(t *testing.T) {
	db := open(t, t.TempDir())
	for i, kind := range []string{"completed", "failed", "unknown"} {
		at := now.Add(time.Duration(i) * time.Second)
		event := &journal.Event{Kind: kind, At: at, Body: []byte(kind)}
		apply(t, db, journal.Change{Job: job(kind, journal.Active), Event: event})
	}
	all := must(db.Events(t.Context(), 10))(t)
	if len(all) != 3 {
		t.Fatalf("%d events", len(all))
	}
	same(t, journal.Event{ID: all[0].ID, Kind: "completed", At: now, Body: []byte("completed"), Next: now}, all[0])
	check(t, db.EventFailed(t.Context(), all[0].ID, now.Add(time.Minute), true))
	check(t, db.EventDone(t.Context(), all[1].ID))
	check(t, db.EventDone(t.Context(), all[1].ID))
	all[0].Tries, all[0].InDoubt, all[0].Next = 1, 1, now.Add(time.Minute)
	same(t, []journal.Event{all[2], all[0]}, must(db.Events(t.Context(), 10))(t))
	same(t, all[2:], must(db.Events(t.Context(), 1))(t))
}

// TestEventIsTakenOnce: of two processes that read the same event, one sends it; and a delivery whose
// sender died is in doubt.
func TestEventIsTakenOnce(t *testing.T) {
	db := open(t, t.TempDir())
	check(t, db.Report(t.Context(), reported("digest", 0)))
	read := func() journal.Event {
		t.Helper()
		return must(db.Events(t.Context(), 2))(t)[0]
	}
	take := func(e journal.Event, want bool) {
		t.Helper()
		same(t, want, must(db.EventBegun(t.Context(), e, now))(t))
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

// TestReport: a condition is reported once, with its events, or not at all.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	both := reported("c", 0)
	both.Reported = append(both.Reported, state.Reported{Condition: "a", At: now})
	for _, tc := range []struct {
		report state.Report
		want   error
	}{
		{reported("a", 0), nil},
		{reported("b", 7), nil},
		{reported("a", 0), state.ErrReported},
		{reported("b", 7), state.ErrReported},
		{reported("b", 6), state.ErrReported},
		{reported("b", 8), nil},
		{both, state.ErrReported},
		{state.Report{Over: []string{"a", "unknown"}}, nil},
		{reported("a", 0), nil},
	} {
		if err := db.Report(t.Context(), tc.report); !errors.Is(err, tc.want) {
			t.Errorf("%+v: %v, want %v", tc.report, err, tc.want)
		}
	}
	check(t, db.Close())
	db = open(t, dir)
	want := map[string]state.Reported{"a": {Condition: "a", At: now}, "b": {Condition: "b", At: now, Value: 8}}
	same(t, want, must(db.Reported(t.Context()))(t))
	var kinds string
	for _, e := range must(db.Events(t.Context(), 10))(t) {
		kinds += e.Kind
	}
	same(t, "abba", kinds)
}
