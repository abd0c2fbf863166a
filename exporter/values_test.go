package exporter_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// Before the first snapshot a scrape works and has the metrics of the process only.
func TestBeforeTheFirst(t *testing.T) {
	v := new(exporter.Values)
	if v.Load() != nil {
		t.Error("a snapshot before the first")
	}
	for _, accept := range []string{acceptText, acceptOpenMetrics, acceptProtobuf} {
		_, text := scrape(t, v, accept, "gzip")
		if strings.Contains(text, "docgauge_") || !strings.Contains(text, "go_goroutines") ||
			!strings.Contains(text, "process_open_fds") {
			t.Errorf("%s: %s", accept, text)
		}
	}
	v.Publish(rich())
	if got := v.Load(); got == nil || !got.At.Equal(noon) {
		t.Errorf("loaded %v", got)
	}
}

// numbered returns a snapshot whose time and numbers of visitors are n.
func numbered(n int64) view.Snapshot {
	w := view.Window{Revision: revision("p", analytics.Day, 6, 7, n)}
	for i := range 10 {
		w.Pages = append(w.Pages, analytics.Row{Path: fmt.Sprintf("/%d", i), Totals: analytics.Totals{Human: n, AI: n,
			Total: n}})
	}
	return view.Snapshot{At: time.Unix(n, 0), Windows: []view.Window{w}}
}

// While snapshots are published, each of 40 scrapers sees one of them, whole, and never an older
// one than before.
func TestParallelScrapes(t *testing.T) {
	v := publish(numbered(1))
	handler, ctx := v.Handler(), t.Context()
	ctx, cancel := context.WithCancel(ctx)
	var publisher, scrapers sync.WaitGroup
	publisher.Go(func() {
		for n := int64(2); ctx.Err() == nil; n++ {
			v.Publish(numbered(n))
		}
	})
	sample := regexp.MustCompile(`(?m)^docgauge_(?:page_visitors|pages|snapshot_timestamp).* (\S+)$`)
	for i := range 40 {
		request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		request.Header.Set("Accept", []string{acceptText, acceptOpenMetrics}[i%2])
		scrapers.Go(func() {
			last := 0.0
			for range 5 {
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, request)
				all := map[float64]int{}
				for _, m := range sample.FindAllStringSubmatch(answer.Body.String(), -1) {
					n, _ := strconv.ParseFloat(m[1], 64)
					all[n]++
					last = max(last, n)
				}
				if len(all) != 1 || all[last] != 10*3+1+1 {
					t.Errorf("values and their numbers %v in one scrape, after %v", all, last)
				}
			}
		})
	}
	scrapers.Wait()
	cancel()
	publisher.Wait()
}

func TestFormats(t *testing.T) {
	v := publish(rich())
	for accept, contentType := range map[string]string{
		"":                             "text/plain",
		"*/*":                          "text/plain",
		"text/html":                    "text/plain",
		"nonsense;;;":                  "text/plain",
		acceptText:                     "text/plain; version=0.0.4",
		acceptProtobuf:                 "application/vnd.google.protobuf",
		acceptOpenMetrics:              "application/openmetrics-text; version=1.0.0",
		"application/openmetrics-text": "application/openmetrics-text; version=0.0.1",
	} {
		header, text := scrape(t, v, accept, "")
		if got := header.Get("Content-Type"); !strings.HasPrefix(got, contentType) {
			t.Errorf("%s: %s", accept, got)
		}
		if header.Get("Vary") == "" {
			t.Errorf("%s: no Vary", accept)
		}
		end := strings.HasSuffix(text, "# EOF\n")
		if end != strings.HasPrefix(contentType, "application/openmetrics") || strings.Count(text, "# EOF\n") > 1 {
			t.Errorf("%s: the end is wrong", accept)
		}
	}
}

func TestCompression(t *testing.T) {
	handler := publish(rich()).Handler()
	for encoding, compressed := range map[string]bool{
		"": false, "identity": false, "gzip": true, "GZIP": true, "deflate, gzip": true, "gzip;q=0.5": true,
		"br;q=1, gzip; q=0.1": true,
		"gzip;q=0":            false, "gzip;q=0.000, identity": false, "gzip;q=x": false, "zstd": false, "*": false,
		"notgzip": false,
	} {
		request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		request.Header.Set("Accept-Encoding", encoding)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if got := answer.Header().Get("Content-Encoding") == "gzip"; got != compressed {
			t.Errorf("%q: compressed %v", encoding, got)
		}
		if got := bytes.HasPrefix(answer.Body.Bytes(), []byte{0x1f, 0x8b}); got != compressed {
			t.Errorf("%q: compressed body %v", encoding, got)
		}
	}
}

// The two halves of the answer are one member: what some clients stop after.
func TestOneGzipMember(t *testing.T) {
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept-Encoding", "gzip")
	answer := httptest.NewRecorder()
	publish(rich()).Handler().ServeHTTP(answer, request)
	body := bytes.NewReader(answer.Body.Bytes())
	r, err := gzip.NewReader(body)
	must(t, err)
	r.Multistream(false)
	text, err := io.ReadAll(r)
	if err != nil || body.Len() != 0 {
		t.Fatalf("%v, %d bytes left", err, body.Len())
	}
	if all := parse(t, string(text)); all["docgauge_api_foreign_throttles_total"] != 0 || all["go_goroutines"] == 0 ||
		len(all) < 100 {
		t.Errorf("%d series", len(all))
	}
}

