package report

import (
	"fmt"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/htmlview"
)

// project is one project in words.
type project struct {
	ID, Anchor string
	Lead       *lead // nil: nothing was read
	Lines      []line
}

// lead is the answer in one sentence, of one window.
type lead struct {
	Total, In, Span, Change, Before, Share string // In is the word before a span
}

// line is one granularity: a card that opens its pane.
type line struct {
	ID, Group string
	Open      bool // at first
	Title     string
	Card      *card // nil: nothing was read
	Chart     *chart
	Pages     *pages
	Coverage  coverage
}

// card is the newest window.
type card struct {
	Span                          htmlview.Span
	Total, Human, AI, Share, Both string
	BothNote                      string
	Changes                       []change // none where there is nothing to compare with
	Marks                         []htmlview.Mark
	Late                          string // windows after it that are missing
}

// change compares the newest window with an older one.
type change struct{ Text, Tone, Before string }

func projectOf(r Report, p Project, at int) project {
	v := project{ID: htmlview.Cut(p.ID, maxLetters), Anchor: fmt.Sprintf("p%d", at)}
	open := leading(p.Lines)
	for i, l := range p.Lines {
		n := line{
			ID: fmt.Sprintf("p%dg%d", at, i), Group: v.Anchor + "g", Open: i == open, Title: htmlview.Title(l.Granularity),
			Card: cardOf(l), Chart: chartOf(l, jobsOf(r, p.ID)), Coverage: coverageOf(l, r), Pages: pagesOf(l),
		}
		v.Lines = append(v.Lines, n)
	}
	if open >= 0 {
		v.Lead = leadOf(p.Lines[open], v.Lines[open].Card)
	}
	return v
}

// leading is the line people ask about first: weeks, else days, else the first
// with a window that was read; -1 where there is none.
func leading(lines []Line) int {
	first := -1
	rank := func(l Line) int {
		switch l.Granularity {
		case analytics.Week:
			return 2
		case analytics.Day:
			return 1
		}
		return 0
	}
	for i, l := range lines {
		if l.newest() != nil && (first < 0 || rank(l) > rank(lines[first])) {
			first = i
		}
	}
	return first
}

func leadOf(l Line, c *card) *lead {
	v := &lead{Total: c.Total, In: "in", Span: c.Span.Text, Change: changeWords(l), Before: htmlview.Before(l.Granularity), Share: c.Share}
	if l.Granularity == analytics.Day {
		v.In = "on"
	}
	return v
}

// changeWords says how the newest window compares: 3.2 % more than.
func changeWords(l Line) string {
	now := l.newest()
	before := l.before(now.From)
	if before == nil || before.Totals.Total == 0 {
		return ""
	}
	text := htmlview.Difference(before.Totals.Total, now.Revision.Totals.Total)
	switch {
	case strings.HasPrefix(text, "▲ "):
		return text[len("▲ "):] + " more than"
	case strings.HasPrefix(text, "▼ "):
		return text[len("▼ "):] + " fewer than"
	}
	return "as many as"
}

func cardOf(l Line) *card {
	cell := l.newest()
	if cell == nil {
		return nil
	}
	t := cell.Revision.Totals
	c := &card{
		Span: htmlview.SpanOf(l.Granularity, cell.Window), Total: htmlview.Commas(t.Total), Human: htmlview.Commas(t.Human), AI: htmlview.Commas(t.AI),
		Share: htmlview.Percent(t.AI, t.Total), Both: "–", Marks: htmlview.Marks(*cell.Revision),
		BothNote: "Visitors that were both: human + AI − total.",
	}
	if n, ok := both(t); ok {
		c.Both = htmlview.Commas(n)
	} else {
		c.BothNote = "Human + AI − total is not a possible number of visitors here: the window changed while it was read."
	}
	c.compare(l, t.Total, cell.From, htmlview.Before(l.Granularity))
	if l.Granularity == analytics.Day {
		c.compare(l, t.Total, cell.To-7, "the "+cell.From.Weekday().String()+" before")
	}
	if n := trailing(l.Cells); n > 0 {
		c.Late = htmlview.Plural(n, "newer window") + " missing"
	}
	return c
}

// compare adds the change against the window that ends at to, if it is known.
func (c *card) compare(l Line, total int64, to analytics.Date, name string) {
	if before := l.before(to); before != nil && before.Totals.Total > 0 {
		text := htmlview.Difference(before.Totals.Total, total)
		c.Changes = append(c.Changes, change{text, tones[strings.Fields(text)[0]], name})
	}
}

var tones = map[string]string{"▲": "up", "▼": "down"}

// both is how many visitors were human and AI; false where that cannot be.
func both(t analytics.Totals) (int64, bool) {
	n := t.Human + t.AI - t.Total
	return n, n >= 0 && n <= min(t.Human, t.AI)
}

// trailing counts the missing windows at the end.
func trailing(cells []Cell) (n int) {
	for i := len(cells) - 1; i >= 0 && cells[i].Revision == nil; i-- {
		n++
	}
	return n
}
