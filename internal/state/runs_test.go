package state_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
)

func TestRuns(t *testing.T) {
	db := open(t, t.TempDir())
	var ids []int64
	for i := range 3 {
		ids = append(ids, must(db.BeginRun(t.Context(), now.Add(time.Duration(i)*time.Hour)))(t))
	}
	if !slices.IsSorted(ids) || ids[0] == ids[1] {
		t.Errorf("run ids %v do not grow", ids)
	}
	end := analytics.Run{
		ID: ids[1], Finished: now.Add(2 * time.Hour), Outcome: "done", Message: "m", Windows: 3, Requests: 9,
	}
	for range 2 { // a repetition is not counted twice
		check(t, db.EndRun(t.Context(), end, true))
	}
	end.Started = now.Add(time.Hour)
	same(t, []analytics.Run{{ID: ids[2], Started: now.Add(2 * time.Hour)}, end}, must(db.LastRuns(t.Context(), 2))(t))
	if got := counter(t, db, "export_runs_total", "outcome", "done"); got != 1 {
		t.Errorf("%d runs counted", got)
	}
}

func TestRunHistoryIsBounded(t *testing.T) {
	db := inMemory(t)
	for range 1010 {
		must(db.BeginRun(t.Context(), now))(t)
	}
	runs := must(db.LastRuns(t.Context(), 5000))(t)
	if len(runs) != 1000 || runs[0].ID != 1010 {
		t.Errorf("%d runs kept, the newest is %d", len(runs), runs[0].ID)
	}
}

func TestLastSuccess(t *testing.T) {
	db := open(t, t.TempDir())
	wantAt := func(asked, want time.Time) {
		t.Helper()
		same(t, want, must(db.LastSuccess(t.Context(), asked))(t))
	}
	for i, end := range []struct {
		good bool
		want time.Time
	}{{false, time.Time{}}, {true, now.Add(time.Hour)}, {false, now.Add(time.Hour)}} {
		at := now.Add(time.Duration(i) * time.Hour)
		id := must(db.BeginRun(t.Context(), at))(t)
		run := analytics.Run{ID: id, Finished: at, Outcome: strconv.FormatBool(end.good)}
		check(t, db.EndRun(t.Context(), run, end.good,
			state.Observation{Name: "export_duration_seconds", Bucket: 3, Count: 1, Sum: time.Second}))
		wantAt(now.Add(3*time.Hour), end.want)
	}
	wantAt(now, time.Time{}) // the clock was set back
	if observed := must(db.Histograms(t.Context()))(t); len(observed) != 1 || observed[0].Count != 3 {
		t.Errorf("three runs observed as %+v", observed)
	}
}

func TestDuties(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	same(t, time.Time{}, must(db.LastDone(t.Context(), "collect"))(t))
	check(t, db.SetDone(t.Context(), "collect", now))
	check(t, db.SetDone(t.Context(), "collect", now.Add(time.Hour)))
	check(t, db.SetDone(t.Context(), "other", now))
	check(t, db.Close())
	same(t, now.Add(time.Hour), must(open(t, dir).LastDone(t.Context(), "collect"))(t))
}

func TestLabels(t *testing.T) {
	for _, pairs := range [][]string{nil, {"a", "x"}, {"a", `x "q"`, "b", "\n"}, {"a", "", "b", "x,y=\"}\\\n€"}} {
		same(t, pairs, state.Pairs(state.Labels(pairs...)))
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
	if n := counter(t, db, "api_requests_total", "endpoint", "visitors"); n != 6 {
		t.Errorf("counter is %d, want 6", n)
	}
	same(t, []state.Observation{
		{"api_request_duration_seconds", labels, -9, 4, 3 * time.Millisecond},
		{"api_request_duration_seconds", labels, 4, 2, 2 * time.Second},
	}, must(db.Histograms(t.Context()))(t))
}

func TestFlags(t *testing.T) {
	db := open(t, t.TempDir())
	want := func(on bool) {
		t.Helper()
		same(t, on, must(db.FlagOn(t.Context(), "api_key_rejected", "key", "admin"))(t))
	}
	want(false)
	for _, on := range []bool{true, false, true} {
		check(t, db.Tally(t.Context(), nil, nil, []state.Flag{
			{"api_key_rejected", state.Labels("key", "admin"), on},
			{"api_key_rejected", state.Labels("key", "write"), !on},
		}))
		want(on)
	}
}

func TestReadings(t *testing.T) {
	db := inMemory(t)
	at := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
	first := state.Reading{Name: "0", Began: at(0)}
	check(t, db.SetReading(t.Context(), first))
	first.Done = at(1)
	check(t, db.SetReading(t.Context(), first))
	same(t, first, must(db.FindReading(t.Context(), "0"))(t))
	for n := range 1000 { // replaces the oldest
		check(t, db.SetReading(t.Context(), state.Reading{Name: strconv.Itoa(n + 1), Began: at(n + 1)}))
	}
	for name, want := range map[string]bool{"0": false, "1": true, "1000": true, "other": false} {
		if got := must(db.FindReading(t.Context(), name))(t); got.Began.IsZero() == want || !got.Done.IsZero() {
			t.Errorf("reading %s: %+v", name, got)
		}
	}
}
