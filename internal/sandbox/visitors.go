package sandbox

import "github.com/docgauge/docgauge/internal/analytics"

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
	return a.page(q.limit, q.offset), nil
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
