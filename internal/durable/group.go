package durable

import "sync"

// Group lets calls that are made at the same time share one write: while one is under way,
// the others gather for the next. A call waits for no other than that, so that a single one
// takes no longer than without a group. The zero value is ready for use.
type Group[T any] struct {
	mu sync.Mutex
	// gathering is the batch that calls join; last is the one that was begun last.
	gathering, last *batch[T]
}

type batch[T any] struct {
	items []T
	done  chan struct{} // closed when it is written
	err   error
}

// Do returns when item was written, with the error of the whole batch. The first of the
// calls that gathered writes for all, in their order; write begins after each of them was
// made.
func (g *Group[T]) Do(item T, write func([]T) error) error {
	b, former, first := g.join(item)
	if !first {
		<-b.done
		return b.err
	}
	if former != nil {
		<-former.done
	}
	g.begin(b)
	defer close(b.done)
	b.err = write(b.items)
	return b.err
}

// join adds item to the batch that gathers. The first in a batch also gets the one before
// it: no other begins before it.
func (g *Group[T]) join(item T) (b, former *batch[T], first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gathering == nil {
		g.gathering, first = &batch[T]{done: make(chan struct{})}, true
	}
	g.gathering.items = append(g.gathering.items, item)
	return g.gathering, g.last, first
}

func (g *Group[T]) begin(b *batch[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gathering, g.last = nil, b
}
