package prompts

import (
	"maps"
	"slices"
	"strings"
)

// symbol is what a template may say. The table below is all there is; the
// documentation is made from it.
type symbol struct {
	// use is how it is written, its name first; a variable begins with a dot.
	use, gives string
	// value is a variable's, bind a function; both are nil for what the template
	// language has itself.
	value func(f *filling) any
	bind  func(f *filling) any
}

func (s symbol) name() string {
	name, _, _ := strings.Cut(s.use, " ")
	return strings.TrimPrefix(name, ".")
}

func (s symbol) variable() bool { return strings.HasPrefix(s.use, ".") }

var symbols = []symbol{
	{use: ".id", gives: "the prompt's id", value: func(f *filling) any { return f.prompt.ID }},
	{use: ".project", gives: "the project's id", value: func(f *filling) any { return f.prompt.Project }},
	{use: ".title", gives: "the title, or nothing", value: func(f *filling) any { return f.prompt.Title }},
	{use: ".date", gives: "the UTC date of the firing, without a schedule today's: `2026-01-31`", value: func(f *filling) any { return dayOf(f.at) }},
	{use: ".firing", gives: "the time of the firing, only with a schedule: `2026-01-31T09:00:00Z`", value: func(f *filling) any { return moment{f.at} }},

	{use: `date "2026-01-31"`, gives: "that date", bind: func(f *filling) any { return parseDay }},
	{use: `addDays -7 .date`, gives: "the date so many days later, or earlier", bind: func(f *filling) any { return addDays }},
	{use: `format "2 January 2006" .date`, gives: "a date or time, written as Go writes the example 2 January 2006, 15:04:05", bind: func(f *filling) any { return format }},

	{use: `have "week"`, gives: "whether there are numbers of the last two settled windows: of `day`, `week`, `month` or `28d`, as exported", bind: func(f *filling) any { return f.have }},
	{use: `site_visitors "week"`, gives: "the whole site in the newest settled window, with `.human`, `.ai`, `.total` (unique visitors; `.total` is not the sum), the change of each since the window before, `.human_change`, `.ai_change`, `.change`, and the window, `.from`, `.to` (the day after it) and `.last`; `.line` is all of that as text", bind: func(f *filling) any { return f.siteVisitors }},
	{use: `top_pages "week" 10`, gives: "the pages with the most visitors, at most 100, each with `.path` (quoted), `.human`, `.ai`, `.total`, `.human_change`, `.ai_change`, `.change` and `.line`; printed as it is, a line each. A third argument, `\"human\"` or `\"ai\"`, ranks by those visitors alone", bind: func(f *filling) any { return f.topPages }},
	{use: `rising_pages "week" 10`, gives: "the pages that gained the most visitors since the window before, as `top_pages`", bind: func(f *filling) any { return f.risingPages }},
	{use: `falling_pages "week" 10`, gives: "the pages that lost the most, as `top_pages`", bind: func(f *filling) any { return f.fallingPages }},

	{use: `and .title (have "week")`, gives: "the first that is empty, zero or false, else the last"},
	{use: `or .title .id`, gives: "the first that is not empty, zero or false, else the last"},
	{use: `not (have "week")`, gives: "the contrary"},
	{use: `eq .project "prj_a"`, gives: "whether they are equal; so `ne`, not equal"},
	{use: `ne .title ""`, gives: "see `eq`"},
	{use: `lt (site_visitors "week").change 0`, gives: "whether the first is less; so `le`, less or equal, `gt`, greater, `ge`, greater or equal"},
	{use: `le 1 2`, gives: "see `lt`"},
	{use: `gt 1 2`, gives: "see `lt`"},
	{use: `ge 1 2`, gives: "see `lt`"},
	{use: `len (rising_pages "week" 10)`, gives: "how many"},
}

// listNames are the functions that range goes over.
var listNames = []string{"top_pages", "rising_pages", "falling_pages"}

// names are the functions as the parser wants them.
var names = func() map[string]any {
	all := map[string]any{}
	for _, s := range symbols {
		if !s.variable() {
			all[s.name()] = true
		}
	}
	return all
}()

func functionNames() []string { return slices.Sorted(maps.Keys(names)) }

func variableNames() []string {
	var all []string
	for _, s := range symbols {
		if s.variable() {
			all = append(all, s.name())
		}
	}
	return all
}

// functions returns our functions, for one rendering.
func (f *filling) functions() map[string]any {
	all := map[string]any{}
	for _, s := range symbols {
		if s.bind != nil {
			all[s.name()] = s.bind(f)
		}
	}
	return all
}

// variables returns what dot is, for one rendering.
func (f *filling) variables() map[string]any {
	all := map[string]any{}
	for _, s := range symbols {
		if s.value != nil && (s.name() != "firing" || f.prompt.Recurs()) {
			all[s.name()] = s.value(f)
		}
	}
	return all
}
