package report

import (
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Report is everything the page shows.
type Report struct {
	// Made is when; ages count from it. Version is of the program.
	Made    time.Time
	Version string
	// Archive names the place the windows came from, without secrets.
	Archive string
	// From and To are the dates that were asked for, [From, To); nil: all there are.
	From, To *analytics.Date
	Projects []Project
	// State is what the state directory knows; nil where there is none.
	State *State
}

// Project has one line for each granularity that the archive holds of it.
type Project struct {
	ID    string
	Lines []Line
}

// Line is the windows of one project and granularity.
type Line struct {
	Granularity analytics.Granularity
	// Cells are the windows, oldest first, those that are missing included.
	Cells []Cell
	// Older counts windows of the archive that were left off because there are so many.
	Older int
	// Pages are those of the newest window that was read; nil where only totals were.
	Pages *Pages
}

// Pages compares the pages of a window with those of the window before it.
type Pages struct {
	// Before is that window; nil: the archive lacks it or has only its totals, and of
	// Movers only Top and Pages mean something.
	Before *analytics.Revision
	Movers analytics.Movers
}

// Cell is one window; Revision is its newest reading, nil where it is missing.
type Cell struct {
	analytics.Window
	Revision *analytics.Revision
}

// newest returns the newest cell that was read, nil where there is none.
func (l Line) newest() *Cell {
	for i := len(l.Cells) - 1; i >= 0; i-- {
		if l.Cells[i].Revision != nil {
			return &l.Cells[i]
		}
	}
	return nil
}

// before returns the reading of the window that ends at d, nil where there is
// none: for the windows that roll too the two share no day.
func (l Line) before(d analytics.Date) *analytics.Revision {
	for i := range l.Cells {
		if l.Cells[i].To == d && l.Cells[i].Revision != nil {
			return l.Cells[i].Revision
		}
	}
	return nil
}

// State is what a state directory adds to an archive.
type State struct {
	// LastRun is the newest export; nil: none yet.
	LastRun *Run
	// LastSuccess is the zero time where no run succeeded.
	LastSuccess time.Time
	// Queue is the prompt queue; nil where there is none.
	Queue *Queue
}

// Run is one export run. Outcome is empty while it runs or where it was killed.
type Run struct {
	Started time.Time
	Outcome string
	Message string
}

// Queue is the prompt queue and its agent jobs.
type Queue struct {
	// Paused is why no prompt is submitted; empty where they are.
	Paused string
	// Jobs are those of the projects and dates of the report, newest first.
	Jobs []Job
}

// Job is an agent job.
type Job struct {
	Project, Prompt, Title string
	// State is the queue's word; Result is pr, no_pr, failed, archived or lost of an
	// ended one, empty where it never was a job of the service.
	State, Result string
	// Reason is why it waits or how it ended, as far as there is something to say.
	Reason string
	// PRLink is shown as a link where it is https, or of this machine.
	PRLink string
	// Begun is when it was wanted, Created and Ended are zero where they have not come.
	Begun, Created, Ended time.Time
	Stalled               bool
}
