package runner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
)

const (
	// hostTimeout is for one request.
	hostTimeout = 30 * time.Second
	// maxResponse is the most bytes of a response that are read.
	maxResponse = 8 << 20
	// maxHostMessage is the maximum length of a message of a code host in an error.
	maxHostMessage = 300
	// proposals is the number of attempts to find or open a pull request. The pause after the first is
	// firstPause, and grows; after a host asked for more than maxPause there is no other attempt.
	proposals  = 4
	firstPause = 2 * time.Second
	maxPause   = 2 * time.Minute
)

// codeHost opens pull requests of one project.
type codeHost struct {
	analytics.CodeHost
	dialect
	project string
	api     *url.URL
	token   func() (string, error) // called for each request: it may change
	client  *http.Client
}

// dialect is what one kind of code host does in its own way.
type dialect struct {
	groups bool   // a project can be in a group of a group
	user   string // for git over HTTPS, with the token as password
	root   func(project string) string
	// find returns the link of the pull request that p asks for, empty without one, and open opens it.
	find, open func(ctx context.Context, h *codeHost, p proposal) (link string, err error)
	// rights returns why the token cannot open pull requests, as far as the host says.
	rights func(ctx context.Context, h *codeHost) error
}

// dialects are those of all kinds. The requests and responses are those of the hosts' documentation:
//
//	https://docs.github.com/rest/pulls/pulls                            list, create
//	https://docs.gitlab.com/api/merge_requests                          list, create
//	https://docs.gitlab.com/api/projects, …/api/personal_access_tokens  rights
//	https://codeberg.org/api/swagger, Gitea's /api/swagger              repoListPullRequests, repoCreatePullRequest
var dialects = map[string]dialect{
	"github": {user: "x-access-token", root: reposRoot, find: findOnGitHub, open: openAtRepos, rights: rightsAtRepos},
	"gitlab": {groups: true, user: "oauth2", root: func(project string) string {
		return "/projects/" + url.PathEscape(project)
	}, find: findOnGitLab, open: openOnGitLab, rights: rightsOnGitLab},
	"gitea": {user: "x-access-token", root: reposRoot, find: findOnGitea, open: openAtRepos, rights: rightsAtRepos},
}

func reposRoot(project string) string { return "/repos/" + project }

// proposal is a pull request that is wanted.
type proposal struct {
	branch, base, title, body string
	// ended means that one that was merged or closed counts too.
	ended bool
	// since is before the pull request can have been opened.
	since time.Time
}

