package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

// lackingText says that the service does not have a report.
func lackingText(w render.Wording, l coverage.Lacking, now time.Time) string {
	return fmt.Sprintf("the service does not have the report %s%s: it is asked for again at %s; without it, remove it "+
		"from DOCGAUGE_REPORTS", l.Report, w.OfProject(l.Project), format.Clock(l.Until, now))
}

// refusedText says that the service refuses a project or a report.
func refusedText(w render.Wording, r view.Refused, now time.Time) string {
	what, setting := "project "+w.Names.Of(r.Project), "DOCGAUGE_PROJECTS"
	if r.Report != analytics.VisitorsReport {
		what, setting = fmt.Sprintf("the report %s of %s", r.Report, w.Names.Of(r.Project)), "DOCGAUGE_REPORTS"
	}
	return fmt.Sprintf("skipped %s, %s: the service refuses it (401, 403), but accepts the key otherwise; it is asked "+
		"for again at %s, or by docgauge check; without it, remove it from %s", what, format.Plural(r.Windows, "window"),
		format.Clock(r.Until, now), setting)
}

// earlyText says that windows are not exported because they begin before the service has data.
func earlyText(w render.Wording, e coverage.Early) string {
	of := w.OfProject(e.Project)
	if e.DataFrom == nil {
		return fmt.Sprintf("the service has no data%s yet: nothing is exported until it has; each export asks once", of)
	}
	return fmt.Sprintf("not exported: %s%s beginning before %s, the first day with data; --from and --to read them",
		format.Plural(e.Windows, "window"), of, e.DataFrom)
}

// namedReading says how far the reading of windows named by their dates is.
func namedReading(n coverage.Named) string {
	windows := fmt.Sprintf("%s inside [%s,%s) read since %s", format.Plural(n.Windows, "window"), n.From,
		n.To, format.Time(n.Began))
	if n.Left > 0 {
		return fmt.Sprintf("%s of %s; the same command continues, --again starts over",
			format.Commas(n.Windows-n.Left), windows)
	}
	return fmt.Sprintf("done: %s, the last of them by %s; --again starts over", windows, format.Time(n.Done))
}

// coverageTable has a row for each granularity, below their project if there are several.
func coverageTable(w render.Wording, all []view.Grid) *render.Table {
	table := render.NewTable(render.Column{Name: "window"}, render.Column{Name: "newest"},
		render.Number("human"), render.Number("ai"),
		render.Number("total"), render.Number("pages"), render.Number("known"),
		render.Column{Name: "state", Cut: render.CutEnd})
	for i, c := range all {
		if name := w.Project(c.Project); name != "" && (i == 0 || all[i-1].Project != c.Project) {
			table.Group(name)
		}
		cells := []string{render.Granularity(c.Report, c.Granularity), "-", "-", "-", "-", "-"}
		if n := c.Newest; n != nil {
			pages := "-"
			if !n.TotalsOnly() && !c.Report.Shape().Site { // whose rows are several to a page
				pages = format.Commas(n.Rows)
			}
			cells[1], cells[5] = w.Days(n.Key), pages
			if c.Report == analytics.VisitorsReport { // of the others, the totals are rows
				cells[2], cells[3], cells[4] = format.Commas(n.Totals.Human), format.Commas(n.Totals.AI),
					format.Commas(n.Totals.Total)
			}
		}
		known := format.Commas(c.Known)
		if len(c.Gaps) > 0 {
			known += " of " + format.Commas(c.Known+len(c.Gaps))
		}
		table.Add(append(cells, known, coverageState(c))...)
	}
	return table
}

// coverageState says how many windows are unverified or provisional; settled if none is, - without windows.
func coverageState(c view.Grid) string {
	var parts []string
	if c.Unverified > 0 {
		parts = append(parts, format.Commas(c.Unverified)+" unverified")
	}
	if c.Provisional > 0 {
		parts = append(parts, format.Commas(c.Provisional)+" provisional")
	}
	switch {
	case c.Known == 0:
		return "-"
	case len(parts) == 0:
		return "settled"
	}
	return strings.Join(parts, ", ")
}
