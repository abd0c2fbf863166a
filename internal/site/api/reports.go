package api

import (
	"cmp"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Limits of section 8 of the service's specification.
const (
	DefaultLimit = 50
	MaxLimit     = analytics.PageRows
)

// Page is the response body of section 4.3.
type Page struct {
	Totals   analytics.Totals `json:"totals"`
	Visitors []Entry          `json:"visitors"`
	HasMore  bool             `json:"hasMore"`
}

// Entry is one element of visitors (section 2.3).
type Entry struct {
	Path  string `json:"path"`
	Human int64  `json:"human"`
	AI    int64  `json:"ai"`
	Total int64  `json:"total"`
}

// NewPage returns the page of an answer that begins at offset, of at most limit rows.
func NewPage(totals analytics.Totals, rows []analytics.Row, limit, offset int) Page {
	page := Page{Totals: totals, Visitors: []Entry{}}
	rows, page.HasMore = rowsOf(rows, limit, offset)
	for _, row := range rows {
		page.Visitors = append(page.Visitors, Entry(row))
	}
	return page
}

// AgentsPage is the response body of the report of agents.
type AgentsPage struct {
	Totals  []AgentTotal `json:"totals"`
	Agents  []AgentEntry `json:"agents"`
	HasMore bool         `json:"hasMore"`
}

// AgentTotal is an agent on the whole site.
type AgentTotal struct {
	Agent    string             `json:"agent"`
	Class    string             `json:"class"`
	Audience analytics.Audience `json:"audience"`
	Visitors int64              `json:"visitors"`
	Requests int64              `json:"requests"`
}

// AgentEntry is an agent on one path.
type AgentEntry struct {
	Path     string             `json:"path"`
	Agent    string             `json:"agent"`
	Class    string             `json:"class"`
	Audience analytics.Audience `json:"audience"`
	Found    bool               `json:"found"`
	Visitors int64              `json:"visitors"`
	Requests int64              `json:"requests"`
}

// NewAgentsPage is as [NewPage].
func NewAgentsPage(totals, rows []analytics.AgentRow, limit, offset int) AgentsPage {
	page := AgentsPage{Totals: []AgentTotal{}, Agents: []AgentEntry{}}
	for _, t := range totals {
		page.Totals = append(page.Totals, AgentTotal{t.Agent, t.Class, t.Audience, t.Visitors, t.Requests})
	}
	rows, page.HasMore = rowsOf(rows, limit, offset)
	for _, row := range rows {
		page.Agents = append(page.Agents, AgentEntry(row))
	}
	return page
}

// rowsOf returns the rows of a page, and whether there are more.
func rowsOf[R any](rows []R, limit, offset int) (own []R, hasMore bool) {
	from := min(offset, len(rows))
	to := min(from+limit, len(rows))
	return rows[from:to], to < len(rows)
}

// report is GET /v1/analytics/{project}/{report}.
func report(answer Report) func(*Call) (any, error) {
	return func(c *Call) (any, error) {
		q, err := ParseQuery(c.URL.RawQuery)
		if err != nil {
			return nil, err
		}
		return answer(c, q)
	}
}

// Query is the query of section 4.3: the views from From on and before To, in Unix seconds. Without
// a date, that end is open.
type Query struct {
	From, To int64
	// FromDay and ToDay are the UTC dates of the two; nil without a date.
	FromDay, ToDay *analytics.Date
	Limit, Offset  int
}

// ParseQuery reads a raw query; every error is a refusal with 400 that names the
// parameter and the rule. Unknown parameters are ignored.
func ParseQuery(raw string) (Query, error) {
	q := Query{From: math.MinInt64, To: math.MaxInt64, Limit: DefaultLimit}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, Fail(http.StatusBadRequest, "query string: want name=value pairs, percent-encoded, joined by &: %v",
			err)
	}
	for _, param := range []struct {
		name string
		read func(value string) error
	}{
		{"dateFrom", func(v string) (err error) { q.From, q.FromDay, err = parseInstant("dateFrom", v); return err }},
		{"dateTo", func(v string) (err error) { q.To, q.ToDay, err = parseInstant("dateTo", v); return err }},
		{"limit", func(v string) (err error) { q.Limit, err = parseWhole("limit", v, 1, MaxLimit); return err }},
		{"offset", func(v string) (err error) { q.Offset, err = parseWhole("offset", v, 0, math.MaxInt); return err }},
	} {
		if n := len(values[param.name]); n > 1 {
			return q, Fail(http.StatusBadRequest, "%s: want it once, got it %d times", param.name, n)
		} else if n == 0 {
			continue
		}
		if err := param.read(values[param.name][0]); err != nil {
			return q, err
		}
	}
	if q.From > q.To {
		return q, Fail(http.StatusBadRequest, "dateFrom: must not be after dateTo")
	}
	return q, nil
}

func parseWhole(name, value string, least, most int) (int, error) {
	n, err := strconv.ParseUint(value, 10, strconv.IntSize-1)
	if err != nil || int(n) < least || int(n) > most {
		return 0, Fail(http.StatusBadRequest, "%s: want a whole number from %d to %d, got %.40q",
			name, least, most, value)
	}
	return int(n), nil
}

// timestamp is the ISO 8601 extended format with a zone: seconds and the minutes of
// the zone may be left out.
var timestamp = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})(:\d{2}(?:[.,]\d+)?)?(Z|[+-]\d{2}:?(?:\d{2})?)$`)

// parseInstant reads a date or a timestamp and returns its UTC date, and the first whole Unix
// second that is not before it: with events in whole seconds, comparing with
// that second is comparing with the instant.
func parseInstant(name, value string) (int64, *analytics.Date, error) {
	if d, err := analytics.ParseDate(value); err == nil {
		return d.Time().Unix(), &d, nil
	}
	if m := timestamp.FindStringSubmatch(value); m != nil {
		zone := strings.ReplaceAll(m[3], ":", "")
		if len(zone) == len("+02") {
			zone += "00"
		}
		if t, err := time.Parse("2006-01-02T15:04:05Z0700", m[1]+cmp.Or(m[2], ":00")+zone); err == nil {
			day := analytics.DateOf(t)
			return t.Add(time.Second - time.Nanosecond).Unix(), &day, nil
		}
	}
	return 0, nil, Fail(http.StatusBadRequest,
		"%s: want a date that exists, as YYYY-MM-DD or ISO 8601 with a zone (2026-10-01T00:00:00Z), got %.40q", name,
		value)
}
