package htmlview

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// Handler serves pages that are made of a value V. Each is made once for each value, so a
// view costs nothing, and is whole or an error, never half. It serves any number of
// goroutines.
type Handler[V comparable] struct {
	// Path is the only one it answers. Policy is the content security policy.
	Path, Policy string
	// Current returns what pages are made of now.
	Current func() V
	// Choose names the page that a query asks for, from a number of names that V bounds;
	// nil: there is one page, without a name.
	Choose func(v V, query url.Values) string
	// Render makes a page, and the status it is answered with.
	Render func(v V, name string) (page []byte, status int, err error)

	mu    sync.Mutex
	of    V
	pages map[string]rendered // of of
}

// maxPages is how many pages of one value are kept.
const maxPages = 8

// rendered is a page, as it is and compressed.
type rendered struct {
	plain, gzip []byte
	status      int
}

func (h *Handler[V]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header(), h.Policy)
	switch {
	case r.URL.Path != h.Path:
		http.Error(w, "not found: the page is at "+h.Path, http.StatusNotFound)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed: the page takes GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	page, err := h.page(r.URL.Query())
	if err != nil {
		http.Error(w, "page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	if page.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	body := page.plain
	if acceptsGzip(r.Header) {
		body = page.gzip
		w.Header().Set("Content-Encoding", "gzip")
	}
	w.Header().Set("Vary", "Accept-Encoding")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(page.status)
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // a reader that went away is no news
	}
}

// acceptsGzip reports whether the client that sent the header accepts gzip. A quality of zero
// refuses it.
func acceptsGzip(h http.Header) bool {
	for offer := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		coding, parameters, err := mime.ParseMediaType(offer)
		if err == nil && coding == "gzip" {
			quality, err := strconv.ParseFloat(cmp.Or(parameters["q"], "1"), 64)
			return err == nil && quality > 0
		}
	}
	return false
}

// page returns the page that is asked for, made anew only if it is not kept.
func (h *Handler[V]) page(query url.Values) (rendered, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v, name := h.Current(), ""
	if h.Choose != nil {
		name = h.Choose(v, query)
	}
	if h.pages == nil || h.of != v || len(h.pages) >= maxPages && h.pages[name].plain == nil {
		h.of, h.pages = v, map[string]rendered{}
	}
	if kept, ok := h.pages[name]; ok {
		return kept, nil
	}
	plain, status, err := h.Render(v, name)
	if err != nil {
		return rendered{}, err
	}
	var small bytes.Buffer
	w := gzip.NewWriter(&small)
	_, _ = w.Write(plain) // memory takes every write
	_ = w.Close()
	page := rendered{plain, small.Bytes(), status}
	h.pages[name] = page
	return page, nil
}

// setHeaders says what a page may do: nothing but show itself.
func setHeaders(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy+"; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}
