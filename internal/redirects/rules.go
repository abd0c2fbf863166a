package redirects

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Rule is a redirect in a file.
type Rule struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Line is the line in which it begins, from 1.
	Line int `json:"line,omitempty"`
	// matches is what From means if it is not itself alone; nil: itself, or what this program cannot read.
	matches *regexp.Regexp
	// unread: From is a pattern that this program cannot read. only: it holds under conditions. shows: it is no redirect,
	// but has the page at To shown, as status 200 of Netlify does.
	unread, only, shows bool
	// start and end are its place in the text.
	start, end int
}

func (r Rule) literal() bool { return r.matches == nil && !r.unread && !r.only }

// target returns the path of the rule's target.
func (r Rule) target() string {
	target, _, _ := strings.Cut(r.To, "#")
	target, _, _ = strings.Cut(target, "?")
	return target
}

// same is the form of a path under which hosts may look for a rule: some ignore case, most a slash at the end.
func same(p string) string { return cmp.Or(strings.TrimSuffix(strings.ToLower(p), "/"), "/") }

// takes reports whether the rule answers a path, for every client.
func (r Rule) takes(p string) bool {
	return !r.only && (r.literal() && same(r.From) == same(p) || r.matches != nil && r.matches.MatchString(p))
}

// everything reports whether the rule answers every path: rules that come after it are never met.
func (r Rule) everything() bool { return r.matches != nil && r.takes("/a/B-c_1/d.e") && r.takes("/~x") }

// leads reports whether the rule sends readers on, from a path that is not every one.
func (r Rule) leads() bool { return !r.shows && !r.everything() }

// File is a file of redirects.
type File struct {
	Rules  []Rule
	text   string
	format Format
	// last is the place behind the last rule, or where the first belongs.
	last int
	// insert returns the text with rules before the byte at, which is last or the start of a rule.
	insert func(f *File, at int, rules []Rule) string
	// style of JSON files and maps.
	style style
}

// Format is a format of files of redirects.
type Format string

// Formats are the formats, by the name that users give.
var Formats = []Format{"mintlify", "vercel", "netlify", "nginx"}

// Parse reads a file of redirects; an empty text is a new file. An error says what the file must be.
func Parse(format Format, text string) (*File, error) {
	f := &File{text: text, format: format}
	var err error
	switch format {
	case "mintlify", "vercel":
		err = f.parseJSON()
	case "netlify":
		f.parseLines()
	case "nginx":
		err = f.parseMap()
	default:
		err = fmt.Errorf("format %.20q: want mintlify, vercel, netlify or nginx", format)
	}
	for i, r := range f.Rules {
		f.Rules[i].Line = 1 + strings.Count(text[:r.start], "\n")
	}
	if err != nil {
		err = fmt.Errorf("is no file of %s that docgauge can read: %w", format, err)
	}
	return f, err
}

// Finding is a rule with a problem, or a rule that was not written.
type Finding struct {
	Line   int    `json:"line,omitempty"` // 0: it is not in the file
	From   string `json:"from"`
	To     string `json:"to"`
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
	// Target is the page to which a chained or dead rule should lead; empty: it is not known.
	Target string `json:"target,omitempty"`
}

// find returns the first rule that answers a path. A map of nginx asks its names before its patterns.
func find(rules []Rule, p string, names bool) (Rule, bool) {
	if names {
		for _, r := range rules {
			if r.literal() && r.takes(p) {
				return r, true
			}
		}
	}
	for _, r := range rules {
		if r.takes(p) {
			return r, true
		}
	}
	return Rule{}, false
}

// Add returns the text with the rules that it lacks, and which these are; with nothing to add it is the same text.
// Targets that are redirected themselves are replaced by where that leads. Rules that exist with this target are left
// out, all others that cannot be written are refused.
func (f *File) Add(rules []Rule) (text string, added []Rule, refused []Finding) {
	at := f.last
	for _, r := range f.Rules {
		if (r.everything() || r.unread || r.shows && !r.literal()) && !f.namesFirst() {
			at = r.start
			break
		}
	}
	before := slices.DeleteFunc(slices.Clone(f.Rules), func(r Rule) bool { return r.start >= at && at < f.last })
	for _, r := range rules {
		r = Rule{From: strings.TrimSuffix(r.From, "/"), To: cmp.Or(strings.TrimSuffix(r.To, "/"), "/")}
		reason := ""
		all := slices.Concat(f.Rules, added)
		wanted := r.To
		for range all {
			next, ok := find(all, r.To, f.namesFirst())
			if !ok || !next.leads() || !next.literal() || !WellFormed(next.To) {
				break
			}
			r.To = next.To
			if same(r.To) == same(r.From) {
				break
			}
		}
		old, taken := find(slices.Concat(before, added), r.From, f.namesFirst())
		chain := slices.IndexFunc(all, func(o Rule) bool { return same(o.target()) == same(r.From) })
		next, onwards := find(all, r.To, f.namesFirst())
		switch {
		case !WellFormed(r.From) || !WellFormed(r.To):
			reason = "not of the form of a rule"
		case same(r.From) == same(r.To) || r.From == "":
			reason = "it would be a loop"
		case taken && old.literal() && (same(old.target()) == same(r.To) || same(old.target()) == same(wanted)):
			continue
		case taken && old.literal():
			reason = fmt.Sprintf("it is redirected to %s already", old.To)
		case taken && (!f.namesFirst() || len(r.From) > maxName):
			reason = fmt.Sprintf("the rule %s takes it before", old.From)
		case chain >= 0:
			reason = fmt.Sprintf("it would make a chain: %s leads to it", all[chain].From)
		case onwards && next.leads():
			reason = fmt.Sprintf("it would make a chain: the rule %s takes its target", next.From)
		default:
			added = append(added, r)
			continue
		}
		refused = append(refused, Finding{From: r.From, To: r.To, Kind: "refused", Reason: reason})
	}
	if len(added) == 0 {
		return f.text, nil, refused
	}
	return f.insert(f, at, added), added, refused
}

