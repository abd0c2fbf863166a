package dashboards

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/docgauge/docgauge/exporter"
)

// Nothing may be added up: TestNothingIsAddedUp checks every query, and the
// tables below show that the checks find what they should.

func TestNothingIsAddedUp(t *testing.T) {
	checked := map[Engine]int{}
	for _, q := range append(Variables(), Queries()...) {
		check := checkSQL
		expr := q.Expr
		if q.Engine == Prometheus {
			check, expr = checkPromQL, q.Expand(nil)
		}
		if err := check(expr); err != nil {
			t.Errorf("%s / %s / %s: %v\n%s", q.Dashboard, q.Panel, q.Ref, err, expr)
		}
		if q.Engine == ClickHouse || strings.Contains(expr, "visitors") {
			checked[q.Engine]++
		}
	}
	if checked[Prometheus] < 20 || checked[ClickHouse] < 15 {
		t.Errorf("only %v queries are of visitors", checked)
	}
}

// visitorLabels returns the labels by which the series of a metric of unique
// visitors are told apart, and nil for another metric.
func visitorLabels(metric string) []string {
	for _, m := range exporter.Metrics() {
		if m.Name == metric && strings.HasPrefix(m.Help, "Unique visitors") {
			return m.Labels
		}
	}
	return nil
}

// carried is a selector of visitors that the values of an expression come from.
type carried struct {
	metric string
	// free are the labels by which series still differ; window: each series is of
	// one granularity.
	free   []string
	window bool
}

var promQL = parser.NewParser(parser.Options{})

// checkPromQL finds where an expression makes one number of several numbers of
// unique visitors, or mixes granularities.
func checkPromQL(expr string) error {
	parsed, err := promQL.ParseExpr(expr)
	if err != nil {
		return err
	}
	visitors, err := check(parsed)
	for _, c := range visitors {
		if !c.window {
			err = errors.Join(err, fmt.Errorf("%s without %s=: it mixes granularities", c.metric, exporter.LabelWindow))
		}
	}
	return err
}

func check(n parser.Node) ([]carried, error) {
	if s, ok := n.(*parser.VectorSelector); ok {
		return selected(s)
	}
	var sides [][]carried
	for child := range parser.ChildrenIter(n) {
		side, err := check(child)
		if err != nil {
			return nil, err
		}
		if len(side) > 0 {
			sides = append(sides, side)
		}
	}
	if len(sides) == 0 {
		return nil, nil
	}
	switch n := n.(type) {
	case *parser.Call:
		// Only functions that keep every series, and of time only the newest sample.
		if !slices.Contains([]string{"last_over_time", "round", "sort", "sort_desc"}, n.Func.Name) {
			return nil, fmt.Errorf("%s() of %s", n.Func.Name, sides[0][0].metric)
		}
	case *parser.BinaryExpr:
		if len(sides) == 2 && slices.Contains([]parser.ItemType{parser.ADD, parser.MUL, parser.POW}, n.Op) {
			return nil, fmt.Errorf("%s %s %s", sides[0][0].metric, n.Op, sides[1][0].metric)
		}
	case *parser.AggregateExpr:
		return grouped(n, sides[0])
	}
	return slices.Concat(sides...), nil
}

// selected looks at a selector; one without a name could be of any metric.
func selected(s *parser.VectorSelector) ([]carried, error) {
	if s.Name == "" {
		return nil, errors.New("a selector without a metric's name")
	}
	all := visitorLabels(s.Name)
	if all == nil {
		return nil, nil
	}
	c := carried{metric: s.Name}
	for _, label := range all {
		pinned := slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool {
			return m.Name == label && m.Type == labels.MatchEqual && m.Value != ""
		})
		if !pinned {
			c.free = append(c.free, label)
		}
		c.window = c.window || pinned && label == exporter.LabelWindow
	}
	return []carried{c}, nil
}

