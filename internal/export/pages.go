package export

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/spool"
)

var (
	// errDrift: the window changed while it was read.
	errDrift = errors.New("the window changed while it was read")
	// errMoved is drift that shows in other totals: the page that has them belongs to
	// the moved window.
	errMoved = fmt.Errorf("%w: its totals moved", errDrift)
	// errNoRows: the last reading brought no rows, under totals that are not zero, of a
	// window whose rows are known. They are kept.
	errNoRows = errors.New("the service sends no rows, although the totals are not zero; " +
		"the rows of the former reading are kept")
	// errNoTotals: the same of totals that are zero, over rows with visitors.
	errNoTotals = errors.New("the service sends totals of zero over rows with visitors; " +
		"the former reading is kept")
	// errNoPage: the service answers 404 for a page beyond the first, which was announced or predicted. The project may
	// be known to it all the same.
	errNoPage = errors.New("the page is not there")
	// errEarly: the window begins before the service has data. It would be exported as one without readers.
	errEarly = errors.New("the window begins before the service has data")
	// errRepeats ends a reading that would never end.
	errRepeats = errors.New("the service sends the same rows again at another offset")
)

// pages verifies, page by page and in any order, that the pages of a reading are parts of
// one unchanged window: the same totals on all, every page full but the last, no row
// after the last page. That holds for some of the pages as it does for all. A page is full
// if it has as many rows as the others, which may be fewer than were requested.
//
// An empty page beyond the first that is the last is not part of the window: it only shows that the
// window ends before it, even if the page right before it announced one.
type pages struct {
	log *spool.PageLog
	// tolerant: this is the last reading, which accepts whatever comes.
	tolerant bool

	// site has the totals of the page that came first, newest the totals of the page at the highest offset.
	site, newest spool.Site
	// size is the number of rows in a page that others follow; 0 until one is known.
	size int
	// furthest is the highest offset with rows (or 0), and -1 before the first page. next is the
	// offset of the page after it, and more means that it announces that page.
	furthest, next int
	more           bool
	// highest is the highest offset, empty pages included.
	highest int
	// promised is the highest offset that has rows according to a page before it.
	promised int
	// last is the lowest offset that said hasMore false, beyond the lowest without rows.
	last, beyond int
	// end is the offset of an empty page at which the window ends, although the page before announced it.
	end int
	// hollow counts empty pages that said that rows follow.
	hollow int
	// drift is the first contradiction.
	drift error
	// checked is the end of the rows that firstMissing has found without a gap.
	checked int
	// seen has the offset of each page by a hash of what its rows are about. A service that ignores the
	// offset would otherwise be read without end.
	seen map[uint64]int
}

var seed = maphash.MakeSeed()

func newPages(log *spool.PageLog, tolerant bool) *pages {
	p := &pages{
		log: log, tolerant: tolerant, furthest: -1, highest: -1, last: math.MaxInt, beyond: math.MaxInt,
		seen: map[uint64]int{},
	}
	logged := log.Pages
	for _, offset := range slices.Sorted(maps.Keys(logged)) {
		_ = p.add(offset, logged[offset]) // p.drift has it
	}
	return p
}

// add takes a page into account and returns the first drift so far.
func (p *pages) add(offset int, page spool.PageInfo) error {
	if p.highest < 0 {
		p.site = page.Site
	}
	if offset > p.highest {
		p.highest, p.newest = offset, page.Site
	}
	if page.HasMore {
		p.promised = max(p.promised, offset+covers(page))
		if page.Rows == 0 {
			p.hollow++
		}
	}
	if isBeyond(offset, page) {
		p.beyond = min(p.beyond, offset)
	} else {
		if !page.HasMore {
			p.last = min(p.last, offset)
		}
		if offset > p.furthest {
			p.furthest, p.next, p.more = offset, offset+covers(page), page.HasMore
		}
	}
	switch {
	case p.drift != nil:
	case offset == 0 && page.Rows == 0 && !page.HasMore && !page.Site.IsZero():
		p.drift = fmt.Errorf("%w: no rows, but its totals are not zero: %v", errDrift, page.Site)
	case page.Site.IsZero() && p.log.Sum.Added != analytics.Totals{}:
		p.drift = fmt.Errorf("%w: its totals are zero, but its rows have visitors", errDrift)
	case page.Site != p.site:
		p.drift = fmt.Errorf("%w: %v, and %v at offset %d", errMoved, p.site, page.Site, offset)
	case page.HasMore && (page.Rows == 0 || p.size > 0 && page.Rows != p.size):
		p.drift = fmt.Errorf("%w: %d rows at offset %d although more follow", errDrift, page.Rows, offset)
	case p.beyond < p.promised || p.beyond <= p.furthest || p.beyond == p.promised && p.beyond != p.end:
		p.drift = fmt.Errorf("%w: no rows at offset %d, but another page says that there are", errDrift, p.beyond)
	case p.furthest > p.last:
		p.drift = fmt.Errorf("%w: the page at offset %d is the last, but there is one at offset %d", errDrift, p.last,
			p.furthest)
	}
	if p.size == 0 && page.HasMore {
		p.size = page.Rows
	}
	return p.drift
}

// isBeyond reports whether a page only shows that the window ends before it.
func isBeyond(offset int, page spool.PageInfo) bool {
	return page.Rows == 0 && offset > 0 && !page.HasMore
}

// covers returns how many offsets a page covers. An empty page that announces another one counts
// as a page whose rows have all been removed.
func covers(page spool.PageInfo) int {
	if page.Rows == 0 && page.HasMore {
		return analytics.PageRows
	}
	return page.Rows
}

// repeats returns an error if a page has the same rows as an earlier one, whatever their counts, and,
// in a tolerant reading, at the second empty page that announces another one. A window's last
// page may repeat another: it is the end.
func (p *pages) repeats(page page) error {
	if info := page.info(); info.HasMore && info.Rows > 0 {
		var h maphash.Hash
		h.SetSeed(seed)
		page.names(&h)
		sum := h.Sum64()
		if former, again := p.seen[sum]; again {
			return fmt.Errorf("offsets %d and %d: %w", former, page.Offset, errRepeats)
		}
		p.seen[sum] = page.Offset
	}
	if p.tolerant && p.hollow > 1 {
		return fmt.Errorf("offset %d: a second empty page that says that more follow: %w", page.Offset, errRepeats)
	}
	return nil
}

// firstMissing returns the first offset whose row is missing, and how many rows may be
// requested there so that none comes twice; false where the window is whole.
func (p *pages) firstMissing() (offset, limit int, missing bool) {
	for {
		page, ok := p.log.Pages[p.checked]
		if !ok {
			break
		}
		if !page.HasMore {
			return 0, 0, false
		}
		p.checked += covers(page)
	}
	for n := 1; n < analytics.PageRows && p.checked+n <= p.highest; n++ {
		if page, ok := p.log.Pages[p.checked+n]; ok && page.Rows > 0 {
			return p.checked, n, true
		}
	}
	return p.checked, analytics.PageRows, true
}

// guess returns the offset of a page that may exist although no page announces it, and how many
// pages surely exist. It is twice as far as those, but no more than most pages further, and at most
// halfway to a page that is known not to exist. It returns false if the end is known, or close
// enough that each page announces the next, or if nothing is known.
func (p *pages) guess(most int) (offset, surely int, ok bool) {
	if p.size == 0 || p.last < math.MaxInt {
		return 0, 0, false
	}
	exists := p.promised / p.size
	step := min(exists, most, (p.beyond/p.size-exists)/2)
	return (exists + step) * p.size, exists + 1, step > 1
}
