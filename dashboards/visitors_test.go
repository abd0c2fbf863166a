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
	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestNothingIsAddedUp: no query and no panel adds up unique visitors.
func TestNothingIsAddedUp(t *testing.T) {
	checked := 0
	for _, q := range queries(t, isPromQL) {
		expr := q.Expand(nil)
		if err := checkPromQL(expr); err != nil {
			t.Errorf("%s: %v\n%s", q, err, expr)
		}
		if strings.Contains(expr, "visitors") {
			checked++
		}
	}
	sql := queries(t, isSQL)
	for _, q := range sql {
		if err := checkSQL(q.Expr); err != nil {
			t.Errorf("%s: %v\n%s", q, err, q.Expr)
		}
	}
	if checked < 20 || len(sql) < 15 {
		t.Errorf("only %d and %d queries are of visitors", checked, len(sql))
	}
	for _, d := range engines.Dashboards(t, "json") {
		for _, p := range d.Panels {
			if err := checkSums(p); err != nil {
				t.Errorf("%s / %s: %v", d.UID, p.Title, err)
			}
		}
	}
}

// checkSums finds where a panel makes one number of several.
func checkSums(p *engines.Panel) error {
	for _, tr := range p.Transformations {
		if tr.ID != "merge" && tr.ID != "organize" {
			return fmt.Errorf("the transformation %s is not known to be harmless", tr.ID)
		}
	}
	stacked := option(p.FieldConfig.Defaults.Custom, "stacking.mode") == "normal"
	if len(p.Targets) == 1 && strings.Contains(p.Targets[0].Expr, `agent=~"browser|unconfirmed"`) {
		stacked = false // no reader is both
	}
	for _, o := range p.FieldConfig.Overrides {
		for _, property := range o.Properties {
			stacked = stacked || property.ID == "custom.stacking"
		}
	}
	for _, target := range p.Targets {
		// The parts of one panel are disjoint: only human, only AI, and both.
		if stacked && strings.Contains(target.Expr+target.RawSQL, "visitors") ||
			stacked && target.RawSQL != "" && p.Title != "Human, AI, and both" {
			return errors.New("visitors are stacked")
		}
	}
	return nil
}

var promQL = parser.NewParser(parser.Options{})

// checkPromQL finds where an expression makes one number of several numbers of unique
// visitors, or mixes granularities: it looks at all that is around each selector. It also finds
// divisions by what can be 0.
func checkPromQL(expr string) error {
	parsed, err := promQL.ParseExpr(expr)
	if err != nil {
		return err
	}
	parser.Inspect(parsed, func(n parser.Node, around []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok && err == nil {
			err = checkSelector(s, slices.Clone(around))
		}
		if b, ok := n.(*parser.BinaryExpr); ok && b.Op == parser.DIV && err == nil && mayBeZero(b.RHS) {
			err = fmt.Errorf("/ %s without > 0", b.RHS)
		}
		return nil
	})
	return err
}

// mayBeZero reports whether a divisor is a count that no > 0 keeps from being 0.
func mayBeZero(divisor parser.Expr) bool {
	for {
		p, ok := divisor.(*parser.ParenExpr)
		if !ok {
			break
		}
		divisor = p.Expr
	}
	b, ok := divisor.(*parser.BinaryExpr)
	_, number := divisor.(*parser.NumberLiteral)
	// The difference of a window's end and start is its length.
	return !number && (!ok || b.Op != parser.GTR && b.Op != parser.SUB)
}

func checkSelector(s *parser.VectorSelector, around []parser.Node) error {
	metrics := exporter.Metrics()
	i := slices.IndexFunc(metrics, func(m exporter.Metric) bool { return m.Name == s.Name })
	if s.Name == "" {
		return errors.New("a selector without a metric's name")
	}
	if i < 0 || !strings.HasPrefix(metrics[i].Help, "Unique visitors") {
		return nil
	}
	// Series differ by the labels that no matcher pins.
	free := slices.DeleteFunc(slices.Clone(metrics[i].Labels), func(label string) bool {
		return slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool {
			return m.Name == label && m.Type == labels.MatchEqual && m.Value != ""
		})
	})
	oneWindow := !slices.Contains(free, "window")
	slices.Reverse(around)
	for _, n := range around {
		switch n := n.(type) {
		case *parser.Call:
			// These keep every series, and of time only the newest sample.
			if !slices.Contains([]string{"last_over_time", "round", "sort", "sort_desc"}, n.Func.Name) {
				return fmt.Errorf("%s() of %s", n.Func.Name, s.Name)
			}
		case *parser.BinaryExpr:
			_, scalar := n.LHS.(*parser.NumberLiteral)
			if !scalar && slices.Contains([]parser.ItemType{parser.ADD, parser.MUL, parser.POW}, n.Op) {
				return fmt.Errorf("%s %s", s.Name, n.Op)
			}
		case *parser.AggregateExpr:
			// It may merge equal values of several instances, and nothing else.
			if n.Op == parser.TOPK || n.Op == parser.BOTTOMK {
				continue
			}
			if n.Op != parser.MAX || n.Without {
				return fmt.Errorf("%s of %s", n.Op, s.Name)
			}
			for _, label := range free {
				if !slices.Contains(n.Grouping, label) {
					return fmt.Errorf("max of %s across %s", s.Name, label)
				}
			}
			oneWindow = true
		}
	}
	if !oneWindow {
		return fmt.Errorf("%s without %s=: it mixes granularities", s.Name, "window")
	}
	return nil
}

