// Package analytics has the words that every other package uses: dates, half-open
// windows, granularities, rows, totals, revisions and movers of visitor analytics.
//
// Dates are UTC days without a time or a zone, and a window [From, To) consists of whole
// days, so that adjacent windows share no day and miss none.
//
// The package depends on the standard library only, does no I/O, and does not know which
// windows are due (package schedule does) or where numbers come from and go to.
package analytics

import (
	"math"
	"reflect"
	"sync"
	"time"
)

// Row is the unique visitors of one page (service specification, section 2.3).
type Row struct {
	Path string `json:"path"`
	Totals
}

// Totals is the unique visitors of a page, or of the whole site (section 2.2), where totals are not sums of rows.
// One more count is one more field: the columns of reports with such counts are its fields.
type Totals struct {
	Human int64 `json:"human"`
	AI    int64 `json:"ai"`
	Total int64 `json:"total" about:"Not human + ai: deduplicated. Unique visitors do not add up over days or pages."`
}

// Fields are the counts, in the order of the columns.
func (t *Totals) Fields() []*int64 { return CountsOf(t) }

// CountsOf returns the fields of a struct of counts.
func CountsOf[S any](counts *S) []*int64 {
	v := reflect.ValueOf(counts).Elem()
	fields := make([]*int64, v.NumField())
	for i := range fields {
		fields[i] = v.Field(i).Addr().Interface().(*int64)
	}
	return fields
}

// Pointers are the counts as destinations of a scan, in the order of [TotalsNames].
func (t *Totals) Pointers() (into []any) {
	for _, n := range t.Fields() {
		into = append(into, n)
	}
	return into
}

// Values are the counts, in the order of [TotalsNames].
func (t Totals) Values() (values []any) {
	for _, n := range t.Fields() {
		values = append(values, *n)
	}
	return values
}

// TotalsNames are the names of the counts of [Totals], in the order of [Totals.Fields].
var TotalsNames = sync.OnceValue(func() (names []string) {
	for _, c := range columnsOf(reflect.TypeFor[Totals]()) {
		names = append(names, c.Name)
	}
	return names
})

// NamedCount is a count with its name.
type NamedCount struct {
	Name  string
	Value int64
}

// More are the counts besides human, ai and total, for tables that have a place for each of these.
func (t Totals) More() (more []NamedCount) {
	const known = 3
	for i, n := range t.Fields()[known:] {
		more = append(more, NamedCount{TotalsNames()[known+i], *n})
	}
	return more
}

// ByName are the counts by their names.
func (t Totals) ByName() map[string]int64 {
	named := map[string]int64{}
	for i, n := range t.Fields() {
		named[TotalsNames()[i]] = *n
	}
	return named
}

// Totals are the counts of a report whose counts are totals of visitors.
func (c Counts) Totals() (t Totals) {
	for i, n := range t.Fields() {
		*n = c[i]
	}
	return t
}

// Counts are the counts of the totals, as rows of pages have them.
func (t Totals) Counts() (c Counts) {
	for i, n := range t.Fields() {
		c[i] = *n
	}
	return c
}

// TotalsOnlyRows is Revision.Rows where no rows were read.
const TotalsOnlyRows = -1

// Revision describes one committed reading of one window: everything but its rows.
type Revision struct {
	Key
	// Number counts the readings of the window, from 1.
	Number int32 `json:"revision"`
	// Settled: the window was read when it could no longer change. A settled window is
	// not requested again unless the operator names it.
	Settled bool `json:"settled"`
	// Verified: all pages carried the same totals, no path came twice and every
	// page but the last was full.
	Verified bool   `json:"verified"`
	Totals   Totals `json:"totals"`
	// Humans is the mode by which the service counted.
	Humans Humans `json:"humans,omitempty"`
	// Rows is the number of rows, or TotalsOnlyRows.
	Rows int64 `json:"row_count"`
	// ExportedAt is when the first page was requested, UTC, in microseconds.
	ExportedAt time.Time `json:"exported_at"`
}

// Unbelieved stands for the time of a reading that was made while the clock was ahead.
var Unbelieved = time.UnixMicro(1).UTC()

// TotalsOnly reports whether only the site totals were read.
func (r Revision) TotalsOnly() bool { return r.Rows == TotalsOnlyRows }

// HasRows reports whether there are rows: rows of pages, or totals that are rows ([Shape.Site]).
func (r Revision) HasRows() bool { return !r.TotalsOnly() || r.Report.Shape().Site }

