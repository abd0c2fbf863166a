package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	slashpath "path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// GitHubPath is the path of the API on the sandbox. GitHubPath + enterprise is the same: the path of
// GitHub Enterprise Server, which its clients add.
const (
	GitHubPath = "/github"
	enterprise = "/api/v3"
)

// DefaultGitHubLimit is GitHub's number of requests in an hour with a token.
const DefaultGitHubLimit = 5000

// pullAPI answers like GitHub's REST API about pull requests, well enough for the clients of
// GitHub: pull requests, their reviews, files, commits and events, check runs, and files of
// the repository. It changes nothing. A response that a client already has is a 304 and does
// not count against the hourly limit; lists come in pages with a Link header. What the sandbox
// does not know, such as comments and people, is left out or the same made-up value each time.
// Its methods are safe for concurrent use.
type pullAPI struct {
	pulls func() []pullRequest
	now   func() time.Time
	file  fileReader
	token string
	limit int
	mux   *http.ServeMux

	mu    sync.Mutex
	used  int
	reset time.Time // when used becomes 0
}

// fileReader returns a file of the repository at a commit; false for a missing file.
type fileReader = func(ctx context.Context, commit, path string) ([]byte, bool, error)

// newAPI returns the API about the pull requests. Clients need token unless it is empty; limit is
// the number of requests in an hour, 0 = DefaultGitHubLimit.
func (l *pullStore) newAPI(file fileReader, token string, limit int) *pullAPI {
	a := &pullAPI{
		pulls: l.Pulls, now: l.now, file: file, token: token, limit: cmp.Or(limit, DefaultGitHubLimit),
		mux: http.NewServeMux(),
	}
	for pattern, respond := range map[string]func(*pullQuery) (any, error){
		"GET /repos/{owner}/{repo}/pulls":                       (*pullQuery).pulls,
		"GET /repos/{owner}/{repo}/pulls/{number}":              (*pullQuery).pull,
		"GET /repos/{owner}/{repo}/pulls/{number}/reviews":      (*pullQuery).reviews,
		"GET /repos/{owner}/{repo}/pulls/{number}/files":        (*pullQuery).files,
		"GET /repos/{owner}/{repo}/issues/{number}/events":      (*pullQuery).events,
		"GET /repos/{owner}/{repo}/commits/{commit}/status":     (*pullQuery).status,
		"GET /repos/{owner}/{repo}/commits/{commit}/check-runs": (*pullQuery).checkRuns,
		"GET /repos/{owner}/{repo}/contents/{path...}":          a.contents,
	} {
		a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { a.respond(w, r, respond) })
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, errNotFound) })
	return a
}

// serve answers r, whose path begins with GitHubPath, on the sandbox at web, such as
// http://127.0.0.1:8787.
func (a *pullAPI) serve(w http.ResponseWriter, r *http.Request, web string) {
	inner := r.WithContext(context.WithValue(r.Context(), webKey{}, web))
	below := func(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, GitHubPath), enterprise) }
	// A branch with a slash is escaped in a path.
	inner.URL = &url.URL{Path: below(r.URL.Path), RawPath: below(r.URL.EscapedPath()), RawQuery: r.URL.RawQuery}
	if err := a.admit(w, inner); err != nil {
		refuse(w, err)
	} else if slashpath.Clean(inner.URL.Path) != inner.URL.Path { // the mux would redirect
		refuse(w, errNotFound)
	} else {
		a.mux.ServeHTTP(w, inner)
	}
}

type webKey struct{}

// refusal is an error as GitHub writes it.
type refusal struct {
	Message string `json:"message"`
	status  int
}

func (r *refusal) Error() string { return r.Message }

var (
	errNotFound = &refusal{"Not Found", http.StatusNotFound}
	errToken    = &refusal{"Bad credentials", http.StatusUnauthorized}
	errLimit    = &refusal{"API rate limit exceeded for the docgauge sandbox.", http.StatusForbidden}
	errInternal = &refusal{"Server Error", http.StatusInternalServerError}
)

func refuse(w http.ResponseWriter, r *refusal) {
	body, _ := json.Marshal(r) // a string and nothing else
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(r.status)
	_, _ = w.Write(body)
}

