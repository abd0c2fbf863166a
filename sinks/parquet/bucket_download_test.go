package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestDownloadFaults survives one and reports those that stay; no file is left,
// and what is given is what was published.
func TestDownloadFaults(t *testing.T) {
	w := seal(t, 1, 40_000)
	want, err := os.ReadFile(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		meddle meddler
		want   string
	}{
		"cut":          {cutDownload, "broke off"},
		"flipped byte": {flipDownload, "SHA-256"},
		"reset":        {resetBefore, "cannot be reached"},
		"slow down":    {says(503, "SlowDown", "Please reduce your request rate."), "slow down"},
		"HTML":         {page(200, "text/html", html), "not an S3 server"},
	} {
		t.Run(name, func(t *testing.T) {
			s, direct, p := behindProxy(t)
			replace(t, direct, w)
			dir := t.TempDir()
			if name != "HTML" {
				p.set(when("GET", ".parquet", 2, tc.meddle))
				got, done, err := s.Window(t.Context(), w.Revision(), dir)
				if err != nil {
					t.Fatal(err)
				}
				if data, err := os.ReadFile(got.(*archive.File).Path()); err != nil || !slices.Equal(data, want) {
					t.Errorf("what is fetched is not what was published: %v", err)
				}
				if err := done(); err != nil {
					t.Error(err)
				}
				p.set(when("GET", ".parquet", 2, tc.meddle))
				agreed(t, s, revOf(w))
			}
			p.set(when("GET", ".parquet", -1, tc.meddle))
			if _, _, err := s.Window(t.Context(), w.Revision(), dir); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Window = %v", err)
			} else {
				t.Log(err)
				clean(t, err.Error())
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			for rev, err := range s.Revisions(t.Context()) {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("Revisions yields %+v, %v", rev, err)
				}
			}
			agreed(t, direct, revOf(w))
		})
	}
}

// TestDamagedFooter flips single bytes of the end of a large visitors file, on
// its way at every read: nothing but the truth or an error comes of it, and
// nothing is healed.
func TestDamagedFooter(t *testing.T) {
	s, direct, p := behindProxy(t)
	w := seal(t, 1, 40_000)
	replace(t, direct, w)
	for at := 1; at < 3000; at += 97 {
		p.set(when("GET", "/visitors/", -1, func(p *proxy, rw http.ResponseWriter, r *http.Request) bool {
			p.pass(rw, r, func(data []byte) []byte { data[len(data)-at] ^= 2; return data })
			return true
		}))
		for rev, err := range s.Revisions(t.Context()) {
			if err == nil && !same(rev, w.Revision()) {
				t.Errorf("byte %d from the end flipped, Revisions yields %+v", at, rev)
			}
		}
		if requests, _ := p.seen(); slices.ContainsFunc(requests, func(r string) bool { return !strings.HasPrefix(r, "GET ") }) {
			t.Fatalf("byte %d from the end flipped, requests %q", at, requests)
		}
	}
	agreed(t, direct, revOf(w))
}

// TestDamagedTotals flips each byte of a totals file, on its way at every read.
func TestDamagedTotals(t *testing.T) {
	s, direct, p := behindProxy(t)
	w := sealTotals(t, 1)
	replace(t, direct, w)
	for at := 7; at < 2000; at += 41 {
		p.set(when("GET", "/totals/", -1, func(p *proxy, rw http.ResponseWriter, r *http.Request) bool {
			p.pass(rw, r, func(data []byte) []byte { data[at%len(data)] ^= 2; return data })
			return true
		}))
		for rev, err := range s.Revisions(t.Context()) {
			if err == nil {
				t.Errorf("byte %d flipped, Revisions yields %+v", at, rev)
			}
		}
	}
}

