package prompts

import (
	"slices"
	"strings"
	"text/template/parse"
)

// checker walks a template for what could go on and on, or mean nothing. Loops go
// over a list of pages, at most MaxPages, and not inside each other; nothing calls
// itself. So every template ends soon.
type checker struct {
	text     string
	recurs   bool
	inRange  bool
	findings []Finding
}

func (c *checker) find(n parse.Node, text string) {
	line := lineAt(c.text, min(int(n.Position()), len(c.text)))
	c.findings = append(c.findings, Finding{Line: line, Text: "template: " + text})
}

// list walks nodes; top reports whether dot is what the template was given.
func (c *checker) list(list *parse.ListNode, top bool) {
	if list == nil {
		return
	}
	for _, n := range list.Nodes {
		c.node(n, top)
	}
}

func (c *checker) node(n parse.Node, top bool) {
	switch n := n.(type) {
	case *parse.ActionNode:
		c.pipe(n.Pipe, top)
	case *parse.IfNode:
		c.pipe(n.Pipe, top)
		c.list(n.List, top)
		c.list(n.ElseList, top)
	case *parse.WithNode:
		c.pipe(n.Pipe, top)
		c.list(n.List, false)
		c.list(n.ElseList, top)
	case *parse.RangeNode:
		c.loop(n, top)
	case *parse.TemplateNode:
		c.find(n, "template and block are not allowed: write the text itself")
	}
}

func (c *checker) loop(n *parse.RangeNode, top bool) {
	c.pipe(n.Pipe, top)
	if !overPages(n.Pipe) {
		c.find(n, "range goes over pages: write it as [[ range top_pages \"week\" 10 ]]")
	}
	if c.inRange {
		c.find(n, "a range inside a range is not allowed: write one after the other")
		return
	}
	c.inRange = true
	c.list(n.List, false)
	c.inRange = false
	c.list(n.ElseList, top)
}

// overPages reports whether a range calls a function that lists pages.
func overPages(p *parse.PipeNode) bool {
	if len(p.Cmds) != 1 {
		return false
	}
	name, ok := p.Cmds[0].Args[0].(*parse.IdentifierNode)
	return ok && slices.Contains(listNames, name.Ident)
}

func (c *checker) pipe(p *parse.PipeNode, top bool) {
	if p == nil {
		return
	}
	for _, command := range p.Cmds {
		for _, arg := range command.Args {
			c.operand(arg, top)
		}
	}
}

func (c *checker) operand(n parse.Node, top bool) {
	switch n := n.(type) {
	case *parse.PipeNode:
		c.pipe(n, top)
	case *parse.ChainNode:
		c.operand(n.Node, top)
	case *parse.FieldNode:
		if top {
			c.variable(n, n.Ident[0])
		}
	case *parse.VariableNode:
		if n.Ident[0] == "$" && len(n.Ident) > 1 {
			c.variable(n, n.Ident[1])
		}
	}
}

// variable checks a name that the template is given.
func (c *checker) variable(n parse.Node, name string) {
	names := variableNames()
	switch {
	case !slices.Contains(names, name):
		c.find(n, "."+shownText(name)+" is unknown: want one of ."+strings.Join(names, ", ."))
	case name == "firing" && !c.recurs:
		c.find(n, ".firing is only there in a prompt with a schedule: use .date")
	}
}
