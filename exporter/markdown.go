package exporter

import (
	"fmt"
	"strings"
)

// Markdown returns the table of metrics for the documentation: one table for
// each group, each under a line that names it.
func Markdown() string {
	var b strings.Builder
	group := ""
	for _, m := range Metrics() {
		if m.Group != group {
			group = m.Group
			fmt.Fprintf(&b, "\n**%s**\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n", titles[group])
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, code(m.Labels), meaning(m.Help))
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// titles are the headings of the groups.
var titles = map[string]string{
	groupVisitors: "Visitors",
	groupPipeline: "Pipeline",
	groupAPI:      "API",
	groupJobs:     "Agent jobs (where DOCGAUGE_PROMPTS_DIR is set)",
	groupBuild:    "Program",
}

// code returns names as a list in code font.
func code(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

// meaning returns help without the sentences that nearly every one ends with, fit
// for a cell.
func meaning(help string) string {
	for _, sentence := range []string{cached, nonAdded, kept} {
		help = strings.ReplaceAll(help, sentence, "")
	}
	return strings.ReplaceAll(help, "|", `\|`)
}
