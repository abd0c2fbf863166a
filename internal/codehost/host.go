package codehost

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Host is a kind of server with repositories and pull requests, and what it does in its own way. The requests
// and responses are as in the hosts' documentation:
//
//	https://docs.github.com/rest/pulls/pulls, …/rest/issues/labels      get, list, create, update; add labels
//	https://docs.gitlab.com/api/merge_requests                          get, list, create, update
//	https://docs.gitlab.com/api/projects, …/api/personal_access_tokens  rights
//	https://codeberg.org/api/swagger, Gitea's /api/swagger              repoListPullRequests, repoCreatePullRequest,
//	                                                                    repoEditPullRequest, issueAddLabel
type Host struct {
	// Name is for settings and records, Title for people.
	Name, Title string
	// API is the URL of the REST API of the public server, Suffix the end of other servers' URLs.
	API, Suffix string

	groups bool           // a project can be in a group of a group
	user   string         // for git over HTTPS, with the token as password
	link   *regexp.Regexp // the path of the links of pull requests: repository, number
	accept string         // the media type of the answers
	quota  string         // the beginning of the headers that say what is left of the token's quota
	// pageSize asks for as many entries of a list as the host gives at once. perPage is that number, 0 if a server
	// can be set to fewer: then only its answers say whether another page follows.
	pageSize string
	perPage  int
	root     func(repository string) string
	file     func(path string) string // below the root
	read     func(*reading, context.Context) error
	// pulls is the path of pull requests, below the root. search lists the open ones, of a branch if the host can
	// tell: Gitea cannot, and its operation repoGetPullRequestByBaseHead returns any one of several. isOf reports
	// whether a listed pull request has that branch here, not in a fork. The other fields name parts of a pull request to
	// open.
	pulls              string
	search             func(project, branch string) url.Values
	isOf               func(l listed, branch string) bool
	branch, base, body string
	// change is the method that changes one, with the same names. A title that begins with draft makes a draft; where it
	// is empty, a field does. labels is the path of the labels of one; empty: they are a field when it is opened.
	change, draft, labels string
	// rights returns why the token cannot open pull requests, as far as the host says.
	rights func(ctx context.Context, o *Opener) error
}

// Hosts are the kinds whose pull requests are opened and read. Forgejo, at codeberg.org for one,
// has the API of Gitea.
var Hosts = []Host{
	{
		Name: gitHub, Title: "GitHub", API: "https://api.github.com", Suffix: "/api/v3",
		user: "x-access-token", accept: "application/vnd.github+json", quota: "X-Ratelimit-",
		pageSize: "per_page=100", perPage: 100,
		link: regexp.MustCompile(`^/([A-Za-z0-9][\w.-]*/[\w.-]+)/pull/([1-9]\d{0,9})(?:/.*)?$`),
		root: reposRoot, file: reposFile, read: (*reading).readAtRepos, rights: rightsAtRepos,
		pulls: "/pulls", branch: "head", base: "base", body: "body", change: http.MethodPatch, labels: "/issues/%d/labels",
		search: func(project, branch string) url.Values {
			owner, _, _ := strings.Cut(project, "/")
			return url.Values{"state": {"open"}, "head": {owner + ":" + branch}, "per_page": {"1"}}
		},
		isOf: func(listed, string) bool { return true },
	},
	{
		Name: gitLab, Title: "GitLab", API: "https://gitlab.com/api/v4", Suffix: "/api/v4",
		groups: true, user: "oauth2", accept: "application/json", quota: "Ratelimit-",
		pageSize: "per_page=100", perPage: 100,
		link: regexp.MustCompile(`^/([A-Za-z0-9_][\w.-]*(?:/[\w.-]+)+?)(?:/-)?/merge_requests/([1-9]\d{0,9})(?:/.*)?$`),
		root: func(project string) string { return "/projects/" + url.PathEscape(project) },
		file: func(path string) string { return "/repository/files/" + url.PathEscape(path) },
		read: (*reading).readGitLab, rights: rightsOnGitLab,
		pulls: "/merge_requests", branch: "source_branch", base: "target_branch", body: "description",
		change: http.MethodPut, draft: "Draft: ",
		search: func(_, branch string) url.Values {
			return url.Values{"state": {"opened"}, "source_branch": {branch}, "per_page": {"100"}}
		},
		isOf: func(l listed, _ string) bool { return l.Source == l.Target },
	},
	{
		Name: gitea, Title: "Gitea", API: "https://codeberg.org/api/v1", Suffix: "/api/v1",
		user: "x-access-token", accept: "application/json", quota: "X-Ratelimit-", pageSize: "limit=50",
		link: regexp.MustCompile(`^/([\w.-]+/[\w.-]+)/pulls/([1-9]\d{0,9})(?:/.*)?$`),
		root: reposRoot, file: reposFile, read: (*reading).readAtRepos, rights: rightsAtRepos,
		pulls: "/pulls", branch: "head", base: "base", body: "body", change: http.MethodPatch, draft: "WIP: ",
		labels: "/issues/%d/labels",
		search: func(string, string) url.Values { return url.Values{"state": {"open"}, "limit": {"50"}} },
		isOf: func(l listed, branch string) bool {
			return l.Head.Label == branch && l.Head.RepoID == l.Base.RepoID
		},
	},
}

