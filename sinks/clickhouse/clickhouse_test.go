package clickhouse

import (
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestContract(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		run := sinktest.RunMixed
		if e == engine(modern(t)) {
			run = sinktest.Run
		}
		run(t, func(t *testing.T, reports ...analytics.Report) (sinks.Sink, sinktest.Reader) {
			t.Parallel()
			return newSink(t, e, reports...)
		})
	})
}
