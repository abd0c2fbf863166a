package count

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/docgauge/docgauge/internal/format"
)

// exclusions say which views do not count.
type exclusions struct {
	networks   []netip.Prefix
	paths      []string // or the beginnings of paths, before an asterisk, spelled as pages are
	userAgents []string // or parts of them, in lower case
}

// parseExclusions refuses an exclusion that no view can match.
func parseExclusions(text string, not *assets) (e exclusions, err error) {
	for _, part := range format.List(text) {
		agent, isAgent := strings.CutPrefix(part, "agent:")
		switch {
		case isAgent && agent != "":
			e.userAgents = append(e.userAgents, strings.ToLower(agent))
		case part[0] == '/':
			path, star := strings.CutSuffix(part, "*")
			switch {
			case strings.ContainsAny(path, "?#*"):
				return e, fmt.Errorf("%.60q: matches no view: write a path without its query, and * only at the end", part)
			case len(path) > maxPath:
				return e, fmt.Errorf("%.60q…: matches no view: want a path of at most %d bytes", part, maxPath)
			case !star && (not.kindOf([]byte(path)) != isPage || not.haveFolder(path)):
				return e, fmt.Errorf("%.60q: matches no view, because DOCGAUGE_SITE_ASSETS leaves it out already: remove it",
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
				return e, fmt.Errorf("%w; or a path that begins with / (and may end with *), or agent:text", err)
			}
			e.networks = append(e.networks, p)
		}
	}
	return e, nil
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
