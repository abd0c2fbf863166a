package analytics

import (
	"net/url"
	"regexp"
	"strings"
)

// maxLink is the longest link that is safe, in bytes. It fits into a metric's
// label whole.
const maxLink = 300

// SafeLink returns a link that a service gave if people may follow it, and "" if
// not: it must be absolute, short, https, and without user info, which can be a password or
// look like a host. Plain http is safe to this machine only, where the sandbox is.
func SafeLink(link string) string {
	u, err := url.Parse(link)
	if err != nil || u.Host == "" || u.User != nil || len(link) > maxLink {
		return ""
	}
	if u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()) {
		return link
	}
	return ""
}

var (
	// pullPath is the path of a pull request at GitHub, GitLab, Gitea or Bitbucket: up to its
	// number, and what names a part of it.
	pullPath = regexp.MustCompile(`^(/.+?/(?:pulls?|pull-requests|merge_requests)/[1-9][0-9]*)(/.*)?$`)
	// userInfo matches credentials before the host in a text that is not a URL.
	userInfo = regexp.MustCompile(`//\S*@`)
)

// PullLink returns the form in which the link of a pull request is kept and shown. Links that
// differ only in their spelling get the same form, except for the case of the path, which
// [PullKey] ignores. User info is redacted, and SafeLink still refuses such a link. Text that
// is not a web address gets a prefix that says so. Empty stays empty.
func PullLink(link string) string {
	if link == "" {
		return ""
	}
	link = RedactUser(link)
	u, err := url.Parse(link)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "not a web link: " + link
	}
	u.Host = strings.ToLower(u.Host)
	u.Host = strings.TrimSuffix(u.Host, map[string]string{"https": ":443", "http": ":80"}[u.Scheme])
	if m := pullPath.FindStringSubmatch(u.EscapedPath()); m != nil {
		u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = "", false, "", ""
		u.RawPath = m[1]
		u.Path, _ = url.PathUnescape(m[1]) // it is part of a path that was unescaped before
	}
	return u.String()
}

// RedactUser returns a link without what stands before its host, which may be a password.
func RedactUser(link string) string {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return userInfo.ReplaceAllLiteralString(link, "//redacted@")
	case u.User != nil:
		u.User = url.User("redacted")
		return u.String()
	}
	return link
}

var userInURL = regexp.MustCompile(`://[^/@\s]+@`)

// RedactUsers hides the user information of the URLs in a text: it may have a password.
func RedactUsers(text string) string { return userInURL.ReplaceAllString(text, "://[redacted]@") }

// PullKey is equal for links that PullLink returned if they name one pull request. The code
// hosts do not distinguish the case of owners and repositories, nor their host from www; user
// info names nothing.
func PullKey(link string) string {
	u, err := url.Parse(link)
	if err != nil || !pullPath.MatchString(u.EscapedPath()) {
		return link
	}
	return strings.ToLower(u.Scheme + "://" + strings.TrimPrefix(u.Host, "www.") + u.EscapedPath())
}
