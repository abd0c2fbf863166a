package prompts

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// items returns the elements of a list, at most limit of them.
func (r *reader) items(name string, v *yaml.Node, limit int) []*yaml.Node {
	if v.Kind != yaml.SequenceNode {
		r.find(v.Line, "%s: want a list, got %s: write - before each element", name, what(v))
		return nil
	}
	if len(v.Content) == 0 {
		r.find(v.Line, "%s: the list is empty: add to it, or remove the key", name)
	}
	if len(v.Content) > limit {
		r.find(v.Line, "%s: %d elements: want at most %d", name, len(v.Content), limit)
		return nil
	}
	return v.Content
}

func (r *reader) setDependsOn(name string, v *yaml.Node) {
	p := &r.prompt
	for _, item := range r.items(name, v, MaxDependsOn) {
		id, ok := r.dependency(name, item)
		switch {
		case !ok:
		case slices.Contains(p.DependsOn, id):
			r.find(item.Line, "depends_on: %s is listed twice: remove one", id)
		default:
			p.DependsOn = append(p.DependsOn, id)
			p.dependsLines = append(p.dependsLines, item.Line)
		}
	}
}

// dependency reads an id, which may be a path: those have more characters.
func (r *reader) dependency(name string, v *yaml.Node) (string, bool) {
	if v.Kind == yaml.AliasNode {
		return "", false
	}
	s, ok := r.text(name, v)
	if !ok {
		return "", false
	}
	problem := checkLine(s)
	if s == "" {
		problem = "an empty id: write the id or the path of a prompt"
	}
	if problem != "" {
		r.find(v.Line, "depends_on: %s", problem)
		return "", false
	}
	return s, true
}

func (r *reader) setFollowUps(name string, v *yaml.Node) {
	p := &r.prompt
	for _, item := range r.items(name, v, MaxFollowUps) {
		if text, line, ok := r.followUp(name, item); ok {
			p.FollowUps = append(p.FollowUps, text)
			p.followUpLines = append(p.followUpLines, line)
		}
	}
}

// followUp reads a message, and the line on which it begins.
func (r *reader) followUp(name string, v *yaml.Node) (text string, line int, ok bool) {
	if v.Kind == yaml.AliasNode {
		return "", 0, false
	}
	s, ok := r.text(name, v)
	if !ok {
		return "", 0, false
	}
	// Escapes in quotes can be what the file itself may not contain.
	if _, problem := checkText(s); problem != "" {
		r.find(v.Line, "follow_ups: %s", problem)
		return "", 0, false
	}
	line = v.Line
	if v.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		line++
	}
	s, skipped := tidy(s)
	if s == "" {
		r.find(v.Line, "follow_ups: an empty message: write it, or remove it")
		return "", 0, false
	}
	return s, line + skipped, true
}
