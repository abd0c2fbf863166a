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
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/schedule"
)

func (a *Program) planCommand() *cobra.Command {
	var sel coverage.Selection
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "show what export would read, why, and until when",
		Long: `plan lists the windows that export would read, in its order, with the reason of
each and the requests it will cost, and says when the request budget lets the
last of them be read. It sends nothing.

Reasons: missing (not in the ledger yet), settle (read while it could still
change, and now it cannot), unverified (it changed while it was read), asked
(--from, --to), open (the running window, totals only, for gauges).

Requests: a plain number comes from the window's own last reading; ~ is
estimated from its neighbours or the newest day; + is the least it can be,
before anything was read. Pages that are in the spool already are not counted.

A plan of more than 20 windows shows them in groups; --all and --json list each.

Below the windows are the decisions about some of them. A window that moves and
is larger than the budget is read for its totals now and for its rows once it
has settled. One with invalid responses is skipped for a while. Neither keeps
other windows waiting.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.plan(cmd.Context(), sel, o) },
	}
	input.SelectionFlags(cmd, &sel, true)
	cmd.Flags().BoolVar(&o.json, "json", false, "print the plan as JSON")
	cmd.Flags().BoolVar(&o.all, "all", false, "list every window, however many there are")
	return cmd
}

// planOptions say how a plan is printed.
type planOptions struct{ json, all bool }

// planReport is printed.
type planReport coverage.PlanReport

func (a *Program) plan(ctx context.Context, sel coverage.Selection, o planOptions) (err error) {
	c, db, err := a.OpenState(config.NeedProjects)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	p, err := sel.Plan(ctx, db, c, a.Now())
	if err != nil {
		return err
	}
	report := coverage.NewPlanReport(p)
	return a.Print(o.json, report, func() error { return a.printPlan(planReport(report), a.Wording(c), o.all) })
}

// shownPlanned is the number of windows that a plan lists; of more it shows groups.
const shownPlanned = 20

func (a *Program) printPlan(r planReport, w render.Wording, all bool) error {
	text := render.NewText(a.Out)
	grouped := !all && len(r.Windows) > shownPlanned
	if len(r.Windows) == 0 {
		text.Line(2, "nothing is due; %s", r.Budget)
	} else {
		table := r.table(w)
		if grouped {
			table = r.groups(w)
		}
		if err := table.Print(a.Out); err != nil {
			return err
		}
		text.Line(0, "")
		if grouped {
			text.Line(2, "The newest windows are read first; docgauge plan --all lists them all, in their order.")
		}
		text.Line(2, "%s", r.sum(a.Now()))
	}
	if short := r.shortWindows(); r.Finish.Sub(a.Now()) > 24*time.Hour && 2*short > r.Requests {
		text.Line(2, "%s of the requests are for days and rolling windows: DOCGAUGE_WINDOWS=week,month reads the past "+
			"without them", format.Commas(short))
	}
	if r.Unknown > 0 {
		text.Line(2, "+ is at least; the first export shows how large the windows are")
	}
	if r.Named != nil && !r.Named.Began.IsZero() {
		text.Line(2, "%s", namedReading(*r.Named))
	}
	for _, one := range r.Refused {
		text.Line(2, "%s", refusedText(w, one, a.Now()))
	}
	for _, e := range r.Early {
		text.Line(2, "%s", earlyText(w, e))
	}
	for _, l := range r.Lacking {
		text.Line(2, "%s", lackingText(w, l, a.Now()))
	}
	for _, p := range slices.Concat(r.Windows, r.Waiting) {
		if p.Decision != "" {
			text.Line(2, "%s: %s", w.Window(p.Key), p.Decision)
		}
	}
	return text.Err()
}

// shortWindows counts the requests for windows of which there is one a day.
func (r planReport) shortWindows() (requests int) {
	for _, w := range r.Windows {
		if w.Granularity != analytics.Week && w.Granularity != analytics.Month {
			requests += w.Requests
		}
	}
	return requests
}

// sum is the cost of the plan, and the time that the budget makes it take.
func (r planReport) sum(now time.Time) string {
	running := 0
	for _, w := range r.Windows {
		if w.Reason == schedule.ReasonOpen {
			running++
		}
	}
	about := "about "
	switch {
	case r.Unknown > 0:
		about = "at least "
	case !slices.ContainsFunc(r.Windows,
		func(w coverage.PlannedWindow) bool { return w.Basis != schedule.BasisLedger }):
		about = "" // every estimate is the window's last reading
	}
	text := fmt.Sprintf("%s, %s%s", format.Plural(len(r.Windows)-running, "window"), about,
		format.Plural(r.Requests-running, "request"))
	switch {
	case len(r.Windows) == running:
		text = "nothing is due but running windows, " + format.Plural(running, "request")
	case running > 0:
		text += fmt.Sprintf(", and %s for running windows", format.Plural(running, "request"))
	}
	text += "; " + r.Budget.String()
	hours := int((r.Finish.Sub(now) + 59*time.Minute) / time.Hour)
	finish := format.Clock(r.Finish, now)
	switch {
	case len(r.Windows) == running, hours == 0 && r.Unknown > 0:
		return text
	case hours == 0 && r.Budget.Next.IsZero():
		return text + "; the budget lets all of it be read now"
	case r.Unknown > 0:
		return text + "; not done before " + finish
	case finish == format.Clock(r.Budget.Next, now):
		return text + ", for all of it"
	}
	return fmt.Sprintf("%s; done by %s, in about %s", text, finish, format.Plural(max(hours, 1), "hour"))
}

// table has a row for each window, in the order of the plan.
func (r planReport) table(w render.Wording) *render.Table {
	table := render.NewTable(render.Number("#"), render.ProjectColumn(), render.Column{Name: "window"},
		render.Column{Name: "days"}, render.Column{Name: "reason"}, render.Number("requests"))
	for i, p := range r.Windows {
		table.Add(strconv.Itoa(i+1), w.Project(p.Project), plannedName(p), w.Days(p.Key), string(p.Reason),
			requestsText(p.Requests, p.Basis))
	}
	return table
}

// groups has a row for the windows that differ only in their days, in the order of the
// first of them.
func (r planReport) groups(w render.Wording) *render.Table {
	type group struct {
		project, window string
		reason          schedule.Reason
	}
	type sum struct {
		first, last       analytics.Window
		granularity       analytics.Granularity
		windows, requests int
		basis             schedule.Basis
	}
	var order []group
	sums := map[group]*sum{}
	for _, p := range r.Windows {
		g := group{p.Project, plannedName(p), p.Reason}
		s := sums[g]
		if s == nil {
			s = &sum{first: p.Window, last: p.Window, granularity: p.Granularity, basis: p.Basis}
			order, sums[g] = append(order, g), s
		}
		s.windows, s.requests = s.windows+1, s.requests+p.Requests
		s.basis = leastReliable(s.basis, p.Basis)
		if p.From < s.first.From {
			s.first = p.Window
		}
		if p.From > s.last.From {
			s.last = p.Window
		}
	}
	table := render.NewTable(render.ProjectColumn(), render.Column{Name: "window"}, render.Column{Name: "days"},
		render.Number("windows"), render.Column{Name: "reason"}, render.Number("requests"))
	for _, g := range order {
		s := sums[g]
		table.Add(w.Project(g.project), g.window, w.Span(s.granularity, s.first, s.last), format.Commas(s.windows),
			string(g.reason), requestsText(s.requests, s.basis))
	}
	return table
}

// requestsText writes an estimate: 3, ~3 from other windows, 3+ at least.
func requestsText(requests int, basis schedule.Basis) string {
	switch basis {
	case schedule.BasisNeighbours, schedule.BasisDay:
		return "~" + format.Commas(requests)
	case schedule.BasisUnknown:
		return format.Commas(requests) + "+"
	}
	return format.Commas(requests)
}

// leastReliable returns the basis of a sum.
func leastReliable(a, b schedule.Basis) schedule.Basis {
	for _, basis := range []schedule.Basis{schedule.BasisUnknown, schedule.BasisDay, schedule.BasisNeighbours} {
		if a == basis || b == basis {
			return basis
		}
	}
	return a
}

// plannedName is the granularity, and whether only totals are read.
func plannedName(w coverage.PlannedWindow) string {
	if w.TotalsOnly || w.Reason == schedule.ReasonOpen {
		return render.Granularity(w.Report, w.Granularity) + " (totals)"
	}
	return render.Granularity(w.Report, w.Granularity)
}