func (f *File) namesFirst() bool { return f.format == "nginx" }

// Audit lists the rules that are never met, lead to no page, or lead to another rule. Without any page of the site,
// targets are not judged.
func (f *File) Audit(site Site) (out []Finding) {
	g, there := newGuide(site), map[string]bool{}
	for page := range g.pages {
		there[same(page)] = true
	}
	for i, r := range f.Rules {
		add := func(kind, reason string, args ...any) {
			out = append(out, Finding{Line: r.Line, From: r.From, To: r.To, Kind: kind, Reason: fmt.Sprintf(reason, args...)})
		}
		if r.unread {
			add("unread", "docgauge cannot read this pattern")
			continue
		}
		if r.matches == nil {
			earlier := f.Rules[:i]
			if f.namesFirst() {
				earlier = slices.DeleteFunc(slices.Clone(earlier), func(o Rule) bool { return !o.literal() })
			}
			if o, ok := find(earlier, r.From, f.namesFirst()); ok {
				add("shadowed", "the rule %s in line %d takes its path first", o.From, o.Line)
				continue
			}
		}
		target := r.target()
		if r.shows || !WellFormed(target) {
			continue // another site, or made from a pattern
		}
		o, ok := find(f.Rules, target, f.namesFirst())
		switch {
		case r.literal() && r.takes(target):
			add("loop", "it leads to itself")
		case ok && o.shows && !o.everything(): // it is shown
		case ok && o.leads():
			add("chained", "the rule %s in line %d redirects its target to %s", o.From, o.Line, o.To)
			out[len(out)-1].Target, _ = f.end(r, target, g, there)
		case len(there) > 0 && !there[same(analytics.FoldPage(target))]:
			page, why := f.end(r, target, g, there)
			add("dead", "no page with the path of its target is known%s", why)
			out[len(out)-1].Target = page
		}
	}
	return out
}

// end returns the page at which a rule with the target should end, after all rules and renames; empty if it is not known.
func (f *File) end(r Rule, target string, g *guide, there map[string]bool) (page, why string) {
	for range f.Rules {
		next, ok := find(f.Rules, target, f.namesFirst())
		if !ok || !next.leads() || !next.literal() || !WellFormed(next.target()) {
			break
		}
		target = next.target()
	}
	if page = analytics.FoldPage(target); !there[same(page)] {
		if page, _, why = g.known(page); why != "" {
			why = ": " + why
		}
	}
	if !r.literal() || !WellFormed(page) || same(page) == same(r.From) {
		page = ""
	}
	return page, why
}

// newline returns how the lines of a text end.
func newline(text string) string {
	if strings.Contains(text, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// compile sets what the rule's path means to hosts that know *, :name and patterns in parentheses.
func (r *Rule) compile(splats bool) {
	if !strings.ContainsAny(r.From, "*:(") {
		return
	}
	source, rest := "^", r.From
	for rest != "" {
		part := placeholder.FindString(rest)
		switch part {
		case "":
			source += regexp.QuoteMeta(rest[:1])
			rest = rest[1:]
			continue
		case "*":
			source += ".*"
			if !splats {
				r.unread = true
			}
		case "/*":
			source += "(/.*)?"
		default:
			group := "[^/]+"
			if open := strings.IndexByte(part, '('); open >= 0 {
				group = "(?:" + part[open+1:strings.LastIndexByte(part, ')')] + ")"
			}
			slash := ""
			if part[0] == '/' {
				slash = "/"
			}
			switch part[len(part)-1] {
			case '*':
				source += "(?:" + slash + group + "(?:/" + group + ")*)?"
			case '+':
				source += slash + group + "(?:/" + group + ")*"
			case '?':
				source += "(?:" + slash + group + ")?"
			default:
				source += slash + group
			}
		}
		rest = rest[len(part):]
	}
	var err error
	if r.matches, err = regexp.Compile(source + "/?$"); err != nil {
		r.matches, r.unread = nil, true
	}
}

var placeholder = regexp.MustCompile(`^(?:/?:[A-Za-z_][A-Za-z0-9_-]*(?:\((?:[^()]|\([^()]*\))*\))?[*+?]?|` +
	`/?\((?:[^()]|\([^()]*\))*\)[*+?]?|/?\*)`)
