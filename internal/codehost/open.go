package codehost

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// maxHostMessage is the maximum length of a message of a host in an error.
	maxHostMessage = 300
	// attempts is the number of attempts of Retry. The pause after the first is
	// firstPause, and grows; after a host asked for more than maxPause there is no other attempt.
	attempts   = 4
	firstPause = 2 * time.Second
	maxPause   = 2 * time.Minute
	// limitPause follows a refusal because of too many requests that names no pause; GitHub wants as much.
	limitPause = time.Minute
)

// Opener opens pull requests of one project.
type Opener struct {
	*server
	project string
}

// Proposal is a pull request that is wanted.
type Proposal struct {
	Branch, Base, Title, Body string
	// Labels and Draft count when it is opened.
	Labels []string
	Draft  bool
	// Ended means that one that was merged or closed counts too.
	Ended bool
	// Since is before the pull request can have been opened.
	Since time.Time
}

// projectPart is a part of the path of a project, between slashes.
var projectPart = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}$`)

// NewOpener checks its arguments. No request is sent. The kind is the name of one of Hosts, the project
// "owner/name"; an empty apiURL is the public server's. The token is read for each request. A nil
// transport is a new one.
func NewOpener(
	kind, project, apiURL string, token func() (string, error), transport http.RoundTripper,
) (*Opener, error) {
	h := Find(kind)
	if h.Name == "" {
		return nil, fmt.Errorf("code host %.40q: want github, gitlab or gitea", kind)
	}
	parts := strings.Split(project, "/")
	if len(parts) < 2 || len(parts) > 2 && !h.groups || slices.ContainsFunc(parts, func(part string) bool {
		return !projectPart.MatchString(part) || strings.Trim(part, ".") == ""
	}) {
		return nil, fmt.Errorf("%s repository %.140q: want owner/name", h.Title, project)
	}
	s, err := newServer(h, apiURL, analytics.URLRules{
		Example: h.API, CredentialsIn: "the token has its own setting",
	}, token, newHTTPClient(transport))
	if err != nil {
		return nil, fmt.Errorf("%s URL: %w", h.Title, err)
	}
	return &Opener{s, project}, nil
}

// Login returns what git needs to push over HTTPS: the beginning of the URLs it is for, and a
// user and password.
func (o *Opener) Login() (prefix, user, password string, err error) {
	password, err = o.readToken()
	return o.web.String() + "/", o.user, password, err
}

func (o *Opener) readToken() (string, error) {
	if o.token == nil {
		return "", fmt.Errorf("%s token: is missing", o.Title)
	}
	token, err := o.token()
	token = strings.TrimSpace(token)
	if err == nil && token == "" {
		err = errors.New("is empty")
	}
	if err != nil {
		return "", fmt.Errorf("%s token: %w", o.Title, err)
	}
	return token, nil
}

// The body of a proposal is between these comments. What people write around them stays.
const (
	bodyBegins = "<!-- docgauge: an update replaces the text from here -->\n\n"
	bodyEnds   = "\n\n<!-- docgauge: to here -->"
)

// Open opens the pull request p and returns its link, unless there is one: in any state if p.Ended, else an
// open one, which gets p.Body. Where an answer does not say whether it was opened, it is looked for again first, so
// that it is never opened twice: neither here nor after a crash, when Open is called again. With an error there is a
// link, too, if the pull request is there and only its text or its labels are not as p has them.
func (o *Opener) Open(ctx context.Context, p Proposal) (link string, err error) {
	pulls, isNew := o.root(o.project)+o.pulls, p.Ended
	err = Retry(ctx, mayReopen, func() error {
		l, err := o.find(ctx, p, p.Ended)
		if err == nil && l.link() == "" {
			fields := map[string]any{"title": p.Title, o.branch: p.Branch, o.base: p.Base,
				o.body: bodyBegins + p.Body + bodyEnds}
			switch {
			case p.Draft && o.draft == "":
				fields["draft"] = true
			case p.Draft:
				fields["title"] = o.draft + p.Title
			}
			if o.labels == "" && len(p.Labels) > 0 {
				fields["labels"] = strings.Join(p.Labels, ",")
			}
			// After a crash from here on, find has it.
			_, err = o.call(ctx, http.MethodPost, pulls, fields, &l)
			isNew = true
		}
		if link = l.link(); err != nil || !l.isOpen() {
			return err
		}
		if text := l.withBody(p.Body); text != l.body() {
			_, err = o.call(ctx, o.change, fmt.Sprintf("%s/%d", pulls, l.number()), map[string]any{o.body: text}, &struct{}{})
		}
		if err == nil && isNew && o.labels != "" && len(p.Labels) > 0 { // labels that it has do not change
			_, err = o.call(ctx, http.MethodPost, o.root(o.project)+fmt.Sprintf(o.labels, l.number()),
				map[string]any{"labels": p.Labels}, &json.RawMessage{})
		}
		return err
	})
	if analytics.SafeLink(link) == "" {
		if err == nil {
			err = fmt.Errorf("pull request: want a link with https (html_url, web_url), got %.100q", link)
		}
		link = ""
	}
	if err != nil {
		err = fmt.Errorf("%s %s, branch %s: %w", o.Title, o.project, p.Branch, err)
	}
	return link, err
}

// Merged reports whether the newest pull request of p's branch was merged.
func (o *Opener) Merged(ctx context.Context, p Proposal) (bool, error) {
	p.Ended = true
	l, err := o.existing(ctx, p)
	return l.Merged != nil, err
}

// Exists reports whether Open finds the pull request p, and opens none, and whether that is open.
func (o *Opener) Exists(ctx context.Context, p Proposal) (exists, open bool, err error) {
	l, err := o.existing(ctx, p)
	return l.link() != "", l.isOpen(), err
}

func (o *Opener) existing(ctx context.Context, p Proposal) (l listed, err error) {
	err = Retry(ctx, mayReopen, func() error {
		l, err = o.find(ctx, p, p.Ended)
		return err
	})
	if err != nil {
		err = fmt.Errorf("%s %s, branch %s: %w", o.Title, o.project, p.Branch, err)
	}
	return l, err
}

// Retry calls do until it succeeds, 4 times within a minute at most. retryable reports whether to try again after the nth
// attempt ended with err, after how long a pause at least. Retry returns the last error.
func Retry(ctx context.Context, retryable func(err error, n int) (pause time.Duration, yes bool), do func() error) error {
	for n := 1; ; n++ {
		err := do()
		if err == nil {
			return nil
		}
		least, yes := retryable(err, n)
		if !yes || n >= attempts || clock.Sleep(ctx, max(clock.Backoff(firstPause, maxPause, 4, n), least)) != nil {
			return err
		}
	}
}

// Check returns an error if the token may not do what a job needs, as far as the host says. Nothing is
// tried.
func (o *Opener) Check(ctx context.Context) error {
	if err := o.rights(ctx, o); err != nil {
		return fmt.Errorf("%s %s: %w", o.Title, o.project, err)
	}
	return nil
}

// listed is a pull request in a list, or one that was just opened.
type listed struct {
	HTML    string     `json:"html_url"`
	Web     string     `json:"web_url"` // of GitLab
	Created time.Time  `json:"created_at"`
	Merged  *time.Time `json:"merged_at"`
	State   string
	Number  int
	Body    string
	// The last two of GitLab.
	IID         int
	Description string
	// Gitea's label is the branch, also once that is deleted. RepoID tells forks apart.
	Head, Base struct {
		Label  string
		RepoID int64 `json:"repo_id"`
	}
	// The same of GitLab.
	Source int64 `json:"source_project_id"`
	Target int64 `json:"target_project_id"`
}

func (l listed) link() string { return cmp.Or(l.HTML, l.Web) }
func (l listed) number() int  { return cmp.Or(l.Number, l.IID) }
func (l listed) isOpen() bool { return l.State == "open" || l.State == "opened" }
func (l listed) body() string { return cmp.Or(l.Body, l.Description) }

// withBody returns the text of l with another body, where it has one of ours.
func (l listed) withBody(body string) string {
	text := strings.ReplaceAll(l.body(), "\r\n", "\n") // forms of browsers have these
	before, rest, begins := strings.Cut(text, strings.TrimSpace(bodyBegins))
	_, after, ends := strings.Cut(rest, strings.TrimSpace(bodyEnds))
	if !begins || !ends {
		return l.body()
	}
	return before + bodyBegins + body + bodyEnds + after
}

// maxPages is the number of pages of a list that are read: Gitea's have 50 pull requests each.
const maxPages = 100

// find returns the newest open pull request of p's branch, or the newest of all, the zero value without one. It reads
// the list, the newest first, as far as the pull request can be.
func (o *Opener) find(ctx context.Context, p Proposal, all bool) (listed, error) {
	query := o.search(o.project, p.Branch)
	if all {
		query.Set("state", "all")
	}
	for page := 1; page <= maxPages; page++ {
		query.Set("page", strconv.Itoa(page))
		var found []listed
		header, err := o.call(ctx, http.MethodGet, o.root(o.project)+o.pulls+"?"+query.Encode(), nil, &found)
		if err != nil {
			return listed{}, err
		}
		old := true
		for _, l := range found {
			old = old && l.Created.Before(p.Since)
			if o.isOf(l, p.Branch) {
				return l, nil
			}
		}
		if old || !hasNext(header) {
			return listed{}, nil
		}
	}
	return listed{}, fmt.Errorf("more than %d pull requests are newer than the job: cannot tell whether it has one",
		50*maxPages)
}

var errNoWrite = errors.New("the token may not write: want read and write access to the repository and pull requests")

// rightsAtRepos is for GitHub and Gitea.
func rightsAtRepos(ctx context.Context, o *Opener) error {
	var repository struct {
		Permissions struct{ Push bool }
		Archived    bool
		Pulls       *bool `json:"has_pull_requests"`
	}
	_, err := o.call(ctx, http.MethodGet, o.root(o.project), nil, &repository)
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

func rightsOnGitLab(ctx context.Context, o *Opener) error {
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
	if _, err := o.call(ctx, http.MethodGet, o.root(o.project), nil, &project); err != nil {
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
	if _, err := o.call(ctx, http.MethodGet, "/personal_access_tokens/self", nil, &token); err == nil &&
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

// mayReopen is for Retry: the host was not reached, did not finish, or has too much to do. After a conflict one more
// attempt finds what is there already; it is the second attempt that conflicts if the response to the first was lost.
func mayReopen(err error, n int) (pause time.Duration, yes bool) {
	response, ok := errors.AsType[responseError](err)
	if !ok {
		_, sent := errors.AsType[*url.Error](err)
		return 0, sent
	}
	switch status := response.status; {
	case status == http.StatusConflict, status == http.StatusUnprocessableEntity:
		return 0, n <= 2
	case status < 300, status >= 500, status == http.StatusTooManyRequests, response.pause > 0:
		return response.pause, response.pause <= maxPause
	}
	return 0, false
}

// Passes reports whether a request with this error, or an attempt of Retry, may succeed within hours.
func Passes(err error) bool {
	pause, yes := mayReopen(err, attempts)
	return yes || pause > 0
}

// call sends a request with a path below the API and decodes the answer into out.
func (o *Opener) call(ctx context.Context, method, path string, body, out any) (http.Header, error) {
	token, err := o.readToken()
	if err != nil {
		return nil, err
	}
	r, err := o.request(ctx, method, path, token, body)
	if err != nil {
		return nil, err
	}
	resp, err := o.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	failed := responseError{status: resp.StatusCode}
	failed.pause, _ = retryAfter(resp, 24*time.Hour)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		message, documentation := errorMessage(resp)
		if message = strings.ReplaceAll(message, token, "[redacted]"); len(message) > maxHostMessage {
			message = strings.ToValidUTF8(message[:maxHostMessage], "") + "…"
		}
		failed.message = message + remedies[resp.StatusCode]
		if what, pause := o.limitOf(resp, documentation); what != "" {
			failed.message = message + "; " + o.Title + " " + what
			failed.pause = cmp.Or(max(failed.pause, pause), limitPause)
		}
		return nil, failed
	}
	ok, err := decode(resp, out)
	switch {
	case err != nil:
		failed.message = "the response broke off: " + err.Error()
	case !ok:
		failed.message = "the response is not of " + o.Title + "'s API; is the URL right, or is a proxy in the way?"
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

// errorMessage returns the message of a response that is not a success, and the address of the page about it, of GitHub.
func errorMessage(resp *http.Response) (message, documentation string) {
	if resp.StatusCode < 400 && resp.Header.Get("Location") != "" {
		return "the repository or the API has moved; redirects are not followed", ""
	}
	var answer struct {
		Message     any    // of GitLab also a list, or lists by field
		Error       string // of GitLab
		Description string `json:"error_description"`
		Errors      any    // of GitHub objects with a message
		Page        string `json:"documentation_url"`
	}
	_, _ = decode(resp, &answer) // what there is of them
	said := slices.Concat(sentences(answer.Message), sentences(answer.Error), sentences(answer.Description),
		sentences(answer.Errors))
	if len(said) == 0 {
		return "without a message", answer.Page
	}
	return strings.Join(said, "; "), answer.Page
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
