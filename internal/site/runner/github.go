package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// DefaultGitHub is the URL of GitHub's REST API.
const DefaultGitHub = "https://api.github.com"

const (
	// githubTimeout is for one request.
	githubTimeout = 30 * time.Second
	// maxResponse limits how much of a response is read, in bytes.
	maxResponse = 1 << 20
	// maxGitHubMessage is the maximum length of a message of GitHub in an error.
	maxGitHubMessage = 300
)

// github opens pull requests of one repository with GitHub's REST API.
type github struct {
	repository, owner string
	base              *url.URL
	token             func() (string, error) // called for each proposal: it may change
	client            *http.Client
}

var repositoryForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}$`)

// newGitHub checks its arguments. No request is sent.
func newGitHub(repository, baseURL string, token func() (string, error)) (*github, error) {
	owner, name, _ := strings.Cut(repository, "/")
	if !repositoryForm.MatchString(repository) || name == "." || name == ".." {
		return nil, fmt.Errorf("GitHub repository %.140q: want owner/name", repository)
	}
	base, err := analytics.ParseServiceURL(strings.TrimSuffix(baseURL, "/"), analytics.URLRules{
		Example: DefaultGitHub, CredentialsIn: "the token goes into GITHUB_TOKEN",
	})
	if err != nil {
		return nil, fmt.Errorf("GitHub URL: %w", err)
	}
	// A redirect could take the token to another host.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := &http.Client{Timeout: githubTimeout, CheckRedirect: stay}
	return &github{repository, owner, base, token, client}, nil
}

// login returns what git needs to push over HTTPS: the beginning of the URLs it is for, and a
// user and password.
func (g *github) login() (prefix, user, password string, err error) {
	password, err = g.readToken()
	return g.base.Scheme + "://" + strings.TrimPrefix(g.base.Host, "api.") + "/", "x-access-token", password, err
}

func (g *github) readToken() (string, error) {
	if g.token == nil {
		return "", errors.New("GitHub token: is missing")
	}
	token, err := g.token()
	token = strings.TrimSpace(token)
	if err == nil && token == "" {
		err = errors.New("is empty")
	}
	if err != nil {
		return "", fmt.Errorf("GitHub token: %w", err)
	}
	return token, nil
}

// pullRequest is the part of GitHub's pull request object that is used.
type pullRequest struct {
	Link string `json:"html_url"`
}

// propose opens the pull request of a branch for base, unless there is one: for a job without a
// link in any state, since a person may have ended it before its link was in the journal, else an
// open one.
func (g *github) propose(ctx context.Context, j Job, branch, base string) (link string, err error) {
	state := "all"
	if j.PRLink != nil {
		state = "open"
	}
	query := url.Values{"state": {state}, "head": {g.owner + ":" + branch}, "per_page": {"1"}}
	find := func() (open []pullRequest, err error) {
		err = g.call(ctx, http.MethodGet, "/pulls?"+query.Encode(), nil, &open)
		return open, err
	}
	open, err := find()
	if err == nil && len(open) == 0 {
		var opened pullRequest
		err = g.call(ctx, http.MethodPost, "/pulls", map[string]any{
			"title": Subject(j.Prompts[0]), "head": branch, "base": base,
			"body": "Opened by docgauge for agent job `" + j.ID + "`.",
		}, &opened)
		open = []pullRequest{opened}
		if refused, ok := errors.AsType[responseError](err); err != nil && (!ok || refused.status >= 500) {
			// The response does not say whether it was opened.
			if found, findErr := find(); findErr == nil && len(found) > 0 {
				open, err = found, nil
			}
		}
	}
	if err == nil {
		link = open[0].Link
		if analytics.SafeLink(link) == "" {
			err = fmt.Errorf("pull request: want an html_url with https, got %.100q", link)
		}
	}
	if err != nil {
		return "", fmt.Errorf("GitHub %s, branch %s: %w", g.repository, branch, err)
	}
	return link, nil
}

// responseError is a response that is not a success.
type responseError struct {
	status  int
	message string
}

func (e responseError) Error() string {
	return fmt.Sprintf("status %d %s: %s", e.status, http.StatusText(e.status), e.message)
}

// check returns an error if the token may not do what a job needs, as far as GitHub says.
func (g *github) check(ctx context.Context) error {
	var repository struct{ Permissions struct{ Pull, Push bool } }
	err := g.call(ctx, http.MethodGet, "", nil, &repository)
	if err == nil && !repository.Permissions.Push {
		err = errors.New("the token may not write: want read and write access to contents and pull requests")
	}
	if err != nil {
		return fmt.Errorf("GitHub %s: %w", g.repository, err)
	}
	return nil
}

// call sends a request about the repository and decodes the response into out.
func (g *github) call(ctx context.Context, method, path string, body, out any) error {
	token, err := g.readToken()
	if err != nil {
		return err
	}
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	target := g.base.String() + "/repos/" + g.repository + path
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/vnd.github+json")
	r.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	r.Header.Set("User-Agent", "docgauge")
	resp, err := g.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(io.LimitReader(resp.Body, maxResponse)); err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		message := strings.ReplaceAll(errorMessage(resp, text), token, "[redacted]")
		if len(message) > maxGitHubMessage {
			message = strings.ToValidUTF8(message[:maxGitHubMessage], "") + "…"
		}
		return responseError{resp.StatusCode, message}
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: want a pull request as JSON: %w", method, err)
	}
	return nil
}

// errorMessage returns the message of a response that is not a success.
func errorMessage(resp *http.Response, text []byte) string {
	if resp.StatusCode < 400 && resp.Header.Get("Location") != "" {
		return "the repository or the API has moved; redirects are not followed"
	}
	type message struct{ Message string }
	var answer struct {
		message
		Errors []message
	}
	if json.Unmarshal(text, &answer) != nil || answer.Message == "" {
		return "without a message"
	}
	for _, e := range answer.Errors {
		if e.Message != "" {
			answer.Message += "; " + e.Message
		}
	}
	return answer.Message
}
