package state_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/state"
)

func TestRuns(t *testing.T) {
	db := open(t, t.TempDir())
	var ids []int64
	for i := range 3 {
		id, err := db.BeginRun(t.Context(), now.Add(time.Duration(i)*time.Hour))
		check(t, err)
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) || ids[0] == ids[1] {
		t.Errorf("run ids %v do not grow", ids)
	}
	end := state.Run{ID: ids[1], Finished: now.Add(2 * time.Hour), Outcome: "done", Message: "m", Windows: 3, Requests: 9}
	for range 2 { // a repetition is not counted twice
		check(t, db.EndRun(t.Context(), end, true))
	}
	end.Started = now.Add(time.Hour)
	got, err := db.LastRuns(t.Context(), 2)
	check(t, err)
	if d := cmp.Diff([]state.Run{{ID: ids[2], Started: now.Add(2 * time.Hour)}, end}, got); d != "" {
		t.Errorf("last runs (-want +got):\n%s", d)
	}
	if got := counter(t, db, "export_runs_total", state.Labels("outcome", "done")); got != 1 {
		t.Errorf("%d runs counted", got)
	}
}

func TestRunHistoryIsBounded(t *testing.T) {
	db, err := state.OpenExisting("nowhere")
	check(t, err)
	defer db.Close()
	for range 1010 {
		_, err := db.BeginRun(t.Context(), now)
		check(t, err)
	}
	runs, err := db.LastRuns(t.Context(), 5000)
	check(t, err)
	if len(runs) != 1000 || runs[0].ID != 1010 {
		t.Errorf("%d runs kept, the newest is %d", len(runs), runs[0].ID)
	}
}

func TestLastSuccess(t *testing.T) {
	db := open(t, t.TempDir())
	end := func(at time.Time, outcome string, good bool) {
		id, err := db.BeginRun(t.Context(), at)
		check(t, err)
		check(t, db.EndRun(t.Context(), state.Run{ID: id, Finished: at, Outcome: outcome}, good,
			state.Observation{Name: "export_duration_seconds", Bucket: 3, Count: 1, Sum: time.Second}))
	}
	if at, err := db.LastSuccess(t.Context(), now.Add(3*time.Hour)); err != nil || !at.IsZero() {
		t.Errorf("before any run: %v, %v", at, err)
	}
	end(now, "failed", false)
	if at, err := db.LastSuccess(t.Context(), now.Add(3*time.Hour)); err != nil || !at.IsZero() {
		t.Errorf("after a failed run: %v, %v", at, err)
	}
	end(now.Add(time.Hour), "success", true)
	end(now.Add(2*time.Hour), "failed", false)
	if at, err := db.LastSuccess(t.Context(), now.Add(3*time.Hour)); err != nil || !at.Equal(now.Add(time.Hour)) {
		t.Errorf("after a success and a failure: %v, %v", at, err)
	}
	if at, err := db.LastSuccess(t.Context(), now); err != nil || !at.IsZero() {
		t.Errorf("the clock was set back: %v, %v", at, err)
	}
	observed, err := db.Histograms(t.Context())
	if check(t, err); len(observed) != 1 || observed[0].Count != 3 {
		t.Errorf("three runs observed as %+v", observed)
	}
}

func TestDuties(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	if at, err := db.LastDone(t.Context(), "collect"); err != nil || !at.IsZero() {
		t.Errorf("never done: %v, %v", at, err)
	}
	check(t, db.SetDone(t.Context(), "collect", now))
	check(t, db.SetDone(t.Context(), "collect", now.Add(time.Hour)))
	check(t, db.SetDone(t.Context(), "other", now))
	check(t, db.Close())
	if at, err := open(t, dir).LastDone(t.Context(), "collect"); err != nil || !at.Equal(now.Add(time.Hour)) {
		t.Errorf("done at %v, %v", at, err)
	}
}

func TestLabels(t *testing.T) {
	for _, pairs := range [][]string{nil, {"a", "x"}, {"a", `x "q"`, "b", "\n"}, {"a", "", "b", "x,y=\"}\\\n€"}} {
		if diff := cmp.Diff(pairs, state.Pairs(state.Labels(pairs...))); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTally(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	labels := state.Labels("endpoint", "visitors")
	for range 2 {
		check(t, db.Tally(t.Context(), []state.Count{{"api_requests_total", labels, 3}}, []state.Observation{
			{"api_request_duration_seconds", labels, -9, 2, 1500 * time.Microsecond},
			{"api_request_duration_seconds", labels, 4, 1, time.Second},
		}, nil))
	}
	check(t, db.Close())
	db = open(t, dir)
	if n := counter(t, db, "api_requests_total", labels); n != 6 {
		t.Errorf("counter is %d, want 6", n)
	}
	got, err := db.Histograms(t.Context())
	check(t, err)
	want := []state.Observation{
		{"api_request_duration_seconds", labels, -9, 4, 3 * time.Millisecond},
		{"api_request_duration_seconds", labels, 4, 2, 2 * time.Second},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFlags(t *testing.T) {
	db := open(t, t.TempDir())
	flag := func() bool {
		on, err := db.FlagOn(t.Context(), "api_key_rejected", "key", "admin")
		check(t, err)
		return on
	}
	if flag() {
		t.Error("a flag is on that was never set")
	}
	for _, on := range []bool{true, false, true} {
		check(t, db.Tally(t.Context(), nil, nil, []state.Flag{
			{"api_key_rejected", state.Labels("key", "admin"), on},
			{"api_key_rejected", state.Labels("key", "write"), !on},
		}))
		if flag() != on {
			t.Errorf("flag set to %v is not", on)
		}
	}
}

func TestReadings(t *testing.T) {
	db, err := state.OpenExisting("nowhere")
	check(t, err)
	defer db.Close()
	at := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
	first := state.Reading{Name: "0", Began: at(0)}
	check(t, db.SetReading(t.Context(), first))
	first.Done = at(1)
	check(t, db.SetReading(t.Context(), first))
	got, err := db.FindReading(t.Context(), "0")
	check(t, err)
	if d := cmp.Diff(first, got); d != "" {
		t.Errorf("reading (-want +got):\n%s", d)
	}
	for n := range 1000 { // the oldest makes room
		check(t, db.SetReading(t.Context(), state.Reading{Name: strconv.Itoa(n + 1), Began: at(n + 1)}))
	}
	for name, want := range map[string]bool{"0": false, "1": true, "1000": true, "other": false} {
		got, err := db.FindReading(t.Context(), name)
		check(t, err)
		if got.Began.IsZero() == want || !got.Done.IsZero() {
			t.Errorf("reading %s: %+v", name, got)
		}
	}
}
