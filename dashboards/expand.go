package dashboards

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The time range that Expand takes unless it is told another, and what Grafana
// would derive from a range on a screen.
const (
	defaultRange    = 30 * 24 * time.Hour
	defaultInterval = "1h"
	defaultRate     = "5m"
)

var (
	sqlMacro = regexp.MustCompile(`\$__(dateFilter|timeFilter)\(([a-z_]+)\)|\$__(fromTime|toTime)\b`)
	variable = regexp.MustCompile(`\$\{([a-z_]+)(?::([a-z]+))?\}|\$([a-z_]+)`)
)

// Expand returns the query as Grafana would send it: macros and variables
// replaced. Names in vars have no dollar: "project" is an id, or a pattern in
// PromQL; "__from" and "__to" are the range in milliseconds since 1970, by
// default the last 30 days. A variable that is not among them has the value with
// which its dashboard opens. What is unknown stays as it is.
func (q Query) Expand(vars map[string]string) string {
	from, to := timeRange(vars)
	text := sqlMacro.ReplaceAllStringFunc(q.Expr, func(found string) string {
		m := sqlMacro.FindStringSubmatch(found)
		return expandMacro(m[1]+m[3], m[2], from, to)
	})
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		m := variable.FindStringSubmatch(found)
		value, ok := q.value(m[1]+m[3], vars, to.Sub(from))
		if !ok {
			return found
		}
		return format(value, m[2])
	})
}

// timeRange is that of vars, to the second.
func timeRange(vars map[string]string) (from, to time.Time) {
	to = time.Now()
	if ms, err := strconv.ParseInt(vars["__to"], 10, 64); err == nil {
		to = time.UnixMilli(ms)
	}
	from = to.Add(-defaultRange)
	if ms, err := strconv.ParseInt(vars["__from"], 10, 64); err == nil {
		from = time.UnixMilli(ms)
	}
	return from.UTC(), to.UTC()
}

// expandMacro is what the ClickHouse plugin makes of a macro.
func expandMacro(name, column string, from, to time.Time) string {
	date := func(t time.Time) string { return "toDate('" + t.Format(time.DateOnly) + "')" }
	moment := func(t time.Time) string { return fmt.Sprintf("toDateTime(%d)", t.Unix()) }
	switch name {
	case "fromTime":
		return moment(from)
	case "toTime":
		return moment(to)
	case "timeFilter":
		return column + " >= " + moment(from) + " AND " + column + " <= " + moment(to)
	}
	return column + " >= " + date(from) + " AND " + column + " <= " + date(to)
}

// value is that of a variable, one of Grafana's own included.
func (q Query) value(name string, vars map[string]string, span time.Duration) (string, bool) {
	if value, ok := vars[name]; ok {
		return value, true
	}
	switch name {
	case "__range":
		return strconv.Itoa(int(span.Seconds())) + "s", true
	case "__interval":
		return defaultInterval, true
	case "__rate_interval":
		return defaultRate, true
	}
	value, ok := q.defaults[name]
	return value, ok
}

// format writes a value as a variable's format says. percentencode leaves
// letters, digits and -_.~ as they are, and so nothing that could end a string.
func format(value, name string) string {
	if name == "percentencode" {
		return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
	}
	return value
}
