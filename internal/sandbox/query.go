package sandbox

import (
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Limits of section 8.
const (
	defaultLimit = 50
	maxLimit     = analytics.PageRows
)

// visitorsQuery is the query of section 4.3. An absent date leaves its end of
// the window open.
type visitorsQuery struct {
	window        interval
	limit, offset int
}

// parseVisitorsQuery reads a raw query; every error is a refusal with 400 that
// names the parameter and the rule. Unknown parameters are ignored.
func parseVisitorsQuery(raw string) (visitorsQuery, error) {
	q := visitorsQuery{window: interval{math.MinInt64, math.MaxInt64}, limit: defaultLimit}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, fail(http.StatusBadRequest, "query string: want name=value pairs, percent-encoded, joined by &: %v", err)
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

var digits = regexp.MustCompile(`^[0-9]+$`)

func parseWhole(name, value string, least, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || !digits.MatchString(value) || n < least || n > most {
		return 0, fail(http.StatusBadRequest, "%s: want a whole number from %d to %d, got %.40q", name, least, most, value)
	}
	return n, nil
}

// timestamp is the ISO 8601 extended format with a zone: what is left out of
// the seconds and the zone counts as zero.
var timestamp = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})(:\d{2}(?:[.,]\d+)?)?(?:(Z)|([+-]\d{2}):?(\d{2})?)$`)

// parseInstant reads a date or a timestamp and returns the first whole Unix
// second that is not before it: with events in whole seconds, comparing with
// that second is comparing with the instant.
func parseInstant(name, value string) (int64, error) {
	if d, err := analytics.ParseDate(value); err == nil {
		return d.Time().Unix(), nil
	}
	t, err := time.Parse(time.RFC3339, normalizeTimestamp(value))
	if err != nil {
		return 0, fail(http.StatusBadRequest,
			"%s: want a date that exists, as YYYY-MM-DD or ISO 8601 with a zone (2026-10-01T00:00:00Z), got %.40q", name, value)
	}
	if t.Nanosecond() > 0 {
		return t.Unix() + 1, nil
	}
	return t.Unix(), nil
}

// normalizeTimestamp writes value with seconds and a zone of hours and minutes;
// what is no timestamp becomes empty.
func normalizeTimestamp(value string) string {
	m := timestamp.FindStringSubmatch(value)
	if m == nil {
		return ""
	}
	seconds, zone := m[2], m[3]
	if seconds == "" {
		seconds = ":00"
	}
	if zone == "" {
		zone = m[4] + ":" + m[5]
		if m[5] == "" {
			zone += "00"
		}
	}
	return m[1] + seconds + zone
}
