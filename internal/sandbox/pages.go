package sandbox

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/sandbox/codehost"
	"github.com/docgauge/docgauge/internal/sandbox/web"
)

// isPage reports whether r asks for a page for people: one of pull requests, or the
// index, which only browsers get. API clients get JSON for all other paths.
func isPage(r *http.Request) bool {
	if r.URL.Path == "/" {
		return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
	}
	return strings.HasPrefix(r.URL.Path, codehost.Path)
}

// servePage answers requests for pages, which need no key and are not among those that
// Requests returns.
func (s *Sandbox) servePage(w http.ResponseWriter, c *call) {
	page, err := s.page(c)
	if err != nil {
		refused := s.refusalOf(err, w.Header())
		s.requests.write(newRequest(c, refused.status), c.took(), len(refused.Message)+1)
		http.Error(w, refused.Message, refused.status)
		return
	}
	s.requests.write(newRequest(c, http.StatusOK), c.took(), len(page))
	web.Write(w, page)
}

func (s *Sandbox) page(c *call) ([]byte, error) {
	if !s.isOurs(c.Host) {
		return nil, fail(http.StatusMisdirectedRequest, "host: want an IP address, a name without a dot, or the host of the public URL")
	}
	if c.Method != http.MethodGet && c.Method != http.MethodHead {
		return nil, fail(http.StatusMethodNotAllowed, "method: want GET").with("Allow", "GET, HEAD")
	}
	switch number := strings.TrimPrefix(c.URL.Path, codehost.Path); {
	case c.URL.Path == "/":
		return s.index(c).Page()
	case number == "":
		return web.Pulls(s.pulls.Pulls(), c.now)
	default:
		pr, ok := s.pulls.Pull(number)
		if !ok {
			return nil, fail(http.StatusNotFound, "pull request: not found on this sandbox")
		}
		return web.Pull(pr, c.now)
	}
}

var plainHost = regexp.MustCompile(`^[A-Za-z0-9._:\[\]-]+$`)

// isOurs reports whether a page may be shown for the host that a request names. A host
// with a dot must be ours: any other could be a name that a stranger points at this
// machine, so that a browser reads our pages for a page of the stranger.
func (s *Sandbox) isOurs(host string) bool {
	name := host
	if port := strings.LastIndexByte(name, ':'); port > strings.LastIndexByte(name, ']') {
		name = name[:port]
	}
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return plainHost.MatchString(host) &&
		(err == nil || !strings.Contains(name, ".") || s.publicHost != "" && strings.EqualFold(host, s.publicHost))
}

// index is the page at /. To others than the people at this machine it names neither
// the key nor prompts; a key that somebody chose is not shown to anybody.
func (s *Sandbox) index(c *call) web.Index {
	local := isLocal(c.Request)
	key, note := "", "The key is the one that was given with --api-key."
	if s.config.APIKey == DefaultAPIKey {
		key, note = DefaultAPIKey, ""
	}
	if !local {
		key, note = "", "The sandbox has printed its key where it was started."
	}
	url := "http://" + c.Host
	if s.publicHost != "" && strings.EqualFold(c.Host, s.publicHost) {
		url = strings.TrimSuffix(s.config.Agent.PublicURL, "/")
	}
	exports := Exports(url, s.config.Projects, key)
	if key == "" {
		exports = exports[:len(exports)-1]
	}
	return web.Index{
		Traffic: s.describeTraffic(), Exports: exports, KeyNote: note, Uses: s.uses(c),
		Jobs: s.Jobs(), Prompts: local, Pulls: s.pulls.Pulls(), Now: c.now,
	}
}

// Exports returns the lines that set docgauge's variables in a shell, the key last.
func Exports(url string, projects []string, key string) []string {
	return []string{
		"export DOCGAUGE_BASE_URL=" + url, "export DOCGAUGE_PROJECTS=" + strings.Join(projects, ","), "export DOCGAUGE_API_KEY=" + key,
	}
}

// isLocal reports whether both ends of a connection are on this machine.
func isLocal(r *http.Request) bool {
	here, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if here == nil {
		return false
	}
	for _, address := range []string{here.String(), r.RemoteAddr} {
		end, err := netip.ParseAddrPort(address)
		if err != nil || !end.Addr().Unmap().IsLoopback() {
			return false
		}
	}
	return true
}

// describeTraffic says in a sentence where the visitors come from.
func (s *Sandbox) describeTraffic() string {
	for _, p := range s.projects {
		if s.log != nil {
			if logged, _, err := s.log.read(p.name); err != nil || logged != nil {
				return "Its visitors are those of the event log " + EventLogName + "."
			}
		}
	}
	first := s.projects[s.config.Projects[0]].synthetic.first
	return fmt.Sprintf("Its visitors are made up: %s of traffic (%s) on %s, with seed %d.",
		format.Plural(int(analytics.DateOf(s.config.Now())-first), "day"), s.config.Scenario,
		format.Plural(s.config.Pages, "page"), s.config.Seed)
}

// uses counts the requests that the limits let pass, and what is left of the hour.
func (s *Sandbox) uses(c *call) []web.Use {
	use := func(what string, h *slidingHour) web.Use {
		passed, left := h.use(c.now)
		return web.Use{What: what, Requests: passed, Limit: len(h.passed), Left: left}
	}
	uses := []web.Use{use("Visitor analytics", s.hour)}
	for _, project := range s.config.Projects {
		uses = append(uses, use("Agent jobs and messages of "+project, s.postHours[project]))
	}
	return uses
}
