package schedule

import (
	"math"
	"time"
)

// PageRows is the number of rows one request can bring (service specification,
// section 4.3: limit <= 250).
const PageRows = 250

// Requests returns how many requests a window of that many rows costs: its
// pages, and one where there are no rows or only totals are read
// ([analytics.TotalsOnlyRows]). The page after the last is never asked for.
func Requests(rows int64) int {
	if rows <= PageRows {
		return 1
	}
	return int((rows-1)/PageRows + 1)
}

// Backlog returns when, from now, the last of so many requests can have been
// sent: at once as far as the available slots go, and limit more with each
// further hour. That is the latest moment a sliding hour allows, since every
// slot in use now is free again within the hour; sending takes no time here. A
// window may be spread over several hours, so only the sum of requests counts.
// limit <= 0 means unlimited: 0.
func Backlog(requests, limit, available int) time.Duration {
	waiting := requests - max(available, 0)
	if limit <= 0 || waiting <= 0 {
		return 0
	}
	hours := time.Duration((waiting-1)/limit + 1)
	return min(hours, math.MaxInt64/time.Hour) * time.Hour
}
