package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
)

// notEnabled is the answer of /-/reload where it may not reload.
const notEnabled = "Reloading by HTTP is not enabled: " +
	"start docgauge serve with --web.enable-lifecycle, or send it SIGHUP"

// newMux routes exact paths and the methods GET and HEAD, or the method of the pattern;
// everything else is 404 or 405.
func newMux(o Options) *http.ServeMux {
	mux := http.NewServeMux()
	ours := hosts(o.AllowedHosts)
	for pattern, handler := range o.Handlers {
		if !slices.Contains(open, pattern) {
			handler = ours.guard(handler)
		}
		if pattern == "/" {
			pattern = "/{$}"
		}
		// The handler of a subtree refuses the other methods itself.
		if !strings.Contains(pattern, " ") && !strings.HasSuffix(pattern, "/") {
			pattern = "GET " + pattern
		}
		mux.Handle(pattern, handler)
	}
	for _, path := range []string{"/healthz", "/-/healthy"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok") })
	}
	for _, path := range []string{"/readyz", "/-/ready"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			if o.Ready != nil {
				if reasons := o.Ready(); len(reasons) > 0 {
					text(w, http.StatusServiceUnavailable, reasons...)
					return
				}
			}
			text(w, http.StatusOK, "ready")
		})
	}
	// A page of another site must not reload through a browser here.
	reload := ours.guard(http.NewCrossOriginProtection().Handler(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if o.Reload == nil {
				text(w, http.StatusForbidden, notEnabled)
			} else if err := o.Reload(r.Context()); err != nil {
				text(w, http.StatusInternalServerError, strings.Split(err.Error(), "\n")...)
			} else {
				text(w, http.StatusOK, "reloaded")
			}
		})))
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		mux.Handle(method+" /-/reload", reload)
	}
	return mux
}

// text answers with lines.
func text(w http.ResponseWriter, code int, lines ...string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	for _, line := range lines {
		_, _ = io.WriteString(w, strings.Join(strings.Fields(line), " ")+"\n")
	}
}

// headers forbids to frame, sniff or store answers. Handlers and the web configuration may set other
// headers.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// recovering logs a panic of a handler and closes the connection: the answer may be half written, and
// must not look complete.
func recovering(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				log.Error("handler panicked", "path", r.URL.Path, "panic", fmt.Sprint(v),
					"stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler)
		}()
		next.ServeHTTP(w, r)
	})
}

// httpEvents logs the messages of net/http. Clients that break off or speak another protocol matter
// only if the fault is ours.
type httpEvents struct {
	log *slog.Logger
	// check returns the current mistake in the web configuration.
	check func() error
}

// Write takes one message.
func (e httpEvents) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	switch {
	case strings.HasPrefix(text, "http: TLS handshake error"):
		if err := e.check(); err != nil {
			e.log.Error("no tls connection possible", "error", err)
			break
		}
		e.log.Debug("tls handshake broken off", "event", text)
	case strings.HasPrefix(text, "http2:"):
		e.log.Debug("http/2 connection broken off", "event", text)
	default:
		e.log.Warn("http server", "event", text)
	}
	return len(p), nil
}