func TestCheckPromQL(t *testing.T) {
	const site, page = "docgauge_site_visitors_deduplicated", "docgauge_page_visitors_deduplicated"
	const day = site + `{window="day"}`
	for expr, want := range map[string]string{
		`max by (project) (last_over_time(` + day + `[1h]))`:                    "",
		`max by (project, window) (` + site + `)`:                               "",
		`topk(10, max by (project, path) (` + page + `{window="$window"}))`:     "",
		`max(` + site + `{project="p", window="day"})`:                          "",
		`1 - ` + day + ` / (` + site + `{window="week"} > 0)`:                   "",
		`sum(docgauge_agent_prompts) + sum by (state) (docgauge_agent_prompts)`: "",
		`sum(` + day + `)`: "sum of",
		`sum(` + page + `{window="day"}) by (project, path)`:          "sum of",
		`avg by (project, path) (` + page + `{window="day"})`:         "avg of",
		`max without (instance) (` + day + `)`:                        "max of",
		`max by (project) (` + page + `{window="day"})`:               "across path",
		`max by (window) (` + site + `{project=~"p"})`:                "across project",
		`max by (project) (` + site + `{window=~"day|week"})`:         "across window",
		`max by (project, window) (` + "docgauge_site_visitors" + `)`: "across audience",
		site:                                        "without window=",
		site + `{window=""}`:                        "without window=",
		`topk(3, ` + page + `{window!="day"})`:      "without window=",
		`sum_over_time(` + day + `[7d])`:            "sum_over_time() of",
		`avg_over_time((` + day + `)[7d:1d])`:       "avg_over_time() of",
		day + ` / (sum(` + day + ` offset 1d) > 0)`: "sum of",
		day + ` / ` + day:                           "without > 0",
		day + ` + ` + site + `{window="week"}`:      " +",
		`{__name__=~"` + site + `"}`:                "without a metric's name",
		`max by (project) (`:                        "unclosed",
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
	divided   = regexp.MustCompile(`/\s*(?:\(\s*SELECT\s+)?[A-Za-z_]+\(?`)
	reference = regexp.MustCompile(`\$(?:\{[a-z][a-z:]*\}|[a-z]+)`)
	variables = regexp.MustCompile(`'\$\{[a-z]+:percentencode\}'`)
	// oneSeries is how what is read must be limited, so that only windows of one project
	// and granularity are compared or picked.
	oneSeries = regexp.MustCompile(
		`^\w+\s+WHERE project = [^;]*(granularity = |\(granularity, |GROUP BY [a-z_, ]*\bgranularity\b)`)
	// harmless are the functions and words that may stand before a bracket: none
	// makes one number of several, but for max and its like, which pick one.
	harmless = strings.Fields("max argMax argMin uniqExact if nullIf hex unhex indexOf toString toDate toDateTime " +
		"toInt64 intDiv dateFilter timeFilter nullif to_char IN FROM AND WITH AS THEN")
)

// checkSQL finds where a query could add visitors up, mix granularities or projects, or
// take a variable unsafely.
func checkSQL(sql string) error {
	if m := reference.FindString(variables.ReplaceAllString(sql, "''")); m != "" {
		return fmt.Errorf("%s is not '${…:percentencode}'", m)
	}
	text := quoted.ReplaceAllString(sql, "''")
	for _, m := range called.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(harmless, strings.TrimPrefix(m[1], "__")) {
			return fmt.Errorf("%s() is not known to be harmless", m[1])
		}
	}
	if strings.Contains(strings.ReplaceAll(text, "human + ai - total", ""), "+") {
		return errors.New("+, and not human + ai - total")
	}
	for _, m := range divided.FindAllString(text, -1) {
		if !strings.HasSuffix(strings.ToLower(m), "nullif(") && !strings.Contains(text, "AND total > 0") {
			return fmt.Errorf("%s without nullif()", m)
		}
	}
	read := strings.Split(text, "FROM docgauge_")
	for i, from := range read[1:] {
		where, _, _ := strings.Cut(from, "SELECT")
		if !oneSeries.MatchString(where) && !strings.HasSuffix(read[i], "SELECT DISTINCT project ") {
			return fmt.Errorf("no project or granularity in FROM docgauge_%s", where)
		}
	}
	return nil
}

func TestCheckSQL(t *testing.T) {
	const of = " FROM docgauge_totals WHERE project = '${project:percentencode}' AND granularity = 'day'"
	for sql, want := range map[string]string{
		"SELECT total" + of:                                                           "",
		"SELECT max(total), human + ai - total" + of:                                  "",
		"SELECT DISTINCT project FROM docgauge_totals":                                "",
		"SELECT total" + of + " UNION ALL SELECT human" + of:                          "",
		"SELECT human / total" + of:                                                   "without nullif()",
		"SELECT human / nullif(total, 0)" + of:                                        "",
		"SELECT sum(total)" + of:                                                      "sum()",
		"SELECT SUM (total)" + of:                                                     "SUM()",
		"SELECT sumIf(total, human > 0)" + of:                                         "sumIf()",
		"SELECT human + ai" + of:                                                      "+, and not",
		"SELECT human + ai - total, total + total" + of:                               "+, and not",
		"SELECT total FROM docgauge_totals WHERE project = ''":                        "no project or gran",
		"SELECT total FROM docgauge_totals WHERE granularity = ''":                    "no project or gran",
		"SELECT x FROM (SELECT total AS x FROM docgauge_visitors WHERE project = '')": "no project or gran",
		"SELECT max(total) FROM docgauge_windows WHERE project = '' GROUP BY project": "no project or gran",
		"SELECT total" + of + " UNION ALL SELECT total FROM docgauge_totals":          "no project or gran",
		"SELECT total" + of + " AND path = '$page'":                                   "$page is not",
		"SELECT total" + of + " AND path = '${page}'":                                 "${page} is not",
		"SELECT total" + of + " AND path = ${page:percentencode}":                     "${page:percentencode} is not",
	} {
		expectError(t, sql, checkSQL(sql), want)
	}
}
