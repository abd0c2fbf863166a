package site

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/logs"
)

// Settings are those of DOCGAUGE_SITE_… that say what a view is.
type Settings struct {
	LogFormat  string
	Projects   string // id=host[/prefix],…; empty: every line is of one site
	LogProxies string // networks, or names of them
	Exclude    string // networks, paths, and user agents
	Assets     string
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
	agents   *agents.Table
	ranges   *agents.Ranges
}

// host is where pages of a project are. A project can have several.
type host struct {
	project, name, prefix string
	number                int32 // of the project, in the order in which the settings name them
}

// ParseRules reads the settings and the files that they name. The error names every setting that
// is wrong.
func ParseRules(s Settings, now func() time.Time) (*Rules, error) {
	r := &Rules{assets: parseAssets(s.Assets)}
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
	for _, hosts := range r.hosts {
		slices.SortStableFunc(hosts, func(a, b host) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	}
	r.proxies, err = parseProxies(s.LogProxies)
	check("LOG_PROXIES", err)
	r.exclude, err = parseExclusions(s.Exclude, r.assets)
	check("EXCLUDE", err)
	r.agents, err = agents.Load(s.AgentsFile)
	check("AGENTS_FILE", err)
	r.ranges, err = agents.ReadRanges(s.RangesDir, now)
	check("RANGES_DIR", err)
	return r, errors.Join(problems...)
}

// Ranges returns the lists of published addresses.
func (r *Rules) Ranges() []agents.RangeList { return r.ranges.Lists() }

// listed calls each with the parts of a comma-separated list.
func listed(text string, each func(string) error) error {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if err := each(part); err != nil {
			return err
		}
	}
	return nil
}

func parseProjects(text string) (all []host, err error) {
	numbers := map[string]int32{}
	err = listed(text, func(part string) error {
		project, where, ok := strings.Cut(part, "=")
		if err := analytics.CheckProject(project); err != nil {
			return err
		}
		name, prefix, _ := strings.Cut(where, "/")
		if !ok || name == "" || strings.ContainsAny(where, " ?#") {
			return fmt.Errorf("%.80q: want project=host or project=host/prefix", part)
		}
		number, known := numbers[project]
		if !known {
			number = int32(len(numbers))
			numbers[project] = number
		}
		all = append(all, host{project, strings.ToLower(name), strings.TrimRight("/"+prefix, "/"), number})
		return nil
	})
	return all, err
}

// parseProxies reads a comma-separated list of networks, addresses, and names of networks.
func parseProxies(text string) (all []netip.Prefix, err error) {
	err = listed(text, func(part string) error {
		if named := logs.Proxies(part); named != nil {
			all = append(all, named...)
			return nil
		}
		p, err := parseNetwork(part)
		if err != nil {
			return fmt.Errorf("%w; or cloudflare, fastly or private", err)
		}
		all = append(all, p)
		return nil
	})
	return all, err
}

// ParseNetworks reads a comma-separated list of networks and addresses.
func ParseNetworks(text string) (all []netip.Prefix, err error) {
	err = listed(text, func(part string) error {
		p, err := parseNetwork(part)
		all = append(all, p)
		return err
	})
	return all, err
}

// parseNetwork reads 192.0.2.0/24, 2001:db8::/32 or a single address.
func parseNetwork(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if addr, bad := netip.ParseAddr(text); bad == nil {
		addr = addr.Unmap().WithZone("")
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if err != nil {
		return p, fmt.Errorf("%.60q: want a network such as 192.0.2.0/24, or an address", text)
	}
	if p.Addr().Is4In6() { // clients are compared as IPv4
		const mapped = 96
		if p.Bits() < mapped {
			return p, fmt.Errorf("%.60q: contains more than IPv4 addresses and matches no client: write 0.0.0.0/0 or ::/0",
				text)
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p.Masked(), nil
}

// exclusions are views that are not of readers.
type exclusions struct {
	networks   []netip.Prefix
	paths      []string // or the beginnings of paths, before an asterisk, spelled as pages are
	userAgents []string // or parts of them, in lower case
}

// parseExclusions refuses an exclusion that no view can match.
func parseExclusions(text string, not assets) (e exclusions, err error) {
	err = listed(text, func(part string) error {
		agent, isAgent := strings.CutPrefix(part, "agent:")
		switch {
		case isAgent && agent != "":
			e.userAgents = append(e.userAgents, strings.ToLower(agent))
		case part[0] == '/':
			path, star := strings.CutSuffix(part, "*")
			switch {
			case strings.ContainsAny(path, "?#*"):
				return fmt.Errorf("%.60q: matches no view: write a path without its query, and * only at the end", part)
			case len(path) > maxPath:
				return fmt.Errorf("%.60q…: matches no view: want a path of at most %d bytes", part, maxPath)
			case !star && not.have([]byte(path)):
				return fmt.Errorf("%.60q: matches no view, because DOCGAUGE_SITE_ASSETS leaves it out already: remove it",
					part)
			}
			path = spell([]byte(path))
			if star {
				path += "*"
			}
			e.paths = append(e.paths, path)
		default:
			p, err := parseNetwork(part)
			if err != nil {
				return fmt.Errorf("%w; or a path that begins with / (and may end with *), or agent:text", err)
			}
			e.networks = append(e.networks, p)
		}
		return nil
	})
	return e, err
}

// havePath reports whether a path is excluded, as it was asked for or as the page that it names. What is
// excluded below a folder includes the page of the folder.
func (e exclusions) havePath(path []byte, page string) bool {
	if len(e.paths) == 0 {
		return false
	}
	asked := spell(path)
	for _, excluded := range e.paths {
		begin, isBegin := strings.CutSuffix(excluded, "*")
		if asked == excluded || page == excluded || isBegin &&
			(strings.HasPrefix(asked, begin) || strings.HasPrefix(page, begin) || page+"/" == begin) {
			return true
		}
	}
	return false
}

func contains(networks []netip.Prefix, addr netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}
