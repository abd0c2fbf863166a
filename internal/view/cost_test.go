package view_test

import (
	"testing"

	"github.com/docgauge/docgauge/internal/view"
)

// TestCostOf: known costs are added up by unit, what is not known is estimated or said, and units are
// never mixed.
func TestCostOf(t *testing.T) {
	reported := func(cost float64, unit string) view.Job {
		return view.Job{Result: "pr", Cost: &cost, CostUnit: unit, EstimatedCost: 0.5}
	}
	atWork := func(cost float64) view.Job { return view.Job{Cost: &cost, CostUnit: "USD"} }
	lost := atWork(0.25)
	lost.Result = "lost"
	estimated, unknown := view.Job{Result: "failed", EstimatedCost: 0.5}, view.Job{Result: "no_pr"}
	dear, cheap := atWork(0.75), atWork(0.25)
	dear.EstimatedCost, cheap.EstimatedCost = 0.5, 0.5
	for _, tc := range []struct {
		jobs []view.Job
		want string
	}{
		{nil, ""},
		{[]view.Job{unknown, unknown}, ""},
		{[]view.Job{{}}, ""},
		{[]view.Job{reported(0, "")}, "0"},
		{[]view.Job{reported(1.27, "USD")}, "1.27 USD"},
		{[]view.Job{reported(0.1, "USD"), reported(0.2, "USD")}, "0.3 USD"},
		{[]view.Job{reported(1.23456, "USD")}, "1.2346 USD"},
		{[]view.Job{reported(0.00001, "USD")}, "<0.0001 USD"},
		{[]view.Job{reported(30, "credits"), reported(1.27, "USD"), reported(2, "")}, "2 and 1.27 USD and 30 credits"},
		{[]view.Job{estimated}, "0.5 (estimated)"},
		{[]view.Job{reported(1.27, "USD"), estimated}, "1.77 USD (1 of 2 jobs estimated)"},
		{[]view.Job{estimated, reported(1, "USD"), reported(3, "€")}, "at least 1 USD and 3 € (1 of 3 jobs unknown)"},
		{[]view.Job{reported(1.27, "USD"), unknown}, "at least 1.27 USD (1 of 2 jobs unknown)"},
		{[]view.Job{estimated, unknown}, "at least 0.5 (1 of 2 jobs unknown)"},
		{[]view.Job{atWork(0.25)}, "at least 0.25 USD"},
		{[]view.Job{lost}, "at least 0.25 USD"},
		{[]view.Job{cheap}, "0.5 USD (estimated)"},
		{[]view.Job{dear}, "0.75 USD (estimated)"},
	} {
		var apart view.Cost
		for _, j := range tc.jobs {
			apart = apart.Plus(view.CostOf(j))
		}
		if got := view.CostOf(tc.jobs...).Text(); got != tc.want || apart.Text() != tc.want {
			t.Errorf("%q, one after the other %q; want %q", got, apart.Text(), tc.want)
		}
	}
	s := view.OutcomeSummary{Merged: 3, Cost: view.CostOf(reported(1.2, "USD"), reported(0.3, "USD"), unknown)}
	want := "None judged yet: 0 too early, 0 without enough data. " +
		"Cost of 3 merges: at least 1.5 USD (1 of 3 jobs unknown), at least 0.5 USD each."
	if got := s.Sentence(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