// TestEncodedOnce: a snapshot is encoded when it is published, if a scraper has come before, or
// for the first scraper, and not again. Buckets that are taken away afterwards tell which.
func TestEncodedOnce(t *testing.T) {
	for scraped, want := range map[bool]float64{true: 3, false: 0} {
		v, next := publish(rich()), rich()
		if scraped {
			scrape(t, v, acceptText, "gzip")
		}
		v.Publish(next)
		clear(next.Histograms[0].Buckets)
		for range 2 {
			_, text := scrape(t, v, acceptText, "gzip")
			if got := parse(t, text)["docgauge_export_duration_seconds"]; got != want {
				t.Errorf("scraped before %v: %v runs, want %v", scraped, got, want)
			}
			next.Histograms[0].Buckets[0] = 7
		}
	}
}

func TestPickFamilies(t *testing.T) {
	request := httptest.NewRequest(http.MethodGet, "/metrics?name[]=docgauge_pages&name[]=go_goroutines", nil)
	answer := httptest.NewRecorder()
	publish(rich()).Handler().ServeHTTP(answer, request)
	if all := parse(t, answer.Body.String()); len(all) != 4 {
		t.Errorf("picked %v", all)
	}
}

// Scrapers that read nothing take slots; when none is left the next gets 503, until one ends.
func TestTooManyScrapes(t *testing.T) {
	handler := publish(rich()).Handler()
	stuck := &stuck{arrived: make(chan struct{}), release: make(chan struct{})}
	var all sync.WaitGroup
	for range exporter.MaxInFlight {
		all.Go(func() { handler.ServeHTTP(stuck, httptest.NewRequest(http.MethodGet, "/metrics", nil)) })
	}
	for range exporter.MaxInFlight {
		<-stuck.arrived
	}
	status := func() int {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return answer.Code
	}
	if got := status(); got != http.StatusServiceUnavailable {
		t.Errorf("status %d", got)
	}
	close(stuck.release)
	all.Wait()
	if got := status(); got != http.StatusOK {
		t.Errorf("status %d after they were gone", got)
	}
}

// stuck is a connection whose other end reads nothing until it is released.
type stuck struct{ arrived, release chan struct{} }

func (s *stuck) Header() http.Header { return http.Header{} }
func (s *stuck) WriteHeader(int)     {}
func (s *stuck) Write([]byte) (int, error) {
	s.arrived <- struct{}{}
	<-s.release
	return 0, errors.New("gone")
}

// TestReloaded: the result of a reload is shown at once, beside values that stay, and in every snapshot after it; a
// refused reload leaves the time of the last success.
func TestReloaded(t *testing.T) {
	v := publish(rich())
	shown := func(successful, at float64) {
		t.Helper()
		_, text := scrape(t, v, acceptText, "")
		if !strings.Contains(text, fmt.Sprintf("docgauge_config_last_reload_successful %v\n", successful)) ||
			!strings.Contains(text, fmt.Sprintf("docgauge_config_last_reload_success_timestamp_seconds %v\n", at)) ||
			!strings.Contains(text, `docgauge_pages{project="prj_a",window="day"} 3`) {
			t.Errorf("want %v, at %v:\n%s", successful, at, own(text))
		}
	}
	v.Reloaded(true, time.Unix(1000, 0))
	shown(1, 1000)
	v.Reloaded(false, time.Unix(2000, 0))
	shown(0, 1000)
	v.Publish(rich())
	shown(0, 1000)
	v.Reloaded(true, time.Unix(3000, 0))
	shown(1, 3000)
}

// BenchmarkScrape scrapes a window of each of 10 projects and 4 granularities with 50 pages: the same snapshot in three
// formats, and a snapshot with new numbers each time.
func BenchmarkScrape(b *testing.B) {
	snapshot := func(n int) view.Snapshot {
		s := view.Snapshot{At: noon.Add(time.Duration(n) * time.Second)}
		for p := range 10 {
			for _, g := range []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month, "28d"} {
				w := view.Window{Revision: revision(fmt.Sprintf("prj_%02d", p), g, 6, 7, 50)}
				for i := range w.Rows {
					w.Pages = append(w.Pages, analytics.Row{Path: fmt.Sprintf("/docs/guides/%d", i),
						Totals: analytics.Totals{Human: 9000 + int64(n) - i, AI: 500, Total: 9400 + int64(n) - i}})
				}
				s.Windows = append(s.Windows, w)
			}
		}
		return s
	}
	for _, c := range []struct{ name, accept, encoding string }{
		{"openmetrics", acceptOpenMetrics, "gzip"}, {"protobuf", acceptProtobuf, "gzip"}, {"text", acceptText, "identity"},
	} {
		b.Run(c.name, func(b *testing.B) {
			v := publish(snapshot(0))
			for b.Loop() {
				scrape(b, v, c.accept, c.encoding)
			}
		})
	}
	b.Run("new numbers", func(b *testing.B) {
		n, v := 0, publish(snapshot(0))
		for b.Loop() {
			b.StopTimer()
			n++
			next := snapshot(n)
			b.StartTimer()
			v.Publish(next)
			scrape(b, v, acceptOpenMetrics, "gzip")
		}
	})
}