// Same reports whether r and other are one revision, to the microsecond that sinks keep.
func (r Revision) Same(other Revision) bool {
	sameTime := r.ExportedAt.Truncate(time.Microsecond).Equal(other.ExportedAt.Truncate(time.Microsecond))
	r.ExportedAt, other.ExportedAt = time.Time{}, time.Time{}
	return sameTime && r == other
}

// Comparable reports whether the visitors of r and other are counted by one mode: other people cannot be compared. The
// rows of other reports than visitors do not depend on the mode.
func (r Revision) Comparable(other Revision) bool {
	return r.Report != VisitorsReport || r.Humans == other.Humans
}

// State is settled, or provisional while the numbers can still change.
func (r Revision) State() string {
	if r.Settled {
		return "settled"
	}
	return "provisional"
}

// StateText is the state, with the remark that the numbers are unverified where they are.
func (r Revision) StateText() string {
	if !r.Verified {
		return r.State() + ", unverified"
	}
	return r.State()
}

// Provenance is the part of a reading that only the ledger stores; no sink has it.
type Provenance struct {
	// Requests is the number of API requests that the reading cost.
	Requests int `json:"requests"`
	// Checksum is the [Checksum] of its rows; empty where it is unknown.
	Checksum string `json:"checksum,omitempty"`
	// MovedRows and RepeatedRows count the suspect rows of an unverified reading:
	// those that came before its totals last moved, and those whose path came twice.
	MovedRows    int64 `json:"moved_rows"`
	RepeatedRows int64 `json:"repeated_rows"`
}

// PageRows is the most rows that one page, an answer of the API, can have (service
// specification, sections 4.3 and 8).
const PageRows = 250

// Page is one answer of the API: some rows of a window, and the totals of the site
// that every page of the window repeats (service specification, section 4.3).
type Page struct {
	// Offset is the number of rows skipped before this page.
	Offset int
	// Totals holds the totals if the report has counts for them. Site holds them if the report has rows for them:
	// see [Shape.Site].
	Totals Totals
	Site   []Record
	Rows   []Record
	// HasMore reports whether rows exist beyond this page.
	HasMore bool
	// DataFrom is the first day of which the service has data of the project, NoData without any; nil where it does
	// not say.
	DataFrom *Date
	// Humans is the mode by which the service counts.
	Humans Humans
}

// NoData is after every day.
const NoData = Date(math.MaxInt32)

// OpenWindow is the newest reading of a running window, so far. Only gauges and status show it.
type OpenWindow struct {
	Key
	Totals Totals    `json:"totals"`
	Humans Humans    `json:"humans,omitempty"`
	ReadAt time.Time `json:"read_at"`
}

// Run is one export run.
type Run struct {
	ID      int64     `json:"id"`
	Started time.Time `json:"started_at"`
	// Finished is zero, and Outcome empty, while it runs or if it was killed.
	Finished time.Time `json:"finished_at,omitzero"`
	Outcome  string    `json:"outcome,omitempty"` // success, deferred, failed, interrupted
	Message  string    `json:"message,omitempty"` // the error, or empty
	Windows  int       `json:"windows"`
	Requests int       `json:"requests"`
}

// AsideReason is why a window is set aside: the reason label of
// docgauge_windows_set_aside.
type AsideReason string

// The reasons.
const (
	// AsideMalformed: an answer of the service has something that cannot be stored.
	AsideMalformed AsideReason = "malformed"
	// AsideRepeats: the service sends the same rows again at another offset.
	AsideRepeats AsideReason = "repeats"
	// AsideRefused: the service refuses the request (4xx), though not the requests for other windows.
	AsideRefused AsideReason = "refused"
	// AsideEmpty: the service sends no rows, under totals that are not zero, of a window
	// whose rows are known.
	AsideEmpty AsideReason = "empty"
	// AsideFailing: the service fails (5xx, no answer), though not for other windows.
	AsideFailing AsideReason = "failing"
)

// Aside is a window that failed by itself, and is set aside: it is not requested again
// before Until.
type Aside struct {
	Key
	Reason AsideReason `json:"reason"`
	// Detail is the last error, safe to display.
	Detail string `json:"detail"`
	// Failures counts the runs in which it failed, Since is when the first of them did.
	Failures int       `json:"failures"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
}
