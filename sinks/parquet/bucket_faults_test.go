package parquet

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestBucketFaults does each harm to each request of Replace, once and for
// ever. One fault is survived; if it stays, readers see whole files, and
// Revisions and the next Replace heal what was left.
func TestBucketFaults(t *testing.T) {
	windows := map[string]struct{ former, next *archive.File }{
		"first":                 {nil, seal(t, 2, 80)},
		"over rows":             {seal(t, 1, 50), seal(t, 2, 80)},
		"over totals only":      {sealTotals(t, 1), seal(t, 2, 80)},
		"totals only over rows": {seal(t, 1, 50), sealTotals(t, 2)},
	}
	faults := map[string]meddler{
		"reset before the body": resetBefore, "reset in the body": resetMiddle, "answer lost": resetAfter,
		"slow down": says(503, "SlowDown", "Please reduce your request rate."), "500": says(500, "InternalError", "We failed."),
		"flipped byte": flipUpload,
	}
	for _, request := range []string{"PUT " + visitorsTable, "PUT " + totalsTable, "DELETE " + visitorsTable} {
		for fault, m := range faults {
			for name, w := range windows {
				method, table, _ := strings.Cut(request, " ")
				if w.next.Revision().TotalsOnly() == (request == "PUT "+visitorsTable) || !w.next.Revision().TotalsOnly() && method == "DELETE" ||
					method == "DELETE" && fault == "flipped byte" {
					continue // no such request, or no body
				}
				t.Run(request+"/"+fault+"/"+name, func(t *testing.T) {
					survives(t, w.former, w.next, func(times int) meddler { return when(method, "/"+table+"/", times, m) })
				})
			}
		}
	}
}

func survives(t *testing.T, former, next *archive.File, fault func(times int) meddler) {
	s, direct, p := behindProxy(t)
	begin := func() {
		if former != nil {
			replace(t, direct, former)
		}
	}
	begin()
	p.set(fault(requestTries - 1))
	replace(t, s, next)
	agreed(t, direct, revOf(next))

	for _, heal := range []func(){
		func() { agreed(t, direct, revOf(former), revOf(next)) },
		func() { replace(t, direct, next); agreed(t, direct, revOf(next)) },
	} {
		empty(t, direct)
		begin()
		p.set(fault(-1))
		err := s.Replace(t.Context(), next)
		if err == nil {
			t.Fatal("Replace = nil")
		}
		clean(t, err.Error())
		if requests, _ := p.seen(); len(requests) > 2*requestTries {
			t.Errorf("%d requests", len(requests))
		}
		if left := whole(t, direct, revOf(former), revOf(next)); len(left) > 0 {
			heal()
		}
	}
}

// empty removes every object of s.
func empty(t *testing.T, s *Sink) {
	t.Helper()
	var names []string
	if err := s.tree.list(t.Context(), "", func(name string) { names = append(names, name) }); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := s.tree.remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
}

// clean fails if text is not one sentence for people.
func clean(t *testing.T, text string) {
	t.Helper()
	for _, bad := range []string{"\n", "operation error", "X-Amz-", "https response error", "RequestID", "exceeded maximum", shared.server.SecretKey} {
		if strings.Contains(text, bad) {
			t.Errorf("the message has %q in it: %s", bad, text)
		}
	}
}

// TestFlippedUploadLeavesNothing sends a damaged body into an empty bucket.
func TestFlippedUploadLeavesNothing(t *testing.T) {
	s, direct, p := behindProxy(t)
	p.set(when("PUT", "", -1, flipUpload))
	if err := s.Replace(t.Context(), seal(t, 1, 50)); err == nil || !strings.Contains(err.Error(), "damaged on the way") {
		t.Errorf("Replace = %v", err)
	}
	if left := whole(t, direct); len(left) > 0 {
		t.Errorf("the bucket holds %v", left)
	}
	if left, err := filepath.Glob(filepath.Join(s.tree.(*bucket).temp.Path, "*"+stagedSuffix)); len(left) > 0 || err != nil {
		t.Errorf("staging holds %v, %v", left, err)
	}
}

// TestPutCarriesSums looks at what a server and a reader can check.
func TestPutCarriesSums(t *testing.T) {
	s, _, p := behindProxy(t)
	w := seal(t, 1, 50)
	data, err := os.ReadFile(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	short, long := md5.Sum(data), sha256.Sum256(data) //nolint:gosec // what Content-MD5 is
	var got http.Header
	p.set(when("PUT", "/visitors/", 1, func(_ *proxy, _ http.ResponseWriter, r *http.Request) bool {
		got = r.Header.Clone()
		return false
	}))
	replace(t, s, w)
	for name, want := range map[string]string{
		"Content-MD5":                base64.StdEncoding.EncodeToString(short[:]),
		"X-Amz-Content-Sha256":       hex.EncodeToString(long[:]),
		"X-Amz-Meta-Sha256":          hex.EncodeToString(long[:]),
		"X-Amz-Meta-Sha256-Last-64k": hex.EncodeToString(long[:]),
	} {
		if got.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Get(name), want)
		}
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
	p.set(func(p *proxy, w http.ResponseWriter, r *http.Request) bool {
		if _, again := tries.LoadOrStore(r.URL.Path, true); again {
			return false
		}
		return says(503, "SlowDown", "")(p, w, r)
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
	if requests, connections := p.seen(); connections > len(requests)/4 {
		t.Errorf("%d connections for %d requests", connections, len(requests))
	}
}

// TestTLS trusts the certificates of AWS_CA_BUNDLE and no others. The signature
// does not cover the body then, but its MD5 does.
func TestTLS(t *testing.T) {
	p := proxyTo(t)
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.StartTLS()
	stranger, _ := newBucketSink(t, p.URL)
	failsAll(t, impatient(stranger), "AWS_CA_BUNDLE")

	bundle := filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	if err := os.WriteFile(bundle, data, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CA_BUNDLE", bundle)
	s, name := newBucketSink(t, p.URL)
	impatient(s)
	w := seal(t, 1, 50)
	p.set(when("PUT", "", -1, flipUpload))
	if err := s.Replace(t.Context(), w); err == nil || !strings.Contains(err.Error(), "damaged on the way") {
		t.Errorf("Replace = %v", err)
	}
	direct := openBucket(t, name)
	if left := whole(t, direct); len(left) > 0 {
		t.Errorf("the bucket holds %v", left)
	}
	p.set(when("PUT", "", 1, flipUpload))
	replace(t, s, w)
	agreed(t, s, revOf(w))
	agreed(t, direct, revOf(w))
}
