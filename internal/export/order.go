package export

import (
	"context"
	"sync"
)

// order keeps the requests of a run in the order of its plan while the budget is
// scarce: a window sends only when no window before it may still have to. A window
// is open from its begin until all requests it is known to need are in flight, or
// it ended; one that is begun again is open again.
type order struct {
	mu      sync.Mutex
	places  map[int]bool // open windows, by their place in the plan
	changed chan struct{}
}

func newOrder() *order { return &order{places: map[int]bool{}, changed: make(chan struct{})} }

func (o *order) set(place int, open bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.places[place] == open {
		return
	}
	if open {
		o.places[place] = true
	} else {
		delete(o.places, place)
	}
	o.wake()
}

// wake lets everybody who waits look again. The caller holds mu.
func (o *order) wake() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// notify is wake for a change elsewhere.
func (o *order) notify() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wake()
}

// look returns whether a window before place is open, and a channel that is
// closed when that can have changed.
func (o *order) look(place int) (before bool, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for p := range o.places {
		before = before || p < place
	}
	return before, o.changed
}

// wait returns when the window at place may send: at once while the budget is
// ample, else when no window before it is open.
func (o *order) wait(ctx context.Context, place int, ample func(context.Context) bool) error {
	for {
		before, changed := o.look(place)
		if !before || ample(ctx) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
