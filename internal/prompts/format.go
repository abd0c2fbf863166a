package prompts

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"time"
)

// encode writes p as a file: front matter with the keys that say something, in the
// order of the table, then the body.
func encode(p Prompt) []byte {
	var front bytes.Buffer
	for _, k := range keys {
		for _, line := range k.get(p) {
			front.WriteString(line + "\n")
		}
	}
	body, _ := tidy(normal.Replace(p.Body))
	if front.Len() == 0 && !strings.HasPrefix(strings.TrimLeft(body, " \t"), fence) && !strings.HasPrefix(body, bom) {
		return []byte(body + "\n")
	}
	return []byte(fence + "\n" + front.String() + fence + "\n" + body + "\n")
}

// keyed is a key with a value of one line; none without a value.
func keyed(name, value string) []string {
	if value == "" {
		return nil
	}
	return []string{name + ": " + value}
}

// unless is value, or nothing where it is what counts without the key.
func unless(value, standard string) string {
	if value == standard {
		return ""
	}
	return value
}

// elements is a key with a list.
func elements(name string, values []string) []string {
	if len(values) == 0 {
		return nil
	}
	lines := []string{name + ":"}
	for _, v := range values {
		lines = append(lines, "  - "+scalar(v, "    "))
	}
	return lines
}

// scalar writes text as YAML that nothing else is read from: several lines as a
// block if no rule of blocks alters them, else in quotes.
func scalar(s, indent string) string {
	if strings.Contains(s, "\n") && !blockless.MatchString(s) {
		return "|-\n" + indent + lineBegin.ReplaceAllString(s, "\n"+indent+"$1")
	}
	return quoted(s)
}

// blockless is text that a block does not keep: white space before the first line
// or around another, and what YAML takes for the end of a line or of a document.
var blockless = regexp.MustCompile(`^[ \t]|\n\t|[ \t](?:\n|$)|[^\n\t -~\x{A1}-\x{2027}\x{2030}-\x{D7FF}]`)

// lineBegin is the beginning of a line that is not empty.
var lineBegin = regexp.MustCompile(`\n([^\n])`)

// quoted writes text in double quotes. JSON is YAML.
func quoted(s string) string {
	if s == "" {
		return ""
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(s) // a string into memory
	return strings.TrimSpace(out.String())
}

// instantOf writes a time, as a date if it is the beginning of one.
func instantOf(t time.Time) string {
	switch t = t.UTC(); {
	case t.IsZero():
		return ""
	case t.Equal(t.Truncate(24 * time.Hour)):
		return quoted(t.Format(time.DateOnly))
	}
	return quoted(t.Format(time.RFC3339Nano))
}
