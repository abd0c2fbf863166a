package report

import (
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/htmlview"
)

const (
	firstPages = 20 // of the most read ones are shown unfolded
	firstMoves = 10 // are shown of each kind of change

	// What visitors ask for can have any length: so many letters of a path, a name
	// or a reason are written, and so many are shown on request.
	maxLetters = 200
	maxTitle   = 500
)

// pages are the pages of the newest window, and what became of those before.
type pages struct {
	Span, Before                      string // Before is empty where there is nothing to compare with
	Count                             string
	Top                               []row
	More                              []row
	Risen, Fallen, Appeared, Vanished table
	Steady                            string // what did not happen
}

// table is one kind of change.
type table struct {
	Rows  []row
	Count string
}

// row is one page. Bar is its share of the most visited page, of 100.
type row struct {
	Path, Title              string
	Human, AI, Total, Before string
	Change, Tone             string
	Bar                      int64
}

func pagesOf(l Line) *pages {
	cell := l.newest()
	if cell == nil || l.Pages == nil {
		return nil
	}
	p := &pages{Span: htmlview.Days(l.Granularity, cell.Window), Count: htmlview.Plural(l.Pages.Count, "page")}
	compared := l.Pages.Before != nil
	most := int64(1)
	for i, m := range l.Pages.Top {
		most = max(most, m.After.Total)
		if r := rowOf(m, compared, most); i < firstPages {
			p.Top = append(p.Top, r)
		} else {
			p.More = append(p.More, r)
		}
	}
	if compared {
		p.Before = htmlview.Days(l.Granularity, l.Pages.Before.Window)
		p.Risen, p.Fallen = tableOf(l.Pages.Risen), tableOf(l.Pages.Fallen)
		p.Appeared, p.Vanished = tableOf(l.Pages.Appeared), tableOf(l.Pages.Vanished)
		p.Steady = steady(l.Pages.Appeared.Count, l.Pages.Vanished.Count)
	}
	return p
}

func steady(appeared, vanished int64) string {
	switch {
	case appeared == 0 && vanished == 0:
		return "No page appeared or vanished between the two."
	case appeared == 0:
		return "No page appeared between the two."
	case vanished == 0:
		return "No page vanished between the two."
	}
	return ""
}

func tableOf(m Moves) table {
	t := table{Count: htmlview.Commas(m.Count)}
	for _, move := range m.Largest[:min(len(m.Largest), firstMoves)] {
		t.Rows = append(t.Rows, rowOf(move, true, 1))
	}
	return t
}

func rowOf(m Move, compared bool, most int64) row {
	r := row{
		Path: htmlview.Cut(m.Path, maxLetters), Title: htmlview.Cut(m.Path, maxTitle), Before: htmlview.Commas(m.Before.Total),
		Human: htmlview.Commas(m.After.Human), AI: htmlview.Commas(m.After.AI), Total: htmlview.Commas(m.After.Total), Bar: min(m.After.Total*100/most, 100),
	}
	switch {
	case !compared:
	case m.Before == (analytics.Row{}):
		r.Change, r.Tone = "new", "up"
	case m.change() > 0:
		r.Change, r.Tone = "+"+htmlview.Commas(m.change()), "up"
	case m.change() < 0:
		r.Change, r.Tone = htmlview.Commas(m.change()), "down"
	default:
		r.Change = "0"
	}
	return r
}
