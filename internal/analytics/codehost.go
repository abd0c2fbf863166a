package analytics

import (
	"net/url"
	"strings"
)

// CodeHost is a kind of server with repositories and pull requests.
type CodeHost struct {
	// Name is for settings and records, Title for people.
	Name, Title string
	// API is the URL of the REST API of the public server, Suffix the end of that of other servers.
	API, Suffix string
}

// CodeHosts are the kinds whose pull requests are opened and read. Forgejo, at codeberg.org for one,
// has the API of Gitea.
var CodeHosts = []CodeHost{
	{"github", "GitHub", "https://api.github.com", "/api/v3"},
	{"gitlab", "GitLab", "https://gitlab.com/api/v4", "/api/v4"},
	{"gitea", "Gitea", "https://codeberg.org/api/v1", "/api/v1"},
}

// FindCodeHost returns the code host with this name, or the zero value for an unknown name.
func FindCodeHost(name string) CodeHost {
	for _, h := range CodeHosts {
		if h.Name == name {
			return h
		}
	}
	return CodeHost{}
}

// Web returns the URL below which a server has its repositories and pages, without a slash at the end:
// the URL of its API without the suffix, or without api. before the host.
func (h CodeHost) Web(api *url.URL) *url.URL {
	web := &url.URL{Scheme: api.Scheme, Host: strings.ToLower(api.Host)}
	path := strings.TrimRight(api.Path, "/")
	if path == "" {
		web.Host = strings.TrimPrefix(web.Host, "api.")
	}
	if before, within := strings.CutSuffix(path, h.Suffix); within {
		web.Path = before
	}
	return web
}
