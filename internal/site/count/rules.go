package count

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// DefaultProject is the project of a site whose settings name none.
const DefaultProject = "prj_site"

// Settings are the settings DOCGAUGE_SITE_… that say what a view is.
type Settings struct {
	LogFormat  string
	Projects   string // id=host[/prefix],…; empty: every line is of one site
	LogProxies string // networks, or names of them
	Exclude    string // networks, paths, and user agents
	Assets     string
	Markdown   string           // agent (or empty) or browser
	Hosts      []string         // of the site, beside the hosts of Projects; in lower case
	Humans     analytics.Humans // empty: claimed
	AgentsFile string
	RangesDir  string
}

// Rules say what a view is, of which site, and by whom.
type Rules struct {
	format   logs.Format
	projects []host
	hosts    map[string][]host // by name, the longest prefix first
	numbers  map[string]int32  // of projects, by id
	proxies  []netip.Prefix
	exclude  exclusions
	assets   assets
	humans   analytics.Humans
	fetches  bool            // the site's own script fetches Markdown
	own      map[string]bool // hosts of the site, without www.
	agents   *agents.Table
	ranges   *agents.Ranges
}

// host is a host and path prefix with pages of a project. A project can have several.
type host struct {
	project, name, prefix string
	number                int32 // of the project, in the order in which the settings name them
}

// ParseRules reads the settings and the files that they name. The error names every setting that
// is wrong.
func ParseRules(s Settings, now func() time.Time) (*Rules, error) {
	r := &Rules{assets: parseAssets(s.Assets), fetches: s.Markdown == "browser",
		humans: cmp.Or(s.Humans, analytics.Claimed)}
	if r.fetches {
		for _, name := range docsifyParts {
			r.assets.add(name)
		}
	}
	var problems []error
	check := func(name string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("DOCGAUGE_SITE_%s: %w", name, err))
		}
	}
	var err error
	r.format, err = logs.ParseFormat(s.LogFormat)
	check("LOG_FORMAT", err)
	r.projects, err = parseProjects(s.Projects)
	check("PROJECTS", err)
	r.hosts, r.numbers = map[string][]host{}, map[string]int32{}
	for _, h := range r.projects {
		r.hosts[h.name], r.numbers[h.project] = append(r.hosts[h.name], h), h.number
	}
	r.own = map[string]bool{}
	for _, name := range append(slices.Collect(maps.Keys(r.hosts)), s.Hosts...) {
		r.own[strings.TrimPrefix(name, "www.")] = true
	}
	for _, hosts := range r.hosts {
		slices.SortStableFunc(hosts, func(a, b host) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	}
	r.ranges, err = agents.ReadRanges(s.RangesDir, now)
	check("RANGES_DIR", err)
	r.proxies, err = parseProxies(s.LogProxies, r.ranges)
	check("LOG_PROXIES", err)
	r.exclude, err = parseExclusions(s.Exclude, &r.assets)
	check("EXCLUDE", err)
	if !r.fetches && s.Markdown != "" && s.Markdown != "agent" {
		check("MARKDOWN", fmt.Errorf("%.40q: want agent or browser", s.Markdown))
	}
	r.agents, err = agents.Load(s.AgentsFile)
	check("AGENTS_FILE", err)
	return r, errors.Join(problems...)
}

// Parser returns a parser of lines, for one goroutine.
func (r *Rules) Parser() *logs.Parser { return r.format.Parser() }

// Ranges returns the lists of published addresses.
func (r *Rules) Ranges() []agents.RangeList { return r.ranges.Lists() }

// Projects returns the ids of the projects of a site: first from the settings, then from the sources.
func (r *Rules) Projects(sources []logs.Source) (all []string) {
	for _, h := range r.projects {
		if !slices.Contains(all, h.project) {
			all = append(all, h.project)
		}
	}
	hasDefault := len(all) == 0 // lines without a project belong to DefaultProject
	for _, s := range sources {
		if s.Project != "" && !slices.Contains(all, s.Project) {
			all = append(all, s.Project)
		}
	}
	if hasDefault && slices.ContainsFunc(sources, func(s logs.Source) bool { return s.Project == "" }) {
		all = slices.Insert(all, 0, DefaultProject)
	}
	return all
}

func parseProjects(text string) (all []host, err error) {
	numbers := map[string]int32{}
	for _, part := range format.List(text) {
		project, where, ok := strings.Cut(part, "=")
		if err := analytics.CheckProject(project); err != nil {
			return nil, err
		}
		name, prefix, _ := strings.Cut(where, "/")
		name = strings.TrimSuffix(strings.ToLower(name), ".")
		prefix = strings.TrimRight("/"+spell([]byte(prefix)), "/")
		if !ok || name == "" || strings.ContainsAny(where, " ?#*") || strings.Contains(name, ":") {
			return nil, fmt.Errorf("%.80q: want project=host or project=host/prefix, without scheme, port and *", part)
		}
		for _, h := range all {
			if h.name == name && h.prefix == prefix && h.project != project {
				return nil, fmt.Errorf("%.80q: is %s's already", part, h.project)
			}
		}
		number, known := numbers[project]
		if !known {
			number = int32(len(numbers))
			numbers[project] = number
		}
		all = append(all, host{project, name, prefix, number})
	}
	return all, nil
}
