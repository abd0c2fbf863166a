package sandbox

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/sandbox/codehost"
	"github.com/docgauge/docgauge/internal/sandbox/githubapi"
	"github.com/docgauge/docgauge/internal/sandbox/web"
)

// webPath is the path of a pull request's page as code hosts have it. A project may be
// called pull too.
var webPath = regexp.MustCompile(`^/[^/]+/[^/]+/pull/([0-9]+)$`)

// isPage reports whether r asks for a page for people: one of pull requests, or the
// index, which only browsers get. API clients get JSON for all other paths.
func isPage(r *http.Request) bool {
	if r.URL.Path == "/" {
		return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
	}
	return strings.HasPrefix(r.URL.Path, codehost.Path) || webPath.MatchString(r.URL.Path)
}

// isGitHub reports whether r is for the API about pull requests.
func isGitHub(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, githubapi.Path+"/") }

// serveGitHub answers requests about pull requests, which are not among those that
// Requests returns.
func (s *Sandbox) serveGitHub(w http.ResponseWriter, c *call) {
	_ = clock.Sleep(c.Context(), s.config.Faults.Latency) // or until nobody waits for the answer
	if err := s.checkHost(c); err != nil {
		s.refusePage(w, c, err)
		return
	}
	status, size := s.github.Serve(w, c.Request, s.webURL(c))
	s.requests.write(newRequest(c, status), c.took(), size)
}

// servePage answers requests for pages, which need no key and are not among those that
// Requests returns.
func (s *Sandbox) servePage(w http.ResponseWriter, c *call) {
	if err := s.checkHost(c); err != nil {
		s.refusePage(w, c, err)
		return
	}
	if c.Method == http.MethodPost {
		to, err := s.act(c)
		if err != nil {
			s.refusePage(w, c, err)
			return
		}
		s.requests.write(newRequest(c, http.StatusSeeOther), c.took(), 0)
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	page, err := s.page(c)
	if err != nil {
		s.refusePage(w, c, err)
		return
	}
	s.requests.write(newRequest(c, http.StatusOK), c.took(), len(page))
	web.Write(w, page)
}

// refusePage answers a request for people that has no page.
func (s *Sandbox) refusePage(w http.ResponseWriter, c *call, err error) {
	refused := s.refusalOf(err, w.Header())
	s.requests.write(newRequest(c, refused.status), c.took(), len(refused.Message)+1)
	http.Error(w, refused.Message, refused.status)
}

func (s *Sandbox) checkHost(c *call) error {
	if !s.isOurs(c.Host) {
		return fail(http.StatusMisdirectedRequest, "host: want an IP address, a name without a dot, or the host of the public URL")
	}
	return nil
}

func (s *Sandbox) page(c *call) ([]byte, error) {
	if c.Method != http.MethodGet && c.Method != http.MethodHead {
		return nil, fail(http.StatusMethodNotAllowed, "method: want GET").with("Allow", "GET, HEAD")
	}
	switch c.URL.Path {
	case "/":
		return s.index(c).Page()
	case codehost.Path:
		return web.Pulls(s.pulls.Pulls(), c.now)
	}
	pr, err := s.pullAt(c)
	if err != nil {
		return nil, err
	}
	return web.Pull(pr, c.now)
}

// pullAt returns the pull request whose page c asks for.
func (s *Sandbox) pullAt(c *call) (pr codehost.PullRequest, err error) {
	number, short := strings.CutPrefix(c.URL.Path, codehost.Path)
	if long := webPath.FindStringSubmatch(c.URL.Path); long != nil {
		number = long[1]
	}
	pr, ok := s.pulls.Pull(number)
	if !ok || !short && pr.WebPath() != c.URL.Path {
		return pr, fail(http.StatusNotFound, "pull request: not found on this sandbox")
	}
	return pr, nil
}

// maxForm limits the body of a form.
const maxForm = 4 << 10

// act does what a button of a pull request's page wants, and returns the page to show
// then. A page of somebody else cannot press it: browsers say where a form comes from.
func (s *Sandbox) act(c *call) (page string, err error) {
	if c.URL.Path == codehost.Path {
		return "", fail(http.StatusMethodNotAllowed, "method: want GET").with("Allow", "GET, HEAD")
	}
	pr, err := s.pullAt(c)
	if err != nil {
		return "", err
	}
	if err := http.NewCrossOriginProtection().Check(c.Request); err != nil {
		return "", fail(http.StatusForbidden, "form: is not from a page of this sandbox")
	}
	c.Body = http.MaxBytesReader(nil, c.Body, maxForm)
	if err := c.ParseForm(); err != nil {
		return "", fail(http.StatusBadRequest, "form: want action=merge and the like, at most %d bytes", maxForm)
	}
	switch err := s.pulls.Act(pr.Number, codehost.Action(c.PostForm.Get("action"))); {
	case errors.Is(err, codehost.ErrNotAllowed):
		return "", fail(http.StatusConflict, "%v", err)
	case err != nil:
		return "", err
	}
	return pr.WebPath(), nil
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
	exports := s.Exports(s.webURL(c), key)
	if key == "" {
		exports = exports[:len(exports)-1]
	}
	return web.Index{
		Traffic: s.describeTraffic(), Exports: exports, KeyNote: note, Uses: s.uses(c),
		Jobs: s.Jobs(), Prompts: local, Pulls: s.pulls.Pulls(), Now: c.now,
	}
}

// webURL is the base URL of the sandbox as the client of c knows it.
func (s *Sandbox) webURL(c *call) string {
	if s.publicHost != "" && strings.EqualFold(c.Host, s.publicHost) {
		return strings.TrimSuffix(s.config.Agent.PublicURL, "/")
	}
	return "http://" + c.Host
}

// Exports returns the lines that set docgauge's variables in a shell for the sandbox at
// url, the key last.
func (s *Sandbox) Exports(url, key string) []string {
	lines := []string{"export DOCGAUGE_BASE_URL=" + url, "export DOCGAUGE_PROJECTS=" + strings.Join(s.config.Projects, ",")}
	if r := s.config.Agent.Repo; r == nil || r.GitHub == "" { // else they are on GitHub
		lines = append(lines, "export DOCGAUGE_GITHUB_URL="+url+githubapi.Path)
	}
	return append(lines, "export DOCGAUGE_API_KEY="+key)
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
