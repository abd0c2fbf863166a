package outcome

import (
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
)

// BenchmarkStudy is one page against 200 placebos.
func BenchmarkStudy(b *testing.B) {
	p := restlessTraffic(400)(b, 1)
	path := p.eligible(50, 100)[0]
	m := Merge{Project: "prj_a", At: mergeDate.Time(), Pages: []string{path}}
	for b.Loop() {
		if e := newStudy(p, m, []Merge{m}).effect(path, analytics.Human); e.Placebos != maxPlacebos {
			b.Fatalf("%+v", e)
		}
	}
}
