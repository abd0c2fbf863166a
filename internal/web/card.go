package web

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
)

// card is the newest window of a grid. The template "figures" shows it.
type card struct {
	Grid    view.Grid
	Changes []change
	Alone   string       // why Changes is empty
	People  *view.People // nil: not known
	Notes   []note
}

// change compares a number of the newest window with an older window's, which Before names: as
// ▲ 2.1%, and in words, up 2.1%. Human and AI are the changes of those visitors, nil where there were
// none to compare with.
type change struct {
	Text, Words, Tone, Before string
	Human, AI                 *change
}

// note is a remark about the numbers of a card. Until is its end, if known.
type note struct {
	Text, Why string
	Until     *moment
}

// Comparison selects the earlier window that a window is compared with. The zero value is that
// of [analytics.Granularity.ComparedWith].
type Comparison struct {
	Year    bool // the one a year before
	Windows int  // this many windows before; 0: the default
}

// window returns the window that w is compared with.
func (c Comparison) window(g analytics.Granularity, w analytics.Window) analytics.Window {
	switch {
	case c.Year:
		return g.YearBefore(w)
	case c.Windows > 0:
		return g.Earlier(w, c.Windows)
	}
	return g.ComparedWith(w)
}

// cardOf returns nil if no window was read.
func cardOf(g view.Grid, against Comparison) *card {
	r := g.Newest
	if r == nil {
		return nil
	}
	c := &card{Grid: g, Alone: "No earlier window to compare with"}
	w, name := against.window(g.Granularity, r.Window), previous(g.Granularity)
	switch {
	case against != Comparison{}:
		name = view.Days(g.Granularity, w)
		c.Alone = "No reading of " + name + " to compare with"
	case g.Granularity == analytics.Day:
		name = "the previous " + w.From.Weekday().String()
	}
	if last := lastRead(g); last != nil && r.Totals.Total == 0 {
		c.Alone = "No readers since " + view.Days(analytics.Day, analytics.Window{From: last.To - 1, To: last.To})
	} else {
		c.compare(g.EndingAt(w.To), name)
	}
	late := 0
	for i := len(g.Cells) - 1; g.Cells[i].Revision == nil; i-- {
		late++
	}
	if late > 0 {
		c.Notes = append(c.Notes, note{Text: format.Plural(late, "newer window") + " missing"})
	}
	return c
}

// lastRead is the newest window that has a reader; nil without one. A site that all its readers left at once is a log
// that ended far more often than a fall of 100%.
func lastRead(g view.Grid) *analytics.Revision {
	for _, c := range slices.Backward(g.Cells) {
		if c.Revision != nil && c.Revision.Totals.Total > 0 {
			return c.Revision
		}
	}
	return nil
}

// compare adds the change since an older reading, if there is one.
func (c *card) compare(before *analytics.Revision, name string) {
	if before == nil {
		return
	}
	if before.Totals.Total <= 0 {
		c.Alone = "No readers to compare with: " + name + " had none"
		return
	}
	if !before.Comparable(*c.Grid.Newest) {
		c.Alone = fmt.Sprintf("Not compared: %s counts people as %s", name, before.Humans.Said())
		return
	}
	now := c.Grid.Newest.Totals
	n := changeOf(before.Totals.Total, now.Total)
	n.Before = name
	n.Human, n.AI = changeOf(before.Totals.Human, now.Human), changeOf(before.Totals.AI, now.AI)
	c.Changes = append(c.Changes, *n)
}

// changeOf returns nil where there was nothing before.
func changeOf(before, after int64) *change {
	if before <= 0 {
		return nil
	}
	growth := view.Growth(before, after)
	if growth == "" {
		return &change{Text: "unchanged", Words: "unchanged"}
	}
	tone := toneOf(before, after)
	if text, up := strings.CutPrefix(growth, "+"); up {
		return &change{Text: "▲ " + text, Words: "up " + text, Tone: tone}
	}
	text := strings.TrimPrefix(growth, "−")
	return &change{Text: "▼ " + text, Words: "down " + text, Tone: tone}
}

// figure is a number of a row of totals. The template "totals" shows it.
type figure struct {
	Name, Value, Class string  // Class is the class of its line in the chart
	Change             *change // nil: not known
	Note               string
}

// figuresOf are the totals of a card, with the requests of AI agents where the window's are known.
func figuresOf(c *card, agents *query.AgentsReport) []figure {
	t := c.Grid.Newest.Totals
	readers, people, ai := figure{"Readers", format.Commas(t.Total), "all", nil, ""},
		figure{"People", format.Commas(t.Human), "human", nil, ""},
		figure{"AI readers", format.Commas(t.AI), "ai", nil, view.Percent(t.AI, t.Total) + " of all"}
	if len(c.Changes) > 0 {
		readers.Change, people.Change, ai.Change = &c.Changes[0], c.Changes[0].Human, c.Changes[0].AI
	}
	if agents != nil && agents.People != nil {
		p := agents.People
		people.Note = format.Commas(p.Confirmed) + " confirmed to " + format.Commas(p.Claimed) + " claimed"
	}
	out := []figure{readers, people, ai}
	if agents != nil && agents.AIRequests != nil {
		f := figure{Name: "AI requests", Value: format.Commas(*agents.AIRequests)}
		if before := agents.AIRequestsBefore; before != nil && len(c.Changes) > 0 {
			f.Change = changeOf(*before, *agents.AIRequests)
		}
		out = append(out, f)
	}
	for _, more := range t.More() {
		out = append(out, figure{Name: more.Name, Value: format.Commas(more.Value)})
	}
	common := bothText(t)
	if _, known := both(t); known {
		common.Note = "read as both"
	}
	return append(out, figure{Name: "Person and AI", Value: common.Text, Note: common.Note})
}

// both is the number of visitors that were human and AI. It is false if that number is impossible
// because the window changed while it was read.
func both(t analytics.Totals) (int64, bool) {
	n := t.Human + t.AI - t.Total
	return n, n >= 0 && n <= min(t.Human, t.AI)
}

// bothText returns that number and its explanation.
func bothText(t analytics.Totals) explained {
	n, ok := both(t)
	if !ok {
		return explained{"–", "Human + AI − total is not a possible number of readers here: " +
			"the window changed while it was read."}
	}
	return explained{format.Commas(n), "Readers that were both: human + AI − total."}
}

// legendEntry is a state that windows are in, and how many. A window can be in two.
type legendEntry struct{ Class, Text, Note string }

// legendOf counts the windows of a grid by their states.
func legendOf(g view.Grid) (out []legendEntry) {
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
			text := format.Commas(state.count) + " " + state.name
			out = append(out, legendEntry{state.class, text, marks[state.class]})
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
