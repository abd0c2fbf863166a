package prompts

import (
	"fmt"
	"math"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// outcomes lists the effects of merges, newest merge first; pages without enough data are
// left out.
func (r *renderer) outcomes(n int) (pageList, error) {
	if n < 1 || n > maxPages {
		return nil, functionErrorf("outcomes %d: want from 1 to %d effects", n, maxPages)
	}
	if r.numbers == nil {
		return nil, functionErrorf("outcomes: %w", ErrNoNumbers)
	}
	if r.merges == nil {
		merges, err := r.numbers.Outcomes(r.ctx, r.prompt.Project)
		if err != nil {
			return nil, functionErrorf("outcomes: %w", err)
		}
		r.merges = append([]view.Outcome{}, merges...)
	}
	list := pageList{}
	for _, o := range r.merges {
		for _, e := range o.Effects {
			if e.Verdict != view.NotEnoughData && len(list) < n {
				list = append(list, outcomeRecord(o, e))
			}
		}
	}
	return list, nil
}

func outcomeRecord(o view.Outcome, e view.Effect) record {
	percent := func(ratio float64) int { return int(math.Round(ratio * 100)) }
	level := func(visitors float64) int { return int(math.Round(visitors)) }
	rec := record{
		"path": quote(e.Path), "audience": string(e.Audience), "merged": day{o.Date()}, "verdict": string(e.Verdict),
		"before": level(e.Before), "after": level(e.Actual), "expected": level(e.Expected),
		"change": percent(e.Change), "low": percent(e.Low), "high": percent(e.High),
	}
	who := map[analytics.Audience]string{analytics.Human: "human", analytics.AI: "AI"}[e.Audience]
	rec["line"] = fmt.Sprintf("- %s, merged %s: %d %s visitors a day since, %d expected without it: %+d%% (90%% interval %+d%% to %+d%%), %s",
		rec["path"], rec["merged"], rec["after"], who, rec["expected"], rec["change"], rec["low"], rec["high"], e.Verdict)
	return rec
}
