package schedule

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
