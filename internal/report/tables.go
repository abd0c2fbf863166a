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
	p := &pages{Span: htmlview.Days(l.Granularity, cell.Window), Count: htmlview.Plural(l.Pages.Movers.Pages, "page")}
	compared := l.Pages.Before != nil
	most := int64(1)
	for i, m := range l.Pages.Movers.Top {
		most = max(most, m.After.Total)
		if r := rowOf(m, compared, most); i < firstPages {
			p.Top = append(p.Top, r)
		} else {
			p.More = append(p.More, r)
		}
	}
	if compared {
		p.Before = htmlview.Days(l.Granularity, l.Pages.Before.Window)
		m := l.Pages.Movers
		p.Risen, p.Fallen = tableOf(m.Rising), tableOf(m.Falling)
		p.Appeared, p.Vanished = tableOf(m.Appeared), tableOf(m.Vanished)
		p.Steady = steady(m.Appeared.Count, m.Vanished.Count)
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

func tableOf(r analytics.Ranking) table {
	t := table{Count: htmlview.Commas(r.Count)}
	for _, c := range r.First[:min(len(r.First), firstMoves)] {
		t.Rows = append(t.Rows, rowOf(c, true, 1))
	}
	return t
}

func rowOf(m analytics.Change, compared bool, most int64) row {
	r := row{
		Path: htmlview.Cut(m.Path, maxLetters), Title: htmlview.Cut(m.Path, maxTitle), Before: htmlview.Commas(m.Before.Total),
		Human: htmlview.Commas(m.After.Human), AI: htmlview.Commas(m.After.AI), Total: htmlview.Commas(m.After.Total), Bar: min(m.After.Total*100/most, 100),
	}
	gain := m.By(analytics.Everyone)
	switch {
	case !compared:
	case m.Appeared:
		r.Change, r.Tone = "new", "up"
	case gain > 0:
		r.Change, r.Tone = "+"+htmlview.Commas(gain), "up"
	case gain < 0:
		r.Change, r.Tone = htmlview.Commas(gain), "down"
	default:
		r.Change = "0"
	}
	return r
}
