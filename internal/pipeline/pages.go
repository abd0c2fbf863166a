package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
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
// no row after the last. That holds for some of the pages as for all.
//
// An empty page beyond the first is no part of the window: it only says that
// the window ends before it.
type pages struct {
	mu sync.Mutex
	// has reports whether the page at an offset is at hand.
	has func(offset int) bool
	// totals of the first page that came, and of the one at the highest offset.
	totals, newest analytics.Totals
	// furthest is the highest offset with rows (or 0), -1 with none at hand;
	// highest also counts empty pages.
	furthest, highest int
	// promised is the highest offset that a page before it says has rows.
	promised int
	// end is the lowest offset that said hasMore false, beyond the lowest that
	// had no rows.
	end, beyond int
	drift       error
}

func newPages(f *spool.Fetch) *pages {
	at := f.Pages()
	p := &pages{has: f.Has, furthest: -1, highest: -1, end: math.MaxInt, beyond: math.MaxInt}
	for _, offset := range slices.Sorted(maps.Keys(at)) {
		_ = p.add(offset, at[offset]) // kept in p.drift
	}
	return p
}

// add takes a page in and returns the first drift seen so far.
func (p *pages) add(offset int, page spool.PageInfo) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.highest < 0 {
		p.totals = page.Totals
	}
	if offset > p.highest {
		p.highest, p.newest = offset, page.Totals
	}
	p.place(offset, page)
	if p.drift == nil {
		p.drift = p.check(offset, page)
	}
	return p.drift
}

// place notes what the page says about where the window ends.
func (p *pages) place(offset int, page spool.PageInfo) {
	if page.HasMore {
		p.promised = max(p.promised, offset+pageRows)
	}
	switch {
	case page.Rows == 0 && offset > 0 && !page.HasMore:
		p.beyond = min(p.beyond, offset)
		return
	case !page.HasMore:
		p.end = min(p.end, offset)
	}
	p.furthest = max(p.furthest, offset)
}

func (p *pages) check(offset int, page spool.PageInfo) error {
	switch {
	case page.Totals != p.totals:
		return fmt.Errorf("%w: its totals were %+v, and %+v at offset %d", errDrift, p.totals, page.Totals, offset)
	case page.HasMore && page.Rows != pageRows:
		return fmt.Errorf("%w: %d rows at offset %d although more follow", errDrift, page.Rows, offset)
	case p.beyond <= max(p.promised, p.furthest):
		return fmt.Errorf("%w: no rows at offset %d, but a page says that there are", errDrift, p.beyond)
	case p.furthest > p.end:
		return fmt.Errorf("%w: no more rows after offset %d, but a page at offset %d", errDrift, p.end, p.furthest)
	}
	return nil
}

// ended returns the offset of the last page, if it is known.
func (p *pages) ended() (int, bool) {
	if p.end < math.MaxInt {
		return p.end, true
	}
	next := p.next()
	return next, p.has(next)
}

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
		if !p.has(o) {
			out = append(out, o)
		}
	}
	return out
}
