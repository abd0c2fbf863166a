package cli

import (
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

// wording names projects and windows for people. Where there is only one project, its name
// says nothing and is left out.
type wording struct {
	names   config.ProjectNames
	several bool
	year    int
}

func (a *Program) wording(c config.Config) wording {
	return wording{c.ProjectNames, len(c.Projects) > 1, a.now().UTC().Year()}
}

// project is the cell of a column, or the heading, that names the project; empty for an
// only one.
func (w wording) project(id string) string {
	if !w.several {
		return ""
	}
	return w.names.Of(id)
}

// window names a window in a sentence: day 21 Nov, day 21 Nov of Product docs.
func (w wording) window(k analytics.Key) string {
	text := granularity(k.Report, k.Granularity) + " " + w.days(k)
	if w.several {
		text += " of " + w.names.Of(k.Project)
	}
	return text
}

// compared is the title of a window that is compared with a former one, or with none.
func (w wording) compared(k analytics.Key, state string, former *analytics.Key) string {
	text := fmt.Sprintf("%s: %s %s, %s", w.names.Of(k.Project), k.Granularity, w.days(k), state)
	if former != nil {
		text += ", compared with " + w.days(*former)
	}
	return text
}

// nothingToCompare says that the archive lacks the window that one is compared with.
func (w wording) nothingToCompare(k analytics.Key) string {
	k.Window = k.Granularity.ComparedWith(k.Window)
	return "The archive lacks " + w.days(k) + ": there is nothing to compare with."
}

// granularity names a kind of windows: day, agents day.
func granularity(report analytics.Report, g analytics.Granularity) string {
	if report == analytics.VisitorsReport {
		return string(g)
	}
	return report.String() + " " + string(g)
}

// lacking says that the service does not have a report.
func (w wording) lacking(l coverage.Lacking, now time.Time) string {
	of := ""
	if w.several {
		of = " of " + w.names.Of(l.Project)
	}
	return fmt.Sprintf("the service does not have the report %s%s: it is asked for again at %s; without it, remove it "+
		"from DOCGAUGE_REPORTS", l.Report, of, format.Clock(l.Until, now))
}

// refused says that the service refuses a project or a report.
func (w wording) refused(r view.Refused, now time.Time) string {
	what, setting := "project "+w.names.Of(r.Project), "DOCGAUGE_PROJECTS"
	if r.Report != analytics.VisitorsReport {
		what, setting = fmt.Sprintf("the report %s of %s", r.Report, w.names.Of(r.Project)), "DOCGAUGE_REPORTS"
	}
	return fmt.Sprintf("skipped %s, %s: the service refuses it (401, 403), but accepts the key otherwise; it is asked "+
		"for again at %s, or by docgauge check; without it, remove it from %s", what, format.Plural(r.Windows, "window"),
		format.Clock(r.Until, now), setting)
}

// early says that windows are not exported because they begin before the service has data.
func (w wording) early(e coverage.Early) string {
	of := ""
	if w.several {
		of = " of " + w.names.Of(e.Project)
	}
	if e.DataFrom == nil {
		return fmt.Sprintf("the service has no data%s yet: nothing is exported until it has; each export asks once", of)
	}
	return fmt.Sprintf("not exported: %s%s that begin before %s, the first day with data; --from and --to read them",
		format.Plural(e.Windows, "window"), of, e.DataFrom)
}

// days names a window by its days: 21 Nov, 9–15 Nov, Oct 2026, and one of many that
// overlap by the last of them, to 21 Nov.
func (w wording) days(k analytics.Key) string { return w.span(k.Granularity, k.Window, k.Window) }

// span names windows of one granularity by the first and the last of them: 24 Aug – 21 Nov,
// Aug 2026 – Oct 2026, to 24 Aug – 21 Nov.
func (w wording) span(g analytics.Granularity, first, last analytics.Window) string {
	from, end := first.From.Time(), (last.To - 1).Time()
	switch {
	case g == analytics.Month && first == last:
		return from.Format(monthLayout)
	case g == analytics.Month:
		return from.Format(monthLayout) + " – " + last.From.Time().Format(monthLayout)
	case g.RollingDays() > 0:
		return "to " + format.DateSpan((first.To-1).Time(), end, w.year)
	}
	return format.DateSpan(from, end, w.year)
}

const monthLayout = "Jan 2006"
