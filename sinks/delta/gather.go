package delta

import (
	"context"
	"sync"
	"time"
)

// gatherTime is the longest that a window whose files are published waits for others.
const gatherTime = time.Second

// gathering lets windows that are on their way at the same time come to one entry: those
// that have published wait for those that publish. One that is alone waits for nothing. With an
// entry for each window, loading hard links takes 1.16 times as long, and leaves 180 entries instead of 4.
type gathering struct {
	mu         sync.Mutex
	publishing int
	// gathered is closed when no window is being published, or gatherTime after the first of
	// those that wait for it has come.
	gathered chan struct{}
}

func (g *gathering) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.publishing++
	if g.gathered == nil {
		g.gathered = make(chan struct{})
	}
}

// leave ends what enter began, and returns what to wait for.
func (g *gathering) leave() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	gathered := g.gathered
	if g.publishing--; g.publishing == 0 {
		close(gathered)
		g.gathered = nil
	}
	return gathered
}

// end lets those go that wait for gathered.
func (g *gathering) end(gathered <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gathered == gathered && g.gathered != nil {
		close(g.gathered)
		g.gathered = make(chan struct{})
	}
}

// await waits for the others, but not for ever.
func (g *gathering) await(ctx context.Context, gathered <-chan struct{}) error {
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	select {
	case <-gathered:
	case <-timer.C:
		g.end(gathered)
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}
