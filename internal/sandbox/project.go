package sandbox

import (
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// project is one served project and what drifted into it.
type project struct {
	name      string
	synthetic *synthetic

	mu    sync.Mutex
	drift []drift
}

// driftAt lets one event land in the UTC day of now and one in the day before.
// Human and AI visitors take turns.
func (p *project) driftAt(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.drift) >= maxDrift {
		return
	}
	today, kind := analytics.DateOf(now), uint32(len(p.drift)/2%2)
	p.drift = append(p.drift, drift{today - 1, kind}, drift{today, kind})
}

// events returns the drift so far. It is append-only, so its length says which
// state it is in.
func (p *project) events() []drift {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drift
}
