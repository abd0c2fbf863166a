package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestHandlerRendersOnce: however many views there are, each page of a value is made
// once, and no more than maxRendered are kept.
func TestHandlerRendersOnce(t *testing.T) {
	var current, made atomic.Int32
	var c pageCache[int32]
	view := func(name string) string {
		v := current.Load()
		page, err := c.page(v, name, func() ([]byte, int, error) {
			made.Add(1)
			return fmt.Append(nil, name, " at ", v), http.StatusOK, nil
		})
		if err != nil {
			t.Error(err)
		}
		return string(page.plain)
	}
	for v := range int32(3) {
		current.Store(v)
		var views sync.WaitGroup
		for i := range 20 {
			views.Go(func() {
				name := []string{"a", "b"}[i%2]
				if got, want := view(name), fmt.Sprint(name, " at ", v); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			})
		}
		views.Wait()
		if got := made.Load(); got != 2*(v+1) {
			t.Errorf("%d pages made of %d values", got, v+1)
		}
	}
	for i := range 100 {
		view(fmt.Sprint(i))
	}
	if len(c.pages) > maxRendered {
		t.Errorf("%d pages are kept", len(c.pages))
	}
}

// TestHandlerFails: a page that fails is not sent, and is tried again.
func TestHandlerFails(t *testing.T) {
	fault := errors.New("no such field")
	h := &pageHandler[int]{path: "/", policy: "default-src 'none'", current: func() int { return 1 },
		render: func(int) ([]byte, int, error) { return nil, 0, fault }}
	for _, want := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != want || strings.Contains(w.Body.String(), "<") {
			t.Errorf("%d %q, want %d", w.Code, w.Body, want)
		}
		if got := w.Header().Get("Content-Security-Policy"); got != "default-src 'none'; frame-ancestors 'none'" {
			t.Error(got)
		}
		h.render = func(int) ([]byte, int, error) {
			return []byte("starting"), http.StatusServiceUnavailable, nil
		}
	}
}
