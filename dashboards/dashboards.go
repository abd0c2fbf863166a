// Package dashboards holds docgauge's four Grafana dashboards: readers, their
// history, agent jobs, and the health of the pipeline. They are written in Go,
// with the exporter's names of metrics, and committed as JSON in json/, which
// Grafana reads by file provisioning:
//
//	go test ./dashboards -run TestFiles -update
//
// No query adds up unique visitors: not over pages, windows or audiences. Tests
// check that for every query, run each query on a real Prometheus or ClickHouse,
// and compare the files with the code.
//
// The package reads no dashboard and talks to no Grafana. No test runs Grafana,
// so how it draws a panel is untested.
package dashboards

import (
	"maps"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The names in addresses, /d/UID; they never change.
const (
	uidReaders  = "docgauge-readers"
	uidHistory  = "docgauge-history"
	uidJobs     = "docgauge-agent-jobs"
	uidPipeline = "docgauge-pipeline"
)

// all returns the dashboards, each with links to the others for the same time. A
// link hands the variables over only where both dashboards mean the same by them:
// history takes one project, and the others offer several.
func all() []dashboard {
	boards := []dashboard{readers(), history(), jobs(), pipeline()}
	for i := range boards {
		for _, to := range boards {
			if to.UID != boards[i].UID {
				boards[i].Links = append(boards[i].Links, link{
					Title: to.Title, Type: "link", URL: "/d/" + to.UID, Tooltip: to.Description, Icon: "dashboard",
					Tags: []string{}, KeepTime: true, IncludeVars: to.UID != uidHistory,
				})
			}
		}
	}
	return boards
}

// Engine answers a query.
type Engine string

// The engines.
const (
	Prometheus Engine = "Prometheus"
	ClickHouse Engine = "ClickHouse"
)

// Query is one query of one panel, or of a variable.
type Query struct {
	// Dashboard and Panel are titles; Ref is A, B, … within the panel. Of a
	// variable, Panel is "$" and its name.
	Dashboard, Panel, Ref string
	Engine                Engine
	// Expr is PromQL or SQL as in the JSON, with Grafana's variables and macros.
	Expr string
	// Instant: PromQL asked for one moment and not for a range.
	Instant bool
	// MayBeEmpty is the reason why there may be no data though all is well. If it
	// is empty, there must be some.
	MayBeEmpty string

	// defaults are the values with which the dashboard opens.
	defaults map[string]string
}

// Queries returns every query of every panel, in the order of the dashboards.
func Queries() (queries []Query) {
	for _, d := range all() {
		for _, p := range d.Panels {
			for _, t := range p.Targets {
				q := Query{
					Dashboard: d.Title, Panel: p.Title, Ref: t.RefID, Engine: Prometheus, Expr: t.Expr,
					Instant: t.Instant, MayBeEmpty: t.mayBeEmpty, defaults: d.defaults(),
				}
				if t.RawSQL != "" {
					q.Engine, q.Expr = ClickHouse, t.RawSQL
				}
				queries = append(queries, q)
			}
		}
	}
	return queries
}

// Variables returns the queries that fill the variables of the dashboards on
// ClickHouse; each selects values, or values and their texts. The variables on
// Prometheus are filled by label_values, which is not PromQL, and are left out.
func Variables() (queries []Query) {
	for _, d := range all() {
		for _, v := range d.Templating.List {
			if sql, ok := v.Query.(string); ok && v.Datasource != nil {
				queries = append(queries, Query{
					Dashboard: d.Title, Panel: "$" + v.Name, Ref: "A", Engine: ClickHouse, Expr: sql, defaults: d.defaults(),
				})
			}
		}
	}
	return queries
}

// defaults are the values of the variables when the dashboard opens. Where all
// values are chosen, it is the pattern that matches all.
func (d dashboard) defaults() map[string]string {
	values := map[string]string{}
	for _, v := range d.Templating.List {
		if v.AllValue != "" {
			values[v.Name] = v.AllValue
		} else if text, ok := v.Current.Value.(string); ok {
			values[v.Name] = text
		}
	}
	return values
}

var (
	dateFilter = regexp.MustCompile(`\$__dateFilter\(([a-z_]+)\)`)
	reference  = regexp.MustCompile(`\$\{([a-z_]+)(:percentencode)?\}|\$([a-z_]+)`)
)

// Expand returns the query as Grafana sends it: the macros and variables that our
// dashboards use are replaced. Names in vars have no dollar: "project" is an id,
// or a pattern in PromQL; "__from" and "__to" are the time range in milliseconds
// since 1970, by default the last 30 days. A variable that is not in vars has the
// value with which its dashboard opens. An unknown variable stays as it is.
func (q Query) Expand(vars map[string]string) string {
	to := moment(vars["__to"], time.Now())
	from := moment(vars["__from"], to.AddDate(0, 0, -30))
	values := map[string]string{"__range": strconv.Itoa(int(to.Sub(from).Seconds())) + "s"}
	maps.Copy(values, q.defaults)
	maps.Copy(values, vars)
	text := dateFilter.ReplaceAllString(q.Expr,
		"$1 >= toDate('"+from.Format(time.DateOnly)+"') AND $1 <= toDate('"+to.Format(time.DateOnly)+"')")
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		m := reference.FindStringSubmatch(found)
		value, ok := values[m[1]+m[3]]
		if !ok {
			return found
		}
		if m[2] != "" {
			// Letters, digits and -_.~ stay, and so nothing that could end a string.
			return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
		}
		return value
	})
}

// moment reads milliseconds since 1970, in UTC.
func moment(ms string, otherwise time.Time) time.Time {
	if n, err := strconv.ParseInt(ms, 10, 64); err == nil {
		return time.UnixMilli(n).UTC()
	}
	return otherwise.UTC()
}
