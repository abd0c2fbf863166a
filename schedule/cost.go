package schedule

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Requests returns the number of requests for a window with so many rows: its
// pages of pageRows rows, or one for an empty window or if only totals are
// read ([analytics.TotalsOnlyRows]). The page after the last is never requested.
func Requests(rows int64, pageRows int) int {
	if rows <= int64(pageRows) {
		return 1
	}
	return int((rows-1)/int64(pageRows) + 1)
}

// Basis says where an estimate of requests comes from.
type Basis string

// The bases, the most reliable first.
const (
	// BasisLedger: the window's own last reading, or one request for totals.
	BasisLedger Basis = "ledger"
	// BasisNeighbours: the nearest window of its project and granularity.
	BasisNeighbours Basis = "neighbours"
	// BasisDay: the newest day of its project that was read, or asked for by a check. A
	// longer window has at least as many pages as any of its days.
	BasisDay Basis = "day"
	// BasisUnknown: nothing of its project was read yet. It counts as one request, or as
	// the two that a check saw a day to take at least.
	BasisUnknown Basis = "unknown"
)

// Sizes estimates how many requests windows cost, from the rows of those that
// were read. Several goroutines may use it at once.
type Sizes struct {
	mu sync.Mutex
	// rows has the readings with rows, by series, oldest window first.
	rows map[Series][]sized
	// perPage is the number of rows in the pages of a source, if it is not analytics.PageRows.
	perPage map[Source]int
	// most is the most rows that a window of a series had.
	most map[Series]int64
	// known are the sources of which a window was read.
	known map[Source]bool
	// checked is the number of pages that one answer about a day tells.
	checked map[Source]int
	// begun is the number of pages of a window in the spool.
	begun map[analytics.Key]int
}

// Source is one report of one project.
type Source struct {
	Project string
	Report  analytics.Report
}

// SourceOf returns the source of a window.
func SourceOf(k analytics.Key) Source { return Source{k.Project, k.Report} }

// Series names all windows of one granularity of a source.
type Series struct {
	Source
	Granularity analytics.Granularity
}

// SeriesOf returns the series of a window.
func SeriesOf(k analytics.Key) Series { return Series{SourceOf(k), k.Granularity} }

type sized struct {
	window analytics.Window
	rows   int64
}

// NewSizes returns sizes that know only how many rows the pages of sources
// have, where that is not analytics.PageRows; perPage may be nil.
func NewSizes(perPage map[Source]int) *Sizes {
	s := &Sizes{
		rows: map[Series][]sized{}, perPage: map[Source]int{}, most: map[Series]int64{},
		known: map[Source]bool{}, checked: map[Source]int{}, begun: map[analytics.Key]int{},
	}
	maps.Copy(s.perPage, perPage)
	return s
}

// Learn records the number of rows of a window that was read, and reports whether it is
// the first of its series. A reading of totals alone says nothing but that the source is known.
func (s *Sizes) Learn(k analytics.Key, rows int64) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	series := SeriesOf(k)
	s.known[series.Source] = true
	if rows < 0 {
		return false
	}
	delete(s.begun, k)
	s.most[series] = max(s.most[series], rows)
	at, known := s.find(series, k.Window)
	if known {
		s.rows[series][at].rows = rows
		return false
	}
	s.rows[series] = slices.Insert(s.rows[series], at, sized{k.Window, rows})
	return len(s.rows[series]) == 1
}

func (s *Sizes) find(series Series, w analytics.Window) (at int, known bool) {
	return slices.BinarySearchFunc(s.rows[series], w, func(a sized, w analytics.Window) int {
		return cmp.Or(cmp.Compare(a.window.From, w.From), cmp.Compare(a.window.To, w.To))
	})
}

// PerPage returns how many rows each page of the source but the last has.
func (s *Sizes) PerPage(source Source) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pageRows(source)
}

