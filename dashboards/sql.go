package dashboards

import "strings"

// Every value of a variable stands in SQL as ${name:percentencode}: whatever it
// holds, also from the address of a link that somebody else made, nothing in it
// can end the string. Ids of projects, granularities and dates look the same
// encoded; paths, which visitors choose, are hexadecimal from the start.
const (
	sqlProject     = "project = '${project:percentencode}'"
	sqlGranularity = "granularity = '${granularity:percentencode}'"
	sqlWindows     = sqlProject + " AND " + sqlGranularity
)

// newestDate is the value of $after and $before that means the newest window
// there can be: it is later than all others.
const newestDate = "9999-12-31"

// topPage is the value of $page that means the page with the most readers.
const topPage = "top"

// The first days of the two windows that are compared: the one that is chosen,
// and the chosen one of those before it. Both have pages. Of an empty set, max is
// 1970-01-01, which is no window of ours.
var (
	sqlAfter = `(SELECT max(window_start) FROM docgauge_totals
    WHERE ` + sqlWindows + ` AND page_count >= 0
      AND toString(window_start) <= '${after:percentencode}')`
	sqlBefore = `(SELECT max(window_start) FROM docgauge_totals
    WHERE ` + sqlWindows + ` AND page_count >= 0
      AND toString(window_start) <= '${before:percentencode}'
      AND window_start < ` + indent(sqlAfter) + `)`
	sqlPage = `if('${page:percentencode}' = '` + topPage + `',
    (SELECT argMax(path, total) FROM docgauge_visitors
     WHERE ` + sqlWindows + ` AND window_start = ` + indent(sqlAfter) + `),
    unhex('${page:percentencode}'))`
)

func indent(sql string) string { return strings.ReplaceAll(sql, "\n", "\n    ") }

// sqlTrend selects the windows of a granularity, as series.
func sqlTrend(granularity string) string {
	return `SELECT toDateTime(window_start, 'UTC') AS time, total AS readers, human, ai
FROM docgauge_totals
WHERE ` + sqlProject + ` AND granularity = '` + granularity + `' AND $__dateFilter(window_start)
ORDER BY time`
}

// sqlOverlap splits the readers of each window into three parts that do add up.
var sqlOverlap = `SELECT toDateTime(window_start, 'UTC') AS time,
       total - ai AS human_only, human + ai - total AS both, total - human AS ai_only
FROM docgauge_totals
WHERE ` + sqlWindows + ` AND $__dateFilter(window_start)
ORDER BY time`

// sqlShares are the shares of humans, AI agents and those who are both.
var sqlShares = `SELECT toDateTime(window_start, 'UTC') AS time,
       human / total AS human_share, ai / total AS ai_share, (human + ai - total) / total AS both_share
FROM docgauge_totals
WHERE ` + sqlWindows + ` AND total > 0 AND $__dateFilter(window_start)
ORDER BY time`

// sqlNewest is the newest window of each granularity.
var sqlNewest = `SELECT granularity, toString(window_start) AS first_day, toString(window_end) AS until,
       total, human, ai, human + ai - total AS both, page_count, revision,
       if(settled, 'yes', 'no') AS is_settled, if(verified, 'yes', 'no') AS is_verified
FROM docgauge_totals
WHERE ` + sqlProject + ` AND (granularity, window_end) IN (
    SELECT granularity, max(window_end) FROM docgauge_totals WHERE ` + sqlProject + ` GROUP BY granularity)
ORDER BY granularity`

// sqlTop are the pages with the most readers in the newer window.
var sqlTop = `SELECT path, total, human, ai, human + ai - total AS both, hex(path) AS id
FROM docgauge_visitors
WHERE ` + sqlWindows + ` AND window_start = ` + sqlAfter + `
ORDER BY total DESC, path
LIMIT 100`

// sqlMovers selects the pages that rise or fall, as analytics.Movers defines them:
// they have a row in both windows. A page has one row in a window, so that max
// picks its number and adds nothing up; -1 stands for no row.
func sqlMovers(up bool) string {
	which, order := "earlier > later", "change, path"
	if up {
		which, order = "later > earlier", "change DESC, path"
	}
	return `SELECT path, earlier, later, later - earlier AS change, change / nullIf(earlier, 0) AS relative,
       hex(path) AS id
FROM (
    WITH ` + indent(sqlBefore) + ` AS earlier_day,
        ` + indent(sqlAfter) + ` AS later_day
    SELECT path,
           max(if(window_start = earlier_day, total, -1)) AS earlier,
           max(if(window_start = later_day, total, -1)) AS later
    FROM docgauge_visitors
    WHERE ` + sqlWindows + ` AND (window_start = earlier_day OR window_start = later_day)
    GROUP BY path)
WHERE earlier >= 0 AND later >= 0 AND ` + which + `
ORDER BY ` + order + `
LIMIT 50`
}

