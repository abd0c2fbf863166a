package analytics

// Alike collects readings of one project's visitors, to tell whether the service, or a cache in front of it, ignores
// the dates of a request. The zero value has none.
type Alike struct {
	windows       map[Window]bool
	granularities map[Granularity]bool
	totals        Totals
	differ        bool
}

// Add adds a reading.
func (a *Alike) Add(r Revision) {
	if r.Report != VisitorsReport || a.differ {
		return
	}
	if a.windows == nil {
		a.windows, a.granularities, a.totals = map[Window]bool{}, map[Granularity]bool{}, r.Totals
	}
	a.windows[r.Window], a.granularities[r.Granularity] = true, true
	a.differ = r.Totals != a.totals
}

// Totals returns the totals of all readings, and whether they are the same although that can hardly be: of windows of
// several lengths, on a site that has more than a handful of readers.
func (a *Alike) Totals() (Totals, bool) {
	const windows, readers = 4, 10
	return a.totals, !a.differ && len(a.windows) >= windows && len(a.granularities) > 1 && a.totals.Total >= readers
}
