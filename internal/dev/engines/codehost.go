package engines

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/codehost"
)

// Pull is a pull request on a CodeHost.
type Pull struct {
	Number                    int
	Branch, Base, Title, Body string
	State                     string // open, closed or merged
	Fork                      bool   // its branch is in a fork
	Created                   time.Time
}

// CodeHost is a server with one project that behaves as GitHub, GitLab and Gitea document it, as far as docgauge
// pushes branches and opens pull requests there. A test decides which responses are lost, late or wrong.
type CodeHost struct {
	Kind    codehost.Host
	Project string
	Token   string // others get 401
	// Prefix is the path before the API, Web the address of its pages.
	Prefix, Web string
	// ReadOnly is a token that may read only; with Private, the token does not even see the project.
	ReadOnly, Private bool
	// PerPage is the most entries of a list at once, 0 = 50.
	PerPage int
	// Fault, if set, is called before a request has its effect and, unless it returns true for that, after it,
	// before the response: true means that it answered.
	Fault func(w http.ResponseWriter, r *http.Request, effect bool) bool

	mu    sync.Mutex
	pulls []Pull
	asked []string
}

// NewCodeHost returns a server of a kind: github, gitlab or gitea.
func NewCodeHost(kind, project, token string) *CodeHost {
	h := codehost.Find(kind)
	return &CodeHost{Kind: h, Project: project, Token: token, Prefix: h.Suffix, Web: "https://git.example"}
}

// Add adds a pull request, with the next number.
func (s *CodeHost) Add(p Pull) Pull {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(p)
}

func (s *CodeHost) add(p Pull) Pull {
	p.Number = len(s.pulls) + 1
	if p.State == "" {
		p.State = "open"
	}
	if p.Created.IsZero() {
		p.Created = time.Now()
	}
	s.pulls = append(s.pulls, p)
	return p
}

// Merge marks a pull request as merged.
func (s *CodeHost) Merge(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulls[number-1].State = "merged"
}

// Pulls returns all pull requests, in the order in which they were opened.
func (s *CodeHost) Pulls() []Pull {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pulls)
}

// Asked returns the methods of the requests since the last call.
func (s *CodeHost) Asked() (methods []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	methods, s.asked = s.asked, nil
	return methods
}

// Link returns that of a pull request.
func (s *CodeHost) Link(number int) string {
	form := map[string]string{"github": "%s/%s/pull/%d", "gitea": "%s/%s/pulls/%d",
		"gitlab": "%s/%s/-/merge_requests/%d"}[s.Kind.Name]
	return fmt.Sprintf(form, s.Web, s.Project, number)
}

// RoundTrip answers a request without a network. A handler that panics with http.ErrAbortHandler drops the
// connection.
func (s *CodeHost) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			resp, err = nil, fmt.Errorf("%s: connection reset", s.Kind.Title)
		default:
			panic(p)
		}
	}()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

