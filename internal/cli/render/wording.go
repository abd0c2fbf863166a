package render

import (
	"fmt"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
)

// Wording names projects and windows for people. Where there is only one project, its name
// says nothing and is left out.
type Wording struct {
	Names   config.ProjectNames
	Several bool
	Year    int
}

// ProjectColumn is left out where there is one project.
func ProjectColumn() Column { return Column{Name: "project", Cut: CutMiddle, Optional: true} }

// Project is the cell of a column, or the heading, that names the project; empty for an
// only one.
func (w Wording) Project(id string) string {
	if !w.Several {
		return ""
	}
	return w.Names.Of(id)
}

// OfProject is the end of a phrase: of Product docs; empty for an only one.
func (w Wording) OfProject(id string) string {
	if !w.Several {
		return ""
	}
	return " of " + w.Names.Of(id)
}

// Window names a window in a sentence: day 21 Nov, day 21 Nov of Product docs.
func (w Wording) Window(k analytics.Key) string {
	return Granularity(k.Report, k.Granularity) + " " + w.Days(k) + w.OfProject(k.Project)
}

// Compared is the title of a window that is compared with a former one, or with none.
func (w Wording) Compared(k analytics.Key, state string, former *analytics.Key) string {
	text := fmt.Sprintf("%s: %s %s, %s", w.Names.Of(k.Project), k.Granularity, w.Days(k), state)
	if former != nil {
		text += ", compared with " + w.Days(*former)
	}
	return text
}

// NothingToCompare says that the archive lacks the window that one is compared with, or its pages.
func (w Wording) NothingToCompare(k analytics.Key) string {
	k.Window = k.Granularity.ComparedWith(k.Window)
	return "The archive lacks the rows of " + w.Days(k) + ": there is nothing to compare with."
}

// OtherMode says that the window that one is compared with counts people by another mode.
func (w Wording) OtherMode(k analytics.Key, by analytics.Humans) string {
	k.Window = k.Granularity.ComparedWith(k.Window)
	return w.Days(k) + " counts people as " + by.Said() + ": there is nothing to compare with."
}

// Granularity names a kind of windows: day, agents day.
func Granularity(report analytics.Report, g analytics.Granularity) string {
	if report == analytics.VisitorsReport {
		return string(g)
	}
	return report.String() + " " + string(g)
}

// Days names a window by its days: 21 Nov, 9–15 Nov, Oct 2026; where windows overlap, by the last day: to 21 Nov.
func (w Wording) Days(k analytics.Key) string { return w.Span(k.Granularity, k.Window, k.Window) }

// Span names windows of one granularity by the first and the last of them: 24 Aug – 21 Nov,
// Aug 2026 – Oct 2026, to 24 Aug – 21 Nov.
func (w Wording) Span(g analytics.Granularity, first, last analytics.Window) string {
	from, end := first.From.Time(), (last.To - 1).Time()
	switch {
	case g == analytics.Month && first == last:
		return from.Format(monthLayout)
	case g == analytics.Month:
		return from.Format(monthLayout) + " – " + last.From.Time().Format(monthLayout)
	case g.RollingDays() > 0:
		return "to " + format.DateSpan((first.To-1).Time(), end, w.Year)
	}
	return format.DateSpan(from, end, w.Year)
}

const monthLayout = "Jan 2006"
