package clickhouse

import (
	"math/rand/v2"
	"sync"
	"time"
)

// randomBits end an attempt id, so that two processes that begin in the same
// microsecond do not take the same one.
const randomBits = 12

// attempts generates attempt ids: microseconds since 1970, then random bits. Each is
// greater than all before it, and than those given to past, even if the clock goes
// backwards.
type attempts struct {
	now func() time.Time

	mu   sync.Mutex
	last uint64
}

func (a *attempts) next() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	noise := rand.Uint64N(1 << randomBits)
	a.last = max(uint64(a.now().UnixMicro())<<randomBits|noise, a.last+1+noise)
	return a.last
}

// past lets ids begin after id, which another process has used.
func (a *attempts) past(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = max(a.last, id)
}