// grouped looks at an aggregation: it may merge equal values of several instances,
// and nothing else.
func grouped(n *parser.AggregateExpr, visitors []carried) ([]carried, error) {
	if n.Op == parser.TOPK || n.Op == parser.BOTTOMK {
		return visitors, nil
	}
	for i, c := range visitors {
		if n.Op != parser.MAX {
			return nil, fmt.Errorf("%s of %s", n.Op, c.metric)
		}
		for _, label := range c.free {
			if n.Without == slices.Contains(n.Grouping, label) {
				return nil, fmt.Errorf("%s of %s across %s", n.Op, c.metric, label)
			}
			if !n.Without && label == exporter.LabelWindow {
				visitors[i].window = true
			}
		}
	}
	return visitors, nil
}

func TestCheckPromQL(t *testing.T) {
	const site, page = exporter.SiteVisitorsDeduplicated, exporter.PageVisitorsDeduplicated
	const day = site + `{window="day"}`
	for expr, want := range map[string]string{
		`max by (project) (last_over_time(` + day + `[1h]))`:                                            "",
		`max without (instance, job) (` + day + `)`:                                                     "",
		`max by (project, window) (` + site + `)`:                                                       "",
		`topk(10, max by (project, path) (` + page + `{window="$window"}))`:                             "",
		`max(` + site + `{project="p", window="day"})`:                                                  "",
		`1 - ` + day + ` / (` + site + `{window="week"} > 0)`:                                           "",
		`sum(docgauge_agent_prompts) + sum by (state) (last_over_time(docgauge_agent_prompts[5m] @ 7))`: "",
		day + ` and on (project) docgauge_pages`:                                                        "",
		`sum(` + day + `)`:                                                                              "sum of",
		`sum(` + page + `{window="day"}) by (project, path)`:                                            "sum of",
		`avg by (project, path) (` + page + `{window="day"})`:                                           "avg of",
		`count(` + page + `{window="day"})`:                                                             "count of",
		`quantile(0.5, ` + page + `{window="day"})`:                                                     "quantile of",
		`max by (project) (` + page + `{window="day"})`:                                                 "across path",
		`max without (path) (` + page + `{window="day"})`:                                               "across path",
		`max(` + day + `)`: "across project",
		`max by (window) (` + site + `{project=~"p"})`:             "across project",
		`max by (project) (` + site + `)`:                          "across window",
		`max by (project) (` + site + `{window=~"day|week"})`:      "across window",
		`max by (project, window) (` + exporter.SiteVisitors + `)`: "across audience",
		site:                                              "without window=",
		site + `{window=""}`:                              "without window=",
		site + `{window!="day"}`:                          "without window=",
		`topk(3, ` + page + `)`:                           "without window=",
		`sum_over_time(` + day + `[7d])`:                  "sum_over_time() of",
		`avg_over_time((` + day + `)[7d:1d])`:             "avg_over_time() of",
		`increase(` + day + `[7d])`:                       "increase() of",
		`label_replace(` + day + `, "path", "x", "", "")`: "label_replace() of",
		`max by (project) (docgauge_pages) / sum(` + day + ` offset 1d)`:  "sum of",
		day + ` + ` + site + `{window="week"}`:                            " + ",
		day + ` + on (project) group_left () ` + site + `{window="week"}`: " + ",
		`{__name__=~"` + site + `"}`:                                      "without a metric's name",
		`max by (project) (`:                                              "unclosed",
	} {
		expectError(t, expr, checkPromQL(expr), want)
	}
}

func expectError(t *testing.T, query string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s\ngot %v, want %q", query, err, want)
	}
}

var (
	quoted    = regexp.MustCompile(`'(?:[^'\\]|\\.)*'`)
	called    = regexp.MustCompile(`([A-Za-z_]+[A-Za-z0-9_]*)\s*\(`)
	numbers   = regexp.MustCompile(`\b(human|ai|total)\b`)
	overlap   = regexp.MustCompile(`\bhuman \+ ai - total\b`)
	variables = regexp.MustCompile(`'\$\{[a-z]+:percentencode\}'`)
	tables    = regexp.MustCompile(`\bFROM docgauge_(visitors|totals|windows)\b`)
	oneOf     = regexp.MustCompile(`granularity = |\(granularity, |GROUP BY [a-z_, ]*\bgranularity\b`)
	// harmless are the functions and words that may stand before a bracket: none
	// makes one number of several, but for max and its like, which pick one.
	harmless = strings.Fields("max argMax argMin uniqExact if nullIf hex unhex indexOf toString toDate toDateTime " +
		"toInt64 intDiv " +
		"dateFilter IN FROM AND WITH")
)

