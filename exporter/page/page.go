// Package page is the status page: one HTML document that shows a snapshot to
// people.
//
// It hides how a snapshot becomes sections and a calendar; package htmlview has
// what it shares with the report. Its invariants: a page is whole or an error,
// never half; it is made once for each snapshot, so a view costs nothing; it
// requests nothing else, from us or from anybody, and runs no script; whatever
// comes from the API or a sink is text; and its size is bounded by the number of
// projects and windows configured.
//
// It reads no state and sends no request. Ages ("3 min ago") count from the moment
// of the snapshot, which the page names.
package page

import (
	"bytes"
	"compress/gzip"
	"embed"
	"net/http"
	"strconv"
	"sync"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/htmlview"
)

var (
	//go:embed *.html
	files embed.FS
	//go:embed style.css
	style string

	kind = htmlview.NewPage(files, style)
	// policy allows the one style sheet inside the page, by its digest, and the icon.
	policy = "default-src 'none'; style-src " + htmlview.Digest(string(kind.Style)) + "; img-src data:; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// New returns the handler of the page, which lives at / alone. Current returns
// the newest snapshot, or nil while there is none; version is shown as it is.
// It is safe for concurrent use.
func New(current func() *exporter.Snapshot, version string) http.Handler {
	return &handler{current: current, render: func(s *exporter.Snapshot) ([]byte, error) {
		if s == nil {
			return kind.Render("starting", document{Style: kind.Style, Version: version})
		}
		return kind.Render("page", documentOf(s, version))
	}}
}

type handler struct {
	current func() *exporter.Snapshot
	render  func(*exporter.Snapshot) ([]byte, error)

	mu   sync.Mutex
	made bool
	of   *exporter.Snapshot // what last was made of
	last rendered
}

// rendered is a page, as it is and compressed.
type rendered struct{ plain, gzip []byte }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	switch {
	case r.URL.Path != "/":
		http.Error(w, "not found: the status page is at /", http.StatusNotFound)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed: the status page takes GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	s := h.current()
	page, err := h.page(s)
	if err != nil {
		http.Error(w, "status page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	status := http.StatusOK
	if s == nil {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "5")
	}
	body := page.plain
	if exporter.AcceptsGzip(r.Header) {
		body = page.gzip
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Vary", "Accept-Encoding")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // a reader that went away is no news
	}
}

// page returns the page of s, made anew only if s is not the last one asked for.
func (h *handler) page(s *exporter.Snapshot) (rendered, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.made && h.of == s {
		return h.last, nil
	}
	plain, err := h.render(s)
	if err != nil {
		return rendered{}, err
	}
	var small bytes.Buffer
	w := gzip.NewWriter(&small)
	_, _ = w.Write(plain) // memory takes every write
	_ = w.Close()
	h.made, h.of, h.last = true, s, rendered{plain, small.Bytes()}
	return h.last, nil
}

// setHeaders says what the page may do: nothing but show itself.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}
