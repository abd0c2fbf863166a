package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
)

func (a *app) planCommand() *cobra.Command {
	var sel selection
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "show what export would read, why, and when the backlog will be done",
		Long: `plan lists the windows that export would read, in its order, with the reason of
each and the requests it will cost, and says when the request budget lets the
last of them be read. It sends nothing.

Reasons: missing (not in the ledger yet), settle (read while it could still
change, and now it cannot), unverified (it changed while it was read), asked
(--from, --to), open (the running window, totals only, for gauges).

Requests: from the window's own last reading, else ~ from its neighbours, else ?
(counted as one).`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.plan(cmd.Context(), &sel, asJSON) },
	}
	sel.flags(cmd, true)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON")
	return cmd
}

// plannedWindow is one row of a plan; its JSON keys are stable.
type plannedWindow struct {
	analytics.Key
	Reason     schedule.Reason `json:"reason"`
	TotalsOnly bool            `json:"totals_only"`
	Requests   int             `json:"requests"`
	// Basis of Requests: ledger, neighbours or unknown.
	Basis string `json:"requests_from"`
}

type planReport struct {
	Windows  []plannedWindow `json:"windows"`
	Requests int             `json:"requests"`
	Unknown  int             `json:"windows_of_unknown_cost"`
	Budget   capacity        `json:"budget"`
	Finish   time.Time       `json:"finished_by"`
}

func (a *app) plan(ctx context.Context, sel *selection, asJSON bool) (err error) {
	c, err := loadConfig(needProjects, a.now())
	if err != nil {
		return err
	}
	db, err := state.OpenExisting(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	l, err := readLedger(ctx, db)
	if err != nil {
		return err
	}
	in, err := sel.input(c, l, a.now(), 0)
	if err != nil {
		return err
	}
	items, err := sel.items(in)
	if err != nil {
		return err
	}
	budget, err := readCapacity(ctx, db, c, a.now())
	if err != nil {
		return err
	}
	report := newPlanReport(items, l, budget)
	if asJSON {
		return writeJSON(a.out, report)
	}
	return a.printPlan(report)
}

func newPlanReport(items []schedule.Item, l ledger, budget capacity) planReport {
	r := planReport{Windows: []plannedWindow{}, Budget: budget}
	for _, item := range items {
		n, known := l.expected(item)
		basis := "ledger"
		if _, own := l.rows(item.Key); !own && !item.TotalsOnly && item.Reason != schedule.ReasonOpen {
			basis = "neighbours"
		}
		if !known {
			basis = "unknown"
			r.Unknown++
		}
		r.Requests += n
		r.Windows = append(r.Windows, plannedWindow{item.Key, item.Reason, item.TotalsOnly, n, basis})
	}
	r.Finish = budget.finish(r.Requests)
	return r
}

func (a *app) printPlan(r planReport) error {
	if len(r.Windows) == 0 {
		_, err := fmt.Fprintf(a.out, "nothing is due; %s\n", r.Budget)
		return err
	}
	rows := make([][]string, len(r.Windows))
	for i, w := range r.Windows {
		cost := strconv.Itoa(w.Requests)
		switch w.Basis {
		case "neighbours":
			cost = "~" + cost
		case "unknown":
			cost = "?"
		}
		rows[i] = []string{strconv.Itoa(i + 1), w.Project, windowName(w), w.From.String(), w.To.String(), string(w.Reason), cost}
	}
	if err := table(a.out, []string{"#", "project", "window", "from", "to (exclusive)", "reason", "requests"}, rows, 0, 6); err != nil {
		return err
	}
	least, earliest := "", ""
	if r.Unknown > 0 {
		least, earliest = "at least ", " at the earliest"
	}
	_, err := fmt.Fprintf(a.out, "\n%s, %s%s; %s; done by %s%s\n", plural(len(r.Windows), "window"), least, plural(r.Requests, "request"), r.Budget, clock(r.Finish), earliest)
	return err
}

func windowName(w plannedWindow) string {
	if w.TotalsOnly || w.Reason == schedule.ReasonOpen {
		return string(w.Granularity) + " (totals)"
	}
	return string(w.Granularity)
}
