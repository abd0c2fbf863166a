// Package view has the values that people and programs are shown: one type for each fact.
// Metrics, pages, the HTTP API, MCP and the commands read it; JSON keys are stable.
//
// It hides nothing and does nothing: package snapshot makes the values from the state.
package view

import (
	"cmp"
	"math"
	"sort"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Snapshot holds the value of every metric, and everything that the status page
// shows, at one moment. It is made from the state after a commit, never by a scrape,
// and not changed afterwards.
type Snapshot struct {
	// At is when it was made; Version and Revision describe the program.
	At                time.Time
	Version, Revision string

	// Reload is how the last reload of the settings went; nil outside of serve. Values sets it.
	Reload *Reload

	// Projects are the configured ones, in configured order, with the windows that the
	// ledger should have of each.
	Projects []Project
	// Windows are the newest complete windows: at most one for each project and
	// granularity configured.
	Windows []Window
	// Open are the newest readings of the running windows.
	Open []analytics.OpenWindow
	// Others are the newest complete windows of the reports besides visitors.
	Others []RowsWindow

	// Due counts the complete windows that are due, for each project, granularity and
	// possible reason, including 0.
	Due []Due
	// Asides are the complete windows that are set aside, newest first: each Until is
	// after At. None of them is due.
	Asides []analytics.Aside
	// Refused are the projects and reports that the service refuses.
	Refused []Refused
	// Finish is when the last due window can be read within the budget; zero if nothing is
	// due.
	Finish time.Time

	// Counters and Histograms are kept in the state, over all processes.
	Counters   []Counter
	Histograms []Histogram

	Budgets []Budget
	Keys    []Key
	// Sinks are the configured ones, in configured order.
	Sinks []Sink

	// LastStart, LastCompletion and LastSuccess are times of export runs; zero: never.
	LastStart, LastCompletion, LastSuccess time.Time
	// Runs are the newest, newest first.
	Runs []analytics.Run
	// NextRun is when the schedule fires next; zero without a schedule.
	NextRun time.Time

	// Queue is the prompt queue; nil if it is not configured.
	Queue *Queue
	// Outcomes are the outcomes of the merged pull requests after the last export run.
	Outcomes Outcomes
	// Missed has for each project the path that agents missed most on the newest day, of those whose redirect is
	// sure; it is empty without one. Projects without days of agents have none.
	Missed []MissedPath
}

// ProjectName returns the display name of a project: its id if it has no other name.
func (s *Snapshot) ProjectName(id string) string {
	for _, p := range s.Projects {
		if p.ID == id {
			return cmp.Or(p.Name, id)
		}
	}
	return id
}

// Queue is the prompt queue and its agent jobs.
type Queue struct {
	// Prompts counts the prompts of each project in each state, including 0.
	Prompts []StateCount
	// Jobs are the newest job of each prompt, newest first: a bounded number of those that are
	// active or ended lately.
	Jobs []Job
	// Waiting are prompts that are not jobs yet, in the order in which they become some: a
	// bounded number. Of a Job they have no more than the project, the prompt, the title,
	// the state and the reason.
	Waiting []Job
	// Caps bound the number of jobs, and their cost.
	Caps []Cap
	// PullRequests counts the pull requests of each project in each state, including 0. Reviews has what became of
	// them, for each project.
	PullRequests []StateCount
	Reviews      []Review
	// Costs: the cost of jobs is counted.
	Costs bool
	// Paused is why no prompt is submitted: unknown, unauthorized, operator or new_state;
	// empty: prompts are submitted.
	Paused string
	// Refused are the projects whose agent jobs the service refuses, although it accepts the key.
	Refused []string
	// PausedSince is zero if that is not known.
	PausedSince time.Time
	// Problem is why the folder cannot be read; empty: it can.
	Problem string
}

// Cap bounds the number of jobs of all projects together, or their cost.
type Cap struct {
	// Name is "day", jobs begun within 24 hours; "active", jobs in progress; "open_pull_requests", with
	// the jobs in progress that may open one; or "cost", the cost of the jobs begun within 24 hours.
	Name string
	// Limit is 0 if there is none. Used is Limit, not less, if no further job fits.
	Limit, Used float64
}

// StateCount is how many prompts or pull requests of a project are in a state.
type StateCount struct {
	Project, State string
	Count          int
}

// Review counts the pull requests of a project that were merged or closed.
type Review struct {
	Project string
	// Merged and Closed never decrease. One that is closed without a merge counts a day
	// later, once it was not reopened.
	Merged, Closed int
	// OldestOpen is when the oldest open one was opened; zero if none is open.
	OldestOpen time.Time
}

// Window is the newest reading of a complete window.
type Window struct {
	analytics.Revision
	// Previous are the totals of the window that it is compared with
	// ([analytics.Granularity.ComparedWith]); nil: that was not read, or counts people by another mode.
	Previous *analytics.Totals
	// Pages are its pages with the most visitors: by Total, largest first, ties
	// by path. None where only totals were read.
	Pages []analytics.Row
	// MovedRows and RepeatedRows count its suspect rows (analytics.Provenance); a row can
	// be both. They are 0 if it is verified, or if that is not known.
	MovedRows, RepeatedRows int64
}

// MaxRows is the most rows of a window of a report besides visitors that are shown by name.
const MaxRows = 40

// RowsWindow is the newest reading of a complete window of a report besides visitors.
type RowsWindow struct {
	analytics.Revision
	// Rows are the first ones of [analytics.Shape.Top]. More is how many others it has.
	Rows []analytics.Record
	More int
}

// PeopleIn returns the people of the site in a window, as the window of agents beside it has them; nil without one.
func (s *Snapshot) PeopleIn(k analytics.Key) *People {
	k.Report = analytics.AgentsReport
	for _, w := range s.Others {
		if w.Key == k {
			return PeopleOf(w.Humans, "", w.Rows)
		}
	}
	return nil
}

// Due is how many windows are due for one reason: missing, settle or unverified.
type Due struct {
	Project     string
	Report      analytics.Report
	Granularity analytics.Granularity
	Reason      string
	Count       int
}

// Reload is how the last reload of the settings went. The start counts as one.
type Reload struct {
	Successful bool
	// LastSuccess is when settings were taken last.
	LastSuccess time.Time
}

// Counter is the value of a monotonic counter.
type Counter struct {
	// Name is the metric's without the prefix docgauge_.
	Name string
	// Labels are name, value pairs, in any order.
	Labels []string
	Value  float64
}

// Histogram is a distribution of durations in the buckets of a native histogram of
// schema 3: bucket i counts durations over 2^((i-1)/8) s and up to 2^(i/8) s.
type Histogram struct {
	// Name is the metric's without the prefix docgauge_.
	Name string
	// Labels are name, value pairs, in any order.
	Labels []string
	// Buckets maps each bucket that is not empty to its count.
	Buckets map[int]uint64
	// Sum is in seconds.
	Sum float64
}

// Budget is a request budget of the API.
type Budget struct {
	Name string `json:"-"`
	// Project is the one whose agent jobs it is for. It is empty for reading, of all projects.
	Project string `json:"project,omitempty"`
	// Limit is in requests per hour, 0 is unlimited; Available is the rest of it.
	Limit     int `json:"limit"`
	Available int `json:"available"`
	// Next is when a request may be sent again; zero: now.
	Next time.Time `json:"next_request_at,omitzero"`
}

// Key is an API key: its name, never its value.
type Key struct {
	Name string
	// Expires is zero if that is not known.
	Expires time.Time
	// Rejected: the service refused the last request with it (401, 403).
	Rejected bool
}

// Sink is a place windows are written to.
type Sink struct {
	Name string
	// Location names the place, without secrets.
	Location string
	// LastCommit is when it last took a window; zero: never.
	LastCommit time.Time
	// Waiting counts the windows in the spool that it lacks.
	Waiting int
	// Problem is why it cannot be reached; empty: it can, as far as is known.
	Problem string
}

// Project is the coverage of one project in the ledger.
type Project struct {
	ID string
	// Name is the display name; empty means the id.
	Name string
	// Grids has one entry for each configured granularity, in configured order.
	Grids []Grid
	// Others is the same for each report that is exported besides visitors.
	Others []Grid
}

// Grid is the coverage of one project and granularity.
type Grid struct {
	Project     string                `json:"project"`
	Report      analytics.Report      `json:"report,omitzero" api:"-"`
	Granularity analytics.Granularity `json:"window"`
	TotalsOnly  bool                  `json:"totals_only"`
	// Newest is its newest reading; nil: nothing was read.
	Newest *analytics.Revision `json:"newest"`
	// Each window counts as Known or Missing. A known one can also count as Provisional,
	// Unverified, or Rowless: only its totals are known, though rows are wanted.
	Known       int `json:"windows_known"`
	Missing     int `json:"windows_missing"`
	Provisional int `json:"windows_provisional"`
	Unverified  int `json:"windows_unverified"`
	Rowless     int `json:"windows_without_rows"`
	// Gaps are the windows that the next runs read because they, or their rows, are missing;
	// newest first. Only a status has them.
	Gaps []analytics.Window `json:"gaps"`
	// Cells are its windows, oldest first, those that are missing included.
	Cells []Cell `json:"-"`
}

// Count sets Newest and the counts of g by its cells.
func (g *Grid) Count() {
	g.Newest, g.Known, g.Missing, g.Provisional, g.Unverified, g.Rowless = nil, 0, 0, 0, 0, 0
	for _, c := range g.Cells {
		if c.Revision == nil {
			g.Missing++
			continue
		}
		g.Newest = c.Revision
		g.Known++
		if !c.Revision.Settled {
			g.Provisional++
		}
		if !c.Revision.Verified {
			g.Unverified++
		}
		if c.Revision.TotalsOnly() && !g.TotalsOnly {
			g.Rowless++
		}
	}
}

// EndingAt returns the reading of the window that ends at d, nil if it was not read. The
// window before another is the one that ends where that begins: the two share no day,
// even if windows roll.
func (g Grid) EndingAt(d analytics.Date) *analytics.Revision {
	for _, c := range g.Cells {
		if c.To == d && c.Revision != nil {
			return c.Revision
		}
	}
	return nil
}

// NewestWindow is the newest window, which there must be, with the totals that it is compared with, without pages.
func (g Grid) NewestWindow() Window {
	w := Window{Revision: *g.Newest}
	if before := g.EndingAt(g.Granularity.ComparedWith(w.Window).To); before != nil && before.Comparable(w.Revision) {
		w.Previous = &before.Totals
	}
	return w
}

// Cell is one window of a grid.
type Cell struct {
	analytics.Window
	// Revision is its newest reading; nil: it is missing.
	Revision *analytics.Revision
	// RowsFrom is when the rows of a window are read whose totals alone are known because
	// it moves until it settles; zero for all others.
	RowsFrom time.Time
}

// schemaBuckets is the number of buckets to each power of two, in a native histogram of schema 3.
const schemaBuckets = 8

// fractions are the bounds between 1/2 and 1: 2^(i/8-1).
var fractions = func() (f [schemaBuckets]float64) {
	for i := range f {
		f[i] = math.Exp2(float64(i)/schemaBuckets - 1)
	}
	return f
}()

// Bucket returns the bucket of a native histogram of schema 3 that d falls into:
// the i with 2^((i-1)/8) s < d <= 2^(i/8) s. A duration that is not positive, from a
// clock that stepped back, counts as a nanosecond.
func Bucket(d time.Duration) int {
	fraction, exponent := math.Frexp(max(d, 1).Seconds())
	return sort.SearchFloat64s(fractions[:], fraction) + (exponent-1)*schemaBuckets
}

// Refused is a project, or a report of it, that the service refuses although it accepts the key for others.
type Refused struct {
	Project string           `json:"project"`
	Report  analytics.Report `json:"report"`
	// At is when it refused last, Until when it is asked for again.
	At    time.Time `json:"at"`
	Until time.Time `json:"until"`
	// Windows is how many windows wait for that.
	Windows int `json:"windows"`
}

// What names it: "Project prj_a", "Report agents of project prj_a".
func (r Refused) What() string {
	if r.Report == analytics.VisitorsReport {
		return "Project " + r.Project
	}
	return "Report " + r.Report.String() + " of project " + r.Project
}
