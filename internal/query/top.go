package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

// Choice selects a window of each project, and the one that it is compared with.
type Choice struct {
	Selection Selection
	// At is a day of the window; nil: the newest window that has pages. Of rolling
	// windows it is the last day.
	At *analytics.Date
	// With is, likewise, a day of the window to compare with; nil: the window of [analytics.Granularity.ComparedWith].
	With *analytics.Date
	// Since and Until leave out the windows that begin before the one or end after the other; nil: none.
	Since, Until *analytics.Date
	// Today decides which window is not over; 0: not known.
	Today analytics.Date
}

// ByChange ranks the pages that both windows have by how much their visitors changed, up or
// down.
const ByChange analytics.Audience = "change"

// List is which pages are listed.
type List string

// The lists. Rising and Falling are defined by [analytics.Movers].
const (
	MostRead List = "top"
	Rising   List = "rising"
	Falling  List = "falling"
)

// Ranking selects and orders the listed pages. It is repeated in the answer.
type Ranking struct {
	// List is which pages are listed; empty: MostRead.
	List List `json:"list"`
	// By is the audience whose visitors are counted, or ByChange, which counts everyone.
	By analytics.Audience `json:"by"`
	// Prefix keeps the pages whose paths begin with it.
	Prefix string `json:"prefix"`
	// Path keeps one page alone, with its rank among all.
	Path *string `json:"-"`
	// N is the length of each list, without its first Offset pages.
	N      int `json:"-"`
	Offset int `json:"-"`
}

// Check returns why the question has no answer, or nil.
func (r Ranking) Check() error {
	if r.List != "" && !slices.Contains([]List{MostRead, Rising, Falling}, r.List) {
		return fmt.Errorf("list %.20q: want top, rising or falling", r.List)
	}
	if !slices.Contains([]analytics.Audience{analytics.Everyone, analytics.Human, analytics.AI, ByChange}, r.By) {
		return fmt.Errorf("by %.20q: want total, human, ai or change", r.By)
	}
	if r.By == ByChange && r.List != MostRead && r.List != "" {
		return fmt.Errorf("by %s: want total, human or ai for the pages that are %s", r.By, r.List)
	}
	if r.Path != nil && r.Prefix != "" {
		return errors.New("path, prefix: want one of the two")
	}
	return nil
}

// Audience is whose visitors are counted.
func (r Ranking) Audience() analytics.Audience {
	if r.By == ByChange {
		return analytics.Everyone
	}
	return r.By
}

// order is the list of pages that is asked for.
func (r Ranking) order() analytics.List {
	switch {
	case r.List == Rising:
		return analytics.Rising
	case r.List == Falling:
		return analytics.Falling
	case r.By == ByChange:
		return analytics.Moved
	}
	return analytics.MostRead
}

// TopReport has the pages of one project in one window, and how they differ from an earlier window. Its JSON keys
// are stable.
type TopReport struct {
	// Revision is the reading of the window, with the totals of the site.
	analytics.Revision
	ProjectName string `json:"project_name,omitempty"`
	// Previous is the window to compare with; null where the archive lacks it, or where it counts people by another mode,
	// HumansBefore.
	Previous     *analytics.Revision `json:"previous"`
	HumansBefore *analytics.Humans   `json:"humans_before,omitempty"`
	// People are the people of the site, where windows of agents are exported too.
	People *view.People `json:"people,omitempty"`
	// Newer is a newer window of which only the totals are known; null without one.
	Newer *analytics.Revision `json:"newer_totals_only"`
	Ranking
	// Count is how many pages of the window have the prefix. The lists of Changes have counts of
	// their own.
	Count int64        `json:"page_count"`
	Pages []RankedPage `json:"pages"`
	// Listed is the length of the whole list that Pages is a part of.
	Listed  int64    `json:"-"`
	Changes *Changes `json:"changes"` // null where the rows of Previous are not known
}

// Changes are the pages that differ between two windows.
type Changes struct {
	Rising   PageList `json:"rising"`
	Falling  PageList `json:"falling"`
	Appeared PageList `json:"appeared"`
	Vanished PageList `json:"vanished"`
}

// PageList is the beginning of an ordered list of pages, and the length of the whole list.
type PageList struct {
	Count int64        `json:"count"`
	Pages []RankedPage `json:"pages"`
}

// RankedPage is a page of a list. Visitors is null where the page has vanished, Previous where it has appeared or
// the rows of that window are not known. The change is the change of the audience of the ranking; null where either
// is.
type RankedPage struct {
	Rank     int               `json:"rank"`
	Path     string            `json:"path"`
	Visitors *analytics.Totals `json:"visitors" api:"inline"`
	Previous *analytics.Totals `json:"previous"`
	Change   *int64            `json:"change"`
	Percent  *float64          `json:"change_percent"`
}

