package prompts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	leftDelimiter, rightDelimiter = "[[", "]]"
	// templateName is in the errors of the library.
	templateName = "prompt"
)

// Rendered are the texts to send.
type Rendered struct {
	Text      string
	FollowUps []string
}

var (
	// errNothing: a template renders to nothing, so there is nothing to send now.
	errNothing = errors.New("renders to nothing")
	errTooLong = errors.New("renders to more than 64 KiB: ask for fewer pages")
)

// Render returns the texts to send for p at a time: the time of the firing for a
// prompt that recurs, else the current time. Without a template it returns the text
// of p. n may be nil. The error is a [Finding], which wraps
// ErrNoNumbers if numbers are missing.
func Render(ctx context.Context, p Prompt, at time.Time, n Numbers) (Rendered, error) {
	if !p.Template {
		return Rendered{Text: p.Body, FollowUps: p.FollowUps}, nil
	}
	var out Rendered
	r := &renderer{
		ctx: ctx, prompt: p, now: at.UTC(), numbers: n,
		known: map[string]Compared{}, windows: map[string]analytics.Window{}, movers: map[string]analytics.Movers{},
	}
	for i, part := range parts(p) {
		text, problem := r.render(part)
		if problem != nil {
			problem.Path = p.Path
			return Rendered{}, *problem
		}
		if i == 0 {
			out.Text = text
		} else {
			out.FollowUps = append(out.FollowUps, text)
		}
	}
	return out, nil
}

// part is one text of a prompt, and the line on which it begins.
type part struct {
	text string
	line int
}

// parts returns the body and the follow-ups.
func parts(p Prompt) []part {
	all := []part{{p.Body, max(1, p.bodyLine)}}
	for i, text := range p.FollowUps {
		line := 1
		if i < len(p.followUpLines) {
			line = p.followUpLines[i]
		}
		all = append(all, part{text, line})
	}
	return all
}

// render renders one text.
func (r *renderer) render(p part) (string, *Finding) {
	t, findings := compile(p.text, p.line, r.prompt.Recurs())
	if len(findings) > 0 {
		return "", &findings[0]
	}
	out := &limitedBuilder{left: MaxBytes + p.line}
	if err := t.Funcs(r.functions()).Execute(out, r.variables()); err != nil {
		finding := templateFinding(err)
		// The library knows the line; our own errors have the better text.
		if failed, ok := errors.AsType[*functionError](err); ok {
			finding.Text = "template: " + failed.Error()
		}
		if errors.Is(err, errTooLong) {
			finding = Finding{Line: p.line, Text: "template: " + errTooLong.Error()}
		}
		finding.cause = err
		return "", &finding
	}
	text, _ := trimBlank(out.String())
	var err error
	switch _, problem := checkText(text); {
	case problem != "":
		err = errors.New("when rendered, " + problem)
	case text == "":
		err = errNothing
	case len(text) > MaxBytes:
		err = errTooLong
	default:
		return text, nil
	}
	return "", &Finding{Line: p.line, Text: "template: " + err.Error(), cause: err}
}

// limitedBuilder takes at most left more bytes.
type limitedBuilder struct {
	strings.Builder
	left int
}

func (b *limitedBuilder) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errTooLong
	}
	return b.Builder.Write(p)
}

// checkTemplates checks the templates of a prompt: first their form, then a dry run
// with sample numbers and one without any. What fails there would fail when the
// prompt is due. Having nothing to send, or no numbers yet, is not a mistake.
func checkTemplates(p Prompt) []Finding {
	var findings []Finding
	for _, part := range parts(p) {
		_, problems := compile(part.text, part.line, p.Recurs())
		findings = append(findings, problems...)
	}
	if len(findings) > 0 || p.Body == "" {
		return findings
	}
	at := time.Date(2026, time.January, 5, 0, 0, 0, 0, time.UTC)
	if p.Recurs() {
		at = p.Schedule.Next(at)
	}
	for _, n := range []Numbers{sampleNumbers{analytics.DateOf(at)}, nil} {
		_, err := Render(context.Background(), p, at, n)
		failed, ok := errors.AsType[Finding](err)
		if ok && !errors.Is(err, ErrNoNumbers) && !errors.Is(err, errNothing) {
			return []Finding{failed}
		}
	}
	return nil
}

// compile parses a template that begins on a line of its file. The findings have no
// path.
func compile(text string, line int, recurs bool) (*template.Template, []Finding) {
	text = strings.Repeat("\n", line-1) + text
	trees, err := parse.Parse(templateName, text, leftDelimiter, rightDelimiter, functionNames)
	if err != nil {
		return nil, []Finding{templateFinding(err)}
	}
	tree := trees[templateName]
	c := checker{text: text, recurs: recurs}
	c.check(tree.Root, true)
	for name, other := range trees {
		if name != templateName {
			c.find(other.Root, "define and block are not allowed: write the text itself")
		}
	}
	if len(c.findings) > 0 {
		return nil, c.findings
	}
	t, err := template.New(templateName).Option("missingkey=error").AddParseTree(templateName, tree)
	if err != nil {
		return nil, []Finding{templateFinding(err)}
	}
	return t, nil
}

// templatePlace is how the library's errors begin.
var templatePlace = regexp.MustCompile(
	`^(?:template: )?` + templateName + `:(\d+)(?::\d+)?: (?:executing "` + templateName + `" at )?`)

