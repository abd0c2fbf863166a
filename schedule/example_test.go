package schedule_test

import (
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/schedule"
)

// A plan lists the newest complete window first, then those that can no longer change,
// then the gaps.
func ExamplePlan() {
	day := func(n int) analytics.Key {
		from := analytics.NewDate(2026, time.March, n)
		return analytics.Key{Project: "prj_a", Granularity: analytics.Day,
			Window: analytics.Window{From: from, To: from + 1}}
	}
	ledger := map[analytics.Key]analytics.Revision{
		day(6): {Key: day(6), Verified: true},                // can still change
		day(4): {Key: day(4), Verified: true},                // was read when it could still change
		day(3): {Key: day(3), Verified: true, Settled: true}, // is done
	}
	due, _ := schedule.Plan(schedule.Input{
		Now:         time.Date(2026, time.March, 8, 9, 30, 0, 0, time.UTC),
		Projects:    []string{"prj_a"},
		Specs:       []analytics.Spec{{Granularity: analytics.Day}},
		Since:       day(2).From,
		Settle:      72 * time.Hour,
		Known:       func(k analytics.Key) (analytics.Revision, bool) { r, ok := ledger[k]; return r, ok },
		Provisional: []analytics.Key{day(6), day(4)},
	})
	for _, item := range due {
		fmt.Println(item.Reason, item.Window)
	}
	// Output:
	// missing [2026-03-07,2026-03-08)
	// settle [2026-03-04,2026-03-05)
	// missing [2026-03-05,2026-03-06)
	// missing [2026-03-02,2026-03-03)
}

// A window without rows costs one request, and the page after the last is never requested.
func ExampleRequests() {
	for _, rows := range []int64{0, 250, 251} {
		fmt.Println(schedule.Requests(rows, analytics.PageRows))
	}
	// Output:
	// 1
	// 1
	// 2
}

func ExampleParseCron() {
	cron, err := schedule.ParseCron("17 */6 * * mon-fri")
	if err != nil {
		fmt.Println(err)
		return
	}
	friday := time.Date(2026, time.March, 6, 19, 0, 0, 0, time.UTC)
	fmt.Println(cron.Next(friday).Format(time.DateTime))
	// Output: 2026-03-09 00:17:00
}
