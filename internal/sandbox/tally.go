package sandbox

import (
	"cmp"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
)

// answer is everything the service knows of one window: all its rows, by total
// from the largest, then by path.
type answer struct {
	totals analytics.Totals
	rows   []analytics.Row
}

// tally counts the distinct visitors of t in w among the events that arrived up
// to horizon.
func tally(t traffic, w interval, horizon int64) answer {
	site := newVisitorSet(t.visitors())
	byPage := make([][]uint32, len(t.paths()))
	for e := range visible(t, w, horizon) {
		site.add(e.who)
		byPage[e.page] = append(byPage[e.page], e.who)
	}
	a := answer{totals: site.size}
	page := newVisitorSet(t.visitors())
	for i, path := range t.paths() {
		if len(byPage[i]) == 0 {
			continue
		}
		page.clear()
		for _, who := range byPage[i] {
			page.add(who)
		}
		a.rows = append(a.rows, analytics.Row{Path: path, Human: page.size.Human, AI: page.size.AI, Total: page.size.Total})
	}
	slices.SortFunc(a.rows, func(x, y analytics.Row) int {
		return cmp.Or(cmp.Compare(y.Total, x.Total), strings.Compare(x.Path, y.Path))
	})
	return a
}

// visitorSet counts distinct visitors: human, AI, and of either kind.
type visitorSet struct {
	// marks holds, by visitor, round<<2 | the kinds seen in that round, so that
	// clear costs nothing.
	marks []uint32
	round uint32
	size  analytics.Totals
}

func newVisitorSet(visitors int) *visitorSet {
	return &visitorSet{marks: make([]uint32, visitors), round: 1}
}

func (s *visitorSet) clear() {
	s.round++
	s.size = analytics.Totals{}
}

func (s *visitorSet) add(who uint32) {
	kind := who & 1
	mark := s.marks[who>>1]
	if mark>>2 != s.round {
		mark = s.round << 2
		s.size.Total++
	}
	if mark&(1<<kind) == 0 {
		mark |= 1 << kind
		if kind == ai {
			s.size.AI++
		} else {
			s.size.Human++
		}
	}
	s.marks[who>>1] = mark
}
