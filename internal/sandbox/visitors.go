package sandbox

import (
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// visitorsPage is the response body of section 4.3.
type visitorsPage struct {
	Totals   analytics.Totals `json:"totals"`
	Visitors []entry          `json:"visitors"`
	HasMore  bool             `json:"hasMore"`
}

// entry is one element of visitors (section 2.3).
type entry struct {
	Path  string `json:"path"`
	Human int64  `json:"human"`
	AI    int64  `json:"ai"`
	Total int64  `json:"total"`
}

// visitors is GET /v1/analytics/{projectId}/visitors.
func (s *Sandbox) visitors(c *call, p *project) (any, error) {
	q, err := parseVisitorsQuery(c.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	if every(s.config.Faults.DriftEvery, c.number) {
		p.driftAt(c.now)
	}
	a, err := s.answer(p, q.window, c.now)
	if err != nil {
		return nil, err
	}
	if rows := s.config.Faults.PageRows; rows > 0 {
		q.limit = min(q.limit, rows)
	}
	page := a.page(q.limit, q.offset)
	if slices.ContainsFunc(s.config.Faults.BadWindows, q.window.beginsOn) {
		return page.broken(), nil
	}
	return page, nil
}

// page returns limit rows of a after the first offset.
func (a answer) page(limit, offset int) visitorsPage {
	from := min(offset, len(a.rows))
	to := min(from+limit, len(a.rows))
	page := visitorsPage{Totals: a.totals, Visitors: make([]entry, 0, to-from), HasMore: to < len(a.rows)}
	for _, row := range a.rows[from:to] {
		page.Visitors = append(page.Visitors, entry(row))
	}
	return page
}

// beginsOn reports whether w begins with date d.
func (w interval) beginsOn(d analytics.Date) bool { return time.Unix(w.from, 0).Equal(d.Time()) }

// brokenPage is a page as Faults.BadWindows has it.
type brokenPage struct {
	visitorsPage
	Visitors []brokenEntry `json:"visitors"`
}

type brokenEntry struct {
	entry
	Human float64 `json:"human"`
}

func (p visitorsPage) broken() brokenPage {
	bad := brokenPage{p, make([]brokenEntry, 0, len(p.Visitors))}
	for _, e := range p.Visitors {
		bad.Visitors = append(bad.Visitors, brokenEntry{e, float64(e.Human) + 0.5})
	}
	return bad
}
