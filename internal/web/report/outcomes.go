package report

import (
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web/htmlview"
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

// merge is a merge in a report, and what became of the readers.
type merge struct {
	view.Outcome
	Project string // empty: there is only one
	Table   htmlview.EffectTable
	Charts  []*htmlview.EffectChart
}

// Moves reports whether the numbers can still change.
func (m merge) Moves() bool { return len(m.Effects) > 0 && !m.Final }

func mergeOf(o view.Outcome, project string) merge {
	m := merge{Outcome: o, Project: project, Table: htmlview.EffectTable{Title: "Effects of the merge"}}
	for _, e := range o.Effects[:min(len(o.Effects), maxEffects)] {
		m.Table.Rows = append(m.Table.Rows, htmlview.EffectRow{Effect: e, Merge: o.Merge})
	}
	if more := len(o.Effects) - maxEffects; more > 0 {
		m.Table.More = format.Plural(more, "more effect") + " not shown"
	}
	// Those with a clear verdict are drawn first.
	for _, clear := range []bool{true, false} {
		for _, e := range o.Effects {
			if (e.Tone() != "") != clear || e.Verdict == view.NotEnoughData || len(m.Charts) == maxCharts {
				continue
			}
			if c := htmlview.EffectChartOf(o.Date(), e); c != nil {
				m.Charts = append(m.Charts, c)
			}
		}
	}
	return m
}
