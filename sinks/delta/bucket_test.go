package delta

import (
	"errors"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/s3test"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// fewTries is less often than a store sends one request.
const fewTries = 4

// TestBucketFaults does each harm to each request of Replace, a few times and for ever.
// A few faults are survived; if they stay, each table shows one whole revision, and
// Revisions and the next Replace heal the rest. A lost answer to the PUT of an entry
// is not an error of the log, which reads what is there.
func TestBucketFaults(t *testing.T) {
	windows := map[string]struct{ former, next *archive.File }{
		"first":                 {nil, seal(t, 2, 80)},
		"over rows":             {seal(t, 1, 50), seal(t, 2, 80)},
		"totals only over rows": {seal(t, 1, 50), sealTotals(t, 2)},
	}
	faults := map[string]s3test.Meddler{
		"reset before the body": s3test.ResetBefore, "reset in the body": s3test.ResetMiddle,
		"answer lost":  s3test.LoseAnswer,
		"slow down":    s3test.Says(503, "SlowDown", "Please reduce your request rate."),
		"500":          s3test.Says(500, "InternalError", "We failed."),
		"flipped byte": s3test.FlipUpload, "denied": s3test.Says(403, "AccessDenied", "Access Denied"),
	}
	for _, in := range []string{"/visitors/prj_a/", "/totals/prj_a/", "/visitors/_delta_log/", "/totals/_delta_log/"} {
		for fault, m := range faults {
			for name, w := range windows {
				if w.next.Revision().TotalsOnly() && in == "/visitors/prj_a/" {
					continue // no such request
				}
				t.Run(strings.Trim(in, "/")+"/"+fault+"/"+name, func(t *testing.T) {
					harm := func(times int) s3test.Meddler { return s3test.When("PUT", in, times, m) }
					if fault != "denied" {
						survives(t, w.former, w.next, harm(fewTries))
					}
					stays(t, w.former, w.next, harm(-1), fault == "answer lost" && strings.Contains(in, "_delta_log"))
				})
			}
		}
	}
}

// behindProxy returns a sink on a new bucket that is reached through a proxy, another on
// the same bucket that is not, and where the bucket is.
func behindProxy(t *testing.T) (far, direct *Sink, root string, p *s3test.Proxy) {
	t.Helper()
	p = s3test.NewProxy(t)
	direct, root = openBucket(t, "")
	bucket := strings.Split(strings.TrimPrefix(direct.Location(), "s3://"), "/")[0]
	return open(t, s3test.URL(t, bucket, p.URL)), direct, root, p
}

func survives(t *testing.T, former, next *archive.File, harm s3test.Meddler) {
	t.Helper()
	far, direct, root, p := behindProxy(t)
	if former != nil {
		replace(t, direct, former)
	}
	p.Set(harm)
	replace(t, far, next)
	agreed(t, direct, root, revOf(next))
}

func stays(t *testing.T, former, next *archive.File, harm s3test.Meddler, harmless bool) {
	t.Helper()
	for _, by := range []string{"Revisions", "Replace"} {
		far, direct, root, p := behindProxy(t)
		if former != nil {
			replace(t, direct, former)
		}
		p.Set(harm)
		err := far.Replace(t.Context(), next)
		if (err == nil) != harmless {
			t.Fatalf("Replace = %v", err)
		}
		if err != nil {
			s3test.Clean(t, err.Error())
		}
		p.Set(nil)
		visitors, totals := sinktest.Whole(t, reader{root}, revOf(former), revOf(next))
		switch {
		case by == "Replace":
			replace(t, far, next)
			agreed(t, direct, root, revOf(next))
		case visitors+totals > 0:
			agreed(t, direct, root, revOf(former), revOf(next))
		}
	}
}

// TestCheckOfABucket proves each right that is needed and that the store honours the
// condition, and leaves nothing.
func TestCheckOfABucket(t *testing.T) {
	far, direct, root, p := behindProxy(t)
	check(t, far.Check(t.Context()))
	if left := dataFiles(t, root); len(left) > 0 || entries(t, root) != "[0 0]" {
		t.Errorf("Check leaves %q, entries %s", left, entries(t, root))
	}
	p.Set(s3test.When("PUT", "", -1, func(_ *s3test.Proxy, _ http.ResponseWriter, r *http.Request) bool {
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
	s3test.Clean(t, err.Error())
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
	p.Set(func(_ *s3test.Proxy, _ http.ResponseWriter, r *http.Request) bool {
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
	check(t, far.writable(t.Context()))
	if diff := cmp.Diff(map[string]int{"visitors": entries, "totals": entries}, requested); diff != "" {
		t.Errorf("requests for entries (-want +got):\n%s", diff)
	}
}

// TestErrorsHaveNoSecrets: none of those that can be given with the URL, or used.
func TestErrorsHaveNoSecrets(t *testing.T) {
	for _, url := range []string{"s3://key:TOPSECRET@docs/a", "s3://docs/a?secret_access_key=TOPSECRET",
		"s3://docs?endpoint=http://k:TOPSECRET@h"} {
		if _, err := New(Options{URL: url}); err == nil || strings.Contains(err.Error(), "TOPSECRET") {
			t.Errorf("New = %v", err)
		}
	}
	far, _, _, p := behindProxy(t)
	p.Set(s3test.Says(403, "AccessDenied", "Access Denied"))
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
		s3test.Clean(t, err.Error())
	}
}