// templateFinding makes a finding of an error of the library, which writes its own
// delimiters.
func templateFinding(err error) Finding {
	text, line := err.Error(), 0
	if match := templatePlace.FindStringSubmatch(text); match != nil {
		text = text[len(match[0]):]
		line, _ = strconv.Atoi(match[1])
	}
	text = strings.NewReplacer("{{", leftDelimiter, "}}", rightDelimiter).Replace(text)
	if strings.HasPrefix(text, "function ") {
		text += ": want one of " + strings.Join(slices.Sorted(maps.Keys(functionNames)), ", ")
	}
	return Finding{Line: line, Text: "template: " + shorten(text)}
}

// checker finds parts of a template that might not end, or have no meaning. A range
// covers a list of at most maxPages pages and is not inside another range, and
// nothing calls itself. So every template ends soon.
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

// check checks a node and those below it. top reports whether dot holds the
// variables of the template.
func (c *checker) check(n parse.Node, top bool) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			c.check(child, top)
		}
	case *parse.ActionNode:
		c.check(n.Pipe, top)
	case *parse.IfNode:
		c.check(n.Pipe, top)
		c.check(n.List, top)
		c.check(n.ElseList, top)
	case *parse.WithNode:
		c.check(n.Pipe, top)
		c.check(n.List, false)
		c.check(n.ElseList, top)
	case *parse.RangeNode:
		c.check(n.Pipe, top)
		if !rangesOverPages(n.Pipe) {
			c.find(n, "range goes over pages: write it as [[ range top_pages \"week\" 10 ]]")
		}
		if c.inRange {
			c.find(n, "a range inside a range is not allowed: write one after the other")
			return
		}
		c.inRange = true
		c.check(n.List, false)
		c.inRange = false
		c.check(n.ElseList, top)
	case *parse.TemplateNode:
		c.find(n, "template and block are not allowed: write the text itself")
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			for _, argument := range command.Args {
				c.check(argument, top)
			}
		}
	case *parse.ChainNode:
		c.check(n.Node, top)
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

// rangesOverPages reports whether a range calls a function that lists pages.
func rangesOverPages(p *parse.PipeNode) bool {
	if len(p.Cmds) != 1 {
		return false
	}
	function, ok := p.Cmds[0].Args[0].(*parse.IdentifierNode)
	return ok && slices.Contains([]string{
		"top_pages", "rising_pages", "falling_pages", "outcomes", "agents", "misses",
	}, function.Ident)
}

func (c *checker) variable(n parse.Node, name string) {
	switch {
	case !slices.Contains(variableNames, name):
		c.find(n, "."+shorten(name)+" is unknown: want one of ."+strings.Join(variableNames, ", ."))
	case name == "firing" && !c.recurs:
		c.find(n, ".firing is only available in a prompt with a schedule: use .date")
	}
}

// sampleNumbers are made-up numbers for windows that end on a date: maxPages pages
// that gain visitors and as many that lose some, agents, and paths that they missed.
type sampleNumbers struct{ end analytics.Date }

func (s sampleNumbers) Windows(_ context.Context, _ string, g analytics.Granularity, _ Content) (Compared, error) {
	w := analytics.Window{From: s.end - max(7, analytics.Date(g.RollingDays())), To: s.end}
	a := Compared{
		Window: w, FormerWindow: g.ComparedWith(w),
		Totals:       analytics.Totals{Human: 900, AI: 200, Total: 1000},
		FormerTotals: analytics.Totals{Human: 800, AI: 100, Total: 850},
	}
	row := func(path string, n int64) analytics.Row {
		return analytics.Row{Path: path, Totals: analytics.Totals{Human: n, AI: n, Total: n}}
	}
	for i := range int64(maxPages) {
		up, down := fmt.Sprintf("/example/up-%d", i), fmt.Sprintf("/example/down-%d", i)
		a.Rows = append(a.Rows, row(up, 200+2*i), row(down, 100+i))
		a.FormerRows = append(a.FormerRows, row(up, 100+i), row(down, 200+2*i))
		numbers := view.AgentNumbers{Visitors: 200 - i, Requests: 900}
		a.Agents = append(a.Agents, view.RankedAgent{Agent: fmt.Sprintf("Example-%d", i), Class: "answers",
			Audience: analytics.AI, AgentNumbers: numbers})
		a.Misses = append(a.Misses, view.Miss{Path: fmt.Sprintf("/example/not-there-%d", i), AgentNumbers: numbers,
			Agents: []view.MissAgent{{Agent: "Example-0"}, {Agent: "Example-1"}}, Near: []string{"/example/up-0"}})
	}
	return a, nil
}

// Outcomes have as many effects as a list may have.
func (s sampleNumbers) Outcomes(_ context.Context, project string) (view.Outcomes, error) {
	o := view.Outcome{Final: true,
		Merge: view.Merge{Project: project, Link: "https://example.com/pull/1", At: (s.end - 40).Time()}}
	for i := range maxPages {
		o.Effects = append(o.Effects, view.Effect{
			Path: fmt.Sprintf("/example/%d", i), Audience: analytics.Human, Verdict: view.MoreReaders,
			Before: 100, Actual: 130, Expected: 100, Change: .3, Low: .2, High: .4,
		})
	}
	summary := view.OutcomeSummary{Project: project, Merges: 1, Comparisons: maxPages, More: maxPages, ByChance: .05}
	return view.Outcomes{Summaries: []view.OutcomeSummary{summary}, Merges: []view.Outcome{o}}, nil
}
