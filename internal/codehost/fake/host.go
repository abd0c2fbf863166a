package fake

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	slashpath "path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/format"
)

// maxAsked is the most requests that Asked remembers, so that a host that runs for long takes little memory.
const maxAsked = 1 << 16

// DefaultLimit is GitHub's number of requests in an hour with a token.
const DefaultLimit = 5000

// Host answers requests to the API of a code host about the pull requests of a Store. Its methods are safe for
// concurrent use; its fields are set before the first request.
type Host struct {
	*Store
	Kind codehost.Host
	// Project is the path of a project that is there without pull requests too: owner/name.
	Project string
	// Token is what clients need: another is refused, and without one nothing is found. Empty = none is needed.
	Token string
	// Prefix is the path before the API, Web the URL of the pages, without a slash at the end.
	Prefix, Web string
	// ReadOnly is a token that may read the repository alone.
	ReadOnly bool
	// PerPage is the most entries of a list at once, 0 = what the kind of host has.
	PerPage int
	// Limit is the number of requests that GitHub answers in an hour, 0 = DefaultLimit.
	Limit int
	// File returns a file of the repository at a commit, and false if the commit lacks it. Default: no file exists.
	File func(ctx context.Context, commit, path string) ([]byte, bool, error)
	// Fault, if set, is called before a request has its effect and, unless it returns true for that, after it,
	// before the response: true means that it answered.
	Fault func(w http.ResponseWriter, r *http.Request, effect bool) bool

	mux *http.ServeMux

	mu    sync.Mutex
	asked []string
	used  int
	reset time.Time // when used becomes 0
}

// NewHost returns a host of a kind, github, gitlab or gitea, with its pull requests in memory.
func NewHost(kind, project, token string) *Host {
	store, _ := OpenStore("", time.Now) // nothing is opened
	h := &Host{Kind: codehost.Find(kind), Project: project, Token: token, Web: "https://git.example"}
	h.Prefix = h.Kind.Suffix
	return h.Over(store)
}

// Over returns h over the pull requests of another store.
func (h *Host) Over(store *Store) *Host {
	h.Store, h.mux = store, http.NewServeMux()
	routes := reposRoutes(h.Kind.Name)
	if h.Kind.Name == gitLab {
		routes = gitlabRoutes
	}
	for pattern, find := range routes {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { h.respond(w, r, find) })
	}
	h.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { h.refuse(w, errNotFound) })
	return h
}

const (
	gitHub = "github"
	gitLab = "gitlab"
	gitea  = "gitea"
)

// Asked returns the methods of the requests since the last call.
func (h *Host) Asked() (methods []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	methods, h.asked = h.asked, nil
	return methods
}

// GitAuthorization returns the header with which git sends the token.
func (h *Host) GitAuthorization() string {
	user := map[string]string{gitHub: "x-access-token", gitea: "x-access-token", gitLab: "oauth2"}[h.Kind.Name]
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+h.Token))
}

// Link returns the link of a pull request of Project.
func (h *Host) Link(number int) string { return h.Web + "/" + h.Project + h.linkPath(number) }

func (h *Host) linkPath(number int) string {
	form := map[string]string{gitHub: "/pull/%d", gitea: "/pulls/%d", gitLab: "/-/merge_requests/%d"}[h.Kind.Name]
	return fmt.Sprintf(form, number)
}

// ServeHTTP answers a request to the API, whose path begins with Prefix.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.ServeAt(w, r, h.Web) }

// ServeAt is ServeHTTP with links to pages at the URL web.
func (h *Host) ServeAt(w http.ResponseWriter, r *http.Request, web string) {
	h.mu.Lock()
	if len(h.asked) < maxAsked {
		h.asked = append(h.asked, r.Method)
	}
	h.mu.Unlock()
	w.Header().Set("Date", h.now().UTC().Format(http.TimeFormat))
	if h.Fault != nil && h.Fault(w, r, false) {
		return
	}
	inner := r.WithContext(context.WithValue(r.Context(), webKey{}, web))
	// A GitHub Enterprise Server has a path before its API, which its clients add.
	below := func(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, h.Prefix), h.Kind.Suffix) }
	inner.URL = &url.URL{Path: below(r.URL.Path), RawPath: below(r.URL.EscapedPath()), RawQuery: r.URL.RawQuery}
	answer := httptest.NewRecorder()
	if refused := h.admit(answer, inner); refused != nil {
		h.refuse(answer, refused)
	} else if !strings.HasPrefix(r.URL.Path, h.Prefix) || slashpath.Clean(inner.URL.Path) != inner.URL.Path {
		// Of the second, the mux would redirect.
		h.refuse(answer, errNotFound)
	} else {
		h.mux.ServeHTTP(answer, inner)
	}
	if h.Fault != nil && h.Fault(w, r, true) {
		return
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // the client may be gone
}

