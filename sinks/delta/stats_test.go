package delta

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestAction looks at what the log says of the files of a window: a warehouse leaves
// files out by it, and the ledger is rebuilt from it.
func TestAction(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	s := open(t, root, analytics.AgentsReport)
	for _, table := range []string{visitorsTable, agentsTable} {
		w := sealFor(t, table, 3, 1500)
		replace(t, s, w)
		sealed, err := os.ReadFile(w.Path())
		check(t, err)
		path, _ := only(t, root, table)
		if got, err := os.ReadFile(filepath.Join(root, table, path)); err != nil || string(got) != string(sealed) {
			t.Errorf("the file of %s is not the sealed file: %v", table, err)
		}
	}
	const same = `"project":"prj_a","granularity":"day","window_start":"2026-10-01","window_end":"2026-10-02",` +
		`"revision":3,"exported_at":"2026-11-01T00:00:03.12`
	for table, want := range map[string]string{
		visitorsTable: `{"numRecords":1500,"minValues":{` + same +
			`3Z","path":"/docs/page-0000000","human":1000000,"ai":7,"total":1000003},"maxValues":{` + same +
			`4Z","path":"/docs/page-0001499","human":1001499,"ai":7,"total":1001502}}`,
		totalsTable: `{"numRecords":1,"minValues":{` + same +
			`3Z","human":3000,"ai":300,"total":3150,"humans":"claimed","page_count":1500},"maxValues":{` + same +
			`4Z","human":3000,"ai":300,"total":3150,"humans":"claimed","page_count":1500}}`,
		agentsTable: `{"numRecords":1502,"minValues":{` + same +
			`3Z","path":"","agent":"Claude-User","class":"answers","audience":"ai","visitors":3,"requests":3,"markdown":0,"bytes":-1},` +
			`"maxValues":{` + same + `4Z","path":"/docs/page-0001499","agent":"curl","class":"tool",` +
			`"audience":"neither","visitors":1001499,"requests":1001502,"markdown":3,"bytes":9223372036854775807}}`,
	} {
		path, a := only(t, root, table)
		w := sealFor(t, table, 3, 1500).Revision()
		var stats, expected map[string]any
		check(t, json.Unmarshal([]byte(a.Add.Stats), &stats))
		check(t, json.Unmarshal([]byte(want), &expected))
		nulls := map[string]any{}
		for _, column := range columnsOf(w.Report, table) {
			nulls[column.Name] = 0.0
		}
		expected["nullCount"] = nulls
		if diff := cmp.Diff(expected, stats); diff != "" {
			t.Errorf("statistics of %s (-want +got):\n%s", table, diff)
		}
		foot, err := archive.ParseMetadata(a.Add.Tags)
		if err != nil || !foot.Same(w) || (len(foot.Checksum) == 16) != (table != totalsTable) ||
			(foot.SiteRows == 2) != (table == agentsTable) ||
			a.Add.Tags["docgauge.exported_at"] != "2026-11-01T00:00:03.123456Z" {
			t.Errorf("tags of %s: %v, %v", table, a.Add.Tags, err)
		}
		info, err := os.Stat(filepath.Join(root, table, path))
		if err != nil || info.Size() != a.Add.Size {
			t.Errorf("%s has %v bytes, %v, the log says %d", path, info, err, a.Add.Size)
		}
	}
}

