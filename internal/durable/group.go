package durable

import (
	"errors"
	"sync"
)

// Group lets calls that are made at the same time share one write: during a write, further calls
// gather for the next one. A single call takes no longer than without a group. The zero value is
// ready for use.
type Group[T any] struct {
	mu sync.Mutex
	// gathering is the batch that calls join; last is the one whose write began last.
	gathering, last *batch[T]
}

type batch[T any] struct {
	items []T
	done  chan struct{} // closed when it is written
	err   error
}

var errPanicked = errors.New("the write panicked")

// Do returns when item was written, with the error of the whole batch. The first of the calls that
// gathered writes for all, in their order; write begins after each of them was made.
func (g *Group[T]) Do(item T, write func([]T) error) error {
	g.mu.Lock()
	isFirst := g.gathering == nil
	if isFirst {
		g.gathering = &batch[T]{done: make(chan struct{}), err: errPanicked}
	}
	b, former := g.gathering, g.last // no other batch begins between the two
	b.items = append(b.items, item)
	g.mu.Unlock()
	if !isFirst {
		<-b.done
		return b.err
	}
	if former != nil {
		<-former.done
	}
	g.mu.Lock()
	g.gathering, g.last = nil, b
	g.mu.Unlock()
	defer close(b.done)
	b.err = write(b.items)
	return b.err
}
