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
	"github.com/docgauge/docgauge/internal/dev/s3test"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestDownloadFaults survives one and reports those that stay; no file is left,
// and the bytes are the published ones.
func TestDownloadFaults(t *testing.T) {
	w := seal(t, 1, 40_000)
	want, err := os.ReadFile(w.Path())
	check(t, err)
	for name, tc := range map[string]struct {
		meddle s3test.Meddler
		want   string
	}{
		"cut":          {s3test.CutDownload, "broke off"},
		"flipped byte": {s3test.FlipDownload, "SHA-256"},
		"reset":        {s3test.ResetBefore, "cannot be reached"},
		"slow down":    {s3test.Says(503, "SlowDown", "Please reduce your request rate."), "slow down"},
		"HTML": {s3test.Page(200, "text/html",
			"<!DOCTYPE html>\n<html><body><h1>Welcome</h1><br></body></html>"), "not an S3 server"},
	} {
		t.Run(name, func(t *testing.T) {
			s, direct, p := behindProxy(t)
			replace(t, direct, w)
			dir := t.TempDir()
			if name != "HTML" {
				p.Set(s3test.When("GET", ".parquet", 2, tc.meddle))
				got, done, err := s.Window(t.Context(), w.Revision(), dir)
				check(t, err)
				if data, err := os.ReadFile(got.(*archive.File).Path()); err != nil || !slices.Equal(data, want) {
					t.Errorf("what is fetched is not what was published: %v", err)
				}
				if err := done(); err != nil {
					t.Error(err)
				}
				p.Set(s3test.When("GET", ".parquet", 2, tc.meddle))
				agreed(t, s, revOf(w))
			}
			p.Set(s3test.When("GET", ".parquet", -1, tc.meddle))
			if _, _, err := s.Window(t.Context(), w.Revision(), dir); err == nil ||
				!strings.Contains(err.Error(), tc.want) {
				t.Errorf("Window = %v", err)
			} else {
				t.Log(err)
				s3test.Clean(t, err.Error())
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
		p.Set(s3test.When("GET", "/visitors/", -1, func(p *s3test.Proxy, rw http.ResponseWriter, r *http.Request) bool {
			p.Pass(rw, r, func(data []byte) []byte { data[len(data)-at] ^= 2; return data })
			return true
		}))
		for rev, err := range s.Revisions(t.Context()) {
			if err == nil && !rev.Same(w.Revision()) {
				t.Errorf("byte %d from the end flipped, Revisions yields %+v", at, rev)
			}
		}
		if requests, _ := p.Seen(); slices.ContainsFunc(requests,
			func(r string) bool { return !strings.HasPrefix(r, "GET ") }) {
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
		p.Set(s3test.When("GET", "/totals/", -1, func(p *s3test.Proxy, rw http.ResponseWriter, r *http.Request) bool {
			p.Pass(rw, r, func(data []byte) []byte { data[at%len(data)] ^= 2; return data })
			return true
		}))
		for rev, err := range s.Revisions(t.Context()) {
			if err == nil {
				t.Errorf("byte %d flipped, Revisions yields %+v", at, rev)
			}
		}
	}
}

// TestEmptyObject is an object of ours that was emptied.
func TestEmptyObject(t *testing.T) {
	s, _, _ := behindProxy(t)
	w := seal(t, 1, 3)
	replace(t, s, w)
	name, _ := place(visitorsTable, w.Revision().Key)
	check(t, put(t, s, name, ""))
	for _, err := range s.Revisions(t.Context()) {
		if err == nil {
			t.Error("Revisions takes an empty object")
			continue
		}
		t.Log(err)
		s3test.Clean(t, err.Error())
	}
}

// put puts an object under any name.
func put(t *testing.T, s *Sink, name, text string) error {
	t.Helper()
	staged := filepath.Join(t.TempDir(), "staged")
	return errors.Join(os.WriteFile(staged, []byte(text), 0o600), s.store.Publish(t.Context(), staged, name))
}

// TestPrefixes has sinks side by side whose prefixes begin the same, and
// objects of others.
func TestPrefixes(t *testing.T) {
	server, name := s3test.Server(t), s3test.NewBucket(t)
	days := map[string]int{"": 1, "a": 2, "ab": 3, "a/b": 4, "visitors": 5, "visitors/v1": 6, "=!_.*'()-": 7}
	open := func(prefix string) *Sink {
		s := newSink(t, fmt.Sprintf("S3://%s/%s/?Endpoint=%s/&Path_Style=TRUE", name, prefix, server.Endpoint))
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	for prefix, day := range days {
		s := open(prefix)
		replace(t, s, sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", day), 1), sinktest.Pages(2)))
		for _, foreign := range []string{"mine.parquet", "visitors/v1/README.md",
			"visitors/v1/p=prj_a/g=day/ym=2026-10/mine.parquet", "_staging/x.tmp"} {
			check(t, put(t, s, foreign, "not ours"))
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
	p.Set(func(_ *s3test.Proxy, _ http.ResponseWriter, r *http.Request) bool {
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
	p.Set(s3test.When("DELETE", "", -1, s3test.Says(404, "NoSuchKey", "The specified key does not exist.")))
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
		check(t, err)
		replace(t, s, seal(t, 3, 80))
		n := int64(0)
		for _, err := range got.Rows() {
			check(t, err)
			n++
		}
		if !got.Revision().Same(w.Revision()) || n != max(0, w.Revision().Rows) {
			t.Errorf("the window is %+v with %d rows after it was replaced", got.Revision(), n)
		}
		if err := done(); err != nil {
			t.Error(err)
		}
	}
	gone := sinktest.Revision(sinktest.Key("prj_a", 9), 1)
	if _, _, err := s.Window(t.Context(), gone, dir); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "gone since it was listed") {
		t.Errorf("Window of nothing = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if strings.HasPrefix(s.Location(), "s3:") {
		if _, _, err := s.Window(ctx, seal(t, 3, 80).Revision(), dir); !errors.Is(err, context.Canceled) {
			t.Errorf("Window after cancel = %v", err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
