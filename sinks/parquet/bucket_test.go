//go:build unix

package parquet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestMain(m *testing.M) { os.Exit(engines.S3Main(m, os.Getenv(sinktest.ChildPlace) != "")) }

func TestContractBucket(t *testing.T) {
	sinktest.RunMixed(t, func(t *testing.T, reports ...analytics.Report) (sinks.Sink, sinktest.Reader) {
		url, _ := faults.Bucket(t)
		s := open(t, url, reports...)
		return s, reader{t, s}
	})
}

// behindProxy returns a sink on a new bucket that is reached through a proxy, and another on the
// same bucket that is not.
func behindProxy(t *testing.T) (far, direct *Sink, p *engines.S3Proxy) {
	t.Helper()
	store, near, _, p := faults.BehindProxy(t)
	return &Sink{store: store}, &Sink{store: near}, p
}

// TestDamagedOnTheWay flips single bytes of a file on its way at every read: nothing but the
// truth or an error comes of it, and nothing is healed.
func TestDamagedOnTheWay(t *testing.T) {
	for in, w := range map[string]*archive.File{"/visitors/": seal(t, 1, 40_000), "/totals/": sealTotals(t, 1)} {
		s, direct, p := behindProxy(t)
		replace(t, direct, w)
		for at := 1; at < 3000; at += 97 { // bytes from the end, which has the footer
			p.Set(engines.When("GET", in, -1, func(p *engines.S3Proxy, rw http.ResponseWriter, r *http.Request) bool {
				p.Pass(rw, r, func(data []byte) []byte {
					data[len(data)-1-at%len(data)] ^= 2
					return data
				})
				return true
			}))
			for rev, err := range s.Revisions(t.Context()) {
				if err == nil && (in == "/totals/" || !rev.Same(w.Revision())) {
					t.Errorf("%s: byte %d from the end flipped, Revisions yields %+v", in, at, rev)
				}
			}
			if requests, _ := p.Seen(); slices.ContainsFunc(requests,
				func(r string) bool { return !strings.HasPrefix(r, "GET ") }) {
				t.Fatalf("%s: byte %d from the end flipped, requests %q", in, at, requests)
			}
		}
		agreed(t, direct, revOf(w))
	}
}