// admit checks the token, and the limit: a request over the limit is refused. Without a token
// private things are not found.
func (a *pullAPI) admit(w http.ResponseWriter, r *http.Request) *refusal {
	if a.token != "" {
		header := r.Header.Get("Authorization")
		_, token, _ := strings.Cut(header, " ")
		switch {
		case header == "":
			return errNotFound
		case subtle.ConstantTimeCompare([]byte(token), []byte(a.token)) == 0:
			return errToken
		}
	}
	if a.use(w, 0) <= 0 {
		return errLimit
	}
	return nil
}

// use counts n requests, sets the headers about the limit, and returns the number left.
func (a *pullAPI) use(w http.ResponseWriter, n int) (left int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.now(); !now.Before(a.reset) {
		a.used, a.reset = 0, now.Add(time.Hour)
	}
	a.used += n
	left = max(0, a.limit-a.used)
	for name, value := range map[string]int64{
		"Limit": int64(a.limit), "Used": int64(a.used), "Remaining": int64(left), "Reset": a.reset.Unix(),
	} {
		w.Header().Set("X-RateLimit-"+name, strconv.FormatInt(value, 10))
	}
	w.Header().Set("X-RateLimit-Resource", "core")
	return left
}

// pullQuery is a request about one repository.
type pullQuery struct {
	*http.Request
	web, slug string
	all       []pullRequest // of the repository, by number
	header    http.Header   // of the response
}

// respond sends the value that find returns, unless the client already has it.
func (a *pullAPI) respond(w http.ResponseWriter, r *http.Request, find func(*pullQuery) (any, error)) {
	q := &pullQuery{Request: r, slug: r.PathValue("owner") + "/" + r.PathValue("repo"), header: w.Header()}
	q.web, _ = r.Context().Value(webKey{}).(string)
	for _, pr := range a.pulls() {
		if strings.EqualFold(pr.slug(), q.slug) {
			q.all = append(q.all, pr)
		}
	}
	var value any
	var body []byte
	err := error(errNotFound)
	if len(q.all) > 0 {
		value, err = find(q)
	}
	if err == nil {
		body, err = json.Marshal(value)
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		a.use(w, 1)
		refuse(w, refused)
		return
	} else if err != nil {
		refuse(w, errInternal)
		return
	}
	tag := fmt.Sprintf(`W/"%x"`, sha256.Sum256(body))
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, max-age=60, s-maxage=60")
	w.Header().Set("X-GitHub-Media-Type", "github.v3; format=json")
	if matches(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	a.use(w, 1)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(body) // the client may have gone
}

// matches reports whether one of the tags of a client is tag.
func matches(headers []string, tag string) bool {
	plain := func(t string) string { return strings.TrimPrefix(strings.TrimSpace(t), "W/") }
	for _, header := range headers {
		for one := range strings.SplitSeq(header, ",") {
			if plain(one) == plain(tag) || plain(one) == "*" {
				return true
			}
		}
	}
	return false
}

// pullRequest returns the one that q names.
func (q *pullQuery) pullRequest() (pullRequest, error) {
	for _, pr := range q.all {
		if strconv.Itoa(pr.Number) == q.PathValue("number") {
			return pr, nil
		}
	}
	return pullRequest{}, errNotFound
}

// commitOf returns the newest pull request that a commit or a branch belongs to.
func (q *pullQuery) commitOf(name string) (pullRequest, error) {
	for _, pr := range slices.Backward(q.all) {
		if slices.Contains([]string{pr.Head, pr.BaseCommit, pr.Branch, pr.Base, "refs/heads/" + pr.Branch}, name) {
			return pr, nil
		}
	}
	return pullRequest{}, errNotFound
}

// Sizes of pages.
const (
	defaultPage = 30
	maxPage     = 100
)

// listPage returns the part of a list that q asks for, and links the others.
func listPage[T any](q *pullQuery, list []T) []T {
	query := q.URL.Query()
	// A value that is not a positive number is the default.
	whole := func(name string, absent int) int {
		if n, err := strconv.Atoi(query.Get(name)); err == nil && n > 0 && n < 1<<20 {
			return n
		}
		return absent
	}
	size, number := min(whole("per_page", defaultPage), maxPage), whole("page", 1)
	last := max(1, (len(list)+size-1)/size)
	var links []string
	link := func(rel string, number int) {
		query.Set("page", strconv.Itoa(number))
		links = append(links, fmt.Sprintf(`<%s%s%s?%s>; rel=%q`, q.web, GitHubPath,
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
