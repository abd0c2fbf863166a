package page

import (
	"cmp"
	"slices"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/htmlview"
)

const (
	maxWaiting = 10  // windows of a project are listed
	maxDetail  = 300 // letters of an error are shown with a window
)

// waiting are the windows of a project that are not due before their time: those
// that are set aside, and those whose rows are read when they have settled.
type waiting struct {
	Anchor  string // of its heading
	Windows []waitingWindow
	More    string // how many are not listed; empty: none
}

// waitingWindow is one of them.
type waitingWindow struct {
	Span         htmlview.Span
	Title        string
	Why, Note    string
	First, Until htmlview.Moment // First: of the tries that failed, if any
	Detail       string          // the last error
}

// asideWhys explain the reasons a window can be set aside for.
var asideWhys = map[analytics.AsideReason]string{
	analytics.AsideMalformed: "an answer holds what cannot be kept",
	analytics.AsideRepeats:   "the service sends the same rows again",
	analytics.AsideRefused:   "the service refuses it, and not others",
	analytics.AsideFailing:   "the service fails for it, and not for others",
}

// waitingOf lists what waits, those that are set aside first, each kind from new
// to old; nil where nothing does.
func waitingOf(s *exporter.Snapshot, p exporter.Project, anchor string) *waiting {
	w := &waiting{Anchor: anchor}
	all := 0
	add := func(v waitingWindow) {
		if all++; all <= maxWaiting {
			w.Windows = append(w.Windows, v)
		}
	}
	for _, a := range s.Asides {
		if a.Project == p.ID {
			add(asideOf(a, s.At))
		}
	}
	for _, g := range p.Grids {
		for _, c := range slices.Backward(g.Cells) {
			if !c.RowsFrom.IsZero() {
				add(rowlessOf(g.Granularity, c, s.At))
			}
		}
	}
	if all == 0 {
		return nil
	}
	if more := all - len(w.Windows); more > 0 {
		w.More = htmlview.Plural(more, "more window")
	}
	return w
}

func asideOf(a analytics.Aside, now time.Time) waitingWindow {
	return waitingWindow{
		Span: htmlview.SpanOf(a.Granularity, a.Window), Title: htmlview.Title(a.Granularity),
		Why:  "Set aside: " + cmp.Or(asideWhys[a.Reason], string(a.Reason)),
		Note: "in " + htmlview.Plural(a.Failures, "run"), First: htmlview.MomentOf(a.Since, now), Until: htmlview.MomentOf(a.Until, now),
		Detail: htmlview.Cut(a.Detail, maxDetail),
	}
}

func rowlessOf(g analytics.Granularity, c exporter.Cell, now time.Time) waitingWindow {
	return waitingWindow{
		Span: htmlview.SpanOf(g, c.Window), Title: htmlview.Title(g),
		Why:   "Totals known, rows later",
		Note:  "its rows change while they are read; that ends when it has settled",
		Until: htmlview.MomentOf(c.RowsFrom, now),
	}
}

// note is what to know of the numbers of the newest window, and from when it is
// otherwise, if that is known.
type note struct {
	Text, Why string
	From      htmlview.Moment
}

// notesOf says how many rows of a window are suspect, or that it has none yet.
func notesOf(g exporter.Grid, w *exporter.Window, now time.Time) (out []note) {
	moved, repeated := htmlview.Commas(w.MovedRows)+" read before the totals last moved", htmlview.Commas(w.RepeatedRows)+" whose path came twice"
	rows := " of " + htmlview.Plural(w.Rows, "row")
	switch {
	case w.MovedRows > 0 && w.RepeatedRows > 0:
		out = append(out, note{Text: "Suspect: up to " + htmlview.Commas(min(w.MovedRows+w.RepeatedRows, w.Rows)) + rows, Why: moved + ", " + repeated})
	case w.MovedRows > 0:
		out = append(out, note{Text: "Suspect: " + htmlview.Commas(w.MovedRows) + rows, Why: "read before the totals last moved"})
	case w.RepeatedRows > 0:
		out = append(out, note{Text: "Suspect: " + htmlview.Commas(w.RepeatedRows) + rows, Why: "whose path came twice"})
	}
	for _, c := range g.Cells {
		if c.Window == w.Window && !c.RowsFrom.IsZero() {
			out = append(out, note{"Totals only so far", "rows when it has settled, from", htmlview.MomentOf(c.RowsFrom, now)})
		}
	}
	return out
}
