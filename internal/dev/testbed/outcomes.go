package testbed

import (
	"math"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// Now is when the made-up site is looked at: a Tuesday, 31 minutes past ten.
var Now = time.Date(2026, time.October, 6, 10, 31, 12, 0, time.UTC)

// Today is the date of Now.
var Today = analytics.DateOf(Now)

// Outcomes are two merges with effects of each verdict, a merge without pages, and a pull request whose state is not
// known. The summary counts more merges.
func Outcomes(project string) view.Outcomes {
	merged, lately := Today-33, Today-12
	link := "https://github.com/acme/docs/pull/"
	effects := []view.Effect{
		{Path: "/guides/install", Audience: analytics.Human, Verdict: view.MoreReaders, Before: 101, Actual: 131,
			Expected: 103, Change: .27, Low: .19, High: .36, P: .01, Corrected: true, Placebos: 34},
		{Path: "/guides/install", Audience: analytics.AI, Verdict: view.NotEnoughData, Before: 2.1,
			Reason: "2.1 visitors a day before the merge, 3 are needed"},
		{Path: "/guides/errors", Audience: analytics.Human, Verdict: view.NoClearChange, Before: 64, Actual: 69,
			Expected: 65, Change: .06, Low: -.06, High: .2, P: .31, Corrected: true, Placebos: 34},
		{Path: "/guides/errors", Audience: analytics.AI, Verdict: view.FewerReaders, Before: 41, Actual: 24,
			Expected: 42, Change: -.43, Low: -.6, High: -.21, P: .02,
			Reason: "only 9 untouched pages have 3 visitors a day, a comparison needs 19: the page is compared " +
				"with its own weekdays and trend, which is less certain"},
	}
	early := []view.Effect{{Path: "/sdks/go", Audience: analytics.Human, Verdict: view.TooEarly, Before: 80,
		Actual: 97, Expected: 82, Change: .18, Low: .02, High: .36, P: .04, Placebos: 34,
		Reason: "11 of the 28 days after the merge are in"}}
	draw(effects, merged)
	draw(early, lately)
	cost := func(amount float64, unknown int) view.Cost {
		return view.Cost{Reported: []view.Amount{{Amount: amount, Unit: "USD"}}, Jobs: 1 + unknown, Unknown: unknown}
	}
	summary := view.OutcomeSummary{Project: project, Merges: 12, Comparisons: 31, More: 4, Fewer: 1, ByChance: 1.2,
		TooEarly: 1, NotEnoughData: 5, Merged: 14, Cost: cost(23.8, 0),
		Mean: &view.MeanChange{Change: .06, Low: .02, High: .1, Comparisons: 28, Dates: 10}}
	return view.Outcomes{Summaries: []view.OutcomeSummary{summary}, Merges: []view.Outcome{
		{Merge: view.Merge{Project: project, Link: link + "431", Title: "Go SDK", At: lately.Time(),
			Pages: []string{"/sdks/go"}, Cost: cost(1.27, 0)}, Effects: early},
		{Merge: view.Merge{Project: project, Link: link + "412", Title: "Examples for the guides", At: merged.Time(),
			Pages: []string{"/guides/install", "/guides/errors"}, Cost: cost(2.05, 1)}, Effects: effects, Final: true},
		{Merge: view.Merge{Project: project, Link: link + "409", Title: "Fix the build", At: (merged - 2).Time(),
			Problem: "no page among 2 changed files; pages: in the front matter of a prompt names pages"}},
		{Merge: view.Merge{Project: project, Link: "https://git.example.com/pull/7", Title: "Elsewhere",
			Problem: "it is not known whether it was merged: git.example.com cannot be asked"}},
	}}
}

// draw sets the days of effects of a merge.
func draw(effects []view.Effect, merged analytics.Date) {
	for i := range effects {
		e := &effects[i]
		for d := merged - 28; e.Verdict != view.NotEnoughData && d < min(Today, merged+29); d++ {
			wave := 1 + .15*math.Sin(float64(d))
			day := view.EffectDay{Date: d, Actual: e.Before * wave, Expected: e.Before}
			day.Low, day.High = day.Expected, day.Expected
			if d > merged {
				day.Actual, day.Expected = e.Actual*wave, e.Expected
				day.Low, day.High = e.Actual/(1+e.High), e.Actual/(1+e.Low)
			}
			if d != merged-9 { // a missing window
				e.Days = append(e.Days, day)
			}
		}
	}
}
