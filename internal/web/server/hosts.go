package server

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// hosts are the names of DOCGAUGE_ALLOWED_HOSTS, in lower case.
//
// They protect against browsers: any page can make a browser send requests to this machine. A
// name that an attacker binds to our address is not among them (DNS rebinding), and the Origin of a
// request that may change something names the site that sent it.
type hosts []string

// open are the handlers that answer under every name, as the probes do: Prometheus uses the names
// of its service discovery.
var open = []string{"/metrics"}

// guard answers requests for our hosts, which are IP addresses, loopback names and the allowed ones, and
// those that may change something only from pages of theirs.
func (h hosts) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := nameOf(r.Host)
		if _, err := netip.ParseAddr(name); err != nil && !isLoopbackName(name) && !slices.Contains(h, name) {
			const problem = "Host %.100q: docgauge does not answer under this name: " +
				"use its IP address, or add the name to DOCGAUGE_ALLOWED_HOSTS"
			if strings.HasPrefix(r.URL.Path, "/api/") { // whose errors are JSON
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusMisdirectedRequest)
				_ = json.NewEncoder(w).Encode(map[string]string{"error": fmt.Sprintf(problem, r.Host)})
				return
			}
			text(w, http.StatusMisdirectedRequest, fmt.Sprintf(problem, r.Host))
			return
		}
		safe := r.Method == http.MethodGet || r.Method == http.MethodHead
		for _, origin := range r.Header.Values("Origin") {
			if !safe && !h.sameSite(origin, r.Host) {
				text(w, http.StatusForbidden, fmt.Sprintf("Origin %.100q: a page of another site may not ask here; "+
					"only one of this host, of a loopback address or of DOCGAUGE_ALLOWED_HOSTS may", origin))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// sameSite reports whether a page of origin is one of host's, of this machine, or of an
// allowed host. An address proves nothing: pages of an attacker may have one.
func (h hosts) sameSite(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	name := nameOf(u.Host)
	here := isLoopbackName(name) || net.ParseIP(name).IsLoopback()
	return here || strings.EqualFold(u.Host, host) || slices.Contains(h, name)
}

func isLoopbackName(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// nameOf returns the name in a Host, without its port.
func nameOf(hostport string) string {
	u := url.URL{Host: hostport}
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}
