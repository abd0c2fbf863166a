// Package codehost opens and reads pull requests at GitHub, Gitea and Forgejo, and merge requests at GitLab. It
// hides HTTP, the APIs (a table of dialects), and how few requests are made of them.
//
// Invariants:
//   - A link is asked only at the configured host that it belongs to, with that host's
//     token alone. A redirect is never followed.
//   - A Client sends only GET, one request at a time. A former answer is asked for with its ETag; Gitea has none.
//   - An Opener never opens a pull request twice, however a request or the process ends.
//   - A token is in the Authorization header and nowhere else: not in errors, logs or URLs.
//   - Times are the host's own fields, never the time of an update.
//
// It does not know when a pull request is read again, and keeps nothing (packages pulls and runner).
package codehost

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/journal"
)

// Options are the hosts that a Client asks, and how.
type Options struct {
	// GitHubURL, GitLabURL and GiteaURL are the URLs of the APIs: https, or http for a loopback host.
	// Empty means the public services. A GitHub server of one's own ends in /api/v3.
	GitHubURL, GitLabURL, GiteaURL string
	// GitHubToken, GitLabToken and GiteaToken return the current token, called before each read; nil,
	// or an empty token, means that the host is not asked.
	GitHubToken, GitLabToken, GiteaToken func() (string, error) `json:"-"`
	// UserAgent is sent with every request; empty means "docgauge".
	UserAgent string
	// Transport sends the requests; nil means a new one.
	Transport http.RoundTripper `json:"-"`
	// Now is the clock; nil means time.Now.
	Now func() time.Time `json:"-"`
}

// Client asks the hosts. It is safe for use by many goroutines.
type Client struct {
	hosts []*server
}

// New checks o and returns its client; nothing is sent. The error names every problem
// and no secret.
func New(o Options) (*Client, error) {
	c, errs := &Client{}, []error(nil)
	tokens := []func() (string, error){o.GitHubToken, o.GitLabToken, o.GiteaToken}
	client := newHTTPClient(o.Transport)
	for i, raw := range []string{o.GitHubURL, o.GitLabURL, o.GiteaURL} {
		setting := "DOCGAUGE_" + strings.ToUpper(Hosts[i].Name)
		h, err := newServer(Hosts[i], raw, analytics.URLRules{
			Example: "https://git.example.com" + Hosts[i].Suffix, CredentialsIn: "the token goes into " + setting + "_TOKEN",
		}, tokens[i], client)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s_URL: %w", setting, err))
			continue
		}
		h.userAgent, h.setting = cmp.Or(o.UserAgent, h.userAgent), setting
		if o.Now != nil {
			h.now = o.Now
		}
		c.hosts = append(c.hosts, h)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// Parse returns the host, repository (owner/name) and number in a link.
// ok is false for a link that belongs to no configured host or is not of a pull request.
func (c *Client) Parse(link string) (hostName, repository string, number int, ok bool) {
	u, err := url.Parse(link)
	if err != nil || u.User != nil || len(link) > maxLink {
		return "", "", 0, false
	}
	for _, h := range c.hosts {
		if repository, number, ok = h.parse(u); ok {
			return h.Name, repository, number, true
		}
	}
	return "", "", 0, false
}

// maxLink is longer than any link of a pull request.
const maxLink = 1000

func (h *server) parse(u *url.URL) (repository string, number int, ok bool) {
	path, within := strings.CutPrefix(u.EscapedPath(), h.web.Path)
	if !within || u.Scheme != h.web.Scheme || hostPort(u) != hostPort(h.web) {
		return "", 0, false
	}
	m := h.link.FindStringSubmatch(path)
	if m == nil {
		return "", 0, false
	}
	for part := range strings.SplitSeq(m[1], "/") {
		if strings.Trim(part, ".") == "" {
			return "", 0, false
		}
	}
	number, err := strconv.Atoi(m[2])
	return m[1], number, err == nil
}

// hostPort is the host and port that a URL leads to.
func hostPort(u *url.URL) string {
	name := strings.TrimPrefix(strings.ToLower(u.Hostname()), "www.")
	return net.JoinHostPort(name, cmp.Or(u.Port(), map[string]string{"https": "443", "http": "80"}[u.Scheme]))
}

// Read returns the present pull request of former.Link from its host. former is the result of the
// previous read, or has only a Link; Project, Problem, Next, Missing and Final stay unchanged. The
// error is an *Error. The pull request beside it has the parts that were read before the error;
// Answered is newer if they include the pull request itself.
func (c *Client) Read(ctx context.Context, former journal.PullRequest) (journal.PullRequest, error) {
	// An unknown state is read anew, whatever the ETags say.
	if former.ETags = maps.Clone(former.ETags); former.ETags == nil || former.State == journal.PullUnknown {
		former.ETags = map[string]string{}
	}
	r, err := c.begin(former)
	if err != nil {
		return former, err
	}
	return r.pr, r.read(r, ctx)
}

// begin finds the host of a link and the token, and asks whether there is room.
func (c *Client) begin(pr journal.PullRequest) (*reading, error) {
	name, repository, number, ok := c.Parse(pr.Link)
	if !ok {
		return nil, &Error{Kind: Hidden, text: Foreign}
	}
	pr.Host, pr.Repository, pr.Number = name, repository, number
	h := c.hosts[slices.IndexFunc(c.hosts, func(h *server) bool { return h.Name == name })]
	token, err := h.currentToken()
	if err != nil {
		return nil, err
	}
	if err := h.admit(); err != nil {
		return nil, err
	}
	return &reading{server: h, token: token, pr: pr}, nil
}

// Foreign is the reason, for people, why a link is not requested.
const Foreign = "the link belongs to no host that docgauge asks: " +
	"set DOCGAUGE_GITHUB_URL, DOCGAUGE_GITLAB_URL or DOCGAUGE_GITEA_URL if it is yours"

func (h *server) currentToken() (string, error) {
	if h.token == nil {
		return "", h.failed(NoToken, "is not asked: "+h.setting+"_TOKEN is not set", nil)
	}
	token, err := h.token()
	switch {
	case err != nil:
		return "", h.failed(NoToken, "is not asked: "+h.setting+"_TOKEN cannot be read", err)
	case token == "":
		return "", h.failed(NoToken, "is not asked: "+h.setting+"_TOKEN is not set", nil)
	case strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }):
		return "", h.failed(NoToken, "is not asked: "+h.setting+"_TOKEN has characters that no token has", nil)
	}
	return token, nil
}

// File returns a file of the repository at the pull request's Commit. The error is
// an *Error, of kind Hidden if the file does not exist or is too large.
func (c *Client) File(ctx context.Context, pr journal.PullRequest, path string) ([]byte, error) {
	r, err := c.begin(pr)
	if err != nil {
		return nil, err
	}
	var file struct{ Encoding, Content string }
	from := r.root(r.pr.Repository) + r.file(path) + "?ref=" + url.QueryEscape(pr.Commit)
	if _, _, err := r.get(ctx, from, "", &file); err != nil {
		return nil, err
	}
	if file.Encoding == "none" {
		return nil, r.failed(Hidden, "does not send "+path+" of "+r.pr.Repository+": it is larger than 1 MB", nil)
	}
	content, err := base64.StdEncoding.DecodeString(file.Content)
	if err != nil || file.Encoding != "base64" {
		return nil, r.garbled()
	}
	return content, nil
}