// projectPart is a part of the path of a project, between slashes.
var projectPart = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}$`)

// newCodeHost checks its arguments. No request is sent.
func newCodeHost(kind, project, apiURL string, token func() (string, error)) (*codeHost, error) {
	h := &codeHost{CodeHost: analytics.FindCodeHost(kind), dialect: dialects[kind], project: project, token: token}
	if h.Name == "" {
		return nil, fmt.Errorf("code host %.40q: want github, gitlab or gitea", kind)
	}
	parts := strings.Split(project, "/")
	if len(parts) < 2 || len(parts) > 2 && !h.groups || slices.ContainsFunc(parts, func(part string) bool {
		return !projectPart.MatchString(part) || strings.Trim(part, ".") == ""
	}) {
		return nil, fmt.Errorf("%s repository %.140q: want owner/name", h.Title, project)
	}
	var err error
	h.api, err = analytics.ParseServiceURL(strings.TrimRight(cmp.Or(apiURL, h.API), "/"), analytics.URLRules{
		Example: h.API, CredentialsIn: "the token is a setting of its own",
	})
	if err != nil {
		return nil, fmt.Errorf("%s URL: %w", h.Title, err)
	}
	// A redirect could take the token to another host.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	h.client = &http.Client{Timeout: hostTimeout, CheckRedirect: stay}
	return h, nil
}

// login returns what git needs to push over HTTPS: the beginning of the URLs it is for, and a
// user and password.
func (h *codeHost) login() (prefix, user, password string, err error) {
	password, err = h.readToken()
	return h.Web(h.api).String() + "/", h.user, password, err
}

func (h *codeHost) readToken() (string, error) {
	if h.token == nil {
		return "", fmt.Errorf("%s token: is missing", h.Title)
	}
	token, err := h.token()
	token = strings.TrimSpace(token)
	if err == nil && token == "" {
		err = errors.New("is empty")
	}
	if err != nil {
		return "", fmt.Errorf("%s token: %w", h.Title, err)
	}
	return token, nil
}

// propose opens the pull request of a branch for base, unless there is one: for a job without a
// link in any state, since a person may have ended it before its link was in the journal, else an
// open one. Where a response does not say whether it was opened, it is looked for again first, so that
// it is never opened twice: neither here nor after a crash, when propose is called again.
func (h *codeHost) propose(ctx context.Context, j Job, branch, base string) (link string, err error) {
	p := proposal{branch: branch, base: base, title: Subject(j.Prompts[0]), ended: j.PRLink == nil,
		body:  "Opened by docgauge for agent job `" + j.ID + "`.",
		since: j.CreatedAt.Add(-24 * time.Hour)} // the clock of the host may differ
	pause := firstPause
	for n := 1; ; n++ {
		link, err = h.find(ctx, h, p)
		if err == nil && link == "" {
			// After a crash from here on, find has it.
			link, err = h.open(ctx, h, p)
		}
		least, again := again(err, n)
		if err == nil || !again || clock.Sleep(ctx, max(pause, least)) != nil {
			break
		}
		pause *= 4
	}
	if err == nil && analytics.SafeLink(link) == "" {
		err = fmt.Errorf("pull request: want a link with https (html_url, web_url), got %.100q", link)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s, branch %s: %w", h.Title, h.project, branch, err)
	}
	return link, nil
}

// check returns an error if the token may not do what a job needs, as far as the host says. Nothing is
// tried.
func (h *codeHost) check(ctx context.Context) error {
	if err := h.rights(ctx, h); err != nil {
		return fmt.Errorf("%s %s: %w", h.Title, h.project, err)
	}
	return nil
}

// pullRequest is the part of a pull request that is used, on all kinds of hosts.
type pullRequest struct {
	HTMLURL string    `json:"html_url"`
	WebURL  string    `json:"web_url"` // of GitLab
	Created time.Time `json:"created_at"`
	// Gitea's label is the branch, also once that is deleted. RepoID tells forks apart.
	Head, Base struct {
		Label  string `json:"label"`
		RepoID int64  `json:"repo_id"`
	}
	// The same of GitLab.
	Source int64 `json:"source_project_id"`
	Target int64 `json:"target_project_id"`
}

func findOnGitHub(ctx context.Context, h *codeHost, p proposal) (string, error) {
	owner, _, _ := strings.Cut(h.project, "/")
	query := url.Values{"state": {"open"}, "head": {owner + ":" + p.branch}, "per_page": {"1"}}
	if p.ended {
		query.Set("state", "all")
	}
	var found []pullRequest
	_, err := h.call(ctx, http.MethodGet, h.root(h.project)+"/pulls?"+query.Encode(), nil, &found)
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0].HTMLURL, nil
}

// openAtRepos opens a pull request on GitHub or Gitea.
func openAtRepos(ctx context.Context, h *codeHost, p proposal) (string, error) {
	var opened pullRequest
	_, err := h.call(ctx, http.MethodPost, h.root(h.project)+"/pulls", map[string]any{
		"title": p.title, "head": p.branch, "base": p.base, "body": p.body}, &opened)
	return opened.HTMLURL, err
}

func findOnGitLab(ctx context.Context, h *codeHost, p proposal) (string, error) {
	query := url.Values{"state": {"opened"}, "source_branch": {p.branch}, "per_page": {"100"}}
	if p.ended {
		query.Set("state", "all")
	}
	var found []pullRequest
	_, err := h.call(ctx, http.MethodGet, h.root(h.project)+"/merge_requests?"+query.Encode(), nil, &found)
	for _, m := range found {
		if m.Source == m.Target { // others are of forks
			return m.WebURL, err
		}
	}
	return "", err
}

func openOnGitLab(ctx context.Context, h *codeHost, p proposal) (string, error) {
	var opened pullRequest
	_, err := h.call(ctx, http.MethodPost, h.root(h.project)+"/merge_requests", map[string]any{
		"title": p.title, "source_branch": p.branch, "target_branch": p.base, "description": p.body}, &opened)
	return opened.WebURL, err
}

// maxPages is the number of pages of Gitea's list that are read, of 50 pull requests each.
const maxPages = 100

// findOnGitea reads the list of pull requests, the newest first: it cannot be filtered by branch, and
// the operation repoGetPullRequestByBaseHead returns any one of several.
func findOnGitea(ctx context.Context, h *codeHost, p proposal) (string, error) {
	query := url.Values{"state": {"open"}, "limit": {"50"}}
	if p.ended {
		query.Set("state", "all")
	}
	for page := 1; page <= maxPages; page++ {
		query.Set("page", strconv.Itoa(page))
		var found []pullRequest
		header, err := h.call(ctx, http.MethodGet, h.root(h.project)+"/pulls?"+query.Encode(), nil, &found)
		if err != nil {
			return "", err
		}
		old := true
		for _, pull := range found {
			old = old && pull.Created.Before(p.since)
			if pull.Head.Label == p.branch && pull.Head.RepoID == pull.Base.RepoID {
				return pull.HTMLURL, nil
			}
		}
		if old || !strings.Contains(header.Get("Link"), `rel="next"`) {
			return "", nil
		}
	}
	return "", fmt.Errorf("more than %d pull requests are newer than the job: cannot tell whether it has one", 50*maxPages)
}

var errNoWrite = errors.New("the token may not write: want read and write access to the repository and pull requests")

// rightsAtRepos is for GitHub and Gitea.
func rightsAtRepos(ctx context.Context, h *codeHost) error {
	var repository struct {
		Permissions struct{ Push bool }
		Archived    bool
		Pulls       *bool `json:"has_pull_requests"`
	}
	_, err := h.call(ctx, http.MethodGet, h.root(h.project), nil, &repository)
	switch {
	case err != nil:
		return err
	case repository.Archived:
		return errors.New("is archived; want a repository that takes pull requests")
	case repository.Pulls != nil && !*repository.Pulls:
		return errors.New("has pull requests switched off; allow them in the settings of the repository")
	case !repository.Permissions.Push:
		return errNoWrite
	}
	return nil
}

// developer is the level of access to a project of GitLab at which branches may be pushed.
const developer = 30

func rightsOnGitLab(ctx context.Context, h *codeHost) error {
	type access *struct {
		Level int `json:"access_level"`
	}
	var project struct {
		Archived    bool
		Pulls       string `json:"merge_requests_access_level"`
		MayOpen     *bool  `json:"can_create_merge_request_in"`
		Permissions struct {
			Project access `json:"project_access"`
			Group   access `json:"group_access"`
		}
	}
	if _, err := h.call(ctx, http.MethodGet, h.root(h.project), nil, &project); err != nil {
		return err
	}
	level, said := 0, false // a member of an invited group has none
	for _, a := range []access{project.Permissions.Project, project.Permissions.Group} {
		if a != nil {
			level, said = max(level, a.Level), true
		}
	}
	switch {
	case project.Archived:
		return errors.New("is archived; want a project that takes merge requests")
	case project.Pulls == "disabled":
		return errors.New("has merge requests switched off; allow them in the settings of the project")
	case project.MayOpen != nil && !*project.MayOpen, said && level < developer:
		return errNoWrite
	}
	// Not every kind of token can be asked about itself.
	var token struct{ Scopes []string }
	if _, err := h.call(ctx, http.MethodGet, "/personal_access_tokens/self", nil, &token); err == nil &&
		!slices.Contains(token.Scopes, "api") {
		return fmt.Errorf("the token has the scopes %.100q; want api, which opens merge requests", token.Scopes)
	}
	return nil
}

// responseError is a response that is not a success, or cannot be understood.
type responseError struct {
	status  int
	message string
	pause   time.Duration // that the host asks for
}

func (e responseError) Error() string {
	return fmt.Sprintf("status %d %s: %s", e.status, http.StatusText(e.status), e.message)
}

// again reports whether to try again after the nth attempt ended with err, and the pause that the host
// asks for: it was not reached, did not finish, or has too much to do. One more attempt finds what it says
// is there already.
func again(err error, n int) (pause time.Duration, yes bool) {
	response, ok := errors.AsType[responseError](err)
	if !ok {
		_, sent := errors.AsType[*url.Error](err)
		return 0, sent && n < proposals
	}
	switch status := response.status; {
	case status == http.StatusConflict, status == http.StatusUnprocessableEntity:
		return 0, n == 1
	case status < 300, status >= 500, status == http.StatusTooManyRequests, response.pause > 0:
		return response.pause, n < proposals && response.pause <= maxPause
	}
	return 0, false
}

// call sends a request with a path below the API and decodes the response into out.
func (h *codeHost) call(ctx context.Context, method, path string, body, out any) (http.Header, error) {
	token, err := h.readToken()
	if err != nil {
		return nil, err
	}
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, h.api.String()+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "docgauge")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if h.Name == "github" {
		r.Header.Set("Accept", "application/vnd.github+json")
		r.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	}
	resp, err := h.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	failed := responseError{status: resp.StatusCode}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		failed.pause = time.Duration(min(seconds, int(24*time.Hour/time.Second))) * time.Second
	}
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		message := strings.ReplaceAll(errorMessage(resp, text), token, "[redacted]")
		if len(message) > maxHostMessage {
			message = strings.ToValidUTF8(message[:maxHostMessage], "") + "…"
		}
		failed.message = message + remedies[resp.StatusCode]
	case err != nil:
		failed.message = "the response broke off: " + err.Error()
	case len(text) > maxResponse || json.Unmarshal(text, out) != nil:
		failed.message = "the response is not of " + h.Title + "'s API; is the URL right, or is a proxy in the way?"
	default:
		return resp.Header, nil
	}
	return nil, failed
}

// remedies are what to do about a status.
var remedies = map[int]string{
	http.StatusUnauthorized: "; the token is wrong, expired or revoked: replace it",
	http.StatusForbidden:    "; want a token with read and write access to the repository and pull requests",
	http.StatusNotFound:     "; want the path of the repository and a token that may read it",
}

// errorMessage returns the message of a response that is not a success.
func errorMessage(resp *http.Response, text []byte) string {
	if resp.StatusCode < 400 && resp.Header.Get("Location") != "" {
		return "the repository or the API has moved; redirects are not followed"
	}
	var answer struct {
		Message     any    // of GitLab also a list, or lists by field
		Error       string // of GitLab
		Description string `json:"error_description"`
		Errors      any    // of GitHub objects with a message
	}
	_ = json.Unmarshal(text, &answer) // what there is of them
	said := slices.Concat(sentences(answer.Message), sentences(answer.Error), sentences(answer.Description),
		sentences(answer.Errors))
	if len(said) == 0 {
		return "without a message"
	}
	return strings.Join(said, "; ")
}

// sentences returns the texts in the message of an error.
func sentences(message any) (all []string) {
	switch m := message.(type) {
	case string:
		if m != "" {
			all = append(all, m)
		}
	case []any:
		for _, one := range m {
			all = append(all, sentences(one)...)
		}
	case map[string]any:
		if text, ok := m["message"]; ok {
			return sentences(text)
		}
		for _, field := range slices.Sorted(maps.Keys(m)) {
			for _, text := range sentences(m[field]) {
				all = append(all, field+" "+text)
			}
		}
	}
	return all
}
