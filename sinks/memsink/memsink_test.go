package memsink_test

import (
	"errors"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/memsink"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestContract(t *testing.T) {
	sinktest.Run(t, func(*testing.T) (sinks.Sink, sinktest.Reader) {
		s := memsink.New()
		return s, s
	})
}

func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	for step, visible := range map[memsink.Step]int{memsink.Before: 0, memsink.Read: 0, memsink.After: 1} {
		s := memsink.New()
		s.Fault = func(at memsink.Step, _ analytics.Revision) error {
			if at == step {
				return boom
			}
			return nil
		}
		w := sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", 0), 1), sinktest.Pages(3))
		if err := s.Replace(t.Context(), w); !errors.Is(err, boom) {
			t.Errorf("%s: Replace = %v", step, err)
		}
		if got, err := s.Totals(w.Revision().Key); len(got) != visible || err != nil {
			t.Errorf("%s: %d windows visible, %v; want %d", step, len(got), err, visible)
		}
	}
}
