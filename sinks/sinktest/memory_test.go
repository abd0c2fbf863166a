package sinktest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestContract(t *testing.T) {
	sinktest.Run(t, func(*testing.T, ...analytics.Report) (sinks.Sink, sinktest.Reader) {
		s := sinktest.NewMemory()
		return s, s
	})
}

func TestMemoryFaults(t *testing.T) {
	boom := errors.New("boom")
	for step, visible := range map[sinktest.Step]int{sinktest.Before: 0, sinktest.Read: 0, sinktest.After: 1} {
		s := sinktest.NewMemory()
		s.Fault = func(at sinktest.Step, _ analytics.Revision) error {
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

func TestRowsOfAnotherReport(t *testing.T) {
	w := sinktest.FirstDay(1, 3)
	for row, err := range sinks.RowsOf[analytics.AgentRow](w) {
		if err == nil || !strings.Contains(err.Error(), "is not of the report agents") {
			t.Errorf("%+v, %v", row, err)
		}
	}
}
