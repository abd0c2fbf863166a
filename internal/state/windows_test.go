package state_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
)

// TestWhatWasLearned: notes survive a restart, newer ones replace older ones, and a
// window that was read is no longer set aside.
func TestWhatWasLearned(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	first, second := revision(day(1), 1), revision(day(2), 1)
	at := now.UTC().Truncate(time.Microsecond)
	aside := func(k analytics.Key, failures int) analytics.Aside {
		return analytics.Aside{Key: k, Reason: analytics.AsideMalformed, Detail: "a path: …", Failures: failures, Since: at, Until: at.Add(time.Hour)}
	}
	check(t, db.SetAside(t.Context(), aside(second.Key, 1)))
	check(t, db.SetAside(t.Context(), aside(first.Key, 1)))
	check(t, db.SetAside(t.Context(), aside(first.Key, 2)))
	check(t, db.SetMovement(t.Context(), "prj_a", analytics.Day, "between", 1, at))
	check(t, db.SetMovement(t.Context(), "prj_a", analytics.Day, "between", 2, at))
	check(t, db.SetPageRows(t.Context(), "prj_a", 100))
	check(t, db.SetPageRows(t.Context(), "prj_a", 200))
	check(t, db.Close())
	db = open(t, dir)
	asides, err := db.Asides(t.Context())
	if diff := cmp.Diff([]analytics.Aside{aside(first.Key, 2), aside(second.Key, 1)}, asides); err != nil || diff != "" {
		t.Error(err, diff)
	}
	movements, err := db.Movements(t.Context())
	if diff := cmp.Diff([]state.Movement{{Project: "prj_a", Granularity: analytics.Day, Kind: "between", Times: 2, At: at}}, movements); err != nil || diff != "" {
		t.Error(err, diff)
	}
	pages, err := db.PageRows(t.Context())
	if diff := cmp.Diff(map[string]int{"prj_a": 200}, pages); err != nil || diff != "" {
		t.Error(err, diff)
	}
	check(t, db.Record(t.Context(), first, analytics.Provenance{Requests: 1}, []string{"parquet"}))
	asides, err = db.Asides(t.Context())
	if diff := cmp.Diff([]analytics.Aside{aside(second.Key, 1)}, asides); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestOpenWindows(t *testing.T) {
	db := open(t, t.TempDir())
	month := day(1)
	month.Granularity, month.To = analytics.Month, month.From+31
	for i, k := range []analytics.Key{day(4), month, day(5)} { // the day goes on, the month stays
		check(t, db.SetOpen(t.Context(), k, analytics.Totals{Total: int64(i)}, now))
	}
	got, err := db.OpenWindows(t.Context())
	check(t, err)
	want := []state.OpenWindow{{Key: day(5), Totals: analytics.Totals{Total: 2}, ReadAt: now}, {Key: month, Totals: analytics.Totals{Total: 1}, ReadAt: now}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("open windows (-want +got):\n%s", d)
	}
}

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
