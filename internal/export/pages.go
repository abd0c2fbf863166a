package export

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
)

const pageRows = docsapi.MaxLimit

var (
	// errDrift: the window changed while it was read.
	errDrift = errors.New("the window changed while it was read")
	// errMoved is the drift that other totals show: the page that has them is of the
	// window as it is now.
	errMoved = fmt.Errorf("%w: its totals moved", errDrift)
	// errRepeats ends a reading that would go on for ever.
	errRepeats = errors.New("the service sends the same rows again at another offset")
)

// pages checks, page by page and in any order, that what is read are parts of
// one unchanged window: the same totals on all, every page full but the last, no
// row after the last. That holds for some of the pages as for all. A page is full
// that has as many rows as the others, which may be fewer than were asked for.
//
// An empty page beyond the first is no part of the window: it only says that
// the window ends before it.
type pages struct {
	mu  sync.Mutex
	log *spool.Fetch
	// totals of the first page that came, and of the one at the highest offset.
	totals, newest analytics.Totals
	// size is how many rows a page has that others follow; 0: none is at hand.
	size int
	// furthest is the highest offset with rows (or 0), -1 with none at hand; after
	// is where the next page begins, more whether it says that there is one.
	furthest, after int
	more            bool
	// highest also counts empty pages.
	highest int
	// promised is the highest offset that a page before it says has rows.
	promised int
	// end is the lowest offset that said hasMore false, beyond the lowest that
	// had no rows.
	end, beyond int
	// hollow counts empty pages that said that rows follow.
	hollow int
	drift  error
	// front is where the first row begins that is not at hand, as far as looked.
	front int
	// seen finds pages that hold the paths of an earlier one. A service that takes
	// no notice of the offset would otherwise be read without an end.
	seen map[uint64]int
}

var seed = maphash.MakeSeed()

func newPages(f *spool.Fetch) *pages {
	p := &pages{log: f, furthest: -1, highest: -1, end: math.MaxInt, beyond: math.MaxInt, seen: map[uint64]int{}}
	at := f.Pages()
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
	if page.HasMore && page.Rows == 0 {
		p.hollow++
	}
	if page.HasMore {
		p.promised = max(p.promised, offset+span(page))
	}
	switch {
	case page.Rows == 0 && offset > 0 && !page.HasMore:
		p.beyond = min(p.beyond, offset)
	default:
		if !page.HasMore {
			p.end = min(p.end, offset)
		}
		if offset > p.furthest {
			p.furthest, p.after, p.more = offset, offset+span(page), page.HasMore
		}
	}
	if p.drift == nil {
		p.drift = p.check(offset, page)
	}
	if p.size == 0 && page.HasMore {
		p.size = page.Rows
	}
	return p.drift
}

// span is how many offsets a page covers. An empty one that promises more is
// taken for a page whose rows were all taken out meanwhile.
func span(page spool.PageInfo) int {
	if page.Rows == 0 && page.HasMore {
		return pageRows
	}
	return page.Rows
}

func (p *pages) check(offset int, page spool.PageInfo) error {
	switch {
	case page.Totals != p.totals:
		return fmt.Errorf("%w: %+v, and %+v at offset %d", errMoved, p.totals, page.Totals, offset)
	case page.HasMore && (page.Rows == 0 || p.size > 0 && page.Rows != p.size):
		return fmt.Errorf("%w: %d rows at offset %d although more follow", errDrift, page.Rows, offset)
	case p.beyond <= max(p.promised, p.furthest):
		return fmt.Errorf("%w: no rows at offset %d, but a page says that there are", errDrift, p.beyond)
	case p.furthest > p.end:
		return fmt.Errorf("%w: no more rows after offset %d, but a page at offset %d", errDrift, p.end, p.furthest)
	}
	return nil
}

// repeats returns the offset of the page with the same paths that came earlier.
// The last page of a window repeats nothing that matters: it is the end.
func (p *pages) repeats(page analytics.Page) (offset int, again bool) {
	if !page.HasMore || len(page.Rows) == 0 {
		return 0, false
	}
	var h maphash.Hash
	h.SetSeed(seed)
	for _, row := range page.Rows {
		h.WriteString(row.Path)
		h.WriteByte(0)
	}
	sum := h.Sum64()
	p.mu.Lock()
	defer p.mu.Unlock()
	if offset, again = p.seen[sum]; !again {
		p.seen[sum] = page.Offset
	}
	return offset, again
}

// hole returns the first offset whose row is not at hand, and how many rows may
// be asked for there so that none comes twice; false where the window is whole.
func (p *pages) hole() (offset, limit int, missing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		page, ok := p.log.Page(p.front)
		switch {
		case !ok:
			return p.front, p.room(p.front), true
		case !page.HasMore:
			return 0, 0, false
		}
		p.front += span(page)
	}
}

// room is how many rows may be asked for at an offset that is not at hand. It
// looks at the next page's worth of offsets.
func (p *pages) room(offset int) int {
	for n := 1; n < pageRows && offset+n <= p.highest; n++ {
		if page, ok := p.log.Page(offset + n); ok && page.Rows > 0 {
			return n
		}
	}
	return pageRows
}

// missing returns the offsets before limit that are not at hand, size apart.
func (p *pages) missing(limit, size int) []int {
	var out []int
	for o := 0; o < limit; o += size {
		if _, ok := p.log.Page(o); !ok {
			out = append(out, o)
		}
	}
	return out
}

// state returns what is known of the end: the furthest page, where the next
// begins, and whether there is one.
func (p *pages) state() (furthest, after int, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.furthest, p.after, p.more || p.furthest < 0
}

// least returns how many pages the window has at least.
func (p *pages) least() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.promised/max(p.size, 1) + 1
}

// suspect counts the rows of pages whose totals are not those of the whole.
func (p *pages) suspect() (rows int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, page := range p.log.Pages() {
		if page.Totals != p.newest {
			rows += int64(page.Rows)
		}
	}
	return rows
}
