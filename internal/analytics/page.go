package analytics

// PageRows is the most rows of one page (service specification, sections 4.3 and 8).
const PageRows = 250

// Page is one answer of the API: some rows of a window, and the site totals
// that every page of the window repeats (service specification, section 4.3).
type Page struct {
	// Offset is the number of rows skipped before this page.
	Offset int
	Totals Totals
	Rows   []Row
	// HasMore reports whether rows exist beyond this page.
	HasMore bool
}