type webKey struct{}

// RoundTrip answers a request without a network. A Fault that panics with http.ErrAbortHandler drops the connection.
func (h *Host) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			resp, err = nil, fmt.Errorf("%s: connection reset", h.Kind.Title)
		default:
			panic(p)
		}
	}()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// refusal is an error response; without a message it is what the kind of host says.
type refusal struct {
	status  int
	message any
	errors  []object
}

func (r *refusal) Error() string { return http.StatusText(r.status) }

var (
	errNotFound  = &refusal{status: http.StatusNotFound}
	errToken     = &refusal{status: http.StatusUnauthorized}
	errForbidden = &refusal{status: http.StatusForbidden}
	errLimit     = &refusal{status: http.StatusForbidden, message: "API rate limit exceeded for the docgauge sandbox."}
	errInternal  = &refusal{status: http.StatusInternalServerError, message: "Server Error"}

	messages = map[int]map[string]string{
		http.StatusUnauthorized: {gitHub: "Bad credentials", gitLab: "401 Unauthorized",
			gitea: "user does not exist [uid: 0, name: ]"},
		http.StatusForbidden: {gitHub: "Resource not accessible by personal access token", gitLab: "403 Forbidden",
			gitea: "token does not have at least one of required scope(s): [write:repository]"},
		http.StatusNotFound: {gitHub: "Not Found", gitLab: "404 Project Not Found",
			gitea: "The target couldn't be found."},
	}
)

func (h *Host) refuse(w http.ResponseWriter, r *refusal) {
	o := object{"message": r.message}
	if r.message == nil {
		o["message"] = messages[r.status][h.Kind.Name]
	}
	if r.errors != nil {
		o["errors"] = r.errors
	}
	h.write(w, r.status, o)
}

func (h *Host) write(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		status, body = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body) // to memory
}

// admit checks the token, and the limit: a request over the limit is refused.
func (h *Host) admit(w http.ResponseWriter, r *http.Request) *refusal {
	if h.Token != "" {
		header := r.Header.Get("Authorization")
		_, token, _ := strings.Cut(header, " ")
		switch {
		case header == "":
			return errNotFound
		case subtle.ConstantTimeCompare([]byte(token), []byte(h.Token)) == 0:
			return errToken
		}
	}
	if h.use(w, 0) <= 0 {
		return errLimit
	}
	return nil
}

