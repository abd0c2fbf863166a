package query

import (
	"math"

	"github.com/docgauge/docgauge/internal/analytics"
)

// ByChange is what TopReport.By says where pages are ranked by their change.
const ByChange = "change"

// TopReport is the pages of one project; its JSON keys are stable.
type TopReport struct {
	analytics.Revision
	ProjectName string `json:"project_name,omitempty"`
	// Previous is the window before; null where the archive lacks it.
	Previous *analytics.Revision `json:"previous"`
	// Newer is a newer window of which only the totals are known; null: there is none.
	Newer  *analytics.Revision `json:"newer_totals_only"`
	By     string              `json:"by"`
	Prefix string              `json:"prefix"`
	// Count is how many pages there are with that prefix.
	Count   int64        `json:"page_count"`
	Pages   []RankedPage `json:"pages"`
	Changes *Changes     `json:"changes"` // null where the rows of Previous are not known
}

// Changes are the pages that differ between two windows.
type Changes struct {
	Rising   PageList `json:"rising"`
	Falling  PageList `json:"falling"`
	Appeared PageList `json:"appeared"`
	Vanished PageList `json:"vanished"`
}

// PageList is the beginning of an ordered list of pages, and how long the list is.
type PageList struct {
	Count int64        `json:"count"`
	Pages []RankedPage `json:"pages"`
}

// RankedPage is a page of a list. Counts of a window that has no row of it are null, and
// so is then the change, which is that of the audience the list is ranked by.
type RankedPage struct {
	Rank     int               `json:"rank"`
	Path     string            `json:"path"`
	Visitors *analytics.Totals `json:"visitors"`
	Previous *analytics.Totals `json:"previous"`
	Change   *int64            `json:"change"`
	Percent  *float64          `json:"change_percent"`
}

// TopReports returns the reports of what [Top] found; names are those that people know
// projects by.
func TopReports(all []Pages, q TopOptions, names map[string]string) []TopReport {
	out := []TopReport{}
	for _, p := range all {
		r := TopReport{
			Revision: p.Window, ProjectName: names[p.Window.Project], Previous: p.Before, Newer: p.Newer, Prefix: q.Ranking.Prefix,
			By: string(q.Ranking.By), Count: p.Movers.Pages, Pages: rankedPages(p.First, p.Compared, q.Ranking.By),
		}
		if q.Changed {
			r.By = ByChange
		}
		if m := p.Movers; p.Compared {
			of := func(r analytics.Ranking) PageList { return PageList{r.Count, rankedPages(r.First, true, q.Ranking.By)} }
			r.Changes = &Changes{of(m.Rising), of(m.Falling), of(m.Appeared), of(m.Vanished)}
		}
		out = append(out, r)
	}
	return out
}

func rankedPages(all []analytics.Change, compared bool, by analytics.Audience) []RankedPage {
	out := []RankedPage{}
	for i, c := range all {
		p := RankedPage{Rank: i + 1, Path: c.Path}
		if !c.Vanished {
			p.Visitors = &c.After
		}
		if compared && !c.Appeared {
			p.Previous = &c.Before
		}
		if p.Visitors != nil && p.Previous != nil {
			change := c.By(by)
			p.Change, p.Percent = &change, Percent(c.Before.Of(by), c.After.Of(by))
		}
		out = append(out, p)
	}
	return out
}

// HistoryReport is the windows of one project; its JSON keys are stable.
type HistoryReport struct {
	Project     string                `json:"project"`
	ProjectName string                `json:"project_name,omitempty"`
	Granularity analytics.Granularity `json:"granularity"`
	// Path is empty for the whole site.
	Path    string          `json:"path"`
	Windows []HistoryWindow `json:"windows"`
	// NewerMissing counts the complete windows after those, which the archive lacks.
	NewerMissing int `json:"newer_windows_missing"`
}

// HistoryWindow is one window. What is not known is null.
type HistoryWindow struct {
	analytics.Window
	State    string            `json:"state"` // settled, provisional, missing
	Verified *bool             `json:"verified"`
	Revision *int32            `json:"revision"`
	Visitors *analytics.Totals `json:"visitors"`
	// Absent: the page has no row in this window.
	Absent  bool     `json:"absent"`
	Change  *int64   `json:"change"`
	Percent *float64 `json:"change_percent"`
}

// HistoryReports returns the reports of what [Histories] found.
func HistoryReports(all []History, q HistoryOptions, names map[string]string) []HistoryReport {
	out := []HistoryReport{}
	for _, h := range all {
		r := HistoryReport{Project: h.Project, ProjectName: names[h.Project], Granularity: q.Selection.Granularity, Path: q.Page, NewerMissing: h.Newer}
		for _, s := range h.Steps {
			step := HistoryWindow{Window: s.Window, State: "missing", Visitors: s.Visitors, Absent: s.Absent()}
			if s.Revision != nil {
				step.Verified, step.Revision = &s.Revision.Verified, &s.Revision.Number
				step.State = s.Revision.State()
			}
			if s.Visitors != nil && s.Before != nil {
				change := s.Visitors.Total - s.Before.Total
				step.Change, step.Percent = &change, Percent(s.Before.Total, s.Visitors.Total)
			}
			r.Windows = append(r.Windows, step)
		}
		out = append(out, r)
	}
	return out
}

// Percent returns a change in percent, to one decimal; nil where there was nothing.
func Percent(from, to int64) *float64 {
	if from == 0 {
		return nil
	}
	p := math.Round((float64(to)-float64(from))/float64(from)*1000) / 10
	return &p
}
