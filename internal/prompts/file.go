package prompts

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/schedule"
)

// fence begins and ends the front matter.
const fence = "---"

// keys are the keys of front matter.
var keys = []string{
	"id", "project", "title", "not_before", "expires", "schedule",
	"depends_on", "follow_ups", "concurrency_key", "on_unknown", "template", "pages",
}

var nameForm = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,%d}$`, maxNameBytes-1))

// parser parses one file: it fills in a prompt and collects findings.
type parser struct {
	prompt   Prompt
	rules    Rules
	keys     map[string]*yaml.Node // the known keys in the file
	values   map[string]*yaml.Node // their readable values
	unread   bool                  // the keys could not be read
	findings []Finding
}

func (r *parser) find(line int, format string, args ...any) {
	r.findings = append(r.findings, Finding{Path: r.prompt.Path, Line: line, Text: fmt.Sprintf(format, args...)})
}

// parseFile parses the file at path, whose whole content is data. The prompt always
// has a path and an id; without findings it keeps every rule.
func parseFile(path string, data []byte, rules Rules) (Prompt, []Finding) {
	r := &parser{
		prompt: Prompt{ID: path, Path: path}, rules: rules,
		keys: map[string]*yaml.Node{}, values: map[string]*yaml.Node{},
	}
	p := &r.prompt
	if len(data) > MaxBytes {
		r.find(0, "larger than 64 KiB: shorten it, or split it")
		return *p, r.findings
	}
	text := newlines.Replace(strings.TrimPrefix(string(data), bom))
	line, problem := checkText(text)
	if problem != "" {
		r.find(line, "%s", problem)
	}
	front, body, bodyLine := r.split(text)
	if problem == "" || line >= bodyLine {
		r.frontMatter(front)
	} else {
		r.unread = true
	}
	var blank int
	p.Body, blank = trimBlank(body)
	p.bodyLine = bodyLine + blank
	if p.Body == "" {
		r.find(bodyLine, "the prompt is empty: write what the agent is to do below the front matter")
	}
	if known := r.rules.Projects; r.keys["project"] == nil && !r.unread {
		switch len(known) {
		case 0:
		case 1:
			p.Project = known[0]
		default:
			r.find(0, "project: missing, and several are configured: add one of %s", join(known))
		}
	}
	if !p.NotBefore.IsZero() && !p.Expires.IsZero() && !p.NotBefore.Before(p.Expires) {
		r.find(r.keys["expires"].Line, "expires: not after not_before, so it never runs: change one of them")
	}
	if p.Recurs() && len(p.DependsOn) > 0 {
		r.find(r.keys["depends_on"].Line,
			"depends_on: a prompt with a schedule cannot depend on others: remove one of the two keys")
	}
	if p.Template {
		for _, f := range checkTemplates(*p) {
			r.find(f.Line, "%s", f.Text)
		}
	}
	p.Digest = digest(*p)
	return *p, sorted(r.findings)
}

// split parts a file into its front matter and its body, which begins on bodyLine.
func (r *parser) split(text string) (front, body string, bodyLine int) {
	lines := strings.SplitAfter(text, "\n")
	isFence := func(line string) bool { return strings.TrimRight(line, " \t\n") == fence }
	if !isFence(lines[0]) {
		if line, problem := misplaced(lines); problem != "" {
			r.find(line, "%s", problem)
			r.unread = true
		}
		return "", text, 1
	}
	for i, line := range lines[1:] {
		if isFence(line) {
			return strings.Join(lines[1:i+1], ""), strings.Join(lines[i+2:], ""), i + 3
		}
	}
	r.find(1, "the front matter that begins here does not end: close it with a line of three dashes")
	r.unread = true
	return "", text, 1
}

var (
	// dashes are what people and editors write for a fence, without the spaces.
	dashes = regexp.MustCompile(`^(?:[-*_=+~]{2,}|[\p{Pd}−─━]+)$`)
	// keyLine matches the beginning of a line with a key of front matter.
	keyLine = regexp.MustCompile(`^["']?(` + strings.ReplaceAll(strings.Join(keys, "|"), "_", "[_-]") + `)["']? *:( |$)`)
	// continued matches the other lines of front matter: blank, indented, list items and comments.
	continued = regexp.MustCompile(`^(?:$|[ \t]|-[ \t]|#)`)
)

// isDashes reports whether a line looks like a fence. A comment may follow.
func isDashes(line string) bool {
	line, _, _ = strings.Cut(line, " #")
	return dashes.MatchString(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, line))
}

