package coverage

import (
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
)

// PlannedWindow is one row of a plan; its JSON keys are stable.
type PlannedWindow struct {
	analytics.Key
	Reason     schedule.Reason `json:"reason"`
	TotalsOnly bool            `json:"totals_only"`
	Requests   int             `json:"requests"`
	// Basis of Requests: ledger, neighbours, day or unknown.
	Basis schedule.Basis `json:"requests_from"`
	// InSpool is how many pages were read by earlier runs.
	InSpool int `json:"pages_in_spool"`
	// Decision is why a window is not simply read.
	Decision string `json:"decision,omitempty"`
}

// PlanReport is a plan as people and programs are shown it; its JSON keys are stable.
type PlanReport struct {
	Windows []PlannedWindow `json:"windows"`
	// Waiting are windows that are not due before their time.
	Waiting  []PlannedWindow `json:"windows_waiting"`
	Requests int             `json:"requests"`
	Unknown  int             `json:"windows_of_unknown_cost"`
	Budget   Capacity        `json:"budget"`
	Finish   time.Time       `json:"finished_by"`
	// Named is how far the reading of named windows is; nil where none are named.
	Named *Named `json:"named_reading,omitempty"`
	// Lacking are the reports that the service does not have.
	Lacking []Lacking `json:"reports_lacking,omitempty"`
	// Refused are the projects and reports that the service refuses, although it accepts the key for others.
	Refused []view.Refused `json:"refused,omitempty"`
	// Early has the projects with windows that begin before the service has data.
	Early []Early `json:"before_data,omitempty"`
}

// NewPlanReport returns the windows of a plan and their cost in requests.
func NewPlanReport(p Plan) PlanReport {
	r := PlanReport{Windows: []PlannedWindow{}, Waiting: []PlannedWindow{}, Budget: p.Budget, Named: p.Named,
		Lacking: p.Lacking, Refused: p.Refused, Early: p.Early}
	for _, item := range p.Due {
		w := plannedWindow(p, item)
		if w.Basis == schedule.BasisUnknown {
			r.Unknown++
		}
		r.Requests += w.Requests
		r.Windows = append(r.Windows, w)
	}
	for _, item := range p.Waiting {
		r.Waiting = append(r.Waiting, plannedWindow(p, item))
	}
	r.Finish = p.Budget.Finish(r.Requests)
	return r
}

// plannedWindow is the row of one window.
func plannedWindow(p Plan, item schedule.Item) PlannedWindow {
	n, basis := p.Ledger.Sizes.Requests(item)
	return PlannedWindow{item.Key, item.Reason, item.TotalsOnly, n, basis, p.Ledger.Sizes.Begun(item.Key), item.Why}
}
