// Package report makes one HTML file of what an archive holds: how many readers,
// how many of them AI, which pages rise and fall, what the agent did.
//
// Read reads the archive, Write writes the file; Live serves the same page of a
// snapshot; package htmlview has what it shares with the status page. Its invariants: the file makes no network request and
// enforces that with a content security policy that allows its own style and script
// alone, by their digests; without the script every number and drawing is there, the
// script only adds what a pointer does; text from an archive or the service stays
// text; no unique visitors are added up, except that human + AI − total is how many
// were both; and memory is bounded by the number of windows and the pages kept, not by
// the rows read.
//
// It knows no state directory and does not decide what is due.
package report

import (
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web/htmlview"
)

// Report is everything the file shows.
type Report struct {
	// Made is when; ages count from it. Version is of the program.
	Made    time.Time
	Version string
	// Title is the heading; empty: one is made of the names of the projects.
	Title string
	// Links lead to other pages of a server; a file has none.
	Links []Link
	// From and To are the dates that were asked for, [From, To); nil: all there are.
	From, To *analytics.Date
	// Against is what the newest windows are compared with.
	Against  htmlview.Comparison
	Projects []Project
	// State is what the state directory knows; nil where there is none.
	State *State
	// Outcomes are those of the merges of the projects, newest first.
	Outcomes []view.Outcome
}

// Link leads to another page, Href is relative.
type Link struct{ Text, Href string }

// Project has one series for each granularity that the archive holds of it.
type Project struct {
	ID string
	// Name is what people are shown; empty: the id.
	Name   string
	Series []Series
}

// Series is the windows of one project and granularity.
type Series struct {
	Grid view.Grid
	// Older counts windows of the archive that were left out because there are so many.
	Older int
	// Pages are those of the newest window that was read; nil where only totals were.
	Pages *Pages
}

// Pages compares the pages of a window with those of an earlier one.
type Pages struct {
	// Before is that one; nil: the archive lacks it or has only its totals, and of
	// Movers only Top and Pages mean something.
	Before *analytics.Revision
	Movers analytics.Movers
}

// State is what a state directory adds to an archive.
type State struct {
	// LastRun is the newest export; nil: none yet.
	LastRun *view.Run
	// LastSuccess is the zero time where no run succeeded.
	LastSuccess time.Time
	// Queue is the prompt queue with the jobs of the projects and dates of the report,
	// newest first; nil where there is none.
	Queue *view.Queue
}
