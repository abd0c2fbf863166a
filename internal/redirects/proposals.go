// Package redirects proposes redirects for paths that agents ask for and that are not there, writes them into the
// files in which hosts keep redirects, and audits these files. Strangers choose the missed paths: only what
// [WellFormed] accepts is ever proposed or written. Only a [Copy] reaches other machines.
package redirects

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/similar"
	"github.com/docgauge/docgauge/internal/view"
)

// Grade says how certain a proposal is.
type Grade string

// The grades. A Sure proposal can be published unread; a Likely one needs a person who looks.
const (
	Sure   Grade = "sure"
	Likely Grade = "likely"
	None   Grade = "none"
)

// Proposal is a redirect for a miss. Its JSON keys are stable.
type Proposal struct {
	view.MissedPath
	// Target is empty of None.
	Target string `json:"target"`
	Grade  Grade  `json:"grade"`
	Reason string `json:"reason"`
}

// Site is what is known of a site.
type Site struct {
	// Pages are the paths of the pages that exist.
	Pages []string
	// History is empty without a repository.
	History History
	// Rules are the redirects that exist.
	Rules []Rule
}

const (
	// leastAlike is the similarity of a rename, in per cent, from which it is Sure.
	leastAlike = 60
	// leastPattern is the number of redirects that make a pattern.
	leastPattern = 3
	// leastLikeness of a page is Likely, if the next one is less like the path by clearly.
	leastLikeness = 0.72
	clearly       = 0.06
)

var form = regexp.MustCompile(`^/[A-Za-z0-9._~/-]*$`)

// WellFormed reports whether a rule may have the path: it means the same to every host, and nothing but itself.
func WellFormed(p string) bool {
	return form.MatchString(p) && path.Clean(p) == cmp.Or(strings.TrimSuffix(p, "/"), "/")
}

// attacks are the beginnings and ends of names by which scanners look for programs and secrets.
var attacks = regexp.MustCompile(`(?i)(^|/)(\.|wp-|wordpress/|xmlrpc|phpmyadmin|phpinfo|cgi-bin|vendor/phpunit|` +
	`etc/passwd|owa/auth|boaform|hnap1|server-status|_profiler|autodiscover)` +
	`|\.(php\d?|phtml|aspx?|ashx|jspx?|do|action|cgi|pl|env|git|sql|bak|old|swp|log|ini|conf|ya?ml|toml|key|pem)/?$`)

// word is the form of a name that spellings share.
func word(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '.' || r == ' ' {
			return '-'
		}
		return r
	}, strings.ToLower(withoutNumber(name)))
}

// spelling is the form of a path that spellings share.
func spelling(p string) string {
	name, isPage := analytics.CutPageExtension(p)
	if !isPage {
		name = p
	}
	parts := strings.Split(strings.Trim(name, "/"), "/")
	for i := range parts {
		parts[i] = word(parts[i])
	}
	if last := parts[len(parts)-1]; last == "index" || last == "readme" {
		parts = parts[:len(parts)-1]
	}
	return "/" + strings.Join(parts, "/")
}

// versions are the names of folders that hold a version of the documentation; the first group is one that readers
// of the site are given, the second a number or date.
var versions = regexp.MustCompile(`^(?:version-)?(?:(latest|stable|current)|v?(\d+(?:[.-]\d+)*)(?:[.-]?x)?|` +
	`next|draft|dev|main|master|edge|canary|nightly|beta)$`)

// unversioned returns the spelling of a path without the names of versions, and these.
func unversioned(p string) (bare string, named []string) {
	parts := strings.Split(spelling(p), "/")
	parts = slices.DeleteFunc(parts, func(part string) bool {
		isVersion := versions.MatchString(part)
		if isVersion {
			named = append(named, part)
		}
		return isVersion
	})
	return cmp.Or(strings.Join(parts, "/"), "/"), named
}

