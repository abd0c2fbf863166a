package analytics

import "time"

// Row is the unique visitors of one page (service specification, section 2.3).
// Total is deduplicated: it is not Human + AI.
type Row struct {
	Path             string
	Human, AI, Total int64
}

// Totals returns the counts of r without its path.
func (r Row) Totals() Totals { return Totals{Human: r.Human, AI: r.AI, Total: r.Total} }

// Totals is the unique visitors of the whole site (section 2.2). Total is
// deduplicated across human and AI visitors, and totals are not sums of rows.
type Totals struct {
	Human int64 `json:"human"`
	AI    int64 `json:"ai"`
	Total int64 `json:"total"`
}

// TotalsOnlyRows is Revision.Rows where no rows were read.
const TotalsOnlyRows = -1

// Revision describes one committed reading of one window: everything but its rows.
type Revision struct {
	Key
	// Number counts the readings of the window, from 1.
	Number int32 `json:"revision"`
	// Settled: read after the window could still change. A settled window is
	// not requested again unless asked for by name.
	Settled bool `json:"settled"`
	// Verified: all pages carried the same totals, no path came twice and every
	// page but the last was full.
	Verified bool   `json:"verified"`
	Totals   Totals `json:"totals"`
	// Rows is the number of rows, or TotalsOnlyRows.
	Rows int64 `json:"row_count"`
	// ExportedAt is when the first page was asked for, UTC, in microseconds.
	ExportedAt time.Time `json:"exported_at"`
}

// Provenance is what the ledger knows of a reading beside what it says. It is in
// no sink.
type Provenance struct {
	// Requests is how many API requests the reading cost.
	Requests int `json:"requests"`
	// Checksum is that of its rows; empty where it is not known.
	Checksum string `json:"checksum,omitempty"`
	// MovedRows counts the rows of an unverified reading that came before its
	// totals last moved, RepeatedRows those whose path came twice: the rows that
	// are suspect.
	MovedRows    int64 `json:"moved_rows"`
	RepeatedRows int64 `json:"repeated_rows"`
}

// TotalsOnly reports whether only the site totals were read.
func (r Revision) TotalsOnly() bool { return r.Rows == TotalsOnlyRows }