// use counts n requests, sets the headers about the limit, and returns the number left. GitHub alone has one here.
func (h *Host) use(w http.ResponseWriter, n int) (left int) {
	if h.Kind.Name != gitHub {
		return 1
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.now(); !now.Before(h.reset) {
		h.used, h.reset = 0, now.Add(time.Hour)
	}
	h.used += n
	limit := cmp.Or(h.Limit, DefaultLimit)
	left = max(0, limit-h.used)
	for name, value := range map[string]int64{
		"Limit": int64(limit), "Used": int64(h.used), "Remaining": int64(left), "Reset": h.reset.Unix(),
	} {
		w.Header().Set("X-RateLimit-"+name, strconv.FormatInt(value, 10))
	}
	w.Header().Set("X-RateLimit-Resource", "core")
	return left
}

// query is a request about one repository.
type query struct {
	*http.Request
	host      *Host
	web, slug string
	header    http.Header // of the response
}

// respond sends the value that find returns, unless the client already has it.
func (h *Host) respond(w http.ResponseWriter, r *http.Request, find func(*query) (any, error)) {
	q := &query{Request: r, host: h, slug: r.PathValue("project"), header: w.Header()}
	if q.slug == "" {
		q.slug = r.PathValue("owner") + "/" + r.PathValue("repo")
	}
	q.web, _ = r.Context().Value(webKey{}).(string)
	var value any
	var body []byte
	err := error(errNotFound)
	if q.isThere() || r.Pattern == tokenSelf {
		value, err = find(q)
	}
	if err == nil {
		body, err = json.Marshal(value)
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		h.use(w, 1)
		h.refuse(w, refused)
		return
	} else if err != nil {
		h.refuse(w, errInternal)
		return
	}
	status := http.StatusOK
	if r.Method == http.MethodPost {
		status = http.StatusCreated
	} else if h.Kind.Name != gitea { // it has no ETags
		tag := fmt.Sprintf(`W/"%x"`, sha256.Sum256(body))
		w.Header().Set("ETag", tag)
		w.Header().Set("Cache-Control", "private, max-age=60, s-maxage=60")
		if matches(r.Header.Values("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.use(w, 1)
	h.write(w, status, json.RawMessage(body))
}

// matches reports whether one of the tags of a client is tag.
func matches(headers []string, tag string) bool {
	plain := func(t string) string { return strings.TrimPrefix(t, "W/") }
	for _, header := range headers {
		for _, one := range format.List(header) {
			if plain(one) == plain(tag) || plain(one) == "*" {
				return true
			}
		}
	}
	return false
}

// pulls goes through the pull requests of the repository, the newest first.
func (q *query) pulls() iter.Seq[Pull] {
	return func(yield func(Pull) bool) {
		for pr := range q.host.newest() {
			if q.has(pr) && !yield(pr) {
				return
			}
		}
	}
}

func (q *query) has(pr Pull) bool { return strings.EqualFold(q.repository(pr), q.slug) }

// repository is the owner/name of a pull request.
func (q *query) repository(pr Pull) string {
	if pr.Repository == "" {
		return q.host.Project
	}
	return pr.slug()
}

// isThere reports whether the repository is there: the project of the host, or one with a pull request.
func (q *query) isThere() bool {
	if strings.EqualFold(q.slug, q.host.Project) {
		return true
	}
	for range q.pulls() {
		return true
	}
	return false
}

// pull returns the pull request that q names.
func (q *query) pull() (Pull, error) {
	if pr, ok := q.host.Pull(q.PathValue("number")); ok && q.has(pr) {
		return pr, nil
	}
	return Pull{}, errNotFound
}

// ofPull answers with what is made of the pull request that q names.
func ofPull[T any](find func(*query, Pull) T) func(*query) (any, error) {
	return func(q *query) (any, error) {
		pr, err := q.pull()
		if err != nil {
			return nil, err
		}
		return find(q, pr), nil
	}
}

// ofList is ofPull for a list.
func ofList(find func(*query, Pull) []object) func(*query) (any, error) {
	return ofPull(func(q *query, pr Pull) []object { return page(q, find(q, pr)) })
}

// commitOf returns the newest pull request that a commit or a branch belongs to.
func (q *query) commitOf(name string) (Pull, error) {
	for pr := range q.pulls() {
		if name != "" && slices.Contains([]string{pr.Head, pr.MergeCommit, pr.BaseCommit, pr.Branch, pr.Base,
			"refs/heads/" + pr.Branch}, name) {
			return pr, nil
		}
	}
	return Pull{}, errNotFound
}

// list is the pull requests that q asks for, the newest first: of GitHub and GitLab the ones of a branch.
func (q *query) list() (any, error) {
	absent := map[string]string{gitHub: "open", gitea: "open", gitLab: "all"}[q.host.Kind.Name]
	state, head, branch := cmp.Or(q.URL.Query().Get("state"), absent), q.URL.Query().Get("head"),
		q.URL.Query().Get("source_branch")
	found := []object{}
	for pr := range q.pulls() {
		o := q.object(pr)
		if state != "all" && o["state"] != state || branch != "" && pr.Branch != branch && q.host.Kind.Name == gitLab ||
			head != "" && q.host.Kind.Name == gitHub && o["head"].(object)["label"] != head {
			continue
		}
		found = append(found, o)
	}
	return page(q, found), nil
}

// open opens a pull request, unless its branch has an open one.
func (q *query) open() (any, error) {
	if q.host.ReadOnly {
		return nil, errForbidden
	}
	var body struct {
		Title, Head, Base, Body string
		Source                  string `json:"source_branch"`
		Target                  string `json:"target_branch"`
		Description             string
		Draft                   bool
		Labels                  string
	}
	if err := json.NewDecoder(q.Body).Decode(&body); err != nil || body.Title == "" {
		return nil, &refusal{status: http.StatusBadRequest, message: "title is missing"}
	}
	p := Pull{Branch: cmp.Or(body.Head, body.Source), Base: cmp.Or(body.Base, body.Target),
		Title: body.Title, Body: cmp.Or(body.Body, body.Description), Head: "head", Labels: format.List(body.Labels)}
	for _, draft := range []string{"Draft: ", giteaDraft} {
		p.Title = strings.TrimPrefix(p.Title, draft)
	}
	s := q.host.Store
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.pulls {
		if other = other.asOf(s.now()); !other.isOpen() || other.Fork || other.Branch != p.Branch || other.Base != p.Base {
			continue
		}
		switch number := strconv.Itoa(other.Number); q.host.Kind.Name {
		case gitLab:
			return nil, &refusal{status: http.StatusConflict, message: []string{
				"Another open merge request already exists for this source branch: !" + number}}
		case gitea:
			return nil, &refusal{status: http.StatusConflict,
				message: "pull request already exists for these targets [id: 1, issue_id: " + number + "]"}
		default:
			return nil, &refusal{status: http.StatusUnprocessableEntity, message: "Validation Failed", errors: []object{
				{"resource": "PullRequest", "code": "custom",
					"message": "A pull request already exists for " + p.Branch + "."}}}
		}
	}
	if p = s.add(p); body.Draft || p.Title != body.Title {
		p.History = append(p.History, Event{At: p.OpenedAt, Action: ConvertToDraft})
		s.pulls[p.Number-1] = p
	}
	return q.object(p.asOf(s.now())), nil
}

// change changes the text of a pull request.
func (q *query) change() (any, error) {
	var body struct{ Body, Description *string }
	return q.edit(&body, func(p *Pull) {
		if text := cmp.Or(body.Body, body.Description); text != nil {
			p.Body = *text
		}
	})
}

// label adds labels to a pull request.
func (q *query) label() (any, error) {
	var body struct{ Labels []string }
	_, err := q.edit(&body, func(p *Pull) {
		for _, name := range body.Labels {
			if !slices.Contains(p.Labels, name) {
				p.Labels = append(p.Labels, name)
			}
		}
	})
	return []object{}, err
}

// edit reads a body and changes a pull request.
func (q *query) edit(body any, change func(*Pull)) (any, error) {
	pr, err := q.pull()
	if err == nil && q.host.ReadOnly {
		err = errForbidden
	}
	if err != nil {
		return nil, err
	}
	if json.NewDecoder(q.Body).Decode(body) != nil {
		return nil, &refusal{status: http.StatusBadRequest, message: "not JSON"}
	}
	s := q.host.Store
	s.mu.Lock()
	defer s.mu.Unlock()
	pr = s.pulls[pr.Number-1]
	change(&pr)
	return q.object(pr.asOf(s.now())), s.write(pr)
}

// page returns the part of a list that q asks for, and links the others.
func page[T any](q *query, list []T) []T {
	name, absent, most := "per_page", 30, 100
	switch q.host.Kind.Name {
	case gitLab:
		absent = 20
	case gitea:
		name, most = "limit", 50
	}
	most = cmp.Or(q.host.PerPage, most)
	query := q.URL.Query()
	// A value that is not a positive number is the default.
	whole := func(name string, absent int) int {
		if n, err := strconv.Atoi(query.Get(name)); err == nil && n > 0 && n < 1<<20 {
			return n
		}
		return absent
	}
	size, number := min(whole(name, absent), most), whole("page", 1)
	last := max(1, (len(list)+size-1)/size)
	var links []string
	link := func(rel string, number int) {
		query.Set("page", strconv.Itoa(number))
		links = append(links, fmt.Sprintf(`<%s%s%s?%s>; rel=%q`, q.web, q.host.Prefix,
			q.URL.EscapedPath(), query.Encode(), rel))
	}
	if number > 1 {
		link("prev", min(number-1, last))
		link("first", 1)
	}
	if number < last {
		link("next", number+1)
		link("last", last)
	}
	if len(links) > 0 {
		q.header.Set("Link", strings.Join(links, ", "))
	}
	from := min((number-1)*size, len(list))
	return append([]T{}, list[from:min(from+size, len(list))]...)
}
