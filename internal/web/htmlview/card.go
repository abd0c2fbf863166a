package htmlview

import (
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

// Card is the newest window of a grid. The template "figures" shows it.
type Card struct {
	Grid    view.Grid
	Changes []Change // the fairest first
	Alone   string   // why there are no changes
	Notes   []Note
}

// Change compares the newest window with an older one, which Before names: as ▲ 2.1%, and in
// words, up 2.1%.
type Change struct{ Text, Words, Tone, Before string }

// Note is something to know about the numbers of a card: until when, if that is known.
type Note struct {
	Text, Why string
	Until     Moment
}

// Comparison says which earlier window a window is compared with. The zero value is the one
// before; for a day the same weekday comes first.
type Comparison struct {
	Year    bool // the one a year before
	Windows int  // the one so many windows before; 0: the default
}

// Window returns the window that w is compared with.
func (c Comparison) Window(g analytics.Granularity, w analytics.Window) analytics.Window {
	if c.Year {
		return g.YearBefore(w)
	}
	return g.Earlier(w, max(c.Windows, 1))
}

// CardOf returns nil if no window was read.
func CardOf(g view.Grid, against Comparison) *Card {
	r := g.Newest
	if r == nil {
		return nil
	}
	c := &Card{Grid: g, Alone: "No earlier window to compare with"}
	switch alike := weekend(r.From) == weekend(r.From-1); {
	case against != Comparison{}:
		w := against.Window(g.Granularity, r.Window)
		c.Alone = "No reading of " + view.Days(g.Granularity, w) + " to compare with"
		c.compare(g.EndingAt(w.To), view.Days(g.Granularity, w), true)
	case g.Granularity != analytics.Day:
		c.compare(g.EndingAt(r.From), previous(g.Granularity), true)
	default:
		// Weekdays differ, so the fair comparison comes first. A working day beside a weekend says
		// nothing: a site is not in trouble each Saturday.
		c.compare(g.EndingAt(r.To-7), "the previous "+r.From.Weekday().String(), true)
		if alike || len(c.Changes) == 0 {
			c.compare(g.EndingAt(r.From), previous(g.Granularity), alike)
		}
	}
	late := 0
	for i := len(g.Cells) - 1; g.Cells[i].Revision == nil; i-- {
		late++
	}
	if late > 0 {
		c.Notes = append(c.Notes, Note{Text: format.Plural(late, "newer window") + " missing"})
	}
	return c
}

func weekend(d analytics.Date) bool {
	return d.Weekday() == time.Saturday || d.Weekday() == time.Sunday
}

// compare adds the change since an older reading, if there is one. If the two are not alike,
// neither more nor less is good or bad.
func (c *Card) compare(before *analytics.Revision, name string, alike bool) {
	if before == nil || before.Totals.Total <= 0 {
		return
	}
	n := Change{Text: "unchanged", Words: "unchanged", Before: name}
	if growth := view.Growth(before.Totals.Total, c.Grid.Newest.Totals.Total); growth != "" {
		text, up := strings.CutPrefix(growth, "+")
		text = strings.TrimPrefix(text, "−")
		arrow, tone := "▼ ", "down"
		if up {
			arrow, tone = "▲ ", "up"
		}
		n.Text, n.Words = arrow+text, tone+" "+text
		if alike {
			n.Tone = tone
		}
	}
	c.Changes = append(c.Changes, n)
}

// bothText is how many visitors were human and AI, and bothNote explains that.
func bothText(t analytics.Totals) string {
	n, ok := both(t)
	if !ok {
		return "–"
	}
	return format.Commas(n)
}

func bothNote(t analytics.Totals) string {
	if _, ok := both(t); !ok {
		return "Human + AI − total is not a possible number of readers here: the window changed while it was read."
	}
	return "Readers that were both: human + AI − total."
}

// Entry is a state that windows are in, and how many. A window can be in two.
type Entry struct{ Class, Text, Note string }

// LegendOf counts the windows of a grid by their states.
func LegendOf(g view.Grid) (out []Entry) {
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
			out = append(out, Entry{state.class, format.Commas(state.count) + " " + state.name, marks[state.class]})
		}
	}
	return out
}

// shownGaps is how many stretches of missing windows are named.
const shownGaps = 6

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
		name := view.Days(g.Granularity, g.Cells[end].Window)
		if begin < end {
			name = view.Days(g.Granularity, g.Cells[begin].Window) + " to " + name
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