// misplaced looks for front matter in a file that does not begin with its fence: the keys would be sent as
// text, and the prompt would run without them. It returns the line and the problem, if any. A rule with
// text after it is part of the prompt, and so is front matter in a block of code.
func misplaced(lines []string) (line int, problem string) {
	const (
		late    = "front matter must begin on the first line: remove what is before it"
		example = "; an example belongs in a block of code"
		unlike  = "front matter begins and ends with a line of exactly three dashes, ---, and this line is another: " +
			"write that on the first line of the file" + example
		unfenced = "front matter begins with a line of three dashes before its keys: write --- on the first line, or " +
			"begin the text with something else than a key"
	)
	next := func(i int) int { // the next line after one that is neither blank nor a comment, or the last
		for i++; i < len(lines)-1; i++ {
			if text := strings.TrimSpace(lines[i]); text != "" && text[0] != '#' {
				break
			}
		}
		return min(i, len(lines)-1)
	}
	begins := func(i int) bool { // front matter
		return isDashes(lines[i]) && keyLine.MatchString(strings.TrimSpace(lines[next(i)]))
	}
	leading, keyed := true, false // in what could be keys at the beginning
	block := ""                   // the fence of a block of code
	_, first := trimBlank(strings.Join(lines, ""))
	for i := first; i < len(lines); i++ {
		text := strings.TrimSpace(lines[i])
		mark := codeFence(text)
		switch {
		case block != "" && mark == text && strings.HasPrefix(mark, block):
			block = ""
			continue
		case block == "" && mark != "" && (i > first || !begins(next(i))):
			block, leading = mark, false
		}
		isCode := strings.HasPrefix(lines[i], "    ") || strings.HasPrefix(lines[i], "\t")
		switch {
		case block != "" || isCode && i > first:
		case text == fence && begins(i):
			return i + 1, late + example
		case text == fence && i == first:
			return i + 1, late + ", or write *** for a rule"
		case begins(i):
			return i + 1, unlike
		case isDashes(text) && keyed:
			return first + 1, unfenced
		case leading && keyLine.MatchString(text):
			keyed = true
		case leading:
			leading = continued.MatchString(strings.TrimRight(lines[i], "\n"))
			keyed = keyed && leading
		}
	}
	return 0, ""
}

// codeFence returns the marks with which a block of code begins or ends, or "".
func codeFence(text string) string {
	for _, mark := range []string{"`", "~"} {
		if n := len(text) - len(strings.TrimLeft(text, mark)); n >= 3 {
			return text[:n]
		}
	}
	return ""
}

// frontMatter reads the front matter: a mapping of the known keys to text, true or
// false, or lists of text. The rest of YAML is not allowed. It reads the nodes
// instead of decoding into a struct: that would end at the first duplicate key, with
// a message for each pair of them, and every other finding would be lost.
func (r *parser) frontMatter(text string) {
	if i := strings.IndexAny(text, "\u2028\u2029"); i >= 0 {
		r.find(1+lineAt(text, i), `front matter: U+2028 and U+2029 end a line in YAML: write "\u2028" in quotes`)
		r.unread = true
		return
	}
	decoder := yaml.NewDecoder(strings.NewReader("\n" + text)) // it begins on the second line of the file
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return
	} else if err != nil {
		r.invalidYAML(err)
		return
	}
	if err := decoder.Decode(&second); err == nil {
		r.find(second.Line, "front matter: a second YAML document begins: remove the line before it")
	} else if !errors.Is(err, io.EOF) {
		r.invalidYAML(err)
	}
	if len(document.Content) == 0 {
		return
	}
	mapping := document.Content[0]
	r.plain(mapping)
	if mapping.Kind != yaml.MappingNode {
		if mapping.Kind != yaml.ScalarNode || mapping.ShortTag() != "!!null" {
			r.find(mapping.Line, "front matter: want lines of the form key: value, got %s", describe(mapping))
		}
		return
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		before := r.keys[key.Value]
		switch {
		case key.Kind == yaml.AliasNode, key.ShortTag() == "!!merge": // noted by plain
		case key.Kind != yaml.ScalarNode:
			r.find(key.Line, "front matter: a key is a word, got %s", describe(key))
		case !slices.Contains(keys, key.Value):
			name := strings.ReplaceAll(strings.ToLower(key.Value), "-", "_")
			r.find(key.Line, "%s: unknown key: %s", printable(key.Value), format.DidYouMean(name, keys))
		case before != nil:
			r.find(key.Line, "%s: is on line %d already: remove one of them", key.Value, before.Line)
		default:
			r.keys[key.Value] = key
			if value.Kind == yaml.ScalarNode && value.ShortTag() == "!!null" {
				r.find(key.Line, "%s: has no value: write one, or remove the key", key.Value)
			} else if value.Kind != yaml.AliasNode && value.Style&yaml.TaggedStyle == 0 {
				r.values[key.Value] = value
			}
		}
	}
	r.fill()
}

