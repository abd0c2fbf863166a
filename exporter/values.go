package exporter

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
)

// Values holds the newest snapshot and its metrics. The zero value holds none
// and is ready for use, by any number of goroutines.
type Values struct{ newest atomic.Pointer[published] }

// published is a snapshot with its metrics. Nobody changes it.
type published struct {
	snapshot Snapshot
	families []*dto.MetricFamily
	err      error
	bodies   map[format]*body
}

// Publish replaces the snapshot. Who reads at the same time sees the former or s,
// whole; s must not be changed afterwards.
func (v *Values) Publish(s Snapshot) {
	p := &published{snapshot: s}
	p.families, p.err = gather(&p.snapshot)
	p.bodies = bodies(p.families)
	v.newest.Store(p)
}

// Load returns the newest snapshot, nil before the first. It must not be changed.
func (v *Values) Load() *Snapshot {
	p := v.newest.Load()
	if p == nil {
		return nil
	}
	return &p.snapshot
}

// none stands for the snapshot before the first.
var none = &published{bodies: bodies(nil)}

func (v *Values) load() *published {
	if p := v.newest.Load(); p != nil {
		return p
	}
	return none
}

// gather returns the metrics of the newest snapshot, and after them, as the
// alphabet has it, those of the runtime and the process as they are now.
func (v *Values) gather() ([]*dto.MetricFamily, error) {
	p := v.load()
	now, err := live().Gather()
	return append(p.families[:len(p.families):len(p.families)], now...), errors.Join(p.err, err)
}

// live is the registry of the runtime (go_) and the process (process_).
var live = sync.OnceValue(func() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
})
