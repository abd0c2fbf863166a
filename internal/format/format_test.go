package format_test

import (
	"math"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/format"
)

func TestFormats(t *testing.T) {
	east := time.FixedZone("east", 5*60*60)
	for _, tc := range [][2]string{
		{format.Commas(0), "0"}, {format.Commas(999), "999"}, {format.Commas(1000), "1,000"},
		{format.Commas(-1234567), "-1,234,567"},
		{format.Commas(int64(math.MaxInt64)), "9,223,372,036,854,775,807"},
		{format.Commas(int64(math.MinInt64)), "-9,223,372,036,854,775,808"},
		{format.Plural(1, "window"), "1 window"}, {format.Plural(int64(2000), "row"), "2,000 rows"},
		{format.Time(time.Date(2026, 3, 1, 4, 59, 59, 0, east)), "2026-02-28 23:59 UTC"},
		{clock("2026-03-02 04:59"), "04:59 UTC"}, {clock("2026-03-03 04:59"), "3 Mar 04:59 UTC"},
		{clock("2027-03-02 04:59"), "2027-03-02 04:59 UTC"},
		{days("2026-11-21", "2026-11-21", 2026), "21 Nov"}, {days("2025-11-21", "2025-11-21", 2026), "21 Nov 2025"},
		{days("2026-11-09", "2026-11-15", 2026), "9–15 Nov"},
		{days("2026-11-09", "2026-11-15", 0), "9–15 Nov 2026"},
		{days("2026-09-28", "2026-10-04", 2026), "28 Sep – 4 Oct"},
		{days("2026-09-28", "2026-10-04", 2027), "28 Sep – 4 Oct 2026"},
		{days("2025-12-28", "2026-01-03", 2026), "28 Dec – 3 Jan"},
		{days("2025-12-28", "2026-01-03", 2027), "28 Dec 2025 – 3 Jan 2026"},
		{days("2025-11-01", "2026-11-30", 2026), "1 Nov 2025 – 30 Nov 2026"},
		{format.Duration(90 * time.Second), "1 min"}, {format.Duration(0), "0 min"},
		{format.Duration(47*time.Hour + 59*time.Minute), "47 h"}, {format.Duration(50 * time.Hour), "2 d"},
		{format.Cut("héé", 2), "hé…"}, {format.Cut("hé", 2), "hé"}, {format.Cut("", 0), ""},
	} {
		if tc[0] != tc[1] {
			t.Errorf("%q, want %q", tc[0], tc[1])
		}
	}
}

func days(first, last string, year int) string {
	from, _ := time.Parse(time.DateOnly, first)
	to, _ := time.Parse(time.DateOnly, last)
	return format.DateSpan(from, to, year)
}

func clock(at string) string {
	t, _ := time.Parse("2006-01-02 15:04", at)
	return format.Clock(t, time.Date(2026, 3, 2, 23, 0, 0, 0, time.UTC))
}