// TestPrefixes has sinks side by side whose prefixes begin the same, and objects of others.
func TestPrefixes(t *testing.T) {
	server, name := engines.SharedS3(t), engines.S3Bucket(t)
	days := map[string]int{"": 1, "a": 2, "ab": 3, "a/b": 4, "visitors": 5, "visitors/v1": 6, "=!_.*'()-": 7}
	at := func(prefix string) *Sink {
		return open(t, fmt.Sprintf("S3://%s/%s/?Endpoint=%s/&Path_Style=TRUE", name, prefix, server.Endpoint))
	}
	for prefix, day := range days {
		s := at(prefix)
		replace(t, s, sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", day), 1), sinktest.Pages(2)))
		for _, foreign := range []string{"mine.parquet", "visitors/v1/README.md",
			"visitors/v1/p=prj_a/g=day/ym=2026-10/mine.parquet", "_staging/x.tmp"} {
			publish(t, s, foreign, []byte("not ours"))
		}
	}
	for prefix, day := range days {
		var got []analytics.Key
		for rev, err := range at(prefix).Revisions(t.Context()) {
			check(t, err)
			got = append(got, rev.Key)
		}
		if want := []analytics.Key{sinktest.Key("prj_a", day)}; !cmp.Equal(got, want) {
			t.Errorf("prefix %q yields %v, want %v", prefix, got, want)
		}
	}
}

// TestManyRetries has the first request for each object fail: no window takes the tries of
// another.
func TestManyRetries(t *testing.T) {
	s, direct, p := behindProxy(t)
	const windows = 150
	for day := range windows {
		replace(t, direct, sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", day), 1), sinktest.Pages(1)))
	}
	var tries sync.Map
	p.Set(func(p *engines.S3Proxy, w http.ResponseWriter, r *http.Request) bool {
		_, again := tries.LoadOrStore(r.URL.Path, true)
		return !again && engines.S3Says(503, "SlowDown", "")(p, w, r)
	})
	n := 0
	for _, err := range s.Revisions(t.Context()) {
		check(t, err)
		n++
	}
	if requests, connections := p.Seen(); n != windows || connections > len(requests)/4 {
		t.Errorf("%d windows, want %d; %d connections for %d requests", n, windows, connections, len(requests))
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
		p.Set(engines.When(method, in, -1, func(p *engines.S3Proxy, w http.ResponseWriter, r *http.Request) bool {
			cancel()
			return engines.Stall(p, w, r)
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
			time.Since(begin) > engines.AtOnce {
			t.Errorf("%s = %v after %s", request, err, time.Since(begin))
		}
		agreed(t, direct, revOf(former), revOf(next))
	}
}

// TestListReadsOnly: a bucket is asked for lists and objects and nothing else, also where a
// repair is due and where rows are read.
func TestListReadsOnly(t *testing.T) {
	far, near, p := behindProxy(t)
	w := seal(t, 1, 3)
	replace(t, near, w)
	check(t, near.store.Remove(t.Context(), placed(t, totalsTable, w.Revision().Key)))
	p.Set(nil)
	for rev, err := range sinks.List(t.Context(), far) {
		check(t, err)
		_, done, err := far.Window(t.Context(), rev, t.TempDir())
		check(t, err)
		check(t, done())
	}
	requests, _ := p.Seen()
	for _, request := range requests {
		if !strings.HasPrefix(request, "GET ") && !strings.HasPrefix(request, "HEAD ") {
			t.Errorf("List sends %s", request)
		}
	}
	if len(requests) < 3 {
		t.Errorf("requests %v: too few to tell", requests)
	}
}

// busy is a tree in which another process replaces a window just before the second of its files
// is opened.
type busy struct {
	filestore.Store
	opened  int
	replace func()
}

func (b *busy) Open(ctx context.Context, name string) (filestore.File, error) {
	if b.opened++; b.opened == 2 {
		b.replace()
	}
	return b.Store.Open(ctx, name)
}

// TestListWhileAnotherWrites: List shows one reading or the other.
func TestListWhileAnotherWrites(t *testing.T) {
	for name, tc := range map[string]struct{ former, next *archive.File }{
		"rows over rows":        {seal(t, 1, 3), seal(t, 2, 4)},
		"totals only over rows": {seal(t, 1, 3), sealTotals(t, 2)},
		"rows over totals only": {sealTotals(t, 1), seal(t, 2, 3)},
	} {
		writer := open(t, t.TempDir())
		replace(t, writer, tc.former)
		s := &Sink{store: &busy{Store: writer.store, replace: func() { replace(t, writer, tc.next) }}}
		var got []analytics.Revision
		for rev, err := range sinks.List(t.Context(), s) {
			check(t, err)
			got = append(got, rev)
		}
		if len(got) != 1 || got[0].Number != 2 {
			t.Errorf("%s: List yields %+v, want the second reading", name, got)
		}
	}
}

// TestHealingIsAlone keeps a repair and Replace apart: otherwise the file that a repair has seen
// would be another window's file by the time it removes it.
func TestHealingIsAlone(t *testing.T) {
	key := sinktest.Key("prj_a", 0)
	for name, leave := range map[string]func(s *Sink){
		"before the removal": func(s *Sink) {
			replace(t, s, sealTotals(t, 2))
			data, err := os.ReadFile(seal(t, 1, 3).Path())
			check(t, err)
			publish(t, s, placed(t, visitorsTable, key), data)
		},
		"before the totals": func(s *Sink) {
			replace(t, s, seal(t, 1, 3))
			check(t, s.store.Remove(t.Context(), placed(t, totalsTable, key)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, changes := open(t, t.TempDir()), 0
			leave(s)
			tree := s.store
			s.store = faults.Stepping{Store: tree, At: func(string) {
				changes++
				if s.healing.TryRLock() {
					s.healing.RUnlock()
					t.Error("Replace could begin within a repair")
				}
			}}
			agreed(t, s, revOf(seal(t, 1, 3)), revOf(sealTotals(t, 2)))
			s.store = faults.Stepping{Store: tree, At: func(string) {
				changes++
				if s.healing.TryLock() {
					s.healing.Unlock()
					t.Error("a repair could begin within Replace")
				}
			}}
			replace(t, s, seal(t, 3, 3))
			if changes != 6 {
				t.Errorf("%d times before or after a change, want 6", changes)
			}
		})
	}
}

// copying is a context that says when the second chunk of a file is copied.
type copying struct {
	context.Context
	asked int
	at    func(step string)
}

func (c *copying) Err() error {
	if c.asked++; c.asked == 2 {
		c.at("copying")
	}
	return c.Context.Err()
}

// TestCrashChild is not a test itself: TestFaults runs it as a process that kills itself in
// Replace.
func TestCrashChild(t *testing.T) {
	root, w, at := sinktest.InChild(t)
	s := &Sink{store: faults.Stepping{Store: faults.FileStore(t, root), At: at}, reports: analytics.Reports}
	check(t, s.Replace(&copying{Context: t.Context(), at: at}, w))
}

func TestFaults(t *testing.T) {
	of := faults.Files{
		Open: func(store filestore.Store) sinks.Sink { return &Sink{store: store, reports: analytics.Reports} },
		Reader: func(t *testing.T, s sinks.Sink, _ string) sinktest.Reader {
			return reader{t, s.(*Sink)}
		},
		Requests: []string{"PUT /visitors/", "PUT /totals/", "DELETE /visitors/"},
		Steps: []string{"copying", "before visitors file", "after visitors file", "before totals file",
			"after totals file", "after visitors removal"},
		Rows: 40_000, WithRows: 5, TotalsOnly: 3, // its file takes more than one chunk to copy
	}
	faults.RunFiles(t, of)
	t.Run("agents", func(t *testing.T) {
		of.Report, of.Requests = analytics.AgentsReport, []string{"PUT /agents/"}
		of.Steps, of.WithRows = []string{"copying", "before agents file", "after agents file"}, 3
		faults.RunFiles(t, of)
	})
}

// TestStagingOfTheDead: files that a killed process staged for a bucket are removed by the next
// process that stages; files still in use are not.
func TestStagingOfTheDead(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	staging := func(want int, when string) {
		t.Helper()
		if there, err := filepath.Glob(filepath.Join(dir, "docgauge-s3-staging-*")); len(there) != want || err != nil {
			t.Errorf("%s: %v, %v, want %d", when, there, err, want)
		}
	}
	url, _ := faults.Bucket(t)
	living := open(t, url)
	replace(t, living, seal(t, 1, 3))
	for range 2 {
		if !sinktest.Killed(t, sinktest.Child(url, "before visitors file", seal(t, 2, 50))) {
			t.Fatal("the process was not killed")
		}
	}
	staging(2, "the second of the dead swept the first")
	elsewhere, _ := faults.Bucket(t)
	other := open(t, elsewhere)
	replace(t, other, seal(t, 1, 3))
	staging(2, "both that live")
	for _, s := range []*Sink{living, other} {
		replace(t, s, seal(t, 2, 3))
		check(t, s.Close())
	}
	staging(0, "closed")
}

// TestStagingFull has no room for staging files: the message names the place, and the bucket
// does not change.
func TestStagingFull(t *testing.T) {
	dir := faults.MountSmall(t)
	t.Setenv("TMPDIR", dir)
	url, _ := faults.Bucket(t)
	s, former := open(t, url), seal(t, 1, 3)
	replace(t, s, former)
	faults.FillDisk(t, dir+"/ballast")
	err := s.Replace(t.Context(), seal(t, 2, 80))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir+"/docgauge-s3-staging-") {
		t.Errorf("Replace = %v", err)
	}
	agreed(t, s, revOf(former))
	t.Setenv("TMPDIR", dir+"/none")
	other := open(t, "s3://bucket/x?endpoint=http://127.0.0.1:1")
	if err := other.Replace(t.Context(), seal(t, 2, 80)); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("Replace without a place for staging files = %v", err)
	}
}
