package codehost

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/sandbox/agent"
)

// DefaultGitHub is where GitHub's REST API is.
const DefaultGitHub = "https://api.github.com"

// githubTimeout is for one request.
const githubTimeout = 30 * time.Second

// maxAnswer bounds what is read of an answer.
const maxAnswer = 1 << 20

// GitHubConfig says where pull requests are opened.
type GitHubConfig struct {
	// Repository is "owner/name".
	Repository string
	// BaseURL of the REST API, https, or http on this machine; empty = DefaultGitHub.
	BaseURL string
	// Token returns a token that may read and write pull requests of the
	// repository. It is called before each proposal, so it may change.
	Token func() (string, error)
	// Push brings a branch to the repository.
	Push func(ctx context.Context, branch string) error
}

// GitHub opens pull requests with GitHub's REST API. It implements [agent.Host].
type GitHub struct {
	config GitHubConfig
	owner  string
	base   *url.URL
	client *http.Client
}

var repositoryForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}$`)

// NewGitHub checks c. No request is sent.
func NewGitHub(c GitHubConfig) (*GitHub, error) {
	c.BaseURL = strings.TrimSuffix(cmp.Or(c.BaseURL, DefaultGitHub), "/")
	owner, name, _ := strings.Cut(c.Repository, "/")
	if !repositoryForm.MatchString(c.Repository) || name == "." || name == ".." {
		return nil, fmt.Errorf("GitHub repository %.140q: want owner/name", c.Repository)
	}
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Host == "" || base.User != nil || base.RawQuery+base.Fragment != "" || !safe(base) {
		return nil, fmt.Errorf("GitHub URL %.200q: want https://host/path of the REST API, such as %s; http only on this machine", c.BaseURL, DefaultGitHub)
	}
	// A redirect would take the token to where it was not meant for.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &GitHub{config: c, owner: owner, base: base, client: &http.Client{Timeout: githubTimeout, CheckRedirect: stay}}, nil
}

// safe reports whether a token may be sent to u.
func safe(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && ip.IsLoopback())
}

// Login returns what git needs to push over HTTPS: the beginning of the URLs it
// is for, and a user and password.
func (g *GitHub) Login() (prefix, user, password string, err error) {
	password, err = g.token()
	return g.base.Scheme + "://" + strings.TrimPrefix(g.base.Host, "api.") + "/", "x-access-token", password, err
}

func (g *GitHub) token() (string, error) {
	if g.config.Token == nil {
		return "", errors.New("GitHub token: is missing")
	}
	token, err := g.config.Token()
	if err == nil && strings.TrimSpace(token) == "" {
		err = errors.New("is empty")
	}
	if err != nil {
		return "", fmt.Errorf("GitHub token: %w", err)
	}
	return strings.TrimSpace(token), nil
}

// pull is what is needed of GitHub's pull request object.
type pull struct {
	URL string `json:"html_url"`
}

// Propose pushes the branch and opens its pull request, unless one is open.
func (g *GitHub) Propose(ctx context.Context, p agent.Proposal) (link string, err error) {
	if err := g.config.Push(ctx, p.Branch); err != nil {
		return "", err
	}
	found, err := g.find(ctx, p.Branch)
	if err == nil && found == nil {
		found, err = g.open(ctx, p)
	}
	if err != nil {
		return "", fmt.Errorf("GitHub %s, branch %s: %w", g.config.Repository, p.Branch, err)
	}
	return found.URL, nil
}

// find returns the open pull request of a branch, nil if there is none.
func (g *GitHub) find(ctx context.Context, branch string) (*pull, error) {
	query := url.Values{"state": {"open"}, "head": {g.owner + ":" + branch}, "per_page": {"1"}}
	var pulls []pull
	if err := g.call(ctx, http.MethodGet, "?"+query.Encode(), nil, &pulls); err != nil || len(pulls) == 0 {
		return nil, err
	}
	return checked(pulls[0])
}

// open opens the pull request of p. Where the answer does not say whether it
// did, it is looked up.
func (g *GitHub) open(ctx context.Context, p agent.Proposal) (*pull, error) {
	var opened pull
	err := g.call(ctx, http.MethodPost, "", map[string]any{
		"title": p.Title, "head": p.Branch, "base": p.Source.Ref,
		"body": "Opened by the docgauge sandbox for agent job `" + p.Job + "`.",
	}, &opened)
	if err == nil {
		return checked(opened)
	}
	if refused, ok := errors.AsType[answerError](err); !ok || refused.status >= http.StatusInternalServerError {
		if found, lookErr := g.find(ctx, p.Branch); lookErr == nil && found != nil {
			return found, nil
		}
	}
	return nil, err
}

// checked returns p if its link is one that may be shown.
func checked(p pull) (*pull, error) {
	if u, err := url.Parse(p.URL); err != nil || u.Host == "" || !safe(u) {
		return nil, fmt.Errorf("pull request: want an html_url with https, got %.100q", p.URL)
	}
	return &p, nil
}

// answerError is an answer that is no success.
type answerError struct {
	status  int
	message string
}

func (e answerError) Error() string {
	return fmt.Sprintf("status %d %s: %s", e.status, http.StatusText(e.status), e.message)
}

// call sends a request about pull requests and decodes the answer into out.
func (g *GitHub) call(ctx context.Context, method, query string, body, out any) error {
	r, token, err := g.request(ctx, method, query, body)
	if err != nil {
		return err
	}
	resp, err := g.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return answerError{resp.StatusCode, strings.ReplaceAll(explain(resp, text), token, "[redacted]")}
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: want a pull request as JSON: %w", method, err)
	}
	return nil
}

func (g *GitHub) request(ctx context.Context, method, query string, body any) (r *http.Request, token string, err error) {
	if token, err = g.token(); err != nil {
		return nil, "", err
	}
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return nil, "", err
		}
	}
	target := g.config.BaseURL + "/repos/" + g.config.Repository + "/pulls" + query
	if r, err = http.NewRequestWithContext(ctx, method, target, bytes.NewReader(text)); err != nil {
		return nil, "", err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/vnd.github+json")
	r.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	r.Header.Set("User-Agent", "docgauge-sandbox")
	return r, token, nil
}

// maxExplained is how much of an answer is in an error.
const maxExplained = 300

// explain returns what an answer without success says.
func explain(resp *http.Response, text []byte) string {
	if to := resp.Header.Get("Location"); resp.StatusCode < 400 && to != "" {
		return "the repository or the API has moved; redirects are not followed"
	}
	var said struct {
		Message string `json:"message"`
		Errors  []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	if json.Unmarshal(text, &said) != nil || said.Message == "" {
		return "without a message"
	}
	for _, e := range said.Errors {
		if e.Message != "" {
			said.Message += "; " + e.Message
		}
	}
	if len(said.Message) > maxExplained {
		said.Message = strings.ToValidUTF8(said.Message[:maxExplained], "") + "…"
	}
	return said.Message
}
