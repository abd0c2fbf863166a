// Package githubapi answers like GitHub's REST API about the pull requests of the
// sandbox, well enough for the clients of GitHub: pull requests, their reviews, files,
// commits and events, check runs, and files of the repository.
//
// It reads and never changes anything. An answer that a client has already is a 304 and
// costs nothing of the hourly limit; lists come in pages with a Link header. What the
// sandbox does not know, such as comments and people, is left out or made up the same
// way each time.
package githubapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	slashpath "path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/sandbox/codehost"
)

// Path is where the API is on the sandbox. Path + enterprise is the same: the path that
// GitHub Enterprise Server has and that its clients add.
const (
	Path       = "/github"
	enterprise = "/api/v3"
)

// DefaultLimit is GitHub's number of requests in an hour with a token.
const DefaultLimit = 5000

// Config says what is served.
type Config struct {
	Pulls func() []codehost.PullRequest
	// File returns a file of the repository of pr at a commit; false if there is none.
	File func(ctx context.Context, pr codehost.PullRequest, commit, path string) ([]byte, bool, error)
	// Token, if set, is the one that clients need.
	Token string
	// Limit of requests in an hour; 0 = DefaultLimit.
	Limit int
	Now   func() time.Time
}

// API is the API. Its methods may be used by many goroutines at once.
type API struct {
	config Config
	mux    *http.ServeMux

	mu    sync.Mutex
	used  int
	reset time.Time // when used becomes 0
}

// New returns the API of c.
func New(c Config) *API {
	c.Limit = cmp.Or(c.Limit, DefaultLimit)
	a := &API{config: c, mux: http.NewServeMux()}
	for pattern, answer := range map[string]func(*question) (any, error){
		"GET /rate_limit":                                       a.rateLimit,
		"GET /repos/{owner}/{repo}":                             a.repository,
		"GET /repos/{owner}/{repo}/pulls":                       a.pulls,
		"GET /repos/{owner}/{repo}/pulls/{number}":              a.pull,
		"GET /repos/{owner}/{repo}/pulls/{number}/reviews":      a.reviews,
		"GET /repos/{owner}/{repo}/pulls/{number}/files":        a.files,
		"GET /repos/{owner}/{repo}/issues/{number}/events":      a.events,
		"GET /repos/{owner}/{repo}/issues/{number}/timeline":    a.timeline,
		"GET /repos/{owner}/{repo}/commits/{commit}/status":     a.status,
		"GET /repos/{owner}/{repo}/commits/{commit}/check-runs": a.checkRuns,
		"GET /repos/{owner}/{repo}/contents/{path...}":          a.contents,
	} {
		a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { a.answer(w, r, answer) })
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, errNotFound) })
	return a
}

// Serve answers r, whose path begins with Path, on the sandbox at web, such as
// http://127.0.0.1:8787. It returns the status and the size of the answer.
func (a *API) Serve(w http.ResponseWriter, r *http.Request, web string) (status, size int) {
	inner := r.WithContext(context.WithValue(r.Context(), webKey{}, web))
	below := func(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, Path), enterprise) }
	// A branch with a slash is escaped in a path.
	inner.URL = &url.URL{Path: below(r.URL.Path), RawPath: below(r.URL.EscapedPath()), RawQuery: r.URL.RawQuery}
	counted := &counter{ResponseWriter: w, status: http.StatusOK}
	switch {
	case !a.admit(counted, inner):
	case slashpath.Clean(inner.URL.Path) != inner.URL.Path: // the mux would redirect
		refuse(counted, errNotFound)
	default:
		a.mux.ServeHTTP(counted, inner)
	}
	return counted.status, counted.size
}

type webKey struct{}

// counter is a response that knows what was answered.
type counter struct {
	http.ResponseWriter
	status, size int
}

func (c *counter) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *counter) Write(p []byte) (int, error) {
	c.size += len(p)
	return c.ResponseWriter.Write(p)
}

// refusal is an answer that is no success, as GitHub writes it.
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

