package prompts

import (
	"fmt"
	"strings"
)

// reader reads one file: it fills a prompt and gathers findings.
type reader struct {
	prompt   Prompt
	rules    Rules
	lines    map[string]int // line of each key that was given
	unread   bool           // nobody knows what keys there are
	findings []Finding
}

func (r *reader) find(line int, format string, args ...any) {
	r.findings = append(r.findings, Finding{Path: r.prompt.Path, Line: line, Text: fmt.Sprintf(format, args...)})
}

// parseFile reads the file at path, all of it in data. The prompt always has a path
// and an id; it keeps every rule if there are no findings.
func parseFile(path string, data []byte, rules Rules) (Prompt, []Finding) {
	r := &reader{
		prompt: Prompt{ID: path, Path: path, OnUnknown: Hold},
		rules:  rules,
		lines:  map[string]int{},
	}
	r.read(data)
	return r.prompt, sorted(r.findings)
}

func (r *reader) read(data []byte) {
	if len(data) > MaxBytes {
		r.find(0, "larger than 64 KiB: shorten it, or split it")
		return
	}
	text := normal.Replace(strings.TrimPrefix(string(data), bom))
	line, problem := checkText(text)
	if problem != "" {
		r.find(line, "%s", problem)
	}
	front, body, bodyLine := r.split(text)
	if problem == "" || line >= bodyLine {
		r.front(front)
	} else {
		r.unread = true
	}
	r.body(body, bodyLine)
	r.whole()
}

// fence begins and ends the front matter.
const fence = "---"

// split parts a file into its front matter and its body, which begins on bodyLine.
func (r *reader) split(text string) (front, body string, bodyLine int) {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != fence {
		r.lateFence(text)
		return "", text, 1
	}
	for line, i := 2, 0; i < len(rest); line++ {
		one, _, _ := strings.Cut(rest[i:], "\n")
		end := min(i+len(one)+1, len(rest))
		if strings.TrimRight(one, " \t") == fence {
			return rest[:i], rest[end:], line + 1
		}
		i = end
	}
	r.find(1, "the front matter that begins here does not end: close it with a line of three dashes")
	r.unread = true
	return "", text, 1
}

// lateFence finds front matter that would be sent as text.
func (r *reader) lateFence(text string) {
	text, skipped := tidy(text)
	first, _, _ := strings.Cut(text, "\n")
	if strings.Trim(first, " \t") == fence {
		r.find(skipped+1, "front matter begins on the first line or not at all: remove what is before it, or write *** for a rule")
		r.unread = true
	}
}

func (r *reader) body(text string, line int) {
	body, skipped := tidy(text)
	r.prompt.Body, r.prompt.bodyLine = body, line+skipped
	if body == "" {
		r.find(line, "the prompt is empty: write what the agent is to do below the front matter")
	}
}

// whole checks what only several keys together tell.
func (r *reader) whole() {
	p := &r.prompt
	r.project()
	if !p.NotBefore.IsZero() && !p.Expires.IsZero() && !p.NotBefore.Before(p.Expires) {
		r.find(r.lines["expires"], "expires: not after not_before, so it never runs: change one of them")
	}
	if p.Recurs() && len(p.DependsOn) > 0 {
		r.find(r.lines["depends_on"], "depends_on: a prompt with a schedule depends on nothing: remove one of the two keys")
	}
	if p.Template {
		r.template()
	}
	p.Digest = digest(*p)
}

func (r *reader) project() {
	known := r.rules.Projects
	switch {
	case r.lines["project"] != 0, len(known) == 0, r.unread:
	case len(known) == 1:
		r.prompt.Project = known[0]
	default:
		r.find(0, "project: missing, and several are configured: add one of %s", list(known))
	}
}

// list writes names for a message, not too many of them.
func list(names []string) string {
	const most = 20
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
