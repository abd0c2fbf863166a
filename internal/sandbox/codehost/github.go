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

// DefaultGitHub is the URL of GitHub's REST API.
const DefaultGitHub = "https://api.github.com"

const (
	// githubTimeout is for one request.
	githubTimeout = 30 * time.Second
	// maxAnswer limits how much of an answer is read.
	maxAnswer = 1 << 20
	// maxMessage is how much of an answer is in an error.
	maxMessage = 300
)

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
		return nil, fmt.Errorf("GitHub URL %.200q: want https://host/path of the REST API, such as %s; "+
			"http only on this machine", c.BaseURL, DefaultGitHub)
	}
	// A redirect could take the token to another host.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := &http.Client{Timeout: githubTimeout, CheckRedirect: stay}
	return &GitHub{config: c, owner: owner, base: base, client: client}, nil
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

// pull is the part of GitHub's pull request object that is used.
type pull struct {
	URL string `json:"html_url"`
}

// link returns the pull request's link if it may be shown.
func (p pull) link() (string, error) {
	if u, err := url.Parse(p.URL); err != nil || u.Host == "" || !safe(u) {
		return "", fmt.Errorf("pull request: want an html_url with https, got %.100q", p.URL)
	}
	return p.URL, nil
}

// Propose pushes the branch and opens its pull request, unless one is open.
func (g *GitHub) Propose(ctx context.Context, p agent.Proposal) (link string, err error) {
	if err := g.config.Push(ctx, p.Branch); err != nil {
		return "", err
	}
	if link, err = g.find(ctx, p.Branch); err == nil && link == "" {
		link, err = g.open(ctx, p)
	}
	if err != nil {
		return "", fmt.Errorf("GitHub %s, branch %s: %w", g.config.Repository, p.Branch, err)
	}
	return link, nil
}

// find returns the link of the open pull request of a branch, empty if there is none.
func (g *GitHub) find(ctx context.Context, branch string) (link string, err error) {
	query := url.Values{"state": {"open"}, "head": {g.owner + ":" + branch}, "per_page": {"1"}}
	var pulls []pull
	if err := g.call(ctx, http.MethodGet, "?"+query.Encode(), nil, &pulls); err != nil || len(pulls) == 0 {
		return "", err
	}
	return pulls[0].link()
}

// open opens the pull request of p. If the answer does not say whether it was
// opened, open looks for it.
func (g *GitHub) open(ctx context.Context, p agent.Proposal) (link string, err error) {
	var opened pull
	err = g.call(ctx, http.MethodPost, "", map[string]any{
		"title": p.Title, "head": p.Branch, "base": p.Source.Ref,
		"body": "Opened by the docgauge sandbox for agent job `" + p.Job + "`.",
	}, &opened)
	if err == nil {
		return opened.link()
	}
	if refused, ok := errors.AsType[answerError](err); !ok || refused.status >= http.StatusInternalServerError {
		if link, findErr := g.find(ctx, p.Branch); findErr == nil && link != "" {
			return link, nil
		}
	}
	return "", err
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
	token, err := g.token()
	if err != nil {
		return err
	}
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	target := g.config.BaseURL + "/repos/" + g.config.Repository + "/pulls" + query
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/vnd.github+json")
	r.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	r.Header.Set("User-Agent", "docgauge-sandbox")
	resp, err := g.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return answerError{resp.StatusCode, strings.ReplaceAll(errorMessage(resp, text), token, "[redacted]")}
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: want a pull request as JSON: %w", method, err)
	}
	return nil
}

// errorMessage returns the message of an answer that is no success.
func errorMessage(resp *http.Response, text []byte) string {
	if to := resp.Header.Get("Location"); resp.StatusCode < 400 && to != "" {
		return "the repository or the API has moved; redirects are not followed"
	}
	var answer struct {
		Message string `json:"message"`
		Errors  []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	if json.Unmarshal(text, &answer) != nil || answer.Message == "" {
		return "without a message"
	}
	for _, e := range answer.Errors {
		if e.Message != "" {
			answer.Message += "; " + e.Message
		}
	}
	if len(answer.Message) > maxMessage {
		answer.Message = strings.ToValidUTF8(answer.Message[:maxMessage], "") + "…"
	}
	return answer.Message
}