var (
	// yamlLine is how the library's errors begin.
	yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	// yamlEarly are the errors whose line the library counts from 0.
	yamlEarly = regexp.MustCompile(
		`^did not find expected (<|node content|'-'|key$|',')|^found (duplicate|incompatible|undefined)`)
)

func (r *parser) invalidYAML(err error) {
	r.unread = true
	line, text := 2, err.Error()
	if match := yamlLine.FindStringSubmatch(text); match != nil {
		text = text[len(match[0]):]
		if n, err := strconv.Atoi(match[1]); err == nil {
			line = n
		}
		if yamlEarly.MatchString(text) {
			line++
		}
	}
	r.find(line,
		"front matter: not YAML, %s: want lines of the form key: value, "+
			"with quotes around values that are more than words",
		printable(text))
}

// plain reports anchors, aliases, merge keys and tags, which give a value another meaning than its
// text.
func (r *parser) plain(n *yaml.Node) {
	switch {
	case n.Kind == yaml.AliasNode:
		r.find(n.Line, "front matter: the alias *%s is not allowed: write the value itself", printable(n.Value))
		return
	case n.ShortTag() == "!!merge":
		r.find(n.Line, "front matter: merge keys are not allowed: write the keys themselves")
	case n.Style&yaml.TaggedStyle != 0:
		r.find(n.Line, "front matter: the tag %s is not allowed: remove it", printable(n.Tag))
	}
	if n.Anchor != "" {
		r.find(n.Line, "front matter: the anchor &%s is not allowed: remove it", printable(n.Anchor))
	}
	for _, child := range n.Content {
		r.plain(child)
	}
}

// fill fills in the prompt from the values.
func (r *parser) fill() {
	p := &r.prompt
	if id := r.text("id", checkName); id != "" {
		p.ID, p.idLine = id, r.values["id"].Line
	}
	p.ConcurrencyKey = r.text("concurrency_key", checkName)
	p.Project = r.text("project", func(s string) string {
		switch known := r.rules.Projects; {
		case analytics.CheckProject(s) != nil:
			return quote(s) + ": want 1 to 128 letters, digits, underscores or dashes"
		case len(known) > 0 && !slices.Contains(known, s):
			return s + " is not configured: want " + join(known) + ", or add it to DOCGAUGE_PROJECTS"
		}
		return ""
	})
	p.Title = r.text("title", func(s string) string {
		if s == "" {
			return "empty: write one, or remove the key"
		}
		return checkLine(s)
	})
	p.NotBefore, p.Expires = r.time("not_before"), r.time("expires")
	r.text("schedule", func(s string) string {
		// The errors of a cron expression may quote it unchanged.
		if problem := checkLine(s); problem != "" {
			return problem
		}
		cron, err := schedule.ParseCron(s)
		if err != nil {
			return strings.TrimPrefix(err.Error(), "schedule ")
		}
		p.Schedule = cron
		return ""
	})
	r.text("on_unknown", func(s string) string {
		if p.Resubmit = s == "resubmit"; s != "resubmit" && s != "hold" {
			return quote(s) + ": want hold or resubmit"
		}
		return ""
	})
	if v := r.values["template"]; v != nil && (v.Kind != yaml.ScalarNode || v.ShortTag() != "!!bool") {
		r.find(v.Line, "template: want true or false, got %s", describe(v))
	} else if v != nil {
		// The library takes true, True, TRUE, false, False and FALSE for a boolean.
		p.Template = strings.EqualFold(v.Value, "true")
	}
	for _, item := range r.items("depends_on", maxDependsOn) {
		r.dependency(item)
	}
	r.list("pages", maxOwnPages, func(path string, _ *yaml.Node) (problem string) {
		switch problem = checkLine(path); {
		case !strings.HasPrefix(path, "/"):
			problem = quote(path) + ": want the path of a page, like /guides/start"
		case slices.Contains(p.Pages, path):
			problem = path + " is listed twice: remove one"
		case problem == "":
			p.Pages = append(p.Pages, path)
		}
		return problem
	})
	r.list("follow_ups", maxFollowUps, func(s string, at *yaml.Node) string {
		// Escapes in quotes can stand for characters that the file itself may not contain.
		if _, problem := checkText(s); problem != "" {
			return problem
		}
		message, blank := trimBlank(s)
		if message == "" {
			return "an empty message: write it, or remove it"
		}
		line := at.Line + blank
		if at.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			line++
		}
		p.FollowUps, p.followUpLines = append(p.FollowUps, message), append(p.followUpLines, line)
		return ""
	})
}

// whenMerged is the value of when in depends_on.
const whenMerged = "merged"

