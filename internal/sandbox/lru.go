package sandbox

import (
	"container/list"
	"sync"
)

// lru keeps the values used last, up to a total weight, and computes each
// missing one once, however many ask for it. A value heavier than the limit is
// kept until the next one comes.
type lru[K comparable, V any] struct {
	limit int
	weigh func(V) int

	mu     sync.Mutex
	byKey  map[K]*list.Element
	recent *list.List // of *lruEntry[K, V], the newest use first
	weight int
}

type lruEntry[K comparable, V any] struct {
	key    K
	value  func() V
	weight int // 0 while the value is being computed
}

func newLRU[K comparable, V any](limit int, weigh func(V) int) *lru[K, V] {
	return &lru[K, V]{limit: limit, weigh: weigh, byKey: map[K]*list.Element{}, recent: list.New()}
}

// get returns the value of key, from compute if it is not kept.
func (l *lru[K, V]) get(key K, compute func() V) V {
	e := l.entry(key, compute)
	v := e.value()
	l.settle(e, v)
	return v
}

func (l *lru[K, V]) entry(key K, compute func() V) *lruEntry[K, V] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if el, ok := l.byKey[key]; ok {
		l.recent.MoveToFront(el)
		return el.Value.(*lruEntry[K, V])
	}
	e := &lruEntry[K, V]{key: key, value: sync.OnceValue(compute)}
	l.byKey[key] = l.recent.PushFront(e)
	return e
}

// settle accounts for e once its value is there and drops what is too much.
func (l *lru[K, V]) settle(e *lruEntry[K, V], v V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.weight > 0 {
		return
	}
	e.weight = 1 + l.weigh(v)
	l.weight += e.weight
	for el := l.recent.Back(); el != nil && l.weight > l.limit; {
		previous := el.Prev()
		if old := el.Value.(*lruEntry[K, V]); old != e && old.weight > 0 {
			l.recent.Remove(el)
			delete(l.byKey, old.key)
			l.weight -= old.weight
		}
		el = previous
	}
}
