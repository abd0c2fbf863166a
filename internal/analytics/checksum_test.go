package analytics

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSipHash has values that ClickHouse 18.16 and 26.7 computed with sipHash64.
func TestSipHash(t *testing.T) {
	for text, want := range map[string]uint64{
		"":                                 0x1E924B9D737700D7,
		"\x00":                             0x8B5A0BAA49FBC58D,
		"\x00\x01\x02\x03\x04\x05\x06\x07": 0xC72B1C24FC2F7938,
		"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e": 0xD0567CD44E891363,
	} {
		if got := sipHash([]byte(text)); got != want {
			t.Errorf("sipHash(%q) = %016X, want %016X", text, got, want)
		}
	}
}

func TestChecksum(t *testing.T) {
	rows := []Row{{"/a", Totals{1, 2, 3}}, {"/b", Totals{1, 2, 3}}, {"/" + strings.Repeat("é", 300), Totals{-1,
		math.MaxInt64, 0}},
		{"", Totals{0, 0, 0}}}
	sum := func(rows ...Row) string {
		var c Checksum
		for _, r := range rows {
			VisitorsReport.Shape().Checksum(&c, RecordOf(r))
		}
		return c.String()
	}
	want := sum(rows...)
	if len(want) != 16 || sum() != "0000000000000000" {
		t.Errorf("checksums %q and, of no rows, %q", want, sum())
	}
	rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	if got := sum(rows...); got != want {
		t.Errorf("another order: %s, want %s", got, want)
	}
	seen := map[string]Row{}
	for _, r := range []Row{
		{"/a", Totals{1, 2, 3}}, {"/a", Totals{1, 3, 2}}, {"/a", Totals{12, 3, 0}}, {"/a", Totals{1, 23, 0}}, {"/a\x001",
			Totals{2, 3, 0}}, {"/a", Totals{1, 2, -3}},
		{"/A", Totals{1, 2, 3}},
	} {
		if same, twice := seen[sum(r)]; twice {
			t.Errorf("%+v and %+v have one checksum", r, same)
		}
		seen[sum(r)] = r
	}
}

func TestSum(t *testing.T) {
	var s Sum
	for _, r := range []Row{{"/b", Totals{5, 1, 4}}, {"/a", Totals{1, 9, 11}}, {"/c", Totals{2, 3, 4}},
		{"/d", Totals{math.MaxInt64, math.MaxInt64, math.MaxInt64}}} {
		VisitorsReport.Shape().Counter(&s)(RecordOf(r))
	}
	if s.Rows != 4 || s.Implausible != 2 || s.Example != "/a" ||
		s.Largest != (Totals{math.MaxInt64, math.MaxInt64, math.MaxInt64}) {
		t.Errorf("sum %+v", s)
	}
	if s.Added != s.Largest {
		t.Errorf("sums of more than can be counted: %+v", s.Added)
	}
}

func TestCovers(t *testing.T) {
	var s Sum
	for _, r := range []Row{{"/a", Totals{3, 1, 3}}, {"/b", Totals{2, 0, 2}}, {"/c", Totals{-4, -4, -4}}} {
		VisitorsReport.Shape().Counter(&s)(RecordOf(r))
	}
	for totals, want := range map[Totals]bool{
		{0, 0, 0}: true, {3, 1, 4}: true, {5, 1, 5}: true, {6, 1, 5}: false, {5, 2, 5}: false, {5, 1, 6}: false,
	} {
		if s.Covers(totals) != want {
			t.Errorf("pages of %+v under the site's %+v: covers %t", s.Added, totals, !want)
		}
	}
	var none Sum
	if !none.Covers(Totals{}) || none.Covers(Totals{0, 0, 1}) {
		t.Error("no page covers a site without visitors, and no other")
	}
}

func TestLacksRows(t *testing.T) {
	site := Totals{1, 0, 1}
	for rev, want := range map[Revision]bool{
		{Totals: site}: true, {}: false, {Rows: 1, Totals: site}: false, {Rows: TotalsOnlyRows, Totals: site}: false,
	} {
		if rev.LacksRows() != want {
			t.Errorf("%d rows under %+v: lacks rows %t", rev.Rows, rev.Totals, !want)
		}
	}
}

func TestPlausible(t *testing.T) {
	for totals, want := range map[Totals]bool{
		{0, 0, 0}: true, {3, 4, 4}: true, {3, 4, 7}: true, {3, 4, 8}: false, {3, 4, 3}: false, {4, 3, 3}: false,
		{-1, 1, 1}: false, {math.MaxInt64, math.MaxInt64, math.MaxInt64}: true, {math.MaxInt64, 0, 5}: false,
	} {
		if totals.Plausible() != want {
			t.Errorf("%+v: plausible %t", totals, !want)
		}
	}
}

func BenchmarkChecksum(b *testing.B) {
	r := RecordOf(Row{"/docs/guides/section-1000000/page-100000000", Totals{1234, 56, 1250}})
	var c Checksum
	for b.Loop() {
		VisitorsReport.Shape().Checksum(&c, r)
	}
}
