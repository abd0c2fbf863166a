package pipeline

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
)

const pageRows = docsapi.MaxLimit

// errDrift: the window changed while it was read.
var errDrift = errors.New("the window changed while it was read")

// pages checks, page by page and in any order, that what is read are parts of
// one unchanged window: the same totals on all, every page full but the last,
// none after the last. That holds for some of the pages as for all.
type pages struct {
	mu   sync.Mutex
	have map[int]bool
	// totals of the first page that came, and of the furthest.
	totals, furthestTotals analytics.Totals
	// furthest is the highest offset at hand, -1 with none.
	furthest int
	// end is the lowest offset that said hasMore false.
	end   int
	drift error
}

func newPages(at map[int]spool.PageInfo) *pages {
	p := &pages{have: map[int]bool{}, furthest: -1, end: math.MaxInt}
	for offset, page := range at {
		p.add(offset, page)
	}
	return p
}

// add takes a page in and returns the first drift seen so far.
func (p *pages) add(offset int, page spool.PageInfo) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.have) == 0 {
		p.totals = page.Totals
	}
	p.have[offset] = true
	if offset > p.furthest {
		p.furthest, p.furthestTotals = offset, page.Totals
	}
	if !page.HasMore {
		p.end = min(p.end, offset)
	}
	if p.drift == nil {
		p.drift = p.check(offset, page)
	}
	return p.drift
}

func (p *pages) check(offset int, page spool.PageInfo) error {
	switch {
	case page.Totals != p.totals:
		return fmt.Errorf("%w: its totals were %+v, and %+v at offset %d", errDrift, p.totals, page.Totals, offset)
	case page.HasMore && page.Rows != pageRows:
		return fmt.Errorf("%w: %d rows at offset %d although more follow", errDrift, page.Rows, offset)
	case page.Rows == 0 && offset > 0:
		return fmt.Errorf("%w: no rows at offset %d although the page before promised some", errDrift, offset)
	case p.furthest > p.end:
		return fmt.Errorf("%w: no more rows after offset %d, but a page at offset %d", errDrift, p.end, p.furthest)
	}
	return nil
}

// ended returns the offset of the last page, if it is known.
func (p *pages) ended() (int, bool) { return p.end, p.end < math.MaxInt }

// next returns the offset after the furthest page at hand.
func (p *pages) next() int {
	if p.furthest < 0 {
		return 0
	}
	return p.furthest + pageRows
}

// missing returns the offsets before limit that are not at hand.
func (p *pages) missing(limit int) []int {
	var out []int
	for o := 0; o < limit; o += pageRows {
		if !p.have[o] {
			out = append(out, o)
		}
	}
	return out
}
