package exporter

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

func benchSnapshot(projects, windows, pages int) Snapshot {
	grans := []analytics.Granularity{"day", "week", "month", "28d"}
	s := Snapshot{At: time.Now(), Sinks: []Sink{{Name: "parquet"}, {Name: "clickhouse"}}}
	for p := range projects {
		id := fmt.Sprintf("prj_%04d", p)
		s.Projects = append(s.Projects, Project{ID: id})
		for _, g := range grans[:windows] {
			w := Window{Revision: analytics.Revision{Key: analytics.Key{Project: id, Granularity: g, Window: analytics.Window{From: 20000, To: 20001}}, Rows: 1000}}
			for i := range pages {
				w.Pages = append(w.Pages, analytics.Row{Path: fmt.Sprintf("/docs/section-%d/some-longer-page-name-%d", i%7, i), Human: int64(1000 - i), AI: int64(500 - i*3), Total: int64(1400 - i*2)})
			}
			s.Windows = append(s.Windows, w)
		}
	}
	return s
}

type discard struct {
	h http.Header
	n int
}

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { d.n += len(b); return len(b), nil }
func (d *discard) WriteHeader(int)             {}

func BenchmarkScrape(b *testing.B) {
	var v Values
	v.Publish(benchSnapshot(10, 4, 50))
	h := v.Handler()
	for _, enc := range []string{"identity", "gzip"} {
		for _, acc := range []string{"text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"} {
			b.Run(enc+"/"+acc[:20], func(b *testing.B) {
				b.ReportAllocs()
				d := &discard{}
				for b.Loop() {
					req := httptest.NewRequest("GET", "/metrics", nil)
					req.Header.Set("Accept", acc)
					req.Header.Set("Accept-Encoding", enc)
					d.h, d.n = http.Header{}, 0
					h.ServeHTTP(d, req)
				}
				b.ReportMetric(float64(d.n), "bytes")
			})
		}
	}
}

func BenchmarkPublish(b *testing.B) {
	s := benchSnapshot(10, 4, 50)
	b.ReportAllocs()
	for b.Loop() {
		var v Values
		v.Publish(s)
		if v.newest.Load().err != nil {
			b.Fatal(v.newest.Load().err)
		}
	}
}