// checkSQL finds where a query could add visitors up, mix granularities or
// projects, or take a variable unsafely.
func checkSQL(sql string) error {
	var problems []error
	for _, m := range reference.FindAllString(variables.ReplaceAllString(sql, "''"), -1) {
		if !strings.HasPrefix(m, "$__") {
			problems = append(problems, fmt.Errorf("%s is not '${…:percentencode}'", m))
		}
	}
	text := quoted.ReplaceAllString(sql, "''")
	for _, m := range called.FindAllStringSubmatch(text, -1) {
		if name := strings.TrimPrefix(m[1], "__"); !slices.Contains(harmless, name) {
			problems = append(problems, fmt.Errorf("%s() is not known to be harmless", m[1]))
		}
	}
	if strings.Contains(overlap.ReplaceAllString(text, ""), "+") {
		problems = append(problems, errors.New("+, and not human + ai - total"))
	}
	for _, s := range scopes(text) {
		if !tables.MatchString(s) || !numbers.MatchString(s) {
			continue
		}
		if !oneOf.MatchString(s) {
			problems = append(problems, fmt.Errorf("no granularity in %s", s))
		}
		if !strings.Contains(s, "project = ") {
			problems = append(problems, fmt.Errorf("no project in %s", s))
		}
	}
	return errors.Join(problems...)
}

// scopes returns each SELECT of a query, without the SELECTs in brackets within.
func scopes(sql string) (all []string) {
	open := []*strings.Builder{{}}
	for _, r := range sql {
		switch r {
		case '(':
			open = append(open, &strings.Builder{})
		case ')':
			inner := open[len(open)-1].String()
			open = open[:len(open)-1]
			if strings.Contains(inner, "SELECT ") {
				all = append(all, strings.Split(inner, "UNION ALL")...)
			} else {
				open[len(open)-1].WriteString("(" + inner + ")")
			}
		default:
			open[len(open)-1].WriteRune(r)
		}
	}
	return append(all, open[0].String())
}

func TestCheckSQL(t *testing.T) {
	const of = " FROM docgauge_totals WHERE project = '${project:percentencode}' AND granularity = 'day'"
	for sql, want := range map[string]string{
		"SELECT total" + of:                                                              "",
		"SELECT max(total), human + ai - total" + of:                                     "",
		"SELECT DISTINCT project FROM docgauge_totals":                                   "",
		"SELECT sum(total)" + of:                                                         "sum()",
		"SELECT SUM (total)" + of:                                                        "SUM()",
		"SELECT sumIf(total, human > 0)" + of:                                            "sumIf()",
		"SELECT avg(total)" + of:                                                         "avg()",
		"SELECT path, runningAccumulate(x)" + of:                                         "runningAccumulate()",
		"SELECT human + ai" + of:                                                         "+, and not",
		"SELECT human + ai - total, total + total" + of:                                  "+, and not",
		"SELECT total FROM docgauge_totals WHERE project = ''":                           "no granularity",
		"SELECT total FROM docgauge_totals WHERE granularity = ''":                       "no project",
		"SELECT x FROM (SELECT total AS x FROM docgauge_visitors WHERE project = '')":    "no granularity",
		"SELECT max(total) FROM docgauge_windows WHERE project = '' GROUP BY project":    "no granularity",
		"SELECT total" + of + " UNION ALL SELECT total FROM docgauge_totals":             "",
		"SELECT t FROM (SELECT 1 AS t UNION ALL SELECT total AS t FROM docgauge_totals)": "no granularity",
		"SELECT total" + of + " AND path = '$page'":                                      "$page is not",
		"SELECT total" + of + " AND path = '${page}'":                                    "${page} is not",
		"SELECT total" + of + " AND path = ${page:percentencode}":                        "${page:percentencode} is not",
	} {
		expectError(t, sql, checkSQL(sql), want)
	}
}
