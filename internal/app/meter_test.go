package app

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
)

// slowDisk is a state that calls a function during a write, and can fail.
type slowDisk struct {
	during   func()
	fails    error
	counts   map[string]int64 // by labels
	seconds  time.Duration
	rejected map[string]bool
}

func (d *slowDisk) Tally(
	_ context.Context, counts []state.Count, observed []state.Observation, flags []state.Flag,
) error {
	if d.during != nil {
		d.during()
	}
	if d.fails != nil {
		return d.fails
	}
	for _, c := range counts {
		d.counts[c.Labels] += c.Value
	}
	for _, o := range observed {
		d.seconds += o.Sum
	}
	for _, f := range flags {
		d.rejected[f.Labels] = f.On
	}
	return nil
}

// TestMeterDoesNotWaitForTheDisk: a request is observed while the state is being written. Whether that
// succeeds or fails, each is counted once, and the newest response to a key counts.
func TestMeterDoesNotWaitForTheDisk(t *testing.T) {
	for _, fails := range []error{nil, errors.New("disk full")} {
		m := newMeter(func(name string) []string { return []string{labelKey, name} })
		request := func(status int) {
			m.Observe(docsapi.Attempt{Endpoint: "visitors", Status: status, Key: "admin", Duration: time.Second})
		}
		disk := &slowDisk{fails: fails, counts: map[string]int64{}, rejected: map[string]bool{}}
		disk.during = func() {
			seen := make(chan struct{})
			go func() {
				request(http.StatusOK)
				close(seen)
			}()
			select {
			case <-seen:
			case <-time.After(time.Minute):
				t.Fatal("a request waits for the disk")
			}
		}
		request(http.StatusUnauthorized)
		request(http.StatusUnauthorized)
		if err := m.Flush(t.Context(), disk); !errors.Is(err, fails) {
			t.Fatal(err)
		}
		disk.during, disk.fails = nil, nil
		for range 2 { // the second has nothing to write
			check(t, m.Flush(t.Context(), disk))
		}
		want := map[string]int64{
			state.Labels("endpoint", "visitors", "code", "401"): 2,
			state.Labels("endpoint", "visitors", "code", "200"): 1,
		}
		if diff := cmp.Diff(want, disk.counts); diff != "" || disk.seconds != 3*time.Second {
			t.Errorf("%v: %v of requests, counts (-want +got):\n%s", fails, disk.seconds, diff)
		}
		if diff := cmp.Diff(map[string]bool{state.Labels(labelKey, "admin"): false}, disk.rejected); diff != "" {
			t.Errorf("%v: %s", fails, diff)
		}
	}
}