// TestServerIgnoresRanges gives whole objects where a part was asked for.
func TestServerIgnoresRanges(t *testing.T) {
	s, _, p := behindProxy(t)
	w := seal(t, 1, 40_000)
	p.set(func(_ *proxy, rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("ETag", `"x"`)
		data, _ := os.ReadFile(w.Path())
		_, _ = rw.Write(data)
		return true
	})
	name, _ := place(visitorsTable, w.Revision().Key)
	f, err := s.tree.open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if rev, err := archive.ReadRevision(f, f.Size()); err != nil || !same(rev, w.Revision()) {
		t.Errorf("read %+v, %v", rev, err)
	}
	data, _ := os.ReadFile(w.Path())
	tail := &object{tail: part{size: f.Size(), off: f.Size()}, ctx: t.Context(), bucket: s.tree.(*bucket), name: name}
	got := make([]byte, 100)
	if n, err := tail.ReadAt(got, 1000); n != 100 || err != nil || !slices.Equal(got, data[1000:1100]) {
		t.Errorf("ReadAt = %d, %v, or the wrong bytes", n, err)
	}
}

// TestReadAt reads an object at random places as if it were a file.
func TestReadAt(t *testing.T) {
	s, _, _ := behindProxy(t)
	w := seal(t, 1, 40_000)
	replace(t, s, w)
	want, err := os.ReadFile(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	name, _ := place(visitorsTable, w.Revision().Key)
	f, err := s.tree.open(t.Context(), name)
	if err != nil || f.Size() != int64(len(want)) || len(want) <= tailBytes {
		t.Fatalf("open = %d bytes of %d, %v", f.Size(), len(want), err)
	}
	local, err := os.Open(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	size := int64(len(want))
	for _, off := range []int64{0, 1, 1000, size - tailBytes - 1, size - tailBytes, size - tailBytes + 1, size - 1, size, size + 1} {
		for _, n := range []int{1, 10, 100_000, len(want) + 1} {
			here, there := make([]byte, n), make([]byte, n)
			k, kerr := local.ReadAt(here, off)
			l, lerr := f.ReadAt(there, off)
			if k != l || !errors.Is(lerr, kerr) || !slices.Equal(here[:k], there[:l]) {
				t.Errorf("ReadAt of %d at %d: a file gives %d, %v, the object %d, %v", n, off, k, kerr, l, lerr)
			}
		}
	}
}

// TestReplacedWhileRead never mixes two versions of an object.
func TestReplacedWhileRead(t *testing.T) {
	s, _, _ := behindProxy(t)
	replace(t, s, seal(t, 1, 40_000))
	name, _ := place(visitorsTable, sinktest.Key("prj_a", 0))
	f, err := s.tree.open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, s, seal(t, 2, 50_000))
	if _, err := f.ReadAt(make([]byte, 10), 0); err == nil || !strings.Contains(err.Error(), "replaced while it was read") {
		t.Errorf("ReadAt = %v", err)
	}
}

// TestEmptyObject is an object of ours that somebody emptied.
func TestEmptyObject(t *testing.T) {
	s, _, _ := behindProxy(t)
	w := seal(t, 1, 3)
	replace(t, s, w)
	name, _ := place(visitorsTable, w.Revision().Key)
	if err := s.tree.(*bucket).put(t.Context(), name, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	for _, err := range s.Revisions(t.Context()) {
		if err == nil {
			t.Error("Revisions takes an empty object")
			continue
		}
		t.Log(err)
		clean(t, err.Error())
	}
}

// TestManyObjects pages through more than one answer of a list.
func TestManyObjects(t *testing.T) {
	s, name := newBucketSink(t, "")
	dir := filepath.Join(shared.dir, "buckets", name, "docs", "gauge", "visitors", "v1")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for i := range 2100 {
		file := fmt.Sprintf("%04d", i)
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		want["visitors/v1/"+file] = true
	}
	got := map[string]bool{}
	if err := s.tree.list(t.Context(), "visitors/v1", func(name string) { got[name] = true }); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%d objects listed of %d, %v", len(got), len(want), err)
	}
}

// TestPrefixes has sinks side by side whose prefixes begin the same, and
// objects of others.
func TestPrefixes(t *testing.T) {
	server := s3server(t)
	name := fmt.Sprintf("bucket-%d", shared.count.Add(1))
	if err := server.CreateBucket(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	days := map[string]int{"": 1, "a": 2, "ab": 3, "a/b": 4, "visitors": 5, "visitors/v1": 6, "=!_.*'()-": 7}
	open := func(prefix string) *Sink {
		s := newSink(t, fmt.Sprintf("S3://%s/%s/?Endpoint=%s/&Path_Style=TRUE", name, prefix, server.Endpoint))
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	for prefix, day := range days {
		s := open(prefix)
		replace(t, s, sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", day), 1), sinktest.Pages(2)))
		for _, foreign := range []string{"mine.parquet", "visitors/v1/README.md", "visitors/v1/p=prj_a/g=day/ym=2026-10/mine.parquet", "_staging/x.tmp"} {
			if err := s.tree.(*bucket).put(t.Context(), foreign, strings.NewReader("not ours")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for prefix, day := range days {
		var got []analytics.Key
		for rev, err := range open(prefix).Revisions(t.Context()) {
			if err != nil {
				t.Errorf("prefix %q: %v", prefix, err)
			}
			got = append(got, rev.Key)
		}
		if want := []analytics.Key{sinktest.Key("prj_a", day)}; !cmp.Equal(got, want) {
			t.Errorf("prefix %q yields %v, want %v", prefix, got, want)
		}
	}
}

// TestHeaderChangedOnTheWay is what Google's servers do to requests.
func TestHeaderChangedOnTheWay(t *testing.T) {
	s, direct, p := behindProxy(t)
	p.set(func(_ *proxy, _ http.ResponseWriter, r *http.Request) bool {
		r.Header.Set("Accept-Encoding", "gzip,gzip(gfe)")
		return false
	})
	w := seal(t, 1, 3)
	replace(t, s, w)
	replace(t, s, sealTotals(t, 2))
	replace(t, s, w)
	agreed(t, s, revOf(w))
	agreed(t, direct, revOf(w))
}

// TestDeleteOfNothing is an error on some servers.
func TestDeleteOfNothing(t *testing.T) {
	s, _, p := behindProxy(t)
	w := sealTotals(t, 1)
	replace(t, s, w)
	p.set(when("DELETE", "", -1, says(404, "NoSuchKey", "The specified key does not exist.")))
	replace(t, s, w)
	agreed(t, s, revOf(w))
}

// TestWindowOfBucket gives files that stay, of windows of both kinds, and tells
// of one that vanished.
func TestWindowOfBucket(t *testing.T) {
	s, _, _ := behindProxy(t)
	stays(t, s)
}

func stays(t *testing.T, s *Sink) {
	t.Helper()
	dir := t.TempDir()
	for _, w := range []*archive.File{seal(t, 1, 50), sealTotals(t, 2)} {
		replace(t, s, w)
		got, done, err := s.Window(t.Context(), w.Revision(), dir)
		if err != nil {
			t.Fatal(err)
		}
		replace(t, s, seal(t, 3, 80))
		n := int64(0)
		for _, err := range got.Rows() {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if !same(got.Revision(), w.Revision()) || n != max(0, w.Revision().Rows) {
			t.Errorf("the window is %+v with %d rows after it was replaced", got.Revision(), n)
		}
		if err := done(); err != nil {
			t.Error(err)
		}
	}
	gone := sinktest.Revision(sinktest.Key("prj_a", 9), 1)
	if _, _, err := s.Window(t.Context(), gone, dir); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "gone since it was listed") {
		t.Errorf("Window of nothing = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, isBucket := s.tree.(*bucket); isBucket {
		if _, _, err := s.Window(ctx, seal(t, 3, 80).Revision(), dir); !errors.Is(err, context.Canceled) {
			t.Errorf("Window after cancel = %v", err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
