package webtest

import (
	"math"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// Outcomes are a merge with effects of each kind, one of no page, and a pull request whose
// state is not known.
func Outcomes(project string) []view.Outcome {
	merged := Today - 20
	link := "https://github.com/acme/docs/pull/"
	effects := []view.Effect{
		{Path: "/guides/install", Audience: analytics.Human, Verdict: view.MoreReaders, Before: 101, Actual: 131,
			Expected: 103, Change: .27, Low: .19, High: .36, Placebos: 34},
		{Path: "/guides/install", Audience: analytics.AI, Verdict: view.NotEnoughData, Before: 12,
			Reason: "12.0 visitors a day before the merge, 20 are needed"},
		{Path: "/guides/errors", Audience: analytics.Human, Verdict: view.NoClearChange, Before: 64, Actual: 69,
			Expected: 65, Change: .06, Low: -.06, High: .2, Placebos: 34},
		{Path: "/guides/errors", Audience: analytics.AI, Verdict: view.FewerReaders, Before: 41, Actual: 24,
			Expected: 42, Change: -.43, Low: -.6, High: -.21,
			Reason: "only 9 untouched pages have 20 visitors a day, a comparison needs 19: the page is compared " +
				"with its own weekdays and trend, which is less certain"},
	}
	for i := range effects {
		e := &effects[i]
		for d := merged - 28; e.Verdict != view.NotEnoughData && d < Today; d++ {
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
	return []view.Outcome{
		{Merge: view.Merge{Project: project, Link: link + "412", Title: "Examples for the guides", At: merged.Time(),
			Pages: []string{"/guides/install", "/guides/errors"}}, Effects: effects},
		{Merge: view.Merge{Project: project, Link: link + "409", Title: "Fix the build", At: (merged - 2).Time(),
			Problem: "no page among 2 changed files; pages: in the front matter of a prompt names pages"}},
		{Merge: view.Merge{Project: project, Link: "https://git.example.com/pull/7", Title: "Elsewhere",
			Problem: "it is not known whether it was merged: git.example.com cannot be asked"}},
	}
}
