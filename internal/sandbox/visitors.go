package sandbox

import (
	"cmp"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Limits of section 8 of the service's specification.
const (
	defaultLimit = 50
	maxLimit     = analytics.PageRows
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

// visitors is GET /v1/analytics/{project}/visitors.
func (s *Sandbox) visitors(c *call, p *project) (any, error) {
	q, err := parseVisitorsQuery(c.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	if every(s.config.Faults.DriftEvery, c.number) {
		p.addDrift(c.now)
	}
	a, err := s.answer(p, q.window, c.now)
	if err != nil {
		return nil, err
	}
	if rows := s.config.Faults.PageRows; rows > 0 {
		q.limit = min(q.limit, rows)
	}
	page := a.page(q.limit, q.offset)
	beginsWindow := func(d analytics.Date) bool { return d.Time().Unix() == q.window.from }
	if slices.ContainsFunc(s.config.Faults.BadWindows, beginsWindow) {
		return page.malformed(), nil
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

// malformed is a page as Faults.BadWindows has it.
func (p visitorsPage) malformed() any {
	type badEntry struct {
		entry
		Human float64 `json:"human"`
	}
	bad := struct {
		visitorsPage
		Visitors []badEntry `json:"visitors"`
	}{visitorsPage: p, Visitors: []badEntry{}}
	for _, e := range p.Visitors {
		bad.Visitors = append(bad.Visitors, badEntry{e, float64(e.Human) + 0.5})
	}
	return bad
}

// visitorsQuery is the query of section 4.3. Without a date, that end of the window is open.
type visitorsQuery struct {
	window        interval
	limit, offset int
}

// parseVisitorsQuery reads a raw query; every error is a refusal with 400 that names the
// parameter and the rule. Unknown parameters are ignored.
func parseVisitorsQuery(raw string) (visitorsQuery, error) {
	q := visitorsQuery{window: interval{math.MinInt64, math.MaxInt64}, limit: defaultLimit}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, fail(http.StatusBadRequest, "query string: want name=value pairs, percent-encoded, joined by &: %v",
			err)
	}
	for _, param := range []struct {
		name string
		read func(value string) error
	}{
		{"dateFrom", func(v string) (err error) { q.window.from, err = parseInstant("dateFrom", v); return err }},
		{"dateTo", func(v string) (err error) { q.window.to, err = parseInstant("dateTo", v); return err }},
		{"limit", func(v string) (err error) { q.limit, err = parseWhole("limit", v, 1, maxLimit); return err }},
		{"offset", func(v string) (err error) { q.offset, err = parseWhole("offset", v, 0, math.MaxInt); return err }},
	} {
		if n := len(values[param.name]); n > 1 {
			return q, fail(http.StatusBadRequest, "%s: want it once, got it %d times", param.name, n)
		} else if n == 0 {
			continue
		}
		if err := param.read(values[param.name][0]); err != nil {
			return q, err
		}
	}
	if q.window.from > q.window.to {
		return q, fail(http.StatusBadRequest, "dateFrom: must not be after dateTo")
	}
	return q, nil
}

func parseWhole(name, value string, least, most int) (int, error) {
	n, err := strconv.ParseUint(value, 10, strconv.IntSize-1)
	if err != nil || int(n) < least || int(n) > most {
		return 0, fail(http.StatusBadRequest, "%s: want a whole number from %d to %d, got %.40q",
			name, least, most, value)
	}
	return int(n), nil
}

// timestamp is the ISO 8601 extended format with a zone: seconds and the minutes of
// the zone may be left out.
var timestamp = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})(:\d{2}(?:[.,]\d+)?)?(Z|[+-]\d{2}:?(?:\d{2})?)$`)

// parseInstant reads a date or a timestamp and returns the first whole Unix
// second that is not before it: with events in whole seconds, comparing with
// that second is comparing with the instant.
func parseInstant(name, value string) (int64, error) {
	if d, err := analytics.ParseDate(value); err == nil {
		return d.Time().Unix(), nil
	}
	if m := timestamp.FindStringSubmatch(value); m != nil {
		zone := strings.ReplaceAll(m[3], ":", "")
		if len(zone) == len("+02") {
			zone += "00"
		}
		if t, err := time.Parse("2006-01-02T15:04:05Z0700", m[1]+cmp.Or(m[2], ":00")+zone); err == nil {
			return t.Add(time.Second - time.Nanosecond).Unix(), nil
		}
	}
	return 0, fail(http.StatusBadRequest,
		"%s: want a date that exists, as YYYY-MM-DD or ISO 8601 with a zone (2026-10-01T00:00:00Z), got %.40q", name,
		value)
}

// answerKey names one answer: the same key always has the same answer.
type answerKey struct {
	project string
	window  interval
	// horizon is the newest arrival that counts, in Unix seconds.
	horizon int64
	// reading of the event log, 0 for synthetic traffic.
	reading uint64
	drift   int
	// reactions is the number of pages whose readers react: none ever stops.
	reactions int
}

const (
	// maxCachedRows limits the cache of answers: about 20 MiB, and the paths.
	maxCachedRows = 1 << 19
	// answerOverhead is the weight of an answer without its rows; it limits the number of
	// answers in the cache.
	answerOverhead = 256
)

// answer counts w at now, or returns the former count.
func (s *Sandbox) answer(p *project, w interval, now time.Time) (answer, error) {
	var t traffic = p.synthetic
	var reading uint64
	if s.log != nil { // an event log takes the place of synthetic traffic while it exists
		logged, n, err := s.log.read(p.name)
		if err != nil {
			return answer{}, err
		}
		if logged != nil {
			t, reading = logged, n
		}
	}
	p.mu.Lock()
	faults, drift := s.config.Faults, p.drift
	p.mu.Unlock()
	// Arrivals count up to the beginning of the minute. A window whose days no longer change
	// has the same answer from then on.
	seen := now.Truncate(time.Minute).Unix()
	w.to = min(w.to, seen+1)
	changingDays := faults.LateDays
	if faults.Moving != 0 {
		changingDays = max(changingDays, faults.MovingDays)
	}
	end := analytics.DateOf(time.Unix(w.to-1, 0)) + 1
	var reactions map[uint32]analytics.Date
	if reading == 0 {
		reactions = s.reactions(p.name, end)
	}
	seen = min(seen, (end + analytics.Date(changingDays)).Time().Unix())
	key := answerKey{p.name, w, seen, reading, len(drift), len(reactions)}
	return s.answers.get(key, func() answer {
		s.counting <- struct{}{}
		defer func() { <-s.counting }()
		if e := s.config.Agent.Pulls.Effect; len(reactions) > 0 {
			t = reactingTraffic{t, [2]float64{human: e.Human, ai: e.AI}, reactions, p.synthetic.daySeed(0)}
		}
		if len(t.paths()) > 0 { // visitors who are added read them
			if faults.Moving > 0 {
				step, duration := int64(faults.Moving/time.Second), int64(faults.MovingDays)*daySeconds
				t = movingTraffic{t, p.synthetic.daySeed, step, duration, analytics.DateOf(time.Unix(seen, 0))}
			}
			if len(drift) > 0 {
				t = driftTraffic{t, drift}
			}
		}
		return tally(t, w, seen)
	}), nil
}
