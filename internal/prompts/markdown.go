package prompts

import (
	"fmt"
	"strings"
)

// KeysMarkdown returns the table of the front matter's keys for the documentation.
func KeysMarkdown() string {
	var b strings.Builder
	b.WriteString("| key | value | meaning |\n|---|---|---|\n")
	for _, k := range keys {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.name, k.form, k.meaning)
	}
	return b.String()
}

// TemplateMarkdown returns the table of what a template may say.
func TemplateMarkdown() string {
	var b strings.Builder
	b.WriteString("| in a template | gives |\n|---|---|\n")
	for _, s := range symbols {
		fmt.Fprintf(&b, "| `%s` | %s |\n", s.use, s.gives)
	}
	return b.String()
}
