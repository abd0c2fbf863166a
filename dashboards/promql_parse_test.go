package dashboards

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// node is an expression of PromQL, as far as the checks need it: ranges, offsets
// and how vectors match are read and forgotten.
type node struct {
	kind nodeKind
	// name is a metric, a function, an aggregator or an operator.
	name string
	// matchers are those of a selector.
	matchers []matcher
	// by and labels say how an aggregation groups.
	by     bool
	labels []string
	args   []*node
}

type nodeKind int

const (
	literal nodeKind = iota
	selector
	call
	aggregation
	binary
)

type matcher struct{ label, op, value string }

var (
	tokens      = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*"|[0-9][0-9a-zA-Z.]*|[a-zA-Z_:][a-zA-Z0-9_:]*|=~|!~|!=|==|<=|>=|[-+*/%^<>=(){}\[\],@])`)
	aggregators = strings.Fields("sum avg count min max group stddev stdvar topk bottomk quantile count_values limitk")
	strength    = map[string]int{
		"or": 1, "and": 2, "unless": 2, "==": 3, "!=": 3, "<=": 3, "<": 3, ">=": 3, ">": 3,
		"+": 4, "-": 4, "*": 5, "/": 5, "%": 5, "atan2": 5, "^": 6,
	}
)

// parsePromQL reads an expression.
func parsePromQL(text string) (n *node, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			n, err = nil, fmt.Errorf("%v in %s", problem, text)
		}
	}()
	p := &parser{}
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		token := tokens.FindString(rest)
		if token == "" {
			panic("no token at " + rest)
		}
		p.tokens, rest = append(p.tokens, token), rest[len(token):]
	}
	n = p.expression(0)
	if p.peek() != "" {
		panic("unexpected " + p.peek())
	}
	return n, nil
}

// parser panics where the text is not as it should be.
type parser struct{ tokens []string }

func (p *parser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *parser) next() string {
	t := p.peek()
	if t == "" {
		panic("unexpected end")
	}
	p.tokens = p.tokens[1:]
	return t
}

func (p *parser) take(t string) bool {
	if p.peek() == t {
		p.next()
		return true
	}
	return false
}

func (p *parser) must(t string) {
	if !p.take(t) {
		panic("want " + t + " before " + strconv.Quote(p.peek()))
	}
}

func (p *parser) expression(least int) *node {
	left := p.unary()
	for {
		op := p.peek()
		s := strength[op]
		if s == 0 || s <= least {
			return left
		}
		p.next()
		p.matching()
		below := s
		if op == "^" {
			below--
		}
		left = &node{kind: binary, name: op, args: []*node{left, p.expression(below)}}
	}
}

// matching reads how the vectors of an operator match.
func (p *parser) matching() {
	p.take("bool")
	for slices.Contains([]string{"on", "ignoring", "group_left", "group_right"}, p.peek()) {
		p.next()
		if p.peek() == "(" {
			p.names()
		}
	}
}

func (p *parser) names() (all []string) {
	p.must("(")
	for !p.take(")") {
		all = append(all, p.next())
		p.take(",")
	}
	return all
}

func (p *parser) unary() *node {
	if p.take("-") || p.take("+") {
		return p.expression(strength["*"])
	}
	n := p.primary()
	for {
		switch {
		case p.take("["):
			for !p.take("]") {
				p.next()
			}
		case p.take("offset"), p.take("@"):
			p.take("-")
			p.next()
		default:
			return n
		}
	}
}

func (p *parser) primary() *node {
	switch t := p.peek(); {
	case t == "(":
		p.next()
		n := p.expression(0)
		p.must(")")
		return n
	case t == "{":
		return &node{kind: selector, matchers: p.braces()}
	case t == "" || strings.ContainsAny(t[:1], `"0123456789`):
		p.next()
		return &node{kind: literal}
	case slices.Contains(aggregators, t):
		return p.aggregation(p.next())
	}
	name := p.next()
	if p.peek() == "(" {
		return &node{kind: call, name: name, args: p.arguments()}
	}
	n := &node{kind: selector, name: name}
	if p.peek() == "{" {
		n.matchers = p.braces()
	}
	return n
}

func (p *parser) aggregation(name string) *node {
	n := &node{kind: aggregation, name: name}
	grouping := func() {
		if word := p.peek(); word == "by" || word == "without" {
			p.next()
			n.by, n.labels = word == "by", p.names()
		}
	}
	n.by = true // without a grouping, by nothing
	grouping()
	n.args = p.arguments()
	grouping()
	return n
}

func (p *parser) arguments() (all []*node) {
	p.must("(")
	for !p.take(")") {
		all = append(all, p.expression(0))
		p.take(",")
	}
	return all
}

func (p *parser) braces() (all []matcher) {
	p.must("{")
	for !p.take("}") {
		m := matcher{label: p.next(), op: p.next()}
		value, err := strconv.Unquote(p.next())
		if err != nil {
			panic(err)
		}
		m.value = value
		all = append(all, m)
		p.take(",")
	}
	return all
}
