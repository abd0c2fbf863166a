package clock_test

import (
	"errors"
	"testing"

	"github.com/docgauge/docgauge/internal/clock"
)

func TestSignal(t *testing.T) {
	s := clock.NewSignal()
	for range 3 {
		s.Send()
	}
	<-s
	select {
	case <-s:
		t.Error("three wake-ups were not one")
	default:
	}
}

func TestLastError(t *testing.T) {
	var last clock.LastError
	full, gone := errors.New("disk full"), errors.New("disk gone")
	for i, step := range []struct {
		err  error
		want bool
	}{{nil, false}, {full, true}, {full, false}, {gone, true}, {nil, false}, {gone, true}} {
		if got := last.IsNew(step.err); got != step.want {
			t.Errorf("step %d, %v: new %v", i, step.err, got)
		}
	}
}
