package exporter_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// large returns a snapshot of that many projects, with windows of four
// granularities and that many pages each.
func large(projects, pages int) view.Snapshot {
	s := view.Snapshot{At: noon, Sinks: []view.Sink{{Name: "parquet"}, {Name: "clickhouse"}}}
	for p := range projects {
		id := fmt.Sprintf("prj_%04d", p)
		s.Projects = append(s.Projects, view.Project{ID: id})
		for _, g := range []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month, "28d"} {
			w := view.Window{Revision: revision(id, g, 6, 7, int64(pages))}
			for i := range int64(pages) {
				path := fmt.Sprintf("/docs/section-%d/a-page-with-a-name-%d", i%7, i)
				w.Pages = append(w.Pages, analytics.Row{Path: path, Human: 1000 - i, AI: 500 - i, Total: 1400 - i})
			}
			s.Windows = append(s.Windows, w)
		}
	}
	return s
}

// sink takes an answer and counts its bytes.
type sink struct {
	header http.Header
	bytes  int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(b []byte) (int, error) { s.bytes += len(b); return len(b), nil }
func (s *sink) WriteHeader(int)             {}

func BenchmarkScrape(b *testing.B) {
	for _, format := range []struct{ name, accept string }{
		{"text", acceptText}, {"openmetrics", acceptOpenMetrics}, {"protobuf", acceptProtobuf},
	} {
		for _, encoding := range []string{"identity", "gzip"} {
			b.Run(format.name+"/"+encoding, func(b *testing.B) { benchmarkScrape(b, format.accept, encoding) })
		}
	}
}

func benchmarkScrape(b *testing.B, accept, encoding string) {
	handler := publish(large(10, 50)).Handler()
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", accept)
	request.Header.Set("Accept-Encoding", encoding)
	handler.ServeHTTP(&sink{header: http.Header{}}, request)
	b.ReportAllocs()
	var got sink
	for b.Loop() {
		got = sink{header: http.Header{}}
		handler.ServeHTTP(&got, request)
	}
	b.ReportMetric(float64(got.bytes), "bytes")
}

// renewals are the ways in which a snapshot follows another.
var renewals = []struct {
	name  string
	renew func(s *view.Snapshot)
}{
	{"time", func(s *view.Snapshot) { s.At = s.At.Add(time.Second) }},
	{"everything", func(s *view.Snapshot) {
		s.At = s.At.Add(time.Second)
		for _, w := range s.Windows {
			for i := range w.Pages {
				p := &w.Pages[i]
				p.Human, p.AI, p.Total = p.Human+1, p.AI+1, p.Total+2
			}
		}
	}},
}

// BenchmarkFirstScrape is that of a snapshot nobody has asked for yet.
func BenchmarkFirstScrape(b *testing.B) {
	for _, r := range renewals {
		b.Run(r.name, func(b *testing.B) {
			s := large(10, 50)
			v := publish(s)
			handler, request := v.Handler(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
			request.Header.Set("Accept", acceptOpenMetrics)
			request.Header.Set("Accept-Encoding", "gzip")
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				r.renew(&s)
				v.Publish(s)
				b.StartTimer()
				handler.ServeHTTP(&sink{header: http.Header{}}, request)
			}
		})
	}
}

func BenchmarkPublish(b *testing.B) {
	for _, r := range renewals {
		b.Run(r.name, func(b *testing.B) {
			s := large(10, 50)
			v := publish(s)
			b.ReportAllocs()
			for b.Loop() {
				r.renew(&s)
				v.Publish(s)
			}
		})
	}
}
