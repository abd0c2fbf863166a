package sandbox

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

func BenchmarkCachedPage(b *testing.B) {
	s := newTest(b, Config{})
	r := httptest.NewRequest(http.MethodGet, path+"?dateFrom=2026-10-05&dateTo=2026-10-12&limit=250&offset=250", nil)
	r.Header.Set("Authorization", "Bearer "+DefaultAPIKey)
	b.ReportAllocs()
	for b.Loop() {
		s.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
}

// BenchmarkColdMonth makes and counts a month that nothing is known of.
func BenchmarkColdMonth(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		coldMonth(b, newTest(b, Config{}))
	}
}

// BenchmarkWarmMonth counts a month whose days were made before.
func BenchmarkWarmMonth(b *testing.B) {
	s := newTest(b, Config{})
	b.ReportAllocs()
	for b.Loop() {
		s.answers = newAnswers()
		coldMonth(b, s)
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		newTest(b, Config{})
	}
}

func coldMonth(b *testing.B, s *Sandbox) {
	w := analytics.Window{From: analytics.NewDate(2026, time.September, 1), To: analytics.NewDate(2026, time.October, 1)}
	if _, rows, err := s.Visitors(DefaultProject, w); err != nil || len(rows) != DefaultPages {
		b.Fatalf("%d rows: %v", len(rows), err)
	}
}
