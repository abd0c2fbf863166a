package schedule_test

import (
	"testing"
	"time"

	"github.com/docgauge/docgauge/schedule"
)

func askedInput(t *testing.T) schedule.Input {
	return schedule.Input{
		Now:      time.Date(2026, 3, 10, 23, 59, 0, 0, time.UTC),
		Projects: []string{"a", "b"},
		Specs:    specs(t, "day:totals", "week", "7d"),
		Since:    date(t, "2026-03-10"), // does not limit what is asked for
		Known:    ledger{}.known,
		Rotate:   1,
	}
}

func TestAsked(t *testing.T) {
	in := askedInput(t)
	got, err := schedule.Asked(in, date(t, "2026-03-02"), date(t, "2026-03-10"))
	if err != nil {
		t.Fatal(err)
	}
	diffLines(t, got[:10],
		"asked b day [2026-03-09,2026-03-10) totals newest",
		"asked a day [2026-03-09,2026-03-10) totals newest",
		"asked b 7d [2026-03-03,2026-03-10) newest",
		"asked a 7d [2026-03-03,2026-03-10) newest",
		"asked b day [2026-03-08,2026-03-09) totals",
		"asked a day [2026-03-08,2026-03-09) totals",
		"asked b week [2026-03-02,2026-03-09) newest",
		"asked a week [2026-03-02,2026-03-09) newest",
		"asked b 7d [2026-03-02,2026-03-09)",
		"asked a 7d [2026-03-02,2026-03-09)",
	)
	if len(got) != 2*(8+1+2) {
		t.Errorf("%d windows: %q", len(got), lines(got))
	}
}

func TestAskedInVain(t *testing.T) {
	for _, tc := range []struct {
		from, to string
		specs    []string
		want     string
	}{
		{"2026-03-02", "2026-03-02", nil, "window [2026-03-02,2026-03-02) is empty: its end is exclusive and must be after its begin; for the one day 2026-03-02 give the end 2026-03-03"},
		{"2026-03-03", "2026-03-02", nil, "window [2026-03-03,2026-03-02) is empty: its end is exclusive and must be after its begin; for the one day 2026-03-03 give the end 2026-03-04"},
		{"2026-03-02", "2026-03-11", nil, "window [2026-03-02,2026-03-11) is not complete until 2026-03-11 00:00 UTC: give an end up to 2026-03-10"},
		{"2026-03-03", "2026-03-09", []string{"week", "28d:totals"}, "no window of week, 28d lies wholly inside [2026-03-03,2026-03-09): widen it, or choose a shorter granularity"},
	} {
		in := askedInput(t)
		if tc.specs != nil {
			in.Specs = specs(t, tc.specs...)
		}
		got, err := schedule.Asked(in, date(t, tc.from), date(t, tc.to))
		if err == nil || err.Error() != tc.want || got != nil {
			t.Errorf("Asked(%s, %s) = %v, %v\nwant %s", tc.from, tc.to, got, err, tc.want)
		}
	}
}