// Top returns the most read pages of each project. What could be read comes with the error
// of what could not. An UnknownProjectError concerns the question.
func Top(ctx context.Context, from sinks.Sink, o Choice, by Ranking) ([]TopReport, error) {
	if err := by.Check(); err != nil {
		return nil, err
	}
	all, err := o.Selection.find(ctx, from)
	if err != nil {
		return nil, err
	}
	return ofEach(all, func(s series) ([]TopReport, error) {
		r, err := o.report(ctx, from, s, by)
		return []TopReport{r}, err
	})
}

// report finds the two windows of a project and compares their pages.
func (o Choice) report(ctx context.Context, from sinks.Sink, s series, by Ranking) (r TopReport, err error) {
	r.ProjectName, r.Ranking = o.Selection.Names[s.project], by
	r.List = cmp.Or(r.List, MostRead)
	r.Revision, r.Previous, r.Newer, err = o.choose(ctx, from, s, false)
	if err != nil {
		return r, err
	}
	if before := r.Previous; before != nil && !before.Comparable(r.Revision) {
		r.Previous, r.HumansBefore = nil, &before.Humans
		if o.With != nil || by.List == Rising || by.List == Falling {
			return r, noAnswer("%s counts people as %s, and %s as %s: they cannot be compared", r.Key, r.Humans.Said(),
				before.Key, before.Humans.Said())
		}
	}
	compared := r.Previous != nil && !r.Previous.TotalsOnly()
	earlier := r.Previous
	if !compared {
		earlier = nil
		if by.List == Rising || by.List == Falling {
			return r, noAnswer("%s: which pages are %s is not known: the archive lacks the pages of %s, "+
				"which it is compared with", r.Key, by.List, o.Selection.Granularity.ComparedWith(r.Window))
		}
	}
	m, err := Compare(ctx, from, earlier, &r.Revision, by)
	if err != nil {
		return r, err
	}
	people, err := peopleOf(ctx, from, map[analytics.Key]bool{r.Key: true})
	if err != nil {
		return r, err
	}
	r.People = people[r.Window]
	first, n := m.Top, by.Offset+by.N
	r.Count, r.Listed = m.Pages, m.Pages
	switch {
	case by.List == Rising:
		first, r.Listed = m.Rising.First, m.Rising.Count
	case by.List == Falling:
		first, r.Listed = m.Falling.First, m.Falling.Count
	case by.By == ByChange && compared:
		first, r.Listed = m.Changed(n), m.Rising.Count+m.Falling.Count
	case by.By == ByChange:
		first, r.Listed = nil, 0
	}
	r.Pages = by.pages(first, compared)
	if by.Path != nil && len(r.Pages) > 0 {
		r.Pages[0].Rank, err = by.rank(ctx, from, earlier, &r.Revision, first[0])
		if err != nil {
			return r, err
		}
	}
	if compared {
		list := func(best analytics.Ranking) PageList { return PageList{best.Count, by.pages(best.First, true)} }
		r.Changes = &Changes{list(m.Rising), list(m.Falling), list(m.Appeared), list(m.Vanished)}
	}
	return r, nil
}

// choose returns the requested window of a project, the window to compare it with, and a newer window of which only
// totals are known; both are nil if there is none. With totals, windows without pages are chosen as well.
func (o Choice) choose(
	ctx context.Context, from sinks.Sink, s series, totals bool,
) (now analytics.Revision, previous, newer *analytics.Revision, err error) {
	g := o.Selection.Granularity
	asked := func(w analytics.Window, _ reading) bool {
		return (o.At == nil || g.Names(w, *o.At)) && (o.Since == nil || w.From >= *o.Since) &&
			(o.Until == nil || w.To <= *o.Until)
	}
	last, ok := s.newest(asked)
	if !ok && (o.Since != nil || o.Until != nil) {
		return now, nil, nil, s.lacksDates(g, o.Since, o.Until)
	}
	if !ok {
		return now, nil, nil, o.lacksDay(s, *o.At)
	}
	// A damaged window may have pages.
	w, ok := s.newest(func(w analytics.Window, r reading) bool {
		return asked(w, r) && (totals || r.err != nil || !r.rev.TotalsOnly())
	})
	if !ok {
		return now, nil, nil, o.Selection.totalsOnly(ctx, from, s.windows[last].rev)
	}
	if rev := s.windows[last].rev; w != last {
		newer = &rev
	}
	former, compared := s.endingAt(g.ComparedWith(w).To)
	if o.With != nil {
		former, compared = s.newest(func(w analytics.Window, _ reading) bool { return g.Names(w, *o.With) })
		switch {
		case !compared:
			return now, nil, newer, o.lacksDay(s, *o.With)
		case former == w:
			return now, nil, newer, fmt.Errorf("%s is compared with itself: name days of two windows",
				s.windows[w].rev.Key)
		}
	}
	if err := errors.Join(s.windows[w].err, s.windows[former].err); err != nil {
		return now, nil, newer, err
	}
	if before := s.windows[former].rev; compared {
		previous = &before
	}
	return s.windows[w].rev, previous, newer, nil
}

