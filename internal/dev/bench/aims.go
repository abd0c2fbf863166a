package main

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// aim is a number the project wants to reach, and the one it reached.
type aim struct {
	name, measured string
	met            bool
}

// exportAim judges the worst of docgauge's results that it is about.
type exportAim struct {
	name, format    string
	about           func(exportResult) bool
	value           func(exportResult) float64
	atLeast, atMost float64 // one of them
}

// isLarge: the windows that need more than one row group.
func isLarge(r exportResult) bool {
	return (r.scenario == fiveScenario || r.scenario == largeScenario) && r.work.totalRows() >= 500_000
}

func isMiddle(r exportResult) bool { return r.scenario == largeScenario && r.work.rows == middleRows }
func isFirst(r exportResult) bool  { return r.scenario == firstReading }

func megabytes(r exportResult) float64 { return float64(r.cost.maxRSS) / (1 << 20) }

// times is the speed divided by that of another client; NaN where that was not measured.
func times(client string) func(exportResult) float64 {
	return func(r exportResult) float64 {
		if n, ok := r.times[client]; ok {
			return n
		}
		return math.NaN()
	}
}

// nothing counts the requests that found nothing; mostNothing is how many there may be:
// none with a budget, and without one the logarithm of the pages of each window, since asking
// ahead in growing steps doubles what is known each time.
func nothing(r exportResult) int64 { return r.requests - r.work.fewest() }

func mostNothing(r exportResult) int64 {
	if r.budget > 0 {
		return 0
	}
	windows := int64(r.work.windows)
	return windows * int64(bits.Len64(uint64(r.work.fewest()/windows-1)))
}

var allExportAims = []exportAim{
	{
		name: "requests to fewest possible, with a budget: exactly 1", format: "%.4g at worst", atMost: 1,
		about: func(r exportResult) bool { return r.budget > 0 }, value: exportResult.ratio,
	},
	{
		name: "without a budget: at most ⌈log₂ pages⌉ requests of a window find nothing", format: "%.2f of those", atMost: 1,
		about: func(r exportResult) bool { return r.budget == 0 && nothing(r) > 0 },
		value: func(r exportResult) float64 { return float64(nothing(r)) / float64(mostNothing(r)) },
	},
	{
		name: "1,000 windows × 10 rows: 3.5 times docgauge before", format: "%.2f times", atLeast: 3.5,
		about: func(r exportResult) bool { return r.scenario == smallScenario }, value: times(formerClient),
	},
	{
		name: "1,000 windows × 10 rows: as fast as go-parquet, one at a time", format: "%.2f times", atLeast: 1,
		about: func(r exportResult) bool { return r.scenario == smallScenario }, value: times(goParquetClient),
	},
	{
		name: "5 windows × 100,000 rows: 1.3 times go-parquet with 4 in flight", format: "%.2f times", atLeast: 1.3,
		about: func(r exportResult) bool { return r.scenario == fiveScenario }, value: times(goParquetClient),
	},
	{
		name: "one window of 1,000,000 rows: 1.6 times docgauge before", format: "%.2f times", atLeast: 1.6,
		about: isMiddle, value: times(formerClient),
	},
	{
		name: "large windows: at most 2.8 CPU s per million rows", format: "%.2f at worst", atMost: 2.8,
		about: isLarge, value: func(r exportResult) float64 { return r.cost.cpuSeconds / float64(r.work.totalRows()) * 1e6 },
	},
	{
		name: "large windows: peak RSS at most 96 MiB", format: "%.0f MiB at worst", atMost: 96,
		about: isLarge, value: megabytes,
	},
	{
		name: "a first reading: 5 times the plain client at 50 ms and 16 in flight", format: "%.1f times", atLeast: 5,
		about: isFirst, value: times(plainClient),
	},
	{
		name: "300,000 rows/s at 0 ms and 4 in flight on two cores", format: "%.0f", atLeast: 300_000,
		about: func(r exportResult) bool {
			return r.scenario == daysScenario && r.work.latency == 0 && r.work.rows == dayRows && r.inFlight == usualInFlight
		},
		value: exportResult.rowsPerSecond,
	},
	{
		name: "many days: 10 times the plain client at 50 ms and 16 in flight", format: "%.1f times", atLeast: 10,
		about: func(r exportResult) bool {
			return r.scenario == daysScenario && r.work.latency == usualLatency && r.inFlight == manyInFlight
		},
		value: times(plainClient),
	},
}

// exportAims judges the results; what was not measured is left out.
func exportAims(all []exportResult) (aims []aim) {
	for _, a := range allExportAims {
		var values []float64
		for _, r := range all {
			if r.client == docgaugeClient && a.about(r) && !math.IsNaN(a.value(r)) {
				values = append(values, a.value(r))
			}
		}
		if len(values) == 0 {
			continue
		}
		worst, met := slices.Max(values), slices.Max(values) <= a.atMost
		if a.atLeast > 0 {
			worst, met = slices.Min(values), slices.Min(values) >= a.atLeast
		}
		aims = append(aims, aim{a.name, fmt.Sprintf(a.format, worst), met})
	}
	seconds := func(r exportResult) float64 { return r.cost.seconds }
	isBudget := func(limit int) func(exportResult) bool {
		return func(r exportResult) bool { return r.scenario == budgetScenario && r.budget == limit }
	}
	isLargest := func(r exportResult) bool { return r.work.rows == largeRows }
	return slices.Concat(aims,
		quotientAim("peak RSS flat from 1,000,000 to 10,000,000 rows, within a tenth", all, megabytes, isLargest, isMiddle),
		quotientAim("12,000 requests with a budget of 100,000: at most 1.1 times the time without", all, seconds, isBudget(largeBudget), isBudget(0)))
}

// quotientAim is met if the value of one result is at most 1.1 times that of another.
func quotientAim(name string, all []exportResult, value func(exportResult) float64, one, other func(exportResult) bool) []aim {
	find := func(wanted func(exportResult) bool) int {
		return slices.IndexFunc(all, func(r exportResult) bool { return r.client == docgaugeClient && wanted(r) })
	}
	i, j := find(one), find(other)
	if i < 0 || j < 0 {
		return nil
	}
	quotient := value(all[i]) / value(all[j])
	return []aim{{name, fmt.Sprintf("%.2f times", quotient), quotient <= 1.1}}
}
