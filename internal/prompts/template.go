package prompts

import (
	"regexp"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"
)

const (
	left, right = "[[", "]]"
	// templateName is in the errors of the library.
	templateName = "prompt"
)

// compile parses a template that begins on a line of its file, for errors. They
// are findings without a path.
func compile(text string, line int, recurs bool) (*template.Template, []Finding) {
	text = strings.Repeat("\n", line-1) + text
	trees, err := parse.Parse(templateName, text, left, right, names)
	if err != nil {
		return nil, []Finding{templateError(err)}
	}
	tree := trees[templateName]
	c := checker{text: text, recurs: recurs}
	c.list(tree.Root, true)
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
		return nil, []Finding{templateError(err)}
	}
	return t, nil
}

// templatePlace is how the library's errors begin.
var templatePlace = regexp.MustCompile(`^(?:template: )?` + templateName + `:(\d+)(?::\d+)?: (?:executing "` + templateName + `" at )?`)

// delimiters are ours where the library writes its own.
var delimiters = strings.NewReplacer("{{", left, "}}", right)

// templateError makes a finding of an error of the library.
func templateError(err error) Finding {
	text, line := err.Error(), 0
	if match := templatePlace.FindStringSubmatch(text); match != nil {
		text = text[len(match[0]):]
		line, _ = strconv.Atoi(match[1])
	}
	if strings.HasPrefix(text, "function ") {
		text += ": want one of " + strings.Join(functionNames(), ", ")
	}
	return Finding{Line: line, Text: "template: " + shownText(delimiters.Replace(text))}
}

// shownText is a message that may quote what a template says.
func shownText(s string) string {
	const most = 400
	s = strings.Map(func(r rune) rune {
		if hidden(r) != "" || r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, s)
	if len(s) > most {
		return cut(s, most) + "…"
	}
	return s
}
