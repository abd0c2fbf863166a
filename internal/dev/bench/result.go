package main

import (
	"cmp"
	"fmt"
	"slices"
)

// result is one line of the table; the package comment says what the numbers mean.
type result struct {
	Scenario string `json:"scenario"`
	contestant
	LatencyMillis int64 `json:"latency_ms"`
	Windows       int   `json:"windows"`
	WindowRows    int   `json:"rows_per_window"`
	cost
	RowsPerSecond    float64 `json:"rows_per_second"`
	WindowsPerSecond float64 `json:"windows_per_second"`
	CPUPerMillion    float64 `json:"cpu_seconds_per_million_rows"`
	ServerCPUSeconds float64 `json:"server_cpu_seconds"`
	Requests         int64   `json:"requests"`
	RequestRatio     float64 `json:"requests_to_fewest"`
	// TimesPlain is 0 where the plain client did not take part.
	TimesPlain float64 `json:"times_plain,omitempty"`
}

func newResult(c contestant, w workload, spent cost, seen stats) result {
	rows := float64(w.totalRows())
	return result{
		contestant: c, cost: spent,
		LatencyMillis: w.Latency.Milliseconds(), Windows: w.Windows, WindowRows: w.Rows,
		RowsPerSecond:    rows / spent.Seconds,
		WindowsPerSecond: float64(w.Windows) / spent.Seconds,
		CPUPerMillion:    spent.CPUSeconds / (max(rows, 1) / 1e6),
		ServerCPUSeconds: seen.CPUSeconds,
		Requests:         seen.Requests,
		RequestRatio:     float64(seen.Requests) / float64(w.fewest()),
	}
}

// compare fills TimesPlain in the results of one workload.
func compare(rs []result) {
	i := slices.IndexFunc(rs, func(r result) bool { return r.Client == plainClient })
	if i < 0 {
		return
	}
	for n := range rs {
		rs[n].TimesPlain = rs[i].Seconds / rs[n].Seconds
	}
}

// aim is what the project wants to reach, and what it reached.
type aim struct {
	Aim      string `json:"aim"`
	Measured string `json:"measured"`
	Met      bool   `json:"met"`
}

// aims judges the results; what was not measured is left out.
func aims(rs []result) []aim {
	ours := pick(rs, func(r result) bool { return r.Client == docgaugeClient })
	fast := pick(ours, func(r result) bool {
		return r.Scenario == daysScenario && r.LatencyMillis == 0 && r.WindowRows == dayRows
	})
	slow := pick(ours, func(r result) bool {
		return r.Scenario == daysScenario && r.LatencyMillis == usualLatency.Milliseconds() && r.InFlight == manyInFlight
	})
	large := pick(ours, func(r result) bool { return r.WindowRows == largeRows })
	middle := pick(ours, func(r result) bool { return r.WindowRows == middleRows })
	var out []aim
	add := func(what, format string, value float64, met bool) {
		out = append(out, aim{what, fmt.Sprintf(format, value), met})
	}
	if len(ours) > 0 {
		worst := slices.MaxFunc(ours, func(a, b result) int { return cmp.Compare(a.RequestRatio, b.RequestRatio) }).RequestRatio
		add("requests to fewest possible: exactly 1", "%.4g at worst", worst, exact(ours))
	}
	if len(fast) > 0 {
		best := slices.MaxFunc(fast, func(a, b result) int { return cmp.Compare(a.RowsPerSecond, b.RowsPerSecond) }).RowsPerSecond
		add("300,000 rows/s at 0 ms on two cores", "%.0f", best, best >= 300_000)
	}
	if len(slow) > 0 {
		add("10 times the plain client at 50 ms and 16 in flight", "%.1f times", slow[0].TimesPlain, slow[0].TimesPlain >= 10)
	}
	if len(large) > 0 {
		mib := mebibytes(large[0].MaxRSS)
		add("peak RSS under 128 MiB at 10,000,000 rows", "%.0f MiB", mib, mib < 128)
	}
	if len(large) > 0 && len(middle) > 0 {
		growth := float64(large[0].MaxRSS) / float64(middle[0].MaxRSS)
		add("peak RSS flat from 1,000,000 to 10,000,000 rows, within a tenth", "%.2f times", growth, growth <= 1.1)
	}
	return out
}

// loadAims judges the loads of windows of 20,000 rows and more.
func loadAims(rs []loadResult) []aim {
	ours := slices.DeleteFunc(slices.Clone(rs), func(r loadResult) bool { return r.Client != docgaugeClient || r.WindowRows < 20_000 })
	if len(ours) == 0 {
		return nil
	}
	slowest := slices.MinFunc(ours, func(a, b loadResult) int { return cmp.Compare(a.TimesBare, b.TimesBare) }).TimesBare
	largest := mebibytes(slices.MaxFunc(ours, func(a, b loadResult) int { return cmp.Compare(a.MaxRSS, b.MaxRSS) }).MaxRSS)
	return []aim{
		{"into ClickHouse at 0.8 of the bare insert, in windows of 20,000 rows and more", fmt.Sprintf("%.2f at worst", slowest), slowest >= 0.8},
		{"peak RSS under 160 MiB into ClickHouse", fmt.Sprintf("%.0f MiB at most", largest), largest < 160},
	}
}

func medianCost(all []cost) cost {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b cost) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return sorted[len(sorted)/2]
}

// exact reports whether no run sent one request more or less than needed.
func exact(rs []result) bool {
	return !slices.ContainsFunc(rs, func(r result) bool { return r.RequestRatio != 1 })
}

func pick(rs []result, wanted func(result) bool) []result {
	return slices.DeleteFunc(slices.Clone(rs), func(r result) bool { return !wanted(r) })
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }
