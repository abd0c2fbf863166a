package page

import (
	"fmt"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/htmlview"
)

const (
	firstPages = 10   // of a table are shown unfolded
	maxPages   = 50   // of a table
	maxRows    = 2000 // of all tables, unless the unfolded ones are more

	// What visitors ask for can have any length: so many letters of a path are
	// written, and so many are shown on request.
	maxPath  = 200
	maxTitle = 500
)

type project struct {
	ID       string
	Anchor   string // of its heading
	Cards    []card
	Waiting  *waiting // nil: nothing waits
	Tables   []pages
	Coverage []coverage
}

// card is one granularity of a project.
type card struct {
	ID         string
	Title      string
	TotalsOnly bool
	Newest     *newest // nil: no complete window yet
	Trend      *trend  // nil: nothing to draw
	Open       *open   // nil: not read
}

// newest is the newest complete window.
type newest struct {
	Span             htmlview.Span
	Human, AI, Total string
	Share            string // of AI in Total
	Changes          []change
	Notes            []note
	Pages            string
	Marks            []htmlview.Mark
}

// change compares the newest window with an older one.
type change struct{ Text, Before string }

type open struct {
	Span             htmlview.Span
	Human, AI, Total string
	Read             htmlview.Moment
}

func projects(s *exporter.Snapshot) (out []project) {
	shown := shownCells(s)
	rows := min(maxPages, max(firstPages, maxRows/max(len(s.Windows), 1)))
	for i, p := range s.Projects {
		v := project{ID: p.ID, Anchor: fmt.Sprintf("p%d", i)}
		v.Waiting = waitingOf(s, p, v.Anchor+"w")
		for j, g := range p.Grids {
			id := fmt.Sprintf("p%dg%d", i, j)
			w := windowOf(s, p.ID, g.Granularity)
			v.Cards = append(v.Cards, cardOf(s, p.ID, id, g, w))
			v.Coverage = append(v.Coverage, coverageOf(g, shown))
			if w != nil && len(w.Pages) > 0 {
				v.Tables = append(v.Tables, pagesOf(w, rows))
			}
		}
		out = append(out, v)
	}
	return out
}

func windowOf(s *exporter.Snapshot, project string, g analytics.Granularity) *exporter.Window {
	for i := range s.Windows {
		if w := &s.Windows[i]; w.Project == project && w.Granularity == g {
			return w
		}
	}
	return nil
}

func cardOf(s *exporter.Snapshot, project, id string, g exporter.Grid, w *exporter.Window) card {
	c := card{ID: id, Title: htmlview.Title(g.Granularity), TotalsOnly: g.TotalsOnly, Trend: trendOf(g)}
	if w != nil {
		c.Newest = newestOf(g, w, s.At)
	}
	for _, o := range s.Open {
		if o.Project == project && o.Granularity == g.Granularity {
			c.Open = &open{
				Span: htmlview.SpanOf(o.Granularity, o.Window), Human: htmlview.Commas(o.Totals.Human), AI: htmlview.Commas(o.Totals.AI),
				Total: htmlview.Commas(o.Totals.Total), Read: htmlview.MomentOf(o.ReadAt, s.At),
			}
		}
	}
	return c
}

func newestOf(g exporter.Grid, w *exporter.Window, now time.Time) *newest {
	n := &newest{
		Span:  htmlview.SpanOf(w.Granularity, w.Window),
		Human: htmlview.Commas(w.Totals.Human), AI: htmlview.Commas(w.Totals.AI), Total: htmlview.Commas(w.Totals.Total),
		Share: htmlview.Percent(w.Totals.AI, w.Totals.Total), Pages: "–", Marks: htmlview.Marks(w.Revision),
		Notes: notesOf(g, w, now),
	}
	if !w.TotalsOnly() {
		n.Pages = htmlview.Commas(w.Rows)
	}
	n.compare(g, w, w.From, htmlview.Before(g.Granularity))
	if g.Granularity == analytics.Day {
		n.compare(g, w, w.To-7, "the "+w.From.Weekday().String()+" before")
	}
	return n
}

// compare adds the change against the window that ends at to, if it is known.
// The window before w is the one that ends where w begins: also where windows
// roll the two share no day.
func (n *newest) compare(g exporter.Grid, w *exporter.Window, to analytics.Date, name string) {
	for _, c := range g.Cells {
		if c.To == to && c.Revision != nil && c.Revision.Totals.Total > 0 {
			n.Changes = append(n.Changes, change{htmlview.Difference(c.Revision.Totals.Total, w.Totals.Total), name})
		}
	}
}

// pages is a table of the most visited pages of one window.
type pages struct {
	Title       string
	Span        htmlview.Span
	First, More []page
	Of          string // how many pages the window has
}

// page is one row; Bar is its share of the most visited page, of 100.
type page struct {
	Path, Title      string
	Human, AI, Total string
	Bar              int64
}

func pagesOf(w *exporter.Window, rows int) pages {
	t := pages{Title: htmlview.Title(w.Granularity), Span: htmlview.SpanOf(w.Granularity, w.Window), Of: htmlview.Commas(w.Rows)}
	most := max(w.Pages[0].Total, 1)
	for i, r := range w.Pages[:min(len(w.Pages), rows)] {
		p := page{
			Path: htmlview.Cut(r.Path, maxPath), Title: htmlview.Cut(r.Path, maxTitle),
			Human: htmlview.Commas(r.Human), AI: htmlview.Commas(r.AI), Total: htmlview.Commas(r.Total), Bar: min(r.Total*100/most, 100),
		}
		if i < firstPages {
			t.First = append(t.First, p)
		} else {
			t.More = append(t.More, p)
		}
	}
	return t
}
