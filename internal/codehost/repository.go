package codehost

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
)

var scpForm = regexp.MustCompile(`^[A-Za-z0-9_.-]+@([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):(.+)$`)

// Repository is a git repository and the code host it is on.
type Repository struct {
	// Path is a repository on this machine; a URL takes its place.
	Path, URL string
	// Kind is the name of one of Hosts, empty for branches without pull requests; API is the URL of the REST API and
	// Project the path of the repository there.
	Kind, API, Project string
	// TokenFor is the host that gets the token, empty if none does.
	TokenFor string
}

// SplitSource splits an entry of DOCGAUGE_SITE_REPO, [project=]source[#branch]. Source is a path or a URL.
func SplitSource(text string) (project, source, branch string) {
	project, source, named := strings.Cut(text, "=")
	if !named || analytics.CheckProject(project) != nil {
		project, source = "", text
	}
	source, branch, _ = strings.Cut(source, "#")
	return project, source, branch
}

// Locate finds the code host of a repository, from DOCGAUGE_SITE_CODE_HOST and DOCGAUGE_SITE_CODE_HOST_URL where these
// are set. No request is sent. An error says what the settings must be.
func Locate(source, kind, apiURL string) (Repository, error) {
	at, err := remote(source)
	if err != nil {
		return Repository{}, err
	}
	r := Repository{Path: source, Kind: kind, API: apiURL}
	if at.host != "" {
		r.Path, r.URL = "", source
	}
	if at.web != nil {
		r.TokenFor = at.web.Host
	}
	guessed := ""
	for _, h := range Hosts {
		if public, err := url.Parse(h.API); err == nil && h.Web(public).Host == at.host && (kind == "" || kind == h.Name) {
			r.Kind, guessed = h.Name, h.API
		}
	}
	switch host := Find(r.Kind); {
	case r.Kind == "none" && apiURL != "":
		return r, errors.New("has no code host: unset DOCGAUGE_SITE_CODE_HOST_URL")
	case r.Kind == "none":
		r.Kind = ""
	case r.Kind == "":
		return r, fmt.Errorf("which code host is it on? Want DOCGAUGE_SITE_CODE_HOST=%s, or none to have branches alone",
			hostNames())
	case host.Name == "":
		return r, fmt.Errorf("DOCGAUGE_SITE_CODE_HOST: %.40q: want %s or none", kind, hostNames())
	default:
		if r.API = cmp.Or(apiURL, guessed); at.host != "" && r.API == "" {
			return r, fmt.Errorf("needs DOCGAUGE_SITE_CODE_HOST_URL, the URL of the REST API of %s, such as https://%s%s",
				at.host, at.host, host.Suffix)
		}
		r.Project, r.TokenFor, err = at.project(host, r.API)
	}
	return r, err
}

// Login returns what git needs to push over HTTPS without a code host; nil if it needs nothing.
func (r Repository) Login(token func() (string, error)) func() (prefix, user, password string, err error) {
	u, err := url.Parse(r.URL)
	if token == nil || err != nil || u.Host == "" {
		return nil
	}
	// The user is GitHub's for tokens; others take any.
	return func() (string, string, string, error) {
		text, err := token()
		return u.Scheme + "://" + u.Host + "/", "x-access-token", strings.TrimSpace(text), err
	}
}

func hostNames() string {
	var names []string
	for _, h := range Hosts {
		names = append(names, h.Name)
	}
	return strings.Join(names, ", ")
}

// remoteRepo locates a repository on another machine. It is empty for a path on this machine.
type remoteRepo struct {
	host string   // with the port of a web server, without the port of an SSH server
	path string   // of the repository, without .git
	web  *url.URL // nil if git reaches it over SSH
}

// remote returns the repository of a URL of git.
func remote(source string) (remoteRepo, error) {
	trim := func(path string) string { return strings.TrimSuffix(strings.Trim(path, "/"), ".git") }
	if m := scpForm.FindStringSubmatch(source); m != nil {
		return remoteRepo{host: strings.ToLower(strings.Trim(m[1], "[]")), path: trim(m[2])}, nil
	}
	if !strings.Contains(source, "://") {
		if source == "" {
			return remoteRepo{}, errors.New("want a path or a URL")
		}
		return remoteRepo{}, nil
	}
	u, err := url.Parse(source)
	if err != nil {
		return remoteRepo{}, errors.New("want a path or a URL")
	}
	_, password := u.User.Password()
	if u.Scheme == "ssh" && u.Host != "" && !password {
		return remoteRepo{host: strings.ToLower(u.Hostname()), path: trim(u.Path)}, nil
	}
	u, err = analytics.ParseServiceURL(source, analytics.URLRules{
		Example: "https://github.com/owner/name", CredentialsIn: "the token goes into DOCGAUGE_SITE_TOKEN",
	})
	if err != nil {
		return remoteRepo{}, err
	}
	u.Host = strings.ToLower(u.Host)
	return remoteRepo{host: u.Host, path: trim(u.Path), web: u}, nil
}

// project returns the path of the repository on a code host with an API at a URL, and that host.
func (p remoteRepo) project(kind Host, apiURL string) (path, host string, err error) {
	api, err := analytics.ParseServiceURL(apiURL, analytics.URLRules{Example: kind.API,
		CredentialsIn: "the token goes into DOCGAUGE_SITE_TOKEN"})
	if p.host == "" {
		return "", "", errors.New("want the URL of the repository, such as https://github.com/owner/name: there the " +
			"pull requests are opened")
	}
	if err != nil {
		return "", "", fmt.Errorf("DOCGAUGE_SITE_CODE_HOST_URL: %w", err)
	}
	web := kind.Web(api)
	path, same := p.path, p.host == web.Hostname()
	if p.web != nil { // the web server can have a path before the repository; the SSH server has none
		path, same = strings.CutPrefix("/"+p.path, web.Path+"/")
		same = same && p.web.Scheme == web.Scheme && p.host == web.Host
	}
	if !same {
		return "", "", fmt.Errorf("is on %s, but DOCGAUGE_SITE_CODE_HOST_URL is for repositories below %s, and the token "+
			"is for them alone", p.host, web)
	}
	return path, web.Host, nil
}