func (s *Sizes) pageRows(source Source) int {
	if n := s.perPage[source]; n > 0 {
		return n
	}
	return analytics.PageRows
}

// SetPerPage records the number of rows that the pages of a source were seen to have.
func (s *Sizes) SetPerPage(source Source, rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.perPage[source] = rows
}

// SetChecked records the number of pages about which one answer about a day tells ([DayPages]).
func (s *Sizes) SetChecked(source Source, pages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checked[source] = pages
}

// SetBegun records the number of pages of a window in the spool.
func (s *Sizes) SetBegun(k analytics.Key, pages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun[k] = pages
}

// Begun returns how many pages of a window are in the spool.
func (s *Sizes) Begun(k analytics.Key) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun[k]
}

// Knows reports whether a window of the source was ever read.
func (s *Sizes) Knows(source Source) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[source]
}

// Pages returns how many pages an item probably has.
func (s *Sizes) Pages(item Item) (pages int, basis Basis) {
	if item.TotalsOnly || item.Reason == ReasonOpen {
		return 1, BasisLedger
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	series := SeriesOf(item.Key)
	perPage := s.pageRows(series.Source)
	at, own := s.find(series, item.Window)
	known := s.rows[series]
	switch {
	case own:
		pages, basis = Requests(known[at].rows, perPage), BasisLedger
	case len(known) > 0:
		pages, basis = Requests(nearest(known, at, item.Window).rows, perPage), BasisNeighbours
	default:
		days, checked := s.rows[Series{series.Source, analytics.Day}], s.checked[series.Source]
		switch {
		case len(days) > 0:
			pages, basis = Requests(days[len(days)-1].rows, perPage), BasisDay
		case checked == 1:
			pages, basis = 1, BasisDay
		default:
			return max(s.begun[item.Key]+1, checked), BasisUnknown
		}
	}
	if begun := s.begun[item.Key]; begun >= pages {
		pages = begun + 1 // there is at least one more, or it would be complete
	}
	return pages, basis
}

// nearest returns the window beside index at that is nearer to w in time,
// the newer window where both are equally near.
func nearest(known []sized, at int, w analytics.Window) sized {
	if at == len(known) || at > 0 && w.From-known[at-1].window.From < known[at].window.From-w.From {
		return known[at-1]
	}
	return known[at]
}

// Requests returns how many requests an item will probably still cost: its
// pages without those that are in the spool, none if it gets them from another window.
func (s *Sizes) Requests(item Item) (requests int, basis Basis) {
	if item.Shared {
		return 0, BasisLedger
	}
	pages, basis := s.Pages(item)
	if item.TotalsOnly || item.Reason == ReasonOpen {
		return pages, basis
	}
	return max(1, pages-s.Begun(item.Key)), basis
}

// Most returns how many requests an item may well cost: by its own last reading,
// otherwise by the largest window of its series. known is false where there is neither.
func (s *Sizes) Most(item Item) (requests int, known bool) {
	requests, basis := s.Requests(item)
	if basis != BasisNeighbours {
		return requests, basis == BasisLedger
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	series := SeriesOf(item.Key)
	return max(requests, Requests(s.most[series], s.pageRows(series.Source))), true
}

// Surely returns how many pages a window certainly has, for reading ahead: the pages of its own last reading;
// otherwise, where requests are not scarce, three quarters of the smallest of three neighbours. 0 means unknown.
func (s *Sizes) Surely(k analytics.Key, scarce bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	series := SeriesOf(k)
	perPage := s.pageRows(series.Source)
	at, own := s.find(series, k.Window)
	known := s.rows[series]
	switch {
	case own:
		return Requests(known[at].rows, perPage)
	case scarce || len(known) == 0:
		return 0
	}
	near := known[max(0, min(at-2, len(known)-3)):min(len(known), max(at+1, 3))]
	least := slices.MinFunc(near, func(a, b sized) int { return cmp.Compare(a.rows, b.rows) })
	return Requests(least.rows*3/4, perPage)
}
