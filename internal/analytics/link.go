package analytics

import (
	"net"
	"net/url"
	"strings"
)

// maxLink is the longest link that is safe, in bytes. It fits into a metric's
// label whole.
const maxLink = 300

// SafeLink returns a link that a service gave if people may follow it, and "" if
// not: it must be absolute, short, and https. Plain http is safe to this machine
// only, where the sandbox is.
func SafeLink(link string) string {
	u, err := url.Parse(link)
	if err != nil || u.Host == "" || len(link) > maxLink {
		return ""
	}
	local := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	if u.Scheme == "https" || u.Scheme == "http" && local {
		return link
	}
	return ""
}

// IsLoopback reports whether a host name is one of this machine, which nobody else
// listens to: there plain http may carry a secret.
func IsLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}