// dependency reads one of depends_on: an id, or {prompt: id, when: merged}.
func (r *parser) dependency(item *yaml.Node) {
	id, merged := item, item.Kind == yaml.MappingNode
	if merged {
		values := map[string]*yaml.Node{}
		for i := 0; i+1 < len(item.Content); i += 2 {
			values[item.Content[i].Value] = item.Content[i+1]
		}
		id = values["prompt"]
		when := values["when"]
		if len(item.Content) != 4 || id == nil || when == nil || when.Kind != yaml.ScalarNode ||
			when.Value != whenMerged {
			r.find(item.Line, "depends_on: want an id, which waits until that prompt is completed, "+
				"or {prompt: ID, when: merged}")
			return
		}
	}
	if id.Kind == yaml.AliasNode || !r.isText("depends_on", id) {
		return
	}
	p := &r.prompt
	// An id may be a path, which has more characters than a name.
	switch problem := checkLine(id.Value); {
	case id.Value == "":
		r.find(id.Line, "depends_on: an empty id: write the id or the path of a prompt")
	case slices.Contains(p.DependsOn, id.Value):
		r.find(id.Line, "depends_on: %s is listed twice: remove one", id.Value)
	case problem != "":
		r.find(id.Line, "depends_on: %s", problem)
	default:
		p.DependsOn, p.dependsLines = append(p.DependsOn, id.Value), append(p.dependsLines, id.Line)
		if merged {
			p.Merged = append(p.Merged, id.Value)
		}
	}
}

func checkName(s string) string {
	if nameForm.MatchString(s) {
		return ""
	}
	return fmt.Sprintf("%s: want 1 to %d letters, digits, dots, underscores, dashes or slashes, "+
		"a letter or digit first", quote(s), maxNameBytes)
}

// text returns the value of a key that is text, empty if it is missing or wrong.
func (r *parser) text(name string, check func(string) (problem string)) string {
	v := r.values[name]
	if v == nil || !r.isText(name, v) {
		return ""
	}
	if problem := check(v.Value); problem != "" {
		r.find(v.Line, "%s: %s", name, problem)
		return ""
	}
	return v.Value
}

// isText reports whether v is text. Numbers, dates, true and false need quotes, so
// that the text that is sent is the text that is written.
func (r *parser) isText(name string, v *yaml.Node) bool {
	switch {
	case v.Kind != yaml.ScalarNode:
		r.find(v.Line, "%s: want text, got %s", name, describe(v))
	case v.ShortTag() != "!!str":
		r.find(v.Line, "%s: want text, got %s: put it in quotes", name, describe(v))
	default:
		return true
	}
	return false
}

// time returns a date or a time, also one that YAML reads as its own type.
func (r *parser) time(name string) time.Time {
	v := r.values[name]
	if v == nil {
		return time.Time{}
	}
	if tag := v.ShortTag(); v.Kind != yaml.ScalarNode || tag != "!!str" && tag != "!!timestamp" {
		r.find(v.Line, "%s: want a date or a time, got %s", name, describe(v))
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, v.Value)
	if d, dateErr := analytics.ParseDate(v.Value); dateErr == nil {
		t, err = d.Time(), nil
	}
	if err != nil || t.Year() < 1970 {
		r.find(v.Line, "%s: %s: want a day that exists, 2026-01-31 (UTC), or a time, 2026-01-31T09:00:00Z",
			name, quote(v.Value))
		return time.Time{}
	}
	return t.UTC()
}

// items returns the elements of a list, none if it is not a list or has more than limit.
func (r *parser) items(name string, limit int) []*yaml.Node {
	v := r.values[name]
	switch {
	case v == nil:
		return nil
	case v.Kind != yaml.SequenceNode:
		r.find(v.Line, "%s: want a list, got %s: write - before each element", name, describe(v))
		return nil
	case len(v.Content) == 0:
		r.find(v.Line, "%s: the list is empty: add to it, or remove the key", name)
	case len(v.Content) > limit:
		r.find(v.Line, "%s: %d elements: want at most %d", name, len(v.Content), limit)
		return nil
	}
	return v.Content
}

// list hands the elements of a list of text, at most limit of them, to add.
func (r *parser) list(name string, limit int, add func(s string, at *yaml.Node) (problem string)) {
	for _, item := range r.items(name, limit) {
		if item.Kind == yaml.AliasNode || !r.isText(name, item) {
			continue
		}
		if problem := add(item.Value, item); problem != "" {
			r.find(item.Line, "%s: %s", name, problem)
		}
	}
}

// describe names the type of a value in messages.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "keys with values"
	case yaml.AliasNode:
		return "an alias"
	}
	names := map[string]string{
		"!!str": "text", "!!int": "a number", "!!float": "a number",
		"!!bool": "true or false", "!!timestamp": "a date", "!!null": "nothing",
	}
	return cmp.Or(names[n.ShortTag()], "something else")
}
