package mcp

import (
	"net"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxRequests is the number of HTTP requests in flight; more are refused.
const maxRequests = 16

// Handler answers POST requests over HTTP, without sessions. It never offers the tool that adds
// prompts.
//
// Beyond loopback addresses it answers only requests that guarded, if not nil, reports as sent with
// credentials. Its server refuses browsers that show a page of another site, or that take this machine
// for another one.
func Handler(o Options, guarded func(*http.Request) bool) http.Handler {
	o.AddPrompts = false
	server := newServer(o)
	next := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxMessage, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // package server knows under which names we answer
	})
	return &handler{next, guarded, make(chan struct{}, maxRequests)}
}

type handler struct {
	next    http.Handler
	guarded func(*http.Request) bool
	places  chan struct{}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if (!ok || !to.IP.IsLoopback()) && (h.guarded == nil || !h.guarded(r)) {
		http.Error(w, "/mcp answers on other than loopback addresses only with credentials, because anyone can ask "+
			"here: give basic_auth_users, or client_auth_type: RequireAndVerifyClientCert with a client_ca_file, in the "+
			"file of DOCGAUGE_WEB_CONFIG_FILE, or use `docgauge mcp`", http.StatusForbidden)
		return
	}
	select {
	case h.places <- struct{}{}:
		defer func() { <-h.places }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests in flight: ask again in a second", http.StatusServiceUnavailable)
		return
	}
	h.next.ServeHTTP(w, r)
}
