package parquet

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/s3test"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestBucketFaults does each harm to each request of Replace, once and for
// ever. One fault is survived; if it stays, readers see whole files, and
// Revisions and the next Replace heal the rest.
func TestBucketFaults(t *testing.T) {
	windows := map[string]struct{ former, next *archive.File }{
		"first":                 {nil, seal(t, 2, 80)},
		"over rows":             {seal(t, 1, 50), seal(t, 2, 80)},
		"over totals only":      {sealTotals(t, 1), seal(t, 2, 80)},
		"totals only over rows": {seal(t, 1, 50), sealTotals(t, 2)},
	}
	faults := map[string]s3test.Meddler{
		"reset before the body": s3test.ResetBefore, "reset in the body": s3test.ResetMiddle,
		"answer lost":  s3test.LoseAnswer,
		"slow down":    s3test.Says(503, "SlowDown", "Please reduce your request rate."),
		"500":          s3test.Says(500, "InternalError", "We failed."),
		"flipped byte": s3test.FlipUpload,
	}
	for _, request := range []string{"PUT " + visitorsTable, "PUT " + totalsTable, "DELETE " + visitorsTable} {
		for fault, m := range faults {
			for name, w := range windows {
				method, table, _ := strings.Cut(request, " ")
				if w.next.Revision().TotalsOnly() == (request == "PUT "+visitorsTable) ||
					!w.next.Revision().TotalsOnly() && method == "DELETE" ||
					method == "DELETE" && fault == "flipped byte" {
					continue // no such request, or no body
				}
				t.Run(request+"/"+fault+"/"+name, func(t *testing.T) {
					survives(t, w.former, w.next, func(times int) s3test.Meddler {
						return s3test.When(method, "/"+table+"/", times, m)
					})
				})
			}
		}
	}
}

// requestTries is how often a store sends one request.
const requestTries = 5

func survives(t *testing.T, former, next *archive.File, fault func(times int) s3test.Meddler) {
	s, direct, p := behindProxy(t)
	begin := func() {
		if former != nil {
			replace(t, direct, former)
		}
	}
	begin()
	p.Set(fault(requestTries - 1))
	replace(t, s, next)
	agreed(t, direct, revOf(next))

	for _, heal := range []func(){
		func() { agreed(t, direct, revOf(former), revOf(next)) },
		func() { replace(t, direct, next); agreed(t, direct, revOf(next)) },
	} {
		empty(t, direct)
		begin()
		p.Set(fault(-1))
		err := s.Replace(t.Context(), next)
		if err == nil {
			t.Fatal("Replace = nil")
		}
		s3test.Clean(t, err.Error())
		if requests, _ := p.Seen(); len(requests) > 2*requestTries {
			t.Errorf("%d requests", len(requests))
		}
		if whole(t, direct, revOf(former), revOf(next)) {
			heal()
		}
	}
}

// empty removes every object of s.
func empty(t *testing.T, s *Sink) {
	t.Helper()
	var names []string
	check(t, s.store.List(t.Context(), "", "", func(name string) { names = append(names, name) }))
	for _, name := range names {
		check(t, s.store.Remove(t.Context(), name))
	}
}

// TestFlippedUploadLeavesNothing sends a damaged body into an empty bucket.
func TestFlippedUploadLeavesNothing(t *testing.T) {
	s, direct, p := behindProxy(t)
	p.Set(s3test.When("PUT", "", -1, s3test.FlipUpload))
	if err := s.Replace(t.Context(), seal(t, 1, 50)); err == nil ||
		!strings.Contains(err.Error(), "damaged on the way") {
		t.Errorf("Replace = %v", err)
	}
	if whole(t, direct) {
		t.Error("readers see a window")
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(s.store.StagingFile()), "*.tmp")); len(left) > 0 ||
		err != nil {
		t.Errorf("staging holds %v, %v", left, err)
	}
}

// TestManyRetries has the first request for each object fail: no window takes
// the tries of another.
func TestManyRetries(t *testing.T) {
	s, direct, p := behindProxy(t)
	const windows = 150
	for day := range windows {
		replace(t, direct, sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", day), 1), sinktest.Pages(1)))
	}
	var tries sync.Map
	p.Set(func(p *s3test.Proxy, w http.ResponseWriter, r *http.Request) bool {
		if _, again := tries.LoadOrStore(r.URL.Path, true); again {
			return false
		}
		return s3test.Says(503, "SlowDown", "")(p, w, r)
	})
	n := 0
	for _, err := range s.Revisions(t.Context()) {
		if err != nil {
			t.Error(err)
		}
		n++
	}
	if n != windows {
		t.Errorf("Revisions yields %d windows, want %d", n, windows)
	}
	if requests, connections := p.Seen(); connections > len(requests)/4 {
		t.Errorf("%d connections for %d requests", connections, len(requests))
	}
}

// TestErrorsKeepTheirCause stops in each step and asks for the cause.
func TestErrorsKeepTheirCause(t *testing.T) {
	for _, request := range []string{"PUT /visitors/", "PUT /totals/", "GET /visitors/", "GET "} {
		method, in, _ := strings.Cut(request, " ")
		s, direct, p := behindProxy(t)
		former, next := seal(t, 1, 50), seal(t, 2, 80)
		replace(t, direct, former)
		ctx, cancel := context.WithCancel(t.Context())
		p.Set(s3test.When(method, in, -1, func(p *s3test.Proxy, w http.ResponseWriter, r *http.Request) bool {
			cancel()
			return s3test.Stall(p, w, r)
		}))
		begin := time.Now()
		var err error
		if method == "PUT" {
			err = s.Replace(ctx, next)
		} else {
			for _, err = range s.Revisions(ctx) {
			}
		}
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "context canceled") ||
			time.Since(begin) > s3test.AtOnce {
			t.Errorf("%s = %v after %s", request, err, time.Since(begin))
		}
		whole(t, direct, revOf(former), revOf(next))
		agreed(t, direct, revOf(former), revOf(next))
	}
}
