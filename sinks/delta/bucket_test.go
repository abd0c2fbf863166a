//go:build unix

package delta

import (
	"errors"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestFaults(t *testing.T) {
	of := faults.Files{
		Open: func(store filestore.Store) sinks.Sink {
			return newSink(Options{Now: time.Now, Version: "1.2.3", Reports: analytics.Reports}, store)
		},
		Reader: func(_ *testing.T, _ sinks.Sink, root string) sinktest.Reader { return reader{root} },
		Requests: []string{"PUT /visitors/prj_a/", "PUT /totals/prj_a/", "PUT /visitors/_delta_log/",
			"PUT /totals/_delta_log/"},
		Resolves: "_delta_log",
		// The second entry of visitors is that which removes the file of a former revision.
		Steps: []string{
			"before visitors file", "after visitors file", "before totals file", "after totals file",
			"before visitors entry", "after visitors entry", "before totals entry", "after totals entry",
		},
		Rows: 80, WithRows: 8, TotalsOnly: 6, Healed: 2,
	}
	faults.RunFiles(t, of)
	t.Run("agents", func(t *testing.T) {
		of.Report, of.Requests = analytics.AgentsReport, []string{"PUT /agents/prj_a/", "PUT /agents/_delta_log/"}
		of.Steps = []string{"before agents file", "after agents file", "before agents entry", "after agents entry"}
		of.WithRows, of.Healed = 4, 0
		faults.RunFiles(t, of)
	})
}

// TestCrashChild is not a test itself: TestFaults runs it as a process that kills itself in
// Replace.
func TestCrashChild(t *testing.T) {
	root, w, at := sinktest.InChild(t)
	replace(t, stepped(open(t, root, analytics.AgentsReport), at), w)
}

// behindProxy returns a sink on a new bucket that is reached through a proxy, another on the same
// bucket that is not, and where the bucket is.
func behindProxy(t *testing.T) (far, direct *Sink, root string, p *engines.S3Proxy) {
	t.Helper()
	store, near, root, p := faults.BehindProxy(t)
	return withStore(store), withStore(near), root, p
}

// TestCheckOfABucket proves each right that is needed and that the store honours the
// condition, and leaves nothing.
func TestCheckOfABucket(t *testing.T) {
	far, direct, root, p := behindProxy(t)
	check(t, far.Check(t.Context()))
	if left := dataFiles(root); len(left) > 0 || entries(t, root) != "[0 0]" {
		t.Errorf("Check leaves %q, entries %s", left, entries(t, root))
	}
	p.Set(engines.When("PUT", "", -1, func(_ *engines.S3Proxy, _ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("If-None-Match") != "" { // the signature covers it, so the object is removed instead
			_, name, _ := strings.Cut(r.URL.Path, "/docs/gauge/")
			check(t, direct.store.Remove(t.Context(), name))
		}
		return false
	}))
	err := far.Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "ignores If-None-Match") ||
		!strings.Contains(err.Error(), far.Location()) {
		t.Fatalf("Check = %v", err)
	}
	engines.S3Clean(t, err.Error())
}

// TestLogIsReadTogether: no entry of a log is answered before all are requested.
func TestLogIsReadTogether(t *testing.T) {
	far, direct, _, p := behindProxy(t)
	const entries = 6
	for revision := range int32(entries) {
		replace(t, direct, seal(t, revision+1, 3))
	}
	var mu sync.Mutex
	requested, all := map[string]int{},
		map[string]chan struct{}{"visitors": make(chan struct{}), "totals": make(chan struct{})}
	p.Set(func(_ *engines.S3Proxy, _ http.ResponseWriter, r *http.Request) bool {
		log, _, _ := strings.Cut(r.URL.Path, "/_delta_log/")
		table := path.Base(log)
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, ".json") || all[table] == nil {
			return false
		}
		mu.Lock()
		if requested[table]++; requested[table] == entries {
			close(all[table])
		}
		mu.Unlock()
		select {
		case <-all[table]:
		case <-time.After(testbed.Patience):
			t.Errorf("%s: %d of %d entries are requested together", table, requested[table], entries)
		}
		return false
	})
	check(t, far.datasets[0].writable(t.Context()))
	if diff := cmp.Diff(map[string]int{"visitors": entries, "totals": entries}, requested); diff != "" {
		t.Errorf("requests for entries (-want +got):\n%s", diff)
	}
}

// TestNothingAfterTheCommit: once a window's totals are in the log, nothing can fail its Replace.
func TestNothingAfterTheCommit(t *testing.T) {
	far, _, _, p := behindProxy(t)
	var committed atomic.Bool
	p.Set(func(_ *engines.S3Proxy, _ http.ResponseWriter, r *http.Request) bool {
		if committed.Load() {
			t.Errorf("%s %s after the commit", r.Method, r.URL)
		}
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/totals/_delta_log/") {
			committed.Store(true)
		}
		return false
	})
	replace(t, far, seal(t, 1, 3))
}

// TestErrorsHaveNoSecrets: errors of a server name the place, and no secret.
func TestErrorsHaveNoSecrets(t *testing.T) {
	far, _, _, p := behindProxy(t)
	p.Set(engines.S3Says(403, "AccessDenied", "Access Denied"))
	_, _, werr := far.Window(t.Context(), seal(t, 1, 3).Revision(), t.TempDir())
	_, cerr := far.Collect(t.Context(), false)
	errs := map[string]error{
		"Replace": far.Replace(t.Context(), seal(t, 1, 3)), "Check": far.Check(t.Context()), "Window": werr,
		"Collect": cerr,
	}
	for _, err := range far.Revisions(t.Context()) {
		errs["Revisions"] = errors.Join(errs["Revisions"], err)
	}
	for call, err := range errs {
		if err == nil || !strings.Contains(err.Error(), far.Location()[:len("s3://bucket-")]) {
			t.Errorf("%s = %v", call, err)
			continue
		}
		engines.S3Clean(t, err.Error())
	}
}
