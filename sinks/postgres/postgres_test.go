package postgres

import (
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestContract(t *testing.T) {
	each(t, func(t *testing.T, e *engines.Postgres) {
		sinktest.Run(t, func(t *testing.T) (sinks.Sink, sinktest.Reader) { t.Parallel(); return newSink(t, e) })
	})
}
