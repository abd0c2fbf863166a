package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// pageHandler serves a page that is made from a value V. It is made once for each value, and is whole
// or an error. It is safe for concurrent use.
type pageHandler[V comparable] struct {
	// path is the only one it answers. policy is the content security policy.
	path, policy string
	// current returns the present value for the page.
	current func() V
	// render makes the page, and the status it is answered with.
	render func(v V) (page []byte, status int, err error)

	cache pageCache[V]
}

func (h *pageHandler[V]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header(), h.policy)
	switch {
	case r.URL.Path != h.path:
		http.Error(w, "not found: the page is at "+h.path, http.StatusNotFound)
	case readOnly(w, r):
		v := h.current()
		page, err := h.cache.page(v, "", func() ([]byte, int, error) { return h.render(v) })
		page.send(w, r, err)
	}
}

// pageCache has pages that were made from a value V. It is safe for concurrent use.
type pageCache[V comparable] struct {
	mu    sync.Mutex
	of    V
	pages map[string]rendered // of of
}

// maxRendered is the number of pages of one value in memory.
const maxRendered = 16

// page returns a page of v, from memory if it was made before. V bounds the names.
func (c *pageCache[V]) page(v V, name string, render func() ([]byte, int, error)) (rendered, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pages == nil || c.of != v || len(c.pages) >= maxRendered && c.pages[name].plain == nil {
		c.of, c.pages = v, map[string]rendered{}
	}
	if page, ok := c.pages[name]; ok {
		return page, nil
	}
	plain, status, err := render()
	if err != nil {
		return rendered{}, err
	}
	page := rendered{plain, compressed(plain), status}
	c.pages[name] = page
	return page, nil
}

// rendered is a page, plain and compressed.
type rendered struct {
	plain, gzip []byte
	status      int
}

// send sends the page, or the error of making it.
func (page rendered) send(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		http.Error(w, "page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	page.write(w, r)
}

// readOnly answers requests that are neither GET nor HEAD, and reports whether this is one of the two.
func readOnly(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "method not allowed: the page takes GET and HEAD", http.StatusMethodNotAllowed)
	return false
}

// write sends the page.
func (page rendered) write(w http.ResponseWriter, r *http.Request) {
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
		_, _ = w.Write(body) // the reader may have gone
	}
}

// compressed returns a page in gzip.
func compressed(plain []byte) []byte {
	var small bytes.Buffer
	w := gzip.NewWriter(&small)
	_, _ = w.Write(plain) // memory takes every write
	_ = w.Close()
	return small.Bytes()
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

// setHeaders forbids a page everything but to show itself.
func setHeaders(h http.Header, policy string) {
	h.Set("Content-Security-Policy", policy+"; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}