func (r Ranking) pages(all []analytics.Change, compared bool) []RankedPage {
	out := []RankedPage{}
	for i, c := range all[min(r.Offset, len(all)):] {
		p := RankedPage{Rank: r.Offset + i + 1, Path: c.Path}
		if !c.Vanished {
			p.Visitors = &c.After
		}
		if compared && !c.Appeared {
			p.Previous = &c.Before
		}
		if by := r.Audience(); p.Visitors != nil && p.Previous != nil {
			change := c.By(by)
			p.Change, p.Percent = &change, Percent(c.Before.Of(by), c.After.Of(by))
		}
		out = append(out, p)
	}
	return out
}

// lacksDay is the error of a day that no window contains.
func (o Choice) lacksDay(s series, day analytics.Date) error {
	g := o.Selection.Granularity
	if w, ok := schedule.Open(g, o.Today); ok && o.Today > 0 && w.From <= day && day < w.To {
		return noAnswer("the %s %s of %s is not over, and its pages are read when it is; `docgauge history "+
			"--window %s` shows its totals so far if DOCGAUGE_OPEN_WINDOWS has %s (one request a run)",
			g, w, s.project, g, g)
	}
	first, last := s.span()
	nearest := slices.MinFunc(slices.Collect(maps.Keys(s.windows)), func(a, b analytics.Window) int {
		far := func(w analytics.Window) analytics.Date { return max(w.From-day, day-w.To+1) }
		return cmp.Or(cmp.Compare(far(a), far(b)), cmp.Compare(b.To, a.To))
	})
	return UnknownError{Nearest: &nearest, text: fmt.Sprintf("no %s window of %s in the archive contains %s; they reach "+
		"from %s to %s (exclusive), and the nearest from %s to %s", g, s.project, day, first, last, nearest.From, nearest.To)}
}

// Percent returns a change in percent, to one decimal; nil where there was nothing.
func Percent(from, to int64) *float64 {
	if from == 0 {
		return nil
	}
	p := math.Round((float64(to)-float64(from))/float64(from)*1000) / 10
	if p == 0 {
		p = 0 // not -0
	}
	return &p
}

// share returns the share of AI agents in all visitors, in percent with one decimal; nil if there were no
// visitors, or more AI agents than visitors.
func share(t analytics.Totals) *float64 {
	if t.Total <= 0 || t.AI > t.Total {
		return nil
	}
	p := math.Round(float64(t.AI)/float64(t.Total)*1000) / 10
	return &p
}

// Compare reads the rows of two windows side by side. earlier may be nil: then only Top and
// Pages of the movers are meaningful. An export may have replaced a window since it was
// listed: its revision becomes the one that is read.
func Compare(
	ctx context.Context, from sinks.Sink, earlier, later *analytics.Revision, r Ranking,
) (m analytics.Movers, err error) {
	err = sideBySide(ctx, from, earlier, later, func(before, now iter.Seq2[analytics.Row, error]) error {
		m, err = analytics.FindMovers(r.only(before), r.only(now), r.Audience(), r.Offset+r.N)
		return err
	})
	return m, err
}

// rank returns the place of a page in the list that is asked for.
func (r Ranking) rank(
	ctx context.Context, from sinks.Sink, earlier, later *analytics.Revision, page analytics.Change,
) (rank int, err error) {
	err = sideBySide(ctx, from, earlier, later, func(before, now iter.Seq2[analytics.Row, error]) error {
		rank, err = analytics.Rank(before, now, r.order(), r.Audience(), page)
		return err
	})
	return rank, err
}

// sideBySide calls do with the rows of two windows; a nil window has no rows.
func sideBySide(
	ctx context.Context, from sinks.Sink, earlier, later *analytics.Revision,
	do func(before, now iter.Seq2[analytics.Row, error]) error,
) (err error) {
	now, done, err := windowOf(ctx, from, later)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	before := analytics.ByPath(nil)
	if earlier != nil {
		rows, done, err := windowOf(ctx, from, earlier)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, done()) }()
		before = rows
	}
	return do(before, now)
}

// only keeps the rows below the prefix, or of the path.
func (r Ranking) only(rows iter.Seq2[analytics.Row, error]) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for row, err := range rows {
			kept := strings.HasPrefix(row.Path, r.Prefix) && (r.Path == nil || row.Path == *r.Path)
			if (err != nil || kept) && !yield(row, err) {
				return
			}
		}
	}
}