// sqlOnly selects the pages that appeared or vanished: one window has a row of them
// and the other has none. Both windows must have been exported.
func sqlOnly(in, notIn string) string {
	return `SELECT path, total, human, ai, hex(path) AS id
FROM docgauge_visitors
WHERE ` + sqlWindows + ` AND window_start = ` + in + `
  AND ` + sqlBefore + ` > toDate('1970-01-01')
  AND path NOT IN (
    SELECT path FROM docgauge_visitors
    WHERE ` + sqlWindows + ` AND window_start = ` + notIn + `)
ORDER BY total DESC, path
LIMIT 100`
}

// sqlPageTrend is a page over time. A window that was exported without it shows 0.
var sqlPageTrend = `SELECT toDateTime(window_start, 'UTC') AS time, max(t) AS readers, max(h) AS human, max(a) AS ai
FROM (
    SELECT window_start, total AS t, human AS h, ai AS a FROM docgauge_visitors
    WHERE ` + sqlWindows + ` AND $__dateFilter(window_start) AND path = ` + indent(sqlPage) + `
    UNION ALL
    SELECT window_start, toInt64(0) AS t, toInt64(0) AS h, toInt64(0) AS a FROM docgauge_totals
    WHERE ` + sqlWindows + ` AND $__dateFilter(window_start) AND page_count >= 0)
GROUP BY window_start
ORDER BY time`

// sqlPageNow is the page in the newer window, against the whole site.
var sqlPageNow = `SELECT path, total, human, ai, total / (
    SELECT max(total) FROM docgauge_totals
    WHERE ` + sqlWindows + ` AND window_start = ` + indent(sqlAfter) + `) AS share
FROM docgauge_visitors
WHERE ` + sqlWindows + ` AND window_start = ` + sqlAfter + `
  AND path = ` + sqlPage

// sqlRestated are the windows whose numbers another reading changed. The markers
// of former readings stay for ever; one may be there twice.
var sqlRestated = `SELECT granularity, toString(window_start) AS first_day, uniqExact(attempt) AS readings,
       argMin(total, attempt) AS was, argMax(total, attempt) AS became, became - was AS change,
       argMin(page_count, attempt) AS pages_were, argMax(page_count, attempt) AS pages_became,
       toDateTime(intDiv(max(exported_at_us), 1000000), 'UTC') AS read_at
FROM docgauge_windows
WHERE ` + sqlProject + ` AND $__dateFilter(window_start)
GROUP BY granularity, window_start, window_end
HAVING uniqExact(human, ai, total, page_count) > 1
ORDER BY read_at DESC, granularity, first_day
LIMIT 100`

// sqlProjects, sqlGranularities, sqlAfters, sqlBefores and sqlPages fill the variables.
var (
	sqlProjects = "SELECT DISTINCT project FROM docgauge_totals ORDER BY project"

	sqlGranularities = `SELECT granularity FROM docgauge_totals
WHERE ` + sqlProject + `
GROUP BY granularity
ORDER BY indexOf(['month', 'day', 'week'], granularity) DESC, granularity`

	sqlAfters = sqlDates("the newest", "1 = 1")

	sqlBefores = sqlDates("the one before", "window_start < "+sqlAfter)

	sqlPages = `SELECT id, name FROM (
    SELECT '` + topPage + `' AS id, 'the page with the most readers' AS name, toInt64(0) AS place, toInt64(0) AS most
    UNION ALL
    SELECT hex(path) AS id, path AS name, toInt64(1) AS place, max(total) AS most FROM docgauge_visitors
    WHERE ` + sqlWindows + ` AND $__dateFilter(window_start)
    GROUP BY path)
ORDER BY place, most DESC, name
LIMIT 1000`
)

// sqlDates selects the first days of windows with pages, after a name for the
// newest of them.
func sqlDates(newest, which string) string {
	return `SELECT id, name FROM (
    SELECT '` + newestDate + `' AS id, '` + newest + `' AS name
    UNION ALL
    SELECT toString(window_start) AS id, toString(window_start) AS name FROM docgauge_totals
    WHERE ` + sqlWindows + ` AND page_count >= 0 AND ` + indent(which) + `)
ORDER BY id DESC
LIMIT 500`
}
