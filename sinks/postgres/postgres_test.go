package postgres

import (
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestContract(t *testing.T) {
	each(t, func(t *testing.T, e *engines.Postgres) {
		run := sinktest.RunMixed
		if e == serverOf(t, debian) {
			run = sinktest.Run
		}
		run(t, func(t *testing.T, reports ...analytics.Report) (sinks.Sink, sinktest.Reader) {
			t.Parallel()
			return newSink(t, e, reports...)
		})
	})
}

// TestPooler has the modes of the driver that poolers need which keep no prepared
// statements.
func TestPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			dsn := place(t, serverOf(t, debian))
			s, r := open(t, dsn+"&pool_max_conns=1&default_query_exec_mode="+mode), readerAt(t, dsn)
			shows(t, s, r, seal(1, 30))
			shows(t, s, r, seal(2, 10))
			if shown, fault := inspected(t, s, seal(2, 0).Rev.Key); !shown.Whole() || shown.Number != 2 ||
				fault != nil {
				t.Errorf("%+v, %v", shown, fault)
			}
			if pages, err := sinks.Top(t.Context(), s, seal(2, 0).Rev, 3, t.TempDir()); len(pages) != 3 || err != nil {
				t.Errorf("%v, %v", pages, err)
			}
		})
	}
}