// admit checks the token, and the limit: a request that finds it used up is refused.
// Without a token, what is not public is not there.
func (a *API) admit(w http.ResponseWriter, r *http.Request) bool {
	if want := a.config.Token; want != "" {
		header := r.Header.Get("Authorization")
		_, token, _ := strings.Cut(header, " ")
		switch {
		case header == "":
			refuse(w, errNotFound)
			return false
		case subtle.ConstantTimeCompare([]byte(token), []byte(want)) == 0:
			refuse(w, errToken)
			return false
		}
	}
	if left := a.use(w, 0); left <= 0 && r.URL.Path != "/rate_limit" {
		refuse(w, errLimit)
		return false
	}
	return true
}

// use counts n requests, says so in the headers of an answer, and returns what is left.
func (a *API) use(w http.ResponseWriter, n int) (left int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.config.Now(); !now.Before(a.reset) {
		a.used, a.reset = 0, now.Add(time.Hour)
	}
	a.used += n
	left = max(0, a.config.Limit-a.used)
	for name, value := range map[string]int64{
		"X-RateLimit-Limit": int64(a.config.Limit), "X-RateLimit-Used": int64(a.used), "X-RateLimit-Remaining": int64(left),
		"X-RateLimit-Reset": a.reset.Unix(),
	} {
		w.Header().Set(name, strconv.FormatInt(value, 10))
	}
	w.Header().Set("X-RateLimit-Resource", "core")
	return left
}

// question is a request on its way to an answer.
type question struct {
	*http.Request
	web, slug string
	all       []codehost.PullRequest // of the repository, by number
	header    http.Header            // of the answer
}

// answer sends what a function finds, unless the client has it already.
func (a *API) answer(w http.ResponseWriter, r *http.Request, find func(*question) (any, error)) {
	q := &question{Request: r, slug: r.PathValue("owner") + "/" + r.PathValue("repo"), header: w.Header()}
	q.web, _ = r.Context().Value(webKey{}).(string)
	for _, pr := range a.config.Pulls() {
		if strings.EqualFold(pr.Slug(), q.slug) {
			q.all = append(q.all, pr)
		}
	}
	value, err := find(q)
	var body []byte
	if err == nil {
		body, err = json.Marshal(value)
	}
	if refused, ok := err.(*refusal); ok {
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
	if has(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if r.URL.Path != "/rate_limit" {
		a.use(w, 1)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = w.Write(body) // a client that went away cannot be told
}

// has reports whether one of the tags of a client is tag.
func has(headers []string, tag string) bool {
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
func (q *question) pullRequest() (codehost.PullRequest, error) {
	for _, pr := range q.all {
		if strconv.Itoa(pr.Number) == q.PathValue("number") {
			return pr, nil
		}
	}
	return codehost.PullRequest{}, errNotFound
}

// commitOf returns the newest pull request that a commit or a branch belongs to.
func (q *question) commitOf(name string) (codehost.PullRequest, error) {
	for _, pr := range slices.Backward(q.all) {
		if slices.Contains([]string{pr.Head, pr.BaseCommit, pr.Branch, pr.Base, "refs/heads/" + pr.Branch}, name) {
			return pr, nil
		}
	}
	return codehost.PullRequest{}, errNotFound
}

// Sizes of pages.
const (
	defaultPage = 30
	maxPage     = 100
)

// page returns the part of a list that q asks for, and links the others.
func page[T any](q *question, list []T) []T {
	query := q.URL.Query()
	size, number := whole(query, "per_page", defaultPage), whole(query, "page", 1)
	size = min(size, maxPage)
	last := max(1, (len(list)+size-1)/size)
	var links []string
	link := func(rel string, number int) {
		query.Set("page", strconv.Itoa(number))
		links = append(links, fmt.Sprintf(`<%s%s%s?%s>; rel=%q`, q.web, Path, q.URL.EscapedPath(), query.Encode(), rel))
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

// whole returns a positive number of a query; another value counts as if it were absent.
func whole(query url.Values, name string, absent int) int {
	if n, err := strconv.Atoi(query.Get(name)); err == nil && n > 0 && n < 1<<20 {
		return n
	}
	return absent
}