// locales are the names of folders that hold a translation.
var locales = regexp.MustCompile(`^(?:ar|bn|cs|da|de|el|en|es|fa|fi|fr|he|hi|hu|id|it|ja|ko|nl|pl|pt|ro|ru|sv|th|tr|uk|vi|zh)` +
	`(?:[-_][A-Za-z]{2,4})?$`)

// unlocalized returns a path without the first folder that names a language, and that name.
func unlocalized(p string) (rest, locale string) {
	parts := strings.Split(p, "/")
	i := slices.IndexFunc(parts[:len(parts)-1], locales.MatchString)
	if i < 0 {
		return p, ""
	}
	return strings.Join(slices.Delete(slices.Clone(parts), i, i+1), "/"), parts[i]
}

// plain returns the spelling of a path without versions and language: what all forms of a page have in common.
func plain(p string) string {
	bare, _ := unversioned(p)
	rest, _ := unlocalized(bare)
	return rest
}

// newer orders the versions of a page, the one to send readers to first: without a version, latest, the highest
// number, what is not published yet.
func newer(a, b string) int {
	rank := func(p string) (n int, numbers []int) {
		_, named := unversioned(p)
		for _, name := range named {
			switch parts := versions.FindStringSubmatch(name); {
			case parts[1] != "":
				n = max(n, 1)
			case parts[2] != "":
				n = max(n, 2)
				for number := range strings.FieldsFuncSeq(parts[2], func(r rune) bool { return r == '.' || r == '-' }) {
					value, _ := strconv.Atoi(number)
					numbers = append(numbers, value)
				}
			default:
				n = 3
			}
		}
		return n, numbers
	}
	n, numbers := rank(a)
	m, others := rank(b)
	return cmp.Or(cmp.Compare(n, m), slices.Compare(others, numbers), strings.Compare(a, b))
}

// guide answers where a path may have gone.
type guide struct {
	pages map[string]string // by their folded path
	// repository has the pages that are known from the repository alone.
	repository map[string]bool
	spelled    map[string][]string
	named      map[string][]string // by the last word
	former     map[string]Former   // by path
	files      map[string]string   // the former file of a path
	roots      []root
	patterns   []pattern
	twins      map[string][]string // the versions of a page, by its path without a version
	forms      map[string][]string // the versions and translations of a page, by its plain path
	near       *similar.Index
}

// pattern is a folder whose pages went to another one; n of its redirects say so, against of them say otherwise.
type pattern struct {
	from, to   string
	n, against int
}

// Propose returns a proposal for each miss, in their order.
func Propose(misses []view.MissedPath, site Site) []Proposal {
	g := newGuide(site)
	out := make([]Proposal, 0, len(misses))
	for _, m := range misses {
		p := Proposal{MissedPath: m}
		p.Target, p.Grade, p.Reason = g.propose(m.Path)
		if p.Grade == None {
			p.Target = ""
		} else if !WellFormed(p.Target) || strings.EqualFold(p.Target, strings.TrimSuffix(m.Path, "/")) {
			p.Grade, p.Reason, p.Target = None, fmt.Sprintf("its page %q cannot be the target of a rule", p.Target), ""
		}
		out = append(out, p)
	}
	return out
}

// SureRules returns the rules of the Sure proposals, by path.
func SureRules(proposals []Proposal) (rules []Rule) {
	for _, p := range proposals {
		if p.Grade == Sure {
			rules = append(rules, Rule{From: p.Path, To: p.Target})
		}
	}
	slices.SortFunc(rules, func(a, b Rule) int { return strings.Compare(a.From, b.From) })
	return rules
}

