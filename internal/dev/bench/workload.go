package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	pageRows   = analytics.PageRows
	dateLayout = "2006-01-02"
)

// firstDay is long past, so that every window is complete and settled.
var firstDay = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// workload is what is read: day windows from firstDay on, all of one size.
type workload struct {
	Windows int
	// Rows of each window.
	Rows int
	// Latency is how long the server waits before each answer.
	Latency time.Duration
}

// project returns the project id that makes the server serve w: the server
// keeps nothing, the id says it all.
func (w workload) project() string {
	return fmt.Sprintf("%drows_%dms", w.Rows, w.Latency.Milliseconds())
}

// served reads a project id back; Windows is not in it.
func served(project string) (workload, error) {
	var rows, ms int
	if _, err := fmt.Sscanf(project, "%drows_%dms", &rows, &ms); err != nil {
		return workload{}, fmt.Errorf("project %q: want an id like 250rows_50ms", project)
	}
	return workload{Rows: rows, Latency: time.Duration(ms) * time.Millisecond}, nil
}

// days returns the first day of window n, counted from 0, and the day after it.
func days(n int) (from, to string) {
	day := firstDay.AddDate(0, 0, n)
	return day.Format(dateLayout), day.AddDate(0, 0, 1).Format(dateLayout)
}

// span returns the days that the windows of w cover, half-open.
func (w workload) span() (from, to string) {
	from, _ = days(0)
	_, to = days(w.Windows - 1)
	return from, to
}

func (w workload) totalRows() int64 { return int64(w.Windows) * int64(w.Rows) }

// fewest returns the least number of requests that can bring all rows.
func (w workload) fewest() int64 {
	return int64(w.Windows) * int64(max(1, (w.Rows+pageRows-1)/pageRows))
}

// String is the workload as a table shows it: 40 × 25,000.
func (w workload) String() string { return commas(int64(w.Windows)) + " × " + commas(int64(w.Rows)) }

// commas groups the digits of n by thousands.
func commas(n int64) string {
	digits := fmt.Sprint(n)
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	return strings.Join(append([]string{digits}, groups...), ",")
}
