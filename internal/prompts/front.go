package prompts

import (
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// front reads the front matter: a mapping of the known keys to text, true or
// false, or lists of text. Of YAML nothing else is taken.
func (r *reader) front(text string) {
	if i := strings.IndexAny(text, "\u2028\u2029"); i >= 0 {
		r.find(1+lineAt(text, i), `front matter: U+2028 and U+2029 end a line in YAML: write "\u2028" in quotes`)
		r.unread = true
		return
	}
	node := r.tree(text)
	if node == nil || len(node.Content) == 0 {
		return
	}
	mapping := node.Content[0]
	r.plain(mapping)
	switch {
	case mapping.Kind == yaml.MappingNode:
		r.mapping(mapping)
	case mapping.Kind == yaml.ScalarNode && mapping.ShortTag() == "!!null":
	default:
		r.find(mapping.Line, "front matter: want lines of the form key: value, got %s", what(mapping))
	}
}

// tree parses the front matter, which begins on the second line of the file.
func (r *reader) tree(text string) *yaml.Node {
	decoder := yaml.NewDecoder(strings.NewReader("\n" + text))
	var node, second yaml.Node
	if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		r.yamlError(err)
		return nil
	}
	if err := decoder.Decode(&second); err == nil {
		r.find(second.Line, "front matter: a second YAML document begins: remove the line before it")
	} else if !errors.Is(err, io.EOF) {
		r.yamlError(err)
	}
	return &node
}

var (
	// yamlLine is how the library's errors begin.
	yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	// yamlEarly are the errors whose line the library counts from 0.
	yamlEarly = regexp.MustCompile(`^did not find expected (<|node content|'-'|key$|',')|^found (duplicate|incompatible|undefined)`)
)

func (r *reader) yamlError(err error) {
	r.unread = true
	line := 2
	text := err.Error()
	if match := yamlLine.FindStringSubmatch(text); match != nil {
		text = text[len(match[0]):]
		if n, err := strconv.Atoi(match[1]); err == nil {
			line = n
		}
		if yamlEarly.MatchString(text) {
			line++
		}
	}
	r.find(line, "front matter: not YAML, %s: want lines of the form key: value, with quotes around values that are more than words", shown(text))
}

// plain finds what makes a value other than what is written: anchors, aliases,
// merge keys and tags.
func (r *reader) plain(n *yaml.Node) {
	switch {
	case n.Kind == yaml.AliasNode:
		r.find(n.Line, "front matter: the alias *%s is not allowed: write the value itself", shown(n.Value))
		return
	case n.ShortTag() == "!!merge":
		r.find(n.Line, "front matter: merge keys are not allowed: write the keys themselves")
	case n.Style&yaml.TaggedStyle != 0:
		r.find(n.Line, "front matter: the tag %s is not allowed: remove it", shown(n.Tag))
	}
	if n.Anchor != "" {
		r.find(n.Line, "front matter: the anchor &%s is not allowed: remove it", shown(n.Anchor))
	}
	for _, child := range n.Content {
		r.plain(child)
	}
}

func (r *reader) mapping(n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		r.pair(n.Content[i], n.Content[i+1])
	}
}

func (r *reader) pair(name, value *yaml.Node) {
	if name.Kind != yaml.ScalarNode || name.ShortTag() == "!!merge" {
		if name.Kind != yaml.AliasNode && name.Kind != yaml.ScalarNode {
			r.find(name.Line, "front matter: a key is a word, got %s", what(name))
		}
		return
	}
	k := known(name.Value)
	switch before := r.lines[name.Value]; {
	case k == nil:
		r.find(name.Line, "%s: unknown key: %s", shown(name.Value), didYouMean(name.Value))
		return
	case before != 0:
		r.find(name.Line, "%s: is on line %d already: remove one of them", k.name, before)
		return
	}
	r.lines[name.Value] = name.Line
	if value.Kind == yaml.ScalarNode && value.ShortTag() == "!!null" {
		r.find(name.Line, "%s: has no value: write one, or remove the key", k.name)
		return
	}
	// What plain has found is not found again.
	if value.Kind != yaml.AliasNode && value.Style&yaml.TaggedStyle == 0 {
		k.set(r, k.name, value)
	}
}

// what says what a node is, for messages.
func what(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "keys with values"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!str":
		return "text"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	case "!!null":
		return "nothing"
	}
	return "something else"
}