func newGuide(site Site) *guide {
	g := &guide{pages: map[string]string{}, repository: map[string]bool{}, spelled: map[string][]string{},
		named: map[string][]string{}, twins: map[string][]string{}, forms: map[string][]string{}, former: map[string]Former{}, files: map[string]string{}}
	for _, page := range site.Pages {
		g.pages[analytics.FoldPage(page)] = page
	}
	g.roots = learnRoots(site.History, site.Pages)
	for _, file := range site.History.Files {
		if page := g.pageOf(file); page != "" && g.pages[page] == "" {
			g.pages[page], g.repository[page] = page, true
		}
	}
	for file, former := range site.History.Former {
		for _, p := range filePaths(g.roots, file) {
			if other, taken := g.former[p]; !taken || former.age < other.age ||
				former.age == other.age && file < g.files[p] {
				g.former[p], g.files[p] = former, file
			}
		}
	}
	for _, page := range slices.Sorted(maps.Values(g.pages)) {
		g.spelled[spelling(page)] = append(g.spelled[spelling(page)], page)
		bare, _ := unversioned(page)
		g.named[path.Base(bare)] = append(g.named[path.Base(bare)], page)
		g.twins[bare] = append(g.twins[bare], page)
		g.forms[plain(page)] = append(g.forms[plain(page)], page)
	}
	g.near = similar.New(slices.Sorted(maps.Values(g.pages)))
	g.patterns = learnPatterns(site.Rules)
	return g
}

// pageOf returns the path of the page of a file that exists, as the site has it if it does.
func (g *guide) pageOf(file string) string {
	paths := filePaths(g.roots, file)
	for _, p := range paths {
		if g.pages[p] != "" && !g.repository[p] {
			return g.pages[p]
		}
	}
	if len(paths) == 0 {
		return ""
	}
	return paths[0]
}

// learnPatterns returns the folders that redirects lead away from, the longest first.
func learnPatterns(rules []Rule) (out []pattern) {
	count := map[pattern]int{}
	for _, r := range rules {
		from, to := strings.Split(r.From, "/"), strings.Split(analytics.FoldPage(r.target()), "/")
		if n := commonEnd(from, to); r.literal() && n > 0 && n < len(from) {
			count[pattern{from: strings.Join(from[:len(from)-n], "/"), to: strings.Join(to[:len(to)-n], "/")}]++
		}
	}
	for p, n := range count {
		if n < leastPattern {
			continue
		}
		p.n = n
		for _, r := range rules {
			if rest, ok := strings.CutPrefix(r.From, p.from+"/"); ok && r.literal() && analytics.FoldPage(r.target()) != p.to+"/"+rest {
				p.against++
			}
		}
		if p.against*10 <= p.n {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b pattern) int {
		return cmp.Or(len(b.from)-len(a.from), b.n-a.n, strings.Compare(a.from+a.to, b.from+b.to))
	})
	return out
}

func (g *guide) propose(missed string) (target string, grade Grade, reason string) {
	folded := analytics.FoldPage(missed)
	switch {
	case !WellFormed(missed):
		return "", None, "no rule may have such a path"
	case attacks.MatchString(missed):
		return "", None, "scanners ask for such a path"
	case folded == "/" || g.pages[folded] != "":
		return "", None, "it is a page now"
	}
	if target, grade, reason = g.known(folded); grade == None {
		return g.guess(folded, cmp.Or(reason, "no page is like it"))
	}
	return target, grade, reason
}

// known returns the page that renames, redirects or the spelling name for a path. Without one, the reason may say what
// became of its page.
func (g *guide) known(folded string) (target string, grade Grade, reason string) {
	former, was := g.former[folded]
	if was && former.File != "" {
		if page := g.pageOf(former.File); page != "" {
			page, several := g.current(page, folded)
			grade, reason = Sure, fmt.Sprintf("renamed %s: %s is %s now", former.Day, g.files[folded], former.File)
			if former.Alike < leastAlike {
				grade, reason = Likely, fmt.Sprintf("%s, and only %d %% alike", reason, former.Alike)
			} else if g.repository[analytics.FoldPage(page)] {
				grade, reason = Likely, reason+", which nobody read"
			} else if several {
				grade, reason = Likely, reason+", in several versions"
			}
			return page, grade, reason
		}
	}
	for _, p := range g.patterns {
		rest, ok := strings.CutPrefix(folded, p.from+"/")
		if page := g.pages[p.to+"/"+rest]; ok && rest != "" && page != "" {
			grade = Sure
			if p.against > 0 || was {
				grade = Likely
			}
			return page, grade, fmt.Sprintf("%d redirects lead from %s/ to %s/", p.n, p.from, p.to)
		}
	}
	if same := g.spelled[spelling(folded)]; len(same) == 1 {
		if grade = Sure; was || digits(same[0]) != digits(folded) {
			grade = Likely
		}
		return same[0], grade, "the path of this page, spelled differently"
	}
	if was {
		reason = "its page was deleted " + former.Day
	}
	return "", None, reason
}

