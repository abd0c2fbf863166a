package pipeline

import (
	"hash/maphash"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
)

var seed = maphash.MakeSeed()

// repeats finds pages that hold the paths of an earlier one. A service that
// takes no notice of the offset would otherwise be read without an end.
type repeats struct {
	mu sync.Mutex
	at map[uint64]int
}

// before returns the offset of the page with the same paths that came earlier.
// The last page of a window repeats nothing that matters: it is the end.
func (r *repeats) before(p analytics.Page) (offset int, again bool) {
	if !p.HasMore || len(p.Rows) == 0 {
		return 0, false
	}
	var h maphash.Hash
	h.SetSeed(seed)
	for _, row := range p.Rows {
		h.WriteString(row.Path)
		h.WriteByte(0)
	}
	sum := h.Sum64()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = map[uint64]int{}
	}
	if offset, again = r.at[sum]; !again {
		r.at[sum] = p.Offset
	}
	return offset, again
}
