package dashboards

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNoSQLAddsUp checks every SQL, of panels and of variables.
func TestNoSQLAddsUp(t *testing.T) {
	checked := 0
	for _, q := range append(Variables(), Queries()...) {
		if q.Engine != ClickHouse {
			continue
		}
		checked++
		if err := checkSQL(q.Expr); err != nil {
			t.Errorf("%s / %s / %s: %v\n%s", q.Dashboard, q.Panel, q.Ref, err, q.Expr)
		}
	}
	if checked < 15 {
		t.Errorf("only %d queries", checked)
	}
}

var (
	quoted    = regexp.MustCompile(`'(?:[^'\\]|\\.)*'`)
	called    = regexp.MustCompile(`([A-Za-z_]+[A-Za-z0-9_]*)\s*\(`)
	numbers   = regexp.MustCompile(`\b(human|ai|total)\b`)
	overlap   = regexp.MustCompile(`\bhuman \+ ai - total\b`)
	variables = regexp.MustCompile(`'\$\{[a-z]+:percentencode\}'`)
	tables    = regexp.MustCompile(`\bFROM docgauge_(visitors|totals|windows)\b`)
	grouping  = regexp.MustCompile(`GROUP BY [a-z_, ]*\bgranularity\b`)
	// harmless are the functions and words that may stand before a bracket: none
	// makes one number of several, but for max and its like, which pick one.
	harmless = strings.Fields("max argMax argMin uniqExact if hex unhex indexOf toString toDate toDateTime toInt64 intDiv dateFilter IN FROM AND WITH")
)

// checkSQL says where a query could add visitors up, mix granularities or
// projects, or take a variable unsafely.
func checkSQL(sql string) error {
	var problems []error
	for _, m := range variable.FindAllString(variables.ReplaceAllString(sql, "''"), -1) {
		if !strings.HasPrefix(m, "$__") {
			problems = append(problems, fmt.Errorf("%s is not '${…:percentencode}'", m))
		}
	}
	plain := quoted.ReplaceAllString(sql, "''")
	for _, m := range called.FindAllStringSubmatch(plain, -1) {
		if name := strings.TrimPrefix(m[1], "__"); !slices.Contains(harmless, name) {
			problems = append(problems, fmt.Errorf("%s() is not known to be harmless", m[1]))
		}
	}
	if strings.Contains(overlap.ReplaceAllString(plain, ""), "+") {
		problems = append(problems, errors.New("+, and not human + ai - total"))
	}
	for _, s := range scopes(plain) {
		problems = append(problems, checkScope(s)...)
	}
	return errors.Join(problems...)
}

// checkScope looks at one SELECT without those inside it.
func checkScope(s string) (problems []error) {
	if !tables.MatchString(s) || !numbers.MatchString(s) {
		return nil
	}
	granularity := strings.Contains(s, "granularity = ") || strings.Contains(s, "(granularity, ") || grouping.MatchString(s)
	if !granularity {
		problems = append(problems, fmt.Errorf("no granularity in %s", s))
	}
	if !strings.Contains(s, "project = ") {
		problems = append(problems, fmt.Errorf("no project in %s", s))
	}
	return problems
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

// TestCheckSQL holds the check against good and bad queries.
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
		"SELECT total" + of + " AND path = '${page:singlequote}'":                        "${page:singlequote} is not",
	} {
		err := checkSQL(sql)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\ngot %v, want %q", sql, err, want)
		}
	}
}