// ServeHTTP answers a request to the API.
func (s *CodeHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method)
	s.mu.Unlock()
	if s.Fault != nil && s.Fault(w, r, false) {
		return
	}
	status, header, answer := s.answer(r)
	if s.Fault != nil && s.Fault(w, r, true) {
		return
	}
	for name, value := range header {
		w.Header().Set(name, value)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

// GitServer returns a handler of git over HTTP for the repositories below root, for those who send that
// authorization.
func GitServer(root, authorization string) (http.Handler, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	backend := &cgi.Handler{Path: program, Args: []string{"http-backend"}, Env: []string{
		"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=agent", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != authorization {
			http.Error(w, "who are you?", http.StatusForbidden)
			return
		}
		backend.ServeHTTP(w, r)
	}), nil
}

type object map[string]any

func (s *CodeHost) answer(r *http.Request) (status int, header map[string]string, answer any) {
	refuse := func(status int, texts map[string]string) (int, map[string]string, any) {
		var message any = texts[s.Kind.Name]
		if s.Kind.Name == "gitlab" && status == http.StatusConflict {
			message = []string{texts["gitlab"]}
		}
		return status, nil, object{"message": message}
	}
	if r.Header.Get("Authorization") != "Bearer "+s.Token {
		return refuse(http.StatusUnauthorized, map[string]string{"github": "Bad credentials", "gitlab": "401 Unauthorized",
			"gitea": "user does not exist [uid: 0, name: ]"})
	}
	notFound := map[string]string{"github": "Not Found", "gitlab": "404 Project Not Found",
		"gitea": "The target couldn't be found."}
	root, list := "/repos/"+s.Project, "/pulls"
	if s.Kind.Name == "gitlab" {
		root, list = "/projects/"+url.PathEscape(s.Project), "/merge_requests"
		if r.URL.Path == s.Prefix+"/personal_access_tokens/self" {
			scopes := []string{"api"}
			if s.ReadOnly {
				scopes = []string{"read_api", "read_repository"}
			}
			return http.StatusOK, nil, object{"scopes": scopes, "active": true, "revoked": false}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch path := r.URL.EscapedPath(); {
	case s.Private:
		return refuse(http.StatusNotFound, notFound)
	case path == s.Prefix+root && r.Method == http.MethodGet:
		return http.StatusOK, nil, s.shownProject()
	case r.Method == http.MethodGet && strings.HasPrefix(path, s.Prefix+root+list+"/"):
		return s.one(strings.TrimPrefix(path, s.Prefix+root+list+"/"))
	case r.Method == http.MethodGet && strings.HasPrefix(path, s.Prefix+root+"/issues/"):
		return http.StatusOK, nil, []object{} // its events
	case path != s.Prefix+root+list:
		return refuse(http.StatusNotFound, notFound)
	case r.Method == http.MethodGet:
		return s.list(r.URL.Query())
	case r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, nil, object{}
	case s.ReadOnly:
		return refuse(http.StatusForbidden, map[string]string{"github": "Resource not accessible by personal access token",
			"gitlab": "403 Forbidden", "gitea": "token does not have at least one of required scope(s): [write:repository]"})
	}
	var body struct {
		Title, Head, Base, Body string
		Source                  string `json:"source_branch"`
		Target                  string `json:"target_branch"`
		Description             string
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Title == "" {
		return http.StatusBadRequest, nil, object{"error": "title is missing"}
	}
	p := Pull{Branch: body.Head, Base: body.Base, Title: body.Title, Body: body.Body}
	if s.Kind.Name == "gitlab" {
		p = Pull{Branch: body.Source, Base: body.Target, Title: body.Title, Body: body.Description}
	}
	for _, other := range s.pulls {
		if other.State == "open" && !other.Fork && other.Branch == p.Branch && other.Base == p.Base {
			if s.Kind.Name == "github" {
				return http.StatusUnprocessableEntity, nil, object{"message": "Validation Failed", "errors": []object{
					{"resource": "PullRequest", "code": "custom",
						"message": "A pull request already exists for " + p.Branch + "."}}}
			}
			return refuse(http.StatusConflict, map[string]string{
				"gitlab": "Another open merge request already exists for this source branch: !" + strconv.Itoa(other.Number),
				"gitea":  "pull request already exists for these targets [id: 1, issue_id: " + strconv.Itoa(other.Number) + "]"})
		}
	}
	return http.StatusCreated, nil, s.shown(s.add(p))
}

func (s *CodeHost) shownProject() object {
	if s.Kind.Name == "gitlab" {
		return object{"archived": false, "merge_requests_access_level": "enabled", "can_create_merge_request_in": true,
			"permissions": object{"project_access": nil, "group_access": object{"access_level": 30}}}
	}
	return object{"archived": false, "has_pull_requests": true,
		"permissions": object{"admin": false, "pull": true, "push": !s.ReadOnly}}
}

// shown is a pull request in the form of the host.
func (s *CodeHost) shown(p Pull) object {
	state, repository := p.State, 1
	if p.Fork {
		repository = 2
	}
	shown := object{"number": p.Number, "title": p.Title, "created_at": p.Created.UTC().Format(time.RFC3339)}
	switch s.Kind.Name {
	case "gitlab":
		if state == "open" {
			state = "opened"
		}
		shown["iid"], shown["web_url"], shown["source_branch"] = p.Number, s.Link(p.Number), p.Branch
		shown["source_project_id"], shown["target_project_id"] = repository, 1
	default:
		if state == "merged" {
			state = "closed"
		}
		shown["html_url"] = s.Link(p.Number)
		// The branch of a merged one is deleted: then Gitea's ref is another.
		shown["head"] = object{"label": p.Branch, "ref": fmt.Sprintf("refs/pull/%d/head", p.Number), "repo_id": repository}
		shown["base"] = object{"label": p.Base, "ref": p.Base, "repo_id": 1}
	}
	shown["state"] = state
	return shown
}

// one is a pull request, or a list about it, which is empty: only GitHub's are read.
func (s *CodeHost) one(path string) (status int, header map[string]string, answer any) {
	number, about, _ := strings.Cut(path, "/")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 1 || n > len(s.pulls):
		return http.StatusNotFound, nil, object{"message": "Not Found"}
	case about != "":
		return http.StatusOK, nil, []object{}
	}
	p := s.shown(s.pulls[n-1])
	p["head"].(object)["sha"] = "head"
	if s.pulls[n-1].State == "merged" {
		p["merged_at"], p["merge_commit_sha"] = p["created_at"], "merge"
	}
	return http.StatusOK, nil, p
}

// list is a page of the pull requests that a query asks for, the newest first.
func (s *CodeHost) list(query url.Values) (status int, header map[string]string, answer any) {
	owner, _, _ := strings.Cut(s.Project, "/")
	found := []object{}
	for _, p := range slices.Backward(s.pulls) {
		wanted := true
		switch s.Kind.Name {
		case "github":
			wanted = !p.Fork && query.Get("head") == owner+":"+p.Branch
		case "gitlab":
			wanted = query.Get("source_branch") == p.Branch
		}
		if state := query.Get("state"); wanted && (state == "all" || p.State == "open") {
			found = append(found, s.shown(p))
		}
	}
	most := 50
	if s.PerPage > 0 {
		most = s.PerPage
	}
	page, _ := strconv.Atoi(query.Get("page"))
	from := min(max(page-1, 0)*most, len(found))
	to := min(from+most, len(found))
	if to < len(found) {
		header = map[string]string{"Link": `<https://git.example/next>; rel="next",<https://git.example/last>; rel="last"`}
	}
	return http.StatusOK, header, found[from:to]
}
