package page

import (
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web/htmlview"
)

// maxEffects is how many effects of merges are shown.
const maxEffects = 8

// effects are what became of the readers of the newest merges.
type effects struct {
	Table   htmlview.EffectTable
	Others  string // how many merges cannot be compared; empty: none
	Closing string
}

// effectsOf returns nil where there are none. Pages without enough data are left out.
func effectsOf(s *view.Snapshot) *effects {
	if len(s.Outcomes) == 0 {
		return nil
	}
	v := &effects{Table: htmlview.EffectTable{Title: "Readers after merges, the newest merge first", Merged: true}, Closing: view.OutcomeCaution}
	others, more := 0, 0
	for _, o := range s.Outcomes {
		known := 0
		for _, e := range o.Effects {
			if e.Verdict == view.NotEnoughData {
				continue
			}
			known++
			if len(v.Table.Rows) < maxEffects {
				row := htmlview.EffectRow{Effect: e, Merge: o.Merge}
				if len(s.Projects) > 1 {
					row.Project = s.ProjectName(o.Project)
				}
				v.Table.Rows = append(v.Table.Rows, row)
			} else {
				more++
			}
		}
		if known == 0 {
			others++
		}
	}
	if more > 0 {
		v.Table.More = format.Plural(more, "more effect") + " not shown; docgauge outcomes shows all"
	}
	if others > 0 {
		v.Others = format.Plural(others, "pull request") + " without enough data"
	}
	return v
}
