package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
)

func TestPages(t *testing.T) {
	db := open(t, t.TempDir())
	first := []analytics.Row{{Path: "/b", Human: 3, AI: 2, Total: 4}, {Path: "/a", Total: 1}}
	second := []analytics.Row{{Path: "/c\"\n", Total: 9}}
	newest := revision(day(4), 2)
	check(t, db.SetPages(t.Context(), revision(day(3), 7), first))
	check(t, db.SetPages(t.Context(), newest, first))
	check(t, db.SetPages(t.Context(), newest, second))              // the same reading again
	check(t, db.SetPages(t.Context(), revision(day(3), 9), second)) // an older window
	check(t, db.SetPages(t.Context(), revision(day(4), 1), second)) // an older reading
	other := revision(day(1), 1)
	other.Project = "prj_b"
	check(t, db.SetPages(t.Context(), other, nil))

	want := []state.PageList{{Key: newest.Key, Revision: 2, Pages: first}, {Key: other.Key, Revision: 1}}
	got, err := db.Pages(t.Context(), 10)
	check(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	check(t, db.SetPages(t.Context(), revision(day(4), 3), second))
	if got, err = db.Pages(t.Context(), 10); err != nil || !cmp.Equal(got[0].Pages, second) || got[0].Revision != 3 {
		t.Errorf("after a later reading: %+v, %v", got, err)
	}
	if got, err = db.Pages(t.Context(), 0); err != nil || len(got) != 2 || len(got[0].Pages) != 0 {
		t.Errorf("no pages wanted: %+v, %v", got, err)
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

func TestPairs(t *testing.T) {
	for _, pairs := range [][]string{nil, {"a", "x"}, {"a", "", "b", "x,y=\"}\\\n€"}, {"project", "prj_a", "sink", "parquet"}} {
		if diff := cmp.Diff(pairs, state.Pairs(state.Labels(pairs...))); diff != "" {
			t.Error(diff)
		}
	}
	for _, bad := range []string{"{", "{a}", `{a=x}`, `{a="x"`, "a"} {
		if got := state.Pairs(bad); got != nil {
			t.Errorf("Pairs(%q) = %q", bad, got)
		}
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
	if at, err := db.LastSuccess(t.Context()); err != nil || !at.IsZero() {
		t.Errorf("before any run: %v, %v", at, err)
	}
	end(now, "failed", false)
	if at, err := db.LastSuccess(t.Context()); err != nil || !at.IsZero() {
		t.Errorf("after a failed run: %v, %v", at, err)
	}
	end(now.Add(time.Hour), "success", true)
	end(now.Add(2*time.Hour), "failed", false)
	if at, err := db.LastSuccess(t.Context()); err != nil || !at.Equal(now.Add(time.Hour)) {
		t.Errorf("after a success and a failure: %v, %v", at, err)
	}
	observed, err := db.Histograms(t.Context())
	if check(t, err); len(observed) != 1 || observed[0].Count != 3 {
		t.Errorf("three runs observed as %+v", observed)
	}
}

func TestPresent(t *testing.T) {
	for name, lose := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"replaced": func(dir string) error {
			file := filepath.Join(dir, state.FileName)
			return errors.Join(os.Rename(file, file+".old"), os.WriteFile(file, nil, 0o600))
		},
	} {
		dir := filepath.Join(t.TempDir(), "state")
		db := open(t, dir)
		check(t, db.Present())
		check(t, lose(dir))
		if err := db.Present(); !errors.Is(err, state.ErrLost) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	db, err := state.OpenExisting(t.TempDir())
	check(t, err)
	defer db.Close()
	check(t, db.Present())
}
