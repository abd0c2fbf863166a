package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
)

func (a *Program) planCommand() *cobra.Command {
	var sel coverage.Selection
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "show what export would read, why, and until when",
		Long: `plan lists the windows that export would read, in its order, with the reason of
each and the requests it will cost, and says when the request budget lets the
last of them be read. It sends nothing.

Reasons: missing (not in the ledger yet), settle (read while it could still
change, and now it cannot), unverified (it changed while it was read), asked
(--from, --to), open (the running window, totals only, for gauges).

Requests: a plain number comes from the window's own last reading; ~ is estimated from
its neighbours or the newest day; ? is unknown and counted as one. Pages that are in
the spool already are not counted.

Below the windows stands what was decided about some of them. A window that moves
and is larger than the budget is read for its totals now and for its rows once it
has settled. One that the service does not give as it should is set aside for a
while. Neither keeps other windows waiting.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.plan(cmd.Context(), sel, asJSON) },
	}
	selectionFlags(cmd, &sel, true)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON")
	return cmd
}

// plannedWindow is one row of a plan; its JSON keys are stable.
type plannedWindow struct {
	analytics.Key
	Reason     schedule.Reason `json:"reason"`
	TotalsOnly bool            `json:"totals_only"`
	Requests   int             `json:"requests"`
	// Basis of Requests: ledger, neighbours, day or unknown.
	Basis schedule.Basis `json:"requests_from"`
	// InSpool is how many pages were read by earlier runs.
	InSpool int `json:"pages_in_spool"`
	// Decision says what was decided of a window that is not simply read.
	Decision string `json:"decision,omitempty"`
}

type planReport struct {
	Windows []plannedWindow `json:"windows"`
	// Waiting are windows that are not due before their time.
	Waiting  []plannedWindow   `json:"windows_waiting"`
	Requests int               `json:"requests"`
	Unknown  int               `json:"windows_of_unknown_cost"`
	Budget   coverage.Capacity `json:"budget"`
	Finish   time.Time         `json:"finished_by"`
}

func (a *Program) plan(ctx context.Context, sel coverage.Selection, asJSON bool) (err error) {
	c, err := a.config(config.NeedProjects)
	if err != nil {
		return err
	}
	db, err := state.OpenExisting(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	p, err := sel.Plan(ctx, db, c, a.now(), 0)
	if err != nil {
		return err
	}
	report := newPlanReport(p)
	if asJSON {
		return render.JSON(a.Out, report)
	}
	return a.printPlan(report)
}

func newPlanReport(p coverage.Plan) planReport {
	r := planReport{Windows: []plannedWindow{}, Waiting: []plannedWindow{}, Budget: p.Budget}
	for _, item := range p.Due {
		w := planned(p, item)
		if w.Basis == schedule.BasisUnknown {
			r.Unknown++
		}
		r.Requests += w.Requests
		r.Windows = append(r.Windows, w)
	}
	for _, item := range p.Waiting {
		r.Waiting = append(r.Waiting, planned(p, item))
	}
	r.Finish = p.Budget.Finish(r.Requests)
	return r
}

func planned(p coverage.Plan, item schedule.Item) plannedWindow {
	n, basis := p.Ledger.Sizes.Requests(item)
	return plannedWindow{item.Key, item.Reason, item.TotalsOnly, n, basis, p.Ledger.Sizes.Begun(item.Key), item.Why}
}

func (a *Program) printPlan(r planReport) error {
	if len(r.Windows) == 0 {
		fmt.Fprintf(a.Out, "nothing is due; %s\n", r.Budget)
		return a.printDecisions(r)
	}
	right := func(name string) render.Column { return render.Column{Name: name, Right: true} }
	table := render.NewTable(right("#"), render.Column{Name: "project", Cut: render.CutMiddle}, render.Column{Name: "window"}, render.Column{Name: "from"},
		render.Column{Name: "to (exclusive)"}, render.Column{Name: "reason"}, right("requests"))
	for i, w := range r.Windows {
		cost := strconv.Itoa(w.Requests)
		switch w.Basis {
		case schedule.BasisNeighbours, schedule.BasisDay:
			cost = "~" + cost
		case schedule.BasisUnknown:
			cost = "?"
		}
		table.Add(strconv.Itoa(i+1), w.Project, windowName(w), w.From.String(), w.To.String(), string(w.Reason), cost)
	}
	if err := table.Print(a.Out); err != nil {
		return err
	}
	running := 0
	for _, w := range r.Windows {
		if w.Reason == schedule.ReasonOpen {
			running++
		}
	}
	least, earliest, more := "about ", "", ""
	switch {
	case r.Unknown > 0:
		least, earliest = "at least ", " at the earliest"
	case r.sure():
		least = ""
	}
	due := fmt.Sprintf("%s, %s%s", format.Plural(len(r.Windows)-running, "window"), least, format.Plural(r.Requests-running, "request"))
	switch {
	case len(r.Windows) == running:
		due = "nothing is due but what is still running, " + format.Plural(running, "request")
	case running > 0:
		more = fmt.Sprintf(", and %s for what is still running", format.Plural(running, "request"))
	}
	fmt.Fprintf(a.Out, "\n%s%s; %s; done by %s%s\n", due, more, r.Budget, format.Time(r.Finish), earliest)
	if r.Unknown > 0 {
		fmt.Fprintln(a.Out, "? is known once the newest day of the project was read: plan again after the first export")
	}
	return a.printDecisions(r)
}

// sure reports whether every estimate is from the window's own last reading.
func (r planReport) sure() bool {
	return !slices.ContainsFunc(r.Windows, func(w plannedWindow) bool { return w.Basis != schedule.BasisLedger })
}

// printDecisions says what was decided of windows that are not simply read.
func (a *Program) printDecisions(r planReport) error {
	for _, w := range slices.Concat(r.Windows, r.Waiting) {
		if w.Decision == "" {
			continue
		}
		if _, err := fmt.Fprintf(a.Out, "%s: %s\n", w.Key, w.Decision); err != nil {
			return err
		}
	}
	return nil
}

func windowName(w plannedWindow) string {
	if w.TotalsOnly || w.Reason == schedule.ReasonOpen {
		return string(w.Granularity) + " (totals)"
	}
	return string(w.Granularity)
}
