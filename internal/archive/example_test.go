package archive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
)

// A window file is written once, whole, and can be read again and again.
func Example() {
	dir, err := os.MkdirTemp("", "archive-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "visitors.parquet")

	revision := analytics.Revision{
		Key: analytics.Key{
			Project: "prj_a", Granularity: analytics.Day,
			Window: analytics.Window{From: analytics.NewDate(2026, 10, 1), To: analytics.NewDate(2026, 10, 2)},
		},
		Number: 1, Verified: true,
		Totals:     analytics.Totals{Human: 100, AI: 30, Total: 120},
		ExportedAt: time.Date(2026, 10, 2, 3, 0, 0, 0, time.UTC),
	}
	rows := func(yield func(analytics.Row, error) bool) { // sorted by path
		_ = yield(analytics.Row{Path: "/docs", Totals: analytics.Totals{Human: 60, AI: 10, Total: 65}}, nil) &&
			yield(analytics.Row{Path: "/docs/quotas", Totals: analytics.Totals{Human: 50, AI: 25, Total: 70}}, nil)
	}
	if _, err := archive.Write(path, revision, analytics.Records(rows)); err != nil {
		panic(err)
	}

	file, err := archive.Open(path)
	if err != nil {
		panic(err)
	}
	fmt.Println(file.Revision().Key, "has", file.Revision().Rows, "pages")
	for row, err := range analytics.Rows[analytics.Row](file.Rows()) {
		if err != nil {
			panic(err)
		}
		fmt.Println(row.Path, row.Total)
	}
	// Output:
	// prj_a day [2026-10-01,2026-10-02) has 2 pages
	// /docs 65
	// /docs/quotas 70
}
