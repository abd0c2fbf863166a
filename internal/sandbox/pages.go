package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/sandbox/traffic"
	"github.com/docgauge/docgauge/internal/site/api"
)

// webPath is the path of a pull request's page as code hosts have it. A project may be called
// pull too.
var webPath = regexp.MustCompile(`^/[^/]+/[^/]+/pull/([0-9]+)$`)

// isPage reports whether r asks for a page for people: a page of pull requests, or the index,
// which only browsers get. API clients get JSON for all other paths.
func isPage(r *http.Request) bool {
	if r.URL.Path == "/" {
		return isRead(r) && strings.Contains(r.Header.Get("Accept"), "text/html")
	}
	return strings.HasPrefix(r.URL.Path, pullPath) || webPath.MatchString(r.URL.Path)
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// serveBeside answers a request for a page or the API about pull requests. They need no key of
// the service, and Requests does not return them.
func (s *Sandbox) serveBeside(
	w http.ResponseWriter, r *http.Request, answer func(http.ResponseWriter, *api.Call) error,
) {
	c := s.service.NewCall(r)
	counted := &countingWriter{ResponseWriter: w, status: http.StatusOK}
	err := s.checkHost(c)
	if err == nil {
		err = answer(counted, c)
	}
	if err != nil {
		refused := s.service.RefusalOf(c, err, w.Header())
		http.Error(counted, refused.Message, refused.Status)
	}
	s.service.Requests.Write(c, counted.status, counted.size)
}

// countingWriter records the status and the size of a response.
type countingWriter struct {
	http.ResponseWriter
	status, size int
}

func (w *countingWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.size += len(p)
	return w.ResponseWriter.Write(p)
}

func (s *Sandbox) serveGitHub(w http.ResponseWriter, c *api.Call) error {
	_ = clock.Sleep(c.Context(), s.config.Faults.Latency) // or until the client has gone
	s.github.ServeAt(w, c.Request, s.webURL(c))
	return nil
}

func (s *Sandbox) servePage(w http.ResponseWriter, c *api.Call) error {
	switch {
	case c.Method == http.MethodPost && c.URL.Path != pullPath:
		location, err := s.act(c)
		if err != nil {
			return err
		}
		w.Header().Set("Location", location)
		w.WriteHeader(http.StatusSeeOther)
	case !isRead(c.Request):
		return api.Fail(http.StatusMethodNotAllowed, "method: want GET").With("Allow", "GET, HEAD")
	default:
		page, err := s.page(c)
		if err != nil {
			return err
		}
		writePage(w, page)
	}
	return nil
}

var plainHost = regexp.MustCompile(`^[A-Za-z0-9._:\[\]-]+$`)

// checkHost refuses requests for other hosts. A host with a dot must be an address or the
// public one: any other could be a name that a stranger points at this machine, so that a
// browser reads our pages for a page of the stranger.
func (s *Sandbox) checkHost(c *api.Call) error {
	name := c.Host
	if port := strings.LastIndexByte(name, ':'); port > strings.LastIndexByte(name, ']') {
		name = name[:port]
	}
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	if plainHost.MatchString(c.Host) && (err == nil || !strings.Contains(name, ".") || s.isPublic(c.Host)) {
		return nil
	}
	return api.Fail(http.StatusMisdirectedRequest, "host: want an IP address, a name without a dot, or the host of the "+
		"public URL")
}

func (s *Sandbox) isPublic(host string) bool {
	return s.publicHost != "" && strings.EqualFold(host, s.publicHost)
}

func (s *Sandbox) page(c *api.Call) ([]byte, error) {
	switch c.URL.Path {
	case "/":
		return render("index", "", s.index(c), c.Now)
	case pullPath:
		list := indexData{Pulls: s.pulls.Pulls()}
		slices.Reverse(list.Pulls)
		return render("pulls", "Pull requests", list, c.Now)
	}
	pr, err := s.pullAt(c)
	if err != nil {
		return nil, err
	}
	return render("pull", pr.Title, pr, c.Now)
}

// pullAt returns the pull request whose page c asks for.
func (s *Sandbox) pullAt(c *api.Call) (pr fake.Pull, err error) {
	number, short := strings.CutPrefix(c.URL.Path, pullPath)
	if long := webPath.FindStringSubmatch(c.URL.Path); long != nil {
		number = long[1]
	}
	pr, ok := s.pulls.Pull(number)
	if !ok || !short && pr.WebPath() != c.URL.Path {
		return pr, api.Fail(http.StatusNotFound, "pull request: not found on this sandbox")
	}
	return pr, nil
}

// maxForm limits the body of a form, in bytes.
const maxForm = 4 << 10

// act does what a button of a pull request's page says, and returns the page to show then. A
// page of another site cannot press it: browsers say where a form comes from.
func (s *Sandbox) act(c *api.Call) (page string, err error) {
	pr, err := s.pullAt(c)
	if err != nil {
		return "", err
	}
	if err := http.NewCrossOriginProtection().Check(c.Request); err != nil {
		return "", api.Fail(http.StatusForbidden, "form: is not from a page of this sandbox")
	}
	c.Body = http.MaxBytesReader(nil, c.Body, maxForm)
	if err := c.ParseForm(); err != nil {
		return "", api.Fail(http.StatusBadRequest, "form: want action=merge and the like, at most %d bytes", maxForm)
	}
	err = s.pulls.Act(pr.Number, fake.Action(c.PostForm.Get("action")))
	if errors.Is(err, fake.ErrNotAllowed) {
		err = api.Fail(http.StatusConflict, "%v", err)
	}
	return pr.WebPath(), err
}

// index is the page at /. To people at other machines it shows neither the key nor prompts; a
// key or token that the operator chose is never shown.
func (s *Sandbox) index(c *api.Call) indexData {
	x := indexData{
		Traffic: s.describeTraffic(), Prompts: isLocal(c.Request),
		KeyNote: "The key is the one that was given with --api-key.",
	}
	key, token := "", ""
	if s.config.APIKey == DefaultAPIKey {
		key, x.KeyNote = DefaultAPIKey, ""
	}
	if !x.Prompts {
		key, x.KeyNote = "", "The sandbox has printed its key where it was started."
	}
	if s.config.Agent.Pulls.Token == "" {
		token = AnyToken
	}
	x.Exports = s.exports(s.webURL(c), token, key)
	addUse := func(what string, h *slidingHour) {
		passed, left := h.use(c.Now)
		x.Uses = append(x.Uses, usage{what, passed, len(h.passed), left})
	}
	addUse("Visitor analytics", s.hour)
	for _, project := range s.config.Projects {
		addUse("Agent jobs and messages of "+project, s.projects[project].postHour)
	}
	x.Jobs, x.MoreJobs = newest(s.Jobs())
	x.Pulls, x.MorePulls = newest(s.pulls.Pulls())
	return x
}

// webURL is the base URL of the sandbox as the client of c knows it.
func (s *Sandbox) webURL(c *api.Call) string {
	if s.isPublic(c.Host) {
		return strings.TrimSuffix(s.config.Agent.PublicURL, "/")
	}
	return "http://" + c.Host
}

// Exports returns the lines that set docgauge's variables in a shell for the sandbox at url,
// the key last.
func (s *Sandbox) Exports(url string) []string {
	return s.exports(url, cmp.Or(s.config.Agent.Pulls.Token, AnyToken), s.config.APIKey)
}

// exports leaves out a token and a key that are not to be shown.
func (s *Sandbox) exports(url, token, key string) (lines []string) {
	github := url + GitHubPath
	if r := s.config.Agent.Repo; r != nil && r.CodeHost != "" { // pull requests are there
		github, token = "", ""
	}
	for _, v := range [][2]string{
		{"BASE_URL", url}, {"PROJECTS", strings.Join(s.config.Projects, ",")}, {"GITHUB_URL", github},
		{"GITHUB_TOKEN", token}, {"API_KEY", key},
	} {
		if v[1] != "" {
			lines = append(lines, "export DOCGAUGE_"+v[0]+"="+v[1])
		}
	}
	return lines
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
	if s.log != nil {
		if logged, _, err := s.log.Read(s.config.Projects[0]); err != nil || logged != nil {
			return "Its visitors come from the event log " + traffic.EventLogName + "."
		}
	}
	first, _ := s.projects[s.config.Projects[0]].synthetic.Bounds()
	return fmt.Sprintf("Its visitors are made up: %s of traffic (%s) on %s, with seed %d.",
		format.Plural(int(analytics.DateOf(s.config.Now())-first), "day"), s.config.Scenario,
		format.Plural(s.config.Pages, "page"), s.config.Seed)
}
