package analytics

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// URLRules are the forms that the URL of a service may have besides https with a host and a path.
type URLRules struct {
	// Example is a URL that follows the rules, for error messages.
	Example string
	// CredentialsIn says where user and password belong, for error messages; empty allows them in
	// the URL.
	CredentialsIn string
	// Query allows a query.
	Query bool
	// PlainHTTP allows http to other machines. To this one, where no one else listens, it is
	// always allowed.
	PlainHTTP bool
}

// ParseServiceURL parses the URL of a service that requests are sent to. Errors quote nothing but
// its host, because the rest may contain a secret; the caller adds the name of the setting.
func ParseServiceURL(raw string, rules URLRules) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "":
		return nil, fmt.Errorf("want a URL with scheme and host, like %s; write %% as %%25, @ in a password as %%40",
			rules.Example)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("want https:// or http://, like %s", rules.Example)
	case u.User != nil && rules.CredentialsIn != "":
		return nil, fmt.Errorf("must not contain user or password (host %s): %s", u.Host, rules.CredentialsIn)
	case strings.Contains(raw, "#"):
		return nil, fmt.Errorf("must not have a fragment, the part after # (host %s)", u.Host)
	case strings.Contains(raw, "?") && !rules.Query:
		return nil, fmt.Errorf("must not have a query, the part after ? (host %s)", u.Host)
	case u.Scheme == "http" && !rules.PlainHTTP && !isLoopback(u.Hostname()):
		return nil, errors.New("http would send credentials in the clear to " + u.Hostname() +
			"; use https (http is for loopback hosts only)")
	}
	return u, nil
}

func isLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}
