package page

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/docgauge/docgauge/exporter"
)

func TestOncePerSnapshot(t *testing.T) {
	var current atomic.Pointer[exporter.Snapshot]
	var made atomic.Int32
	h := &handler{current: current.Load, render: func(*exporter.Snapshot) (rendered, error) {
		made.Add(1)
		return rendered{plain: []byte("page")}, nil
	}}
	view := func() { h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)) }
	for want := range int32(3) {
		var views sync.WaitGroup
		for range 20 {
			views.Go(view)
		}
		views.Wait()
		if got := made.Load(); got != want+1 {
			t.Errorf("%d pages made for %d snapshots", got, want+1)
		}
		current.Store(new(exporter.Snapshot))
	}
}

func TestFailedPageIsNoPage(t *testing.T) {
	fault := errors.New("no such field")
	h := &handler{current: func() *exporter.Snapshot { return nil }, render: func(*exporter.Snapshot) (rendered, error) { return rendered{}, fault }}
	for _, want := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != want || strings.Contains(w.Body.String(), "<") {
			t.Errorf("%d %q, want %d", w.Code, w.Body, want)
		}
		h.render = func(*exporter.Snapshot) (rendered, error) { return rendered{plain: []byte("starting")}, nil }
	}
}
