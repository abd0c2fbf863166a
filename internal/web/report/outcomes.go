package report

import (
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/htmlview"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	maxMerges  = 20 // that are shown
	maxEffects = 20 // of one merge in its table
	maxCharts  = 4  // of one merge
)

// outcomes are the merges, and what became of the readers.
type outcomes struct {
	Merges  []merge
	More    string // how many are not shown; empty: none
	Closing string
}

// merge is one of them. Date is empty where it is not known whether it was merged.
type merge struct {
	Title, Date, Project string
	Link, LinkText       string
	Problem              string
	Moves                bool // the numbers can still change
	Effects              htmlview.EffectTable
	Charts               []effectChart
}

// effectChart is the drawing of one effect.
type effectChart struct {
	htmlview.Effect
	Chart *htmlview.EffectChart
}

// outcomesOf returns nil where there are none.
func outcomesOf(r Report) *outcomes {
	if len(r.Outcomes) == 0 {
		return nil
	}
	names := map[string]string{}
	for _, p := range r.Projects {
		if len(r.Projects) > 1 {
			names[p.ID] = p.name()
		}
	}
	v := &outcomes{Closing: view.OutcomeCaution}
	shown := r.Outcomes[:min(len(r.Outcomes), maxMerges)]
	for _, o := range shown {
		v.Merges = append(v.Merges, mergeOf(o, names[o.Project]))
	}
	if more := len(r.Outcomes) - len(shown); more > 0 {
		v.More = format.Plural(more, "older merge") + " not shown; docgauge outcomes shows all"
	}
	return v
}

func mergeOf(o view.Outcome, project string) merge {
	m := merge{
		Title: format.Cut(o.Title, htmlview.MaxName), Project: project, Problem: format.Cut(o.Problem, htmlview.MaxMessage),
		Link: analytics.SafeLink(o.Link), LinkText: format.Cut(o.Link, htmlview.MaxName), Moves: len(o.Effects) > 0 && !o.Final,
	}
	if !o.At.IsZero() {
		m.Date = htmlview.Days(analytics.Day, analytics.Window{From: o.Date(), To: o.Date() + 1})
	}
	m.Effects.Title = "Effects of the merge"
	for i, e := range o.Effects {
		if i < maxEffects {
			m.Effects.Rows = append(m.Effects.Rows, htmlview.EffectRowOf(o, e))
		}
	}
	if more := len(o.Effects) - maxEffects; more > 0 {
		m.Effects.More = format.Plural(more, "more effect") + " not shown"
	}
	// Those whose verdict is clear are drawn first.
	for _, clear := range []bool{true, false} {
		for _, e := range o.Effects {
			if is := e.Verdict == view.MoreReaders || e.Verdict == view.FewerReaders; is != clear || e.Verdict == view.NotEnoughData || len(m.Charts) == maxCharts {
				continue
			}
			if c := htmlview.EffectChartOf(o.Date(), e); c != nil {
				m.Charts = append(m.Charts, effectChart{htmlview.EffectOf(e), c})
			}
		}
	}
	return m
}
