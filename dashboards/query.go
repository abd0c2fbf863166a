package dashboards

import "github.com/docgauge/docgauge/dashboards/grafana"

// Engine is what answers a query.
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
	// MayBeEmpty says why it may have no data though all is well; empty: it must
	// have some.
	MayBeEmpty string

	// defaults are the values of the dashboard's variables.
	defaults map[string]string
}

// Queries returns every query of every panel, in the order of the dashboards.
func Queries() []Query {
	var all []Query
	for _, d := range All() {
		for _, p := range d.Panels {
			for _, t := range p.Targets {
				all = append(all, queryOf(d, p.Title, t))
			}
		}
	}
	return all
}

func queryOf(d grafana.Dashboard, panel string, t grafana.Target) Query {
	q := Query{
		Dashboard: d.Title, Panel: panel, Ref: t.RefID, Engine: Prometheus, Expr: t.Expr,
		Instant: t.Instant, MayBeEmpty: t.MayBeEmpty, defaults: presets(d),
	}
	if t.RawSQL != "" {
		q.Engine, q.Expr = ClickHouse, t.RawSQL
	}
	return q
}

// Variables returns the queries that fill the variables of the dashboards on
// ClickHouse; each selects values, or values and their texts. Those for
// Prometheus are no PromQL, and are not among them.
func Variables() []Query {
	var all []Query
	for _, d := range All() {
		for _, v := range d.Templating.List {
			if sql, ok := v.Query.(string); ok && v.Datasource != nil {
				all = append(all, Query{
					Dashboard: d.Title, Panel: "$" + v.Name, Ref: "A", Engine: ClickHouse, Expr: sql, defaults: presets(d),
				})
			}
		}
	}
	return all
}

// presets are the values that a dashboard's variables have when it opens: for
// those of which all are chosen, the pattern that matches all.
func presets(d grafana.Dashboard) map[string]string {
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
