package state_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
)

// TestWhatWasLearned: what is learned of the service is kept over a restart, the newest in
// place of what was, and a window that was read is no longer set aside.
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
