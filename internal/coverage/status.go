package coverage

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
)

// Status is the content of the state for people and programs. Its JSON keys are stable.
type Status struct {
	Coverage []view.Grid            `json:"coverage"`
	Open     []analytics.OpenWindow `json:"open_windows"`
	Budget   Capacity               `json:"budget"`
	// Unverified are the windows whose last reading is not verified, the newest
	// first, and how many of their rows are suspect.
	Unverified []unverifiedWindow `json:"unverified"`
	// SetAside are the windows with invalid responses.
	SetAside []analytics.Aside `json:"set_aside"`
	// Waiting are windows that are not due before their time, and why.
	Waiting []PlannedWindow `json:"windows_waiting"`
	// Lacking are the reports that the service does not have.
	Lacking []Lacking `json:"reports_lacking,omitempty"`
	// Refused are the projects and reports that the service refuses, although it accepts the key for others.
	Refused []view.Refused `json:"refused,omitempty"`
	// Early has the projects with windows that begin before the service has data.
	Early []Early `json:"before_data,omitempty"`
	// Owed counts windows that a sink lacks, by sink.
	Owed    map[string]int `json:"windows_owed"`
	LastRun *analytics.Run `json:"last_run"`
	// Sinks are the sinks in Owed, in the order of the configuration.
	Sinks []string `json:"-"`
}

// unverifiedWindow is a window whose numbers moved while they were read.
type unverifiedWindow struct {
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

// NewStatus reads the status. Without configured projects it shows the projects of the ledger: a reader
// of a state need not have the settings of the job that fills it.
func NewStatus(ctx context.Context, db *state.DB, c config.Config, sel Selection, now time.Time) (r Status, err error) {
	if len(c.Projects) == 0 {
		if c.Projects, err = LedgerProjects(ctx, db); err != nil {
			return r, err
		}
	}
	p, err := sel.Plan(ctx, db, c, now)
	if err != nil {
		return r, err
	}
	l, in := p.Ledger, p.Input
	for _, project := range projects(p) {
		for _, g := range slices.Concat(project.Grids, project.Others) {
			g.Gaps = append([]analytics.Window{}, schedule.Gaps(in, wanted(g))...)
			r.Coverage = append(r.Coverage, g)
		}
	}
	r.Sinks, r.Owed, r.Budget, r.Lacking, r.Early = c.Sinks, map[string]int{}, p.Budget, p.Lacking, p.Early
	r.Refused = p.Refused
	r.Unverified, r.SetAside, r.Waiting = []unverifiedWindow{}, l.setAside(in), []PlannedWindow{}
	for _, sink := range c.Sinks {
		r.Owed[sink] = 0
	}
	for e := range l.All() {
		if e.ExportedAt.Equal(analytics.Unbelieved) { // read again, not delivered
			continue
		}
		for _, sink := range c.Sinks {
			if !e.Has(sink) {
				r.Owed[sink]++
			}
		}
		if !e.Verified && slices.Contains(in.Projects, e.Project) && sel.hasWindows(in, e.Granularity) {
			r.Unverified = append(r.Unverified, unverifiedWindow{e.Key, e.Rows, e.MovedRows, e.RepeatedRows})
		}
	}
	slices.SortFunc(r.Unverified, func(a, b unverifiedWindow) int { return newestFirst(a.Key, b.Key) })
	for _, item := range p.Waiting {
		r.Waiting = append(r.Waiting, plannedWindow(p, item))
	}
	open, err := running(ctx, db, p)
	if err != nil {
		return r, err
	}
	r.Open = append([]analytics.OpenWindow{}, slices.DeleteFunc(open, func(w analytics.OpenWindow) bool {
		return !sel.hasWindows(in, w.Granularity)
	})...)
	runs, err := db.LastRuns(ctx, 1)
	for _, run := range runs {
		r.LastRun = &run
	}
	return r, err
}

// hasWindows reports whether the selection, whose input is in, has the windows of a granularity.
func (s Selection) hasWindows(in schedule.Input, g analytics.Granularity) bool {
	return s.Windows == "" || slices.ContainsFunc(in.Specs, func(spec analytics.Spec) bool { return spec.Granularity == g })
}

// wanted names the windows of a grid.
func wanted(g view.Grid) schedule.Wanted {
	return schedule.Wanted{
		Source: schedule.Source{Project: g.Project, Report: g.Report},
		Spec:   analytics.Spec{Granularity: g.Granularity, TotalsOnly: g.TotalsOnly},
	}
}

// projects returns the coverage of each project of a plan: the windows that the ledger
// has and those it should have.
func projects(p Plan) []view.Project {
	// A window that is set aside waits for something else than its rows.
	waits := map[analytics.Key]bool{}
	for _, item := range p.Waiting {
		waits[item.Key] = !p.Ledger.Asides[item.Key].Until.After(p.Input.Now)
	}
	var out []view.Project
	for _, id := range p.Input.Projects {
		project := view.Project{ID: id}
		for _, report := range p.Input.Reports {
			for _, spec := range p.Input.Specs {
				if !report.HasWindows(spec.Granularity) {
					continue
				}
				g := grid(p, view.Grid{Project: id, Report: report, Granularity: spec.Granularity, TotalsOnly: spec.TotalsOnly})
				for i, c := range g.Cells {
					if c.Revision != nil && waits[c.Revision.Key] {
						g.Cells[i].RowsFrom = c.To.Time().Add(p.Input.Settle)
					}
				}
				if report == analytics.VisitorsReport {
					project.Grids = append(project.Grids, g)
				} else {
					project.Others = append(project.Others, g)
				}
			}
		}
		out = append(out, project)
	}
	return out
}

// grid fills in the complete windows of a grid, oldest first: those in the ledger and those
// that are missing.
func grid(p Plan, g view.Grid) view.Grid {
	of := wanted(g)
	for e := range p.Ledger.Series(schedule.Series{Source: of.Source, Granularity: g.Granularity}) {
		if e.Complete(p.Input.Now) {
			g.Cells = append(g.Cells, view.Cell{Window: e.Window, Revision: &e.Revision})
		}
	}
	for _, w := range schedule.Gaps(p.Input, of) {
		// A gap that lacks only its rows has an entry in the ledger.
		if p.Ledger.Entry(of.Key(w)) == nil {
			g.Cells = append(g.Cells, view.Cell{Window: w})
		}
	}
	slices.SortFunc(g.Cells, func(a, b view.Cell) int { return cmp.Compare(a.From, b.From) })
	g.Count()
	return g
}
