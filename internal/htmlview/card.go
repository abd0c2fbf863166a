package htmlview

import (
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

// Card is the newest window of a grid. The template "figures" shows it, in elements
// that fit into a label.
type Card struct {
	Span                                 Span
	Total, Human, AI, Share, Both, Pages string
	BothNote, PagesNote                  string
	Marks                                []Mark
	Changes                              []Change // the fairest first
	Alone                                string   // why there are no changes
	Notes                                []Note
}

// Change compares the newest window with an older one, which Before names: as ▲ 2.1%,
// and in words, up 2.1%.
type Change struct{ Text, Words, Tone, Before string }

// Comparison says which earlier window a window is compared with. The zero value is
// the one before; the fair one for a day is the same weekday.
type Comparison struct {
	Year    bool // the one a year before
	Windows int  // the one so many windows before; 0: none was asked for
}

// Window returns the window that w is compared with.
func (c Comparison) Window(g analytics.Granularity, w analytics.Window) analytics.Window {
	if c.Year {
		return g.YearBefore(w)
	}
	return g.Earlier(w, max(c.Windows, 1))
}

// Note is something to know about the numbers of a card: for how long, if that is
// known.
type Note struct {
	Text, Why string
	Until     Moment
}

// CardOf returns nil where no window was read.
func CardOf(g view.Grid, against Comparison) *Card {
	r := g.Newest
	if r == nil {
		return nil
	}
	t := r.Totals
	c := &Card{
		Span: SpanOf(g.Granularity, r.Window), Marks: marksOf(*r),
		Total: format.Commas(t.Total), Human: format.Commas(t.Human), AI: format.Commas(t.AI), Share: Percent(t.AI, t.Total),
		Both: "–", BothNote: "Human + AI − total is not a possible number of readers here: the window changed while it was read.",
		Pages: "–", PagesNote: "Only the totals of the site are read for this granularity.",
	}
	if n, ok := Both(t); ok {
		c.Both, c.BothNote = format.Commas(n), "Readers that were both: human + AI − total."
	}
	if !r.TotalsOnly() {
		c.Pages, c.PagesNote = format.Commas(r.Rows), "Pages with at least one reader."
	}
	c.compare(g, *r, against)
	late := 0
	for i := len(g.Cells) - 1; g.Cells[i].Revision == nil; i-- {
		late++
	}
	if late > 0 {
		c.Notes = append(c.Notes, Note{Text: format.Plural(late, "newer window") + " missing"})
	}
	return c
}

// compare adds what changed since an earlier window.
func (c *Card) compare(g view.Grid, r analytics.Revision, against Comparison) {
	if (against != Comparison{}) {
		w := against.Window(g.Granularity, r.Window)
		c.change(g.EndingAt(w.To), r, Days(g.Granularity, w), true)
		if len(c.Changes) == 0 {
			c.Alone = "No reading of " + Days(g.Granularity, w) + " to compare with"
		}
		return
	}
	c.Alone = "No earlier window to compare with"
	if g.Granularity != analytics.Day {
		c.change(g.EndingAt(r.From), r, Previous(g.Granularity), true)
		return
	}
	// Weekdays differ, so the fair comparison comes first, and a working day beside a
	// weekend says nothing: a site is not in trouble each Saturday.
	c.change(g.EndingAt(r.To-7), r, "the previous "+r.From.Weekday().String(), true)
	alike := weekend(r.From) == weekend(r.From-1)
	if alike || len(c.Changes) == 0 {
		c.change(g.EndingAt(r.From), r, Previous(g.Granularity), alike)
	}
}

func weekend(d analytics.Date) bool {
	return d.Weekday() == time.Saturday || d.Weekday() == time.Sunday
}

// change adds the change since an older reading, if there is one. Where the two are not
// alike, neither more nor less is good or bad.
func (c *Card) change(before *analytics.Revision, r analytics.Revision, name string, alike bool) {
	if before == nil || before.Totals.Total <= 0 {
		return
	}
	change := Change{Text: "unchanged", Words: "unchanged", Before: name}
	if text := difference(before.Totals.Total, r.Totals.Total); text != "" {
		arrow, tone := "▼ ", "down"
		if r.Totals.Total > before.Totals.Total {
			arrow, tone = "▲ ", "up"
		}
		change.Text, change.Words = arrow+text, tone+" "+text
		if alike {
			change.Tone = tone
		}
	}
	c.Changes = append(c.Changes, change)
}

// Coverage says which windows of a grid are known.
type Coverage struct {
	Known, All string // 28, 30 windows
	Legend     []Entry
	Gaps       string // which windows are missing; empty: none
}

// Entry is a state that windows are in, and how many. A window can be in two.
type Entry struct{ Class, Text, Note string }

// shownGaps is how many stretches of missing windows are named.
const shownGaps = 6

// CoverageOf counts the windows of a grid.
func CoverageOf(g view.Grid) Coverage {
	c := Coverage{Known: format.Commas(g.Known), All: format.Plural(g.Known+g.Missing, "window"), Gaps: gaps(g)}
	for _, state := range []struct {
		class, name string
		count       int
	}{
		{"settled", "settled", g.Known - g.Provisional},
		{"provisional", "provisional", g.Provisional},
		{"totals", "totals only", g.Rowless},
		{"unverified", "unverified", g.Unverified},
		{"missing", "missing", g.Missing},
	} {
		if state.count > 0 {
			c.Legend = append(c.Legend, Entry{state.class, format.Commas(state.count) + " " + state.name, marks[state.class]})
		}
	}
	return c
}

// gaps names the stretches of missing windows, newest first.
func gaps(g view.Grid) string {
	var names []string
	left := 0
	for end := len(g.Cells) - 1; end >= 0; end-- {
		if g.Cells[end].Revision != nil {
			continue
		}
		begin := end
		for begin > 0 && g.Cells[begin-1].Revision == nil {
			begin--
		}
		name := Days(g.Granularity, g.Cells[end].Window)
		if begin < end {
			name = Days(g.Granularity, g.Cells[begin].Window) + " to " + name
		}
		if len(names) < shownGaps {
			names = append(names, name)
		} else {
			left++
		}
		end = begin
	}
	if left > 0 {
		names = append(names, "and "+format.Commas(left)+" more")
	}
	return strings.Join(names, "; ")
}
