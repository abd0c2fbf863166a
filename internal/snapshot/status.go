package snapshot

import (
	"context"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
)

// Coverage is one row of a status; its JSON keys are stable.
type Coverage struct {
	Project     string              `json:"project"`
	Window      string              `json:"window"`
	Newest      *analytics.Revision `json:"newest"`
	Known       int                 `json:"windows_known"`
	Gaps        []analytics.Window  `json:"gaps"`
	Provisional int                 `json:"windows_provisional"`
	Unverified  int                 `json:"windows_unverified"`
}

// Status is what the state has, as people and programs are shown it; its JSON keys are
// stable.
type Status struct {
	Coverage []Coverage         `json:"coverage"`
	Open     []state.OpenWindow `json:"open_windows"`
	Budget   coverage.Capacity  `json:"budget"`
	// Unverified are the windows whose last reading is not verified, the newest
	// first, and how many of their rows are suspect.
	Unverified []Unverified `json:"unverified"`
	// SetAside are the windows with invalid responses.
	SetAside []analytics.Aside `json:"set_aside"`
	// Waiting are windows that are not due before their time, and why.
	Waiting []coverage.PlannedWindow `json:"windows_waiting"`
	// Owed counts windows that a sink lacks, by sink.
	Owed    map[string]int `json:"windows_owed"`
	LastRun *state.Run     `json:"last_run"`
	// Sinks are those of Owed, as they are configured.
	Sinks []string `json:"-"`
}

// Unverified is a window whose numbers moved while they were read.
type Unverified struct {
	analytics.Key
	Rows         int64 `json:"row_count"`
	MovedRows    int64 `json:"moved_rows"`
	RepeatedRows int64 `json:"repeated_rows"`
}

// LedgerProjects are the projects of the ledger, in order. Without any there is nothing
// to show.
func LedgerProjects(ctx context.Context, db *state.DB) (ids []string, err error) {
	entries, err := db.Entries(ctx)
	for _, e := range entries {
		ids = append(ids, e.Project)
	}
	slices.Sort(ids)
	if ids = slices.Compact(ids); err == nil && len(ids) == 0 {
		err = config.Problems{"DOCGAUGE_PROJECTS: missing, and DOCGAUGE_STATE_DIR has no window of any project"}
	}
	return ids, err
}

// NewStatus reads the status. Without configured projects they are those of the ledger:
// whoever looks at a state need not have the settings of the job that fills it.
func NewStatus(ctx context.Context, db *state.DB, c config.Config, sel coverage.Selection, now time.Time) (r Status, err error) {
	if len(c.Projects) == 0 {
		if c.Projects, err = LedgerProjects(ctx, db); err != nil {
			return r, err
		}
	}
	p, err := sel.Plan(ctx, db, c, now, 0)
	if err != nil {
		return r, err
	}
	l, in := p.Ledger, p.Input
	for _, project := range Projects(p) {
		for _, g := range project.Grids {
			spec := analytics.Spec{Granularity: g.Granularity, TotalsOnly: g.TotalsOnly}
			r.Coverage = append(r.Coverage, Coverage{
				Project: project.ID, Window: string(g.Granularity), Newest: g.Newest(), Known: g.Known,
				Gaps: append([]analytics.Window{}, schedule.Gaps(in, project.ID, spec)...), Provisional: g.Provisional, Unverified: g.Unverified,
			})
		}
	}
	r.Sinks, r.Owed, r.Budget = c.Sinks, l.Lacking(c.Sinks), p.Budget
	r.Unverified, r.SetAside, r.Waiting = []Unverified{}, l.SetAside(in), []coverage.PlannedWindow{}
	for _, e := range l.Unverified(in.Projects) {
		r.Unverified = append(r.Unverified, Unverified{e.Key, e.Rows, e.MovedRows, e.RepeatedRows})
	}
	for _, item := range p.Waiting {
		r.Waiting = append(r.Waiting, coverage.Planned(p, item))
	}
	if r.Open, err = db.OpenWindows(ctx); err != nil {
		return r, err
	}
	runs, err := db.LastRuns(ctx, 1)
	if len(runs) > 0 {
		r.LastRun = &runs[0]
	}
	return r, err
}
