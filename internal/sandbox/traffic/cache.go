package traffic

import (
	"container/list"
	"sync"
)

// Cache keeps the values that were used last, up to a total weight. It computes each
// missing value once, however many callers ask for it. A value heavier than the limit
// is kept until the next one comes.
type Cache[K comparable, V any] struct {
	limit int
	weigh func(V) int

	mu     sync.Mutex
	byKey  map[K]*list.Element
	recent *list.List // of *cached[K, V], the newest use first
	weight int
}

type cached[K comparable, V any] struct {
	key    K
	value  func() V
	weight int // 0 while the value is being computed
}

// NewCache returns an empty cache with a limit of the total weight.
func NewCache[K comparable, V any](limit int, weigh func(V) int) *Cache[K, V] {
	return &Cache[K, V]{limit: limit, weigh: weigh, byKey: map[K]*list.Element{}, recent: list.New()}
}

// Get returns the value of key, from compute if it is not in the cache.
func (c *Cache[K, V]) Get(key K, compute func() V) V {
	c.mu.Lock()
	el, ok := c.byKey[key]
	if ok {
		c.recent.MoveToFront(el)
	} else {
		el = c.recent.PushFront(&cached[K, V]{key: key, value: sync.OnceValue(compute)})
		c.byKey[key] = el
	}
	c.mu.Unlock()

	entry := el.Value.(*cached[K, V])
	v := entry.value()

	c.mu.Lock()
	defer c.mu.Unlock()
	if entry.weight > 0 {
		return v
	}
	entry.weight = 1 + c.weigh(v)
	c.weight += entry.weight
	for el := c.recent.Back(); el != nil && c.weight > c.limit; {
		previous := el.Prev()
		if old := el.Value.(*cached[K, V]); old != entry && old.weight > 0 {
			c.recent.Remove(el)
			delete(c.byKey, old.key)
			c.weight -= old.weight
		}
		el = previous
	}
	return v
}