// TestStatisticsOfUnusualFiles: files without rows, and paths too long for a footer, have no
// bounds.
func TestStatisticsOfUnusualFiles(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for name, tc := range map[string]struct {
		rows []analytics.Row
		want map[string][2]any // least and greatest
	}{
		"none": {nil, nil},
		"long": {[]analytics.Row{{Path: long, Totals: analytics.Totals{Total: 2}}}, map[string][2]any{"total": {2.0, 2.0}}},
		"cut": {[]analytics.Row{{Path: strings.Repeat("a", 40)}, {Path: strings.Repeat("é", 40)}},
			map[string][2]any{"path": {strings.Repeat("a", 32), strings.Repeat("é", 32) + string(utf8.MaxRune)}}},
	} {
		rev := sinktest.Revision(sinktest.Key("prj_a", 0), 1)
		w := sinktest.Seal(t, rev, func(yield func(analytics.Row, error) bool) {
			for _, row := range tc.rows {
				if !yield(row, nil) {
					return
				}
			}
		})
		data, err := os.ReadFile(w.Path())
		check(t, err)
		foot, bounds, err := archive.ReadBounds(strings.NewReader(string(data)), int64(len(data)))
		check(t, err)
		var got statistics
		check(t, json.Unmarshal([]byte(rowsStats(foot, visitorsTable, bounds)), &got))
		if got.Records != int64(len(tc.rows)) || len(tc.rows) == 0 && len(got.Min)+len(got.Max) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
		for column, of := range tc.want {
			if got.Min[column] != of[0] || got.Max[column] != of[1] {
				t.Errorf("%s: %s from %v to %v, want %v", name, column, got.Min[column], got.Max[column], of)
			}
		}
		if _, there := got.Min["path"]; there != (name == "cut") {
			t.Errorf("%s: path from %v", name, got.Min["path"])
		}
	}
}

// TestBoundsOfTexts: texts between the bounds, in bytes, are never left out.
func TestBoundsOfTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`(a|é|🦊|\x{10FFFF}){28,40}`)).Draw(t, "text")
		if least := prefix(s); least > s || utf8.RuneCountInString(least) > boundRunes {
			t.Errorf("the least is %q", least)
		}
		if most, ok := above(s); ok && (most < s || utf8.RuneCountInString(most) > boundRunes+1) {
			t.Errorf("the greatest is %q", most)
		} else if !ok && utf8.RuneCountInString(s) <= boundRunes {
			t.Error("there is no greatest")
		}
	})
}

func TestNames(t *testing.T) {
	now := time.Date(2026, 11, 1, 6, 7, 8, 0, time.FixedZone("", 3600))
	rapid.Check(t, func(t *rapid.T) {
		key := analytics.Key{
			Project: rapid.OneOf(rapid.Just("_delta_log"),
				rapid.StringMatching(`[A-Za-z0-9_-]{1,128}`)).Draw(t, "project"),
			Granularity: rapid.SampledFrom([]analytics.Granularity{"day", "week", "month", "28d"}).Draw(t,
				"granularity"),
		}
		key.From = analytics.Date(rapid.Int32Range(0, 100_000).Draw(t, "from"))
		key.To = key.From + analytics.Date(rapid.Int32Range(1, 400).Draw(t, "days"))
		name, err := newName(analytics.Revision{Key: key, Number: 3}, now)
		check(t, err)
		if got, published, ours := parseName(name); !ours || got != key || !published.Equal(now) {
			t.Errorf("%s reads as %v of %s, %t", name, got, published, ours)
		}
		if strings.HasPrefix(name, "_") || !strings.HasPrefix(name, prefixOf(key)) {
			t.Errorf("%s: engines take it for their own, or its prefix is %s", name, prefixOf(key))
		}
	})
	for _, project := range []string{"", "..", "a/b", "a\x00", strings.Repeat("x", 129)} {
		if name, err := newName(analytics.Revision{Key: sinktest.Key(project, 0)}, now); err == nil {
			t.Errorf("project %q has the name %s", project, name)
		}
	}
	good, err := newName(sinktest.Revision(sinktest.Key("prj_a", 0), 1), now)
	check(t, err)
	for _, foreign := range []string{
		"part-00000-c000.snappy.parquet", "prj_a/day/x.parquet", "x/" + good, "=" + good,
		"_delta_log/00000000000000000010.checkpoint.parquet",
		strings.Replace(good, "prj_a", "_prj", 1), strings.Replace(good, "day", "decade", 1),
		strings.Replace(good, "2026-10-01", "2026-13-01", 1), good + ".crc",
	} {
		if key, _, ours := parseName(foreign); ours {
			t.Errorf("%s is taken for ours, of %v", foreign, key)
		}
	}
}