const (
	gitHub = "github"
	gitLab = "gitlab"
	gitea  = "gitea"
)

// Find returns the host with this name, or the zero value for an unknown name.
func Find(name string) Host {
	for _, h := range Hosts {
		if h.Name == name {
			return h
		}
	}
	return Host{}
}

// Web returns the URL below which a server has its repositories and pages, without a slash at the end:
// the URL of its API without the suffix, or without api. before the host.
func (h Host) Web(api *url.URL) *url.URL {
	web := &url.URL{Scheme: api.Scheme, Host: strings.ToLower(api.Host)}
	path := strings.TrimRight(api.Path, "/")
	if path == "" {
		web.Host = strings.TrimPrefix(web.Host, "api.")
	}
	if before, within := strings.CutSuffix(path, h.Suffix); within {
		web.Path = before
	}
	return web
}

func reposRoot(project string) string { return "/repos/" + project }
func reposFile(path string) string    { return "/contents/" + (&url.URL{Path: path}).EscapedPath() }

// server is a host at an address.
type server struct {
	Host
	api, web  *url.URL
	token     func() (string, error) // called before each use: it may change; nil = none
	client    *http.Client
	userAgent string
	now       func() time.Time

	// Fields used only by Client.
	setting string // DOCGAUGE_GITHUB
	mu      sync.Mutex
	pace    pace
}

const (
	requestTimeout = 30 * time.Second
	dialTimeout    = 10 * time.Second
	idleTimeout    = 90 * time.Second
	// maxAnswer is far more than a hundred files with their changes.
	maxAnswer = 32 << 20
)

// newServer checks the URL of the API; empty means the public server. No request is sent.
func newServer(
	h Host, apiURL string, rules analytics.URLRules, token func() (string, error), client *http.Client,
) (*server, error) {
	api, err := analytics.ParseServiceURL(cmp.Or(apiURL, h.API), rules)
	if err != nil {
		return nil, err
	}
	api.Path, api.RawPath = strings.TrimRight(api.Path, "/"), ""
	return &server{Host: h, api: api, web: h.Web(api), token: token, client: client, userAgent: "docgauge",
		now: time.Now}, nil
}

func newHTTPClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSHandshakeTimeout: dialTimeout,
			IdleConnTimeout:     idleTimeout,
			ForceAttemptHTTP2:   true,
		}
	}
	return &http.Client{
		Transport: transport, Timeout: requestTimeout,
		// A redirect could take the token to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// request returns a request for a path below the API. A body is sent as JSON.
func (s *server) request(ctx context.Context, method, path, token string, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.api.String()+path, content)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", s.accept)
	r.Header.Set("User-Agent", s.userAgent)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.Name == gitHub {
		r.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	}
	return r, nil
}

// decode reads an answer into v. ok is false if it is not of the API; err says that it broke off.
func decode(resp *http.Response, v any) (ok bool, err error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	return err == nil && len(text) <= maxAnswer && json.Unmarshal(text, v) == nil, err
}

// hasNext reports whether an answer says that its list has another page.
func hasNext(header http.Header) bool { return strings.Contains(header.Get("Link"), `rel="next"`) }

// retryAfter returns the pause that an answer asks for, at most most; ok is false without one.
func retryAfter(resp *http.Response, most time.Duration) (pause time.Duration, ok bool) {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	return time.Duration(min(max(seconds, 0), int(most/time.Second))) * time.Second, err == nil
}
