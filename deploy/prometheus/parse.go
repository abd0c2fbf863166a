package prometheus

import (
	"regexp"
	"slices"
	"strings"
)

// Selector is the part of a query that names series.
type Selector struct {
	// Metric is the name.
	Metric string
	// Labels are the names of the labels it asks for.
	Labels []string
	// Text is the selector as it is written, without a range or offset.
	Text string
}

// names are what a query mentions.
type names struct {
	selectors []Selector
	// grouped are the labels of by, without, on, ignoring, group_left and group_right;
	// functions are what is called, aggregations included.
	grouped, functions []string
}

var (
	// token is a string, a duration or number, a range, or a name.
	token = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\[[^\]]*\]|[0-9][0-9a-zA-Z.]*|[a-zA-Z_:][a-zA-Z0-9_:]*`)
	// matchers is what may follow a metric's name, matcher one of them.
	matchers = regexp.MustCompile(`^\s*\{(?:[^}"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*\}`)
	matcher  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)`)
	quoted   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)
	list     = regexp.MustCompile(`^\s*\(([^)]*)\)`)

	operators = []string{"and", "or", "unless", "atan2", "offset", "bool", "inf", "nan"}
	groupings = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
)

// parse finds the names in a query that promtool has found valid. It knows no
// more of PromQL than that.
func parse(expr string) (n names) {
	for expr != "" {
		at := token.FindStringIndex(expr)
		if at == nil {
			return n
		}
		name, rest := expr[at[0]:at[1]], expr[at[1]:]
		expr = n.take(name, rest)
	}
	return n
}

// take enters one token and returns what is left of the query.
func (n *names) take(name, rest string) string {
	lower := strings.ToLower(name)
	called := list.FindStringSubmatch(rest)
	switch {
	case strings.ContainsAny(name[:1], `"'[0123456789`), slices.Contains(operators, lower):
	case slices.Contains(groupings, lower):
		if called == nil {
			return rest
		}
		n.grouped = append(n.grouped, strings.FieldsFunc(called[1], func(r rune) bool { return strings.ContainsRune(", \n\t", r) })...)
		return rest[len(called[0]):]
	case strings.HasPrefix(strings.TrimSpace(rest), "("), aggregates(rest):
		n.functions = append(n.functions, lower)
	default:
		with := matchers.FindString(rest)
		n.selectors = append(n.selectors, selector(name, with))
		return rest[len(with):]
	}
	return rest
}

// aggregates reports whether a grouping follows: sum without (x) (y).
func aggregates(rest string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(rest), "(")
	return slices.Contains([]string{"by", "without"}, strings.TrimSpace(strings.ToLower(word)))
}

func selector(name, with string) Selector {
	s := Selector{Metric: name, Text: name + strings.TrimSpace(with)}
	for _, m := range matcher.FindAllStringSubmatch(quoted.ReplaceAllString(with, `""`), -1) {
		s.Labels = append(s.Labels, m[1])
	}
	return s
}