// guess proposes the page that is most like a path, if one is.
func (g *guide) guess(folded, reason string) (string, Grade, string) {
	bare, _ := unversioned(folded)
	if all := g.twins[bare]; len(all) > 0 && bare != "/" {
		return slices.MinFunc(all, newer), Likely, "the path of this page but for the version"
	}
	if page, reason := g.translated(folded); page != "" {
		return page, Likely, reason
	}
	near := g.near.Near(folded)
	other := func(p string) bool { return plain(p) != plain(near[0].Path) }
	if same := g.named[path.Base(bare)]; len(near) > 0 && slices.Contains(same, near[0].Path) &&
		!slices.ContainsFunc(same, other) {
		page, _ := g.current(near[0].Path, folded)
		return page, Likely, "the only page with this name"
	}
	next := slices.IndexFunc(near, func(m similar.Match) bool { return other(m.Path) })
	if len(near) > 0 && near[0].Likeness >= leastLikeness &&
		(next < 0 || near[0].Likeness-near[next].Likeness >= clearly) {
		page, _ := g.current(near[0].Path, folded)
		return page, Likely, fmt.Sprintf("words in common (%.2f of 1)", near[0].Likeness)
	}
	return "", None, reason
}

// translated proposes the page of a path in another language, or in its own language the page to which another language
// leads; empty if there is none.
func (g *guide) translated(folded string) (page, reason string) {
	if all := g.forms[plain(folded)]; len(all) > 0 && plain(folded) != "/" {
		return slices.MinFunc(all, func(a, b string) int { return cmp.Or(foreign(a)-foreign(b), newer(a, b)) }),
			"the path of this page but for the language"
	}
	rest, locale := unlocalized(folded)
	if locale == "" {
		return "", ""
	}
	for _, p := range g.patterns {
		_, of := unlocalized(p.from + "/")
		as := strings.NewReplacer("/"+of+"/", "/"+locale+"/")
		rest, ok := strings.CutPrefix(folded, as.Replace(p.from+"/"))
		if page := g.pages[as.Replace(p.to+"/"+rest)]; ok && page != "" {
			return page, fmt.Sprintf("%d redirects lead from %s/ to %s/", p.n, p.from, p.to)
		}
	}
	page, _, reason = g.known(rest)
	for _, form := range g.forms[plain(page)] {
		if _, own := unlocalized(form); own == locale {
			page = form
		}
	}
	return page, reason + ", in another language"
}

// foreign orders the languages of a page, the one for readers without a language first.
func foreign(p string) int {
	switch _, locale := unlocalized(spelling(p)); {
	case locale == "":
		return 0
	case strings.HasPrefix(locale, "en"):
		return 1
	}
	return 2
}

// digits returns the digits of a path.
func digits(p string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, p)
}

// current returns the version of a page that readers of a path are to be sent to; several reports whether there is a
// choice: the path names no version, and the page is there in more than one.
func (g *guide) current(page, missed string) (_ string, several bool) {
	bare, named := unversioned(page)
	_, asked := unversioned(missed)
	if len(g.twins[bare]) < 2 || !slices.ContainsFunc(named, func(v string) bool { return !slices.Contains(asked, v) }) {
		return page, false
	}
	return slices.MinFunc(g.twins[bare], newer), true
}
