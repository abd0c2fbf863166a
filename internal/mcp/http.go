package mcp

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxRequests is how many HTTP requests are under way at once; more are refused.
const maxRequests = 16

// Handler answers POST requests over HTTP, each by itself: there are no sessions. It never
// offers the tool that adds prompts.
//
// It answers connections to a loopback address only, unless guarded says that a web
// configuration covers it. A browser that shows a page of another site is refused by its
// Origin; one that was told that this machine is another site, by its Host.
func Handler(o Options, guarded bool) http.Handler {
	o.AddPrompts = false
	server := newServer(o)
	return &handler{
		next: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxMessage, PropagateRequestCancellation: true,
		}),
		guarded: guarded, places: make(chan struct{}, maxRequests),
	}
}

type handler struct {
	next    http.Handler
	guarded bool
	places  chan struct{}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !h.guarded && !toLoopback(r):
		http.Error(w, "/mcp answers on a loopback address only, because anyone can ask here: set DOCGAUGE_WEB_CONFIG_FILE (TLS and basic auth), or use `docgauge mcp`", http.StatusForbidden)
		return
	case !sameSite(r):
		http.Error(w, "Origin: a page of another site may not ask here; only one of the same host or of a loopback address may", http.StatusForbidden)
		return
	}
	select {
	case h.places <- struct{}{}:
		defer func() { <-h.places }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests are under way: ask again in a second", http.StatusServiceUnavailable)
		return
	}
	h.next.ServeHTTP(w, r)
}

// toLoopback reports whether the connection came to a loopback address.
func toLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// sameSite reports whether the Origin, if there is one, is the same host or this machine.
func sameSite(r *http.Request) bool {
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" {
			return false
		}
		host := u.Hostname()
		if !strings.EqualFold(u.Host, r.Host) && host != "localhost" && !net.ParseIP(host).IsLoopback() {
			return false
		}
	}
	return true
}
