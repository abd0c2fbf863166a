package clickhouse

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// TestList: an empty database holds nothing and stays empty; then it is what
// Revisions yields. A schema that is newer is refused.
func TestList(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		name := database(t, e)
		s := open(t, e.DSN(name))
		if revs := all(t, sinks.List(t.Context(), s)); len(revs) > 0 {
			t.Errorf("an empty database holds %v", revs)
		}
		if made := strings.TrimSpace(must(t, e, "SELECT count() FROM system.tables WHERE database = '"+name+"'")); made != "0" {
			t.Errorf("listing has made %s tables", made)
		}
		for number := range int32(2) {
			if err := s.Replace(t.Context(), seal(t, number+1, 10)); err != nil {
				t.Fatal(err)
			}
		}
		got := all(t, sinks.List(t.Context(), open(t, e.DSN(name))))
		if diff := cmp.Diff(all(t, s.Revisions(t.Context())), got); diff != "" || len(got) != 1 || got[0].Number != 2 {
			t.Errorf("%v (-Revisions +List):\n%s", got, diff)
		}
		must(t, e, "INSERT INTO "+name+"."+versionsTable+" (version, views) VALUES (99, 'x')")
		for _, err := range sinks.List(t.Context(), s) {
			if err == nil || !strings.Contains(err.Error(), "schema version 99") {
				t.Error(err)
			}
		}
	})
}

func all(t *testing.T, list iter.Seq2[analytics.Revision, error]) []analytics.Revision {
	t.Helper()
	var revs []analytics.Revision
	for rev, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		revs = append(revs, rev)
	}
	slices.SortFunc(revs, func(a, b analytics.Revision) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return revs
}
